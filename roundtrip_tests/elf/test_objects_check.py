"""The check of a relocatable file finds each kind of fault; broken files end in a FormatError.

Strategy: a correct result is corrupted, one field or byte at a time, and the check has to find it. An input is
corrupted in every field of its headers, truncated everywhere, and at random; what is still written passes the check.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unwindkit import FormatError, ParseError, write_sframe
from unwindkit.schemas.sframe import SHT_GNU_SFRAME
from unwindkit.writers.elf.checks.object import ExpectedRelocated, check_object
from unwindkit.writers.elf.object import Place, RelocatedSection, with_section, without_section

from ..conftest import fewer
from ..support.small_elf import ALLOC, EXEC, PROGBITS, WRITE, Part, small_elf, undescribed
from ..support.tiny_elf import SECTION, SECTION_SIZE, patched
from .test_hostile_objects import R_64, SYMBOLS_INDEX, Rela, Symbol, tiny_object

TEXT_INDEX, NAMES_INDEX, SFRAME_INDEX, RELA_INDEX = 1, 6, 7, 8
MAX = (1 << 64) - 1
SHAPE = (".sframe", SHT_GNU_SFRAME, bytes(range(52)), 8, 24, (Place(28, TEXT_INDEX, 0x40),))


def plain() -> bytearray:
    data = tiny_object([Rela(R_64, addend=0x40)], [Symbol(0x10)], e_phnum=0, e_phoff=0)
    return patched(data, SYMBOLS_INDEX, sh_link=NAMES_INDEX)


BEFORE = bytes(plain())
AFTER, _ = with_section(BEFORE, RelocatedSection(*SHAPE))


def place_of(data: bytes, section: int) -> int:
    """Where a section is in the file."""
    (table,) = struct.unpack_from("<Q", data, 40)
    (offset,) = struct.unpack_from("<Q", data, table + SECTION_SIZE * section + SECTION["sh_offset"][0])
    return int(offset)


def check(after: bytes) -> str:
    return "; ".join(check_object(BEFORE, after, ".sframe", ExpectedRelocated(*SHAPE)))


def rela(offset: int, symbol: int, kind: int, addend: int) -> bytes:
    return struct.pack("<QQq", offset, symbol << 32 | kind, addend)


def test_the_result_is_right_and_says_what_was_asked() -> None:
    assert check(AFTER) == ""
    at = place_of(AFTER, RELA_INDEX)
    assert AFTER[at : at + 24] == rela(28, 1, 24, 0x30)  # the symbol is 0x10 bytes into .text
    assert AFTER[place_of(AFTER, SFRAME_INDEX) :][:52] == bytes(range(52))


def test_the_addend_from_a_symbol_at_the_end_of_the_address_space_is_positive() -> None:
    """0x40 - 0xfffffffffffffff0 is 0x50 modulo 2**64; 0x40 - 0x50 is -0x10."""
    for value, addend in ((MAX - 15, 0x50), (0x50, -0x10), (1 << 63, 0x40 - (1 << 63)), ((1 << 63) + 0x41, MAX >> 1)):
        before = tiny_object([Rela(R_64, addend=0x40)], [Symbol(value)], e_phnum=0, e_phoff=0)
        after, _ = with_section(bytes(patched(before, SYMBOLS_INDEX, sh_link=NAMES_INDEX)), RelocatedSection(*SHAPE))
        assert after[place_of(after, RELA_INDEX) :][:24] == rela(28, 1, 24, addend)


# .text and .data, aligned to 16: at 64 and 80.
CODE_PART, DATA_PART = (
    Part(name, PROGBITS, flags, bytes(range(16)), alignment=16)
    for name, flags in ((".text", ALLOC | EXEC), (".data", ALLOC | WRITE))
)


def test_a_section_that_its_header_aligns_wrongly_stays_where_it_is() -> None:
    """.data is at 81: it is not moved to 96. What is aligned keeps that."""
    before = small_elf(CODE_PART, undescribed(b"\0"), DATA_PART)
    after, sizes = without_section(before, ".sframe")
    assert (sizes, place_of(before, 2)) == ((), 81)
    assert [place_of(after, index) for index in (1, 2, 3)] == [64, 80, 96]
    assert check_object(before, after, ".sframe", None) == ()
    # A part of one byte before it, which stays.
    before = small_elf(CODE_PART, Part(".byte", PROGBITS, ALLOC, b"1"), DATA_PART)
    after, _ = without_section(before, ".sframe")
    assert [place_of(after, index) for index in (1, 2, 3)] == [64, 80, 81]


def test_lost_alignment_is_seen() -> None:
    before, shifted = (small_elf(CODE_PART, undescribed(bytes(size)), DATA_PART) for size in (0, 1))
    assert check_object(before, shifted, ".sframe", None) == ("section [2] .data: is no longer aligned to 16",)
    assert check_object(shifted, before, ".sframe", None) == ()


RELOCATIONS = {
    "type": rela(28, 1, 2, 0x30),
    "field": rela(0, 1, 24, 0x30),
    "addend": rela(28, 1, 24, 0x40),
    "addend, off by the field": rela(28, 1, 24, 0x30 + 28),
    "symbol": rela(28, 0, 24, 0x40),
}


@pytest.mark.parametrize("name", RELOCATIONS)
def test_wrong_relocation_is_seen(name: str) -> None:
    at = place_of(AFTER, RELA_INDEX)
    assert "relocation 0" in check(AFTER[:at] + RELOCATIONS[name] + AFTER[at + 24 :])


def test_symbol_that_another_file_may_define_is_seen() -> None:
    at = place_of(AFTER, SYMBOLS_INDEX) + 24 + 4
    spoiled = bytearray(AFTER)
    spoiled[at] = 1 << 4  # STB_GLOBAL
    assert "relocation 0" in check(bytes(spoiled))


@pytest.mark.parametrize("section", range(1, 9))
def test_other_bytes_of_a_section_are_seen(section: int) -> None:
    at = place_of(AFTER, section)
    assert check(AFTER[:at] + bytes([AFTER[at] ^ 1]) + AFTER[at + 1 :])


# The offset of a section may change.
@pytest.mark.parametrize("section", range(1, 9))
@pytest.mark.parametrize("field", [name for name in SECTION if name != "sh_offset"])
def test_other_header_of_a_section_is_seen(section: int, field: str) -> None:
    data = bytearray(AFTER)
    offset, code = SECTION[field]
    at = struct.unpack_from("<Q", data, 40)[0] + SECTION_SIZE * section + offset
    (old,) = struct.unpack_from(f"<{code}", data, at)
    struct.pack_into(f"<{code}", data, at, old + 1)
    assert check(bytes(data))


@pytest.mark.parametrize(
    "field", ["ei_class", "ei_data", "e_type", "e_machine", "e_shentsize", "e_shnum", "e_shstrndx"]
)
def test_other_file_header_is_seen(field: str) -> None:
    data = bytearray(AFTER)
    old = {"ei_class": 2, "ei_data": 1, "e_type": 1, "e_machine": 62, "e_shentsize": 64, "e_shnum": 9, "e_shstrndx": 6}
    assert check(bytes(patched(data, **{field: old[field] - 1})))


def test_sections_that_share_bytes_are_seen() -> None:
    assert "overlaps" in check(bytes(patched(bytearray(AFTER), 5, sh_offset=0x20)))


@pytest.mark.parametrize("name", [".shstrtab", ".symtab"])
def test_a_table_that_the_whole_file_needs_is_not_removed(name: str) -> None:
    with pytest.raises(ParseError, match=rf"\{name}: sh_type: is a table that the whole file needs"):
        without_section(BEFORE, name)


def test_what_is_left_after_a_removal_is_seen() -> None:
    removed, sizes = without_section(AFTER, ".sframe")
    assert (sizes, check_object(AFTER, removed, ".sframe", None)) == ((52,), ())
    assert check_object(AFTER, AFTER, ".sframe", None)
    assert len(removed) < len(AFTER)


# --- broken input ---------------------------------------------------------------------------------------------


def tried(path: Path, data: bytes) -> bool:
    """Whether it is written; only a FormatError may prevent that."""
    path.write_bytes(data)
    out = path.with_name("out.o")
    out.unlink(missing_ok=True)
    try:
        write_sframe(path, out, 3)
    except FormatError:
        assert not out.exists()
        return False
    assert len(out.read_bytes()) < len(data) + 1000
    return True


@pytest.fixture(scope="module", name="path")
def _path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile") / "object.o"


INPUTS = {"without": BEFORE, "with one": AFTER}
VALUES = (0, 1, 2, 3, 5, 7, 9, 17, 18, 0xFF, 0x100, 0xFFFF, 0x40000014, 0xFFFFFFFF, 1 << 40, 1 << 63, MAX)


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("field", SECTION)
def test_every_field_of_the_section_headers(name: str, field: str, path: Path) -> None:
    data = INPUTS[name]
    width = struct.calcsize(SECTION[field][1])
    for section in range(len(data) // SECTION_SIZE and struct.unpack_from("<H", data, 60)[0]):
        for value in VALUES:
            tried(path, bytes(patched(bytearray(data), section, **{field: value % (1 << 8 * width)})))


@pytest.mark.parametrize("name", INPUTS)
def test_every_field_of_the_file_header(name: str, path: Path) -> None:
    data = INPUTS[name]
    for offset in range(4, 64):
        for value in (0, 1, 2, 0x7F, 0x80, 0xFF):
            tried(path, data[:offset] + bytes([value]) + data[offset + 1 :])


def test_cut_anywhere(path: Path) -> None:
    assert tried(path, AFTER)
    assert not any(tried(path, AFTER[:size]) for size in range(1, len(AFTER), 3))


@fewer(4)
@given(data=st.data())
def test_bytes_at_random(path: Path, data: st.DataObject) -> None:
    spoiled = bytearray(AFTER)
    places = st.tuples(st.integers(0, len(spoiled) - 1), st.integers(0, 255))
    for place, value in data.draw(st.lists(places, min_size=1, max_size=6)):
        spoiled[place] = value
    tried(path, bytes(spoiled))


def test_members_of_groups_that_are_not_there(path: Path) -> None:
    for size in range(12):
        data = bytes(patched(bytearray(AFTER), 5, sh_type=17, sh_size=1))
        tried(path, bytes(patched(bytearray(data), 5, sh_type=17, sh_size=size, sh_offset=place_of(data, 5))))
