"""`.eh_frame` and `.eh_frame_hdr` in small files: what the check of written frames sees, and what the writer refuses.

Strategy: one CIE and two FDEs, byte by byte in both byte orders; each fault is in one field. The file has one PT_LOAD.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import pytest
from unwindkit import BuildError, ParseError
from unwindkit.writers.elf.checks.frames import check_frames
from unwindkit.writers.elf.frames import FrameSections, FramesReport, write_frames

from ..support.handmade import octets, place
from ..support.small_elf import (
    ALLOC,
    BASE,
    EM_S390,
    EM_X86_64,
    ET_EXEC,
    EXEC,
    PROGBITS,
    PT_GNU_EH_FRAME,
    PT_LOAD,
    WRITE,
    Load,
    Part,
    small_elf,
    undescribed,
)

R, RX = 4, 5
# The file header and two program headers, then 4 bytes of code.
TEXT_PLACE, FRAMES_PLACE = 176, 180
FRAMES = BASE + FRAMES_PLACE
TEXT = Part(".text", PROGBITS, ALLOC | EXEC, b"\x90" * 4)
STARTS = (0x10000, 0x10008)


@dataclass(frozen=True, slots=True)
class Frames:
    """How a CIE and its FDEs are stored: struct's byte order, what follows the CIE's id, the form of start addresses
    (DW_EH_PE, 0x00 or 0x1b), the augmentation data of FDEs, and whether lengths have 64 bits."""

    order: str = "<"
    cie: str = "01 00 01 78 10 000000"
    encoding: int = 0x00
    tail: str = ""
    is_wide: bool = False

    def entry(self, body: bytes) -> bytes:
        if self.is_wide:
            return b"\xff" * 4 + struct.pack(f"{self.order}Q", len(body)) + body
        return struct.pack(f"{self.order}I", len(body)) + body

    def frames(self, address: int) -> bytes:
        """`.eh_frame` for an address, with a terminator."""
        data = self.entry(bytes(4) + octets(self.cie))
        length = 12 if self.is_wide else 4
        for start in STARTS:
            field = len(data) + length + 4
            # In .eh_frame the CIE pointer has 4 bytes and counts from itself (LSB Core 10.6.1.2).
            body = struct.pack(f"{self.order}I", len(data) + length)
            if self.encoding == 0x1B:
                body += struct.pack(f"{self.order}iI", start - address - field, 8)
            else:
                body += struct.pack(f"{self.order}QQ", start, 8)
            data += self.entry(body + octets(self.tail))
        return data + bytes(4)

    def header(self, address: int, frames: int) -> bytes:
        """`.eh_frame_hdr` for its address and that of `.eh_frame` (LSB Core 10.6.2)."""
        data = self.frames(frames)
        size = (len(data) - 4 - len(self.entry(bytes(4) + octets(self.cie)))) // 2
        places = (frames + len(data) - 4 - 2 * size, frames + len(data) - 4 - size)
        rows = (value - address for pair in zip(STARTS, places, strict=True) for value in pair)
        return octets("01 1b 03 3b") + struct.pack(f"{self.order}iI4i", frames - address - 4, 2, *rows)

    def file(self, flags: int = ALLOC, named_at: int | None = None) -> bytes:
        """A program with both sections; `named_at` is the address in PT_GNU_EH_FRAME, if it is not the header's."""
        data = self.frames(FRAMES)
        start = FRAMES_PLACE + len(data) + -len(data) % 4
        header = self.header(BASE + start, FRAMES)
        end = start + len(header)
        shown = start if named_at is None else named_at - BASE
        parts = (
            TEXT,
            Part(".eh_frame", PROGBITS, flags, data, alignment=4),
            undescribed(bytes(-len(data) % 4)),
            Part(".eh_frame_hdr", PROGBITS, ALLOC, header, alignment=4),
        )
        loads = (Load(PT_LOAD, RX, 0, end), Load(PT_GNU_EH_FRAME, R, shown, shown + len(header), alignment=4))
        machine = EM_X86_64 if self.order == "<" else EM_S390
        return small_elf(*parts, machine=machine, order=self.order, elf_type=ET_EXEC, loads=loads)


