"""Both sections of call frame information as readelf prints them, joined: at a PC of both, `.eh_frame` wins."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from elftools.elf.elffile import ELFFile

from .readelf_text import FrameRows, frame_rows

Range = tuple[int, int]


def code_ranges(path: Path) -> list[Range]:
    """The executable sections."""
    with path.open("rb") as file:
        sections = [one.header for one in ELFFile(file).iter_sections() if one["sh_flags"] & 4]
    return [(one["sh_addr"], one["sh_addr"] + one["sh_size"]) for one in sections]


def joined_rows(path: Path) -> FrameRows:
    """The functions of `.eh_frame`, then the parts of those of `.debug_frame` that it does not cover; of a linked file
    only functions in executable sections."""
    above, below = frame_rows(path), frame_rows(path, ".debug_frame")
    taken = sorted(zip(above.start.tolist(), above.end.tolist(), strict=True))
    code = code_ranges(path)
    start, end, first_row, pc, text = [], [], [0], [], []
    owner = []
    for function in range(len(below.start)):
        whole = int(below.start[function]), int(below.end[function])
        if not any(begin <= whole[0] < stop for begin, stop in code):
            continue
        rows = slice(below.first_row[function], below.first_row[function + 1])
        for part in _free(whole, taken):
            owner.append(function)
            start.append(part[0])
            end.append(part[1])
            pc += below.pc[rows].tolist()
            text += (below.text[rows] + len(above.texts)).tolist()
            first_row.append(len(pc))
    return FrameRows(
        above.architecture,
        np.append(above.start, np.array(start, np.uint64)),
        np.append(above.end, np.array(end, np.uint64)),
        np.append(above.first_row, np.array(first_row[1:], np.int64) + above.first_row[-1]),
        np.append(above.pc, np.array(pc, np.uint64)),
        np.append(above.text, np.array(text, np.int64)),
        (*above.texts, *below.texts),
        np.append(above.has_b_key, below.has_b_key[owner]),
        np.append(above.is_signal_frame, below.is_signal_frame[owner]),
    )


def _free(whole: Range, taken: list[Range]) -> Iterator[Range]:
    """The parts of a range that none of the `taken` ones, in ascending order, covers."""
    place, stop = whole
    for begin, end in taken:
        if end <= place or begin >= stop:
            continue
        if begin > place:
            yield place, begin
        place = max(place, end)
    if place < stop:
        yield place, stop
