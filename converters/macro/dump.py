"""`.debug_macinfo` and `.debug_macro` as in readelf's `--debug-dump=macro`, and as data for JSON.

Strategy: both come from the same columns. Text is written in bulk, units as headings and entries as rows; JSON unit by
unit.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ...schemas.forms import DW_FORM
from ...schemas.macros import (
    DW_MACINFO,
    DW_MACRO,
    MACINFO_OPERANDS,
    MACRO_OPERANDS,
    MacroHeader,
    MacroOperand,
    standard_operands,
)
from ...schemas.section import ParseError, Section
from ..bulk_text import Pool, add_decimal, add_hexadecimal, headed_text, prefixed
from ..limits import exceeded
from .strings import MacroSources
from .table import Macros, read_macros
from .vendor_opcodes import described_text, header_of, operands_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    I64 = NDArray[np.int64]


# The words before an entry's first number, and before what follows it, by the operands of its opcode.
WORDS: dict[tuple[MacroOperand, ...], tuple[str, str]] = {
    (): ("", ""),
    (MacroOperand.LINE, MacroOperand.TEXT): (" - lineno : ", " macro : "),
    (MacroOperand.LINE, MacroOperand.FILE): (" - lineno: ", " filenum: "),
    (MacroOperand.CONSTANT, MacroOperand.VENDOR_TEXT): (" - constant : ", " string : "),
    (MacroOperand.LINE, MacroOperand.STRP): (" - lineno : ", " macro : "),
    (MacroOperand.LINE, MacroOperand.SUP_STRP): (" - lineno : ", " macro offset : "),
    (MacroOperand.LINE, MacroOperand.STRX): (" lineno : ", " macro : "),
    (MacroOperand.UNIT,): ("", " - offset : "),
    (MacroOperand.SUP_UNIT,): ("", " - offset : "),
}
_OPCODES = 256


@cache
def entry_name(has_headers: bool, opcode: int) -> str:
    """The standard's name of an opcode, or its number if it has none."""
    names: dict[int, str] = {int(one): one.name.rstrip("_") for one in (DW_MACRO if has_headers else DW_MACINFO)}
    return f"DW_MACRO_{names.get(opcode, f'{opcode:02x}')}" if has_headers else f"DW_MACINFO_{names[opcode]}"


def macro_text(section: Section, sources: MacroSources) -> Iterator[bytes]:
    """The text, in chunks of some thousand lines. Raises ParseError."""
    table = read_macros(section)
    yield f"Contents of the {section.listed_name} section:\n\n".encode(errors="surrogateescape")

    offset_size = table.offset_size
    has_line, has_opcodes = table.flag("debug_line_offset"), table.flag("opcode_operands_table")

    def heading(index: int) -> bytes:
        lines = [
            f"  Offset:                      {prefixed(int(table.unit_offset[index]))}",
            f"  Version:                     {int(table.version[index])}",
            f"  Offset size:                 {int(offset_size[index])}",
        ]
        if has_line[index]:
            lines.append(f"  Offset into .debug_line:     {prefixed(int(table.line_offset[index]))}")
        if has_opcodes[index]:
            lines += _described(header_of(section, table, index))
        # An empty line separates units.
        return b"\n" * (index > 0) + ("\n".join(lines) + "\n\n").encode()

    yield from headed_text(
        table.first,
        heading if table.has_headers else lambda _: b"",
        lambda pool, rows: _add_rows(pool, section, table, sources, rows),
    )
    if table.has_headers and len(table.body):
        yield b"\n"


def _described(header: MacroHeader) -> list[str]:
    """The lines for the opcodes that a header describes."""
    lines = []
    for one in header.opcode_operands or ():
        forms = ", ".join(f"DW_FORM_{DW_FORM(form).name}" for form in one.forms)
        lines.append(f"    DW_MACRO_{one.opcode:02x} " + (f"arguments: {forms}" if forms else "has no arguments"))
    return ["  Extension opcode arguments:", *lines] if lines else []


