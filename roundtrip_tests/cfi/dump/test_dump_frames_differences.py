"""How `unwindkit dump --frames` and `--frames-interp` differ from readelf 2.47, as listed in docs/commands/dump.md.

Strategy: where readelf misreads a section, our text is compared with what readelf prints for an equivalent section that
it understands; what we refuse has its offset and reason.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from unwindkit import ParseError

from ...support.commands import refuses
from ...support.handmade import octets
from ...support.made.made_frames import (
    TARGETS,
    X86_64,
    Cie,
    Entry,
    Fde,
    Raw,
    Target,
    by_readelf,
    by_us,
    elf_file,
    frame_file,
    frame_section,
    sleb,
    uleb,
)
from ...support.oracles import oracle_command
from ...support.tiny_elf import CODE, Content, tiny_elf
from .test_dump_frames_files import PLAIN, header
from .test_dump_frames_made import ADVANCE, START

pytestmark = pytest.mark.oracle
MIPS, S390X = TARGETS["mips"], TARGETS["s390x"]


def texts(path: Path, *entries: Entry, target: Target = X86_64, is_eh: bool = True, rows: bool = True) -> list[str]:
    """What we print and what readelf prints, as rows or as instructions, of these entries."""
    frame_file(path, target, *entries, is_eh=is_eh)
    return [by(path, interpreted=rows).decode() for by in (by_us, by_readelf)]


def warnings(path: Path) -> str:
    command = [*oracle_command("readelf"), "-wNF", path]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


def body(text: str) -> str:
    """The lines of rows and instructions, without the addresses of entries and sections."""
    return "\n".join(line for line in text.splitlines() if " CIE" not in line and " FDE" not in line)


# --- fields --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [False, True])
def test_address_size_of_a_cie(rows: bool, tmp_path: Path) -> None:
    """readelf reads the range with the file's address size, 8, and so no instructions after it."""
    cie, file = Cie(START, version=4, sizes=(4, 0)), tmp_path / "file"
    ours, theirs = texts(file, cie, Fde(ADVANCE), is_eh=False, rows=rows)
    assert "FDE cie=00000000 pc=00001000..00001100\n" in ours
    assert "rsp+16" not in theirs
    assert "def_cfa_offset" not in theirs
    in_32_bits = texts(file, cie, Fde(ADVANCE), target=TARGETS["x32"], is_eh=False, rows=rows)
    assert [ours] * 2 == in_32_bits


def test_segment_selector_beside_an_address_of_8_bytes(tmp_path: Path) -> None:
    """DWARF5 7.24 bounds neither size; readelf refuses more than 8 bytes of both."""
    cie = Cie(START, version=4, sizes=(8, 2))
    ours, theirs = texts(tmp_path / "file", cie, Fde(ADVANCE, segment=7), is_eh=False)
    assert "Invalid segment size (2) in CIE data" in warnings(tmp_path / "file")
    assert theirs == "Contents of the .debug_frame section:\n\n\n"
    assert "pc=0007:0000000000001000..0000000000001100\n" in ours
    without = texts(tmp_path / "file", Cie(START, version=4), Fde(ADVANCE), is_eh=False)[1]
    assert re.sub("0+100a? |0007:", "", body(ours)) == re.sub("0+100a? ", "", body(without))


@pytest.mark.parametrize("rows", [False, True])
def test_id_in_a_64_bit_entry_of_eh_frame(rows: bool, tmp_path: Path) -> None:
    """The id has 4 bytes there, too (LSB Core 10.6.1): readelf reads 8, and finds no CIE."""
    ours, theirs = texts(tmp_path / "file", Cie(START, is_64=True), Fde(ADVANCE), rows=rows)
    assert "cie=invalid" in theirs
    in_32_bits = texts(tmp_path / "file", Cie(START), Fde(ADVANCE), rows=rows)[1]
    assert body(ours).replace("  DW_CFA_nop\n", "") == body(in_32_bits).replace("  DW_CFA_nop\n", "")


@pytest.mark.parametrize("target", [S390X, MIPS], ids=["s390x", "mips"])
def test_entries_behind_a_terminator_in_big_endian(target: Target, tmp_path: Path) -> None:
    """readelf skips the zeros at the start of the next length."""
    ours, theirs = texts(tmp_path / "file", Cie(START), Raw(), Cie(START), Fde(ADVANCE), target=target)
    assert theirs.startswith(ours[: ours.index("terminator\n") + 12])
    assert theirs.count("CIE") == 1
    assert ours.count("CIE") == 2
    assert ours.endswith(texts(tmp_path / "file", Cie(START), Fde(ADVANCE), target=target)[1][-50:])


