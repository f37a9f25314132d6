"""Two readers of FUNC, INLINE and line records, as stack walkers have them, and without any product code.

Strategy: both find the functions inlined at an address: `by_order` nests a record into the last one of the level
before, as the document says; `by_level` takes, level by level, the record whose range holds the address.
"""

from __future__ import annotations

from dataclasses import dataclass, field

# The call of an inlined function: name, line and file of the call.
Call = tuple[str, int, str]


@dataclass
class ReadInline:
    """An INLINE record, and those inside it by their order."""

    level: int
    call: Call
    ranges: list[tuple[int, int]]
    inside: list[ReadInline] = field(default_factory=list)

    def holds(self, pc: int) -> bool:
        """Whether a range holds an address."""
        return any(start <= pc < start + size for start, size in self.ranges)


@dataclass
class ReadFunction:
    """A FUNC record with its INLINE records, flat and nested, and its line records: address, size, line, file."""

    m: bool
    start: int
    size: int
    name: str
    flat: list[ReadInline] = field(default_factory=list)
    nested: list[ReadInline] = field(default_factory=list)
    lines: list[tuple[int, int, int, str]] = field(default_factory=list)

    def by_order(self, pc: int) -> list[Call]:
        """The inlined functions at an address, outermost first."""
        found, here = [], self.nested
        while holding := [one for one in here if one.holds(pc)]:
            assert len(holding) == 1
            found.append(holding[0].call)
            here = holding[0].inside
        return found

    def by_level(self, pc: int) -> list[Call]:
        """As `by_order`."""
        found: list[Call] = []
        while holding := [one for one in self.flat if one.level == len(found) and one.holds(pc)]:
            assert len(holding) == 1
            found.append(holding[0].call)
        return found


def read_functions(text: str) -> list[ReadFunction]:
    """The FUNC records of canonical text, in its order; PUBLIC and STACK records are ignored."""
    files: dict[str, str] = {}
    origins: dict[str, str] = {}
    found: list[ReadFunction] = []
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if word == "FILE":
            number, _, name = rest.partition(" ")
            files[number] = name
        elif word == "INLINE_ORIGIN":
            number, _, name = rest.partition(" ")
            origins[number] = name
        elif word == "FUNC":
            is_marked = rest.startswith("m ")
            start, size, _, name = rest.removeprefix("m ").split(" ", 3)
            found.append(ReadFunction(is_marked, int(start, 16), int(size, 16), name))
        elif word == "INLINE":
            level, call_line, call_file, origin, *numbers = rest.split(" ")
            values = [int(one, 16) for one in numbers]
            call = (origins[origin], int(call_line), files[call_file])
            record = ReadInline(int(level), call, list(zip(values[::2], values[1::2], strict=True)))
            function = found[-1]
            function.flat.append(record)
            inside = function.nested
            for _ in range(record.level):
                inside = inside[-1].inside
            inside.append(record)
        elif word and word[0] in "0123456789abcdef":
            found[-1].lines.append(
                (int(word, 16), int(rest.split()[0], 16), int(rest.split()[1]), files[rest.split()[2]])
            )
    return found
