"""FUNC, INLINE and line records of drawn function tables: what two readers find at every address."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unwindkit import BuildError
from unwindkit.converters.breakpad.function_text import to_function_records
from unwindkit.converters.breakpad.functions import function_records
from unwindkit.converters.debug_info.table import FunctionRanges, FunctionTable, InlineRanges
from unwindkit.converters.elf.function_symbols import FunctionSymbols
from unwindkit.converters.line.ranges import LineRanges
from unwindkit.schemas.breakpad.files import parse_record
from unwindkit.schemas.breakpad.rules import check_records

from ..support.function_tables import (
    BASE,
    FILES,
    LENGTH,
    UNKNOWN,
    Drawn,
    DrawnInline,
    chain_at,
    drawn_functions,
    line_records_of,
    name_at,
    owner_at,
    table_of,
    text_of_name,
)
from ..support.symbol_files.lint import lint
from ..support.symbol_files.records import Frame, Lookup, parse_symbol_file
from ..support.work import at_most_calls

ALL = range(BASE - 3, BASE + 2 * LENGTH)
pytestmark = pytest.mark.usefixtures("kernels")


def text_of(drawn: Drawn, is_whole: bool = True) -> bytes:
    return to_function_records(table_of(drawn), line_records_of(drawn, is_whole))


def frames_at(drawn: Drawn, pc: int) -> tuple[Frame, ...]:
    """The function and what is inlined at an address, innermost first, each with its line or that of the call in it."""
    name = name_at(drawn, pc)
    if name is None:
        return ()
    chain = chain_at(drawn, pc)
    names = [name, *(text_of_name(one.name) for one in chain)]
    line, file = drawn.lines.get(pc, (0, -1))
    places = [call_of(one) for one in chain] + [(FILES[file].decode() if line else "", line)]
    return tuple(Frame(one, *place) for one, place in zip(names, places, strict=True))[::-1]


def call_of(one: DrawnInline) -> tuple[str, int]:
    return UNKNOWN if one.call_file < 0 else FILES[one.call_file].decode(), one.call_line


@given(drawn_functions(), st.booleans())
def test_readers_find_the_function_the_chain_and_the_line_at_every_address(drawn: Drawn, is_whole: bool) -> None:
    symbols = parse_symbol_file(text_of(drawn, is_whole))
    lookup = Lookup(symbols)
    for pc in ALL:
        assert lookup.frames(pc) == lookup.frames(pc, by_order=True) == frames_at(drawn, pc)
    assert list(lint(symbols)) == []


@given(drawn_functions(siblings_overlap=True))
def test_both_readers_agree_where_inlined_functions_of_one_level_overlap(drawn: Drawn) -> None:
    symbols = parse_symbol_file(text_of(drawn))
    assert list(lint(symbols)) == []
    lookup = Lookup(symbols)
    for pc in ALL:
        frames = lookup.frames(pc)
        assert frames == lookup.frames(pc, by_order=True)
        assert (frames[-1].function if frames else None) == name_at(drawn, pc)
        # Each is one that the table has at this address, one level below; the chain ends where none is inside.
        holding = [
            (index, one)
            for index, one in enumerate(drawn.inlines)
            if pc in one.addresses and one.function == owner_at(drawn, pc)
        ]
        around = {-1}
        for outer, inner in pairwise(frames[::-1]):
            found = {
                index
                for index, one in holding
                if one.parent in around and text_of_name(one.name) == inner.function
                if call_of(one) == (outer.file, outer.line)
            }
            assert found
            around = found
        assert len(frames) > 1 or not [one for _, one in holding if one.parent < 0]


@given(drawn_functions(siblings_overlap=True))
def test_the_records_follow_the_rules_of_the_document(drawn: Drawn) -> None:
    lines = enumerate(text_of(drawn).splitlines(keepends=True), 2)
    module = (1, parse_record(b"MODULE Linux x86_64 000000000000000000000000000000000 a\n"))
    assert list(check_records([module, *((number, parse_record(line, number)) for number, line in lines)])) == []


@given(drawn_functions())
def test_a_function_has_m_where_one_with_another_name_starts(drawn: Drawn) -> None:
    names: dict[int, set[str]] = {}
    for name, spans in drawn.functions:
        for start, _ in spans:
            names.setdefault(start, set()).add(text_of_name(name))
    for one in parse_symbol_file(text_of(drawn)).functions:
        starts = any(start == one.address for start, _ in drawn.functions[owner_at(drawn, one.address)][1])
        assert one.is_multiple == (starts and len(names[one.address]) > 1)


def test_the_text_of_two_functions_is_the_one_worked_out_by_hand() -> None:
    g = DrawnInline(0, -1, 0, 1, 1, 7, frozenset(range(0x1004, 0x100C)))
    f = DrawnInline(0, 0, 1, 3, -1, 0, frozenset({0x1006, 0x100A}))
    # The second function overlaps the first, and starts where another one does.
    drawn = Drawn(
        ((2, ((0x1000, 16), (0x1020, 4))), (0, ((0x1008, 16),)), (1, ((0x1020, 4),))),
        (g, f),
        dict.fromkeys(range(0x1002, 0x1012), (3, 0)) | {0x1013: (3, 2), 0x1021: (4, 3), 0x1030: (9, 1)},
    )
    assert text_of(drawn).decode().splitlines() == [
        "FILE 0 /b b.c",  # of the first call
        "FILE 1 <unknown>",
        "FILE 2 /a.c",
        "FILE 3 /d.c",
        "INLINE_ORIGIN 0 g",
        "INLINE_ORIGIN 1 A::f()",
        "FUNC 1000 10 0 h i",
        "INLINE 0 7 0 0 1004 8",
        "INLINE 1 0 1 1 1006 1 100a 1",
        "1002 e 3 2",
        "FUNC 1010 8 0 f",
        "1010 2 3 2",
        "1013 1 3 2",
        "FUNC m 1020 4 0 h i",
        "1021 1 4 3",
    ]


def test_an_inlined_function_is_repeated_in_each_part_of_its_function() -> None:
    """The code of f is in two parts, and so is that of g in it, and of h in g."""
    g = DrawnInline(0, -1, 0, 1, 0, 1, frozenset({0x1001, 0x1002, 0x1011, 0x1012}))
    h = DrawnInline(0, 0, 1, 2, 0, 2, frozenset({0x1002, 0x1012}))
    drawn = Drawn(((0, ((0x1000, 4), (0x1010, 4))),), (g, h), {})
    assert text_of(drawn).decode().splitlines()[3:] == [
        "FUNC 1000 4 0 f",
        "INLINE 0 1 0 0 1001 2",
        "INLINE 1 2 0 1 1002 1",
        "FUNC 1010 4 0 f",
        "INLINE 0 1 0 0 1011 2",
        "INLINE 1 2 0 1 1012 1",
    ]


def test_inlined_functions_need_not_be_in_preorder() -> None:
    """g and h are inlined into f, and f into g, in the order g, h, f."""
    g = DrawnInline(0, -1, 0, 1, 0, 1, frozenset({0x1000, 0x1001}))
    h = DrawnInline(0, -1, 0, 2, 0, 2, frozenset({0x1002}))
    f = DrawnInline(0, 0, 1, 0, 0, 3, frozenset({0x1001}))
    drawn = Drawn(((3, ((0x1000, 4),)),), (g, h, f), {})
    assert [line for line in text_of(drawn).decode().splitlines() if line.startswith("INLINE ")] == [
        "INLINE 0 1 0 0 1000 2",
        "INLINE 1 3 0 1 1001 1",
        "INLINE 0 2 0 2 1002 1",
    ]


def test_a_symbol_is_a_function_where_only_lines_are() -> None:
    """Assembler code: symbols with lines outside functions. One has none, one is partly in a function, one has no
    size."""
    drawn = Drawn(((0, ((0x1008, 8),)),), (), {0x1001: (1, 0), 0x1006: (2, 0), 0x1009: (3, 0), 0x1024: (4, 0)})
    symbols = FunctionSymbols(
        np.array([0x1000, 0x1004, 0x1010, 0x1024], np.uint64),
        np.array([4, 12, 4, 0], np.uint64),
        np.array([True, False, False, False]),
        ["memcpy", "_ZN1A1gEv", "nothing", "sizeless"],
        np.zeros(4, np.bool_),
    )
    text = to_function_records(table_of(drawn), line_records_of(drawn), 0x1000, symbols)
    assert text.decode().splitlines() == [
        "FILE 0 /a.c",
        "FUNC m 0 4 0 memcpy",
        "1 1 1 0",
        "FUNC 4 4 0 A::g()",
        "6 1 2 0",
        "FUNC 8 8 0 f",
        "9 1 3 0",
    ]


def test_a_function_without_a_linkage_name_has_that_of_its_symbol() -> None:
    """In this order: a cold part and its function; a name in C; a linkage name; two functions; a symbol with two names;
    no name at all; a name of Rust's legacy scheme; a template of a type without a name."""
    names = (0, 1, 3, 0, 1, 2, -1, 0, 0)
    starts = [[0x1008, 0x1000], [0x1010], [0x1018], [0x1020], [0x1020], [0x1028], [0x1030], [0x1038], [0x1040]]
    functions = tuple(zip(names, (tuple((one, 4) for one in some) for some in starts), strict=True))
    legacy = "_ZN42_$LT$$RF$T$u20$as$u20$core..fmt..Debug$GT$3fmt17h012345678abcdef9E"
    symbols = FunctionSymbols(
        np.array([0x1000, 0x1008, 0x1010, 0x1018, 0x1020, 0x1028, 0x1030, 0x1038, 0x1040], np.uint64),
        np.full(9, 4, np.uint64),
        np.zeros(9, np.bool_),
        [
            "_ZL1fi.isra.0.cold",
            "_ZL1fi.isra.0",
            "g.part.0",
            "_ZN1B1gEv",
            "_Z1qv",
            "_Z1rv",
            "_Z1sv@@V_1",
            legacy,
            "_Z1fIJ10._anon_4EEvv.part.0",
        ],
        np.array([False, False, False, False, False, True, False, False, False]),
    )
    text = to_function_records(table_of(Drawn(functions, (), {})), line_records_of(Drawn((), (), {})), 0x1000, symbols)
    assert text.decode().splitlines() == [
        "FUNC 0 4 0 f(int)",
        "FUNC 8 4 0 f(int)",
        "FUNC 10 4 0 g",
        "FUNC 18 4 0 A::f()",
        "FUNC m 20 4 0 f",
        "FUNC 28 4 0 h i",
        "FUNC 30 4 0 s()",
        "FUNC 38 4 0 <&T as core::fmt::Debug>::fmt",
        "FUNC 40 4 0 f",
    ]


