"""Hostile and odd ELF files: every header field that reading depends on, corrupted one by one in a small file."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from unwindkit import ParseError, check, info, read_elf, symbolize, write_breakpad
from unwindkit.converters.elf import image
from unwindkit.converters.elf.image import covered_bytes, open_elf

from ..support.handmade import place
from ..support.tiny_elf import (
    ALLOC,
    BASE,
    CFI,
    CODE,
    COMPRESSED,
    ET_CORE,
    EXECINSTR,
    NOBITS,
    SYMTAB,
    Content,
    patched,
    tiny_elf,
)
from ..support.work import at_most_allocated, at_most_calls

MAX = (1 << 64) - 1


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    return tmp_path / "file"


def refused(path: Path, data: bytes | bytearray) -> ParseError:
    """The error that reading the table gives."""
    path.write_bytes(data)
    with pytest.raises(ParseError) as caught:
        read_elf(path)
    return caught.value


def test_the_file_that_the_cases_spoil_is_good(path: Path) -> None:
    path.write_bytes(tiny_elf())
    assert [(function.start, function.size) for function in read_elf(path)] == [(0x1000, 0x40), (0x1040, 0x40)]
    (found,) = info(path).sections
    assert (found.name, found.functions, found.rows, found.distinct_runs) == (".eh_frame", 2, 3, 2)
    assert (found.covered_bytes, info(path).code_bytes) == (0x80, 0x80)


# 0x1eb: the section headers; 0x2eb: the file's size.
HEADERS = [
    ({"e_shnum": 5}, "e_shnum", "5 headers from 0x1eb reach past the file's end at 0x2eb"),
    ({"e_shnum": 0xFEFF}, "e_shnum", "65279 headers from 0x1eb reach past the file's end at 0x2eb"),
    ({"e_shoff": MAX}, "e_shnum", "4 headers from 0xffffffffffffffff reach past the file's end at 0x2eb"),
    ({"e_shoff": 1 << 63}, "e_shnum", "4 headers from 0x8000000000000000 reach past the file's end at 0x2eb"),
    ({"e_shentsize": 0}, "e_shentsize", "0 bytes do not hold a header of 64"),
    ({"e_shentsize": 63}, "e_shentsize", "63 bytes do not hold a header of 64"),
    ({"e_shentsize": 0xFFFF}, "e_shnum", "4 headers from 0x1eb reach past the file's end at 0x2eb"),
    ({"e_phoff": MAX}, "e_phnum", "1 headers from 0xffffffffffffffff reach past the file's end at 0x2eb"),
    ({"e_phnum": 0xFFFE}, "e_phnum", "65534 headers from 0x40 reach past the file's end at 0x2eb"),
    ({"e_phentsize": 0}, "e_phentsize", "0 bytes do not hold a header of 56"),
    ({"e_phoff": 0, "e_phentsize": 0, "e_phnum": 0xFFFE}, "e_phentsize", "0 bytes do not hold a header of 56"),
    ({"ei_class": 0}, "EI_CLASS", "is 0, expected 1 or 2"),
    ({"ei_class": 1}, "e_shentsize", "0 bytes do not hold a header of 40"),  # read as ELF32
    ({"ei_data": 3}, "EI_DATA", "is 3, expected 1 or 2"),
    ({"ei_data": 2}, "e_shnum", "1024 headers from 0xeb01000000000000 reach past the file's end at 0x2eb"),
    ({"e_shoff": 0}, "", "has no call frame information: neither .eh_frame nor .debug_frame"),
    ({"e_shnum": 0}, "", "has no call frame information: neither .eh_frame nor .debug_frame"),
    ({"e_shstrndx": 0}, "", "has no call frame information: neither .eh_frame nor .debug_frame"),
    ({"e_shstrndx": 4}, "", "has no call frame information: neither .eh_frame nor .debug_frame"),
    ({"e_shstrndx": 0xFFFF}, "", "has no call frame information: neither .eh_frame nor .debug_frame"),
]


@pytest.mark.parametrize(("fields", "record", "reason"), HEADERS)
def test_file_header_that_lies(path: Path, fields: dict[str, int], record: str, reason: str) -> None:
    error = refused(path, tiny_elf(**fields))
    assert place(error) == ("", None, record)
    assert error.reason == reason


@pytest.mark.parametrize(
    ("header", "zeroth", "record"),
    [
        # gABI: if 16 bits are not enough, section 0 has the number.
        ({"e_shnum": 0}, {"sh_size": 1 << 63}, "e_shnum"),
        ({"e_shnum": 0}, {"sh_size": MAX}, "e_shnum"),
        ({"e_shnum": 0, "e_shentsize": 0}, {"sh_size": MAX}, "e_shentsize"),
        ({"e_phnum": 0xFFFF}, {"sh_info": 0xFFFFFFFF}, "e_phnum"),
        ({"e_phnum": 0xFFFF, "e_phoff": 0, "e_phentsize": 0}, {"sh_info": 0xFFFFFFFF}, "e_phentsize"),
    ],
)
def test_extended_count_that_lies(path: Path, header: dict[str, int], zeroth: dict[str, int], record: str) -> None:
    assert place(refused(path, patched(tiny_elf(**header), section=0, **zeroth))) == ("", None, record)


def test_extended_counts_are_read(path: Path) -> None:
    data = patched(tiny_elf(e_shnum=0, e_phnum=0xFFFF, e_shstrndx=0xFFFF), section=0, sh_size=4, sh_info=1, sh_link=3)
    path.write_bytes(data)
    assert len(read_elf(path)) == 2
    assert open_elf(path).load_address == BASE


CONTENTS = [
    ({"sh_size": MAX}, "sh_size", "reaches to 0x1000000000000017f in a file of 0x2eb bytes"),
    ({"sh_size": 0x2EC - 0x180}, "sh_size", "reaches to 0x2ec in a file of 0x2eb bytes"),
    ({"sh_offset": 1 << 63}, "sh_size", "reaches to 0x8000000000000045 in a file of 0x2eb bytes"),
    (
        {"sh_type": NOBITS},
        "sh_type",
        "is NOBITS: this is a separate debug file; the stripped file has the bytes",
    ),
    ({"sh_flags": ALLOC | COMPRESSED}, "ch_type", "compression type 14 is unknown: 1 is zlib, 2 is zstd"),
]


@pytest.mark.parametrize(("fields", "record", "reason"), CONTENTS)
def test_header_of_the_section_that_lies(path: Path, fields: dict[str, int], record: str, reason: str) -> None:
    error = refused(path, patched(tiny_elf(), section=2, **fields))
    assert (error.section, error.record, error.reason) == (".eh_frame", record, reason)
    (about,) = info(path).sections
    assert about.fault == str(error)


@pytest.mark.parametrize("address", [0, MAX, 1 << 63])
def test_section_at_any_address(path: Path, address: int) -> None:
    path.write_bytes(patched(tiny_elf(), section=2, sh_addr=address))
    assert len(read_elf(path)) == 2


@pytest.mark.parametrize(
    ("fields", "code", "covered"),
    [
        ({"sh_addr": MAX}, 0x80, 0),
        ({"sh_addr": 1 << 63}, 0x80, 0),
        ({"sh_addr": 0x1040}, 0x80, 0x40),
        ({"sh_size": MAX}, MAX, 0x80),
        ({"sh_offset": MAX}, 0x80, 0x80),
        ({"sh_type": NOBITS}, 0x80, 0x80),
    ],
)
def test_code_section_that_lies(path: Path, fields: dict[str, int], code: int, covered: int) -> None:
    path.write_bytes(patched(tiny_elf(), section=1, **fields))
    found = info(path)
    assert (found.code_bytes, found.sections[0].covered_bytes) == (code, covered)


@pytest.mark.parametrize("counted", [1, 2, 3, 1 << 14])
def test_cover_of_kernel_addresses_beside_sections_at_low_ones(
    path: Path, counted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """vmlinux has executable sections at both ends of the address space."""
    monkeypatch.setattr(image, "_COUNTED", counted)
    low, high = Content(".init", bytes(0x20), flags=ALLOC | EXECINSTR), CODE
    path.write_bytes(patched(tiny_elf(low, high, CFI), section=2, sh_addr=0xFFFFFFFF81000000))
    start = np.array([0xFFFFFFFF81000010, 0xFFFFFFFF81000000, 0x1008, 0xFFFFFFFF81000018], np.uint64)
    end = start + np.array([0x10, 0x18, 8, 4], np.uint64)  # overlapping, nested, unsorted
    assert covered_bytes(open_elf(path), start, end) == (0x20 + 8, 0xA0)


@pytest.mark.parametrize("section", [1, 2, 3])
@pytest.mark.parametrize(
    "fields", [{"sh_name": 0xFFFFFFFF}, {"sh_link": 0xFFFF}, {"sh_info": 0xFFFFFFFF}, {"sh_entsize": 0}]
)
@pytest.mark.parametrize(
    "kind", [1, 2, 4, 5, 6, 7, 9, 11, 17, 19, 0x6FFFFFF6, 0x6FFFFFFD, 0x6FFFFFFE, 0x70000001, MAX >> 32]
)
def test_section_headers_that_do_not_matter_do_no_harm(
    path: Path, section: int, fields: dict[str, int], kind: int
) -> None:
    """Symbol tables that link to themselves, hashes without buckets: only the table and its names are read."""
    path.write_bytes(patched(tiny_elf(), section=section, sh_type=kind, **fields))
    if section == 2 and "sh_name" in fields:
        assert info(path).sections == ()
    else:
        assert len(read_elf(path)) == 2


def test_symbol_table_that_links_to_itself(path: Path) -> None:
    data = tiny_elf(CODE, CFI, Content(".symtab", bytes(48), SYMTAB))
    path.write_bytes(patched(data, section=3, sh_link=3, sh_entsize=24))
    assert len(read_elf(path)) == 2


def test_eh_frame_of_the_amd64_type(path: Path) -> None:
    path.write_bytes(tiny_elf(CODE, Content(".eh_frame", CFI.data, 0x70000001)))
    assert len(read_elf(path)) == 2


def test_core_without_sections(path: Path) -> None:
    data = tiny_elf(e_type=ET_CORE, e_shoff=0, e_shnum=0, e_shstrndx=0)
    assert refused(path, data).reason == "has no call frame information: neither .eh_frame nor .debug_frame"


def test_two_sections_that_are_larger_than_the_file(path: Path) -> None:
    data = tiny_elf(CODE, CFI, CFI)
    for section in (2, 3):
        patched(data, section, sh_offset=0, sh_size=len(data) - 1)
    error = refused(path, data)
    assert (error.section, error.record) == ("", "section headers")
    assert error.reason == "the sections are together larger than the file (--raise-limits)"


def test_section_asked_for_by_name(path: Path) -> None:
    path.write_bytes(tiny_elf())
    for name in (".debug_frame", ".sframe"):
        with pytest.raises(ParseError, match="the file has no such section") as caught:
            read_elf(path, name)
        assert caught.value.section == name
    with pytest.raises(ParseError, match="is not a section of unwind information"):
        read_elf(path, ".text")


def test_empty_eh_frame_gives_way_to_debug_frame(path: Path) -> None:
    empty = Content(".eh_frame", bytes(4))
    debug = Content(
        ".debug_frame", bytes.fromhex("09000000 ffffffff 03 00 01 78 10 14000000 00000000") + bytes(16), flags=0
    )
    path.write_bytes(tiny_elf(CODE, empty, debug))
    assert (len(read_elf(path)), read_elf(path).source) == (1, ".debug_frame")
    path.write_bytes(tiny_elf(CODE, empty))
    assert len(read_elf(path)) == 0


@pytest.mark.parametrize(
    "data", [b"\x7fEL", b"MZ" + bytes(100), b"!<arch>\n", b"\x7fELF", b"\x7fELF\x02\x01\x01" + bytes(9)]
)
def test_file_that_is_no_elf_or_ends_in_its_header(path: Path, data: bytes) -> None:
    assert place(refused(path, data))[:2] == ("", None)


def test_file_cut_anywhere(path: Path) -> None:
    """The section headers come last: no truncated file can be read."""
    data = tiny_elf()
    for size in range(len(data)):
        path.write_bytes(data[:size])
        for reader in (read_elf, info):
            with pytest.raises(ParseError):
                reader(path)


def compressed(data: bytes, size: int, kind: int = 1, head: int = 24) -> bytearray:
    """A file whose `.debug_frame` is these bytes after an Elf64_Chdr with this `size`."""
    chdr = struct.pack("<IIQQ", kind, 0, size, 8)[:head]
    return tiny_elf(CODE, Content(".debug_frame", chdr + data, flags=COMPRESSED))


FRAME = (
    bytes.fromhex("09000000 ffffffff 03 00 01 78 10 14000000 00000000") + bytes(8) + bytes.fromhex("1000000000000000")
)


def test_compressed_section(path: Path) -> None:
    path.write_bytes(compressed(zlib.compress(FRAME), len(FRAME)))
    assert [(function.start, function.size) for function in read_elf(path)] == [(0, 16)]


def limit_of(data: bytes) -> int:
    """The bytes that all compressed sections of a file may have: 8 MiB, and 16 for each byte of the file."""
    return (8 << 20) + 16 * len(data)


@pytest.mark.parametrize(
    ("data", "place_of_fault", "reason"),
    [
        (
            compressed(zlib.compress(FRAME), len(FRAME) - 1),
            (8, "ch_size"),
            "is 0x24, but the data inflates to more than 0x24 bytes",
        ),
        (
            compressed(zlib.compress(FRAME), len(FRAME) + 1),
            (8, "ch_size"),
            "is 0x26, but the data inflates to 0x25 bytes",
        ),
        (
            compressed(zlib.compress(FRAME), MAX),
            (8, "ch_size"),
            f"is {MAX:#x}, the limit for a file of this size is {limit_of(compressed(zlib.compress(FRAME), MAX)):#x}"
            " (--raise-limits)",
        ),
        (compressed(zlib.compress(FRAME), 0), (8, "ch_size"), "is 0x0, but the data inflates to more than 0x0 bytes"),
        (
            compressed(zlib.compress(FRAME, 0)[:-8], len(FRAME)),
            (8, "ch_size"),
            "is 0x25, but the data inflates to 0x21 bytes",
        ),
        (compressed(b"", 0, head=23), (0, "Chdr"), "23 bytes do not hold a compression header of 24"),
        (
            compressed(zlib.compress(FRAME), len(FRAME), kind=3),
            (0, "ch_type"),
            "compression type 3 is unknown: 1 is zlib, 2 is zstd",
        ),
        (
            compressed(b"\xff" * 20, 100),
            (24, "compressed data"),
            "Error -3 while decompressing data: incorrect header check",
        ),
    ],
)
def test_compressed_section_that_lies(path: Path, data: bytes, place_of_fault: tuple[int, str], reason: str) -> None:
    error = refused(path, data)
    assert place(error) == (".debug_frame", *place_of_fault)
    assert error.reason == reason


def test_compressed_section_that_would_inflate_a_thousandfold(path: Path) -> None:
    data = compressed(zlib.compress(bytes(1 << 24), 9), 1)
    with at_most_allocated(1 << 22):
        error = refused(path, data)
        assert error.reason == "is 0x1, but the data inflates to more than 0x1 bytes"


def test_sections_that_inflate_together_beyond_the_limit(path: Path) -> None:
    """Sections of 4 MiB of zeros each, in a file of some kB: two are accepted."""
    content = struct.pack("<IIQQ", 1, 0, 1 << 22, 1) + zlib.compress(bytes(1 << 22), 9)
    more = Content(".debug_x", content, flags=COMPRESSED)
    path.write_bytes(tiny_elf(CODE, CFI, more, more))
    assert len(read_elf(path)) == 2
    data = bytes(tiny_elf(CODE, CFI, more, more, more))
    error = refused(path, data)
    assert place(error) == ("", None, "section headers")
    assert error.reason == (
        f"the content of compressed sections has 12582912 bytes, the limit for a file of this size is {limit_of(data)}"
        " (--raise-limits)"
    )


def test_headers_that_name_the_same_bytes_a_thousand_times(path: Path) -> None:
    data = tiny_elf(CODE, *[CFI] * 30)
    for section in range(2, 32):
        patched(data, section=section, sh_offset=0x180, sh_size=len(data) - 0x180)
    path.write_bytes(data)
    with pytest.raises(ParseError, match="the sections are together larger than the file"):
        info(path)


def test_many_sections_with_endless_names_are_read_in_time(path: Path) -> None:
    """20,000 names of two megabytes each, which would be 40 gigabytes if read to their ends."""
    names = Content(".names", b"x" * (1 << 21), flags=0)
    data = tiny_elf(CODE, CFI, names)
    count, table = 20000, struct.unpack_from("<Q", data, 40)[0]
    header = data[table + 3 * 64 : table + 4 * 64]
    header[32:40] = bytes(8)  # sh_size
    data += header * (count - 5)
    patched(data, e_shnum=count, e_shstrndx=3)
    path.write_bytes(data)
    with at_most_calls(5_000_000):
        assert len(open_elf(path).sections) == count


@pytest.mark.parametrize("size", [0x10, 0x80, MAX])
def test_code_that_reaches_past_the_address_space_ends_with_it(path: Path, size: int) -> None:
    """Found by the fuzz target `elf`: OverflowError in symbolize, breakpad and check."""
    path.write_bytes(patched(tiny_elf(), section=1, sh_addr=MAX - 0xF, sh_size=min(size, 0x80)))
    (text, *_) = [one for one in open_elf(path).sections if one.is_code]
    assert text.end_address == MAX
    assert [[frame.function for frame in frames] for frames in symbolize(path, [MAX - 1])] == [[""]]
    (linted,) = check(path).sections
    assert linted.findings.address.tolist() == [0x1000, 0x1040]  # both functions are outside the code now
    out = io.BytesIO()
    write_breakpad(path, out)
    assert out.getvalue().startswith(b"MODULE Linux x86_64 ")
