"""Every worked example of the five documents that this project implements, through public names only.

Strategy: one test per example, named by document and section; the bytes and texts are in cases.py. Where a document is
wrong or unfinished, its test says so. What only shows commands or describes options of compilers (RISC-V, 2.1 and 2.4)
has no test. Documents: SFrame Version 2 (errata 1); Breakpad, Symbol Files; DWARF, Other
Debugging Information; Call Frame Information (CFI), an introduction; Stack Unwinding by CFI (RISC-V), another one.
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Callable

import numpy as np
import pytest
import unwindkit
from unwindkit import CfaKind, ParseError, RuleKind, Section, UnwindTable
from unwindkit.schemas import engine, sframe
from unwindkit.schemas.breakpad import records as breakpad
from unwindkit.schemas.breakpad.files import build_record, parse_record, read_records
from unwindkit.schemas.breakpad.rules import check_records
from unwindkit.schemas.text_records import Record

from . import cases


def octets(text: str) -> bytes:
    """Bytes written as hex; what follows `#` on a line is a comment."""
    return bytes.fromhex(" ".join(line.partition("#")[0] for line in text.splitlines()))


def rules_at(table: UnwindTable, pc: int) -> tuple[str, dict[int, str]]:
    """The CFA and the rules in force at a PC, in the documents' notation: s, u, cN, vN (CFA + N), rN."""
    found = unwindkit.find_rows(table, [pc])
    assert found.row[0] >= 0
    row = table.row(int(found.row[0]))
    letters = {RuleKind.SAME_VALUE: "s", RuleKind.UNDEFINED: "u", RuleKind.UNSPECIFIED: "u"}
    rules = {}
    numbered = {RuleKind.OFFSET: "c{:+d}", RuleKind.VAL_OFFSET: "v{:+d}", RuleKind.REGISTER: "r{}"}
    for one in row.registers:
        rules[one.register] = letters[one.kind] if one.kind in letters else numbered[one.kind].format(one.value)
    assert row.cfa.kind is CfaKind.REGISTER
    return f"R{row.cfa.register}+{row.cfa.value}", rules


def memory_of(words: dict[int, int]) -> Callable[[int, int], int]:
    """A reader of memory that has these words only."""
    return lambda address, _: words[address]


# --- Call Frame Information (CFI): "Example Demonstration" ------------------------------------------------------------


def test_cfi_introduction_table_of_foo() -> None:
    """Of the document's machine the rows of "CFI Table for foo". R7's rule is architectural: it has none in the bytes.

    The text takes R1's rule (undefined) for a sign that R1 is not used; it means that R1 is not preserved. It calls the
    rows at foo+8 and foo+12 the second and the third one; they are the third and the fourth.
    """
    table = unwindkit.from_debug_frame(octets(cases.M88000_DEBUG_FRAME), cases.M88000)
    function = table.function(0)
    assert (function.start, function.size, function.return_column) == (cases.M88000_FOO, 84, 8)
    rows = [line.split() for line in cases.M88000_ROWS.strip().splitlines()]
    assert [row.offset for row in function.rows] == [int(row[0]) for row in rows]
    for offset, cfa, *expected in rows:
        found, rules = rules_at(table, cases.M88000_FOO + int(offset))
        assert found == cfa
        assert [rules.get(register, "a") for register in range(9)] == expected


def test_cfi_introduction_call_frame_instruction_usage() -> None:
    """The steps of "Call Frame Instruction Usage" at a location between two rows. In step 3 an instruction is applied
    while L1 >= L2, so the rules of foo+20 hold up to foo+68. The document leaves this as an exercise."""
    table = unwindkit.from_debug_frame(octets(cases.M88000_DEBUG_FRAME), cases.M88000)
    assert rules_at(table, cases.M88000_FOO + 40) == rules_at(table, cases.M88000_FOO + 20)
    assert rules_at(table, cases.M88000_FOO + 67) != rules_at(table, cases.M88000_FOO + 68)
    outside = unwindkit.find_rows(table, [cases.M88000_FOO - 1, cases.M88000_FOO + 84])
    assert outside.function.tolist() == [-1, -1]


def test_cfi_introduction_bytes_come_back() -> None:
    """The same rows when `.debug_frame` is written again. Registers of any machine are numbers."""
    table = unwindkit.from_debug_frame(octets(cases.M88000_DEBUG_FRAME), cases.M88000)
    data, refusals = unwindkit.to_debug_frame(table)
    assert len(refusals) == 0
    assert unwindkit.from_debug_frame(data, cases.M88000).function(0).rows == table.function(0).rows