def _add_rows(pool: Pool, section: Section, table: Macros, sources: MacroSources, rows: slice) -> I64:
    """Add a line for each of a slice of entries to the pool; returns their piece numbers."""
    entries = np.arange(rows.start, rows.stop)
    nothing, end = pool.add_list([b"", b"\n"]) + np.arange(2)
    pieces = np.full((len(entries), 9), nothing, np.int64)
    pieces[:, 0], pieces[:, 2] = _add_words(pool, table.has_headers, table.opcode[rows])
    pieces[:, 8] = end

    def having(*operands: MacroOperand) -> I64:
        return np.flatnonzero(table.has_operand(entries, *operands))

    which = having(MacroOperand.LINE)
    pieces[which, 1] = add_decimal(pool, table.line[entries[which]])
    which = having(MacroOperand.CONSTANT)
    pieces[which, 1] = add_decimal(pool, table.value[entries[which]])
    which = having(MacroOperand.TEXT, MacroOperand.VENDOR_TEXT)
    start, size = table.text_start[entries[which]], table.text_size[entries[which]]
    pieces[which, 3] = pool.add_slices(table.text, start, size) + np.arange(len(which))
    which = having(MacroOperand.STRP)
    pieces[which, 3] = sources.add_strings(pool, table.value[entries[which]])
    which = having(MacroOperand.STRX)
    pieces[which, 3] = add_indexed(pool, table, sources, entries[which])
    which = having(MacroOperand.SUP_STRP, MacroOperand.UNIT, MacroOperand.SUP_UNIT)
    pieces[which, 3] = add_hexadecimal(pool, table.value[entries[which]], b"0x")
    which = having(MacroOperand.FILE)
    pieces[which, 3] = add_decimal(pool, table.value[entries[which]])
    pieces[which, 4:8] = _add_file_names(pool, table, sources, entries[which])
    which = np.flatnonzero(table.is_described(entries))
    texts = [described_text(section, table, sources, entry) for entry in entries[which].tolist()]
    pieces[which, 3] = pool.add_list(texts) + np.arange(len(which))
    return pieces


def _add_words(pool: Pool, has_headers: bool, opcode: NDArray[np.uint8]) -> tuple[I64, I64]:
    """Add the texts before each entry's first number (opcode name and words) and before what follows it to the pool;
    returns the piece numbers of both."""
    operands: dict[Any, tuple[MacroOperand, ...]] = dict(MACRO_OPERANDS if has_headers else MACINFO_OPERANDS)
    first, second = [], []
    for number in range(_OPCODES):
        words = WORDS[operands.get(number, ())]
        is_known = number in operands or has_headers
        first.append(f" {entry_name(has_headers, number)}{words[0]}".encode() if is_known else b"")
        second.append(words[1].encode())
    index = opcode.astype(np.int64)
    return pool.add_list(first) + index, pool.add_list(second) + index


def add_indexed(pool: Pool, table: Macros, sources: MacroSources, entries: I64) -> I64:
    """Add the texts of entries with string indices to the pool; returns the piece number of each."""
    unit, pieces = table.unit_of(entries), np.zeros(len(entries), np.int64)
    bounds = np.flatnonzero(np.diff(unit, prepend=-1, append=-1))
    for begin, end in pairwise(bounds.tolist()):
        size, offset = int(table.offset_size[unit[begin]]), int(table.unit_offset[unit[begin]])
        pieces[begin:end] = sources.add_indexed(pool, table.value[entries[begin:end]], size, offset)
    return pieces


def _add_file_names(pool: Pool, table: Macros, sources: MacroSources, entries: I64) -> I64:
    """Add the file names of start_file entries to the pool; returns the four piece numbers of each."""
    unit = table.unit_of(entries)
    pairs = np.stack([table.line_offset[unit], table.value[entries]], axis=1)
    has_line = table.flag("debug_line_offset")[unit]
    distinct, number = np.unique(pairs, axis=0, return_inverse=True)
    nothing = pool.add_list([b"", b" filename: "])
    found = np.full((len(distinct) + 1, 4), nothing)
    first: dict[int, int] = {}
    for index, (line_offset, file) in enumerate(distinct.tolist(), 1):
        names = sources.file_names(line_offset)
        pieces = names.pieces(file)
        if pieces is not None:
            if line_offset not in first:
                first[line_offset] = pool.add_strings(names.texts)
            found[index] = (nothing + 1, *(first[line_offset] + piece for piece in pieces))
    return found[np.where(has_line, number.reshape(-1) + 1, 0)]


Plain = dict[str, Any]


def macro_json(section: Section, sources: MacroSources) -> tuple[Plain, Iterator[Plain]]:
    """The section, and an iterator over its units. Raises ParseError."""
    table = read_macros(section)
    has_line, offset_size = table.flag("debug_line_offset").tolist(), table.offset_size.tolist()

    def units() -> Iterator[Plain]:
        for unit, line_offset in enumerate(table.line_offset.tolist()):
            fields: Plain = {"offset": int(table.unit_offset[unit])}
            if table.has_headers:
                fields |= {"version": int(table.version[unit]), "offset_size": offset_size[unit]}
            fields |= {"debug_line_offset": line_offset} if has_line[unit] else {}
            lines = line_offset if has_line[unit] else None
            yield fields | {"entries": _entries(section, table, sources, unit, lines)}

    return {"section": section.name}, units()


