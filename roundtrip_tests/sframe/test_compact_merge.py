"""`compact="merge"`: neighbours across padding in one FDE, and the same rows at every PC of every function."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from unwindkit import (
    BuildError,
    RulesByPc,
    UnwindTable,
    by_pc,
    from_sframe,
    project_sframe,
    read_elf,
    to_sframe,
    write_sframe,
)
from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.converters.kernels import engine, views
from unwindkit.converters.sframe.write import Compact
from unwindkit.converters.table.model import Function, FunctionFlag, Row, table_of
from unwindkit.schemas.section import Section

from ..conftest import engine_in_use, fewer
from ..support.handmade import at, octets, on, row, sp
from ..support.judges.referee import Kind, compare
from ..support.real_files import REAL_FILES
from ..support.tables import tables
from ..support.texts.readelf_text import frame_rows, sframe_rows

BASE = 0x1000
RA = at(16, -8)


def said_at(found: RulesByPc, pcs: list[int]) -> list[object]:
    """The rule set at each PC; None where there is none."""
    place = np.searchsorted(found.start, np.array(pcs, np.uint64), side="right") - 1
    return [
        found.sets[int(found.rules[at])] if at >= 0 and pc < int(found.end[at]) else None
        for at, pc in zip(place.tolist(), pcs, strict=True)
    ]


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", ["x86_64", "aarch64", "aarch64_be", "s390x"])
@fewer(4)
@given(engine_name=st.sampled_from(["pure", "compiled"]), max_rows=st.sampled_from([1, 2, 5, None]), data=st.data())
def test_rows_are_the_same_at_every_pc_of_every_function(
    name: str, version: int, engine_name: str, max_rows: int | None, data: st.DataObject
) -> None:
    table = data.draw(tables(ARCHITECTURES[name]))
    # Zeros everywhere: every gap is padding.
    end = int((table.functions.start + table.functions.size).max(initial=np.uint64(0)))
    table = replace(table, code=(Section.of(".text", bytes(min(end, 1 << 22))),))
    with engine_in_use(engine_name):
        section, refusals = to_sframe(table, version, compact="merge", max_rows=max_rows)
        found = by_pc(from_sframe(section))
    expected = by_pc(project_sframe(table, version), without=refusals)
    pcs = [*expected.start.tolist(), *(expected.end - np.uint64(1)).tolist(), *found.start.tolist()]
    pcs = [pc for pc, rules in zip(pcs, said_at(expected, pcs), strict=True) if rules is not None]
    assert said_at(found, pcs) == said_at(expected, pcs)


def table_with(code: bytes, *functions: Function, architecture: str = "x86_64") -> UnwindTable:
    table = table_of(ARCHITECTURES[architecture], functions)
    return replace(table, code=(Section.of(".text", code, BASE, table.byte_order),))


def function(start: int, size: int, *rows: Row, flags: int = 0, repetition: int = 0) -> Function:
    rows = rows or (row(0, sp(8), RA), row(1, sp(16), RA), row(size - 1, sp(8), RA))
    return Function(BASE + start, size, rows, return_column=16, flags=FunctionFlag(flags), repetition=repetition)


def fdes(table: UnwindTable, version: int = 2, max_rows: int | None = None) -> list[tuple[int, int]]:
    """Start and size of the FDEs."""
    section, _ = to_sframe(table, version, compact="merge", max_rows=max_rows)
    return [(one.start - BASE, one.size) for one in from_sframe(section)]


def padded(gap: str, size: int = 0x1A) -> bytes:
    """Code of 0x14 bytes, a gap, and more code."""
    return bytes(range(1, 0x15)) + octets(gap) + bytes(range(1, size))


@st.composite
def _ranges(draw: st.DrawFn) -> list[tuple[int, int, bool, int, int, int, int]]:
    """Start, last FRE's start, joins, rows, size, repeated and single cost of a few ranges, ascending."""
    found, at = [], 0
    for _ in range(draw(st.integers(1, 7))):
        length = draw(st.sampled_from([0, 1, 0x40, 0xFE, 0xFF, 0x100, 0xFF00, 0xFFFF, 0x10000]))
        rows, size = draw(st.integers(1, 4)), draw(st.integers(3, 12))
        joins, repeated = draw(st.booleans()) and at > 0, draw(st.sampled_from([0, 2, 3]))
        found.append((at, at + length, joins, rows, size, repeated if joins else 0, draw(st.integers(1, 40_000))))
        at += length + draw(st.sampled_from([0, 1, 0x100]))
    return found


