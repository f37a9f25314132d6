"""Check the `.eh_frame` and `.eh_frame_hdr` of a file that was written, as an unwinder uses them.

Strategy: headers are read with pyelftools, both sections as columns, with no code of the converters: from
PT_GNU_EH_FRAME to the header, from each of its rows to an FDE, from that to its CIE and back to the row's address, and
from the last FDE to the terminator. That every other byte is unchanged is for `added.py` to check.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from elftools.common.exceptions import ELFError

from ....schemas.data_classes import dataclass
from .compare import ElfTables, read_elf_tables

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

FRAMES, HEADER = ".eh_frame", ".eh_frame_hdr"
# LSB Core 10.6.2: version 1, pcrel|sdata4, udata4, datarel|sdata4: the only table that libgcc searches.
SEARCHED = (1, 0x1B, 0x03, 0x3B)
HEADER_FIELDS = "BBBBiI"  # these four, eh_frame_ptr, fde_count
EXTENDED = 0xFFFFFFFF  # a length that is followed by another of 8 bytes
# DW_EH_PE formats with a fixed size, and the one application that this check resolves.
FORMAT, PCREL, INDIRECT, OMIT = 0x0F, 0x10, 0x80, 0xFF
KINDS = {0x00: "u8", 0x02: "u2", 0x03: "u4", 0x04: "u8", 0x0A: "i2", 0x0B: "i4", 0x0C: "i8"}
BASELESS = tuple(form | relative for form in KINDS for relative in (0, PCREL))


@dataclass(frozen=True, slots=True)
class _Frames:
    """The bytes of `.eh_frame`, its address, and NumPy's code of the byte order."""

    data: NDArray[np.uint8]
    address: int
    order: str

    def values(self, offset: NDArray[np.int64], kind: str) -> NDArray[np.int64]:
        """Integers at these offsets, 0 for those outside the section."""
        layout = np.dtype(self.order + kind)
        is_inside = (offset >= 0) & (offset <= len(self.data) - layout.itemsize)
        place = np.where(is_inside, offset, 0)[:, None] + np.arange(layout.itemsize)
        if not is_inside.any():
            return np.zeros(len(offset), np.int64)
        found = np.ascontiguousarray(self.data[place]).view(layout).reshape(-1).astype(np.int64)
        return np.where(is_inside, found, 0)


def check_frames(path: Path) -> tuple[str, ...]:
    """Every fault of a file's `.eh_frame` and `.eh_frame_hdr`, a sentence each."""
    try:
        with path.open("rb") as file:
            return tuple(_faults(read_elf_tables(file)))
    except ELFError as fault:
        return (f"the result cannot be read: {fault}",)


def _faults(elf: ElfTables) -> Iterator[str]:
    found = {name: [header for other, header in elf.sections if other == name] for name in (FRAMES, HEADER)}
    if lost := [name for name, headers in found.items() if len(headers) != 1]:
        yield f"there are {len(found[lost[0]])} sections {lost[0]}"
        return
    [[section], [header]] = found.values()
    for name, one in ((FRAMES, section), (HEADER, header)):
        if not any(_maps(load, one) for load in elf.of_type("PT_LOAD")):
            yield f"{name}: is in no PT_LOAD"
            return
    place = header["sh_addr"], header["sh_offset"], header["sh_size"]
    if [(one["p_vaddr"], one["p_offset"], one["p_memsz"]) for one in elf.of_type("PT_GNU_EH_FRAME")] != [place]:
        yield "PT_GNU_EH_FRAME: does not refer to the header"
    order = "<" if elf.header["e_ident"]["EI_DATA"] == "ELFDATA2LSB" else ">"
    data = np.frombuffer(elf.data, np.uint8, section["sh_size"], section["sh_offset"]).copy()
    frames = _Frames(data, section["sh_addr"], order)
    rows = elf.data[header["sh_offset"] : header["sh_offset"] + header["sh_size"]]
    yield from _header_faults(frames, rows, header["sh_addr"])


def _maps(load: Mapping[str, Any], section: Mapping[str, Any]) -> bool:
    """Whether a PT_LOAD maps the section to the address in its header."""
    start = section["sh_offset"] - load["p_offset"]
    is_inside = 0 <= start <= load["p_filesz"] - section["sh_size"]
    return bool(is_inside and load["p_vaddr"] + start == section["sh_addr"])


