"""The caller of a frame: the documents' examples run instruction by instruction, each kind of rule, and hostile rules.

Strategy: machines are simulated here from the documents' listings, so that the caller's registers are known before the
rules are applied. All other values are worked out by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import unwindkit
from hypothesis import given
from hypothesis import strategies as st
from unwindkit import RaState, RegisterRule, RuleKind, UnwindTable
from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.converters.rules import CfaKind
from unwindkit.converters.table.model import NO_FLAGS, CfaRule, Function, FunctionFlag, Row, table_of
from unwindkit.converters.walk.backtrace import walk_frames
from unwindkit.converters.walk.caller import Caller, Frame, WalkEnd, caller_frame
from unwindkit.testing import unwind_tables

from ..examples import cases
from ..support.handmade import NO_CFA, at, octets, on, row, sp

# --- the documents' machines ------------------------------------------------------------------------------------------


class Simulated:
    """Registers and memory, and what each instruction does to them."""

    def __init__(self, registers: dict[int, int], size: int) -> None:
        self.registers, self.size = registers, size
        self.memory: dict[int, int] = {}

    def add(self, target: int, source: int, number: int) -> None:
        self.registers[target] = self.registers[source] + number

    def store(self, register: int, base: int, offset: int) -> None:
        self.memory[self.registers[base] + offset] = self.registers[register]

    def load(self, register: int, base: int, offset: int) -> None:
        self.registers[register] = self.memory[self.registers[base] + offset]

    def read(self, address: int, size: int) -> int:
        assert size == self.size
        return self.memory[address]


def test_cfi_introduction_foo_instruction_by_instruction() -> None:
    """Figure 63: foo's prologue, a body that changes each register that foo saves, and the epilogue."""
    table = unwindkit.from_debug_frame(octets(cases.M88000_DEBUG_FRAME), cases.M88000)
    # "Architecture ABI committee specifies stack pointer (R7) is the same as CFA".
    table = replace(table, architecture=replace(table.architecture, stack_pointer=7))
    machine = Simulated({0: 0, 1: 0x4444, 2: 2, 3: 3, 4: 0xC4, 5: 0xC5, 6: 0xC6, 7: 0x8000}, 4)
    program: dict[int, Callable[[], None]] = {
        0: lambda: machine.add(7, 7, -12),
        4: lambda: machine.store(1, 7, 8),
        8: lambda: machine.store(6, 7, 4),
        12: lambda: machine.add(6, 7, 0),
        16: lambda: machine.store(4, 6, 0),
        20: lambda: machine.registers.update({1: 0x1018, 2: 22, 4: 0xBAD}),
        64: lambda: machine.load(4, 6, 0),
        68: lambda: machine.load(6, 7, 4),
        72: lambda: machine.load(1, 7, 8),
        76: lambda: machine.add(7, 7, 12),
    }
    for offset in range(0, 84, 4):
        caller = caller_frame(table, Frame(cases.M88000_FOO + offset, machine.registers), machine.read)
        assert caller.cfa == 0x8000
        assert caller.frame is not None
        # R1 to R3 are undefined.
        expected = {0: 0, 4: 0xC4, 5: 0xC5, 6: 0xC6, 7: 0x8000, 8: 0x4444}
        assert (caller.frame.pc, caller.frame.registers) == (0x4444, expected)
        assert caller.frame.is_after_call
        program.get(offset, lambda: None)()


RISCV_SP, RISCV_RA, RISCV_S1 = 2, 1, 9


def riscv_table() -> UnwindTable:
    return unwindkit.from_eh_frame(octets(cases.RISCV_EH_FRAME), 0, "riscv64")


