"""A section is taken out of small relocatable files made by hand: where the others are then, and what is refused."""

from __future__ import annotations

import struct

import pytest
from unwindkit import ParseError
from unwindkit.writers.elf.object import without_section

from ...support.small_elf import PROGBITS, Part, small_elf

NAMES = b"\0.a\0.x\0.b\0.names\0"  # 17 bytes


def three(alignment: int) -> bytes:
    """.a of 3 bytes at 64, .x of 2 at 67, .b of 2 at 69, .names at 71; section headers at 88."""
    data = small_elf(
        Part(".a", PROGBITS, 0, b"aaa", alignment=alignment),
        Part(".x", PROGBITS, 0, b"xx"),
        Part(".b", PROGBITS, 0, b"bb", alignment=alignment),
    )
    assert data[64:88] == b"aaaxxbb" + NAMES
    return data


def header(data: bytes, index: int) -> tuple[int, int, int]:
    """sh_type, sh_offset and sh_size of a section."""
    (table,) = struct.unpack_from("<Q", data, 40)
    kind = struct.unpack_from("<I", data, table + 64 * index + 4)[0]
    return kind, *struct.unpack_from("<QQ", data, table + 64 * index + 24)


@pytest.mark.parametrize("alignment", [0, 1, 3, 1 << 63])
def test_sections_without_an_alignment_follow_one_another(alignment: int) -> None:
    """0 and 1 mean none (gABI, sh_addralign); what is no power of two, or not kept by the file, is not kept either."""
    out, sizes = without_section(three(alignment), ".x")
    assert sizes == (2,)
    assert out[64:88] == b"aaabb" + NAMES + bytes(2)
    assert [header(out, index) for index in range(1, 5)] == [(1, 64, 3), (0, 0, 0), (1, 67, 2), (3, 69, 17)]
    assert struct.unpack_from("<Q", out, 40) == (88,)


def test_an_alignment_that_the_file_keeps_is_kept() -> None:
    """.a of 3 bytes at 64, .x of 13 at 67, .b at 80, which is a multiple of 16: .b stays."""
    parts = (
        Part(".a", PROGBITS, 0, b"aaa"),
        Part(".x", PROGBITS, 0, b"x" * 13),
        Part(".b", PROGBITS, 0, b"bb", alignment=16),
    )
    out, _ = without_section(small_elf(*parts), ".x")
    assert out[64:82] == b"aaa" + bytes(13) + b"bb"
    assert header(out, 3) == (1, 80, 2)


@pytest.mark.parametrize(
    ("index", "offset", "size"),
    [
        (3, 68, 2),  # .b begins in .x, which ends at 69
        (1, 63, 3),  # .a begins in the file header
        (2, 67, 3),  # .x ends in .b
        (3, 400, 9),  # .b ends after the file, whose 5 section headers end at 408
    ],
)
def test_sections_that_overlap_or_leave_the_file_are_refused(index: int, offset: int, size: int) -> None:
    data = bytearray(three(1))
    (table,) = struct.unpack_from("<Q", data, 40)
    struct.pack_into("<QQ", data, table + 64 * index + 24, offset, size)
    with pytest.raises(ParseError, match="is outside the file, or overlaps another section"):
        without_section(bytes(data), ".x")