def _header_faults(frames: _Frames, data: bytes, address: int) -> Iterator[str]:
    """The header refers to the frames, its table is sorted, and its rows are right."""
    size = struct.calcsize(frames.order + HEADER_FIELDS)
    if len(data) < size:
        yield f"{HEADER}: has only {len(data)} bytes"
        return
    *encodings, pointer, count = struct.unpack_from(frames.order + HEADER_FIELDS, data)
    if tuple(encodings) != SEARCHED:
        yield f"{HEADER}: starts with {bytes(encodings).hex(' ')}, expected {bytes(SEARCHED).hex(' ')}"
        return
    if address + len(SEARCHED) + pointer != frames.address:
        yield f"{HEADER}: eh_frame_ptr is not the address of {FRAMES}"
    if size + 8 * count != len(data):
        yield f"{HEADER}: has {len(data)} bytes, expected {size + 8 * count} for {count} rows"
        return
    table = np.frombuffer(data, np.dtype(frames.order + "i4"), 2 * count, size).reshape(-1, 2).astype(np.int64)
    start, fde = table[:, 0] + address, table[:, 1] + (address - frames.address)
    if (unsorted := np.flatnonzero(np.diff(start) <= 0)).size:
        yield f"{HEADER}: row {unsorted[0] + 1} is not in ascending order"
    yield from _row_faults(frames, start, fde)


def _row_faults(frames: _Frames, start: NDArray[np.int64], fde: NDArray[np.int64]) -> Iterator[str]:
    """Each row refers to an FDE of its start, with a CIE; after the last there is a terminator."""
    body, end = _extent(frames, fde)
    cie = body - frames.values(body, "u4")
    cie_body, cie_end = _extent(frames, cie)
    is_right = (fde >= 0) & (body < end) & (end <= len(frames.data)) & (cie != body)
    is_right &= (cie >= 0) & (cie_body < cie_end) & (cie_end <= fde) & (frames.values(cie_body, "u4") == 0)
    if (wrong := np.flatnonzero(~is_right)).size:
        yield f"{HEADER}: row {wrong[0]} does not refer to an FDE with a CIE"
        return
    unique, which = np.unique(cie, return_inverse=True)
    encoding = np.array([_address_encoding(frames, int(one)) for one in unique], np.int64)[which]
    for one in np.intersect1d(encoding, BASELESS).tolist():
        some = np.flatnonzero(encoding == one)
        field = body[some] + 4
        value = frames.values(field, KINDS[one & FORMAT]) + (field + frames.address if one & PCREL else 0)
        if (wrong := some[value != start[some]]).size:
            yield f"{HEADER}: row {wrong[0]} refers to an FDE of another address"
    yield from _end_faults(frames, int(end.max(initial=0)))


def _extent(frames: _Frames, entry: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The offset after each entry's length, and of its end."""
    length = frames.values(entry, "u4")
    is_extended = length == EXTENDED
    body = entry + np.where(is_extended, 12, 4)
    length = np.where(is_extended, frames.values(entry + 4, "i8"), length)
    return body, body + np.where(length < 0, 0, length)


def _end_faults(frames: _Frames, offset: int) -> Iterator[str]:
    """From the entry at `offset`, one entry leads to the next up to a terminator."""
    while offset <= len(frames.data) - 4:
        [after], [end] = _extent(frames, np.array([offset]))
        if after == end:
            return
        offset = int(end)
    yield f"{FRAMES}: has no terminator after its last entry"


def _address_encoding(frames: _Frames, cie: int) -> int:
    """The DW_EH_PE encoding of the addresses in FDEs of the CIE at this offset; OMIT if it is not known."""
    [body], [end] = _extent(frames, np.array([cie]))
    record = frames.data[int(body) + 4 : int(end)].tobytes()
    letters, _, rest = record[1:].partition(b"\0")
    if not record or not letters.startswith(b"z"):
        return OMIT if letters else 0
    rest = rest[2:] if record[0] >= 4 else rest  # address and segment selector sizes
    rest = _after_leb128(_after_leb128(rest))  # the factors
    rest = rest[1:] if record[0] == 1 else _after_leb128(rest)  # the return address column
    rest = _after_leb128(rest)  # the size of the augmentation data
    for letter in letters[1:].decode("latin-1"):
        if not rest or letter not in "RLPSBG":
            return OMIT
        match letter:
            case "R":
                return rest[0]
            case "L":
                rest = rest[1:]
            case "P":
                if rest[0] not in BASELESS and rest[0] ^ INDIRECT not in BASELESS:
                    return OMIT
                rest = rest[1 + np.dtype(KINDS[rest[0] & FORMAT]).itemsize :]
    return 0


def _after_leb128(data: bytes) -> bytes:
    """What follows the LEB128 number at the start."""
    return data[next((at for at, byte in enumerate(data) if byte < 0x80), len(data)) + 1 :]