def _cheapest(ranges: list[tuple[int, int, bool, int, int, int, int]], max_rows: int, fde_cost: int) -> int:
    """The lowest cost of all groupings, each tried: by the definition in the kernel's docstring."""
    best = 1 << 62
    for cuts in product([True, False], repeat=len(ranges) - 1):
        firsts = [0, *(at for at, cut in enumerate(cuts, 1) if cut)]
        total = 0
        for first, end in pairwise([*firsts, len(ranges)]):
            group = ranges[first:end]
            if len(group) == 1:
                total += group[0][6]
                continue
            count = sum(one[3] for one in group) - sum(one[5] > 0 for one in group[1:])
            if not all(one[2] for one in group[1:]) or count > max_rows:
                break
            reach = group[-1][1] - group[0][0]
            width = 1 if reach <= 0xFF else 2 if reach <= 0xFFFF else 4
            total += fde_cost + 1024 * (sum(one[4] for one in group) - sum(one[5] for one in group[1:]) + count * width)
        else:
            best = min(best, total)
    return best


@pytest.mark.usefixtures("kernels")
@given(_ranges(), st.sampled_from([3, 5, 100]))
@example([(0, 0, False, 1, 3, 0, 30_000), (0xFF, 0xFF, True, 1, 3, 0, 30_000)], 100)
@example([(0, 0, False, 1, 3, 0, 30_000), (0x100, 0x100, True, 1, 3, 0, 30_000)], 100)
@example([(0, 0, False, 1, 3, 0, 30_000), (0xFFFF, 0xFFFF, True, 1, 3, 0, 30_000)], 100)
@example([(0, 0, False, 1, 3, 0, 30_000), (0x10000, 0x10000, True, 1, 3, 0, 30_000)], 100)
def test_groups_are_the_cheapest_of_all(ranges: list[tuple[int, int, bool, int, int, int, int]], max_rows: int) -> None:
    kinds = (np.uint64, np.uint64, np.uint8, np.int64, np.int64, np.int64, np.int64)
    columns = [np.array(values, kind) for values, kind in zip(zip(*ranges, strict=True), kinds, strict=True)]
    best, begin = np.empty(len(ranges) + 1, np.int64), np.empty(len(ranges), np.int64)
    kernel = engine.sframe.merge_fdes
    # As many rows at least as any one range has: a range alone is never refused.
    kernel.group(max_rows, 64, 1024, 20 * 1024, kernel.Ranges(*views(*columns)), *views(best, begin))
    assert best[-1] == _cheapest(ranges, max_rows, 20 * 1024)


