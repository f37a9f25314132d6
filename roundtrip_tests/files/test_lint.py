"""Each code of lint: a section made by hand that has just that finding, with its place; and sound sections have none.

Strategy: an ELF file of `.text` at 0x1000 (0x80 bytes) and one or two sections whose bytes are given. Expected
addresses, sizes and offsets are worked out from the layout.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from unwindkit import write_sframe
from unwindkit.converters.elf.image import ElfImage, elf_of_bytes
from unwindkit.converters.files.lint import CODES, Code, LintedSection, lint

from ..support.handmade import PLAIN_CIE, X86_64_START, Fde, eh_frame, entry, octets
from ..support.made.made_sframe import SORTED, fre, section
from ..support.made.made_sframe import Fde as SframeFde
from ..support.real_files import REAL_FILES
from ..support.tiny_elf import ALLOC, CODE, EXECINSTR, NOBITS, Content, tiny_elf
from ..support.wrapped import SHT_GNU_SFRAME

CIE = f"{PLAIN_CIE} {X86_64_START}"
CIE_SIZE, FDE_SIZE = 4 + 4 + 5 + 5, 4 + 4 + 16
TEXT, END = 0x1000, 0x1080


def image(*contents: Content) -> ElfImage:
    return elf_of_bytes("file", bytes(tiny_elf(CODE, *contents)))


def frames(data: bytes) -> Content:
    return Content(".eh_frame", data)


def found(*contents: Content, name: str = ".eh_frame") -> list[tuple[str, int, int, int]]:
    """Code, address, size and offset of each finding in the section of that name."""
    (one,) = (one for one in lint(image(*contents)) if one.name == name)
    columns = (column.tolist() for column in one.findings.arrays())
    return [(Code(code).text, address, size, offset) for code, address, size, offset in zip(*columns, strict=True)]


def test_a_sound_section_has_no_findings() -> None:
    assert found(frames(eh_frame(CIE, Fde(TEXT, 0x40, "41 0e10"), Fde(TEXT + 0x40, 0x40)))) == []


def test_functions_that_overlap() -> None:
    assert found(frames(eh_frame(CIE, Fde(TEXT, 0x40), Fde(TEXT + 0x30, 0x50)))) == [
        ("overlap", TEXT + 0x30, 0x10, CIE_SIZE + FDE_SIZE)
    ]


def test_a_function_without_bytes() -> None:
    assert found(frames(eh_frame(CIE, Fde(TEXT, 0x80), Fde(TEXT + 0x30, 0)))) == [
        ("empty-function", TEXT + 0x30, 0, CIE_SIZE + FDE_SIZE)
    ]


@pytest.mark.parametrize(("advance", "is_late"), [("7f", False), ("02 80", True)])
def test_a_row_at_the_end_of_a_function(advance: str, is_late: bool) -> None:
    """DW_CFA_advance_loc of 0x3f twice and 1 (to 0x7f), or DW_CFA_advance_loc1 0x80."""
    steps = "7f 7f 41" if advance == "7f" else advance
    expected = [("late-row", TEXT, 0x80, CIE_SIZE)] if is_late else []
    assert found(frames(eh_frame(CIE, Fde(TEXT, 0x80, f"{steps} 0e10")))) == expected


def test_a_cfa_that_is_no_multiple_of_a_word_from_sp() -> None:
    data = eh_frame(CIE, Fde(TEXT, 0x40, "41 0e0c"), Fde(TEXT + 0x40, 0x40, "41 0d06 0e0c"))
    # DW_CFA_def_cfa_offset 12; after DW_CFA_def_cfa_register r6 it is FP's.
    assert found(frames(data)) == [("cfa-unaligned", TEXT, 0x40, CIE_SIZE)]


@pytest.mark.parametrize(("factored", "is_below"), [("11", False), ("12", True)])
def test_a_register_saved_below_the_red_zone(factored: str, is_below: bool) -> None:
    """CFA is SP + 8; the psABI's red zone are the 128 bytes below SP: CFA - 136 is the last slot in it."""
    expected = [("slot-below-sp", TEXT, 0x80, CIE_SIZE)] if is_below else []
    assert found(frames(eh_frame(CIE, Fde(TEXT, 0x80, f"41 83 {factored}")))) == expected


@pytest.mark.parametrize(("offset", "is_note"), [("ff0f", False), ("fc0f", True)])
def test_a_biased_stack_pointer(offset: str, is_note: bool) -> None:
    """SPARC V9: the CFA is r14, %sp, plus 2047, a multiple of 8 with the bias; or 2044."""
    data = eh_frame(f"{PLAIN_CIE} 0c0e{offset}", Fde(TEXT, 0x80))
    (one,) = lint(elf_of_bytes("file", bytes(tiny_elf(CODE, frames(data), e_machine=43))))
    assert (Code.CFA_UNALIGNED in one.findings.code) == is_note


