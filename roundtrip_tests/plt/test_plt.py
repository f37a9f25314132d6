"""CFA expressions of the PC modulo a block become rows: hand-made `.eh_frame`; PLT sections known by their bytes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from unwindkit import Reason, Refusals, UnwindTable, by_pc, from_sframe, project_sframe, to_sframe
from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.converters.elf.image import open_elf
from unwindkit.converters.plt import plt_functions, with_uncovered_plt
from unwindkit.converters.table.model import table_of

from ..support.handmade import PLAIN_CIE, X86_64_START, Fde, eh_frame, octets, table_of_bytes
from ..support.judges import rpn
from ..support.programs.plt_programs import PC, SP, Sframe
from ..support.tiny_elf import ALLOC, EXECINSTR, NOBITS, PROGBITS, Content, tiny_elf
from ..support.work import at_most_calls

LAZY = "77 08 80 00 3f 1a 3b 2a 33 24 22"  # rsp + 8 + (((rip & 15) >= 11) << 3)
ONE_MASKED_ROW = X86_64_START + " 0f 0b " + LAZY  # def_cfa_expression
# What GNU ld writes for a lazy PLT.
PLT_CFI = f"""
0c 07 08  90 01  # the CIE's: def_cfa rsp+8; offset rip at CFA-8
0e 10            # def_cfa_offset 16
46               # advance_loc 6
0e 18            # def_cfa_offset 24
4a               # advance_loc 10
0f 0b {LAZY}     # def_cfa_expression
"""


def table_of_fdes(*fdes: Fde) -> UnwindTable:
    return table_of_bytes(eh_frame(PLAIN_CIE, *fdes))


def converted(table: UnwindTable) -> tuple[Sframe, Refusals]:
    """The section, by the small reader; it is checked against the law."""
    data, refusals = to_sframe(table)
    expected, found = by_pc(project_sframe(table), without=refusals), by_pc(from_sframe(data))
    assert found == expected, "\n".join(found.differences(expected))
    return Sframe(data, 0), refusals


def said(refusals: Refusals) -> list[tuple[int, int, int, Reason]]:
    found = (refusals[index] for index in range(len(refusals)))
    return [(one.function, one.start, one.end, one.reason) for one in found]


def lazy_offset(pc: int) -> int:
    return 16 if pc % 16 >= 11 else 8


# --- split and unrolled -------------------------------------------------------------------------------------


def test_the_lazy_plt_is_one_function_of_ordinary_rows_and_one_of_blocks() -> None:
    sframe, refusals = converted(table_of_fdes(Fde(0x1020, 64, PLT_CFI)))
    shape = [(f.start, f.size, f.block, [(r.start, r.cfa_offset) for r in f.fres]) for f in sframe.fdes]
    assert shape == [(0x1020, 16, 0, [(0, 16), (6, 24)]), (0x1030, 48, 16, [(0, 8), (11, 16)])]
    assert said(refusals) == []


@pytest.mark.parametrize("start", [0x1021, 0x1028, 0x102B, 0x102F])
@pytest.mark.parametrize("size", [17, 20, 64, 77])
def test_blocks_that_do_not_start_at_a_multiple_are_ordinary_rows(start: int, size: int) -> None:
    sframe, refusals = converted(table_of_fdes(Fde(start, size, PLT_CFI)))
    assert [fde.block for fde in sframe.fdes] == [0]
    assert [sframe.offset(pc) for pc in range(start + 16, start + size)] == [
        lazy_offset(pc) for pc in range(start + 16, start + size)
    ]
    assert said(refusals) == []


def test_a_block_of_256_is_ordinary_rows() -> None:
    # SFrame's block is a byte; rsp + 8 + (((rip & 255) >= 200) << 3)
    table = table_of_fdes(Fde(0x1000, 600, X86_64_START + " 0f 0d 77 08 80 00 08 ff 1a 08 c8 2a 33 24 22"))
    sframe, _ = converted(table)
    assert [fde.block for fde in sframe.fdes] == [0]
    assert all(sframe.offset(pc) == (16 if pc % 256 >= 200 else 8) for pc in range(0x1000, 0x1000 + 600))


def test_ordinary_rows_may_follow_a_block() -> None:
    tail = ONE_MASKED_ROW + " 02 20 0c 07 30"  # advance_loc1 32; def_cfa rsp+48
    sframe, _ = converted(table_of_fdes(Fde(0x1000, 48, tail)))
    assert [(f.start, f.size, f.block) for f in sframe.fdes] == [(0x1000, 32, 16), (0x1020, 16, 0)]
    assert sframe.offset(0x1020) == 48


def test_a_part_shorter_than_its_block_has_no_row_past_it() -> None:
    sframe, _ = converted(table_of_fdes(Fde(0x1000, 10, ONE_MASKED_ROW)))
    assert [(f.size, f.block, [r.start for r in f.fres]) for f in sframe.fdes] == [(10, 16, [0])]


def test_an_expression_that_does_not_depend_on_the_pc_is_one_row() -> None:
    table = table_of_fdes(Fde(0x1000, 1 << 30, X86_64_START + " 0f 07 77 08 80 00 30 1a 22"))  # rsp + 8 + (rip & 0)
    sframe, _ = converted(table)
    assert [(f.size, f.block, [r.cfa_offset for r in f.fres]) for f in sframe.fdes] == [(1 << 30, 0, [8])]


def test_any_other_expression_is_refused_as_before() -> None:
    table = table_of_fdes(
        Fde(0x1000, 32, X86_64_START + " 0f 03 76 78 06"),  # *(rbp - 8)
        Fde(0x2000, 32, X86_64_START + " 0f 06 77 08 80 00 22 96"),  # rsp + 8 + rip
    )
    sframe, refusals = converted(table)
    assert sframe.fdes == []
    assert said(refusals) == [
        (0, 0x1000, 0x1020, Reason.CFA_EXPRESSION),
        (1, 0x2000, 0x2020, Reason.CFA_EXPRESSION),
    ]


def test_refusals_name_the_functions_of_the_table_that_was_given() -> None:
    # Function 1 is split in three; its second row's rbp is saved in a register, which V2 cannot encode.
    broken = PLT_CFI + "02 20  0c 07 08  09 06 03"  # advance_loc1 32; def_cfa rsp+8; register rbp in rbx
    table = table_of_fdes(
        Fde(0x3000, 16, X86_64_START),
        Fde(0x1000, 64, broken),
        Fde(0x2000, 16, "0f 03 76 78 06"),
        Fde(0x4000, 32, X86_64_START + " 09 06 03 0f 0b " + LAZY),
    )
    sframe, refusals = converted(table)
    assert sorted(said(refusals)) == [
        (1, 0x1030, 0x1040, Reason.FP_RULE),
        (2, 0x2000, 0x2010, Reason.CFA_EXPRESSION),
        (3, 0x4000, 0x4020, Reason.REPETITION),
    ]
    assert [fde.start for fde in sframe.fdes] == [0x1000, 0x1010, 0x3000]


@pytest.mark.parametrize(
    "other", [Fde(0x1000, 0x80, X86_64_START), Fde(0x1008, 40, X86_64_START + " 4c 0e 10"), Fde(0x1020, 0x100)]
)
@pytest.mark.parametrize("first", [True, False])
def test_a_function_that_shares_pcs_with_another_is_not_split(other: Fde, first: bool) -> None:
    plt = Fde(0x1000, 64, PLT_CFI)
    _, refusals = converted(table_of_fdes(*((plt, other) if first else (other, plt))))
    # If it were split, its parts would start after the other, which would then cover foreign PCs.
    assert Reason.OVERLAP in {reason for _, _, _, reason in said(refusals)}


def test_functions_of_no_bytes_take_no_part() -> None:
    sframe, refusals = converted(table_of_fdes(Fde(0x1000, 0, ONE_MASKED_ROW), Fde(0x1000, 64, PLT_CFI)))
    assert [(f.start, f.block) for f in sframe.fdes] == [(0x1000, 0), (0x1010, 16)]
    assert said(refusals) == []


# --- bounds -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [0x1000, 0x1001])
@pytest.mark.parametrize("size", [1 << 24, 1 << 40, (1 << 63) - 1])
def test_sizes_beyond_any_plt_are_refused_at_once(start: int, size: int) -> None:
    with at_most_calls(500_000):
        _, refusals = to_sframe(table_of_fdes(Fde(start, size, ONE_MASKED_ROW)))
        assert len(refusals) == 1


def test_rows_laid_out_are_bounded_over_all_functions() -> None:
    with at_most_calls(8_000_000):
        size = 1 << 17  # unrolled, 16,384 changes each; the first four use up the allowance
        fdes = [Fde(0x1001 + index * size, size, ONE_MASKED_ROW) for index in range(200)]
        data, refusals = to_sframe(table_of_fdes(*fdes))
        assert [one[0] for one in said(refusals)] == list(range(4, 200))
        assert {one[3] for one in said(refusals)} == {Reason.CFA_EXPRESSION}
        assert len(Sframe(data, 0).fdes[0].fres) == 1 + 16384


def test_expressions_looked_at_are_bounded() -> None:
    with at_most_calls(15_000_000):
        # The maximum length of an expression: forty functions of the PC, each with a mask of 255; all are different.
        body = "80 00 08 ff 1a 22" * 40
        fdes = [
            Fde(0x1000 + 64 * index, 64, f"{X86_64_START} 0f f201 77 {index % 64:02x} {body}") for index in range(64)
        ] + [Fde(0x100000 + 64 * index, 64, ONE_MASKED_ROW) for index in range(2000)]
        converted(table_of_fdes(*fdes))


# --- any table ----------------------------------------------------------------------------------------------

EXPRESSIONS = [
    octets(text)
    for text in (
        LAZY,
        "77 08 80 00 3f 1a 39 2a 33 24 22",  # lit9
        "77 08 80 00 37 1a 33 2a 33 24 22",  # mask 7
        "77 08 80 00 4f 1a 44 2d 33 24 22",  # mask 31, lt
        "77 08 80 01 3f 1a 3b 2e 33 24 22",  # (rip + 1) & 15, ne
        "77 08 80 00 08 7f 1a 08 64 2a 33 24 22",  # mask 127
        "77 08 80 00 08 ff 1a 08 c8 2a 33 24 22",  # mask 255
        "77 00 80 00 37 1a 33 24 22",  # another offset at each residue
    )
]
# A CFA from one PC on: an offset from SP, or an expression.
Piece = tuple[int, int | bytes]
PIECES = st.lists(
    st.tuples(st.integers(1, 60), st.one_of(st.sampled_from([8, 16, 24]), st.sampled_from(EXPRESSIONS))),
    min_size=1,
    max_size=4,
)


def cfi(pieces: list[Piece]) -> str:
    """Instructions for pieces, each with its length in bytes."""
    text = "90 01"
    for index, (_, rule) in enumerate(pieces):
        text += f" 02 {pieces[index - 1][0]:02x}" if index else ""  # advance_loc1
        text += f" 0c 07 {rule:02x}" if isinstance(rule, int) else f" 0f {len(rule):02x} {rule.hex()}"
    return text


@st.composite
def functions(draw: DrawFn) -> list[tuple[int, list[Piece]]]:
    """Starts and pieces: adjacent, separate, overlapping."""
    found = []
    start = draw(st.integers(0, 300)) * draw(st.sampled_from([1, 16]))
    for _ in range(draw(st.integers(1, 4))):
        pieces = draw(PIECES)
        found.append((start, pieces))
        start = max(0, start + sum(size for size, _ in pieces) + draw(st.sampled_from([0, 0, 1, 16, -1, -20])))
        start = start + 15 & -16 if draw(st.booleans()) else start
    return draw(st.permutations(found))


@given(functions())
def test_any_table_means_the_same_at_every_pc(drawn: list[tuple[int, list[Piece]]]) -> None:
    fdes = [Fde(start, sum(size for size, _ in pieces), cfi(pieces)) for start, pieces in drawn]
    sframe, refusals = converted(table_of_fdes(*fdes))
    claims: dict[int, list[int | bytes]] = {}
    for start, pieces in drawn:
        rules = [rule for size, rule in pieces for _ in range(size)]
        for pc, rule in enumerate(rules, start):
            claims.setdefault(pc, []).append(rule)
    sp = 0x7FFF0000
    for pc, rules in claims.items():
        found = sframe.offset(pc)
        offsets = {rule if isinstance(rule, int) else rpn.run(rule, {SP: sp, PC: pc}) - sp for rule in rules}
        if found is None:
            assert any(start <= pc < end for _, start, end, _ in said(refusals)), hex(pc)
        else:
            assert found in offsets, hex(pc)
    if all(len(rules) == 1 for rules in claims.values()):
        assert said(refusals) == []


# --- PLT sections recognized by their bytes -----------------------------------------------------------------

HEADER = octets("ff35 11111111  ff25 22222222  0f1f4000")  # push; jmp; nop
LAZY_ENTRY = octets("ff25 11111111  68 00000000  e9 22222222")  # jmp; push; jmp
IBT_ENTRY = octets("f30f1efa  68 00000000  f2e9 22222222  90")  # endbr64; push; bnd jmp; nop
SECOND_ENTRY = octets("f30f1efa  f2ff25 11111111  0f1f440000")  # endbr64; bnd jmp; nop
GOT_ENTRY = octets("ff25 11111111  6690")  # jmp; nop
MOLD_HEADER = octets("f30f1efa 4153 ff35 11111111 ff25 22222222" + "cc" * 14)  # endbr64; push r11; push; jmp
MOLD_ENTRY = octets("f30f1efa 41bb 00000000 ff25 11111111")  # endbr64; mov r11d; jmp


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        (
            ".plt",
            HEADER + LAZY_ENTRY * 2,
            [(0x1000, 16, 0, [(0, 16), (6, 24)]), (0x1010, 32, 16, [(0, 8), (11, 16)])],
        ),
        (".plt", HEADER + IBT_ENTRY, [(0x1000, 16, 0, [(0, 16), (6, 24)]), (0x1010, 16, 16, [(0, 8), (9, 16)])]),
        (".plt", HEADER, [(0x1000, 16, 0, [(0, 16), (6, 24)])]),
        (
            ".plt",
            MOLD_HEADER + MOLD_ENTRY,
            [(0x1000, 32, 0, [(0, 8), (6, 16), (12, 24)]), (0x1020, 16, 16, [(0, 8)])],
        ),
        (".plt.sec", SECOND_ENTRY * 3, [(0x1000, 48, 16, [(0, 8)])]),
        (".plt.got", GOT_ENTRY * 3, [(0x1000, 24, 8, [(0, 8)])]),
    ],
)
def test_a_plt_section_is_told_by_its_bytes(
    name: str, data: bytes, expected: list[tuple[int, int, int, list[tuple[int, int]]]]
) -> None:
    found = plt_functions(name, 0x1000, data, ARCHITECTURES["x86_64"])
    shape = [(f.start, f.size, f.repetition, [(r.offset, r.cfa.value) for r in f.rows]) for f in found]
    assert shape == expected


@pytest.mark.parametrize(("kind", "flags"), [(PROGBITS, ALLOC), (NOBITS, ALLOC | EXECINSTR)])
def test_a_plt_section_that_is_not_code_is_not_covered(kind: int, flags: int, tmp_path: Path) -> None:
    path, nothing = tmp_path / "file", table_of(ARCHITECTURES["x86_64"], [])
    section = Content(".plt", HEADER + LAZY_ENTRY, flags=ALLOC | EXECINSTR)
    path.write_bytes(tiny_elf(section))
    assert [(one.start, one.size) for one in with_uncovered_plt(open_elf(path), nothing)] == [
        (0x1000, 16),
        (0x1010, 16),
    ]
    path.write_bytes(tiny_elf(replace(section, type=kind, flags=flags)))
    assert with_uncovered_plt(open_elf(path), nothing) is nothing


@pytest.mark.parametrize(
    ("name", "data"),
    [
        (".plt", b""),
        (".plt", HEADER + LAZY_ENTRY + LAZY_ENTRY[:11] + b"\xe8" + LAZY_ENTRY[12:]),  # call instead of jmp
        (".plt", HEADER + LAZY_ENTRY + IBT_ENTRY),  # two kinds
        (".plt", HEADER + LAZY_ENTRY[:15]),  # cut
        (".plt", HEADER[:15]),
        (".plt", HEADER + HEADER),
        (".plt.sec", SECOND_ENTRY + bytes(16)),
        (".plt.sec", LAZY_ENTRY),  # a push, which such a section never has
        (".plt.got", GOT_ENTRY[:6] + b"\x50\x90"),  # push rax after the jmp
        (".plt.got", GOT_ENTRY + b"\x90"),
    ],
)
def test_a_plt_section_with_an_unknown_entry_is_not_covered(name: str, data: bytes) -> None:
    assert plt_functions(name, 0x1000, data, ARCHITECTURES["x86_64"]) == []
