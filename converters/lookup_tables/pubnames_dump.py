"""Sections of names as in GNU readelf 2.47 (`-wNp`, `-wNt`), and as plain data for JSON.

Strategy: headers of sets are headings, names are rows; the padding and attributes after an offset are one of few texts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ...schemas.lookup_tables import SymbolKind
from ...schemas.section import Section
from ..bulk_text import Pool, add_hexadecimal, headed_text, left_aligned, prefixed
from .pubnames import Names, read_pubnames

if TYPE_CHECKING:
    from numpy.typing import NDArray

_OFFSET_WIDTH, _KIND_WIDTH = 6, 10
_KINDS = 8
_KIND_NAMES = {SymbolKind.NONE: "no info"} | {kind: kind.name.lower() for kind in SymbolKind if kind}


def _kind_name(kind: int) -> str:
    return _KIND_NAMES[SymbolKind(kind)] if kind in SymbolKind.__members__.values() else f"unused{kind}"


def names_text(section: Section) -> Iterator[bytes]:
    """The text, in chunks of some thousand lines. Raises ParseError."""
    table = read_pubnames(section)
    yield f"Contents of the {section.listed_name} section:\n\n".encode(errors="surrogateescape")
    columns = "Offset  Kind          Name" if table.has_attributes else "Offset\tName"

    def heading(index: int) -> bytes:
        return (
            f"  Length:                              {int(table.sets.end[index] - table.sets.body[index])}\n"
            f"  Version:                             {int(table.version[index])}\n"
            f"  Offset into .debug_info section:     {prefixed(int(table.debug_info_offset[index]))}\n"
            f"  Size of area in .debug_info section: {int(table.debug_info_length[index])}\n\n    {columns}\n"
        ).encode()

    yield from headed_text(table.first, heading, lambda pool, rows: _add_rows(pool, table, rows))
    yield b"\n"


def _add_rows(pool: Pool, table: Names, rows: slice) -> NDArray[np.int64]:
    """Add a line for each of a slice of names to the pool; returns their piece numbers."""
    offset = table.offset[rows]
    count = np.arange(len(offset))
    indent, end = pool.add_list([b"    ", b"\n"]) + np.arange(2)
    # Texts by padding, then by attributes.
    if table.has_attributes:
        attributes = [
            f"  {'s' if is_static else 'g'},{_kind_name(kind):{_KIND_WIDTH}}  "
            for is_static in (False, True)
            for kind in range(_KINDS)
        ]
        which = table.part("is_static", rows).astype(np.int64) * _KINDS + table.part("kind", rows)
    else:
        attributes, which = ["\t"], np.zeros(len(offset), np.int64)
    texts = [(" " * spaces + one).encode() for spaces in range(_OFFSET_WIDTH) for one in attributes]
    between = pool.add_list(texts) + left_aligned(offset, _OFFSET_WIDTH) * len(attributes) + which
    pieces = [
        np.full_like(count, indent),
        add_hexadecimal(pool, offset),
        between,
        pool.add_slices(table.text, table.text_start[rows], table.text_size[rows]) + count,
        np.full_like(count, end),
    ]
    return np.stack(pieces, axis=1)


def names_json(section: Section) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """The section, and an iterator over its sets with their names. Raises ParseError."""
    table = read_pubnames(section)
    return {"section": section.name}, (_plain_set(table, index) for index in range(len(table.version)))


def _plain_set(table: Names, index: int) -> dict[str, Any]:
    rows = slice(table.first[index], table.first[index + 1])
    names = [table.name_of(one).decode(errors="surrogateescape") for one in range(*rows.indices(len(table)))]
    entries: list[dict[str, Any]] = [
        {"offset": offset, "name": name} for offset, name in zip(table.offset[rows].tolist(), names, strict=True)
    ]
    if table.has_attributes:
        kinds = (table.part("is_static", rows).tolist(), table.part("kind", rows).tolist())
        for entry, is_static, kind in zip(entries, *kinds, strict=True):
            entry |= {"kind": _kind_name(kind), "static": bool(is_static)}
    return {
        "offset": int(table.sets.offset[index]),
        "unit_length": int(table.sets.end[index] - table.sets.body[index]),
        "version": int(table.version[index]),
        "debug_info_offset": int(table.debug_info_offset[index]),
        "debug_info_length": int(table.debug_info_length[index]),
        "names": entries,
    }