def test_riscv_stack_of_four_functions_instruction_by_instruction() -> None:
    """foo_0 calls foo_1, that foo_2, that foo_3; main called foo_0 and is not described. foo_3 is walked from each of
    its instructions; the call in foo_N is at 4 and returns to 0xc (section 3's listing)."""
    table = riscv_table()
    machine = Simulated({RISCV_SP: 0x7000, RISCV_RA: 0x99990, RISCV_S1: 5}, 8)
    starts = [0x3C, 0x28, 0x14]
    for start in starts:
        machine.add(RISCV_SP, RISCV_SP, -16)
        machine.store(RISCV_RA, RISCV_SP, 8)
        machine.registers[RISCV_RA] = start + 0xC
    program: dict[int, Callable[[], None]] = {
        0x00: lambda: machine.add(RISCV_SP, RISCV_SP, -16),
        0x02: lambda: machine.store(RISCV_RA, RISCV_SP, 8),
        0x04: lambda: machine.registers.update({RISCV_RA: 0x8}),  # auipc
        0x08: lambda: machine.registers.update({RISCV_RA: 0xC}),  # jalr
        0x0E: lambda: machine.load(RISCV_RA, RISCV_SP, 8),
        0x10: lambda: machine.add(RISCV_SP, RISCV_SP, 16),
    }
    for pc in cases.RISCV_TABLE_1:
        found = walk_frames(Frame(pc, machine.registers), lambda frame: caller_frame(table, frame, machine.read))
        assert [one.frame.pc for one in found.frames] == [pc, *(start + 0xC for start in reversed(starts)), 0x99990]
        assert [one.cfa for one in found.frames] == [0x6FD0, 0x6FE0, 0x6FF0, 0x7000, None]
        assert [one.frame.registers[RISCV_SP] for one in found.frames[1:]] == [0x6FD0, 0x6FE0, 0x6FF0, 0x7000]
        assert {one.frame.registers[RISCV_S1] for one in found.frames} == {5}
        assert [one.source for one in found.frames] == ["registers", *[".eh_frame"] * 4]
        assert found.end is WalkEnd.NO_FUNCTION
        program.get(pc, lambda: None)()


def test_rules_of_sframe_and_breakpad_give_the_same_callers() -> None:
    """A frame pointer prologue of x86-64: push, mov, and the body. SFrame and Breakpad have no further registers."""
    ra, fp = at(16, -8), at(6, -16)
    rows = (row(0, sp(8), ra), row(1, sp(16), fp, ra), row(4, on(6, 16), fp, ra), row(9, sp(8), ra))
    table = table_of(ARCHITECTURES["x86_64"], [Function(0x1000, 10, rows, return_column=16)])
    sframe, refused = unwindkit.to_sframe(table)
    text, also_refused = unwindkit.to_stack_cfi(table)
    assert not len(refused)
    assert not len(also_refused)
    tables = [table, unwindkit.from_sframe(sframe), unwindkit.from_stack_cfi(text, "x86_64")]
    memory = {0x7008: 0x2222, 0x7000: 0x7100}
    for offset, registers in (
        (0, {7: 0x7008, 6: 0x7100}),
        (1, {7: 0x7000, 6: 0x7100}),
        (4, {7: 0x6000, 6: 0x7000}),
        (9, {7: 0x7008, 6: 0x7100}),
    ):
        frame = Frame(0x1000 + offset, registers | {3: 33, 16: 0x1000 + offset})
        for one, kept, saved in zip(tables, (None, (6,), None), ({3: 33}, {}, {3: 33}), strict=True):
            caller = caller_frame(one, frame, lambda address, _: memory[address], kept=kept)
            expected = Frame(0x2222, {7: 0x7010, 6: 0x7100, 16: 0x2222} | saved, True)
            assert caller == Caller(0x7010, expected, source=one.source)


# --- kinds of rules ---------------------------------------------------------------------------------------------------

RBX, RBP, RSP, R12, RIP = 3, 6, 7, 12, 16
MEMORY = {0x7008: 0x2222, 0x7000: 0x33, 0x6FF8: 0x44}
REGISTERS = {RBX: 1, RBP: 0x6FE8, RSP: 0x7008, R12: 12, 0: 100}


SP_8 = sp(8)


def rule(register: int, kind: RuleKind, value: int | bytes = 0) -> RegisterRule:
    return RegisterRule(register, kind, value)


def caller_by(
    *registers: RegisterRule,
    cfa: CfaRule = SP_8,
    architecture: str = "x86_64",
    state: RaState = RaState.PLAIN,
    values: Mapping[int, int] = REGISTERS,
    flags: FunctionFlag = NO_FLAGS,
    memory: Mapping[int, int] = MEMORY,
    **options: int,
) -> Caller:
    """The caller of a frame at 0x1004 in the one function 0x1000..0x1010."""
    known = ARCHITECTURES[architecture]
    assert known.return_address is not None
    rows = (Row(0, cfa, registers, state),)
    table = table_of(known, [Function(0x1000, 0x10, rows, return_column=known.return_address, flags=flags)])
    frame = Frame(0x1004 + options.get("load_bias", 0), values)
    return caller_frame(table, frame, lambda address, _: memory[address], **options)


