"""What the writers refuse before they begin: both sides of each limit of a file's header tables.

Strategy: tables written down field by field, and small files with one field changed.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from unwindkit import BuildError, FormatError, ParseError
from unwindkit.writers.elf.engines.native import write_headers_kept, write_headers_moved
from unwindkit.writers.elf.section_table import SectionTable
from unwindkit.writers.elf.tables import (
    KERNEL_SECTIONS,
    NULL_SECTION,
    SectionHeader,
    Segment,
    Tables,
    read_object_tables,
    read_tables,
    refuse_unsuitable,
)

from ...support.handmade import place
from ...support.programs.elf_programs import sframe
from ...support.tiny_elf import ET_REL, patched, tiny_elf

FILE_SIZE, LIMIT = 0x1000, 1 << 63
PT_LOAD, PT_NOTE, R, RX = 1, 4, 4, 5
PROGBITS, NOBITS, ALLOC, EXEC = 1, 8, 2, 4
# p_type, p_flags, p_offset, p_vaddr, p_paddr, p_filesz, p_memsz, p_align
LOAD = Segment(PT_LOAD, RX, 0, 0x10000, 0x10000, 0x800, 0x800, 0x1000)
NOTE = Segment(PT_NOTE, R, 0x800, 0x10800, 0x10800, 0x10, 0x10, 4)
# sh_name, sh_type, sh_flags, sh_addr, sh_offset, sh_size, sh_link, sh_info, sh_addralign, sh_entsize
CODE = SectionHeader(1, PROGBITS, ALLOC | EXEC, 0x10400, 0x400, 0x100, 0, 0, 16, 0)
DATA = SectionHeader(7, PROGBITS, 0, 0, 0x900, 0x100, 0, 0, 1, 0)


def tables(*, note: Segment = NOTE, data: SectionHeader = DATA, name: bytes = b".data") -> Tables:
    """Of a file with one PT_LOAD and three sections."""
    return Tables("<", 64, 0xF00, 2, (LOAD, note), (NULL_SECTION, CODE, data), (b"", b".text", name))


def refusal(found: Tables) -> FormatError | None:
    try:
        refuse_unsuitable(found, FILE_SIZE, ".sframe")
    except FormatError as error:
        return error
    return None


OUTSIDE = "is outside the file or the address space"
# The largest value, one more, and the refusal of that.
SEGMENTS = {
    "end in the file": ({"filesz": 0x800}, {"filesz": 0x801}, OUTSIDE),
    "end in memory": ({"memsz": LIMIT - 0x10800}, {"memsz": LIMIT - 0x10800 + 1}, OUTSIDE),
    "size of a PT_LOAD": (
        {"type": PT_LOAD, "filesz": 0x10},
        {"type": PT_LOAD, "filesz": 0x11},
        "has p_filesz greater than p_memsz",
    ),
}
SECTIONS = {
    "end in the file": ({"size": 0x700}, {"size": 0x701}, OUTSIDE),
    "end in memory": ({"address": LIMIT - 0x100}, {"address": LIMIT - 0x100 + 1}, OUTSIDE),
    "end in memory, without bytes": (
        {"type": NOBITS, "address": 0x10, "size": LIMIT - 0x10},
        {"type": NOBITS, "address": 0x10, "size": LIMIT - 0xF},
        OUTSIDE,
    ),
    "sh_link": ({"link": 2}, {"link": 3}, "has sh_link 3, which is not a section"),
}


@pytest.mark.parametrize("limit", SEGMENTS)
def test_limits_of_program_headers(limit: str) -> None:
    largest, more, reason = SEGMENTS[limit]
    assert refusal(tables(note=replace(NOTE, **largest))) is None
    error = refusal(tables(note=replace(NOTE, **more)))
    assert isinstance(error, ParseError)
    assert (place(error), error.reason) == (("", None, "program header[1]"), reason)


@pytest.mark.parametrize("limit", SECTIONS)
def test_limits_of_section_headers(limit: str) -> None:
    largest, more, reason = SECTIONS[limit]
    assert refusal(tables(data=replace(DATA, **largest))) is None
    error = refusal(tables(data=replace(DATA, **more)))
    assert isinstance(error, ParseError)
    assert (place(error), error.reason) == (("", None, "section header[2]"), reason)


@pytest.mark.parametrize("name", [b"__ksymtab", b"__param", b".data..percpu", b".init.text"])
def test_a_kernel_image_is_known_by_any_of_its_sections(name: bytes) -> None:
    assert name in KERNEL_SECTIONS
    error = refusal(tables(name=name))
    assert isinstance(error, BuildError)
    assert place(error) == (".sframe", None, "e_type")
    assert error.reason.startswith("is a kernel image: ")


def test_files_without_what_is_loaded_are_refused() -> None:
    error = refusal(replace(tables(), segments=(NOTE,)))
    assert error is not None
    assert (place(error), error.reason) == ((".sframe", None, "PT_LOAD"), "the file has no loadable segment")
    without_bytes = replace(tables(), sections=(NULL_SECTION, replace(CODE, type=NOBITS), DATA))
    error = refusal(without_bytes)
    assert error is not None
    assert place(error) == (".sframe", None, "sh_type")
    assert error.reason == "the code has no bytes: this is a separate debug file"


# Changed fields of a file of 4 sections; the error's type, record and reason.
HEADERS = {
    "more program headers than are counted": (
        {"e_phnum": 0xFFFF}, BuildError, "e_shnum", "the file has more headers than its ELF header can count",
    ),
    "more section headers than are counted": (
        {"e_shnum": 0}, BuildError, "e_shnum", "the file has more headers than its ELF header can count",
    ),
    "names after the last section": (
        {"e_shstrndx": 4}, ParseError, "e_shentsize", "the header sizes or e_shstrndx are invalid",
    ),
    "no program headers": (
        {"e_phnum": 0}, BuildError, "e_shoff", "the file has no section header table, or no program header table",
    ),
    "no offset of program headers": (
        {"e_phoff": 0}, BuildError, "e_shoff", "the file has no section header table, or no program header table",
    ),
    "another size of program headers": (
        {"e_phentsize": 55}, ParseError, "e_shentsize", "the header sizes or e_shstrndx are invalid",
    ),
    "another type": ({"e_type": 5}, BuildError, "e_type", "is 0x5, neither an executable nor a shared library"),
    "another byte order": (
        {"ei_data": 3}, ParseError, "e_ident", "has class 2 and byte order 3, which ELF does not define",
    ),
    "another class": (
        {"ei_class": 3}, ParseError, "e_ident", "has class 3 and byte order 1, which ELF does not define",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADERS)
def test_file_headers_of_linked_files(name: str) -> None:
    fields, kind, record, reason = HEADERS[name]
    assert len(read_tables(io.BytesIO(tiny_elf())).sections) == 4
    with pytest.raises(kind) as caught:
        read_tables(io.BytesIO(tiny_elf(**fields)))
    assert (place(caught.value), caught.value.reason) == (("", None, record), reason)


def test_file_headers_of_objects() -> None:
    data = tiny_elf(e_type=ET_REL, e_phnum=0, e_phoff=0)
    assert len(read_object_tables(io.BytesIO(data)).sections) == 4
    for index in (4, 5):
        with pytest.raises(ParseError) as caught:
            read_object_tables(io.BytesIO(patched(bytearray(data), e_shstrndx=index)))
        assert place(caught.value) == ("", None, "e_shstrndx")
        assert caught.value.reason == f"is {index}, but there are only 4 sections"


# --- how many headers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", [write_headers_kept, write_headers_moved])
@pytest.mark.parametrize(("sections", "segments"), [(0xFEFE, 2), (3, 0xFFFD)])
def test_full_tables_are_refused(write: Callable[..., object], sections: int, segments: int, tmp_path: Path) -> None:
    """SHN_LORESERVE is 0xff00, PN_XNUM 0xffff: two more headers must be below."""
    before = tables()
    full = replace(
        before,
        sections=before.sections + (DATA,) * (sections - 3),
        segments=before.segments + (NOTE,) * (segments - 2),
        names=before.names + (b".data",) * (sections - 3),
    )
    (tmp_path / "source").write_bytes(bytes(FILE_SIZE))
    with (tmp_path / "source").open("rb") as source, pytest.raises(BuildError) as caught:
        write(source, tmp_path / "out", full, sframe())
    assert place(caught.value) == ("", None, "e_shnum")
    assert caught.value.reason == "the tables have as many headers as the ELF header can count"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("is_64", "place_of_count"), [(True, 60), (False, 48)])
def test_the_elf_header_counts_fewer_than_0xff00_sections(is_64: bool, place_of_count: int) -> None:
    """gABI: from SHN_LORESERVE on e_shnum is 0, and the first section header has the count."""
    table = SectionTable("<", is_64, (b"\x7fELF" + bytes(12), *[0] * 13), (), (), ())
    for count, stored in ((0xFEFF, b"\xff\xfe"), (0xFF00, b"\0\0"), (0x10001, b"\0\0")):
        assert table.pack_header(0x40, count)[place_of_count:][:2] == stored