def test_the_last_byte_of_the_address_space_is_left_out() -> None:
    top = (1 << 64) - 2
    table = table_of(Drawn(((0, ((top, 2),)),), (), {}))
    assert table.ranges.size[0] == 2
    assert to_function_records(table, line_records_of(Drawn((), (), {}))) == b"FUNC fffffffffffffffe 1 0 f\n"


ONE_INLINE = Drawn(((0, ((0x1000, 8),)),), (DrawnInline(0, -1, 0, 1, 0, 1, frozenset({0x1001})),), {0x1001: (1, 0)})


def changed(what: str) -> tuple[FunctionTable, LineRanges]:
    """The table and the lines of ONE_INLINE with an error."""
    table, lines = table_of(ONE_INLINE), line_records_of(ONE_INLINE)
    inlines = table.inlines
    five = np.array([5], np.int64)
    match what:
        case "name":
            return replace(table, functions=replace(table.functions, name=five)), lines
        case "ranges":
            return replace(table, ranges=replace(table.ranges, function=five.astype(np.uint32))), lines
        case "inline_ranges":
            return replace(table, inline_ranges=replace(table.inline_ranges, inline=five.astype(np.uint32))), lines
        case "path":
            return table, replace(lines, path=five.astype(np.uint32))
        case "call_file":
            return replace(table, inlines=replace(inlines, call_file=five)), lines
        case "parent":
            return replace(table, inlines=replace(inlines, parent=np.array([0]))), lines
        case "depth":
            return replace(table, inlines=replace(inlines, depth=np.array([1], np.uint16))), lines
    return replace(table, inlines=replace(inlines, function=five.astype(np.uint32))), lines


