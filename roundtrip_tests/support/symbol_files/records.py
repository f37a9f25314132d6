"""A Breakpad symbol file, read without product code: its functions, inlines, lines and public symbols.

Strategy: one pass finds the records that are not lines and not INLINE. A function's own records stay text until they
are asked for, so that a file with millions of lines takes little memory.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import TypeVar


class SymbolFileError(Exception):
    """A record does not have the form that the document gives it."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line record; `address` is relative to the module's load address, as everywhere here."""

    address: int
    size: int
    line: int
    file: int


@dataclass(frozen=True, slots=True)
class Inline:
    """An INLINE record; `ranges` are (address, size)."""

    depth: int
    call_line: int
    call_file: int
    origin: int
    ranges: tuple[tuple[int, int], ...]

    def covers(self, address: int) -> bool:
        """Whether one of the ranges has this address."""
        return any(start <= address < start + size for start, size in self.ranges)


@dataclass(frozen=True, slots=True)
class Func:
    """A FUNC record; `body` is the text up to the next FUNC."""

    address: int
    size: int
    is_multiple: bool
    name: str
    body: bytes = field(repr=False)

    @property
    def end(self) -> int:
        """The address after its last byte."""
        return self.address + self.size

    def records(self) -> tuple[list[Inline], list[Line]]:
        """Its INLINE and line records, in the order of the file."""
        inlines, lines = list[Inline](), list[Line]()
        for text in self.body.splitlines():
            if text.startswith(b"INLINE "):
                inlines.append(_inline(text))
            elif text and not _OTHER.match(text):
                lines.append(_line(text))
        return inlines, lines


@dataclass(frozen=True, slots=True)
class Public:
    """A PUBLIC record."""

    address: int
    is_multiple: bool
    name: str


@dataclass(frozen=True, slots=True)
class SymbolFile:
    """`functions` and `publics` are in the order of the file; `repeated` are ids that FILE or INLINE_ORIGIN gives
    twice, `stray` the INLINE and line records before the first FUNC."""

    module: str
    files: dict[int, str]
    origins: dict[int, str]
    functions: tuple[Func, ...]
    publics: tuple[Public, ...]
    repeated: tuple[str, ...]
    stray: int


# Every record but INLINE and lines.
_OTHER = re.compile(rb"(?:MODULE|INFO|FILE|INLINE_ORIGIN|FUNC|PUBLIC|STACK) ")
_RECORD = re.compile(rb"^(MODULE|FILE|INLINE_ORIGIN|FUNC|PUBLIC) ([^\r\n]*)\r?\n?", re.MULTILINE)
_FIRST_FUNC = re.compile(rb"^FUNC ", re.MULTILINE)
_FUNC = re.compile(rb"(m )?([0-9a-f]+) ([0-9a-f]+) [0-9a-f]+ ?(.*)")
_PUBLIC = re.compile(rb"(m )?([0-9a-f]+) [0-9a-f]+ ?(.*)")
_NUMBERED = re.compile(rb"([0-9]+) ?(.*)")
_LINE = re.compile(rb"([0-9a-f]+) ([0-9a-f]+) ([0-9]+) ([0-9]+)")
# Breakpad's dump_syms writes file -1 where DWARF has no call site.
_INLINE = re.compile(rb"INLINE ([0-9]+) ([0-9]+) (-?[0-9]+) ([0-9]+)((?: [0-9a-f]+ [0-9a-f]+)+)")


def read_symbol_file(path: Path) -> SymbolFile:
    """The records of a file. Raises SymbolFileError."""
    return parse_symbol_file(path.read_bytes())


def parse_symbol_file(text: bytes) -> SymbolFile:
    """As `read_symbol_file`, from the text; a function's own records are checked when they are asked for."""
    module, repeated = "", list[str]()
    numbered: dict[bytes, dict[int, str]] = {b"FILE": {}, b"INLINE_ORIGIN": {}}
    heads, publics = list[tuple[re.Match[bytes], int]](), list[Public]()
    for record in _RECORD.finditer(text):
        kind, rest = record.groups()
        if kind == b"MODULE":
            module = rest.decode()
        elif kind == b"FUNC":
            heads.append((_matched(_FUNC, rest, kind), record.end()))
        elif kind == b"PUBLIC":
            public = _matched(_PUBLIC, rest, kind)
            publics.append(Public(int(public[2], 16), public[1] is not None, _text(public[3])))
        else:
            number = _matched(_NUMBERED, rest, kind)
            if int(number[1]) in numbered[kind]:
                repeated.append(f"{kind.decode()} {int(number[1])}")
            numbered[kind].setdefault(int(number[1]), _text(number[2]))
    first = _FIRST_FUNC.search(text)
    before = text[: first.start()] if first else text
    stray = sum(1 for line in before.splitlines() if line and not _OTHER.match(line))
    functions = tuple(_functions(text, heads))
    return SymbolFile(
        module, numbered[b"FILE"], numbered[b"INLINE_ORIGIN"], functions, tuple(publics), tuple(repeated), stray
    )


