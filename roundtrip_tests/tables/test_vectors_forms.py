"""Forms of line number program headers and macro entries: number, bytes and size of each (DWARF5 7.5.5, table 7.6)."""

from __future__ import annotations

import io

import pytest
from unwindkit.schemas import engine
from unwindkit.schemas.forms import DW_FORM, FORM_KINDS
from unwindkit.schemas.section import Section
from unwindkit.schemas.wire import DwarfFormat

# Number, and a value's bytes in a little-endian file of 32-bit DWARF.
VECTORS = {
    "block2": (0x03, "0200 aabb"),  # length of two bytes
    "block4": (0x04, "02000000 aabb"),  # of four
    "data2": (0x05, "3412"),
    "data4": (0x06, "78563412"),
    "data8": (0x07, "f0debc9a78563412"),
    "string": (0x08, "616200"),  # up to a zero byte
    "block": (0x09, "02 aabb"),  # length as ULEB128
    "block1": (0x0A, "02 aabb"),
    "data1": (0x0B, "12"),
    "flag": (0x0C, "01"),
    "sdata": (0x0D, "807f"),  # SLEB128
    "strp": (0x0E, "78563412"),  # an offset
    "udata": (0x0F, "8001"),  # ULEB128
    "sec_offset": (0x17, "78563412"),
    "strx": (0x1A, "8001"),
    "strp_sup": (0x1D, "78563412"),
    "data16": (0x1E, "00112233445566778899aabbccddeeff"),
    "line_strp": (0x1F, "78563412"),
    "strx1": (0x25, "12"),
    "strx2": (0x26, "3412"),
    "strx3": (0x27, "563412"),
    "strx4": (0x28, "78563412"),
}


def test_every_form_has_a_vector() -> None:
    assert {form.name: form.value for form in FORM_KINDS} == {name: number for name, (number, _) in VECTORS.items()}


@pytest.mark.parametrize("name", VECTORS)
def test_a_value_has_these_bytes(name: str) -> None:
    """It ends where it should: what follows is not part of it."""
    data = bytes.fromhex(VECTORS[name][1])
    stream = io.BytesIO(data + b"\x55" * 16)
    section = Section("vector", memoryview(stream.getvalue()), 0, None, "little", 8)
    engine.parse_value(FORM_KINDS[DW_FORM[name]], section, stream, 0, "value", dwarf_format=DwarfFormat.DWARF32)
    assert stream.tell() == len(data)
