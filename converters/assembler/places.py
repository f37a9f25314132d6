"""Where the statements of a text are: their sections, their offsets there, and the values of symbols.

Strategy: sizes are added up by section. Statements whose size depends on their place, such as `.p2align`, are measured
one by one, in order; they are few.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...schemas.data_classes import dataclass
from ...schemas.section import ParseError
from ...schemas.text_records import shortened
from .statements import MAX_SIZE, SOURCE, Kind, Statement, StatementError, Statements, number

if TYPE_CHECKING:
    from numpy.typing import NDArray

FIRST_SECTION = ".text"
MAX_DEPTH = 64  # of symbols defined by symbols


class Value(NamedTuple):
    """The value of an expression: an offset in a section, or a number if `section` is None. `is_known` is False for an
    undefined symbol: another file defines it."""

    number: int
    section: int | None = None
    is_known: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """For each statement `section` i64, the index in `names`, and `offset` u64, of its first byte in that section."""

    statements: Statements
    names: list[str]
    section: NDArray[np.int64]
    offset: NDArray[np.uint64]
    symbols: Symbols


def lay_out_statements(statements: Statements) -> Places:
    """Place the statements of a text. Raises ParseError for a section above MAX_SIZE, and for a size that depends on
    something unknown."""
    names, section = _sections(statements)
    size = statements.sizes()
    if float(size.sum(dtype=np.float64)) > MAX_SIZE:
        raise ParseError(SOURCE, None, "location counter", "the text is larger than the address space")
    order = np.argsort(section, kind="stable")
    symbols = Symbols(statements, section, _offsets(size, order, section))
    places = np.flatnonzero(statements.kinds() == Kind.PLACE)
    if not len(places):
        return Places(statements, names, section, symbols.offset, symbols)
    size = size.copy()
    for index in places.tolist():
        try:
            size[index] = symbols.measure(index)
        except StatementError as error:
            raise statements.error(index, str(error)) from error
    offset = _offsets(size, order, section)
    return Places(statements, names, section, offset, Symbols(statements, section, offset))


def _offsets(size: NDArray[np.uint64], order: NDArray[np.int64], section: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The offset of each statement in its section."""
    sizes = size[order]
    before = np.cumsum(sizes) - sizes
    sections = section[order]
    first = np.flatnonzero(np.diff(sections, prepend=-1))
    count = np.diff(np.append(first, len(sections)))
    offset = np.empty(len(size), np.uint64)
    offset[order] = before - np.repeat(before[first], count)
    return offset


def _sections(statements: Statements) -> tuple[list[str], NDArray[np.int64]]:
    """The names of the sections, and the section that each statement is in."""
    numbers = {FIRST_SECTION: 0}
    now, before, stack = 0, 0, list[tuple[int, int]]()
    changes = np.flatnonzero(statements.kinds() == Kind.SECTION)
    selected = []
    for index in changes.tolist():
        name, arguments = statements.at(index).name, statements.at(index).arguments
        if name == ".popsection":
            if not stack:
                raise statements.error(index, "no .pushsection before it")
            now, before = stack.pop()
        elif name == ".previous":
            now, before = before, now
        else:
            if name == ".pushsection":
                stack.append((now, before))
            if name in (".section", ".pushsection"):
                if not arguments:
                    raise statements.error(index, f"{name} has no name")
                name = arguments[0].strip('"')
            now, before = numbers.setdefault(name, len(numbers)), now
        selected.append(now)
    count = np.diff(np.concatenate([[0], changes, [len(statements.number)]]))
    return list(numbers), np.repeat(np.array([0, *selected], np.int64), count)


_TERM = re.compile(r'\s*([+-]?)\s*(0[xX][0-9a-fA-F]+|\d+(?![\w.$])|\.(?![\w.$])|[A-Za-z_.$][\w.$@]*|"(?:\\.|[^"\\])*")')


