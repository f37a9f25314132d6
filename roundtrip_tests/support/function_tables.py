"""Function tables with line records, as plain values: drawn, made columns, and evaluated address by address.

Strategy: a `Drawn` is what a table says, one tuple per item; ranges are sets of addresses, so that it needs no
arithmetic of ranges. `chain_at` finds the functions at an address by trying them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from unwindkit.converters.debug_info.table import (
    FunctionColumns,
    FunctionRanges,
    FunctionTable,
    InlineColumns,
    InlineRanges,
    SkippedUnits,
)
from unwindkit.converters.line.ranges import LineRanges

BASE, LENGTH = 0x1000, 48
NAMES = (b"f", b"g", b"h i", b"_ZN1A1fEv")
DEMANGLED = ("f", "g", "h i", "A::f()")
FILES = (b"/a.c", b"/b b.c", b"/a.c", b"/d.c")
OMITTED, UNKNOWN = "<name omitted>", "<unknown>"


@dataclass(frozen=True)
class DrawnInline:
    """An inlined function: indices of its function and of what contains it, or -1."""

    function: int
    parent: int
    depth: int
    name: int
    call_file: int
    call_line: int
    addresses: frozenset[int]


@dataclass(frozen=True)
class Drawn:
    """Functions (name and ranges as start and size), inlined functions in preorder, and line and file by address."""

    functions: tuple[tuple[int, tuple[tuple[int, int], ...]], ...]
    inlines: tuple[DrawnInline, ...]
    lines: dict[int, tuple[int, int]]


def ranges_of(addresses: frozenset[int]) -> list[tuple[int, int]]:
    """Start and size of each run of consecutive addresses."""
    runs = groupby(enumerate(sorted(addresses)), lambda pair: pair[1] - pair[0])
    found = [[address for _, address in run] for _, run in runs]
    return [(run[0], len(run)) for run in found]


@st.composite
def drawn_functions(draw: DrawFn, siblings_overlap: bool = False) -> Drawn:
    """Up to five functions, which may share and overlap, with inlined functions up to three levels deep."""
    places = st.frozensets(st.integers(BASE, BASE + LENGTH - 1), min_size=1, max_size=LENGTH)
    spans = st.tuples(st.integers(BASE, BASE + LENGTH - 1), st.integers(1, LENGTH)).map(
        lambda pair: frozenset(range(pair[0], pair[0] + pair[1]))
    )
    areas = st.one_of(spans, spans, places)
    names = st.integers(-1, len(NAMES) - 1)
    functions, inlines = [], []

    def add_inlines(function: int, parent: int, depth: int, addresses: frozenset[int]) -> None:
        left = addresses
        for _ in range(draw(st.integers(0, 2 if depth < 3 else 0))):
            inside = (addresses if siblings_overlap else left) & draw(areas)
            if inside:
                left -= inside
                call = draw(st.integers(-1, len(FILES) - 1)), draw(st.integers(0, 9))
                inlines.append(DrawnInline(function, parent, depth, draw(names), *call, inside))
                add_inlines(function, len(inlines) - 1, depth + 1, inside)

    for index in range(draw(st.integers(0, 5))):
        addresses = draw(areas)
        functions.append((draw(names), tuple(ranges_of(addresses))))
        add_inlines(index, -1, 0, addresses)
    values = st.tuples(st.integers(1, 3), st.integers(0, len(FILES) - 1))
    lines = draw(st.dictionaries(st.integers(BASE - 2, BASE + LENGTH + 2), values))
    return Drawn(tuple(functions), tuple(inlines), lines)


def table_of(drawn: Drawn) -> FunctionTable:
    """The columns."""
    found = [(start, size, index) for index, (_, spans) in enumerate(drawn.functions) for start, size in spans]
    start, size, function = np.array(sorted(found), np.uint64).reshape(-1, 3).T
    count, inlines = len(drawn.functions), drawn.inlines
    parts = [(*part, index) for index, one in enumerate(inlines) for part in ranges_of(one.addresses)]
    inline_start, inline_size, inline = np.array(parts, np.uint64).reshape(-1, 3).T

    def column(name: str) -> list[int]:
        return [getattr(one, name) for one in inlines]

    return FunctionTable(
        FunctionColumns.defaults(count, name=np.array([name for name, _ in drawn.functions], np.int64)),
        FunctionRanges(start.copy(), size.copy(), function.astype(np.uint32)),
        InlineColumns.defaults(
            len(inlines),
            function=np.array(column("function"), np.uint32),
            parent=np.array(column("parent"), np.int64),
            depth=np.array(column("depth"), np.uint16),
            name=np.array(column("name"), np.int64),
            call_file=np.array(column("call_file"), np.int64),
            call_line=np.array(column("call_line"), np.uint32),
        ),
        InlineRanges(inline_start.copy(), inline_size.copy(), inline.astype(np.uint32)),
        NAMES,
        FILES,
        SkippedUnits.defaults(0),
    )


def line_records_of(drawn: Drawn, is_whole: bool = True) -> LineRanges:
    """Line records: one per address, or one per run of consecutive addresses with equal lines."""
    records = [(address, 1, *drawn.lines[address]) for address in sorted(drawn.lines)]
    joined: list[tuple[int, int, int, int]] = []
    for address, size, line, file in records:
        before = joined[-1] if joined else (0, 0, 0, 0)
        if is_whole and before[0] + before[1] == address and before[2:] == (line, file):
            joined[-1] = (before[0], before[1] + size, line, file)
        else:
            joined.append((address, size, line, file))
    address, *others = np.array(joined, np.uint64).reshape(-1, 4).T
    return LineRanges(address.copy(), *(one.astype(np.uint32) for one in others))


def owner_at(drawn: Drawn, pc: int) -> int:
    """The index of the function that owns an address: the one whose range starts first, then the first; -1: none."""
    covering = [
        (start, index)
        for index, (_, spans) in enumerate(drawn.functions)
        for start, size in spans
        if start <= pc < start + size
    ]
    return min(covering)[1] if covering else -1


def name_at(drawn: Drawn, pc: int) -> str | None:
    """The name of the function at an address."""
    owner = owner_at(drawn, pc)
    return None if owner < 0 else text_of_name(drawn.functions[owner][0])


def text_of_name(name: int) -> str:
    """A name as a symbol file has it."""
    return OMITTED if name < 0 else DEMANGLED[name]


def chain_at(drawn: Drawn, pc: int) -> list[DrawnInline]:
    """The inlined functions at an address, outermost first, if those of one level do not overlap."""
    owner, parent, found = owner_at(drawn, pc), -1, []
    for index, one in enumerate(drawn.inlines):
        if one.function == owner and one.parent == parent and pc in one.addresses:
            found.append(one)
            parent = index
    return found
