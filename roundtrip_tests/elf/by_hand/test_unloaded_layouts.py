"""Sections that are not loaded, in layouts by hand: where a replaced one goes, what is refused and what the check sees.

Strategy: every expected offset is counted in the test; the check gets a correct result that is damaged in one place.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from unwindkit import BuildError, ParseError
from unwindkit.writers.elf.checks.unloaded import ExpectedUnloaded, check_unloaded
from unwindkit.writers.elf.section_table import read_section_table
from unwindkit.writers.elf.unloaded import AddedSection, write_unloaded

from ...support.handmade import place
from ...support.small_elf import (
    ALLOC,
    EM_386,
    ET_EXEC,
    EXEC,
    PROGBITS,
    PT_LOAD,
    Load,
    Part,
    small_elf,
    undescribed,
)

TEXT = Part(".text", PROGBITS, ALLOC | EXEC, b"\xc3" * 8)
LINE, OTHER = Part(".line", PROGBITS, 0, b"line"), Part(".other", PROGBITS, 0, b"other")
R, RX = 4, 5
PT_NOTE = 4
TEXT_INDEX, LINE_INDEX, OTHER_INDEX = 1, 2, 3
LONGER = b"longer than before"
NEW = AddedSection(".new", b"new")
NAMES = b"\0.text\0.line\0.other\0.names\0"


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    return tmp_path / "file"


def offsets_of(data: bytes) -> tuple[int, list[int]]:
    """e_shoff and the sh_offset of each section of an ELF64 file."""
    table, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
    return table, [struct.unpack_from("<Q", data, table + 64 * index + 24)[0] for index in range(count)]


def written(path: Path, data: bytes, *added: AddedSection, line: bytes = LONGER) -> bytes:
    """The file with other bytes in `.line`."""
    path.write_bytes(data)
    out = path.with_name("out")
    write_unloaded(path, out, {LINE_INDEX: line}, added)
    return out.read_bytes()


# --- where it goes ----------------------------------------------------------------------------------------------


def test_sections_after_it_move_by_as_much_as_it_grows(path: Path) -> None:
    """.text at 64, .line at 72, .other at 76, the names at 81, 27 bytes, and padding; the section headers at 8 * n."""
    data = small_elf(TEXT, LINE, OTHER)
    assert offsets_of(data) == (108, [0, 64, 72, 76, 81])
    out = written(path, data)
    assert offsets_of(out) == (128, [0, 64, 72, 72 + 18, 76 + 19])
    assert out[64:122] == TEXT.data + LONGER + b"other" + NAMES


@pytest.mark.parametrize(("is_64", "machine"), [(True, 62), (False, EM_386)])
def test_memory_of_a_segment_is_not_in_the_file(is_64: bool, machine: int, path: Path) -> None:
    """The PT_LOAD ends before .line in the file, and far after it in memory: .line stays, and what follows moves."""
    start = 64 + 56 if is_64 else 52 + 32
    load = Load(PT_LOAD, RX, 0, start + 8, memory=0x4000)
    data = small_elf(TEXT, LINE, OTHER, machine=machine, is_64=is_64, elf_type=ET_EXEC, loads=(load,))
    out = written(path, data)
    assert out[start:][: 8 + 18 + 5 + 27] == TEXT.data + LONGER + b"other" + NAMES


def test_bytes_that_no_header_describes_stay_where_they_are(path: Path) -> None:
    """Between .line and .other: .line goes to the end of the file, and zeros replace it."""
    data = small_elf(TEXT, LINE, undescribed(b"here"), OTHER)
    out = written(path, data)
    assert offsets_of(out) == (offsets_of(data)[0], [0, 64, len(data), 80, 85])
    assert out[72:85] == bytes(4) + b"here" + b"other"
    assert out[len(data) :] == LONGER
    # Zeros are padding: these go.
    out = written(path, small_elf(TEXT, LINE, undescribed(bytes(4)), OTHER))
    assert out[72:95] == LONGER + b"other"


def test_a_section_at_the_end_of_the_file_is_aligned_as_its_header_says(path: Path) -> None:
    """A byte that no header describes keeps all in place; the end of the file is no multiple of 32."""
    line = Part(".line", PROGBITS, 0, b"line", alignment=32)
    data = small_elf(TEXT, line, undescribed(b"!"), OTHER)
    assert len(data) == 64 + 8 + 4 + 1 + 5 + 27 + 5 * 64 == 429
    # .line has 18 bytes, and the names have 27 and 5 for .new.
    assert offsets_of(written(path, data, NEW)) == (504, [0, 64, 448, 77, 448 + 18, 448 + 18 + 32])


def test_program_headers_at_the_end_of_the_file_stay_there(path: Path) -> None:
    load = Load(PT_LOAD, RX, 0, 0x80)
    data = small_elf(TEXT, LINE, OTHER, elf_type=ET_EXEC, loads=(load,))
    end = len(data)
    moved = data[:32] + struct.pack("<Q", end) + data[40:] + data[64:120]
    out = written(path, moved)
    assert struct.unpack_from("<Q", out, 32) == (end,)
    assert out[end : end + 56] == data[64:120]
    assert offsets_of(out)[1][LINE_INDEX] == end + 56


def test_section_headers_before_it_stay_where_they_are(path: Path) -> None:
    """Section headers at 64, .text at 384, .line at 392, .other at 396: only the sections after .line move."""
    data = small_elf(undescribed(bytes(5 * 64)), TEXT, LINE, OTHER)
    (end,) = struct.unpack_from("<Q", data, 40)
    first = data[:40] + struct.pack("<Q", 64) + data[48:64] + data[end:] + data[64 + 5 * 64 : end]
    out = written(path, first)
    assert offsets_of(out) == (64, [0, 384, 392, 392 + 18, 392 + 23])
    assert out[384:][: 8 + 18 + 5 + 27] == TEXT.data + LONGER + b"other" + NAMES


@pytest.mark.parametrize(("gap", "moves"), [(0x10000, True), (0x10001, False)])
def test_padding_of_up_to_64_kilobytes_closes_up(gap: int, moves: bool, path: Path) -> None:
    """Zeros after .line, which ends at 76. More than the largest page is no padding: .line goes to the end."""
    data = small_elf(TEXT, LINE, undescribed(bytes(gap)), OTHER)
    _, [_, _, line, other, _] = offsets_of(written(path, data))
    assert (line, other) == ((72, 72 + 18) if moves else (len(data), 76 + gap))


def test_what_a_segment_describes_does_not_move(path: Path) -> None:
    """.text at 120, .line at 128, .other at 132, which a PT_NOTE describes: .line goes to the end."""
    data = small_elf(TEXT, LINE, OTHER, elf_type=ET_EXEC, loads=(Load(PT_NOTE, R, 132, 137),))
    out = written(path, data)
    assert offsets_of(out)[1] == [0, 120, len(data), 132, 137]
    assert out[128:137] == bytes(4) + b"other"


def test_what_moves_keeps_its_alignment(path: Path) -> None:
    """.other at 80, a multiple of 16, moves to 96, the next one after .line; the names, at 101, follow it."""
    other = Part(".other", PROGBITS, 0, b"other", alignment=16)
    data = small_elf(TEXT, LINE, undescribed(bytes(4)), other)
    assert offsets_of(data)[1] == [0, 64, 72, 80, 85]
    assert offsets_of(written(path, data))[1] == [0, 64, 72, 96, 101]


# --- what is refused --------------------------------------------------------------------------------------------


def refused(path: Path, data: bytes, *added: AddedSection) -> BuildError | ParseError:
    with pytest.raises((BuildError, ParseError)) as caught:
        written(path, data, *added)
    assert not path.with_name("out").exists()
    return caught.value


IDENT = "is not an ELF file of a known class and byte order"
HEADERS = {
    "class": (4, b"\3", "e_ident", IDENT),
    "byte order": (5, b"\3", "e_ident", IDENT),
    "no section headers": (40, bytes(8), "e_shoff", "there are no section headers of 64 bytes"),
    "size of section headers": (58, b"\x41\0", "e_shoff", "there are no section headers of 64 bytes"),
    "no names": (62, b"\0\0", "e_shstrndx", "is 0, which is not a section of names"),
    "names after the last section": (62, b"\5\0", "e_shstrndx", "is 5, which is not a section of names"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_file_headers_that_are_refused(name: str, path: Path) -> None:
    offset, value, record, reason = HEADERS[name]
    data = small_elf(TEXT, LINE, OTHER)
    error = refused(path, data[:offset] + value + data[offset + len(value) :])
    assert isinstance(error, ParseError)
    assert (place(error), error.reason) == (("", None, record), reason)


def test_a_section_may_end_with_the_file_and_not_after_it(path: Path) -> None:
    """The section headers come first here, and .names last."""
    data = small_elf(TEXT, LINE, OTHER)
    start = offsets_of(data)[0]
    headers, size = bytearray(data[start:]), len(data) - start
    for index in range(1, 5):
        (offset,) = struct.unpack_from("<Q", headers, 64 * index + 24)
        struct.pack_into("<Q", headers, 64 * index + 24, offset + size)
    first = bytearray(data[:64] + headers + data[64:start])
    struct.pack_into("<Q", first, 40, 64)
    assert written(path, bytes(first))
    path.with_name("out").unlink()
    struct.pack_into("<Q", first, 64 + 4 * 64 + 32, len(NAMES) + 1)
    error = refused(path, bytes(first))
    assert (place(error), error.reason) == (("", None, "section header[4]"), "is outside the file")


def test_loaded_names_cannot_grow(path: Path) -> None:
    loads = (Load(PT_LOAD, R, 0, 0x200),)
    data = small_elf(TEXT, LINE, OTHER, elf_type=ET_EXEC, loads=loads, names_flags=ALLOC)
    error = refused(path, data, NEW)
    assert isinstance(error, BuildError)
    assert (place(error), error.reason) == (
        ("", None, "e_shstrndx"),
        "the section names are loaded: no section can be added",
    )


def test_as_many_sections_as_the_elf_header_counts(path: Path) -> None:
    """0xfeff sections, the first and the names included: one more would need the first section header for the count."""
    data = bytearray(small_elf(TEXT, LINE, OTHER))
    data += bytes(64) * (0xFEFF - 5)
    struct.pack_into("<H", data, 60, 0xFEFF)
    error = refused(path, bytes(data), NEW)
    assert isinstance(error, BuildError)
    assert (place(error), error.reason) == (("", None, "e_shnum"), "the file has 65279 sections already")


def test_names_are_those_of_the_name_section_and_segments_have_bytes(path: Path) -> None:
    loads = (Load(PT_LOAD, RX, 0, 0x80, 0x4000), Load(PT_LOAD, R, 0x40, 0x40, 0x100))
    for is_64 in (True, False):
        machine = 62 if is_64 else EM_386
        path.write_bytes(small_elf(TEXT, LINE, machine=machine, is_64=is_64, elf_type=ET_EXEC, loads=loads))
        with path.open("rb") as file:
            table = read_section_table(file)
        assert table.names == (b"", b".text", b".line", b".names")
        assert table.segments == ((0, 0x80),)


# --- the check --------------------------------------------------------------------------------------------------


def faults(path: Path, before: bytes, after: bytes) -> tuple[str, ...]:
    """Of a file in which nothing should have changed."""
    path.write_bytes(before)
    out = path.with_name("out")
    out.write_bytes(after)
    return check_unloaded(path, out, ExpectedUnloaded({}, ()))


def test_the_check_notices_lost_alignment(path: Path) -> None:
    """.line is aligned to 8 at offset 72; a byte before it moves it to 73, and all that follows."""
    line = Part(".line", PROGBITS, 0, b"line", alignment=8)
    aligned, shifted = small_elf(TEXT, line), small_elf(TEXT, undescribed(b"\0"), line)
    assert faults(path, aligned, shifted) == ("section [2] .line: is no longer aligned to 8",)
    # What was not aligned need not be.
    further = small_elf(TEXT, undescribed(bytes(2)), line)
    assert faults(path, shifted, further) == ()


def test_the_check_notices_a_changed_trailer(path: Path) -> None:
    data = small_elf(TEXT, LINE)
    fault = ("the data after the last section has changed",)
    assert faults(path, data + b"trailer", data + b"trailer") == ()
    assert faults(path, data + b"trailer", data + b"traileR") == fault
    assert faults(path, data + b"trailer", data + b"traile") == fault
    assert faults(path, data + b"trailer", data) == fault