@pytest.mark.parametrize(
    "what", ["name", "ranges", "inline_ranges", "path", "call_file", "parent", "depth", "function"]
)
def test_indices_outside_the_table_are_refused(what: str) -> None:
    with pytest.raises(BuildError):
        to_function_records(*changed(what))


def test_inlined_functions_past_their_functions_are_cut_or_refused() -> None:
    """1,000 functions of one name in as many ranges; and 1,000 inlined functions, each of which spans all."""
    count = 1000
    many = Drawn(((0, tuple((0x1000 + 2 * index, 1) for index in range(count))),), (), {})
    span = DrawnInline(0, -1, 0, 1, 0, 1, frozenset(range(0x1000, 0x1000 + 2 * count)))
    one = table_of(replace(many, inlines=(span,)))
    assert len(function_records(one).inlines) == count
    all_of_them = table_of(replace(many, inlines=(span,) * count))
    with pytest.raises(BuildError, match="reach past"):
        function_records(all_of_them)


def test_records_are_made_without_an_object_for_each() -> None:
    """20,000 functions of 16 bytes; in each, two overlapping inlined functions, of which the second is cut."""
    count = 20_000
    start = 0x1000 + 16 * np.arange(count, dtype=np.uint64)
    one = table_of(replace(ONE_INLINE, inlines=ONE_INLINE.inlines * 2))
    function = np.repeat(np.arange(count, dtype=np.uint32), 2)
    table = replace(
        one,
        functions=one.functions.select(np.zeros(count, np.int64)),
        ranges=FunctionRanges(start, np.full(count, 16, np.uint64), np.arange(count, dtype=np.uint32)),
        inlines=replace(one.inlines.select(np.zeros(2 * count, np.int64)), function=function),
        inline_ranges=InlineRanges(
            (start[:, None] + np.array([2, 4], np.uint64)).reshape(-1),
            np.full(2 * count, 8, np.uint64),
            np.arange(2 * count, dtype=np.uint32),
        ),
    )
    function_records(one)  # imports the kernels
    with at_most_calls(2_000):
        records = function_records(table)
    assert (len(records.functions), len(records.inlines)) == (count, 2 * count)
    assert (records.inline_ranges.start[:2].tolist(), records.inline_ranges.size[:2].tolist()) == (
        [0x1002, 0x100A],
        [8, 2],
    )