# --- Stack Unwinding by CFI (RISC-V) ----------------------------------------------------------------------------------


def riscv_table() -> UnwindTable:
    return unwindkit.from_eh_frame(octets(cases.RISCV_EH_FRAME), 0, "riscv64")


def test_riscv_introduction_section_3_table_1() -> None:
    table = riscv_table()
    for address, (cfa, ra) in cases.RISCV_TABLE_1.items():
        found, rules = rules_at(table, address)
        assert (found.replace("R2", "sp"), rules.get(1, "u")) == (cfa, ra)


def test_riscv_introduction_section_3_caller_of_foo_3() -> None:
    """At 0x04, CFA3 = SP3 + 16 is foo_2's SP, and the return address is at CFA3 - 8."""
    sp, (caller_sp, caller_pc) = 0x7000, step(riscv_table(), 0x04, 0x7000, memory_of({0x7008: 0x1C}))
    assert (caller_sp, caller_pc) == (sp + 16, 0x1C)


def step(table: UnwindTable, pc: int, sp: int, memory: Callable[[int, int], int]) -> tuple[int, int]:
    """The caller's SP and PC, by the rules at `pc`; the return address is saved there."""
    cfa, rules = rules_at(table, pc)
    caller_sp = sp + int(cfa.partition("+")[2])
    return caller_sp, memory(caller_sp + int(rules[1].removeprefix("c")), 8)


@pytest.mark.parametrize(
    ("interpreted", "listing"), [(False, cases.RISCV_READELF_WF), (True, cases.RISCV_READELF_ROWS)], ids=["-wf", "-wF"]
)
def test_riscv_introduction_section_4_listings_of_readelf(interpreted: bool, listing: str) -> None:
    """The text of the CIE and of foo_3. The document takes the 16 digits of a length for an extended length; readelf
    prints every length so."""
    chunks = unwindkit.dump_sections(
        octets(cases.RISCV_EH_FRAME), interpreted=interpreted, source="eh_frame", architecture="riscv64"
    )
    lines = [line.rstrip() for line in b"".join(chunks).decode().splitlines()]
    expected = listing.strip().splitlines()
    start = lines.index(expected[0])
    assert lines[start : start + len(expected)] == expected
    assert sum(" FDE " in line for line in lines) == 4


def test_riscv_introduction_section_5_directives() -> None:
    """foos.s has instructions, which only an assembler can encode: here each is replaced by as many bytes as it has in
    the listing of section 3."""
    text, count = re.subn(
        r"(?m)^        (addi|sd|nop|ld|jr) .*|^        nop$", "        .skip 2", cases.RISCV_DIRECTIVES
    )
    table = unwindkit.from_directives(
        text.replace("call    unwind_by_backtrace", ".skip 8").replace(".align", ".p2align"), "riscv64"
    )
    assert count == 6
    assert table.function(0).rows == riscv_table().function(0).rows
    written, _ = unwindkit.to_directives(table)
    ours, theirs = (
        re.findall(r"\.cfi_(?!startproc|endproc)\w+ .*", one) for one in (as_text(written), cases.RISCV_DIRECTIVES)
    )
    assert [re.sub(r" +", " ", one) for one in ours] == [re.sub(r" +", " ", one) for one in theirs]


def as_text(text: bytes | str) -> str:
    return text.decode() if isinstance(text, bytes) else text