def _entries(section: Section, table: Macros, sources: MacroSources, unit: int, line_offset: int | None) -> list[Plain]:
    """The entries of a unit; file numbers refer to the line number program at `line_offset`."""
    known = standard_operands(int(table.version[unit]))
    entries = np.arange(table.first[unit], table.first[unit + 1])
    texts = _texts(section, table, sources, unit, entries)
    names = {} if line_offset is None else _names(section, table, sources, unit, line_offset)
    columns = (entries.tolist(), table.opcode[entries].tolist(), table.line[entries].tolist())
    found: list[Plain] = []
    for entry, opcode, line, value, text in zip(*columns, table.value[entries].tolist(), texts, strict=True):
        one: Plain = {"type": entry_name(table.has_headers, opcode)}
        if opcode not in known:
            operands = (operand for _, operand in operands_of(section, table, entry))
            one["operands"] = [operand.hex() if isinstance(operand, bytes) else operand for operand in operands]
        for operand in known.get(opcode, ()):
            if operand is MacroOperand.LINE:
                one["line"] = line
            elif operand is MacroOperand.FILE:
                one["file"] = value
                one |= {"filename": names[value]} if value in names else {}
            else:
                one[_KEYS[operand]] = text if operand in _TEXTS else value
        found.append(one)
    return found


def _names(section: Section, table: Macros, sources: MacroSources, unit: int, line_offset: int) -> dict[int, str]:
    """The names of the files that a unit's entries start, by number; of those that the program at `line_offset`
    has."""
    entries = np.arange(table.first[unit], table.first[unit + 1])
    files = table.value[entries[table.has_operand(entries, MacroOperand.FILE)]]
    distinct, counts = np.unique(files, return_counts=True)
    names = sources.file_names(line_offset)
    pieces = {number: found for number in distinct.tolist() if (found := names.pieces(number)) is not None}
    size = [sum(int(names.texts.size[piece]) for piece in pieces.get(number, ())) for number in distinct.tolist()]
    total = int((np.array(size, np.int64) * counts).sum())
    _refuse_long_texts(section, table, unit, total, names.texts.limit(len(files)))
    joined = ((number, sources.file_name(line_offset, number)) for number in pieces)
    return {number: name.decode(errors="surrogateescape") for number, name in joined if name is not None}


def _refuse_long_texts(section: Section, table: Macros, unit: int, total: int, limit: int) -> None:
    """Raise ParseError if texts of a unit, which is one value of JSON, take more than `limit` bytes."""
    if total > limit:
        reason = f"the texts take {total} bytes; a JSON value has at most {limit}"
        raise ParseError(section, int(table.unit_offset[unit]), f"unit[{unit}]", exceeded(reason))


# The name of an operand in JSON.
_KEYS = {
    MacroOperand.TEXT: "macro",
    MacroOperand.STRP: "macro",
    MacroOperand.STRX: "macro",
    MacroOperand.SUP_STRP: "macro_offset",
    MacroOperand.UNIT: "offset",
    MacroOperand.SUP_UNIT: "offset",
    MacroOperand.CONSTANT: "constant",
    MacroOperand.VENDOR_TEXT: "string",
}
_TEXTS = (MacroOperand.TEXT, MacroOperand.STRP, MacroOperand.STRX, MacroOperand.VENDOR_TEXT)


def _texts(section: Section, table: Macros, sources: MacroSources, unit: int, entries: I64) -> list[str]:
    """The text of each entry of a unit, from this section or another; "" for an entry without one. Raises ParseError
    if they are out of proportion to the sections."""
    pool = Pool([b""])
    pieces = np.zeros(len(entries), np.int64)
    which = np.flatnonzero(table.has_operand(entries, MacroOperand.TEXT, MacroOperand.VENDOR_TEXT))
    start, size = table.text_start[entries[which]], table.text_size[entries[which]]
    pieces[which] = pool.add_slices(table.text, start, size) + np.arange(len(which))
    which = np.flatnonzero(table.has_operand(entries, MacroOperand.STRP))
    pieces[which] = sources.add_strings(pool, table.value[entries[which]])
    which = np.flatnonzero(table.has_operand(entries, MacroOperand.STRX))
    pieces[which] = add_indexed(pool, table, sources, entries[which])
    texts = pool.texts()
    _refuse_long_texts(section, table, unit, int(texts.size[pieces].sum()), texts.limit(len(entries)))
    return [text.decode(errors="surrogateescape") for text in texts.select(pieces)]
