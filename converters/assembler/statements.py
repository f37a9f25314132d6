"""Assembler text as statements: labels, directives, and what this reader cannot measure.

Strategy: a kernel numbers the lines, and each distinct line is parsed once. A line becomes any number of statements,
which are numbered too: text of many functions is a column of statement numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...schemas.data_classes import dataclass
from ...schemas.section import ParseError
from ...schemas.text_records import shortened
from ..arrays import ranges, starts_of
from ..distinct import intern

if TYPE_CHECKING:
    from numpy.typing import NDArray

SOURCE = "directives"
MAX_SIZE = 1 << 62


class Kind(IntEnum):
    """What a statement does."""

    NOTHING = 0  # nothing that matters here
    LABEL = 1  # defines `name` at the location counter
    ASSIGNMENT = 2  # defines `name` as an expression, its argument
    SECTION = 3  # selects a section
    SIZE = 4  # takes `size` bytes
    PLACE = 5  # takes a number of bytes that depends on the location counter or on labels
    START = 6  # .cfi_startproc
    END = 7  # .cfi_endproc
    PROPERTY = 8  # a directive that applies to the whole function
    CFI = 9  # a directive that becomes call frame instructions
    UNMEASURED = 10  # takes a number of bytes that only an assembler knows
    UNREADABLE = 11  # changes the meaning of other statements: macros, conditions


class Statement(NamedTuple):
    """One statement. `name` is that of a directive, with its dot, of a label or a symbol; of an instruction, all of it.
    `size` is in bytes."""

    kind: Kind
    name: str
    arguments: tuple[str, ...] = ()
    size: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Statements:
    """A text: for each statement `number` i64, the index in `distinct`, and `line` i64, counted from 1."""

    distinct: list[Statement]
    number: NDArray[np.int64]
    line: NDArray[np.int64]

    def kinds(self) -> NDArray[np.int64]:
        """The kind of each statement."""
        return np.array([int(one.kind) for one in self.distinct] or [0], np.int64)[self.number]

    def sizes(self) -> NDArray[np.uint64]:
        """The size of each statement in bytes; 0 where it depends on its place."""
        return np.array([one.size for one in self.distinct] or [0], np.uint64)[self.number]

    def at(self, index: int) -> Statement:
        """The statement with this index."""
        return self.distinct[int(self.number[index])]

    def error(self, index: int, reason: str) -> ParseError:
        """The error of a statement: its record names the line."""
        return ParseError(SOURCE, None, f"line {self.line[index]}", reason)


def read_statements(text: bytes, comment: str) -> Statements:
    """The statements of a text whose line comments start with `comment`. Raises ParseError for an open string."""
    text = _without_block_comments(text)
    data = np.frombuffer(text, np.uint8)
    end = np.append(np.flatnonzero(data == ord("\n")), len(data))
    start = np.append(0, end[:-1] + 1)
    line, first = intern(data, start, end, np.zeros(len(start), np.int64))
    numbers: dict[Statement, int] = {}
    found: list[int] = []
    counts: list[int] = []
    for at in first.tolist():
        try:
            statements = list(_statements(text[start[at] : end[at]].decode(errors="backslashreplace"), comment))
        except StatementError as error:
            raise ParseError(SOURCE, None, f"line {at + 1}", str(error)) from error
        counts.append(len(statements))
        found += [numbers.setdefault(one, len(numbers)) for one in statements]
    count = np.array(counts, np.int64)[line]
    number = np.array(found, np.int64)[ranges(starts_of(np.array(counts, np.int64))[:-1][line], count)]
    return Statements(list(numbers), number, np.repeat(np.arange(1, len(start) + 1), count))


class StatementError(Exception):
    """A statement that cannot be read; the caller adds its line."""


# Strings are matched too, so that what looks like a comment in one is kept.
_BLOCK = re.compile(rb'"(?:\\.|[^"\\\n])*"|/\*.*?\*/', re.DOTALL)


def _without_block_comments(text: bytes) -> bytes:
    """The text with each block comment replaced by a space and its line ends."""
    if b"/*" not in text:
        return text
    return _BLOCK.sub(lambda found: found[0] if found[0][:1] == b'"' else b" " + b"\n" * found[0].count(b"\n"), text)


_SYMBOL = r'(?:[A-Za-z_.$][\w.$@]*|"(?:\\.|[^"\\])*")'
_LABEL = re.compile(rf"\s*({_SYMBOL}|\d+)\s*:")
_ASSIGNMENT = re.compile(rf"({_SYMBOL})\s*==?\s*(.+)")
_DIRECTIVE = re.compile(r"(\.\w[\w.]*)\s*(.*)", re.DOTALL)


def _statements(line: str, comment: str) -> Iterator[Statement]:
    """The statements of one line."""
    if line.lstrip().startswith("#"):  # a comment for every architecture, also the compiler's `# 12 "file.c"`
        return
    for part in _parts(line, comment):
        while label := _LABEL.match(part):
            yield Statement(Kind.LABEL, label[1].strip('"'))
            part = part[label.end() :]
        part = part.strip()
        if not part:
            continue
        if (directive := _DIRECTIVE.fullmatch(part)) and not _ASSIGNMENT.fullmatch(part):
            yield _directive(directive[1].lower(), tuple(split(directive[2])))
        elif assignment := _ASSIGNMENT.fullmatch(part):
            yield Statement(Kind.ASSIGNMENT, assignment[1].strip('"'), (assignment[2].strip(),))
        else:
            yield Statement(Kind.UNMEASURED, part)


def _parts(line: str, comment: str) -> list[str]:
    """The line without its comment, divided at semicolons, except those in strings."""
    if '"' not in line:
        return line.partition(comment)[0].split(";")
    parts, begin, at = [], 0, 0
    while at < len(line):
        if line[at] == '"':
            at = _end_of_string(line, at)
        elif line.startswith(comment, at):
            break
        else:
            if line[at] == ";":
                parts.append(line[begin:at])
                begin = at + 1
            at += 1
    return [*parts, line[begin:at]]


def _end_of_string(line: str, at: int) -> int:
    """The index after the string that starts at `at`."""
    found = _STRING.match(line, at)
    if found is None:
        raise StatementError("the string has no end")
    return found.end()


_STRING = re.compile(r'"(?:\\.|[^"\\])*"')
_ARGUMENT = re.compile(r'(?:"(?:\\.|[^"\\])*"|\((?:[^()]|\([^()]*\))*\)|[^,])+')


def split(arguments: str) -> list[str]:
    """Arguments divided at commas, except those in strings and parentheses."""
    return [one.strip() for one in _ARGUMENT.findall(arguments)]


# Directives with the same meaning in GNU as of every architecture (GNU as manual, chapter 7).
_ITEM_SIZES = {
    ".byte": 1, ".2byte": 2, ".short": 2, ".hword": 2, ".4byte": 4, ".long": 4, ".int": 4, ".8byte": 8, ".quad": 8,
    ".octa": 16,
}  # fmt: skip
_STRINGS = {".ascii": 0, ".asciz": 1, ".string": 1, ".string8": 1}  # bytes after each string
_SPACES = (".skip", ".space", ".zero", ".nops")
_PLACES = (".p2align", ".balign", ".org")
_SECTIONS = (".section", ".pushsection", ".popsection", ".previous", ".text", ".data", ".bss", ".rodata")
_PROPERTIES = (
    ".cfi_personality", ".cfi_lsda", ".cfi_return_column", ".cfi_signal_frame", ".cfi_b_key_frame",
    ".cfi_mte_tagged_frame",
)  # fmt: skip
_ASSIGNMENTS = (".set", ".equ", ".equiv")
_CONTROL = re.compile(
    r"\.(macro|endm|exitm|purgem|altmacro|if\w*|else\w*|endif|rept|irpc?|endr|include|subsection|struct|end"
    r"|org_?base|offset|abort|bundle_\w+)"
)
# Directives that put nothing into a section.
_SILENT = re.compile(
    r"\.(file|ident|globl|global|local|weak\w*|hidden|protected|internal|type|size|loc|loc_mark_labels|line|ln"
    r"|comm|lcomm|symver|version|addrsig|addrsig_sym|arch\w*|cpu|fpu|syntax|att_\w+|intel_\w+|option|attribute"
    r"|eabi_attribute|gnu_attribute|machine|machinemode|abiversion|localentry|variant_pcs|cv_\w+|title|sbttl|list"
    r"|nolist|psize|eject|print|warning|cfi_sections|cfi_label|module|nan)"
)


def _directive(name: str, arguments: tuple[str, ...]) -> Statement:
    if name in (".cfi_startproc", ".cfi_endproc"):
        return Statement(Kind.START if name == ".cfi_startproc" else Kind.END, name, arguments)
    if name in _PROPERTIES:
        return Statement(Kind.PROPERTY, name, arguments)
    if name in _SECTIONS:
        return Statement(Kind.SECTION, name, arguments)
    if name in _ASSIGNMENTS:
        if len(arguments) == 1:  # an option of MIPS
            return Statement(Kind.NOTHING, name)
        if len(arguments) != 2:
            raise StatementError(f"{name} has {len(arguments)} arguments, not 2")
        return Statement(Kind.ASSIGNMENT, arguments[0].strip('"'), arguments[1:])
    if _CONTROL.fullmatch(name):
        return Statement(Kind.UNREADABLE, name, arguments)
    if _SILENT.fullmatch(name):
        return Statement(Kind.NOTHING, name)
    if name.startswith(".cfi_"):
        return Statement(Kind.CFI, name, arguments)
    return _sized(name, arguments)


def _sized(name: str, arguments: tuple[str, ...]) -> Statement:
    """A directive that takes bytes."""
    if name in _ITEM_SIZES:
        return Statement(Kind.SIZE, name, (), _ITEM_SIZES[name] * len(arguments))
    if name in _STRINGS:
        return Statement(Kind.SIZE, name, (), sum(_string_size(one) + _STRINGS[name] for one in arguments))
    if name in _SPACES or name in _PLACES:
        size = number(arguments[0]) if name in _SPACES and arguments else None
        if size is not None and not 0 <= size <= MAX_SIZE:
            raise StatementError(f"{shortened(arguments[0])} is not a number of bytes")
        return Statement(Kind.PLACE, name, arguments) if size is None else Statement(Kind.SIZE, name, (), size)
    if name == ".fill":
        values = [number(one) for one in arguments[:2]]
        if values and None not in values:
            size = (values[0] or 0) * min((values[1] or 0) if len(values) > 1 else 1, 8)
            if not 0 <= size <= MAX_SIZE:
                raise StatementError(f"{shortened(', '.join(arguments))} is not a number of bytes")
            return Statement(Kind.SIZE, name, (), size)
    return Statement(Kind.UNMEASURED, " ".join((name, ", ".join(arguments))).strip())


_ESCAPE = re.compile(rb"\\(?:[xX][0-9a-fA-F]+|[0-7]{1,3}|.)", re.DOTALL)


def _string_size(text: str) -> int:
    """The bytes of a string with escapes; adjacent strings are one."""
    strings = _STRING.findall(text)
    if not strings or _STRING.sub("", text).strip():
        raise StatementError(f"{shortened(text)} is not a string")
    return sum(len(_ESCAPE.sub(b"?", one[1:-1].encode())) for one in strings)


_NUMBERS = (
    (re.compile(r"[+-]?0[xX][0-9a-fA-F]+"), 16),
    (re.compile(r"[+-]?0[bB][01]+"), 2),
    (re.compile(r"[+-]?0[0-7]*"), 8),
    (re.compile(r"[+-]?[1-9][0-9]*"), 10),
)
MAX_DIGITS = 70  # of any number of 64 bits


@lru_cache(1 << 16)
def number(text: str) -> int | None:
    """The value of an integer as GNU as writes them, hexadecimal, octal and binary too; None for another text."""
    if len(text) > MAX_DIGITS:
        return None
    return next((int(text, base) for form, base in _NUMBERS if form.fullmatch(text)), None)
