"""How a record that is a line of text is declared, and the patterns and values derived from the declaration.

Strategy: a declaration is data, as in `wire`; a field's kind decides how it is spelled. Each record has two patterns:
the canonical one matches exactly what we would write, so that such a line needs no further checks; the tolerant one
accepts what readers accept (several spaces, leading zeros, `0x`, capitals). A fault is a ValueError with the reason,
to which the reader or writer adds the place.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from functools import cache, cached_property, lru_cache, partial
from typing import Any, NamedTuple, TypeVar, dataclass_transform

from .arguments import encoded_text
from .data_classes import dataclass

T = TypeVar("T")
Rule = tuple[str, str]


class Number(NamedTuple):
    """An unsigned 64-bit integer in decimal or hexadecimal (`base` 10 or 16), without `0x`, in lower case."""

    base: int


class Word(NamedTuple):
    """One or more characters other than a space."""


class Text(NamedTuple):
    """Everything up to the end of the line, after one space: may contain spaces, may be empty."""


class Mark(NamedTuple):
    """An optional word: a bool."""

    word: str


class Ranges(NamedTuple):
    """One or more pairs of address and size, in hexadecimal."""


class Rules(NamedTuple):
    """One or more pairs of `register:` and expression; held without the colon, which marks the start of a pair."""


class Maybe(NamedTuple):
    """An optional field; None if absent."""

    kind: Number | Word | Text


class Either(NamedTuple):
    """`yes` if the number in the earlier field `field` is not zero, else `no`."""

    field: str
    yes: Text
    no: Number


class Raw(NamedTuple):
    """The whole line, whatever it is."""


Kind = Number | Word | Text | Mark | Ranges | Rules | Maybe | Either | Raw
HEXADECIMAL, DECIMAL = Number(16), Number(10)
NUMBER_LIMIT = 1 << 64


def describe(kind: Kind) -> str:
    """Describe a kind of field, for errors and the manual."""
    match kind:
        case Number(base):
            return "hexadecimal number" if base == 16 else "decimal number"
        case Mark(word):
            return f"`{word}` or nothing"
        case Maybe(inner):
            return f"{describe(inner)}, or nothing"
        case Either(_, yes, no):
            return f"{describe(yes)}, or {describe(no)}"
    names: dict[type, str] = {
        Word: "word",
        Text: "rest of the line",
        Ranges: "pairs of hexadecimal numbers",
        Rules: "`register:` and expression, repeated",
        Raw: "the line",
    }
    return names[type(kind)]


def part(kind: Kind, doc: str) -> Any:
    """Declare a field: its kind and its description in the manual."""
    return dataclasses.field(metadata={"kind": kind, "doc": doc})


@dataclass_transform(frozen_default=True, field_specifiers=(part, dataclasses.field))
def line_record(cls: type[T]) -> type[T]:
    """Make a declaration a frozen, slotted dataclass."""
    return dataclass(frozen=True, slots=True)(cls)


@line_record
class Record:
    """A line. `spelling` has its bytes as read, with the line end, if they differ from the canonical text and LF.

    It is not compared: records that differ only in their spelling are equal.
    """

    spelling: bytes = dataclasses.field(default=b"", kw_only=True, compare=False)


class DeclaredPart(NamedTuple):
    """One field of a record as declared."""

    name: str
    kind: Kind


def parts_of(cls: type[Record]) -> tuple[DeclaredPart, ...]:
    """The declared fields of a record, in the order of the line."""
    declared = (field for field in dataclasses.fields(cls) if "kind" in field.metadata)
    return tuple(DeclaredPart(field.name, field.metadata["kind"]) for field in declared)


# --- patterns -----------------------------------------------------------------------------------------------

# Canonical numbers below 10**19 or 2**64; the tolerant pattern matches the few decimal ones in between.
_CANONICAL = {10: "(?:0|[1-9][0-9]{0,18})", 16: "(?:0|[1-9a-f][0-9a-f]{0,15})"}
_TOLERANT = {10: "[0-9]+", 16: "(?:0[xX])?[0-9a-fA-F]+"}
_TEXT = r"[^\0\r\n]*"
_WORD = r"[^\0\r\n ]+"


def _pattern(kind: Kind, *, canonical: bool) -> str:
    """The pattern of a field and the space before it, with one group."""
    gap = " " if canonical else " +"
    numbers = _CANONICAL if canonical else _TOLERANT
    match kind:
        case Number(base):
            return f"{gap}({numbers[base]})"
        case Word():
            return f"{gap}({_WORD})"
        case Either() if canonical:
            # Text after a number that is not zero; the tolerant pattern matches the other kind.
            return f"(?<! 0) ({_TEXT})"
        case Text() | Either():
            return f" ({_TEXT})"
        case Mark(word):
            return f"(?:{gap}({word})(?= ))?"
        case Ranges():
            return f"((?:{gap}{numbers[16]}{gap}{numbers[16]})+)"
        case Rules():
            return f" ({_WORD}(?: {_WORD})*)" if canonical else f"{gap}({_TEXT})"
        case Maybe(inner):
            return f"(?:{_pattern(inner, canonical=canonical)})?"
    raise TypeError(f"{kind} is not a field of a line")


def _line_pattern(head: str, kinds: tuple[Kind, ...], *, canonical: bool) -> str:
    gap = " " if canonical else " +"
    text = head.replace(" ", gap) + "".join(_pattern(kind, canonical=canonical) for kind in kinds)
    return text if head else text.removeprefix(gap)


@dataclass(frozen=True)
class Layout:
    """The patterns and converters of a declared record, compiled when first used.

    `head` are the words that its line begins with, `name` is its name in errors.
    """

    cls: type[Record]
    head: str
    name: str

    @cached_property
    def parts(self) -> tuple[DeclaredPart, ...]:
        """The record's fields."""
        return parts_of(self.cls)

    @cached_property
    def canonical(self) -> re.Pattern[str]:
        """Matches the lines that we would write."""
        return re.compile(_line_pattern(self.head, self._kinds, canonical=True))

    @cached_property
    def converters(self) -> tuple[Callable[[Any], Any], ...]:
        """Functions that convert the groups of the canonical pattern to values."""
        return tuple(_converter(kind) for kind in self._kinds)

    @cached_property
    def tolerant(self) -> re.Pattern[str]:
        """Matches the lines that readers accept."""
        return re.compile(f" *{_line_pattern(self.head, self._kinds, canonical=False)} *")

    @cached_property
    def prefixes(self) -> tuple[re.Pattern[str], ...]:
        """The n-th matches the head and the first n fields of a line that readers accept."""
        texts = (_line_pattern(self.head, self._kinds[:count], canonical=False) for count in range(len(self.parts)))
        return tuple(re.compile(rf" *{text}(?= |\Z)" if text else " *") for text in texts)

    @property
    def _kinds(self) -> tuple[Kind, ...]:
        return tuple(kind for _, kind in self.parts)