def test_a_debug_file_has_no_eh_frame_hdr() -> None:
    """The header of the section is there, its bytes are not."""
    hdr = Content(".eh_frame_hdr", bytes(12), NOBITS)
    assert [one.name for one in lint(image(frames(eh_frame(CIE, Fde(TEXT, 0x80))), hdr))] == [".eh_frame"]


def test_duplicate_and_unused_cies() -> None:
    """Three CIEs: the second equals the first, and the third has no FDE. Both have their bytes."""
    cie = entry(bytes(4) + octets(CIE))
    data = cie + cie
    for start, target in ((TEXT, 0), (TEXT + 0x40, CIE_SIZE)):
        data += entry(struct.pack("<IQQ", len(data) + 4 - target, start, 0x40))
    data += cie
    assert found(frames(data)) == [
        ("duplicate-cie", 0, CIE_SIZE, CIE_SIZE),
        ("unused-cie", 0, CIE_SIZE, 2 * (CIE_SIZE + FDE_SIZE)),
    ]


def test_cies_with_other_personalities_are_not_duplicates() -> None:
    """Augmentation "zP", DW_EH_PE_pcrel | sdata4: equal bytes at another place are another address."""
    cie = entry(bytes(4) + octets("01 7a5000 01 78 10 05 1b 00100000") + octets(X86_64_START))
    size = len(cie)
    data = cie + cie
    for start, target in ((TEXT, 0), (TEXT + 0x40, size)):
        data += entry(struct.pack("<IQQ", len(data) + 4 - target, start, 0x40) + b"\0")
    assert found(frames(data)) == []


def test_an_fde_of_code_that_the_link_dropped() -> None:
    assert found(frames(eh_frame(CIE, Fde(0, 0x10), Fde(TEXT, 0x80)))) == [("orphan-fde", 0, FDE_SIZE, CIE_SIZE)]


def test_code_without_rules_but_for_padding() -> None:
    """0x1010..0x1020 is a gap of zeros, which is padding; 0x1040..0x1050 has other bytes."""
    code = bytes(0x40) + octets("e8 00000000 c3" + "00" * 10) + bytes(0x30)
    text = Content(".text", code, flags=ALLOC | EXECINSTR)
    data = eh_frame(CIE, Fde(TEXT, 0x10), Fde(TEXT + 0x20, 0x20), Fde(TEXT + 0x50, 0x30))
    (one,) = lint(elf_of_bytes("file", bytes(tiny_elf(text, frames(data)))))
    assert one.findings.code.tolist() == [Code.UNCOVERED]
    assert (one.findings.address.tolist(), one.findings.size.tolist()) == ([0x1040], [0x10])


def test_return_addresses_that_stay_signed() -> None:
    """DW_CFA_AARCH64_negate_ra_state (2d): after the first row; twice; in the first row."""
    cie = "01 00 04 78 1e 0c 1f 00"
    data = eh_frame(cie, Fde(TEXT, 0x20, "41 2d"), Fde(TEXT + 0x20, 0x20, "41 2d 41 2d"), Fde(TEXT + 0x40, 0x40, "2d"))
    size = 4 + 4 + 5 + 3
    aarch64 = bytes(tiny_elf(CODE, frames(data), e_machine=183))
    (one,) = lint(elf_of_bytes("file", aarch64))
    assert [Code(code).text for code in one.findings.code.tolist()] == ["ra-stays-signed"] * 2
    assert one.findings.address.tolist() == [TEXT, TEXT + 0x40]
    assert one.findings.offset.tolist() == [size, size + (FDE_SIZE + 2) + (FDE_SIZE + 4)]


# --- .sframe ----------------------------------------------------------------------------------------------------------

ROWS = (fre(0, 8), fre(4, 16, -16))


def sframe_content(*fdes: SframeFde, flags: int = SORTED) -> Content:
    return Content(".sframe", section(*fdes, flags=flags), SHT_GNU_SFRAME)


def relative(start: int, size: int, *fres: object) -> SframeFde:
    """An FDE at `start` of a section that follows 0x80 bytes of code."""
    return SframeFde(start - END, size, fres)


def test_a_sound_sframe_has_no_findings() -> None:
    assert found(sframe_content(relative(TEXT, 0x80, *ROWS)), name=".sframe") == []


