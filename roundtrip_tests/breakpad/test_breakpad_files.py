"""Whole Breakpad symbol files: laws 1, 2 and 4, streaming, and the rules between records."""

from __future__ import annotations

import io
import os
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from threading import Thread
from typing import BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unwindkit import ARCHITECTURES, FormatError, ParseError
from unwindkit.schemas.breakpad import records as breakpad
from unwindkit.schemas.breakpad.files import build_record, parse_record, read_records, write_records
from unwindkit.schemas.breakpad.records import RECORDS, File, Func, Line, Module, Public, StackCfi, Unknown
from unwindkit.schemas.breakpad.rules import check_records
from unwindkit.schemas.breakpad.values import MODULE_ARCHITECTURES
from unwindkit.schemas.strategies.breakpad import any_records, spellings, symbol_files
from unwindkit.schemas.text_records import Record

SMALL = b"""MODULE Linux x86_64 D3096ED481217FD4C16B29CD9BC208BA0 a
INFO CODE_ID 0123
FILE 0 a.c
INLINE_ORIGIN 0 g
FUNC 1000 20 0 f
INLINE 0 3 0 0 1004 8 1010 4
INLINE 1 3 0 0 1006 2
1000 4 1 0
1004 8 2 0
PUBLIC 2000 0 p
STACK CFI INIT 1000 20 .cfa: $rsp 8 + .ra: .cfa -8 + ^
STACK CFI 1001 .cfa: $rsp 16 +
STACK CFI 101f .cfa: $rsp 8 +
"""


def records_in(data: bytes) -> list[tuple[int, Record]]:
    return list(read_records(io.BytesIO(data)))


def written(records: list[Record]) -> bytes:
    stream = io.BytesIO()
    write_records(records, stream)
    return stream.getvalue()


def test_law_1_covers_every_declared_record() -> None:
    declared = {value for value in vars(breakpad).values() if is_dataclass(value) and isinstance(value, type)}
    assert {cls for cls in declared if fields(cls)} - {Record} == {*RECORDS.values(), Unknown}


@given(record=any_records)
def test_law_1_records(record: Record) -> None:
    line = build_record(record)
    parsed = parse_record(line)
    assert (parsed, type(parsed), parsed.spelling) == (record, type(record), b"")
    assert line.count(b"\n") == 1


@given(data=st.data())
def test_law_1_odd_spellings(data: st.DataObject) -> None:
    record = data.draw(any_records)
    line = data.draw(spellings(record))
    parsed = parse_record(line)
    assert (parsed, type(parsed)) == (record, type(record))
    assert build_record(parsed) == line


@given(data=st.data())
def test_law_2_any_lines(data: st.DataObject) -> None:
    records = data.draw(st.lists(any_records, max_size=5))
    lines = [data.draw(st.one_of(st.just(build_record(r)), spellings(r))) for r in records]
    text = b"".join(lines)
    text = data.draw(st.sampled_from([text, text.removesuffix(b"\n")]))
    found = records_in(text)
    assert [number for number, _ in found] == list(range(1, len(found) + 1))
    assert written([record for _, record in found]) == text


@given(records=symbol_files())
def test_whole_files_break_no_rule(records: list[Record]) -> None:
    data = written(records)
    found = records_in(data)
    assert [record for _, record in found] == records
    assert list(check_records(found)) == []


WORDS = st.sampled_from(
    [
        *(b"MODULE", b"INFO", b"CODE_ID", b"FILE", b"FUNC", b"m", b"INLINE", b"PUBLIC", b"STACK", b"CFI"),
        *(b"INIT", b"WIN", b".cfa:", b"$rsp", b"+", b"0", b"1f", b"-1", b"0x", b"9" * 30, b"f" * 30),
        *(b"\0", b"\r", b"\n", b"\r\n", b"\xff", b" "),
    ]
)  # fmt: skip


@given(words=st.lists(st.one_of(WORDS, st.binary(max_size=3)), max_size=12), gap=st.sampled_from([b" ", b" ", b""]))
def test_laws_2_and_4_any_bytes(words: list[bytes], gap: bytes) -> None:
    data = gap.join(words)
    try:
        found = records_in(data)
    except ParseError as error:
        assert error.record.startswith("line ")
    else:
        assert written([record for _, record in found]) == data
        list(check_records(found))


