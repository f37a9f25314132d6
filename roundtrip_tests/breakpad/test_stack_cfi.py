"""STACK CFI of every architecture: at each PC and register the rules of readelf 2.47, none wrong, none missing.

Strategy: a parser of the tests' own reads the text, which is compared with `-wNF`; expressions are evaluated
over random registers and memory on both sides.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from unwindkit import BuildError, Reason, Row, UnwindTable, read_elf
from unwindkit.converters.arch.table import ARCHITECTURES, breakpad_names
from unwindkit.converters.breakpad.postfix.from_dwarf import postfix_of
from unwindkit.converters.breakpad.stack_cfi.write import to_stack_cfi
from unwindkit.converters.dwarf import expressions
from unwindkit.converters.rules import CfaKind, RaState, RuleKind
from unwindkit.converters.table.model import CfaRule, Function, FunctionFlag, RegisterRule, table_of

from ..cfi.test_cfi_reading import NAMED_LIBRARIES, libc
from ..support.handmade import NO_CFA, at, octets, on, row, sp
from ..support.real_files import REAL_FILES
from ..support.stepping.machines import MACHINES
from ..support.texts.frame_text import Frame, readelf_frames
from ..support.texts.stack_cfi_text import Range, as_readelf, ranges, value_of

RA = at(16, -8)
START = row(0, sp(8), RA)
# The registers in the slots of DW_CFA_GNU_window_save, which readelf does not show.
WINDOW = {(f"%{name}{index % 8}", f"c{8 * index:+d}") for index, name in enumerate("l" * 8 + "i" * 8)}


# Breakpad's document: without a rule, the caller's SP is the CFA.
WITHOUT_RECORD = ".cfa 0 +"


def agrees(text: str, frames: list[Frame], table: UnwindTable) -> int:
    """How many rows of readelf's were compared, each with the rules in force there."""
    found = sorted(ranges(text), key=lambda one: one.start)
    starts = [one.start for one in found]
    names = breakpad_names(table.architecture)
    numbers = {name: number for number, name in names.items()}
    functions = table.functions
    columns = dict(zip(functions.start.tolist(), functions.return_column.tolist(), strict=True))
    machine = MACHINES[table.architecture.name]
    compared = 0
    for frame in frames:
        column = columns[frame.start]
        for pc, (cfa, registers) in frame.rows if frame.end > frame.start else ():
            place = bisect_right(starts, pc - table.load_address) - 1
            rules = found[place].at(pc - table.load_address)
            assert pc - table.load_address < found[place].end
            said = {register: rule for register, rule in registers if rule != "s"}
            said.setdefault(machine.sp, f"v{-machine.bias:+}")
            # readelf's `u` means no rule, or that the value is lost.
            nothing = "exp" if names[column] in ("$eip", "$rip") or rules[".ra"] == "0" else f"r{column}"
            expected = {".cfa": cfa, ".ra": said.pop(column, nothing)}
            expected |= {names[register]: rule for register, rule in said.items() if register in names}
            kept = {name: rule for name, rule in rules.items() if rule not in (name, ".undef")}
            kept.setdefault(names[machine.sp], WITHOUT_RECORD)
            ours = {name: as_readelf(rule, numbers) for name, rule in kept.items()}
            if table.architecture.name == "sparc64":
                ours = {name: rule for name, rule in ours.items() if (name, rule) not in WINDOW}
            assert ours == {name: rule.replace("vexp", "exp") for name, rule in expected.items()}, hex(pc)
            compared += 1
    return compared


@pytest.mark.oracle(*NAMED_LIBRARIES)
@pytest.mark.parametrize("suite", NAMED_LIBRARIES)
def test_rules_are_readelfs_at_every_row(suite: str, kernels: str) -> None:
    """Of all functions by the compiled engine, and of one in eight by the other one."""
    step = 1 if kernels == "compiled" else 8
    table = read_elf(libc(suite)).select(slice(None, None, step))
    starts = set(table.functions.start.tolist())
    frames = [frame for frame in readelf_frames(libc(suite), ".eh_frame") if frame.start in starts]
    text, refusals = to_stack_cfi(table)
    assert len(refusals) == 0
    # SPARC's functions have two rows each.
    expected = 1500 if suite == "sid-sparc64" else 4000
    assert agrees(text.decode(), frames, table) > expected / step