def test_an_fre_at_the_end_of_a_function() -> None:
    content = sframe_content(relative(TEXT, 4, *ROWS), relative(TEXT + 4, 0x7C, *ROWS))
    assert found(content, name=".sframe") == [("late-row", TEXT, 4, 28)]


def test_starts_that_no_flag_promises_to_be_sorted() -> None:
    content = sframe_content(relative(TEXT, 0x40, *ROWS), relative(TEXT + 0x40, 0x40, *ROWS), flags=0)
    assert found(content, name=".sframe") == [("unsorted", 0, 0, -1)]


@pytest.mark.parametrize(("offsets", "is_further"), [((16, -16), False), ((16, -16, -24), True)])
def test_offsets_after_those_of_cfa_and_fp(offsets: tuple[int, ...], is_further: bool) -> None:
    """On AMD64 the RA offset is fixed: an FRE has at most two."""
    content = sframe_content(relative(TEXT, 0x80, fre(0, 8), fre(4, *offsets)))
    assert found(content, name=".sframe") == ([("further-offsets", 0, 0, -1)] if is_further else [])


# --- .eh_frame_hdr ----------------------------------------------------------------------------------------------------


def hdr_found(*rows: tuple[int, int], to_eh_frame: int = 0, count: int | None = None) -> list[str]:
    """The findings in an `.eh_frame_hdr` of these rows (start, offset in `.eh_frame`), which follows `.eh_frame`."""
    data = eh_frame(CIE, Fde(TEXT, 0x40), Fde(TEXT + 0x40, 0x40))
    address = (END + len(data) + 15) & ~15
    table = b"".join(struct.pack("<ii", start - address, END + fde - address) for start, fde in rows)
    number = len(rows) if count is None else count
    header = octets("01 1b 03 3b") + struct.pack("<iI", END - (address + 4) + to_eh_frame, number) + table
    contents = [frames(data), Content(".eh_frame_hdr", header)]
    return [code for code, *_ in found(*contents, name=".eh_frame_hdr")]


FIRST, SECOND = (TEXT, CIE_SIZE), (TEXT + 0x40, CIE_SIZE + FDE_SIZE)


def test_eh_frame_hdr() -> None:
    assert hdr_found(FIRST, SECOND) == []
    assert hdr_found(FIRST, SECOND, to_eh_frame=8) == ["hdr-pointer"]
    assert hdr_found(SECOND, FIRST) == ["hdr-unsorted"]
    assert hdr_found(FIRST) == ["hdr-no-row"]
    assert hdr_found(FIRST, (TEXT + 0x40, CIE_SIZE)) == ["hdr-wrong-fde"]
    assert "hdr-no-fde" in hdr_found(FIRST, (TEXT + 0x44, CIE_SIZE + FDE_SIZE))
    assert "hdr-cut" in hdr_found(FIRST, SECOND, count=3)


# --- whole files ------------------------------------------------------------------------------------------------------


def test_a_malformed_section_is_a_finding_and_the_others_are_read() -> None:
    broken = frames(octets("40000000") + bytes(8))
    sections = lint(image(broken, sframe_content(relative(TEXT, 0x80, *ROWS))))
    assert [(one.name, bool(one.reason)) for one in sections] == [(".eh_frame", True), (".sframe", False)]
    assert [Code(code).text for code in sections[0].findings.code.tolist()] == ["unreadable"]
    assert "CIE" in sections[0].reason or "length" in sections[0].reason


def test_codes_are_words_with_hyphens_and_one_clause() -> None:
    assert len(CODES) == len(Code)
    assert all(text.replace("-", "").isalpha() and text.islower() for text in CODES)
    assert {code.text for code in Code if not code.is_fault} == {
        *("empty-function", "duplicate-cie", "unused-cie", "orphan-fde", "cfa-unaligned"),
        *("ra-stays-signed", "uncovered"),
    }


@pytest.mark.parametrize("path", REAL_FILES)
def test_real_files_have_no_faults_of_ours(path: str, tmp_path: Path) -> None:
    """What lint finds in our `.sframe` is in `.eh_frame`, too, or is a note about code that SFrame cannot describe."""
    write_sframe(path, tmp_path / "file")
    sections = {one.name: one for one in lint(elf_of_bytes("file", (tmp_path / "file").read_bytes()))}
    assert not faults(sections[".sframe"])
    assert not faults(sections[".eh_frame_hdr"])


def faults(one: LintedSection) -> list[Code]:
    return [Code(code) for code in one.findings.code.tolist() if Code(code).is_fault]


def test_a_section_of_another_kind_is_not_linted() -> None:
    assert lint(image(frames(eh_frame(CIE, Fde(TEXT, 0x80)))), ".sframe") == ()