@pytest.mark.parametrize(
    "line",
    [
        b"a" * 1_000_000 + b"g 1 2 3",
        b"FUNC " + b"0" * 1_000_000 + b"1 2 0",
        b"FILE " + b"9" * 1_000_000 + b" a",
        b"INLINE 0 1 2 3" + b" 1 2" * 250_000 + b" x",
        b"INLINE 0 1 2 3" + b" 1" * 500_001 + b" x",
        b"STACK CFI 1 " + b".cfa: $rsp " * 90_000 + b"x:",
        b"STACK CFI 1" + b" " * 1_000_000,
        b" " * 1_000_000 + b"STACK WIN",
        b"STACK WIN" + b" 1" * 500_000,
        b"c184" + b" " * 500_000 + b"7" + b" " * 500_000 + b"x",
    ],
    ids=range(10),
)
def test_law_4_long_lines_take_time_in_proportion(line: bytes) -> None:
    start = time.process_time()
    for end in (b"\n", b""):
        try:
            assert build_record(parse_record(line + end)) == (line + end)
        except FormatError as error:
            assert len(str(error)) < 300
    assert time.process_time() - start < 5


def test_files_of_every_line_end_come_back(tmp_path: Path) -> None:
    expected = [record for _, record in records_in(SMALL)]
    mixed = SMALL.replace(b"\n", b"\r\n", 5).replace(b"20 0 f", b"20 0 f ")
    for data in (SMALL, SMALL.replace(b"\n", b"\r\n"), SMALL.rstrip(b"\n"), b"\n\n" + SMALL + b"\r\n \n", mixed, b""):
        path = tmp_path / "a.sym"
        path.write_bytes(data)
        found = [record for _, record in read_records(path)]
        assert found == [record for _, record in records_in(data)] == [record for _, record in read_records(str(path))]
        assert written(found) == data
        if data not in (mixed, b""):
            assert [record for record in found if not isinstance(record, Unknown)] == expected


def test_a_last_line_without_end_gets_one_where_another_follows() -> None:
    last = parse_record(b"FILE 1 a")
    assert written([last, File(2, "b")]) == b"FILE 1 a\nFILE 2 b\n"
    assert written([File(2, "b"), last]) == b"FILE 2 b\nFILE 1 a"


def test_an_error_in_a_file_has_its_line() -> None:
    found = []
    with pytest.raises(ParseError, match=r"^line 3: FUNC\.size: found 'x 0 f', expected hexadecimal number$"):
        found.extend(read_records(io.BytesIO(b"FILE 1 a\r\n\nFUNC 1 x 0 f\nFILE 2 b\n")))
    with pytest.raises(ParseError, match=r"^line 2: "):
        found.extend(read_records(io.BytesIO(b"FILE 1 a\nFUNC")))


