"""Check a file that got another `.eh_frame` and `.eh_frame_hdr`: both are as requested, and no other byte changed.

Strategy: both files are read with pyelftools and compared byte by byte, outside the ranges that the writer declares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError

from .compare import ElfTables, difference_outside, read_elf_tables

FRAMES, HEADER = ".eh_frame", ".eh_frame_hdr"


@dataclass(frozen=True, slots=True)
class ExpectedFrames:
    """What the result must have: the contents of both sections, given their addresses (the header's second), and the
    file ranges that may differ."""

    content: Callable[[int], bytes]
    header: Callable[[int, int], bytes]
    declared: tuple[tuple[int, int], ...]


def check_frames(before: Path, after: Path, expected: ExpectedFrames) -> tuple[str, ...]:
    """Every fault of `after` as the file `before` with these two sections, a sentence each."""
    try:
        with before.open("rb") as first, after.open("rb") as second:
            return tuple(_faults(read_elf_tables(first), read_elf_tables(second), expected))
    except (ELFError, KeyError) as fault:
        return (f"the result cannot be read: {fault}",)


def _faults(old: ElfTables, new: ElfTables, expected: ExpectedFrames) -> Iterator[str]:
    if len(old.data) != len(new.data):
        yield f"the file has {len(new.data)} bytes, it had {len(old.data)}"
        return
    if (place := difference_outside(old.data, new.data, 0, len(new.data), expected.declared)) is not None:
        yield f"the bytes have changed at {place:#x}"
    found = {name: header for name, header in new.sections if name in (FRAMES, HEADER)}
    address = found[FRAMES]["sh_addr"]
    wanted = {FRAMES: expected.content(address), HEADER: expected.header(address, found[HEADER]["sh_addr"])}
    for name, data in wanted.items():
        offset = found[name]["sh_offset"]
        if found[name]["sh_size"] != len(data) or new.data[offset : offset + len(data)] != data:
            yield f"{name}: differs from what was requested"
        if not any(_maps(load, found[name]) for load in new.of_type("PT_LOAD")):
            yield f"{name}: is in no PT_LOAD"
    for one in new.of_type("PT_GNU_EH_FRAME"):
        if (one["p_vaddr"], one["p_filesz"]) != (found[HEADER]["sh_addr"], found[HEADER]["sh_size"]):
            yield "PT_GNU_EH_FRAME: does not refer to the header"


def _maps(load: Mapping[str, int], section: Mapping[str, int]) -> bool:
    """Whether a PT_LOAD maps the section to the address in its header."""
    start = section["sh_offset"] - load["p_offset"]
    is_inside = 0 <= start <= load["p_filesz"] - section["sh_size"]
    return is_inside and load["p_vaddr"] + start == section["sh_addr"]