def _hexadecimal(text: str) -> int:
    return int(text, 16)


def _converter(kind: Kind) -> Callable[[Any], Any]:
    """A function from canonical text to a value, faster than `value_of`. It raises ValueError for invalid rules."""
    match kind:
        case Number(base):
            return _hexadecimal if base == 16 else int
        case Mark():
            return bool
        case Word() | Text() | Either():
            return str
        case Maybe(inner):
            convert = _converter(inner)
            return lambda text: None if text is None else convert(text)
    return partial(value_of, kind)


# --- values -------------------------------------------------------------------------------------------------


def shortened(text: str) -> str:
    """Text as quoted in an error."""
    return repr(text) if len(text) <= 40 else f"{text[:40]!r}..."


def misfit(kind: Kind, text: str) -> str:
    """The reason why text is not of a kind."""
    return f"found {shortened(text)}, expected {describe(kind)}" if text else "the line ends before it"


def value_of(kind: Kind, text: str | None) -> Any:
    """A field's value from the text that its pattern's group matched. Raises ValueError."""
    match kind:
        case Mark():
            return text is not None
        case Maybe(inner):
            return None if text is None else value_of(inner, text)
    assert text is not None
    match kind:
        case Number(base):
            # The pattern of an `Either` accepts any text, including spaces around a number.
            digits = text.strip(" ")
            if not re.fullmatch(_TOLERANT[base], digits):
                raise ValueError(misfit(kind, digits))
            return _number(digits, base)
        case Ranges():
            numbers = [_number(word, 16) for word in text.split()]
            return tuple(zip(numbers[::2], numbers[1::2], strict=True))
        case Rules():
            return rules_of(text)
    return text