@pytest.mark.parametrize(
    ("given_rule", "expected"),
    [
        (rule(RBX, RuleKind.OFFSET, -16), 0x33),
        (rule(RBX, RuleKind.VAL_OFFSET, -16), 0x7000),
        (rule(RBX, RuleKind.REGISTER, R12), 12),
        (rule(RBX, RuleKind.SAME_VALUE), 1),
        (rule(RBX, RuleKind.EXPRESSION, octets("40 1c")), 0x44),  # CFA, lit16, minus: 0x7000; see below
        (rule(RBX, RuleKind.VAL_EXPRESSION, octets("40 1c")), 0x7000),
        (rule(RBX, RuleKind.VAL_EXPRESSION, octets("80 00")), 0x1004),  # breg16 0: the PC
        (rule(RBX, RuleKind.UNSPECIFIED), 1),
        (rule(RBX, RuleKind.ARCHITECTURAL), 1),
        (rule(RBX, RuleKind.UNDEFINED), None),
        (rule(RBX, RuleKind.OFFSET, -0x100), None),  # not in memory
        (rule(RBX, RuleKind.REGISTER, 14), None),  # not known
        (rule(0, RuleKind.SAME_VALUE), None),  # of another register: rbx keeps its value
    ],
)
def test_a_register_by_its_rule(given_rule: RegisterRule, expected: int | None) -> None:
    memory = MEMORY | ({0x7000: 0x44} if given_rule.kind is RuleKind.EXPRESSION else {})
    caller = caller_by(given_rule, at(RIP, -8), memory=memory)
    assert caller.cfa == 0x7010
    assert caller.frame is not None
    assert caller.frame.pc == 0x2222
    assert caller.frame.registers.get(RBX) == (1 if given_rule.register == 0 else expected)
    assert caller.frame.registers.get(0) == (100 if given_rule.register == 0 else None)
    # Without rules: callee-saved registers keep their values, SP is the CFA.
    assert {number: caller.frame.registers[number] for number in (RBP, RSP, R12, RIP)} == {
        RBP: 0x6FE8, RSP: 0x7010, R12: 12, RIP: 0x2222,
    }  # fmt: skip


def test_cfa_by_an_expression_and_by_another_register() -> None:
    by_expression = CfaRule(CfaKind.EXPRESSION, 0, octets("76 28"))  # breg6 40
    for cfa in (by_expression, on(RBP, 0x28)):
        found = caller_by(at(RIP, -8), cfa=cfa)
        assert (found.cfa, found.frame is not None and found.frame.pc) == (0x7010, 0x2222)


def test_a_rule_for_the_stack_pointer_wins_over_the_cfa() -> None:
    found = caller_by(at(RIP, -8), rule(RSP, RuleKind.VAL_OFFSET, 8)).frame
    assert found is not None
    assert found.registers[RSP] == 0x7018


def test_load_bias_moves_pcs_only() -> None:
    found = caller_by(at(RIP, -8), load_bias=0x555000)
    assert (found.cfa, found.frame is not None and found.frame.pc) == (0x7010, 0x2222)


def test_x32_saves_registers_of_eight_bytes_at_addresses_of_four() -> None:
    """The sum wraps around at 32 bits, too: the CFA is 8, and the return address at 0."""
    read: list[tuple[int, int]] = []

    def memory(address: int, size: int) -> int:
        read.append((address, size))
        return 0x2222

    rows = (row(0, sp(16), at(RBX, -16), at(RIP, -8)),)
    table = table_of(ARCHITECTURES["x32"], [Function(0x1000, 0x10, rows, return_column=16)])
    found = caller_frame(table, Frame(0x1004, {RSP: 0xFFFF_FFF8, RBX: 1}), memory)
    assert (found.cfa, found.frame) == (8, Frame(0x2222, {RBX: 0x2222, RSP: 8, RIP: 0x2222}, True))
    assert set(read) == {(0, 8), (0xFFFF_FFF8, 8)}