@pytest.mark.oracle
@pytest.mark.parametrize("path", REAL_FILES, ids=str)
def test_real_files(path: str) -> None:
    table = read_elf(path)
    text, refusals = to_stack_cfi(table)
    assert len(refusals) == 0
    assert agrees(text.decode(), readelf_frames(Path(path), ".eh_frame"), table) > 500


# --- the peers' faults, and other special cases ---------------------------------------------------------------------


def of(*rows: Row, architecture: str = "x86_64", size: int = 0x20, column: int | None = None) -> UnwindTable:
    arch = ARCHITECTURES[architecture]
    column = arch.return_address if column is None else column
    return table_of(arch, [Function(0x1000, size, rows, return_column=column)])


def lines(table: UnwindTable) -> list[str]:
    return to_stack_cfi(table)[0].decode().splitlines()


def test_restore_to_no_rule_is_same_value() -> None:
    assert lines(of(START, row(4, sp(16), at(3, -16), RA), row(8, sp(8), RA))) == [
        "STACK CFI INIT 1000 20 .cfa: $rsp 8 + .ra: .cfa -8 + ^",
        "STACK CFI 1004 $rbx: .cfa -16 + ^ .cfa: $rsp 16 +",
        "STACK CFI 1008 $rbx: $rbx .cfa: $rsp 8 +",
    ]


def test_signed_return_address_keeps_rows() -> None:
    rows = (
        row(0, on(31, 0)),
        row(4, on(31, 0), ra_state=RaState.SIGNED),
        row(8, on(31, 32), at(29, -32), at(30, -24), ra_state=RaState.SIGNED),
        row(12, on(31, 0)),
    )
    assert lines(of(*rows, architecture="aarch64")) == [
        "STACK CFI INIT 1000 20 .cfa: sp 0 + .ra: x30",
        "STACK CFI 1008 .cfa: sp 32 + .ra: .cfa -24 + ^ x29: .cfa -32 + ^",
        "STACK CFI 100c .cfa: sp 0 + .ra: x30 x29: x29",
    ]


def test_restored_return_address_is_in_its_register_again() -> None:
    """Not `.ra: .ra`, which means nothing."""
    rows = (row(0, on(14, 160)), row(4, on(15, 160), at(14, -48)), row(8, on(15, 160)))
    assert [line.partition(".ra: ")[2] for line in lines(of(*rows, architecture="s390x"))] == [
        "%r14",
        ".cfa -48 + ^",
        "%r14",
    ]


def test_lazy_plt_expression_is_postfix() -> None:
    said = "77 08 80 00 3f 1a 3b 2a 33 24 22"  # breg7 8, breg16 0, lit15, and, lit11, ge, lit3, shl, plus
    table = of(Row(0, CfaRule(CfaKind.EXPRESSION, 0, octets(said)), (RA,)))
    assert lines(table) == ["STACK CFI INIT 1000 20 .cfa: $rsp 8 + $rip 16 % 5 + 16 / 8 * + .ra: .cfa -8 + ^"]


def test_signal_trampoline_reads_what_the_kernel_saved() -> None:
    """glibc's __restore_rt: the CFA is what is at rsp + 160, registers at rsp + N."""
    saved = RegisterRule(3, RuleKind.EXPRESSION, octets("77 80 01"))  # breg7 128
    cfa = CfaRule(CfaKind.EXPRESSION, 0, octets("77 a0 01 06"))  # breg7 160, deref
    ra = RegisterRule(16, RuleKind.EXPRESSION, octets("77 a8 01"))
    assert lines(of(Row(0, cfa, (saved, ra)))) == [
        "STACK CFI INIT 1000 20 $rbx: $rsp 128 + ^ .cfa: $rsp 160 + ^ .ra: $rsp 168 + ^"
    ]