@pytest.mark.parametrize("encoding", [0x01, 0x09])
def test_leb128_addresses(encoding: int, tmp_path: Path) -> None:
    """readelf reads them as addresses of 8 bytes."""
    cie = Cie(START, augmentation=b"zR", data=bytes([encoding]))
    pointer = uleb if encoding == 0x01 else sleb
    fde = Fde(start=int.from_bytes((pointer(0x1000) + uleb(0x20) + b"\0" + ADVANCE).ljust(8, b"\0"), "little"), size=0)
    frame_file(tmp_path / "file", X86_64, cie, fde)
    assert "pc=0000000000001000..0000000000001020\n" in by_us(tmp_path / "file", interpreted=True).decode()
    assert "pc=0000000000001000" not in by_readelf(tmp_path / "file", interpreted=True).decode()


# --- instructions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [False, True])
def test_negative_offset_is_unsigned(rows: bool, tmp_path: Path) -> None:
    """LSB Core 10.5.1.1.1.1: an unsigned LEB128; readelf reads 0x7f as -1."""
    ours, theirs = texts(tmp_path / "file", Cie(START), Fde(octets("2f 06 7f 41")), rows=rows)
    assert ours.replace("c+1016 ", "c-8   ").replace("+1016", "-8") == theirs != ours


def test_cfa_of_a_cie_that_is_an_expression(tmp_path: Path) -> None:
    """Its FDEs use it until they set another; readelf shows register 0."""
    ours, theirs = texts(tmp_path / "file", Cie(octets("0f 02 7708")), Fde(octets("41 83 02")))
    assert ours.count("exp  ") == 3
    assert theirs == ours.replace("1000 exp  ", "1000 rax+0").replace("1001 exp  ", "1001 rax+0")


def test_restore_among_the_instructions_of_a_cie(tmp_path: Path) -> None:
    """There is nothing to restore yet: the rule is removed. readelf keeps it."""
    ours, theirs = texts(tmp_path / "file", Cie(START + octets("83 02 c3")), Fde(ADVANCE))
    assert ours.replace(" u     c-8 ", " c-16  c-8 ") == theirs != ours


# Beyond readelf's tables: a register added to x86-64 by APX (r17), and one added to PowerPC by SPE.
@pytest.mark.parametrize(("name", "number"), [("x86_64", 131), ("aarch64", 130), ("ppc", 1200)])
def test_registers_beyond_the_tables(name: str, number: int, tmp_path: Path) -> None:
    fde = Fde(b"\x41\x05" + uleb(number) + b"\x02\x41")
    ours, theirs = texts(tmp_path / "file", Cie(START), fde, target=TARGETS[name], rows=False)
    assert theirs == ours.replace(f": r{number} ", f": bad register: r{number} ") != ours
    ours, theirs = texts(tmp_path / "file", Cie(START), fde, target=TARGETS[name])
    assert f" r{number}" in ours
    assert "bad register" in theirs


def test_return_column_beyond_the_table(tmp_path: Path) -> None:
    """readelf stops there without a message."""
    ours, theirs = texts(tmp_path / "file", Cie(START, version=3, return_column=200), Fde(ADVANCE))
    assert theirs == "Contents of the .eh_frame section:\n\n\n"
    assert "ra=200\n" in ours


@pytest.mark.parametrize(
    ("operation", "shown", "by_readelf"),
    [
        ("a2 06", "DW_OP_constx <0x6>", "(Unknown location op 0xa2)"),
        ("a7 04 21", "DW_OP_xderef_type: 4 <0x21>", "(Unknown location op 0xa7)"),
        ("f1 03 00100000", "(User defined location op 0xf1)", "DW_OP_GNU_encoded_addr: fmt:03 addr:0000000000001000"),
    ],
)
def test_operations(operation: str, shown: str, by_readelf: str, tmp_path: Path) -> None:
    """readelf does not know two of DWARF 5's; GNU_encoded_addr has no meaning in call frame information."""
    expression = octets(operation)
    fde = Fde(b"\x0f" + uleb(len(expression)) + expression)
    ours, theirs = texts(tmp_path / "file", Cie(START), fde, rows=False)
    assert f"DW_CFA_def_cfa_expression ({shown})\n" in ours
    assert ours.replace(shown, by_readelf) == theirs


