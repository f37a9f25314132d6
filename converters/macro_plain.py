"""`.debug_macinfo` and `.debug_macro` as plain data for JSON: units with their entries.

Strategy: what `macro_text` prints, by the same columns, a unit at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..schemas.macros import Operand, standard_operands
from ..schemas.section import Section
from .macro_operands import operands_of
from .macro_sources import MacroSources
from .macro_text import add_indexed, entry_name
from .macros import Macros, read_macros
from .text import Pool

if TYPE_CHECKING:
    from numpy.typing import NDArray

Plain = dict[str, Any]


def macro_plain(section: Section, sources: MacroSources) -> tuple[Plain, Iterator[Plain]]:
    """The section, and one by one its units. Raises ParseError."""
    table = read_macros(section)
    has_line, offset_size = table.flag("debug_line_offset").tolist(), table.offset_size.tolist()

    def units() -> Iterator[Plain]:
        for unit, line_offset in enumerate(table.line_offset.tolist()):
            fields: Plain = {"offset": int(table.unit_offset[unit])}
            if table.has_headers:
                fields |= {"version": int(table.version[unit]), "offset_size": offset_size[unit]}
            fields |= {"debug_line_offset": line_offset} if has_line[unit] else {}
            lines = line_offset if has_line[unit] else None
            yield fields | {"entries": _plain_entries(section, table, sources, unit, lines)}

    return {"section": section.name}, units()


def _plain_entries(
    section: Section, table: Macros, sources: MacroSources, unit: int, line_offset: int | None
) -> list[Plain]:
    """The entries of a unit, whose files are those of the line number program at `line_offset`."""
    known = standard_operands(int(table.version[unit]))
    entries = np.arange(table.first[unit], table.first[unit + 1])
    texts = _texts(table, sources, entries)
    columns = (entries.tolist(), table.opcode[entries].tolist(), table.line[entries].tolist())
    said: list[Plain] = []
    for entry, opcode, line, value, text in zip(*columns, table.value[entries].tolist(), texts, strict=True):
        one: Plain = {"type": entry_name(table.has_headers, opcode)}
        if opcode not in known:
            operands = (operand for _, operand in operands_of(section, table, entry))
            one["operands"] = [operand.hex() if isinstance(operand, bytes) else operand for operand in operands]
        for operand in known.get(opcode, ()):
            if operand is Operand.LINE:
                one["line"] = line
            elif operand is Operand.FILE:
                one["file"] = value
                name = None if line_offset is None else sources.file_name(line_offset, value)
                one |= {} if name is None else {"filename": name.decode(errors="surrogateescape")}
            else:
                one[_KEYS[operand]] = text if operand in _TEXTS else value
        said.append(one)
    return said


# What an operand is called.
_KEYS = {
    Operand.TEXT: "macro",
    Operand.STRP: "macro",
    Operand.STRX: "macro",
    Operand.SUP_STRP: "macro_offset",
    Operand.UNIT: "offset",
    Operand.SUP_UNIT: "offset",
    Operand.CONSTANT: "constant",
    Operand.VENDOR_TEXT: "string",
}
_TEXTS = (Operand.TEXT, Operand.STRP, Operand.STRX, Operand.VENDOR_TEXT)


def _texts(table: Macros, sources: MacroSources, entries: NDArray[np.int64]) -> list[str]:
    """The text of each entry, wherever it stands; "" of what has none."""
    pool = Pool([b""])
    pieces = np.zeros(len(entries), np.int64)
    which = np.flatnonzero(table.has_operand(entries, Operand.TEXT, Operand.VENDOR_TEXT))
    start, size = table.text_start[entries[which]], table.text_size[entries[which]]
    pieces[which] = pool.add_slices(table.text, start, size) + np.arange(len(which))
    which = np.flatnonzero(table.has_operand(entries, Operand.STRP))
    pieces[which] = sources.add_strings(pool, table.value[entries[which]])
    which = np.flatnonzero(table.has_operand(entries, Operand.STRX))
    pieces[which] = add_indexed(pool, table, sources, entries[which])
    joined = pool.joined(pieces)
    end = np.cumsum(pool.lengths()[pieces])
    bounds = zip([0, *end[:-1].tolist()], end.tolist(), strict=True) if len(entries) else ()
    return [joined[begin:behind].decode(errors="surrogateescape") for begin, behind in bounds]
