"""Breakpad symbol files as records: lines parsed and built, byte for byte.

Strategy: a line is matched against the canonical pattern that its first word selects. One that does not match is
matched tolerantly, which names the field at fault or keeps the line's spelling with the record. Only one line is in
memory at a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import cache
from itertools import chain, repeat, takewhile
from os import PathLike
from typing import Any, BinaryIO, NamedTuple

from ..section import BuildError, ParseError
from ..text_records import (
    HEXADECIMAL,
    Either,
    Layout,
    Maybe,
    Number,
    Ranges,
    Record,
    Text,
    bytes_from,
    kind_in,
    misfit,
    parts_of,
    shortened,
    text_from,
    text_of,
    texts_of,
    value_of,
)
from .records import NAMES, RECORDS, Info, Line, Unknown

_LAYOUTS = {cls: Layout(cls, head, NAMES[cls]) for head, cls in RECORDS.items()}


_FIRST_WORDS = dict.fromkeys(head.split(" ")[0] for head in RECORDS if head)
_FIRST_WORD = re.compile(" *([^ ]*)")
_DIGIT_FIRST = re.compile("[0-9]")
_HEXADECIMAL = re.compile("[0-9a-fA-F]+")
_LINE_BASES = tuple(kind.base for _, kind in parts_of(Line) if isinstance(kind, Number))

Match = Callable[[str], re.Match[str] | None]


class _Matchers(NamedTuple):
    """The patterns that lines are matched against.

    `line` is the canonical line record's, `canonical` those of the other records by their first word, `head` that of
    any record's first words. They are compiled when a line is first read: compiling takes longer than writing many.
    """

    line: Match
    canonical: Mapping[str, tuple[tuple[Match, Layout], ...]]
    head: Match


@cache
def _matchers() -> _Matchers:
    # INFO's free text would match the other INFO records too.
    canonical = {
        word: tuple(
            (layout.canonical.fullmatch, layout)
            for cls, layout in _LAYOUTS.items()
            if layout.head.split(" ")[0] == word and cls is not Info
        )
        for word in _FIRST_WORDS
    }
    heads = sorted(filter(None, {*RECORDS, *_FIRST_WORDS}), key=len, reverse=True)
    head = re.compile(rf" *({'|'.join(head.replace(' ', ' +') for head in heads)})(?= |\Z)")
    return _Matchers(_LAYOUTS[Line].canonical.fullmatch, canonical, head.match)


def read_records(source: str | PathLike[str] | BinaryIO) -> Iterator[tuple[int, Record]]:
    """The records of a symbol file with their line numbers, from 1. A stream is read from its current position.

    Raises ParseError, whose record path begins with the line (`line 12: FUNC.size`).
    """
    with open(source, "rb") if isinstance(source, str | PathLike) else nullcontext(source) as stream:
        for number, line in enumerate(stream, 1):
            yield number, parse_record(line, number)


def write_records(records: Iterable[Record], stream: BinaryIO) -> None:
    """Write records as lines. Raises BuildError.

    A line that was read without a line end gets one if another line follows.
    """
    line = b"\n"
    for record in records:
        if not line.endswith(b"\n"):
            stream.write(b"\n")
        line = build_record(record)
        stream.write(line)


def parse_record(line: bytes, number: int = 1) -> Record:
    """The record of one line, with or without its line end; errors name line `number`. Raises ParseError."""
    text = text_from(line)
    body = text[:-1] if text[-1:] == "\n" else text
    if body[-1:] == "\r":
        body = body.rstrip("\r")
    spelling = b"" if len(text) - len(body) == 1 and text[-1] == "\n" else line
    match_line, canonical, _ = _matchers()
    found = match_line(body)
    if found:
        return Line(*map(int, found.groups(), _LINE_BASES), spelling=spelling)
    for match, layout in canonical.get(body[: body.find(" ")], ()):
        found = match(body)
        if found:
            try:
                values = [convert(field) for convert, field in zip(layout.converters, found.groups(), strict=True)]
            except ValueError:
                break  # invalid rules: matching tolerantly names the fault
            return layout.cls(*values, spelling=spelling)
    return _tolerated(line, body, number)


def _tolerated(line: bytes, body: str, number: int) -> Record:
    """The record of a line that may not be canonical."""
    if "\n" in body:
        raise ParseError("", None, f"line {number}", "a line feed inside the line")
    cls = _record_type(body)
    if cls is None:
        raise ParseError("", None, f"line {number}: STACK", "neither STACK CFI nor STACK WIN")
    if cls is Unknown:
        return Unknown(body, spelling=b"" if bytes_from(body) + b"\n" == line else line)
    layout = _LAYOUTS[cls]
    found = layout.tolerant.fullmatch(body)
    if found is None:
        raise _misfit(layout, body, number)
    values = _values(layout, found, number)
    record = layout.cls(*values)
    return record if _canonical_line(record) == line else layout.cls(*values, spelling=line)


def _values(layout: Layout, found: re.Match[str], number: int) -> list[object]:
    """The fields of a line, from its pattern's groups."""
    texts = dict(zip((name for name, _ in layout.parts), found.groups(), strict=True))
    values: list[object] = []
    for name, kind in layout.parts:
        try:
            values.append(value_of(kind_in(kind, texts), texts[name]))
        except ValueError as fault:
            raise _parse_error(number, layout, name, str(fault)) from None
    return values