def _functions(text: bytes, heads: list[tuple[re.Match[bytes], int]]) -> Iterator[Func]:
    bounds = [*(start for _, start in heads), len(text)]
    for (head, start), end in zip(heads, bounds[1:], strict=True):
        # Up to the next FUNC's own line, which `records` passes over.
        yield Func(int(head[2], 16), int(head[3], 16), head[1] is not None, _text(head[4]), text[start:end])


def _line(text: bytes) -> Line:
    address, size, line, file = _matched(_LINE, text, b"line").groups()
    return Line(int(address, 16), int(size, 16), int(line), int(file))


def _inline(text: bytes) -> Inline:
    depth, call_line, call_file, origin, ranges = _matched(_INLINE, text, b"INLINE").groups()
    words = [int(word, 16) for word in ranges.split()]
    pairs = tuple(zip(words[::2], words[1::2], strict=True))
    return Inline(int(depth), int(call_line), int(call_file), int(origin), pairs)


def _matched(pattern: re.Pattern[bytes], text: bytes, kind: bytes) -> re.Match[bytes]:
    match = pattern.fullmatch(text)
    if match is None:
        raise SymbolFileError(f"{kind.decode()} record {text[:120]!r}")
    return match


def _text(name: bytes) -> str:
    return name.decode(errors="surrogateescape")


@dataclass(frozen=True, slots=True)
class Frame:
    """A function and the place in it: the PC's, or that of the call of the frame before."""

    function: str
    file: str = ""
    line: int = 0


class Lookup:
    """Answers for addresses from one symbol file.

    Of functions that overlap, the one that starts last is in force; of those that start together, the file's first.
    """

    def __init__(self, symbols: SymbolFile) -> None:
        self._symbols = symbols
        self._functions = _by_address(symbols.functions)
        self._starts = [one.address for one in self._functions]
        # Where the functions up to each one end.
        self._reached = list(accumulate((one.end for one in self._functions), max))
        self._publics = _by_address(symbols.publics)
        self._public_starts = [one.address for one in self._publics]

    def function(self, address: int) -> Func | None:
        """The FUNC record whose range has this address."""
        for index in range(bisect_right(self._starts, address) - 1, -1, -1):
            one = self._functions[index]
            if address < one.end:
                return one
            if address >= self._reached[index]:
                break
        return None

    def public(self, address: int) -> Public | None:
        """The PUBLIC record that applies: the nearest one, if no FUNC starts between it and the address."""
        index = bisect_right(self._public_starts, address) - 1
        if index < 0:
            return None
        before = bisect_right(self._starts, address) - 1
        if before >= 0 and self._starts[before] > self._publics[index].address:
            return None
        return self._publics[index]

    def frames(self, address: int, by_order: bool = False) -> tuple[Frame, ...]:
        """The chain of frames, innermost first; () if no record covers the address.

        Inlines are found by depth and address, as rust-minidump does; `by_order`: an INLINE belongs to the last record
        before it that is one level less deep, as the document says and Breakpad's processor does.
        """
        function = self.function(address)
        if function is None:
            public = self.public(address)
            return (Frame(public.name),) if public else ()
        inlines, lines = function.records()
        chain = inlines_by_order(inlines, address) if by_order else inlines_by_depth(inlines, address)
        names = [function.name, *(self._symbols.origins.get(one.origin, "") for one in chain)]
        at = next((one for one in lines if one.address <= address < one.address + one.size), None)
        places = [(one.call_file, one.call_line) for one in chain] + [(at.file, at.line) if at else (-1, 0)]
        frames = (
            Frame(name, self._symbols.files.get(file, ""), line)
            for name, (file, line) in zip(names, places, strict=True)
        )
        return tuple(reversed(list(frames)))


_Placed = TypeVar("_Placed", Func, Public)


def _by_address(records: tuple[_Placed, ...]) -> list[_Placed]:
    """Ascending; of equal addresses, the file's first is the last."""
    ascending = sorted(enumerate(records), key=lambda one: (one[1].address, -one[0]))
    return [record for _, record in ascending]


def inlines_by_depth(inlines: list[Inline], address: int) -> list[Inline]:
    """The records that cover an address, outermost first: the first one of each depth, until a depth has none."""
    chain = list[Inline]()
    while True:
        depth = len(chain)
        found = next((one for one in inlines if one.depth == depth and one.covers(address)), None)
        if found is None:
            return chain
        chain.append(found)


def inlines_by_order(inlines: list[Inline], address: int) -> list[Inline]:
    """The records that cover an address, outermost first: below each, only the ones that follow it in the file before
    the next of its own depth or less."""
    chain, index = list[Inline](), 0
    while index < len(inlines):
        one = inlines[index]
        if one.depth < len(chain):
            break
        if one.depth == len(chain) and one.covers(address):
            chain.append(one)
        index += 1
    return chain
