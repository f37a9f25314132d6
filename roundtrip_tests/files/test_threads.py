"""Threads: how many there are, the order of results and errors, and files that are cut at every possible place."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator

import pytest
from unwindkit import (
    FormatError,
    from_line_records,
    read_source_map,
    to_debug_line,
    to_function_records,
)
from unwindkit.converters import threads
from unwindkit.converters.cfi import interpreter
from unwindkit.converters.debug_info import entries
from unwindkit.converters.line import ranges

from ..support.handmade import Fde, eh_frame, octets, table_of_bytes
from ..support.made.debug_entries import NO_LINKS, Layout

LAYOUT = Layout(4)
ABBREVIATIONS = octets("""
    01 11 01 10 17 00 00    # 1: DW_TAG_compile_unit, has children: DW_AT_stmt_list, DW_FORM_sec_offset
    02 39 01 03 08 00 00    # 2: DW_TAG_namespace, has children: DW_AT_name, DW_FORM_string
    03 2e 00 03 08 00 00    # 3: DW_TAG_subprogram: DW_AT_name
    04 2e 01 03 08          # 4: DW_TAG_subprogram, has children: DW_AT_name
       11 01 12 0b 00 00    #    DW_AT_low_pc, DW_FORM_addr; DW_AT_high_pc, DW_FORM_data1
    05 1d 01 31 10          # 5: DW_TAG_inlined_subroutine, has children: DW_AT_abstract_origin, DW_FORM_ref_addr
       11 01 12 0b          #    DW_AT_low_pc, DW_AT_high_pc
       58 0b 59 0b 00 00    #    DW_AT_call_file, DW_AT_call_line: DW_FORM_data1
    00
