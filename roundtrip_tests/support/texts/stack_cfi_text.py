"""STACK CFI text read without the product: rules in force at each line's address, and rules in readelf's notation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

_LINE = re.compile(r"STACK CFI (?:INIT ([0-9a-f]+) ([0-9a-f]+)|([0-9a-f]+)) (.+)")
_RULE = re.compile(r"(\S+): (.*?)(?= \S+: |$)")
_SUM = re.compile(r"(\S+) (-?\d+) \+( \^)?")


@dataclass(frozen=True, slots=True)
class Range:
    """The range of one INIT: the rules by name from each address on; `.undef` and same value are rules here, too."""

    start: int
    end: int
    rows: tuple[tuple[int, dict[str, str]], ...]

    def at(self, pc: int) -> dict[str, str]:
        """The rules in force."""
        return next(rules for start, rules in reversed(self.rows) if start <= pc)


def ranges(text: str) -> Iterator[Range]:
    """The ranges in the order of the text; each line of it must be one of the two forms."""
    start = end = 0
    rows: list[tuple[int, dict[str, str]]] = []
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        assert match is not None, line
        first, size, later, said = match.groups()
        rules = dict(_RULE.findall(said))
        assert " ".join(f"{name}: {rule}" for name, rule in rules.items()) == said, line
        assert list(rules) == sorted(rules), line
        if first is not None:
            if rows:
                yield Range(start, end, tuple(rows))
            start, end = int(first, 16), int(first, 16) + int(size, 16)
            rows = [(start, rules)]
            assert {".cfa", ".ra"} <= set(rules), line
            continue
        address = int(later, 16)
        assert rows[-1][0] < address < end, line
        assert any(rows[-1][1].get(name) != rule for name, rule in rules.items()), line
        rows.append((address, rows[-1][1] | rules))
    if rows:
        yield Range(start, end, tuple(rows))


def as_readelf(rule: str, numbers: Mapping[str, int]) -> str:
    """A rule as `readelf -wF` writes it, registers as `r` and the number; `exp` for anything more than a sum."""
    if match := _SUM.fullmatch(rule):
        name, offset, is_memory = match.groups()
        if name == ".cfa":
            return f"{'c' if is_memory else 'v'}{int(offset):+d}"
        return "exp" if is_memory else f"r{numbers[name]}{int(offset):+d}"
    return f"r{numbers[rule]}" if rule in numbers else "exp"


def value_of(words: str, mask: int, variables: Mapping[str, int], read: Callable[[int], int]) -> int:
    """The value of a postfix expression: unsigned words."""
    stack: list[int] = []
    for word in words.split():
        if word == "^":
            stack.append(read(stack.pop()))
        elif word in "+-*/%@":
            right, left = stack.pop(), stack.pop()
            stack.append(_OPERATORS[word](left, right) & mask)
        else:
            stack.append(variables[word] if word in variables else int(word) & mask)
    (value,) = stack
    return value


_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": lambda left, right: left // right,
    "%": lambda left, right: left % right,
    "@": lambda left, right: left - left % right,
}