@pytest.mark.parametrize("kind", [RuleKind.SAME_VALUE, RuleKind.REGISTER, RuleKind.VAL_EXPRESSION])
def test_a_register_that_keeps_its_value_has_no_rule(kind: RuleKind) -> None:
    """Same value, itself, breg3 0: read back, none is a rule, so a later `.undef` is written or omitted alike."""
    kept = RegisterRule(3, kind, {RuleKind.REGISTER: 3, RuleKind.VAL_EXPRESSION: octets("73 00")}.get(kind))
    lost = RegisterRule(3, RuleKind.UNDEFINED)
    assert lines(of(row(0, sp(8), kept, RA), row(4, sp(8), lost, RA))) == [
        "STACK CFI INIT 1000 20 .cfa: $rsp 8 + .ra: .cfa -8 + ^"
    ]


def undefined(register: int) -> RegisterRule:
    return RegisterRule(register, RuleKind.UNDEFINED)


def test_undefined_return_address_ends_the_walk() -> None:
    assert lines(of(row(0, sp(8), undefined(16))))[0].endswith(" .cfa: $rsp 8 + .ra: 0")
    assert lines(of(row(0, on(31, 0), undefined(30)), architecture="aarch64"))[0].endswith(" .cfa: sp 0 + .ra: 0")
    # Calls push it and it has no rule: its place is unknown.
    assert lines(of(row(0, sp(8))))[0].endswith(" .ra: 0")


def test_undefined_register_is_withdrawn_only_where_it_had_a_rule() -> None:
    lost = row(8, sp(8), undefined(3), RA)
    assert lines(of(row(0, sp(8), undefined(3), RA), row(4, sp(8), undefined(3), undefined(12), RA)))[1:] == []
    assert lines(of(START, row(4, sp(8), at(3, -16), RA), lost))[2] == "STACK CFI 1008 $rbx: .undef"
    # It had one, though not in the row before.
    assert lines(of(START, row(2, sp(8), at(3, -16), RA), row(4, sp(8), RA), lost))[2:] == [
        "STACK CFI 1004 $rbx: $rbx",
        "STACK CFI 1008 $rbx: .undef",
    ]


def test_what_cannot_be_said_ends_the_range_and_another_begins() -> None:
    strange = Row(8, CfaRule(CfaKind.EXPRESSION, 0, octets("77 00 76 00 27")), (RA,))  # breg7, breg6, xor
    table = of(START, row(4, sp(16), at(3, -16), RA), strange, row(12, sp(16), at(3, -16), RA), row(16, NO_CFA))
    text, refusals = to_stack_cfi(table)
    assert text.decode().splitlines() == [
        "STACK CFI INIT 1000 8 .cfa: $rsp 8 + .ra: .cfa -8 + ^",
        "STACK CFI 1004 $rbx: .cfa -16 + ^ .cfa: $rsp 16 +",
        "STACK CFI INIT 100c 4 $rbx: .cfa -16 + ^ .cfa: $rsp 16 + .ra: .cfa -8 + ^",
    ]
    assert [(one.start, one.end, one.reason) for one in refusals] == [
        (0x1008, 0x100C, Reason.CFA_EXPRESSION),
        (0x1010, 0x1020, Reason.NO_CFA),
    ]


def test_registers_without_a_name() -> None:
    """arm64's `vg`, column 46, is left out; a CFA based on such a register cannot be expressed."""
    rows = (row(0, on(31, 0)), row(4, on(31, 16), at(46, -16)), row(8, on(46, 0)))
    text, refusals = to_stack_cfi(of(*rows, architecture="aarch64"))
    assert text == b"STACK CFI INIT 1000 8 .cfa: sp 0 + .ra: x30\nSTACK CFI 1004 .cfa: sp 16 +\n"
    assert refusals.reason.tolist() == [Reason.CFA_REGISTER]


def test_addresses_count_from_the_load_address_and_have_64_bits() -> None:
    table = of(START)
    assert lines(replace(table, load_address=0x400))[0].startswith("STACK CFI INIT c00 20 ")
    functions = replace(table.functions, start=table.functions.start + 0xFFFF_8000_0000_0000)
    assert lines(replace(table, functions=functions))[0].startswith("STACK CFI INIT ffff800000001000 20 ")