def test_the_cfa_of_s390x_is_160_above_the_stack_pointer() -> None:
    found = caller_by(rule(11, RuleKind.REGISTER, 16), cfa=on(15, 160), architecture="s390x", values=S390X)
    assert found.cfa == 0x80A0
    assert found.frame == Frame(0x3000, {15: 0x8000, 14: 0x3000, 11: 0xF0, 6: 66, 24: 0xF8}, True)


# r6, r11, r14, r15, f0 and f8; r0 is the callee's to use.
S390X = {0: 1, 6: 66, 11: 0x7777, 14: 0x3000, 15: 0x8000, 16: 0xF0, 24: 0xF8}


@pytest.mark.parametrize("state", [RaState.PLAIN, RaState.SIGNED])
@pytest.mark.parametrize(
    ("stored", "bits", "expected"),
    [
        (0x002A_5555_5555_0010, None, 0x5555_5555_0010),
        (0xFF2A_5555_5555_0010, None, 0x5555_5555_0010),
        (0x012A_F000_0000_1230, None, 0xF000_0000_1230),
        (0x00AA_8000_1234_5678, None, 0xFFFF_8000_1234_5678),  # bit 55: the kernel's half
        (0x007F_FFFF_FFFF_FFF0, 0x007F_FF80_0000_0000, 0x007F_FFFF_FFF0 & 0x7F_FFFF_FFFF),  # addresses of 39 bits
    ],
)
def test_signatures_of_return_addresses_are_stripped(
    state: RaState, stored: int, bits: int | None, expected: int
) -> None:
    """The same without a state: STACK CFI has none."""
    options = {} if bits is None else {"signature_bits": bits}
    found = caller_by(
        at(30, -8), at(29, -16), cfa=on(31, 16), architecture="aarch64", state=state,
        values={31: 0x8000, 29: 0x9000, 30: 5, 19: 19, 1: 1}, memory={0x8008: stored, 0x8000: 0x9100}, **options,
    )  # fmt: skip
    assert found.frame == Frame(expected, {31: 0x8010, 29: 0x9100, 30: expected, 19: 19}, True)


def test_a_return_address_without_a_rule_is_in_its_register() -> None:
    found = caller_by(cfa=on(31, 0), architecture="aarch64", values={31: 0x8000, 30: 0x4000})
    assert found.frame == Frame(0x4000, {31: 0x8000, 30: 0x4000}, True)


def test_thumb_bit_is_not_part_of_the_pc() -> None:
    found = caller_by(cfa=on(13, 0), architecture="arm", values={13: 0x8000, 14: 0x4001})
    assert found.frame is not None
    assert found.frame.pc == 0x4000


def test_pc_after_a_signal_frame_is_looked_up_as_it_is() -> None:
    """A call may be a function's last instruction; the instruction that a signal interrupted may be its first."""
    rows = (row(0, sp(8), at(RIP, -8)),)
    for flags, expected in ((NO_FLAGS, 0x221F), (FunctionFlag.SIGNAL_FRAME, 0x2220)):
        found = caller_by(at(RIP, -8), flags=flags, memory={0x7008: 0x2220})
        assert found.frame is not None
        assert found.is_signal_frame is bool(flags)
        assert found.frame.lookup_pc == expected
        here = table_of(ARCHITECTURES["x86_64"], [Function(0x2220, 4, rows, return_column=16)])
        following = caller_frame(here, found.frame, lambda *_: 1)
        assert following.end is (None if flags else WalkEnd.NO_FUNCTION)


# --- why a walk ends --------------------------------------------------------------------------------------------------