def _number(text: str, base: int) -> int:
    # int() takes quadratic time in the number of decimal digits, and refuses more than 4300.
    digits = text if len(text) <= 20 else text.lower().removeprefix("0x").lstrip("0") or "0"
    value = int(digits, base) if len(digits) <= 20 else NUMBER_LIMIT
    if value >= NUMBER_LIMIT:
        raise ValueError(f"{shortened(text)} does not fit in 64 bits")
    return value


# A few distinct rules make up most of a file. Longer ones are not cached, so that the cache stays small.
MAX_CACHED_RULES = 400


def rules_of(text: str) -> tuple[Rule, ...]:
    """Register and expression of each rule of a STACK CFI record, with one space between an expression's words.

    Raises ValueError.
    """
    return _cached_rules_of(text) if len(text) <= MAX_CACHED_RULES else _rules_of(text)


def _rules_of(text: str) -> tuple[Rule, ...]:
    rules: list[tuple[str, list[str]]] = []
    for word in text.split(" "):
        if word.endswith(":"):
            if len(word) == 1:
                raise ValueError("a colon without a register")
            rules.append((word[:-1], []))
        elif word and not rules:
            raise ValueError(f"{shortened(word)} precedes the first register")
        elif word:
            rules[-1][1].append(word)
    if not rules:
        raise ValueError("no rule")
    for name, words in rules:
        if not words:
            raise ValueError(f"{shortened(name)} has no expression")
    return tuple((name, " ".join(words)) for name, words in rules)


_cached_rules_of = lru_cache(maxsize=4096)(_rules_of)


def text_of_rules(rules: tuple[Rule, ...]) -> str:
    """The canonical text of rules."""
    return " ".join(f"{name}: {expression}" for name, expression in rules)


def text_of(kind: Kind, value: Any) -> str:
    """The canonical text of a field, with the space before it. Raises ValueError if the value has none."""
    match kind:
        case Number(base):
            return " " + (f"{_checked_number(value):x}" if base == 16 else str(_checked_number(value)))
        case Mark(word):
            return f" {word}" if value else ""
        case Maybe(inner):
            return "" if value is None else text_of(inner, value)
        case Ranges():
            if not value:
                raise ValueError("no range")
            return "".join(f" {_checked_number(start):x} {_checked_number(size):x}" for start, size in value)
        case Rules():
            text = text_of_rules(value)
            if rules_of(text) != value:
                raise ValueError(f"{shortened(text)} does not read back as these rules")
            return " " + _checked_text(text, _TEXT)
        case Word():
            return " " + _checked_text(value, _WORD)
    return " " + _checked_text(value, _TEXT)


def texts_of(kind: Kind, values: Sequence[Any]) -> list[str]:
    """As `text_of`, faster for many values of a field. Raises ValueError if a value has no text."""
    match kind:
        case Number(base):
            if values and not 0 <= min(values) <= max(values) < NUMBER_LIMIT:
                raise ValueError("a value is not an unsigned 64-bit integer")
            return [f" {value:x}" for value in values] if base == 16 else [f" {value}" for value in values]
        case Text():
            joined = " ".join(values)
            if any(one in joined for one in "\0\r\n") or text_from(bytes_from(joined)) != joined:
                raise ValueError(f"{shortened(joined)} is not allowed here")
            return [f" {value}" for value in values]
        case Mark(word):
            return [f" {word}" if value else "" for value in values]
    return [text_of(kind, value) for value in values]


def _checked_number(value: object) -> int:
    if not isinstance(value, int) or not 0 <= value < NUMBER_LIMIT:
        raise ValueError(f"{value!r} is not an unsigned 64-bit integer")
    return value


def _checked_text(value: object, pattern: str) -> str:
    if not isinstance(value, str) or not _compiled(pattern).fullmatch(value) or text_from(bytes_from(value)) != value:
        raise ValueError(f"{shortened(str(value))} is not allowed here")
    return value


_compiled = cache(re.compile)


def text_from(data: bytes) -> str:
    """Decode UTF-8. An invalid byte becomes a lone surrogate, which `bytes_from` turns back."""
    return data.decode("utf-8", "surrogateescape")


def bytes_from(text: str) -> bytes:
    """Encode what `text_from` decoded. Raises ValueError for other surrogates."""
    return encoded_text(text)


def kind_in(kind: Kind, texts: dict[str, str | None]) -> Kind:
    """The kind of a field, given all fields' texts: for an `Either`, one of its two. Raises ValueError."""
    if not isinstance(kind, Either):
        return kind
    return kind.yes if value_of(HEXADECIMAL, texts[kind.field]) else kind.no
