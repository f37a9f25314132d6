"""Strategies for Breakpad symbol files: records, unusual spellings of them, whole files.

Strategy: a record is drawn field by field from its declaration; a spelling is a line with the same meaning that no
writer should write; a file's records follow every rule of `breakpad.rules`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from operator import ne
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from ..breakpad import records as breakpad
from ..breakpad.records import CFA_NAME, RA_NAME, UNDEFINED
from ..breakpad.values import ASSIGN, BINARY_OPERATORS, LOAD, MODULE_ARCHITECTURES, OPERATING_SYSTEMS, FrameType
from ..text_records import (
    NUMBER_LIMIT,
    Either,
    Kind,
    Mark,
    Maybe,
    Number,
    Ranges,
    Record,
    Rule,
    Rules,
    Text,
    Word,
    parts_of,
    text_from,
    text_of,
)

R = TypeVar("R", bound=Record)
MAX_TEXT = 30
EXPRESSION_WORDS = ("$rsp", "$rbp", CFA_NAME, "0", "8", "-16", "+", "-", "*", "/", "%", "@", "^", UNDEFINED)
VALUES = ("$rsp", "$rbp", "0", "8", "-16")
REGISTERS = (CFA_NAME, RA_NAME, "$rsp", "$rbp", "x0", "r1")

numbers = st.one_of(st.integers(0, 20), st.integers(0, 1 << 32), st.integers(0, NUMBER_LIMIT - 1))
# Any bytes except those that end a line or a C string, as text; invalid UTF-8 is kept.
texts = st.one_of(
    st.text(st.sampled_from("ab :m()$.0é"), max_size=MAX_TEXT),
    st.binary(max_size=MAX_TEXT).map(lambda data: text_from(data.translate(None, b"\0\n\r"))),
)
words = texts.map(lambda text: text.replace(" ", "_")).filter(bool)
expressions = st.lists(st.sampled_from(EXPRESSION_WORDS), min_size=1, max_size=5).map(" ".join)
rules: SearchStrategy[tuple[Rule, ...]] = st.lists(
    st.tuples(st.one_of(st.sampled_from(REGISTERS), words), st.one_of(expressions, words).filter(
        lambda text: not text.endswith(":")
    )),
    min_size=1,
    max_size=4,
).map(tuple)  # fmt: skip
ranges = st.lists(st.tuples(numbers, numbers), min_size=1, max_size=3).map(tuple)


@cache
def records(cls: type[R]) -> SearchStrategy[R]:
    """Records of a declaration, with any values."""

    @st.composite
    def build(draw: DrawFn) -> R:
        values: dict[str, object] = {}
        for name, kind in parts_of(cls):
            if isinstance(kind, Either):
                kind = kind.yes if values[kind.field] else kind.no
            values[name] = draw(_values(kind))
        return cls(*values.values())

    if cls is breakpad.Unknown:
        return unknown_lines.map(cls)
    # Free text that begins like another INFO record would be read as that record.
    free = ("CODE_ID", "GENERATOR", "URL")
    return build().filter(
        lambda record: not (isinstance(record, breakpad.Info) and record.text.lstrip(" ").startswith(free))
    )


def _values(kind: Kind) -> SearchStrategy[Any]:
    match kind:
        case Number():
            return numbers
        case Word():
            return words
        case Text():
            return texts
        case Mark():
            return st.booleans()
        case Maybe(inner):
            return st.one_of(st.none(), _values(inner))
        case Ranges():
            return ranges
        case Rules():
            return rules
    raise TypeError(f"no strategy is known for {kind}")


unknown_lines = st.one_of(
    st.just(""), st.builds("{}{}".format, st.sampled_from(["# ", "FUNCTION ", "FACE 1 ", "gamma", " ?"]), texts)
)
any_records: SearchStrategy[Record] = st.sampled_from([*breakpad.RECORDS.values(), breakpad.Unknown]).flatmap(records)


@st.composite
def spellings(draw: DrawFn, record: Record) -> bytes:
    """A line that means the same as a record, with spaces, zeros, `0x`, capitals, CR LF (an unknown one: CR LF)."""
    end = draw(st.sampled_from([b"\n", b"\r\n", b"\r\r\n"]))
    if isinstance(record, breakpad.Unknown):
        return text_bytes(record.line) + end
    head = next(head for head, cls in breakpad.RECORDS.items() if cls is type(record))
    gap = st.integers(1, 3).map(lambda count: " " * count)
    line = " " * draw(st.integers(0, 2)) + "".join(word + draw(gap) for word in head.split()).rstrip(" ")
    last: Kind | None = None
    for name, kind in parts_of(type(record)):
        if isinstance(kind, Either):
            kind = kind.yes if getattr(record, kind.field) else kind.no
        line += _odd(draw, kind, text_of(kind, getattr(record, name)), gap)
        last = kind.kind if isinstance(kind, Maybe) else kind
    if not isinstance(last, Text):
        line += " " * draw(st.integers(0, 2))
    return text_bytes(line if head else line.lstrip(" ")) + end


def text_bytes(text: str) -> bytes:
    """Text of a record as bytes."""
    return text.encode("utf-8", "surrogateescape")


def _odd(draw: DrawFn, kind: Kind, text: str, gap: SearchStrategy[str]) -> str:
    """An unusual spelling of a field's canonical text, with the space before it."""
    match kind:
        case Text() | Maybe(Text()):
            return text
        case Number(base):
            odd: list[Callable[[str], str]] = [str, lambda digits: "00" + digits]
            if base == 16:
                # Digits that are all capital letters would be a record's name.
                odd += [lambda digits: digits if digits.isalpha() else digits.upper()]
                odd += [lambda digits: "0x" + digits, lambda digits: "0X0" + digits.upper()]
            return draw(gap) + draw(st.sampled_from(odd))(text[1:])
        case Ranges():
            return "".join(_odd(draw, Number(16), f" {digits}", gap) for digits in text.split())
    return "".join(draw(gap) + word for word in text[1:].split(" ")) if text else text