# --- .eh_frame_hdr ---------------------------------------------------------------------------------------------------


def header_texts(path: Path, pointer: int, table: int, size: int = 4) -> list[str]:
    rows = b"".join(X86_64.integer(value, size) for value in (-0x1000, 0x18))
    contents = (
        Content(".eh_frame_hdr", header(X86_64, pointer, 0x03, table, 1, rows)),
        Content(".eh_frame", frame_section(X86_64, *PLAIN)),
    )
    path.write_bytes(elf_file(X86_64, *contents))
    return [by(path, interpreted=True).decode() for by in (by_us, by_readelf)]


def test_pc_relative_table(tmp_path: Path) -> None:
    """The second value of a row is relative to its own field; readelf makes it relative to the first: 4 bytes too
    low."""
    ours, theirs = header_texts(tmp_path / "file", 0x1B, 0x1B)
    assert " (offset: 0xf00c) -> 0x18 fde=[ ffffffffffffffe0]\n" in ours
    assert theirs == ours.replace("ffe0]", "ffdc]") != ours


def test_indirect_header(tmp_path: Path) -> None:
    """An indirect pointer is relative to the same base as any other; readelf takes 0 as its base."""
    ours, theirs = header_texts(tmp_path / "file", 0x9B, 0x3B)
    assert "Start of frame section:  0x44 (offset: 0x10048)\n" in ours
    assert "Start of frame section:  0x44\n" in theirs
    for text in (ours, theirs):
        assert "  Pointer Encoding Format: 0x9b (sdata4, <unknown application method>)\n" in text


def test_header_of_addresses(tmp_path: Path) -> None:
    """DW_EH_PE_absptr: readelf reads no pointer of that format, and has no name for it."""
    ours, theirs = header_texts(tmp_path / "file", 0x1B, 0x00, size=8)
    assert "Failed to read location field for entry 0" in warnings(tmp_path / "file")
    row = "  0xfffffffffffff000 (offset: 0xfffffffffffff000) -> 0x18 fde=[ fffffffffffeffd0]\n\n"
    assert ours.replace(row, "") == theirs != ours
    assert "  Table Encoding Format:   0 (<unknown format>, absolute)\n" in theirs


# --- refused --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ((Cie(START), Fde(octets("0b 41"))), r"FDE\[0\]\.instructions: DW_CFA_restore_state without"),
        (
            (Cie(START), Fde(octets("44 01") + X86_64.integer(0x1001, 8))),
            r"FDE\[0\]\.instructions: the location moves backwards",
        ),
        (
            (Cie(START), Fde(b"".join(b"\x06" + uleb(one) for one in range(257)) + ADVANCE)),
            "instructions: more than 256 registers are named",
        ),
    ],
)
def test_rows_that_are_refused(entries: tuple[Entry, ...], reason: str, tmp_path: Path) -> None:
    """Their instructions are printed."""
    path = frame_file(tmp_path / "file", TARGETS["ppc64le"], *entries)
    assert by_us(path, interpreted=False) == by_readelf(path, interpreted=False)
    with pytest.raises(ParseError, match=reason):
        by_us(path, interpreted=True)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (Cie(START, version=2), "version"),
        (Cie(octets("19")), r"CIE\[0\]\.instructions: the opcode is not defined"),
        (Cie(octets("0f 20 77")), r"CIE\[0\]\.instructions: an expression reaches past the record's end"),
    ],
)
def test_entries_that_are_refused(entry: Cie, reason: str, tmp_path: Path) -> None:
    path = frame_file(tmp_path / "file", X86_64, entry)
    for interpreted in (False, True):
        with pytest.raises(ParseError, match=reason):
            by_us(path, interpreted=interpreted)
    assert by_readelf(path, interpreted=True).startswith(b"Contents of the .eh_frame section:\n\n")


def test_no_such_section(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(tiny_elf(CODE))
    says = "the file has none of .eh_frame_hdr, .eh_frame, .debug_frame"
    refuses(tmp_path / "file", "dump", "--frames-interp", tmp_path / "file", says=says)
    assert (by_readelf(tmp_path / "file", interpreted=True), warnings(tmp_path / "file")) == (b"", "")