def test_an_unknown_augmentation_and_relocatable_files() -> None:
    one = Function(0x1000, 4, (Row(0, NO_CFA),), flags=FunctionFlag.UNKNOWN_AUGMENTATION)
    assert to_stack_cfi(table_of(ARCHITECTURES["x86_64"], [one]))[0] == b""
    with pytest.raises(BuildError, match="the file is relocatable: addresses are not final"):
        to_stack_cfi(table_of(ARCHITECTURES["x86_64"], [Function(0, 4, (START,), section=2)]))


# --- expressions ------------------------------------------------------------------------------------------------------

TRANSLATED = [
    "77 08",  # breg7 8
    "77 08 06",  # deref
    "77 00 08 08 1c",  # minus 8
    "77 00 08 18 1e",  # mul 24
    "77 00 3f 1a",  # and 15
    "77 00 08 f0 1a 09 f0 1a",  # and 0xf0; and -16
    "77 00 09 f0 1a",  # and -16: alignment
    "77 00 34 24",  # shl 4
    "77 00 34 25",  # shr 4
    "77 00 1f",  # neg
    "77 00 20",  # not
    "77 00 3f 1a 35 1b",  # and 15, div 5
    "77 00 35 1d",  # mod 5
    *(f"77 00 4f 1a 38 {code:02x}" for code in range(0x29, 0x2F)),  # and 31; eq, ge, gt, le, lt, ne with 8
    *(f"38 77 00 4f 1a {code:02x}" for code in range(0x29, 0x2F)),  # the same with the constant first
    "77 00 4f 1a 08 40 2a",  # never 64 or more
    "77 00 4f 1a 30 2a",  # always 0 or more
    "08 30 77 00 22",  # plus with the constant first
    "76 08 06 77 10 22 06",  # breg6 8, deref, breg7 16, plus, deref
    "12 23 08",  # dup of the initial stack entry, the CFA; plus_uconst 8
]


@pytest.mark.parametrize("said", TRANSLATED)
@pytest.mark.parametrize("starts_with_cfa", [False, True])
def test_translated_expressions_give_the_same_value(said: str, starts_with_cfa: bool) -> None:
    expression = octets(said)
    if not starts_with_cfa and said == "12 23 08":
        assert postfix_of(expression, breakpad_names(ARCHITECTURES["x86_64"]), "little", 8, starts_with_cfa) is None
        return
    words = postfix_of(expression, breakpad_names(ARCHITECTURES["x86_64"]), "little", 8, starts_with_cfa)
    assert words is not None
    mask = (1 << 64) - 1
    draw = random.Random(said)
    operations = expressions.parse(expression)
    for trial in range(200):
        bits = draw.choice([4, 8, 16, 48, 64])
        registers = {number: draw.getrandbits(bits) for number in range(17)}
        cfa = draw.getrandbits(48)

        def read(address: int, salt: int = trial) -> int:
            return hash((address, salt)) & mask

        expected = expressions.evaluate(
            operations, registers.__getitem__, lambda address, _: read(address), 8, cfa if starts_with_cfa else None
        )
        variables = {
            name: registers[number] for number, name in breakpad_names(ARCHITECTURES["x86_64"]).items() if number < 17
        }
        assert value_of(words, mask, variables | {".cfa": cfa}, read) == expected, words


@pytest.mark.parametrize(
    "said",
    [
        "77 00 76 00 27",  # xor
        "77 00 76 00 21",  # or
        "77 00 34 26",  # shra
        "77 00 35 1b",  # div 5 of a possibly negative value
        "77 00 38 2a",  # ge 8 of a possibly negative value
        "77 00 08 05 1a",  # and 5: no run of ones
        "77 00 94 04",  # deref_size 4
        "77 00 30 1d",  # mod 0
        "92 80 08 00",  # bregx 1024
        "03",  # cut
    ],
)
def test_expressions_that_the_language_cannot_say(said: str) -> None:
    assert postfix_of(octets(said), breakpad_names(ARCHITECTURES["x86_64"]), "little", 8, starts_with_cfa=False) is None


def test_every_address_is_in_the_range_of_its_function() -> None:
    found = list(ranges(to_stack_cfi(read_elf(REAL_FILES[0]))[0].decode()))
    assert all(isinstance(one, Range) and one.start < one.end for one in found)
    assert all(one.end <= other.start for one, other in pairwise(found))
    assert len(found) == (read_elf(REAL_FILES[0]).functions.size > 0).sum()