""")
UNITS = 5
# The unit that has an abbreviation that is not there.
FAULTY = 2
# A namespace that ends before the abstract instance in the outer one.
EMPTY = b"\x02e\0\x00"
# The offset of the abstract instance in each unit, after the header, the unit and namespaces.
ABSTRACT = LAYOUT.header_size + 5 + len(b"\x02n0\0" + EMPTY)


def unit(number: int, size: int, line_offset: int) -> bytes:
    """A function with code, and two inlined ones in it, whose abstract instances are in the next units of `size`
    bytes. The unit FAULTY ends before the second."""
    begin = 0x20 * number

    def call(depth: int) -> bytes:
        origin = LAYOUT.offset((number + 1 + depth) % UNITS * size + ABSTRACT)
        return b"\x05" + origin + LAYOUT.address(begin + 4 + depth) + b"\x08" + bytes([1, 10 * number + depth])

    abstract = b"\x02n%d\0" % number + EMPTY + b"\x03in%d\0" % number + b"\x00"
    second = b"\x7f" + call(1)[1:] if number == FAULTY else call(1)
    code = b"\x04out%d\0" % number + LAYOUT.address(begin) + b"\x20" + call(0) + second
    return LAYOUT.unit(b"\x01" + LAYOUT.offset(line_offset) + abstract + code + bytes(4))


def file() -> bytes:
    """A file with UNITS units and their lines."""
    text = "FILE 0 /a{0}.c\nFILE 1 /b.h\nFUNC {1:x} 20 0 f\n{1:x} 10 {0} 0\n{2:x} 10 7 1\n"
    begin = [LAYOUT.text + 0x20 * number for number in range(UNITS)]
    texts = [text.format(number, at, at + 0x10) for number, at in enumerate(begin)]
    lines = [to_debug_line(from_line_records(text), None)[0] for text in texts]
    size = len(unit(0, 0, 0))
    units = [unit(number, size, sum(map(len, lines[:number]))) for number in range(UNITS)]
    assert {len(one) for one in units} == {size}
    sections = {".debug_info": b"".join(units), ".debug_abbrev": ABBREVIATIONS, ".debug_line": b"".join(lines)}
    return LAYOUT.file(sections)


def contents(data: bytes) -> list[object]:
    """All that is read of a file, as Python values."""
    found = read_source_map(data, NO_LINKS)
    table, lines = found.functions, found.lines
    parts = [getattr(table, one.name) for one in dataclasses.fields(table)]
    named = (list(part) for part in parts[4:6])
    columns = (part.arrays() for part in (*parts[:4], table.skipped, lines))
    text = to_function_records(table, lines)
    return [text, *named, *([array.tolist() for array in arrays] for arrays in columns)]


@pytest.fixture(params=[1, 2, 3], name="count")
def _count(request: pytest.FixtureRequest) -> Iterator[int]:
    with threads.at_most(request.param):
        yield request.param


@pytest.mark.usefixtures("kernels")
def test_what_is_read_does_not_depend_on_the_cuts(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = file()
    expected = contents(data)
    text = expected[0]
    assert isinstance(text, bytes)
    # The functions and scopes of the faulty unit are left out.
    names = [b"out%d\n" % number for number in range(UNITS)]
    assert [name in text for name in names] == [number != FAULTY for number in range(UNITS)]
    assert b"INLINE 0 20 " not in text
    qualified = [b" n%d::in%d\n" % (number, number) for number in range(UNITS)]
    assert [name in text for name in qualified] == [number != FAULTY for number in range(UNITS)]
    assert text.count(b"\nINLINE ") == 2 * (UNITS - 1)
    size = len(unit(0, 0, 0))
    for part in (1, size + 1, 2 * size, 3 * size - 1):
        for rows in (1, 3):
            monkeypatch.setattr(threads, "LEAST", 0)
            monkeypatch.setattr(entries, "PART", part)
            monkeypatch.setattr(entries, "ROWS", rows)
            monkeypatch.setattr(entries, "CAPACITY", rows)
            monkeypatch.setattr(ranges, "PART", part)
            assert contents(data) == expected


def test_results_are_in_the_order_of_the_parts(count: int) -> None:
    barrier = threading.Barrier(min(count, 2))

    def work(part: int) -> int:
        if part < 2 and count > 1:
            barrier.wait(10)  # two parts run at the same time
        return part * part

    assert threads.in_threads(work, range(20)) == [part * part for part in range(20)]
    assert threads.in_threads(work, []) == []


def test_the_error_is_that_of_the_first_part(count: int) -> None:
    def work(part: int) -> int:
        if part in (3, 4, 7):
            raise ValueError(part)
        return part

    with pytest.raises(ValueError, match=r"^3$"):
        threads.in_threads(work, range(10))
    with pytest.raises(ValueError, match=r"^4$"), threads.in_background(lambda: work(4), threads.LEAST) as result:
        result()


def test_a_part_is_not_cut_again(count: int) -> None:
    def work(_: int) -> tuple[int, bool]:
        here = threading.current_thread()
        inner = threads.in_threads(lambda _: threading.current_thread() is here, range(3))
        return threads.thread_count(), all(inner)

    assert threads.in_threads(work, range(4)) == [(1, True)] * 4
    assert threads.thread_count() == count


def test_the_number_of_threads(kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(threads.VARIABLE, raising=False)
    monkeypatch.setattr(threads.os, "sched_getaffinity", lambda _: {2, 3, 5}, raising=False)
    # Uncompiled kernels hold Python's lock.
    assert threads.thread_count() == (1 if kernels == "pure" else 3)
    monkeypatch.setenv(threads.VARIABLE, "7")
    assert threads.thread_count() == 7
    with threads.at_most(2):
        assert threads.thread_count() == 2
        with threads.at_most(0):
            assert threads.thread_count() == 7
    for wrong in ("0", "-1", "two", "1.5", "\u0661"):
        monkeypatch.setenv(threads.VARIABLE, wrong)
        with pytest.raises(FormatError, match=r"UNWINDKIT_THREADS: is .*, not a number from 1"):
            threads.thread_count()


# DW_CFA_def_cfa: rsp 8; DW_CFA_offset: rip at CFA-8; DW_CFA_expression: rbx, 1 byte, DW_OP_lit1.
ROWS_CIE = "01 00 01 78 10  0c 07 08  90 01  10 03 01 31"
# Of each: DW_CFA_advance_loc 4; then what changes. Expressions, remembered states, a row without rules, values.
STREAMS = (
    "44 0e 10  86 02",  # CFA offset 16, rbp at CFA-16
    "44 0f 01 32  10 06 01 33",  # the CFA and rbp by expressions
    "44 0a  0e 20  83 03  44 0b",  # remember_state, rbx at CFA-24; restore_state
    "44 c3 d0  44 2e 08",  # restore rbx and rip; DW_CFA_GNU_args_size 8
    "01 0810 0000 0000 0000  44 16 0c 01 34",  # DW_CFA_set_loc 0x1008; r12 is the value of an expression
    "44 10 0d 01 35  44 0e 18",
)


@pytest.mark.usefixtures("kernels")
def test_rows_do_not_depend_on_the_number_of_threads(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "PART", 1)
    for streams in (STREAMS, STREAMS[::-1], STREAMS[1:2], STREAMS[2:] + STREAMS[:2]):
        data = eh_frame(ROWS_CIE, *(Fde(0x1000, 0x40, one) for one in streams))
        with threads.at_most(1):
            expected = table_of_bytes(data, "x86_64")
        found = table_of_bytes(data, "x86_64")
        for part in ("functions", "rows", "rules"):
            one, two = (getattr(table, part).arrays() for table in (found, expected))
            assert [array.tolist() for array in one] == [array.tolist() for array in two], part
        assert found.run_rows.tolist() == expected.run_rows.tolist()
        assert found.expressions == expected.expressions
    assert {b"1", b"2", b"3", b"4", b"5"} == set(found.expressions)


@pytest.mark.usefixtures("kernels")
def test_the_first_malformed_stream_is_reported(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "PART", 1)
    faulty = ("44 0b", "44 3f", "44 1b")  # nothing to restore; two unknown opcodes
    for first in range(len(STREAMS)):
        streams = [*STREAMS[:first], *faulty, *STREAMS[first:]]
        data = eh_frame(ROWS_CIE, *(Fde(0x1000, 0x40, one) for one in streams))
        with pytest.raises(FormatError, match=rf"FDE\[{first}\].instructions") as error:
            table_of_bytes(data, "x86_64")
        assert "restore" in str(error.value)


@pytest.mark.usefixtures("kernels", "count")
def test_too_many_rules_are_refused_by_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "PART", 1)
    monkeypatch.setattr(interpreter, "RULES_PER_BYTE", 0)
    monkeypatch.setattr(interpreter, "FREE_RULES", 300)
    # Each row has two rules more than the one before: 868 in each stream, for which there is space, but not for both.
    grow = " ".join(f"44 05 {2 * one + 20:02x} 01 05 {2 * one + 21:02x} 01" for one in range(28))
    data = eh_frame(ROWS_CIE, *(Fde(0x1000, 0x1000, f"{grow} 0e {one:02x}") for one in (8, 16)))
    with pytest.raises(FormatError, match=r"FDE\[1\].instructions: more than 0 register rules"):
        table_of_bytes(data, "x86_64")