@dataclass(slots=True, eq=False)
class Symbols:
    """The symbols of a text. `offset` are the offsets of statements without what `measure` has added to sections;
    `added` has for each section the statements that added bytes, and the sum up to and with each."""

    statements: Statements
    section: NDArray[np.int64]
    offset: NDArray[np.uint64]
    added: dict[int, tuple[list[int], list[int]]] = field(default_factory=lambda: defaultdict(lambda: ([], [0])))
    labels: dict[str, int] = field(default_factory=dict)
    expressions: dict[str, tuple[int, str]] = field(default_factory=dict)
    known: dict[str, Value] = field(default_factory=dict)
    limit: int = 0

    def __post_init__(self) -> None:
        distinct, kinds = self.statements.distinct, self.statements.kinds()
        for index in np.flatnonzero(kinds == Kind.LABEL).tolist():
            name = distinct[self.statements.number[index]].name
            if not name.isdecimal() and self.labels.setdefault(name, index) != index:
                raise self.statements.error(index, f"{shortened(name)} is already defined")
        for index in np.flatnonzero(kinds == Kind.ASSIGNMENT).tolist():
            statement = distinct[self.statements.number[index]]
            self.expressions[statement.name] = index, statement.arguments[0]
        self.limit = len(self.section)

    def value(self, text: str, index: int) -> Value:
        """The value of an expression in the statement `index`. Raises StatementError."""
        return self._sum(text, index, MAX_DEPTH)

    def _sum(self, text: str, index: int, depth: int) -> Value:
        total, sections, is_known, at = 0, defaultdict[int, int](int), True, 0
        while at < len(text) and (term := _TERM.match(text, at)) and (at == 0 or term[1]):
            sign = -1 if term[1] == "-" else 1
            one = self._term(term[2], index, depth)
            total += sign * one.number
            is_known &= one.is_known
            if one.section is not None:
                sections[one.section] += sign
            at = term.end()
        left = {section: count for section, count in sections.items() if count}
        if text[at:].strip() or not text.strip() or len(left) > 1 or any(count != 1 for count in left.values()):
            raise StatementError(f"the value of {shortened(text or 'nothing')} is not known before assembly")
        return Value(total, next(iter(left), None), is_known)

    def _term(self, text: str, index: int, depth: int) -> Value:
        if (plain := number(text)) is not None:
            return Value(plain)
        if text == ".":
            return Value(self._place(index), int(self.section[index]))
        name = text.strip('"')
        if name in self.labels:
            target = self.labels[name]
            if target >= self.limit:
                raise StatementError(f"the place of {shortened(name)}, a later label, is not known yet")
            return Value(self._place(target), int(self.section[target]))
        if name in self.expressions:
            if not depth:
                raise StatementError(f"{shortened(name)} is defined by too many other symbols, or by itself")
            if name not in self.known:
                self.known[name] = self._sum(self.expressions[name][1], self.expressions[name][0], depth - 1)
            return self.known[name]
        return Value(0, None, False)

    def _place(self, index: int) -> int:
        """The offset of a statement in its section."""
        found = self.added.get(int(self.section[index]))
        more = found[1][bisect_right(found[0], index - 1)] if found else 0
        return int(self.offset[index]) + more

    def measure(self, index: int) -> int:
        """The size of a statement that depends on its place; those before it have been measured. Raises
        StatementError."""
        self.limit = index
        statement = self.statements.at(index)
        here = self._place(index)
        size = self._size(statement, index, here)
        if not 0 <= size <= MAX_SIZE - here:
            raise StatementError(f"{statement.name} {shortened(', '.join(statement.arguments))} takes {size} bytes")
        places, sums = self.added[int(self.section[index])]
        places.append(index)
        sums.append(sums[-1] + size)
        self.limit = len(self.section)
        return size

    def _size(self, statement: Statement, index: int, here: int) -> int:
        name, arguments = statement.name, statement.arguments
        if not arguments:
            raise StatementError(f"{name} has no argument")
        value = self.value(arguments[0], index)
        if name == ".org":
            if value.section not in (None, int(self.section[index])) or not value.is_known:
                raise StatementError(f"{shortened(arguments[0])} is not in this section")
            return value.number - here
        if value.section is not None or not value.is_known:
            raise StatementError(f"the value of {shortened(arguments[0])} is not known before assembly")
        if name not in (".p2align", ".balign"):
            return value.number
        if not 0 <= value.number < (62 if name == ".p2align" else MAX_SIZE):
            raise StatementError(f"{shortened(arguments[0])} is not an alignment")
        unit = 1 << value.number if name == ".p2align" else max(value.number, 1)
        most = self.value(arguments[2], index).number if len(arguments) > 2 else unit
        padding = -here % unit
        return padding if padding <= most else 0
