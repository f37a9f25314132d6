"""The section to add to a file, and an engine's plan of where it goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ....schemas.data_classes import dataclass
from ..tables import MAX_PAGE, MIN_PAGE, SectionHeader, Tables


@dataclass(frozen=True, slots=True)
class FollowingSection:
    """A second section that is written after a loaded section in the same segment.

    `segment_type` is the type of its program header. `content(address, first)` must return exactly `size` bytes, given
    the final virtual addresses of this section and of the one that it follows.
    """

    name: str
    section_type: int
    segment_type: int
    size: int
    content: Callable[[int, int], bytes]
    alignment: int


@dataclass(frozen=True, slots=True)
class LoadedSection:
    """A section that is mapped read-only when the program is loaded.

    `segment_type` is the type of its program header, None if it has none of its own; `size` is in bytes;
    `content(address)` must return exactly that many bytes, given the section's final virtual address. `following` is a
    section that is added with it.
    """

    name: str
    section_type: int
    segment_type: int | None
    size: int
    content: Callable[[int], bytes]
    alignment: int = 8
    following: FollowingSection | None = None

    @property
    def parts(self) -> tuple[Part, ...]:
        """This section and the following one."""
        return (self,) if self.following is None else (self, self.following)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parts."""
        return tuple(part.name for part in self.parts)

    @property
    def segment_types(self) -> tuple[int, ...]:
        """The types of the parts' program headers."""
        return tuple(part.segment_type for part in self.parts if part.segment_type is not None)

    @property
    def offsets(self) -> tuple[int, ...]:
        """Where each part starts, relative to the first, if one follows the other."""
        return (0,) if self.following is None else (0, align_up(self.size, self.following.alignment))

    @property
    def span(self) -> int:
        """The size of all parts together, if one follows the other."""
        return self.offsets[-1] + self.parts[-1].size

    @property
    def span_alignment(self) -> int:
        """The alignment with which every part is aligned, if one follows the other."""
        return max(part.alignment for part in self.parts)

    def contents(self, addresses: tuple[int, ...]) -> tuple[bytes, ...]:
        """The bytes of the parts, given their virtual addresses."""
        data = self.content(addresses[0])
        return (data,) if self.following is None else (data, self.following.content(addresses[1], addresses[0]))


Part: TypeAlias = LoadedSection | FollowingSection


@dataclass(frozen=True, slots=True)
class Plan:
    """An engine's result: the file is laid out; only its tables, the section's bytes and `patches` are not yet written.

    `tables.sections[index]` has the name, address and offset of a part, for each index of `indices`, and nothing else
    yet. `moved` are the indices of other loaded sections whose address changed; `patches` are file offsets and the
    bytes to write there.
    """

    indices: tuple[int, ...]
    tables: Tables
    moved: tuple[int, ...] = ()
    patches: tuple[tuple[int, bytes], ...] = ()

    @property
    def headers(self) -> tuple[SectionHeader, ...]:
        """The headers of the parts."""
        return tuple(self.tables.sections[index] for index in self.indices)


def page_of(before: Tables) -> int:
    """The page size that the file was linked for.

    A larger p_align than the largest page (2 MiB on older x86-64) would only make a hole in the file.
    """
    return max(MIN_PAGE, min(MAX_PAGE, max(load.align for load in before.loads)))


def align_up(value: int, alignment: int) -> int:
    """The next multiple of `alignment`; 0 and 1 mean no alignment."""
    alignment = max(alignment, 1)
    return -(-value // alignment) * alignment