PADDING = [
    "90", "6690", "0f1f00", "0f1f4000", "0f1f440000", "660f1f440000", "0f1f8000000000", "0f1f840000000000",
    "662e0f1f840000000000", "66662e0f1f840000000000", "cccccc", "000000", "90cc00", "0f1f0500000000", "",
]  # fmt: skip
NO_PADDING = [
    "c3",  # ret
    "90c3",
    "66",  # a prefix of what follows
    "0f1f",  # cut
    "0f1f44",
    "0f1f8000",
    "0f1f8400000000",
    "0f1f4800",  # /1: another instruction
    "0f0b",  # ud2, which gcc puts where a path must not go on: code
    "f30f1efa",  # endbr64: a function begins here
    "eb00",
]


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("gap", PADDING)
def test_functions_across_padding_are_one_fde(gap: str) -> None:
    size = len(octets(gap))
    code = padded(gap)
    table = table_with(code, function(0, 0x14), function(0x14 + size, 0x14))
    assert fdes(table) == [(0, 0x28 + size)]
    (merged,) = from_sframe(to_sframe(table, compact="merge")[0])
    # The second function's first row is the first one's last.
    assert [(one.offset, one.cfa.value) for one in merged.rows] == [
        (0, 8), (1, 16), (0x13, 8), (0x15 + size, 16), (0x27 + size, 8),
    ]  # fmt: skip


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("gap", NO_PADDING)
def test_functions_across_anything_else_are_not(gap: str) -> None:
    size = len(octets(gap))
    table = table_with(padded(gap), function(0, 0x14), function(0x14 + size, 0x14))
    assert fdes(table) == [(0, 0x14), (0x14 + size, 0x14)]


def test_a_gap_outside_the_code_is_not_padding() -> None:
    table = table_with(bytes(0x20), function(0, 0x14), function(0x24, 0x14))
    assert len(fdes(table)) == 2
    assert len(fdes(replace(table, code=()))) == 2


@pytest.mark.parametrize(
    ("architecture", "gap", "expected"),
    [
        ("aarch64", "1f2003d5 1f2003d5", True),
        ("aarch64", "00000000", True),
        ("aarch64_be", "1f2003d5", True),  # instructions are little-endian in both
        ("aarch64", "1f2003", False),
        ("aarch64", "5f2403d5", False),  # bti c
        ("aarch64", "c0035fd6", False),  # ret
        ("s390x", "0707", True),
        ("s390x", "0700 47000000 a7040000 c00400000000 0000", True),
        # The target of the branch may be any; condition 1 branches.
        ("s390x", "0712", False),
        ("s390x", "47101234", False),
        ("s390x", "a7141234", False),
        ("s390x", "c01400001234", False),
        ("s390x", "47001234", True),
        ("s390x", "a7041234", True),
        ("s390x", "c00400001234", True),
        ("s390x", "07fe", False),  # br %r14
        ("s390x", "a7f40000", False),  # j
        ("s390x", "c004000000", False),
        ("s390x", "07", False),
    ],
)
@pytest.mark.usefixtures("kernels")
def test_padding_of_other_architectures(architecture: str, gap: str, expected: bool) -> None:
    one = ARCHITECTURES[architecture]
    rows = (row(0, on(one.stack_pointer, 160)), row(4, on(one.stack_pointer, 320)))
    made = [Function(BASE, 0x14, rows, return_column=one.return_address)]
    made.append(replace(made[0], start=BASE + 0x14 + len(octets(gap))))
    assert (len(fdes(table_with(padded(gap), *made, architecture=architecture))) == 1) == expected


SIGNAL, B_KEY = FunctionFlag.SIGNAL_FRAME, FunctionFlag.PAUTH_B_KEY
FLEX_ROWS = (row(0, on(10, 16), RA),)
REFUSED_ROWS = (row(0, sp(8), at(16, -24)),)


@pytest.mark.parametrize(
    ("version", "middle"),
    [
        (2, {"flags": SIGNAL}),
        (3, {"flags": SIGNAL}),
        (2, {"flags": B_KEY}),
        (2, {"repetition": 4}),
        (3, {"rows": FLEX_ROWS}),
        (2, {"rows": REFUSED_ROWS}),
    ],
    ids=str,
)
def test_some_neighbours_stay_alone(version: int, middle: dict[str, Any]) -> None:
    rows = middle.pop("rows", (row(0, sp(8), RA),))
    between = function(0x14, 0x14, *rows, **middle)
    table = table_with(bytes(0x100), function(0, 0x14), between, function(0x28, 0x14), function(0x3C, 0x14))
    found = fdes(table, version)
    assert (0, 0x14) in found
    assert found[-1] == (0x28, 0x28)