@pytest.mark.parametrize("without_foo_2", [False, True])
def test_riscv_introduction_section_6_backtrace(without_foo_2: bool) -> None:
    """The functions from foo_3 to main are walked; without the FDE of foo_2 the walk ends in foo_2."""
    frames = list(cases.RISCV_BACKTRACE)
    first = cases.RISCV_BACKTRACE["foo_3"] - 8
    functions = [one for one in riscv_table() if not without_foo_2 or one.start != 0x14]
    # The program's functions have 16 bytes each: compressed, without the relocations of the object.
    table = unwindkit.table_of(
        unwindkit.ARCHITECTURES["riscv64"],
        [replace_start(one, first + one.start // 0x14 * 16) for one in functions],
    )
    stack = {0x7008 + 16 * depth: cases.RISCV_BACKTRACE[name] for depth, name in enumerate(frames[1:])}
    pc, sp, found = cases.RISCV_BACKTRACE["foo_3"], 0x7000, ["foo_3"]
    while unwindkit.find_rows(table, [pc - 1]).function[0] >= 0:
        sp, pc = step(table, pc - 1, sp, memory_of(stack))
        found.append(next(name for name, address in cases.RISCV_BACKTRACE.items() if address == pc))
    assert found == (["foo_3", "foo_2"] if without_foo_2 else frames)


def replace_start(function: unwindkit.Function, start: int) -> unwindkit.Function:
    return unwindkit.Function(start=start, size=16, rows=function.rows, return_column=function.return_column)


# --- Breakpad, Symbol Files -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "record"),
    [
        (
            "MODULE Linux x86 D3096ED481217FD4C16B29CD9BC208BA0 firefox-bin",
            breakpad.Module("Linux", "x86", "D3096ED481217FD4C16B29CD9BC208BA0", "firefox-bin"),
        ),
        (
            "FILE 2 /home/jimb/mc/in/browser/app/nsBrowserApp.cpp",
            breakpad.File(2, "/home/jimb/mc/in/browser/app/nsBrowserApp.cpp"),
        ),
        # These examples have a line break inside a name, which stands for a space.
        (
            "INLINE_ORIGIN 2 nsQueryInterfaceWithError::operator()(nsID const&, void**) const",
            breakpad.InlineOrigin(2, "nsQueryInterfaceWithError::operator()(nsID const&, void**) const"),
        ),
        (
            "FUNC m c184 30 0 nsQueryInterfaceWithError::operator()(nsID const&, void**) const",
            breakpad.Func(True, 0xC184, 0x30, 0, "nsQueryInterfaceWithError::operator()(nsID const&, void**) const"),
        ),
        ("INLINE 0 10 3 4 d30 2a fa1 b", breakpad.Inline(0, 10, 3, 4, ((0xD30, 0x2A), (0xFA1, 0xB)))),
        ("c184 7 59 4", breakpad.Line(0xC184, 7, 59, 4)),
        ("PUBLIC m 2160 0 Public2_1", breakpad.Public(True, 0x2160, 0, "Public2_1")),
        (
            "STACK WIN 4 2170 14 1 0 0 0 0 0 1 $eip 4 + ^ = $esp $ebp 8 + = $ebp $ebp ^ =",
            breakpad.StackWin(4, 0x2170, 0x14, 1, 0, 0, 0, 0, 0, 1, "$eip 4 + ^ = $esp $ebp 8 + = $ebp $ebp ^ ="),
        ),
        (
            "STACK CFI INIT 804c4b0 40 .cfa: $esp 4 + $eip: .cfa 4 - ^",
            breakpad.StackCfiInit(0x804C4B0, 0x40, ((".cfa", "$esp 4 +"), ("$eip", ".cfa 4 - ^"))),
        ),
        (
            "STACK CFI 804c4b1 .cfa: $esp 8 + $ebp: .cfa 8 - ^",
            breakpad.StackCfi(0x804C4B1, ((".cfa", "$esp 8 +"), ("$ebp", ".cfa 8 - ^"))),
        ),
    ],
    ids=lambda value: value.split(" ")[0] if isinstance(value, str) else "",
)
def test_breakpad_example_of_each_record(line: str, record: Record) -> None:
    assert parse_record(line.encode() + b"\n") == record
    assert build_record(record) == line.encode() + b"\n"


def records_of(text: str) -> list[tuple[int, Record]]:
    return list(read_records(io.BytesIO(text.encode())))


def test_breakpad_inline_records_nest_levels() -> None:
    """Levels 0, 1, 0, with ranges inside those of the parents; the document leaves the fields out."""
    right = (
        "FILE 0 a\nINLINE_ORIGIN 0 f\nFUNC 10 40 0 g\nINLINE 0 1 0 0 10 10\nINLINE 1 2 0 0 14 4\nINLINE 0 3 0 0 30 8\n"
    )
    assert list(check_records(records_of(right))) == []
    wrong = right.replace("INLINE 1 2 0 0 14 4\n", "").replace("INLINE 0 3", "INLINE 1 3")
    assert "INLINE" in str(next(iter(check_records(records_of(wrong)))))


# Interpreting a `STACK WIN` record: a function with 8 bytes of local variables, 4 of saved registers, 12 of parameters,
# which has pushed 16 bytes of parameters for the function that it called.
STACK_WIN = "STACK WIN {type} 100 40 0 0 c 4 8 0 {program}\n"
PROGRAM = "4 1 $eip 4 + ^ = $esp $ebp 8 + = $ebp $ebp ^ ="


def stack_win(kind: int, program: str) -> breakpad.StackWin:
    record = parse_record(STACK_WIN.format(type=kind, program=program).encode())
    assert isinstance(record, breakpad.StackWin)
    return record


def test_breakpad_interpreting_stack_win_with_a_base_pointer() -> None:
    """frame_size is 8 + 4 + 16; the return address is at %esp + frame_size, %ebp at %esp + 16 + 4 - 8."""
    record = stack_win(0, "0 1")
    registers = {"$esp": 0x1000, "$ebp": 0x55}
    memory = memory_of({0x1000 + 28: 0xABC, 0x1000 + 12: 0x77})
    assert unwindkit.caller_by_stack_win(record, registers, memory, 16) == {
        "$eip": 0xABC,
        "$esp": 0x1000 + 28 + 4,
        "$ebp": 0x77,
    }


def test_breakpad_interpreting_stack_win_without_a_base_pointer() -> None:
    caller = unwindkit.caller_by_stack_win(
        stack_win(0, "0 0"), {"$esp": 0x1000, "$ebp": 0x55}, memory_of({0x1000 + 12: 0xABC}), 0
    )
    assert (caller["$eip"], caller["$esp"], caller.get("$ebp", 0x55)) == (0xABC, 0x1010, 0x55)


def test_breakpad_interpreting_stack_win_program() -> None:
    """The document's program is wrong: in `$eip 4 + ^ =` there is no variable to assign the value to. Its authors mean
    `$eip $ebp 4 + ^ =`, as in programs of Microsoft's compilers."""
    program = "$eip 4 + ^ = $esp $ebp 8 + = $ebp $ebp ^ ="
    registers, memory = {"$esp": 0x1000, "$ebp": 0x2000}, memory_of({0x2004: 0xABC, 0x2000: 0x77})
    with pytest.raises(ParseError):
        unwindkit.caller_by_stack_win(stack_win(4, f"1 {program}"), registers, memory)
    meant = stack_win(4, "1 $eip $ebp 4 + ^ = $esp $ebp 8 + = $ebp $ebp ^ =")
    caller = unwindkit.caller_by_stack_win(meant, registers, memory)
    assert caller == {"$eip": 0xABC, "$esp": 0x2008, "$ebp": 0x77}


def test_breakpad_interpreting_stack_win_variables() -> None:
    """.cbParams, .cbSavedRegs, .cbLocals, and .raSearchStart: %esp and the frame's size, 8 + 4 + 16 here."""
    program = "$eip .raSearchStart ^ = $esp .raSearchStart 4 + = $ebx .cbParams = $esi .cbSavedRegs = $edi .cbLocals ="
    caller = unwindkit.caller_by_stack_win(
        stack_win(4, f"1 {program}"), {"$esp": 0x1000, "$ebp": 0}, memory_of({0x101C: 0xABC}), 16
    )
    assert caller == {"$eip": 0xABC, "$esp": 0x1020, "$ebx": 12, "$esi": 4, "$edi": 8}


def test_breakpad_stack_win_prefers_frame_data() -> None:
    records = [stack_win(0, "0 0"), stack_win(4, "1 $eip $esp ^ ="), stack_win(3, "0 0")]
    assert unwindkit.stack_win_at(records, 0x120) is records[1]
    assert unwindkit.stack_win_at(records, 0x140) is None


def test_breakpad_stack_cfi_records_table_of_func() -> None:
    """The document gives INIT without a size, which its own form of the record requires: here it is that of the machine
    code, 0x17 bytes. It aligns the other records with several spaces, where there is one between fields."""
    text = cases.BREAKPAD_FUNC.replace("INIT 1000 ", "INIT 1000 17 ").replace("CFI      ", "CFI ")
    (found,) = unwindkit.rule_ranges(iter(records_of(text)))
    rows = list(unwindkit.rule_rows(found))
    assert [row.start - 0x1000 for row in rows] == list(cases.BREAKPAD_TABLE)
    assert rows[-1].end == 0x1017
    for row, (offset, is_saved) in zip(rows, cases.BREAKPAD_TABLE.values(), strict=True):
        memory = memory_of({0x5000 + offset: 0xABC, 0x5000 + offset - 4: 0x33})
        caller = unwindkit.evaluate_rules(row.rules, {"$sp": 0x5000, "$r0": 0x22}, memory, 4).values
        assert (caller[".cfa"], caller[".ra"]) == (0x5000 + offset, 0xABC)
        assert caller.get("$r0", 0x22) == (0x33 if is_saved else 0x22)


def test_breakpad_stack_cfi_records_func_step_by_step() -> None:
    """The machine code of `func` runs, and before each instruction the rules give the caller's r0, sp and pc."""
    text = cases.BREAKPAD_FUNC.replace("INIT 1000 ", "INIT 1000 17 ").replace("CFI      ", "CFI ")
    (found,) = unwindkit.rule_ranges(iter(records_of(text)))
    memory = {0x5000: 0xABC}  # the return address, at sp
    state = {"sp": 0x5000, "r0": 0x22}

    def push_x() -> None:
        state["sp"] -= 4
        memory[state["sp"]] = 0x99

    effects: dict[int, Callable[[], object]] = {
        0: lambda: state.update(sp=state["sp"] - 16),
        1: lambda: memory.update({state["sp"] + 12: state["r0"]}),
        2: lambda: state.update(r0=0x44),  # stuff that does not affect the stack
        10: push_x,
        20: lambda: state.update(r0=memory[state["sp"] + 16]),
        21: lambda: state.update(sp=state["sp"] + 20),
    }
    for offset in range(23):
        row = next(row for row in unwindkit.rule_rows(found) if row.start <= 0x1000 + offset < row.end)
        registers = {"$sp": state["sp"], "$r0": state["r0"]}
        caller = unwindkit.caller_registers(
            row.rules, registers, lambda address, _: memory[address], 4, stack_pointer="$sp", callee_saved=("$r0",)
        ).values
        # The CFA of this machine is where the return address is; a `pc = *sp; sp += 4` returns.
        assert (caller[".ra"], caller["$sp"], caller["$r0"]) == (0xABC, 0x5000, 0x22)
        effects.get(offset, lambda: None)()


def test_breakpad_stack_cfi_records_first_example() -> None:
    """The first example has a rule for $eip and none for .ra, without which, as the text says later, walkers ignore it.
    With the name that the text asks for, both rows give the caller of a function that has pushed %ebp."""
    text = (
        "STACK CFI INIT 804c4b0 40 .cfa: $esp 4 + $eip: .cfa 4 - ^\nSTACK CFI 804c4b1 .cfa: $esp 8 + $ebp: .cfa 8 - ^\n"
    )
    (found,) = unwindkit.rule_ranges(iter(records_of(text)))
    registers, memory = {"$esp": 0x1000, "$ebp": 0x55}, memory_of({0x1000: 0x77, 0x1004: 0xABC})
    last = list(unwindkit.rule_rows(found))[-1]
    with pytest.raises(ParseError, match=r"\.ra"):
        unwindkit.caller_registers(last.rules, registers, memory, 4, stack_pointer="$esp")
    (found,) = unwindkit.rule_ranges(iter(records_of(text.replace("$eip:", ".ra:"))))
    last = list(unwindkit.rule_rows(found))[-1]
    caller = unwindkit.caller_registers(last.rules, registers, memory, 4, stack_pointer="$esp").values
    assert (caller[".ra"], caller["$esp"], caller["$ebp"]) == (0xABC, 0x1008, 0x77)


def test_breakpad_stack_cfi_undef() -> None:
    caller = unwindkit.evaluate_rules(
        {".cfa": "$sp", ".ra": ".cfa ^", "$r1": ".undef"}, {"$sp": 8}, memory_of({8: 1}), 4
    )
    assert caller.undefined == {"$r1"} or "$r1" in caller.undefined


# --- DWARF, Other Debugging Information -------------------------------------------------------------------------------


def line_table(program: str, maximum: int = 1, default_is_stmt: int = 1) -> unwindkit.LineTable:
    header = cases.LINE_HEADER.format(maximum=f"{maximum:02x}", default_is_stmt=f"{default_is_stmt:02x}")
    body = octets(header) + octets(program)
    return unwindkit.from_debug_line(len(body).to_bytes(4, "little") + body)


SET_ADDRESS = "00 09 02 0010000000000000"  # DW_LNE_set_address 0x1000
END_SEQUENCE = "00 01 01"


def test_dwarf_special_opcodes_table() -> None:
    """Every opcode from 13 to 255 adds the line advance and the operation advance of its column and row, and is the one
    that is written for them. The text calls 12 the typical opcode_base; it is the highest standard opcode. It says that
    255 - line_base + 1 need not be a multiple of line_range; opcode_base is meant."""
    # advance_line 999, to line 1000, and a row from which the first special opcode counts.
    program = f"{SET_ADDRESS} 03 e707 01 {bytes(range(13, 256)).hex()} 02 01 {END_SEQUENCE}"
    table = line_table(program)
    lines = table.rows.line[:-1].astype(np.int64)
    addresses = table.rows.address.astype(np.int64)
    expected = [(opcode, -3 + (opcode - 13) % 12, (opcode - 13) // 12) for opcode in range(13, 256)]
    assert np.diff(lines).tolist() == [line for _, line, _ in expected]
    assert np.diff(addresses[:-1]).tolist() == [advance for _, _, advance in expected]
    assert expected[0] == (13, -3, 0)
    assert expected[-1] == (255, -1, 20)
    debug_line, _ = unwindkit.to_debug_line(table)
    # DW_LNS_copy is as short as opcode 16, which adds nothing.
    assert bytes(1 if opcode == 16 else opcode for opcode in range(13, 256)) in debug_line


@pytest.mark.parametrize(("op_index", "advance"), [(0, 1), (1, 3), (2, 17), (3, 7)])
def test_dwarf_special_opcodes_of_vliw_machines(op_index: int, advance: int) -> None:
    """new address = address + minimum_instruction_length * ((op_index + advance) / 4), new op_index the remainder."""
    first, second = (13 + 3 + 12 * one for one in (op_index, advance))  # line advance 0
    table = line_table(f"{SET_ADDRESS} {first:02x} {second:02x} 02 08 {END_SEQUENCE}", maximum=4)
    row = table.row(1)
    assert (row.address, row.op_index) == (0x1000 + (op_index + advance) // 4, (op_index + advance) % 4)


@pytest.mark.parametrize("default_is_stmt", [0, 1])
def test_dwarf_state_machine_registers(default_is_stmt: int) -> None:
    """The registers at the beginning of a sequence, and again after DW_LNE_end_sequence."""
    table = line_table(f"01 02 01 {END_SEQUENCE} 01 02 02 {END_SEQUENCE}", default_is_stmt=default_is_stmt)
    for row in (table.row(0), table.row(2)):
        assert (row.address, row.op_index, row.file, row.line, row.column) == (0, 0, 1, 1, 0)
        assert (row.isa, row.discriminator, int(row.flags)) == (0, 0, default_is_stmt)


def test_dwarf_const_add_pc() -> None:
    """It advances the address as special opcode 255 does, without a row."""
    table = line_table(f"{SET_ADDRESS} 08 01 ff 02 01 {END_SEQUENCE}")
    assert table.rows.address.tolist() == [0x1000 + 20, 0x1000 + 40, 0x1000 + 41]


def test_dwarf_file_names_and_define_file() -> None:
    """Names that a program defines are numbered after those of the header."""
    table = line_table(
        f"00 07 03 622e6300 00 00 00 {SET_ADDRESS} 04 02 01 02 01 {END_SEQUENCE}".replace("00 07 03", "00 08 03")
    )
    number, paths = unwindkit.paths_of(table)
    assert [paths[one] for one in number.tolist()] == [b"a.c", b"b.c"]
    assert unwindkit.find_lines(table, 0x1000)[0] == unwindkit.LineAt(b"b.c", 1, 0, 0)


# Texts of definitions, and wrong ones: there are no spaces in the parameter list or before it, and exactly one space
# before the definition, even before an empty one.
MACINFO = {
    "NAME(a,b) (a) + (b)": ("NAME(a, b) (a) + (b)", "NAME(a,b)  (a) + (b)", "NAME(a,b)(a) + (b)"),
    "NAME 1": ("NAME  1", " NAME 1", "1NAME 1"),
    "NAME ": ("NAME", "NAME  "),
}


@pytest.mark.parametrize(("text", "wrong"), [(text, wrong) for text, several in MACINFO.items() for wrong in several])
def test_dwarf_define_and_undefine_entries(text: str, wrong: str) -> None:
    """With the base source entry, and an entry for a command line option before it."""

    def sentences(definition: str) -> tuple[str, ...]:
        entries = b"\1\0OPTION 1\0\3\0\1\1\5" + definition.encode() + b"\0\2\6NAME\0\4\0"
        return unwindkit.check_macros(Section.of(".debug_macinfo", entries)).sentences()

    assert sentences(text) == ()
    assert len(sentences(wrong)) == 1


# --- SFrame, Version 2 (errata 1) -------------------------------------------------------------------------------------


def sframe_section(
    fde: str, fres: str, abi: int = 3, fixed_ra: int = -8, count: int = 1, order: str = "<", flags: int = 5
) -> bytes:
    """A section with one FDE, in the fields of "SFrame Header" and "SFrame FDE"; `fde` starts with the FRE count."""
    preamble = struct.pack(f"{order}HBB", 0xDEE2, 2, flags)  # sfp_magic, sfp_version, sfp_flags
    data, rest = octets(fres), octets(fde)
    header = struct.pack(f"{order}BbbBIIIII", abi, 0, fixed_ra, 0, 1, count, len(data), 0, 20)
    # sfde_func_start_address, sfde_func_size, sfde_func_start_fre_off, sfde_func_num_fres; then info, rep_size, padding
    return preamble + header + struct.pack(f"{order}iIII", 0x1000, 0x40, 0, count) + rest + data


def rows(data: bytes, address: int = 0) -> list[tuple[int, str, dict[int, str]]]:
    """Offset, CFA and rules of each row of the only function."""
    table = unwindkit.from_sframe(data, address)
    start = table.function(0).start
    return [(row.offset, *rules_at(table, start + row.offset)) for row in table.function(0).rows]


ONE_FRE = "00 03 08"  # start 0; one offset of one byte, SP-based: CFA = SP + 8
PLAIN = "00 00 0000"  # info: ADDR1, PCINC; no repetition; padding


@pytest.mark.parametrize("order", ["<", ">"])
def test_sframe_preamble_and_header(order: str) -> None:
    """The structures of "SFrame Preamble" and "SFrame Header", at the offsets of their tables."""
    data = sframe_section(PLAIN, ONE_FRE, abi=3 if order == "<" else 1, order=order)
    assert data[:2].hex() == ("e2de" if order == "<" else "dee2")
    section = Section.of(".sframe", data, 0, "little" if order == "<" else "big")
    header, end = engine.parse(sframe.Header, section, 0, len(data))
    assert (end, header.version, header.flags) == (28, 2, 5)
    assert (header.cfa_fixed_ra_offset, header.num_fdes, header.fre_len, header.freoff) == (-8, 1, 3, 20)
    fde, end = engine.parse(sframe.FuncDescEntry, section, 28, len(data))
    assert (end, fde.func_start_address, fde.func_size, fde.func_num_fres) == (48, 0x1000, 0x40, 1)


def test_sframe_tables_of_numbers() -> None:
    """Versions, flags, ABI identifiers, FDE and FRE types, offset sizes. The text says that three ABIs are identified;
    the table has four, the last one since errata 1. The third version is that of a later document."""
    assert {one.name: one.value for one in sframe.SFRAME_VERSION if one < 3} == {"V1": 1, "V2": 2}
    flags = {"FDE_SORTED": 1, "FRAME_POINTER": 2, "FDE_FUNC_START_PCREL": 4}
    assert {str(one.name): one.value for one in sframe.SFRAME_F} == flags
    abis = ["AARCH64_ENDIAN_BIG", "AARCH64_ENDIAN_LITTLE", "AMD64_ENDIAN_LITTLE", "S390X_ENDIAN_BIG"]
    assert [(one.name, one.value) for one in sframe.SFRAME_ABI] == [(name, one + 1) for one, name in enumerate(abis)]
    assert [(one.name, one.value) for one in sframe.SFRAME_FDE_TYPE] == [("PCINC", 0), ("PCMASK", 1)]
    assert [(one.name, one.value) for one in sframe.SFRAME_FRE_TYPE] == [("ADDR1", 0), ("ADDR2", 1), ("ADDR4", 2)]
    assert [one.value for one in sframe.SFRAME_FRE_OFFSET] == [0, 1, 2]
    assert sframe.FRE_OFFSET_SIZES == {0: 1, 1: 2, 2: 4}


def test_sframe_flags_function_starts() -> None:
    """With the flag PCREL a start is relative to its field, which is at 28; without it, to the section."""
    starts = [
        unwindkit.from_sframe(sframe_section(PLAIN, ONE_FRE, flags=one), 0x400000).function(0).start for one in (5, 1)
    ]
    assert starts == [0x400000 + 28 + 0x1000, 0x400000 + 0x1000]


def test_sframe_fde_types_of_a_plt() -> None:
    """PCMASK, of 16 bytes as an AMD64 pltN entry: the FRE in force is found by PC % 16."""
    data = sframe_section("10 10 0000", "00 03 08  0b 03 10", count=2)  # 12 bytes CFA = SP + 8, then SP + 16
    start = unwindkit.from_sframe(data).function(0).start
    found = unwindkit.find_fres(data, [start + 10, start + 11, start + 16, start + 0x3F])
    assert found.fres.start.tolist() == [0, 11, 0, 11]
    table = unwindkit.from_sframe(data)
    assert [rules_at(table, start + one)[0] for one in (10, 11, 16, 0x3F)] == ["R7+8", "R7+16", "R7+8", "R7+16"]


@pytest.mark.parametrize(
    ("fretype", "second"), [(0, "80 03 10"), (1, "8000 03 10"), (2, "80000000 03 10")], ids=["ADDR1", "ADDR2", "ADDR4"]
)
def test_sframe_fre_types(fretype: int, second: str) -> None:
    """The start addresses of the three structures have 1, 2 and 4 bytes."""
    size = 1 << fretype
    data = bytearray(sframe_section(f"0{fretype} 00 0000", "00" * size + "03 08" + second, count=2))
    data[32:36] = struct.pack("<I", 0x100)  # sfde_func_size
    assert rows(bytes(data)) == [(0, "R7+8", {16: "c-8"}), (0x80, "R7+16", {16: "c-8"})]


@pytest.mark.parametrize(("info", "offsets"), [("05", "10 f0"), ("25", "1000 f0ff"), ("45", "10000000 f0ffffff")])
def test_sframe_fre_info_word_and_amd64(info: str, offsets: str) -> None:
    """Two offsets of 1, 2 and 4 bytes: CFA = SP + 16, FP = CFA - 16. RA is at the header's fixed offset."""
    assert rows(sframe_section(PLAIN, f"00 {info} {offsets}")) == [(0, "R7+16", {6: "c-16", 16: "c-8"})]
    # Bit 0 unset: the base register is FP.
    based = f"00 {int(info, 16) - 1:02x} {offsets}"
    assert rows(sframe_section(PLAIN, based)) == [(0, "R6+16", {6: "c-16", 16: "c-8"})]


def test_sframe_aarch64() -> None:
    """CFA = SP + 32, RA = CFA - 24, FP = CFA - 32; bit 7 of the info word marks a signed return address."""
    data = sframe_section("20 00 0000", "00 87 20 e8 e0", abi=2, fixed_ra=0)  # pauth_key B
    assert rows(data) == [(0, "R31+32", {29: "c-32", 30: "c-24"})]
    (function,) = unwindkit.from_sframe(data)
    assert function.rows[0].ra_state is unwindkit.RaState.SIGNED
    assert unwindkit.FunctionFlag.PAUTH_B_KEY in function.flags


def test_sframe_s390x() -> None:
    """The CFA's offset is stored as (offset - 160) / 8. RA and FP may be unchanged, or in a register, (16 << 1) | 1.
    The caller's SP is CFA - 160."""
    fres = "00 03 00  04 05 14 d0  08 07 14 00 b8  0c 07 00 21 25"
    data = sframe_section(PLAIN, fres, abi=4, fixed_ra=0, count=4, order=">")
    found = {offset: (cfa, rules.get(14, "u"), rules.get(11, "u")) for offset, cfa, rules in rows(data)}
    assert found[0] == ("R15+160", "u", "u")
    assert found[4] == ("R15+320", "c-48", "u")
    assert found[8] == ("R15+320", "u", "c-72")
    assert found[12] == ("R15+160", "r16", "r18")
    assert {rules.get(15) for _, _, rules in rows(data)} == {"v-160"}


def test_sframe_appendix_generating_stack_traces() -> None:
    """The pseudocode's get_next_frame, with the FREs of `find_fres`: a function with a frame pointer, called by one
    without. What it calls VALID is a second offset."""
    callee = sframe_section(PLAIN, "00 03 08  01 05 10 f0  04 04 10 f0", count=3)
    start = unwindkit.from_sframe(callee).function(0).start
    memory = {0x7FF8: start + 2, 0x7FF0: 0x9000, 0x8008: 0xDEAD}

    def get_next_frame(pc: int, sp: int, fp: int) -> tuple[int, int, int] | None:
        found = unwindkit.find_fres(callee, [pc])
        if not found.found[0]:
            return None
        fre = found.fres.record(0)
        is_sp_based, count = fre["info"] & 1, fre["info"] >> 1 & 0xF
        cfa = (sp if is_sp_based else fp) + fre["words"][0]
        return memory[cfa - 8], cfa, memory[cfa + fre["words"][1]] if count > 1 else fp

    assert get_next_frame(start + 8, 0x7000, 0x7FF0) == (start + 2, 0x8000, 0x9000)
    assert get_next_frame(start, 0x8008, 0x9000) == (0xDEAD, 0x8010, 0x9000)
    assert get_next_frame(start + 0x40, 0, 0) is None