PLAIN = Frames()
ABSPTR_AFTER_LSDA = "01 7a4c5200 01 78 10 02 1b 00 0000"  # zLR: LSDA pcrel sdata4, starts absptr
ABSPTR_AFTER_ALL = "01 7a504c5200 01 78 10 07 9b 77000000 1b 00 0000"  # zPLR, personality indirect pcrel sdata4
PCREL_AFTER_LSDA = "01 7a4c5200 01 78 10 02 00 1b 0000"  # LSDA absptr, starts pcrel sdata4
LAYOUTS = {
    "little-endian": PLAIN,
    "big-endian": Frames(">"),
    "64-bit lengths": Frames(is_wide=True),
    "64-bit lengths, big-endian": Frames(">", is_wide=True),
    "absolute starts after an LSDA's encoding": Frames(cie=ABSPTR_AFTER_LSDA, tail="04 00000000"),
    "absolute starts after a personality": Frames(cie=ABSPTR_AFTER_ALL, tail="04 00000000"),
    "relative starts after an LSDA's encoding": Frames(
        ">", PCREL_AFTER_LSDA, 0x1B, "08 0000000000000000"
    ),
    "version 3": Frames(cie="03 00 01 78 8001 0000"),
    "version 4": Frames(cie="04 7a5200 08 00 01 78 10 01 1b", encoding=0x1B, tail="00"),
}  # fmt: skip


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    return tmp_path / "program"


def faults(path: Path, data: bytes) -> tuple[str, ...]:
    path.write_bytes(data)
    return check_frames(path)


@pytest.mark.parametrize("name", LAYOUTS)
def test_each_layout_is_right_and_a_wrong_start_is_seen(name: str, path: Path) -> None:
    layout = LAYOUTS[name]
    data = layout.file()
    assert faults(path, data) == ()
    # The second FDE is the last record; its start is before the range and the augmentation data.
    size = 8 if layout.encoding == 0x1B else 16
    field = FRAMES_PLACE + len(layout.frames(FRAMES)) - 4 - len(octets(layout.tail)) - size
    lowest = field if layout.order == "<" else field + size // 2 - 1
    changed = bytearray(data)
    changed[lowest] ^= 1
    assert faults(path, bytes(changed)) == (".eh_frame_hdr: row 1 refers to an FDE of another address",)


@pytest.mark.parametrize("order", ["<", ">"])
def test_rows_that_are_wrong_are_seen(order: str, path: Path) -> None:
    layout = Frames(order)
    data = layout.file()
    start = len(layout.frames(FRAMES)) + FRAMES_PLACE
    start += -start % 4
    first, second = data[start + 12 : start + 20], data[start + 20 : start + 28]
    swapped = data[: start + 12] + second + first + data[start + 28 :]
    assert faults(path, swapped) == (".eh_frame_hdr: row 1 is not in ascending order",)
    twice = data[: start + 12] + first + first + data[start + 28 :]
    assert faults(path, twice) == (".eh_frame_hdr: row 1 is not in ascending order",)
    last = start + 27 if order == ">" else start + 24
    to_cie = bytearray(data)
    to_cie[last] -= 0x18
    assert faults(path, bytes(to_cie))[0].startswith(".eh_frame_hdr: row 1 ")


# --- the writer -------------------------------------------------------------------------------------------------


def rewritten(path: Path, data: bytes) -> FramesReport:
    """The same contents, for the addresses that they get."""
    path.write_bytes(data)
    sizes = len(PLAIN.frames(FRAMES)), len(PLAIN.header(0, 0))
    sections = FrameSections(*sizes, PLAIN.frames, lambda frames, address: PLAIN.header(address, frames))
    return write_frames(path, path.with_name("out"), sections)


def test_sections_aligned_to_4_stay_in_place(path: Path) -> None:
    """`.eh_frame` is at 4 modulo 8, which its alignment allows."""
    assert FRAMES % 8 == 4
    data = PLAIN.file()
    report = rewritten(path, data)
    assert (report.engine, report.address, report.moved) == ("in place", FRAMES, ())
    assert path.with_name("out").read_bytes() == data


def test_a_section_that_is_relocated_in_place_is_refused(path: Path) -> None:
    with pytest.raises(BuildError) as caught:
        rewritten(path, PLAIN.file(flags=ALLOC | WRITE))
    assert place(caught.value) == (".eh_frame", None, "sh_flags")
    assert caught.value.reason == "is writable: the dynamic linker relocates it in place"
    assert not path.with_name("out").exists()


def test_a_program_header_that_refers_elsewhere_is_refused(path: Path) -> None:
    with pytest.raises(BuildError) as caught:
        rewritten(path, PLAIN.file(named_at=FRAMES))
    assert place(caught.value) == (".eh_frame_hdr", None, "PT_GNU_EH_FRAME")
    assert caught.value.reason == "does not refer to the section"
    assert not path.with_name("out").exists()


def test_two_sections_of_the_name_are_refused(path: Path) -> None:
    data = PLAIN.file()
    name = data.index(b".eh_frame_hdr\0")
    with pytest.raises(ParseError) as caught:
        rewritten(path, data[:name] + b".eh_frame\0\0\0\0\0" + data[name + 14 :])
    assert (place(caught.value), caught.value.reason) == (
        (".eh_frame", None, ""),
        "the file has 2 sections of that name",
    )