RA = [at(RIP, -8)]
ENDS = [
    (WalkEnd.OUTERMOST, "", [rule(RIP, RuleKind.UNDEFINED)], {}),
    (WalkEnd.OUTERMOST, "", [rule(RIP, RuleKind.UNDEFINED)], {"cfa": NO_CFA}),
    (WalkEnd.NO_CFA, "", RA, {"cfa": NO_CFA}),
    (WalkEnd.UNKNOWN_REGISTER, "register 13", RA, {"cfa": on(13, 8)}),
    (WalkEnd.UNKNOWN_REGISTER, "register 14", [rule(RIP, RuleKind.REGISTER, 14)], {}),
    (WalkEnd.NO_MEMORY, "8 bytes at 0x7010", [at(RIP, 0)], {}),
    (WalkEnd.NO_MEMORY, "8 bytes at 0xfffffffffffffff0", RA, {"values": {RSP: (1 << 64) - 16}}),
    (WalkEnd.NO_MEMORY, "8 bytes at 0x0", RA, {"cfa": CfaRule(CfaKind.EXPRESSION, 0, octets("30 06"))}),
    (WalkEnd.NO_RETURN_ADDRESS, "", [], {}),
    (WalkEnd.NULL_RETURN_ADDRESS, "", RA, {"memory": {0x7008: 0}}),
    *(
        (WalkEnd.BAD_EXPRESSION, None, RA, {"cfa": CfaRule(CfaKind.EXPRESSION, 0, octets(code))})
        for code in (
            "2f fdff",  # skip -3: to itself
            "31 12 28 fcff",  # lit1, dup, bra -4: to dup
            "22",  # plus on an empty stack
            "",  # nothing
            "77",  # breg7 without its operand
            "30 30 1b",  # lit0, lit0, div
            "9c",  # call_frame_cfa
            "ff",  # no operation
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize(("end", "detail", "registers", "options"), ENDS)
def test_why_there_is_no_caller(
    end: WalkEnd, detail: str | None, registers: list[RegisterRule], options: dict[str, Any]
) -> None:
    found = caller_by(*registers, **options)
    assert (found.frame, found.end) == (None, end)
    if detail is not None:
        assert found.detail == detail


def test_pcs_without_a_row() -> None:
    table = table_of(ARCHITECTURES["x86_64"], [Function(0x1000, 0x10, (row(4, sp(8), at(16, -8)),), return_column=16)])
    ends = {pc: caller_frame(table, Frame(pc, REGISTERS), lambda *_: 1).end for pc in (0xFFF, 0x1003, 0x1004, 0x1010)}
    assert ends == {
        0xFFF: WalkEnd.NO_FUNCTION, 0x1003: WalkEnd.NO_ROW, 0x1004: None, 0x1010: WalkEnd.NO_FUNCTION,
    }  # fmt: skip
    assert caller_frame(table, Frame(0, {}, True), lambda *_: 1).end is WalkEnd.NO_FUNCTION


def test_a_stack_that_loops_and_one_that_never_ends() -> None:
    """A CFA that does not move, and return addresses that repeat: at most `limit` frames in any case."""
    table = table_of(ARCHITECTURES["x86_64"], [Function(0x1000, 0x10, (row(0, sp(0), at(16, -8)),), return_column=16)])
    found = walk_frames(Frame(0x1005, {7: 0x7000}), lambda one: caller_frame(table, one, lambda *_: 0x1005))
    assert (found.end, len(found.frames)) == (WalkEnd.LOOP, 1)
    assert found.sentence == "the caller's PC and CFA are those of an earlier frame: PC 0x1005"
    table = table_of(ARCHITECTURES["x86_64"], [Function(0x1000, 0x10, (row(0, sp(8), at(16, -8)),), return_column=16)])
    found = walk_frames(Frame(0x1005, {7: 0x7000}), lambda one: caller_frame(table, one, lambda *_: 0x1005), 50)
    assert (found.end, len(found.frames)) == (WalkEnd.LIMIT, 50)


@given(table=unwind_tables(), data=st.data())
def test_any_table_gives_a_caller_or_a_reason(table: UnwindTable, data: st.DataObject) -> None:
    """Drawn rows with drawn registers, over memory that is readable in parts."""
    registers = data.draw(st.dictionaries(st.integers(0, 40), st.integers(0, (1 << 64) - 1), max_size=20))

    def memory(address: int, size: int) -> int:
        if address % 5 == 0:
            raise LookupError(address)
        return address % (1 << 8 * size)

    for function in table:
        for one in function.rows[:3]:
            found = caller_frame(table, Frame((function.start + one.offset) % (1 << 64), registers), memory)
            assert (found.frame is None) == (found.end is not None)
