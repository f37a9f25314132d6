"""A section is removed from small files made by hand: its relocations of either kind, and what shares its segment.

Strategy: every byte of the result is known, as nothing moves.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from unwindkit import BuildError
from unwindkit.writers.elf.remove import RemoveReport, remove_sections

from ...support.handmade import place
from ...support.programs.elf_programs import PT_GNU_SFRAME
from ...support.small_elf import (
    ALLOC,
    ET_EXEC,
    EXEC,
    PROGBITS,
    PT_LOAD,
    REL,
    RELA,
    Load,
    Part,
    small_elf,
    undescribed,
)

R, RX = 4, 5
TEXT = Part(".text", PROGBITS, ALLOC | EXEC, b"\x90" * 8)
SFRAME = Part(".sframe", PROGBITS, ALLOC, b"\x77" * 16, alignment=8)


def removed(path: Path, data: bytes) -> tuple[RemoveReport, bytes]:
    path.write_bytes(data)
    out = path.with_name("out")
    report = remove_sections(path, out, ".sframe", PT_GNU_SFRAME)
    return report, out.read_bytes()


@pytest.mark.parametrize(("name", "kind", "size"), [(".rel.sframe", REL, 16), (".rela.sframe", RELA, 24)])
def test_relocations_of_the_section_go_with_it(name: str, kind: int, size: int, tmp_path: Path) -> None:
    """.text is at 176, .sframe at 184, 48 bytes of relocations at 200."""
    relocations = Part(name, kind, 0, b"\x11" * 48, 0, 2, entry_size=size)
    loads = Load(PT_LOAD, RX, 0, 200), Load(PT_GNU_SFRAME, R, 184, 200, alignment=8)
    data = small_elf(TEXT, SFRAME, relocations, elf_type=ET_EXEC, loads=loads)
    report, out = removed(tmp_path / "program", data)
    assert report == RemoveReport((16,), 1)
    (table,) = struct.unpack_from("<Q", data, 40)
    expected = bytearray(data)
    struct.pack_into("<H", expected, 56, 1)  # e_phnum
    expected[64 + 56 : 64 + 112] = bytes(56)
    expected[184:248] = bytes(64)
    expected[table + 2 * 64 : table + 4 * 64] = bytes(128)
    assert out == expected


@pytest.mark.parametrize("after", [b"", bytes(8), b"\0\0\0\0\0\0\0!"])
def test_a_segment_with_other_bytes_than_zeros_is_not_removed(after: bytes, tmp_path: Path) -> None:
    """.sframe is at 240, in a PT_LOAD of its own; what follows it has no section."""
    end = 256 + len(after)
    loads = Load(PT_LOAD, RX, 0, 240), Load(PT_LOAD, R, 240, end), Load(PT_GNU_SFRAME, R, 240, 256, alignment=8)
    data = small_elf(TEXT, SFRAME, undescribed(after), elf_type=ET_EXEC, loads=loads)
    if not any(after):
        report, out = removed(tmp_path / "program", data)
        assert report == RemoveReport((16,), 2)
        assert struct.unpack_from("<H", out, 56) == (1,)
        assert out[64:120] == data[64:120]
        return
    with pytest.raises(BuildError) as caught:
        removed(tmp_path / "program", data)
    assert place(caught.value) == (".sframe", None, "check")
    assert caught.value.reason == "faults found: PT_LOAD at 0x100f0: is missing or has changed"
    assert not (tmp_path / "out").exists()