@st.composite
def symbol_files(draw: DrawFn) -> list[Record]:
    """The records of a whole file that breaks no rule, in the order of dump_syms."""
    found: list[Record] = [draw(modules)]
    files = [breakpad.File(number, draw(texts)) for number in range(draw(st.integers(1, 3)))]
    found += [*files, *(breakpad.InlineOrigin(number, draw(texts)) for number in range(2))]
    start = 0x1000
    for _ in range(draw(st.integers(0, 3))):
        size = draw(st.integers(4, 64))
        found.append(breakpad.Func(draw(st.booleans()), start, size, 0, draw(texts)))
        found += _inlines(draw, start, size)
        found += (breakpad.Line(start + offset, 1, draw(st.integers(1, 99)), draw(st.integers(0, len(files) - 1)))
                  for offset in range(draw(st.integers(0, 3))))  # fmt: skip
        start += size
    found += draw(st.lists(st.one_of(records(breakpad.Public), stack_wins(), records(breakpad.Unknown)), max_size=3))
    for _ in range(draw(st.integers(0, 3))):
        size = draw(st.integers(1, 64))
        in_force = {name: draw(postfix_texts(results=1)) for name in (CFA_NAME, RA_NAME, "$rbp")}
        found.append(breakpad.StackCfiInit(start, size, tuple(in_force.items())))
        offsets = draw(st.sets(st.integers(1, size), max_size=3)) - {size}
        found += (breakpad.StackCfi(start + offset, draw(_changes(in_force))) for offset in sorted(offsets))
        start += size
    return found


# MODULE records with the document's values.
modules = st.builds(
    breakpad.Module,
    st.sampled_from(OPERATING_SYSTEMS),
    st.sampled_from(MODULE_ARCHITECTURES),
    st.from_regex("[0-9A-F]{32}[0-9a-f]{1,8}", fullmatch=True),
    texts.map(lambda text: text.replace("/", "_").replace("\\", "_")).filter(bool),
)


@st.composite
def postfix_texts(draw: DrawFn, results: int) -> str:
    """An expression (`results` 1) or a program string (0) with as many operands as its operators need."""
    words: list[str] = []
    for _ in range(1 if results else draw(st.integers(0, 3))):
        value = draw(st.sampled_from(VALUES))
        for _ in range(draw(st.integers(0, 2))):
            operator = draw(st.sampled_from((*BINARY_OPERATORS, LOAD)))
            value += f" {operator}" if operator == LOAD else f" {draw(st.sampled_from(VALUES))} {operator}"
        words += [value] if results else [f"$T0 {value} {ASSIGN}"]
    return " ".join(words)


@st.composite
def stack_wins(draw: DrawFn) -> breakpad.StackWin:
    """STACK WIN records whose last field is the one that their type has."""
    frame_type = draw(st.sampled_from(tuple(FrameType)))
    is_program = frame_type == FrameType.FRAME_DATA
    record: breakpad.StackWin = draw(records(breakpad.StackWin))
    last: str | int = draw(postfix_texts(results=0)) if is_program else draw(numbers)
    inside = st.integers(0, record.code_size)
    found: breakpad.StackWin = replace(
        record,
        type=frame_type,
        prologue_size=draw(inside),
        epilogue_size=draw(inside),
        has_program_string=int(is_program),
        program_string_or_allocates_base_pointer=last,
    )
    return found


@st.composite
def _changes(draw: DrawFn, in_force: dict[str, str]) -> tuple[Rule, ...]:
    """Rules of a STACK CFI record that differ from those in force, which they change."""
    names = draw(st.lists(st.sampled_from(REGISTERS), min_size=1, max_size=3, unique=True))
    changed = {name: draw(postfix_texts(results=1).filter(partial(ne, in_force.get(name)))) for name in names}
    in_force.update(changed)
    return tuple(changed.items())


def _inlines(draw: DrawFn, start: int, size: int) -> list[breakpad.Inline]:
    """INLINE records, each inside the previous one or inside the function."""
    found: list[breakpad.Inline] = []
    for _ in range(draw(st.integers(0, 3))):
        level = draw(st.integers(0, found[-1].inline_nest_level + 1 if found else 0))
        around = [(start, size)] if level == 0 else [
            inline.ranges[0] for inline in found if inline.inline_nest_level == level - 1
        ][-1:]  # fmt: skip
        offset = draw(st.integers(0, around[0][1]))
        inside = (around[0][0] + offset, draw(st.integers(0, around[0][1] - offset)))
        found.append(breakpad.Inline(level, draw(st.integers(1, 99)), draw(st.sampled_from([None, 0])), 0, (inside,)))
    return found