def test_refused_rows_inside_a_function_part_it() -> None:
    parted = (row(0, sp(8), RA), row(4, on(3, 8), RA), row(8, sp(8), RA))
    table = table_with(bytes(0x100), function(0, 0x14), function(0x14, 0x14, *parted), function(0x28, 0x14))
    assert fdes(table) == [(0, 0x18), (0x1C, 0x20)]


def test_max_rows_bounds_what_is_merged() -> None:
    # Three rows each; the first repeats the last row of the previous function.
    many = [function(0x14 * number, 0x14) for number in range(12)]
    table = table_with(bytes(0x200), *many)
    assert fdes(table) == [(0, 0xF0)]
    for bound, expected in ((2, 12), (3, 12), (4, 12), (5, 6), (7, 4), (25, 1)):
        sections = from_sframe(to_sframe(table, compact="merge", max_rows=bound)[0])
        assert len(sections) == expected
        assert all(len(one.rows) <= max(3, bound) for one in sections)


def test_wider_start_addresses_are_counted() -> None:
    # Thirteen functions would extend past 255 bytes and need two bytes per start: two FDEs are cheaper.
    table = table_with(bytes(0x200), *(function(0x14 * number, 0x14) for number in range(20)))
    assert fdes(table) == [(0, 0xF0), (0xF0, 0xA0)]


@pytest.mark.parametrize("arguments", [{"max_rows": 0}, {"compact": "share", "max_rows": 5}, {"compact": "most"}])
def test_options_that_mean_nothing(arguments: dict[str, Any]) -> None:
    with pytest.raises(BuildError):
        to_sframe(table_with(b""), **{"compact": "merge", **arguments})


COMPACTS: tuple[Compact, ...] = ("none", "share", "merge")


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("path", REAL_FILES, ids=str)
def test_merged_is_smallest_and_both_engines_agree(path: str, version: int) -> None:
    table = read_elf(path)
    address = int(table.functions.start.max()) + 0x1000
    sizes = [len(to_sframe(table, version, address, compact)[0]) for compact in COMPACTS]
    assert sizes[0] > sizes[1] > 1.2 * sizes[2]
    merged = [to_sframe(table, version, address, "merge")[0]]
    for name in ("pure", "compiled"):
        with engine_in_use(name):
            assert engine.chosen().name == name
            merged.append(to_sframe(table, version, address, "merge")[0])
    assert len(set(merged)) == 1, "the same bytes each time, on each engine"


@pytest.mark.oracle
@pytest.mark.parametrize("path", REAL_FILES, ids=str)
def test_readelf_finds_the_same_rows_at_every_pc(path: str, tmp_path: Path) -> None:
    output = tmp_path / Path(path).name
    report = write_sframe(path, output, compact="merge")
    assert report.fdes < report.functions / 2
    frame, found = frame_rows(Path(path)), sframe_rows(output)
    order = np.argsort(frame.start)
    gaps = list(zip(frame.end[order][:-1].tolist(), frame.start[order][1:].tolist(), strict=True))
    # Between functions any rule is allowed; the PLT has rows that readelf cannot print.
    excepted = [(start, end) for start, end in gaps if start < end]
    compared = compare(frame, found, excepted)
    plain = tmp_path / "plain"
    write_sframe(path, plain, compact="none")
    without_merging = compare(frame, sframe_rows(plain), excepted)
    wrong = [one for one in compared.differences if one.kind is not Kind.UNSAYABLE]
    assert not wrong, "\n".join(map(str, wrong[:10]))
    assert compared.bytes_compared == without_merging.bytes_compared > 0
    # Neither covers what V2 cannot express.
    assert {(d.start, d.end) for d in compared.differences} == {(d.start, d.end) for d in without_merging.differences}
