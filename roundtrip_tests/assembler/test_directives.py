"""The directives for everything that a table can hold, and what is refused: tables made by hand.

Strategy: texts worked out by hand, and tables that GNU as must reproduce unchanged.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from unwindkit import Function, FunctionFlag, Reason, UnwindTable, by_pc, function_directives, to_directives
from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.converters.rules import CfaKind, RaState, RuleKind
from unwindkit.converters.table.model import NO_FLAGS, CfaRule, RegisterRule, Row, table_of
from unwindkit.schemas.pointers import DW_EH_PE

from ..support.handmade import NO_CFA, at, on, row
from ..support.made.assembled_directives import again, in_order

RA = at(16, -8)
START = row(0, on(7, 8), RA)
PCREL_INDIRECT = DW_EH_PE.indirect | DW_EH_PE.pcrel | DW_EH_PE.sdata4


def made(*functions: Function, architecture: str = "x86_64") -> UnwindTable:
    return table_of(ARCHITECTURES[architecture], functions)


def x86_64(*rows: Row, start: int = 0x1000, size: int = 0x100) -> Function:
    return Function(start, size, rows, return_column=16)


def rule(register: int, kind: RuleKind, value: int | bytes = 0) -> RegisterRule:
    return RegisterRule(register, kind, value)


@pytest.mark.usefixtures("kernels")
def test_the_text_of_two_functions() -> None:
    first = x86_64(START, row(1, on(7, 16), at(6, -16), RA), row(4, on(6, 16), at(6, -16), RA), row(0xFF, on(7, 8), RA))
    second = replace(
        x86_64(row(0, on(7, 160), rule(16, RuleKind.EXPRESSION, b"\x77\x10")), start=0x1200, size=2),
        flags=FunctionFlag.SIGNAL_FRAME | FunctionFlag.HAS_LSDA,
        lsda=0x3000,
        personality_encoding=PCREL_INDIRECT,
        personality=0x800,
    )
    text, refusals = to_directives(made(second, first))
    assert len(refusals) == 0
    # DW_CFA_expression(16, DW_OP_breg7 16): 10 10 02 77 10.
    assert text.decode() == (
        "/* .unwound: address 0x1000 */\n"
        '\t.section .unwound, "ax", %nobits\n'
        ".Lunwound_1000:\n"
        "\t.cfi_startproc\n"
        "\t.skip 1\n"
        "\t.cfi_def_cfa_offset 16\n"
        "\t.cfi_offset 6, -16\n"
        "\t.skip 3\n"
        "\t.cfi_def_cfa_register 6\n"
        "\t.skip 251\n"
        "\t.cfi_def_cfa 7, 8\n"
        "\t.cfi_restore 6\n"
        "\t.skip 1\n"
        "\t.cfi_endproc\n"
        "\t.skip 256\n"
        "\t.cfi_startproc\n"
        "\t.cfi_signal_frame\n"
        "\t.cfi_personality 0x9b, unwound_1000_personality0\n"
        "\t.cfi_lsda 0x10, .Lunwound_1000_lsda0\n"
        "\t.cfi_def_cfa_offset 160\n"
        "\t.cfi_escape 0x10, 0x10, 0x2, 0x77, 0x10\n"
        "\t.skip 2\n"
        "\t.cfi_endproc\n"
        "\t.globl unwound_1000_personality0\n"
        "\t.hidden unwound_1000_personality0\n"
        "\t.set unwound_1000_personality0, .Lunwound_1000-0x800\n"
        "\t.set .Lunwound_1000_lsda0, .Lunwound_1000+0x2000\n"
    )


def test_one_function_has_its_rows_places_in_comments() -> None:
    function = x86_64(START, row(4, on(7, 32), RA))
    text, refusals = function_directives(made(x86_64(START, start=0), function), 1)
    assert len(refusals) == 0
    assert text.decode() == (
        "\t.cfi_startproc\n\t/* +0x4 */\n\t.cfi_def_cfa_offset 32\n\t/* +0x100 */\n\t.cfi_endproc\n"
    )
    text, refusals = function_directives(made(function, replace(function, start=0x2000, segment=1)), 1)
    assert (text, refusals[0].function, refusals[0].reason) == (b"", 1, Reason.SEGMENT)


def test_a_rule_is_taken_away_only_where_no_cie_can_hold_it() -> None:
    saved = row(0, on(7, 8), at(3, -16), RA)
    plain, barrier = "\t.cfi_startproc\n", "\t.cfi_escape 0x0\n"
    simple = "\t.cfi_startproc simple\n"
    for rows, begins in (
        ((saved,), plain + "\t.cfi_offset 3, -16\n"),
        ((saved, row(4, on(7, 8), RA)), plain + barrier + "\t.cfi_offset 3, -16\n\t.skip 4\n\t.cfi_restore 3\n"),
        ((START, replace(saved, offset=4), row(8, on(7, 8), RA)), plain + "\t.skip 4\n\t.cfi_offset 3, -16\n"),
        ((row(0, on(7, 8)),), simple + "\t.cfi_def_cfa 7, 8\n\t.skip"),
        ((START, row(4, on(7, 8))), simple + barrier + "\t.cfi_def_cfa 7, 8\n\t.cfi_offset 16, -8\n\t.skip 4\n"),
        ((row(0, on(7, 8)), row(4, on(7, 8), RA), row(8, on(7, 8))), simple + "\t.cfi_def_cfa 7, 8\n\t.skip 4\n"),
        ((row(0, NO_CFA, RA),), simple + "\t.cfi_offset 16, -8\n"),
        ((row(0, on(7, 0)),), simple + "\t.cfi_def_cfa 7, 0\n"),
    ):
        text, _ = to_directives(made(x86_64(*rows)))
        assert text.decode().split(":\n", 1)[1].startswith(begins)


# What a row may hold besides the CFA: every kind of rule, with operands of one LEB128 byte and of more.
EVERY_RULE = (
    rule(0, RuleKind.UNDEFINED),
    rule(1, RuleKind.SAME_VALUE),
    at(2, -(1 << 40)),
    at(3, 1 << 40),
    rule(5, RuleKind.VAL_OFFSET, -8),
    rule(6, RuleKind.VAL_OFFSET, 1 << 33),
    rule(12, RuleKind.REGISTER, 65535),
    rule(13, RuleKind.EXPRESSION, b"\x77\x08"),
    rule(14, RuleKind.VAL_EXPRESSION, b"\x96" * 300),
    rule(300, RuleKind.EXPRESSION, b"\x96" * 127),
    rule(65535, RuleKind.VAL_EXPRESSION, b"\x30"),
)
LONG = b"\x96" * 200 + b"\x77\x00"
SAVED = row(0, on(7, 8), at(3, -16), RA)


def aarch64(*rows: Row, flags: FunctionFlag = NO_FLAGS) -> UnwindTable:
    function = Function(0x1000, 0x100, rows, return_column=30, flags=flags)
    return made(function, replace(function, start=0x1100, flags=NO_FLAGS), architecture="aarch64")


def signing(*states: RaState) -> UnwindTable:
    return aarch64(*(row(4 * index, on(31, 0), ra_state=state) for index, state in enumerate(states)))


def pointing(encoding: int, personality: int, architecture: str = "x86_64") -> UnwindTable:
    """A function with that personality, and an LSDA beyond the reach of four bytes."""
    column = ARCHITECTURES[architecture].return_address
    one = Function(0x1000, 0x100, (START,), return_column=column, personality_encoding=encoding)
    lsda = 0x7000_0000_0000 if ARCHITECTURES[architecture].address_size == 8 else 0xF000_0000
    return made(
        replace(one, personality=personality, lsda=lsda, flags=FunctionFlag.HAS_LSDA),
        replace(one, start=0x1100, lsda=8, personality=personality + 8, flags=FunctionFlag.HAS_LSDA),
        architecture=architecture,
    )


TABLES = {
    "every rule": made(x86_64(START, row(4, on(7, 8), *EVERY_RULE), row(8, on(7, 8), RA)), x86_64(START, start=0x1100)),
    "every rule at once": made(x86_64(row(0, on(7, 8), *EVERY_RULE), row(8, on(7, 8), RA))),
    "every CFA": made(
        x86_64(
            *(row(0, NO_CFA, RA), row(1, on(6, 0), RA), row(2, on(7, -8), RA), row(3, on(65535, 1 << 34), RA)),
            *(row(4, CfaRule(CfaKind.EXPRESSION, 0, LONG), RA), row(5, on(0, 0), RA), row(6, on(6, -(1 << 34)), RA)),
            row(7, CfaRule(CfaKind.EXPRESSION, 0, b"\x77\x00"), RA),
        ),
        x86_64(row(0, CfaRule(CfaKind.EXPRESSION, 0, b"\x77\x00")), start=0x2000),
    ),
    "sizes of arguments": made(
        x86_64(
            *(Row(0, on(7, 8), (RA,), args_size=16), Row(1, on(7, 8), (RA,), args_size=1 << 40), row(2, on(7, 8), RA))
        )
    ),
    # One function's CIE could give the initial rules of another, which then drops them; in both orders.
    "rules of another's CIE": made(
        x86_64(SAVED, size=8),
        x86_64(SAVED, row(4, on(7, 8)), start=0x1010, size=8),
        x86_64(row(0, on(7, 8)), start=0x1020, size=8),
        x86_64(START, row(4, on(7, 8), at(3, -16), RA), row(6, on(7, 8), RA), start=0x1030, size=8),
        x86_64(SAVED, row(4, on(7, 8), RA), start=0x1040, size=8),
        x86_64(SAVED, start=0x1050, size=8),
    ),
    "signed return addresses": signing(
        *(RaState.PLAIN, RaState.SIGNED, RaState.PLAIN, RaState.SIGNED_WITH_PC, RaState.SIGNED, RaState.SIGNED_WITH_PC)
    ),
    "signed where a function begins": signing(RaState.SIGNED, RaState.PLAIN),
    "B key and tags": aarch64(row(0, on(31, 0)), flags=FunctionFlag.PAUTH_B_KEY | FunctionFlag.MEMORY_TAGGING),
    "B key": aarch64(row(0, on(31, 0)), flags=FunctionFlag.PAUTH_B_KEY),
    "tags": aarch64(row(0, on(31, 0)), flags=FunctionFlag.MEMORY_TAGGING | FunctionFlag.SIGNAL_FRAME),
    "columns": made(*(replace(x86_64(START, start=0x1000 * c), return_column=c) for c in (1, 128, 255))),
    "nothing covered": made(
        *(x86_64(START, size=0), x86_64(START), x86_64(START, start=0x1100), x86_64(START, start=0x1100, size=0)),
        x86_64(START, start=0x1200, size=0),
    ),
    "at the end of memory": made(x86_64(START, start=(1 << 64) - 0x100, size=0x80)),
    **{f"personality {encoding:#x}": pointing(encoding, 0x5000) for encoding in (0, 3, 4, 0xB, 0xC, 0x80, 0x83)},
    **{f"personality {encoding:#x}": pointing(encoding, 0x800) for encoding in (0x10, 0x1B, 0x1C, 0x90, 0x9B, 0x9C)},
    "personality -2 GiB": pointing(DW_EH_PE.sdata4, (1 << 64) - 0x7000_0000),
    "personality far": pointing(DW_EH_PE.absptr, 0x7FFF_0000_0000),
    "personality, 32 bits": pointing(PCREL_INDIRECT, 0x9000_0000, "x86"),
    "personality, arm": pointing(PCREL_INDIRECT, 0x9000_0000, "arm"),
}


@pytest.mark.parametrize(
    ("name", "personality", "lsda"), [("mips", 0x80, 0), ("mips64", 0x80, 0), ("ppc", 0x9B, 0x10), ("x86", 0x9B, 0x10)]
)
def test_only_mips_has_no_pointers_that_count_from_their_place(name: str, personality: int, lsda: int) -> None:
    """For MIPS, GNU as defines CFI_DIFF_EXPR_OK as 0: a pointer that was indirect and PC-relative becomes indirect."""
    text = to_directives(pointing(PCREL_INDIRECT, 0x800, name))[0].decode()
    assert set(re.findall(r"\.cfi_personality 0x(\w+),", text)) == {f"{personality:x}"}
    assert set(re.findall(r"\.cfi_lsda 0x(\w+),", text)) == {f"{lsda:x}"}


@pytest.mark.oracle("forky-cross")
@pytest.mark.parametrize("name", TABLES)
def test_tables_come_back_from_the_assembler(name: str, tmp_path: Path) -> None:
    table = TABLES[name]
    back, refusals = again(tmp_path, table)
    assert len(refusals) == 0
    # ld discards these ("discarding zero address range FDE"); the next test covers them.
    assert in_order(back) == [one for one in in_order(table) if one.size]


@pytest.mark.oracle("forky-cross")
@pytest.mark.parametrize("name", [name for name in TABLES if not name.startswith(("personality", "at the end"))])
def test_functions_of_relocatable_files_come_back(name: str, tmp_path: Path) -> None:
    found = TABLES[name]
    section = np.arange(len(found), dtype=np.uint32) + np.uint32(3)
    table = replace(found, functions=replace(found.functions, section=section))
    back, refusals = again(tmp_path, table)
    assert len(refusals) == 0
    assert in_order(back) == in_order(table)


@pytest.mark.oracle
def test_pointers_of_relocatable_files_are_offsets(tmp_path: Path) -> None:
    personality = {"personality_encoding": PCREL_INDIRECT, "flags": FunctionFlag.HAS_LSDA}
    table = made(
        replace(x86_64(START, start=0), section=4, **personality, lsda=0),
        replace(x86_64(START, start=0), section=9, **personality, lsda=0x1234, personality=0x800),
        replace(x86_64(START, start=0), section=10, **personality, lsda=0x7000_0001),
        replace(x86_64(START, start=0), section=11, personality_encoding=DW_EH_PE.absptr),
    )
    back, refusals = again(tmp_path, table)
    assert [(one.function, one.reason) for one in (refusals[0],)] == [(2, Reason.FAR)]
    assert in_order(back) == [table.function(index) for index in (0, 1, 3)]


@pytest.mark.oracle("forky-cross", "sid-llvm")
@pytest.mark.parametrize(
    ("encoding", "personality", "architecture", "written"),
    [
        (DW_EH_PE.udata4, 1 << 32, "x86_64", DW_EH_PE.absptr),
        (DW_EH_PE.sdata4, 1 << 31, "x86_64", DW_EH_PE.absptr),
        (DW_EH_PE.udata2, 0x5000, "x86_64", DW_EH_PE.absptr),
        (DW_EH_PE.uleb128, 0x5000, "x86_64", DW_EH_PE.absptr),
        (DW_EH_PE.datarel | DW_EH_PE.sdata4, 0x5000, "x86_64", DW_EH_PE.absptr),
        (DW_EH_PE.aligned, 0x5000, "x86_64", DW_EH_PE.absptr),
        (DW_EH_PE.pcrel | DW_EH_PE.udata4, 0x5000, "x86_64", DW_EH_PE.absptr),
        (PCREL_INDIRECT, 0x9000_0000, "x86_64", DW_EH_PE.indirect),
        (DW_EH_PE.udata8, 0x5000, "x86", DW_EH_PE.absptr),
        (PCREL_INDIRECT, 0x5000, "mips64", DW_EH_PE.indirect),
    ],
)
def test_an_encoding_that_as_does_not_take_becomes_absptr(
    encoding: int, personality: int, architecture: str, written: int, tmp_path: Path
) -> None:
    table = pointing(encoding, personality, architecture)
    back, refusals = again(tmp_path, table)
    assert len(refusals) == 0
    assert in_order(back) == [replace(one, personality_encoding=written) for one in in_order(table)]


@pytest.mark.parametrize(
    ("function", "architecture", "reason"),
    [
        (x86_64(START, row(4, NO_CFA, RA)), "x86_64", Reason.NO_CFA),
        (x86_64(row(0, on(7, -4), RA)), "x86_64", Reason.CFA_OFFSET),
        (x86_64(START, row(4, on(7, 8), at(3, -12))), "x86_64", Reason.UNALIGNED_OFFSET),
        (x86_64(START, row(4, on(7, 8), rule(3, RuleKind.VAL_OFFSET, 2))), "x86_64", Reason.UNALIGNED_OFFSET),
        (x86_64(START, row(4, on(7, 8), rule(3, RuleKind.ARCHITECTURAL))), "x86_64", Reason.NO_DIRECTIVE),
        (x86_64(START, row(4, on(7, 8), ra_state=RaState.SIGNED)), "x86_64", Reason.NO_DIRECTIVE),
        (replace(x86_64(START), flags=FunctionFlag.PAUTH_B_KEY), "x86_64", Reason.NO_DIRECTIVE),
        (replace(x86_64(START), flags=FunctionFlag.MEMORY_TAGGING), "s390x", Reason.NO_DIRECTIVE),
        (x86_64(START, row(6, on(7, 8))), "aarch64", Reason.UNALIGNED_ROW),
        (x86_64(START, row(3, on(7, 8))), "arm", Reason.UNALIGNED_ROW),
        (replace(x86_64(START), segment=1), "x86_64", Reason.SEGMENT),
        (replace(x86_64(START), flags=FunctionFlag.UNKNOWN_AUGMENTATION), "x86_64", Reason.AUGMENTATION),
        (replace(x86_64(START), return_column=256), "x86_64", Reason.LARGE_COLUMN),
        (x86_64(START, size=0x7000_0001), "x86_64", Reason.FAR),
        (replace(x86_64(START), personality_encoding=DW_EH_PE.absptr), "x86_64", Reason.NULL_POINTER),
        (replace(x86_64(START), flags=FunctionFlag.HAS_LSDA), "mips64", Reason.NULL_POINTER),
    ],
)
def test_what_no_directive_says_is_refused_whole(function: Function, architecture: str, reason: Reason) -> None:
    other = replace(x86_64(row(0, on(7, 8))), start=0x1000 - 0x100)
    text, refusals = to_directives(made(function, other, architecture=architecture))
    assert [refusals[index] for index in range(len(refusals))] == [
        refusals[0].__class__(0, 0x1000, 0x1000 + function.size, reason)
    ]
    assert text.count(b".cfi_startproc") == 1


@pytest.mark.oracle
def test_a_pc_stays_with_the_function_that_starts_first(tmp_path: Path) -> None:
    later = replace(x86_64(START, row(0x90, on(7, 64), RA), start=0x1080))
    inside, nothing = x86_64(START, start=0x1040, size=8), x86_64(START, start=0x1044, size=0)
    table = made(later, inside, nothing, x86_64(START), x86_64(row(0, on(7, 16)), size=0x10))
    back, refusals = again(tmp_path, table)
    assert by_pc(back) == by_pc(table)
    assert [(one.start, one.size) for one in back] == [(0x1000, 0x100), (0x1100, 0x80)]
    found = {(one.function, one.start, one.end, one.reason) for one in map(refusals.__getitem__, range(len(refusals)))}
    assert found == {
        (0, 0x1080, 0x1100, Reason.OVERLAP),
        (1, 0x1040, 0x1048, Reason.OVERLAP),
        (2, 0x1044, 0x1044, Reason.OVERLAP),
        (4, 0x1000, 0x1010, Reason.OVERLAP),
    }


@pytest.mark.oracle
def test_blocks_are_laid_out(tmp_path: Path) -> None:
    rows = START, row(11, on(7, 16), RA)
    table = made(replace(x86_64(*rows, size=40), repetition=16), x86_64(START, start=0x2000))
    back, refusals = again(tmp_path, table)
    assert len(refusals) == 0
    assert [one.offset for one in in_order(back)[0].rows] == [0, 11, 16, 27, 32]
    assert by_pc(back) == by_pc(table)


@pytest.mark.oracle
def test_the_text_is_where_most_functions_are(tmp_path: Path) -> None:
    near = [x86_64(START, start=0x2_0000_0000 + index * 0x3000_0000) for index in range(3)]
    table = made(x86_64(START, start=0), *near)
    back, refusals = again(tmp_path, table)
    assert in_order(back) == near
    assert (len(refusals), refusals[0].function, refusals[0].reason) == (1, 0, Reason.FAR)
    assert to_directives(made())[0] == b""
