"""Function tables from FUNC, INLINE and line records: spellings, what is read back, malformed records."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from unwindkit import FormatError, ParseError
from unwindkit.converters.breakpad.function_read import from_function_records
from unwindkit.converters.breakpad.function_text import to_function_records
from unwindkit.schemas.breakpad.files import parse_record
from unwindkit.schemas.strategies.breakpad import spellings

from ..support.function_tables import Drawn, drawn_functions, line_records_of, table_of

pytestmark = pytest.mark.usefixtures("kernels")

HEADER = b"FILE 3 /a.c\nFILE 9 /b b.c\nINLINE_ORIGIN 4 g\nINLINE_ORIGIN 7 h i\n"


@given(drawn_functions(siblings_overlap=True), st.sampled_from([0, 0x400000]))
def test_text_that_is_read_is_written_again(drawn: Drawn, load_address: int) -> None:
    text = to_function_records(table_of(drawn), line_records_of(drawn))
    assert to_function_records(*from_function_records(text, load_address), load_address) == text


@given(drawn_functions(), st.data())
def test_unusual_spellings_are_read_as_the_same_records(drawn: Drawn, data: DataObject) -> None:
    text = to_function_records(table_of(drawn), line_records_of(drawn))
    lines = [data.draw(spellings(parse_record(line))) for line in text.splitlines()]
    lines = [
        line.lstrip(b" ") for line in lines
    ]  # a line record may begin with spaces, others are found by their words
    assert to_function_records(*from_function_records(b"".join(lines))) == text


def test_a_file_is_read_into_the_columns_worked_out_by_hand() -> None:
    text = HEADER + (
        b"FUNC 1000 10 0 f\n"
        b"INLINE 0 5 3 4 1000 4 1008 4\n"
        b"INLINE 1 6 9 7 1001 1\n"
        b"INLINE 0 7 7 100e 1\n"  # the old form: without the file of the call
        b"1000 8 1 9\n"
        b"FUNC m 2000 8 4 g\n"
        b"INLINE 0 0 9 7 2000 8\n"
        b"PUBLIC 3000 0 p\n"
    )
    table, lines = from_function_records(text, 0x10000)
    assert (table.names, table.files) == ((b"f", b"g", b"<other names>", b"h i"), (b"/a.c", b"/b b.c"))
    functions, inlines = table.functions, table.inlines
    assert functions.name.tolist() == [0, 1, 2]
    assert table.ranges.start.tolist() == [0x11000, 0x12000, 0x12000]
    assert table.ranges.size.tolist() == [0x10, 8, 8]
    assert table.ranges.function.tolist() == [0, 1, 2]
    assert inlines.function.tolist() == [0, 0, 0, 1]
    assert inlines.parent.tolist() == [-1, 0, -1, -1]
    assert inlines.depth.tolist() == [0, 1, 0, 0]
    assert inlines.name.tolist() == [1, 3, 3, 3]
    assert inlines.call_file.tolist() == [0, 1, -1, 1]
    assert inlines.call_line.tolist() == [5, 6, 7, 0]
    assert table.inline_ranges.inline.tolist() == [0, 0, 1, 2, 3]
    assert table.inline_ranges.start.tolist() == [0x11000, 0x11008, 0x11001, 0x1100E, 0x12000]
    assert table.inline_ranges.size.tolist() == [4, 4, 1, 1, 8]
    assert (lines.address.tolist(), lines.size.tolist()) == ([0x11000], [8])
    assert (lines.line.tolist(), lines.path.tolist()) == ([1], [1])


FUNC = b"FUNC 1000 10 0 f\n"


@pytest.mark.parametrize(
    ("text", "record", "reason"),
    [
        (b"FUNC 1000 1g 0 f\n", "line 5: FUNC.size", "found '1g 0 f', expected hexadecimal number"),
        (b"FUNC ffffffffffffffff 2 0 f\n", "line 5: FUNC.size", "the record reaches past the address space"),
        (b"INLINE 0 5 3 4 1000 4\n", "line 5: INLINE.inline_nest_level", "no FUNC before it"),
        (FUNC + b"INLINE 1 5 3 4 1000 4\n", "line 6: INLINE.inline_nest_level", "no INLINE record of the level before"),
        (
            FUNC + b"INLINE 0 5 3 4 1000 4\nINLINE 2 5 3 4 1000 4\n",
            "line 7: INLINE.inline_nest_level",
            "no INLINE record of the level before",
        ),
        (
            FUNC + b"INLINE 0 5 3 4 1000 4\nFUNC 2000 4 0 g\nINLINE 1 5 3 4 2000 4\n",
            "line 8: INLINE.inline_nest_level",
            "no INLINE record of the level before",
        ),
        (FUNC + b"INLINE 0 4294967296 3 4 1000 4\n", "line 6: INLINE.call_site_line", "it does not fit 32 bits"),
        (FUNC + b"INLINE 0 5 8 4 1000 4\n", "line 6: INLINE.call_site_file_num", "there is no FILE 8"),
        (FUNC + b"INLINE 0 5 3 8 1000 4\n", "line 6: INLINE.origin_num", "there is no INLINE_ORIGIN 8"),
        (FUNC + b"INLINE 0 5 3 4 ffffffffffffffff 4\n", "line 6: INLINE.size", "the record reaches past"),
        (FUNC + b"INLINE 0 5 3 4\n", "line 6: INLINE", ""),
        (FUNC + b"INLINE 0 5 3 4 10x0 4\n", "line 6: INLINE", ""),
        (b"INLINE_ORIGIN 4 other\n", "line 5: INLINE_ORIGIN.number", "INLINE_ORIGIN 4 has two names"),
    ],
)
def test_malformed_records_are_refused_with_their_line(text: bytes, record: str, reason: str) -> None:
    with pytest.raises(ParseError) as error:
        from_function_records(HEADER + text)
    assert (error.value.record or "").startswith(record)
    assert reason in error.value.reason


PIECES = st.sampled_from(
    [b"FUNC ", b"m ", b"INLINE ", b"INLINE_ORIGIN ", b"FILE ", b"\n", b"\r\n", b" ", b"0", b"1", b"4 ", b"ff", b"x"]
)


@given(st.lists(st.one_of(PIECES, st.binary(max_size=4)), max_size=40).map(b"".join))
def test_any_text_gives_a_table_or_a_format_error(text: bytes) -> None:
    try:
        table, lines = from_function_records(HEADER + text)
    except FormatError:
        return
    written = to_function_records(table, lines)
    assert to_function_records(*from_function_records(written)) == written


def test_a_level_of_sixteen_bits_is_read() -> None:
    """Records nested 2,000 deep: one per level."""
    nested = b"".join(b"INLINE %d 1 3 4 1000 1\n" % level for level in range(2000))
    table, _ = from_function_records(HEADER + FUNC + nested)
    assert np.array_equal(table.inlines.parent, np.arange(2000) - 1)


def test_addresses_below_the_load_address_are_modulo_2_to_64() -> None:
    """Found by fuzzing: uncompiled, a number below -2**63 was written with 16 digits."""
    text = b"FILE 0 a.c\nINLINE_ORIGIN 0 g\nFUNC 1000 10 0 f\nINLINE 0 7 0 0 1004 4\n1000 10 1 0\n"
    written = to_function_records(*from_function_records(text), (1 << 64) - 2)
    assert written == text.replace(b"1000 10", b"1002 10").replace(b"1004 4", b"1006 4")