def _record_type(body: str) -> type[Record] | None:
    """The type of record that a line's first words name; None for an unknown STACK record."""
    found = _matchers().head(body)
    if found:
        return RECORDS.get(" ".join(found[1].split()))
    first = _FIRST_WORD.match(body)
    word = first[1] if first else ""
    # Names of records are in capital letters: FACE could be one.
    is_number = _HEXADECIMAL.fullmatch(word) and not (word.isalpha() and word.isupper())
    return Line if _DIGIT_FIRST.match(word) or is_number else Unknown


def _misfit(layout: Layout, body: str, number: int) -> ParseError:
    """The error for a line that does not match its record's pattern."""
    matches = (prefix.match(body) for prefix in layout.prefixes)
    fitting = [found.end() for found in takewhile(bool, matches) if found]
    name, kind = layout.parts[len(fitting) - 1]
    return _parse_error(number, layout, name, misfit(kind, body[fitting[-1] :].strip(" ")))


def _parse_error(number: int, layout: Layout, field: str, reason: str) -> ParseError:
    return ParseError("", None, f"line {number}: {layout.name}.{field}", reason)


def spelling_faults(record: Record) -> Iterator[tuple[str, str]]:
    """Field and reason for each part of a line whose spelling the document rules out, though readers accept it."""
    layout = _LAYOUTS.get(type(record))
    if not record.spelling or layout is None:
        return
    body = text_from(record.spelling).rstrip("\r\n")
    found = layout.tolerant.fullmatch(body)
    assert found is not None, "the spelling of a record parses to it"
    texts = dict(zip((name for name, _ in layout.parts), found.groups(), strict=True))
    end = len(body)
    for index, (name, kind) in enumerate(layout.parts, 1):
        text = texts[name]
        kind = kind_in(kind.kind if isinstance(kind, Maybe) else kind, texts)
        if text is None:
            continue
        if isinstance(kind, Text):
            end = found.start(index) - 1
        elif (isinstance(kind, Ranges) or kind is HEXADECIMAL) and re.search("[A-FxX]", text):
            yield name, f"found {shortened(text.strip())}, expected hexadecimal digits in lower case, without 0x"
    if body[:1] == " " or body[end - 1 : end] == " " or "  " in body[:end]:
        yield layout.parts[0].name, "expected single spaces between the fields"


def build_record(record: Record) -> bytes:
    """The line of a record with its line end: as it was spelled, if that still parses to the same, else canonical.

    Raises BuildError.
    """
    if record.spelling:
        try:
            if parse_record(record.spelling) == record:
                return record.spelling
        except ParseError:
            pass
    return _canonical_line(record)


def _canonical_line(record: Record) -> bytes:
    """The canonical text of a record, with LF."""
    if isinstance(record, Unknown):
        text = record.line
    else:
        layout = _LAYOUTS[type(record)]
        text = layout.head + "".join(_texts(layout, record))
        text = text if layout.head else text.removeprefix(" ")
    try:
        line = bytes_from(text) + b"\n"
        fits = not isinstance(record, Info | Unknown) or _record_type(text) is type(record)
        faithful = text_from(line) == text + "\n" and "\n" not in text and not text.endswith("\r")
    except ValueError:
        faithful = fits = False
    if not (fits and faithful):
        raise BuildError("", None, NAMES[type(record)], f"{shortened(text)} would not read back as this record")
    return line


def build_lines(cls: type[Record], *columns: Sequence[Any]) -> bytes:
    """The canonical lines of many records without an `Either`, from one column per field. Raises BuildError."""
    layout, texts = _LAYOUTS[cls], []
    for (name, kind), column in zip(layout.parts, columns, strict=True):
        try:
            texts.append(texts_of(kind, column))
        except ValueError as fault:
            raise BuildError("", None, f"{layout.name}.{name}", str(fault)) from None
    lines = zip(repeat(layout.head, len(texts[0])), *texts, repeat("\n", len(texts[0])), strict=True)
    return bytes_from("".join(chain.from_iterable(lines)))


def _texts(layout: Layout, record: Record) -> Iterator[str]:
    """The canonical text of each field, with the space before it."""
    for name, kind in layout.parts:
        if isinstance(kind, Either):
            kind = kind.yes if getattr(record, kind.field) else kind.no
        try:
            yield text_of(kind, getattr(record, name))
        except ValueError as fault:
            raise BuildError("", None, f"{layout.name}.{name}", str(fault)) from None
