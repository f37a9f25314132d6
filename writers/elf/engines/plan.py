"""What is to be put into a file, and what an engine hands back: where it goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..tables import MAX_PAGE, MIN_PAGE, SectionHeader, Tables


@dataclass(frozen=True, slots=True)
class LoadedSection:
    """A section that the program's loader maps, read-only.

    `segment_type` is that of the program header that names it; `size` is in bytes and `content(address)` must return
    exactly that many, given the section's final virtual address.
    """

    name: str
    section_type: int
    segment_type: int
    size: int
    content: Callable[[int], bytes]
    alignment: int = 8


@dataclass(frozen=True, slots=True)
class Plan:
    """An engine's result: the file is laid out, but for its tables, the section's bytes and `patches`.

    `tables.sections[index]` has the section's name, address and offset, and nothing else yet. `moved` are the indices
    of other loaded sections that have another address now; `patches` are file offsets and what is to be written there.
    """

    index: int
    tables: Tables
    moved: tuple[int, ...] = ()
    patches: tuple[tuple[int, bytes], ...] = ()

    @property
    def place(self) -> SectionHeader:
        """The section's header."""
        return self.tables.sections[self.index]


def page_of(before: Tables) -> int:
    """The page size that the file was linked for.

    A p_align above the largest page (2 MiB on older x86-64) would only leave a hole in the file.
    """
    return max(MIN_PAGE, min(MAX_PAGE, max(load.align for load in before.loads)))


def aligned(value: int, alignment: int) -> int:
    """The next multiple; 0 and 1 align to nothing."""
    alignment = max(alignment, 1)
    return -(-value // alignment) * alignment
