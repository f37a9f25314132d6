"""The section to add to a file, and an engine's plan of where it goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..tables import MAX_PAGE, MIN_PAGE, SectionHeader, Tables


@dataclass(frozen=True, slots=True)
class LoadedSection:
    """A section that is mapped read-only when the program is loaded.

    `segment_type` is the type of its program header; `size` is in bytes; `content(address)` must return exactly that
    many bytes, given the section's final virtual address.
    """

    name: str
    section_type: int
    segment_type: int
    size: int
    content: Callable[[int], bytes]
    alignment: int = 8


@dataclass(frozen=True, slots=True)
class Plan:
    """An engine's result: the file is laid out; only its tables, the section's bytes and `patches` are not yet written.

    `tables.sections[index]` has the section's name, address and offset, and nothing else yet. `moved` are the indices
    of other loaded sections whose address changed; `patches` are file offsets and the bytes to write there.
    """

    index: int
    tables: Tables
    moved: tuple[int, ...] = ()
    patches: tuple[tuple[int, bytes], ...] = ()

    @property
    def header(self) -> SectionHeader:
        """The section's header."""
        return self.tables.sections[self.index]


def page_of(before: Tables) -> int:
    """The page size that the file was linked for.

    A larger p_align than the largest page (2 MiB on older x86-64) would only make a hole in the file.
    """
    return max(MIN_PAGE, min(MAX_PAGE, max(load.align for load in before.loads)))


def align_up(value: int, alignment: int) -> int:
    """The next multiple of `alignment`; 0 and 1 mean no alignment."""
    alignment = max(alignment, 1)
    return -(-value // alignment) * alignment
