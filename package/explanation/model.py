"""What an explanation consists of: fields of records, rows, lines of code."""

from __future__ import annotations

from ..schemas.data_classes import dataclass


@dataclass(frozen=True, slots=True)
class ExplainedField:
    """A field of a record: the section offset of its first byte, its bytes, its name, its value as text, and what it
    means. `row` is the text of the row that is complete after it, "" for none."""

    offset: int
    data: bytes
    name: str
    value: str
    meaning: str
    row: str = ""


@dataclass(frozen=True, slots=True)
class ExplainedRecord:
    """A record: its section, its title, the section of the text that declares it (`text`), its fields in order, which
    cover every byte of it."""

    section: str
    title: str
    text: str
    fields: tuple[ExplainedField, ...]


@dataclass(frozen=True, slots=True)
class CodeLine:
    """An instruction of the function: its PC, its bytes, its text, and whether the PC asked for is in it. `row` is the
    row that starts there or, of the first line, is in force; "" where nothing changes."""

    pc: int
    data: bytes
    text: str
    is_asked: bool
    row: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """What describes one place. `pc` is the address, or the offset in the `section` of a relocatable file; `start` and
    `size` are the function's, 0 if nothing describes it. `rules` are those in force at the PC, by source. `stack_cfi`
    are the lines of a symbol file. `code` is empty where no disassembler is installed or the file has no code; `notes`
    are sentences about what is missing."""

    file: str
    architecture: str
    pc: int
    section: str
    name: str
    start: int
    size: int
    rules: dict[str, str]
    records: tuple[ExplainedRecord, ...]
    stack_cfi: tuple[str, ...]
    code: tuple[CodeLine, ...]
    notes: tuple[str, ...]