@contextmanager
def repeated(block: bytes, size: int) -> Iterator[BinaryIO]:
    """A stream of `size` bytes, too large for memory: one block repeated through a pipe."""
    source, sink = os.pipe()

    def write() -> None:
        with os.fdopen(sink, "wb") as out:
            for _ in range(size // len(block)):
                out.write(block)

    writer = Thread(target=write)
    writer.start()
    with os.fdopen(source, "rb") as stream:
        yield stream
    writer.join()


def test_streaming_50_mb_takes_little_memory() -> None:
    rules = b"STACK CFI 1001 " + b" ".join(b"$r%d: .cfa %d - ^" % (n, n) for n in range(25)) + b"\n"
    block = b"FUNC 1000 20 0 " + b"name " * 2000 + b"\nINLINE 0 1 2 3" + b" 10 2" * 30 + b"\n" + rules
    with repeated(block, 50_000_000) as stream:
        tracemalloc.start()
        count = sum(1 for _ in read_records(stream))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert count == 50_000_000 // len(block) * 3
    assert peak < 4_000_000


# --- rules that involve several lines ------------------------------------------------------------------------

LINES = SMALL.splitlines(keepends=True)
ID = b"D3096ED481217FD4C16B29CD9BC208BA0"
INIT = b"STACK CFI INIT 1000 20 .cfa: $rsp .ra: .cfa ^\n"
NOT_FIRST = "MODULE.operatingsystem: MODULE is not the first record"
FAULTY: list[tuple[bytes, list[str]]] = [
    (b"1000 4 1 0\n", ["line 1: line record.address: a line record before the first FUNC",
                       "line 1: line record.filenum: no FILE 0 before this record"]),
    (b"FUNC 1000 20 0 f\n1000 4 1 0\nFILE 0 a\n1004 4 1 0\n",
     ["line 2: line record.filenum: no FILE 0 before this record"]),
    (b"FILE 0 a\nFUNC 1000 20 0 f\n1000 4 0 0\n", []),
    (b"FILE 0 a\nFILE 1 a\nFILE 0 a\nFILE 0 b\n", ["line 4: FILE.number: 0 is the number of another name"]),
    (b"INLINE_ORIGIN 0 f\nINLINE_ORIGIN 0 g\n", ["line 2: INLINE_ORIGIN.number: 0 is the number of another name"]),
    (b"FILE 0 a\nMODULE Linux x86 " + ID + b" a\n", ["line 2: " + NOT_FIRST]),
    (b"\nMODULE Linux x86 " + ID + b" a\n", ["line 2: " + NOT_FIRST]),
    (b"INLINE_ORIGIN 0 g\nFILE 0 a\nINLINE 0 1 0 0 1000 4\n",
     ["line 3: INLINE.inline_nest_level: an INLINE record before the first FUNC"]),
    (b"FUNC 1000 20 0 f\nINLINE 1 1 0 1000 4\nINLINE_ORIGIN 0 g\n",
     ["line 2: INLINE.inline_nest_level: 1, but no record of the previous level precedes it"]),
    (b"FUNC 1000 20 0 f\nINLINE 0 1 0 1000 4\nINLINE 2 1 0 1000 4\nINLINE_ORIGIN 0 g\n",
     ["line 3: INLINE.inline_nest_level: 2, but no record of the previous level precedes it"]),
    (b"FUNC 1000 20 0 f\nINLINE 0 1 0 101f 2\nINLINE_ORIGIN 0 g\n",
     ["line 2: INLINE.ranges: 0x2 bytes at 0x101f are outside the record that they are inlined into"]),
    (b"FUNC 1000 20 0 f\nINLINE 0 1 0 1000 4 1010 4\nINLINE 1 1 0 1010 4\nINLINE 1 1 0 1003 2\nINLINE_ORIGIN 0 g\n",
     ["line 4: INLINE.ranges: 0x2 bytes at 0x1003 are outside the record that they are inlined into"]),
    # Ranges of the parent that touch hold a range that spans both.
    (b"FUNC 1000 20 0 f\nINLINE 0 1 0 1004 4 1000 4\nINLINE 1 1 0 1000 8\nINLINE_ORIGIN 0 g\n", []),
    (b"FUNC 1000 20 0 f\nINLINE 0 1 0 fff 1\nINLINE_ORIGIN 0 g\n",
     ["line 2: INLINE.ranges: 0x1 bytes at 0xfff are outside the record that they are inlined into"]),
    # The names of an INLINE record may follow it; those of the second one never come.
    (b"FUNC 1000 20 0 f\nINLINE 0 1 3 4 1000 4\nINLINE 0 1 5 6 1004 4\nINLINE_ORIGIN 4 g\nFILE 3 a\n",
     ["line 3: INLINE.call_site_file_num: no record has the number: FILE 5 is absent",
      "line 3: INLINE.origin_num: no record has the number: INLINE_ORIGIN 6 is absent"]),
    # Three lines: the second begins inside the first, the third where the first ends; an empty range covers nothing.
    (b"FILE 0 a\nFUNC 1000 20 0 f\n1000 8 1 0\n1007 4 2 0\n1004 0 3 0\nFUNC 2000 9 0 g\n2000 8 1 0\n2008 1 1 0\n"
     b"1000 8 1 0\n",
     ["line 4: line record.address: the range overlaps that of line 3",
      "line 9: line record.address: the range overlaps that of line 3"]),
    # A long range overlaps all after it, not only the next one; the last address can be covered.
    (b"FILE 0 a\nFUNC 0 20 0 f\n0 10 1 0\n2 1 1 0\n4 1 1 0\nffffffffffffffff 8 1 0\nffffffffffffffff 1 1 0\n",
     ["line 4: line record.address: the range overlaps that of line 3",
      "line 5: line record.address: the range overlaps that of line 3",
      "line 7: line record.address: the range overlaps that of line 6"]),
    (b"STACK CFI 1000 .cfa: $rsp\n",
     ["line 1: STACK CFI.address: a STACK CFI record without a STACK CFI INIT before it"]),
    (INIT + b"STACK CFI 1000 .cfa: 1\nSTACK CFI 1005 .cfa: 2\n"
     b"STACK CFI 1005 .cfa: 3\nSTACK CFI 1004 .cfa: 4\nSTACK CFI 101f .cfa: 5\nSTACK CFI 1020 .cfa: 6\n",
     ["line 2: STACK CFI.address: 0x1000 is not above 0x1000, the address of the previous record",
      "line 4: STACK CFI.address: 0x1005 is not above 0x1005, the address of the previous record",
      "line 5: STACK CFI.address: 0x1004 is not above 0x1005, the address of the previous record",
      "line 7: STACK CFI.address: 0x1020 is not before 0x1020, the end of its STACK CFI INIT's range"]),
    (INIT + b"STACK CFI INIT 800 10 .cfa: $rsp .ra: 1\nSTACK CFI 805 .cfa: $rsp 8 +\n", []),
    (INIT + b"STACK CFI INIT 101f 10 .cfa: $rsp .ra: 1\nSTACK CFI INIT 1020 0 .cfa: $rsp .ra: 1\n",
     ["line 2: STACK CFI INIT.address: the range overlaps that of line 1"]),
    (b"STACK CFI INIT 1000 20 .cfa: $rsp\nSTACK CFI 1001 .cfa: .undef\nSTACK CFI 1002 .cfa: $rbp .ra: 1\n",
     ["line 1: STACK CFI INIT.rules: no rule for .ra is in force: stack walkers ignore the rules",
      "line 2: STACK CFI.rules: no rule for .cfa is in force: stack walkers ignore the rules"]),
    # $rbx was not mentioned: a rule that it keeps its value changes nothing, but it is no rule in force.
    (INIT + b"STACK CFI 1001 .cfa: $rsp $rbx: $rbx\nSTACK CFI 1002 $rbx: $rbx .cfa: $rsp 8 +\n",
     ["line 2: STACK CFI.rules: the rule for .cfa is in force already",
      "line 3: STACK CFI.rules: the rule for $rbx is in force already"]),
    (b"STACK CFI INIT 1000 20 .cfa: .cfa 8 + .ra: .cfa ^ ^ + $a: $b $c $d: .undef 1 + $a: $e $f =\n",
     ["line 1: STACK CFI INIT.rules: a register has two rules",
      "line 1: STACK CFI INIT.rules: .cfa: the rule refers to itself",
      "line 1: STACK CFI INIT.rules: .ra: too few values on the stack for +",
      "line 1: STACK CFI INIT.rules: $a: expected 1 values on the stack at the end, found 2",
      "line 1: STACK CFI INIT.rules: $d: .undef is part of an expression",
      "line 1: STACK CFI INIT.rules: $a: an expression assigns nothing"]),
    (SMALL, []),
]  # fmt: skip


@pytest.mark.parametrize(("data", "expected"), FAULTY, ids=range(len(FAULTY)))
def test_rules_between_records(data: bytes, expected: list[str]) -> None:
    assert [str(error) for error in check_records(records_in(data))] == expected


MODULE = "MODULE {} {} {} {}\n"
STACK_WIN = "STACK WIN {} 1000 20 {} {} 0 0 0 0 {}\n"
GUID = "D3096ED481217FD4C16B29CD9BC208BA"
EXPECTED_ID = "expected 32 hexadecimal digits in capitals and an age of 1 to 8 digits"
# The document's table of each field, then the values that it rules out.
VALUES = [
    *((MODULE.format(system, "x86", GUID + "0", "a b"), None) for system in ("Linux", "mac", "windows")),
    *((MODULE.format("mac", cpu, GUID + "0", "a"), None)
      for cpu in ("x86", "x86_64", "ppc", "ppc64", "unknown", "arm64")),
    (MODULE.format("linux", "x86", GUID + "0", "a"), "operatingsystem: found 'linux', expected Linux, mac, windows"),
    (MODULE.format("mac", "amd64", GUID + "0", "a"), "architecture: found 'amd64', expected x86, x86_64, ppc, "),
    (MODULE.format("mac", "x86", GUID, "a"), f"id: found '{GUID}', {EXPECTED_ID}"),
    (MODULE.format("mac", "x86", GUID.lower() + "0", "a"), f"id: found '{GUID.lower()}0', {EXPECTED_ID}"),
    (MODULE.format("mac", "x86", GUID + "123456789", "a"), f"id: found '{GUID}123456789', {EXPECTED_ID}"),
    (MODULE.format("mac", "x86", "G" * 33, "a"), f"id: found '{'G' * 33}', {EXPECTED_ID}"),
    # An age may have small letters; PDB 2.0 has a time stamp of 8 digits.
    (MODULE.format("windows", "x86", GUID + "1f", "a"), None),
    (MODULE.format("windows", "x86", "3D8CA2F91", "a"), None),
    (MODULE.format("Linux", "x86", GUID + "0", "/bin/ls"), "name: found '/bin/ls', expected the base name of a file"),
    (MODULE.format("Linux", "x86", GUID + "0", "a\\b"), None),
    (MODULE.format("windows", "x86", GUID + "0", "a\\b"), "name: found 'a\\\\b', expected the base name of a file"),
    (MODULE.format("Linux", "x86", GUID + "0", ""), "name: found '', expected the base name of a file"),
    *((STACK_WIN.format(one, 0, 0, "0 1"), None) for one in ("0", "1", "2", "3", "ffffffff")),
    (STACK_WIN.format("4", 20, 20, "1 $eip 1 = $T0 $eip ^ ="), None),
    (STACK_WIN.format("5", 0, 0, "0 1"), "type: 0x5 is not in StackFrameTypeEnum"),
    (STACK_WIN.format("0", 0, 0, "1 "), "has_program_string: a record of type 0 (FrameTypeFPO) has a program string"),
    (STACK_WIN.format("4", 0, 0, "0 0"), "has_program_string: a record of type 4 (FrameTypeFrameData) has no program"),
    (STACK_WIN.format("0", 21, 0, "0 1"), "prologue_size: 0x21 is more than the 0x20 bytes of code"),
    (STACK_WIN.format("0", 0, 21, "0 1"), "epilogue_size: 0x21 is more than the 0x20 bytes of code"),
    # The document's program string, which lacks a word.
    (STACK_WIN.format("4", 0, 0, "1 $eip 4 + ^ = $esp $ebp 8 + = $ebp $ebp ^ ="),
     "program_string_or_allocates_base_pointer: too few values on the stack for ="),
    (STACK_WIN.format("4", 0, 0, "1 $eip 4"),
     "program_string_or_allocates_base_pointer: expected 0 values on the stack at the end, found 2"),
    # Numbers are spelled in lower case without 0x, and fields separated by single spaces; names may have any of it.
    ("PUBLIC C184 0 A  0xB\n", "address: found 'C184', expected hexadecimal digits in lower case, without 0x"),
    ("PUBLIC 0x184 0 a\n", "address: found '0x184', expected hexadecimal digits in lower case, without 0x"),
    ("STACK WIN 0 1 0 0 0 0 0 0 0 0 A\n", "program_string_or_allocates_base_pointer: found 'A', expected"),
    ("PUBLIC  1 0 a\n", "m: expected single spaces between the fields"),
    (" PUBLIC 1 0 a\n", "m: expected single spaces between the fields"),
    ("PUBLIC 1 0  a \n", None),
    ("PUBLIC 1 0 a\r\n", None),
    ("PUBLIC 01 0 a", None),
    ("STACK CFI INIT 1 1 .cfa: $rsp  8 + .ra: 1\n", "address: expected single spaces between the fields"),
    ("STACK CFI INIT 1 1 .cfa: $rsp .ra: 1 \n", "address: expected single spaces between the fields"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "expected"), VALUES, ids=range(len(VALUES)))
def test_values_of_a_record(line: str, expected: str | None) -> None:
    found = [str(error) for error in check_records(records_in(line.encode()))]
    if expected is None:
        assert found == []
    else:
        (one,) = found
        assert one.startswith(f"line 1: {breakpad.NAMES[type(parse_record(line.encode()))]}.{expected}")


def test_every_module_architecture_that_we_write_is_known() -> None:
    written_names = {one.breakpad_module for one in ARCHITECTURES.values()} - {None}
    assert written_names <= set(MODULE_ARCHITECTURES)


def test_records_of_other_kinds_stand_anywhere() -> None:
    records: list[Record] = [
        Module("mac", "arm64", ID.decode(), "a"),
        File(1, "a"),
        Func(False, 0, 9, 0, "f"),
        Public(False, 1, 0, "p"),
    ]
    records += [Line(0, 9, 1, 1), Unknown("")]
    assert list(check_records(enumerate(records, 1))) == []
    (error,) = check_records([(7, StackCfi(0, ((".cfa", "1"),)))])
    assert error.record == "line 7: STACK CFI.address"
