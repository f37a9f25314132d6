"""Call frame information as GNU readelf 2.47 prints it: instructions (`-wf`, in frames.py) or rows (`-wF`).

Strategy: an entry is a heading and rows; a row is a PC and one of a few texts. Both are formatted in bulk, some
thousand rows at a time, regardless of where an entry ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ....schemas.cfi import Dialect
from ....schemas.section import Section
from ...arrays import ranges, renumbered, starts_of, values_at
from ...bulk_text import MAX_DIGITS, Pool, hexadecimal, lines
from ...table.lookup import ChosenPcs
from .entries import DecodedEntries, Instructions, decode_entries, entries_at
from .frames import instructions_text
from .headings import heading_text
from .rows import EntryRows, heading_texts, interpret_entries, row_texts

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The number of headings and rows formatted at once, which takes some megabytes of memory.
CHUNK = 1 << 16
# A row of this many columns counts for two.
WIDE = 16


def cfi_text(
    section: Section, dialect: Dialect, machine: str, interpreted: bool, at: ChosenPcs | None = None
) -> Iterator[bytes]:
    """Yield the text in pieces of some thousand lines, of all entries or of those `at` some PCs. `machine`, EM_..., is
    for register names. Raises ParseError."""
    text = (_rows_text if interpreted else instructions_text)(section, dialect, machine, at)
    yield f"Contents of the {section.listed_name} section:\n\n".encode(errors="surrogateescape")
    yield from text
    yield b"\n"


def _rows_text(section: Section, dialect: Dialect, machine: str, at: ChosenPcs | None) -> Iterator[bytes]:
    entries = decode_entries(section, dialect)
    return _chunks(entries, interpret_entries(entries), dialect, machine, at)


def _chunks(
    entries: DecodedEntries[Instructions], found: EntryRows, dialect: Dialect, machine: str, at: ChosenPcs | None
) -> Iterator[bytes]:
    # The run of a terminator is -1, for which values_at gives 0 rows.
    count = values_at(np.where(found.shows_rows, np.diff(found.first_row), 0), entries.run, 0)
    shown = entries_at(entries, dialect, at)
    first_item = starts_of(count[shown] + 1)
    width = int(np.diff(found.first_column).max(initial=0))
    chunk = CHUNK // (1 + width // WIDE)
    for begin in range(0, int(first_item[-1]), chunk):
        end = min(begin + chunk, int(first_item[-1]))
        yield _chunk(entries, found, machine, shown, first_item, begin, end)


def _chunk(
    entries: DecodedEntries[Instructions],
    found: EntryRows,
    machine: str,
    shown: NDArray[np.int64],
    first_item: NDArray[np.int64],
    begin: int,
    end: int,
) -> bytes:
    """The text of the items from `begin` up to `end`: those of shown[i] are first_item[i], its heading, and then its
    rows."""
    first, last = np.searchsorted(first_item, [begin, end - 1], side="right") - 1
    place = np.arange(first, last + 1)
    entry, low = shown[place], np.maximum(first_item[place], begin)
    has_heading = low == first_item[place]
    row_count = np.minimum(first_item[place + 1], end) - low - has_heading
    # An entry whose heading is in an earlier chunk continues in the middle of its rows.
    row = ranges(found.first_row[entries.run[entry]] + low - first_item[place] - 1 + has_heading, row_count)
    pool = Pool([b""])
    numbers, text = renumbered(found.content[row])
    texts = pool.add_texts(*row_texts(found, machine, numbers))
    # A heading is two pieces, the second for the columns; a row is its PC and its text.
    pieces = np.zeros((end - begin, 2), np.int64)
    is_heading = np.zeros(end - begin, np.bool_)
    is_heading[first_item[place[has_heading]] - begin] = True
    with_heading, has_rows = entry[has_heading], (np.diff(first_item)[place] > 1)[has_heading]
    pieces[is_heading, 0] = _add_headings(pool, entries, with_heading)
    pieces[is_heading, 1] = _add_columns(pool, entries, found, machine, with_heading, has_rows)
    pieces[~is_heading, 0] = _add_pcs(pool, entries, found, np.repeat(entry, row_count), row)
    pieces[~is_heading, 1] = texts + text
    return pool.join(pieces.reshape(-1))


def _add_columns(
    pool: Pool,
    entries: DecodedEntries[Instructions],
    found: EntryRows,
    machine: str,
    entry: NDArray[np.int64],
    has_rows: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """Add the headings of columns, of entries that have rows, to the pool. Returns the number of each one."""
    sets, number = renumbered(found.column_set[entries.run[entry[has_rows]]])
    piece = np.zeros(len(entry), np.int64)
    piece[has_rows] = pool.add_list(heading_texts(entries, found, machine, sets)) + number
    return piece


def _add_pcs(
    pool: Pool,
    entries: DecodedEntries[Instructions],
    found: EntryRows,
    entry: NDArray[np.int64],
    row: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Add the PCs of rows to the pool. Returns the number of each one."""
    digits = hexadecimal(entries.start[entry] + found.rows.offset[row])
    return pool.add(digits, MAX_DIGITS - 2 * entries.address_size(entry)) + np.arange(len(row))


def _add_headings(pool: Pool, entries: DecodedEntries[Instructions], entry: NDArray[np.int64]) -> NDArray[np.int64]:
    """Add the headings of entries to the pool. Returns the number of each one."""
    heading = np.zeros(len(entry), np.int64)
    fde = np.flatnonzero(entries.is_fde[entry])
    fde = fde[entries.segment_size(entry[fde]) == 0]
    address_size, id_size = entries.address_size(entry[fde]), entries.id_size(entry[fde])
    for sizes in {*zip(address_size.tolist(), id_size.tolist(), strict=True)}:
        which = fde[(address_size == sizes[0]) & (id_size == sizes[1])]
        heading[which] = pool.add(_fde_headings(entries, entry[which], *sizes)) + np.arange(len(which))
    others = np.delete(np.arange(len(entry)), fde)
    texts = [heading_text(entries, one, True) for one in entry[others].tolist()]
    heading[others] = pool.add_list(texts) + np.arange(len(others))
    return heading


def _fde_headings(
    entries: DecodedEntries[Instructions], fde: NDArray[np.int64], address_size: int, id_size: int
) -> NDArray[np.uint8]:
    """The headings of FDEs whose addresses and ids have these sizes."""
    start = entries.start[fde]
    return lines(
        len(fde),
        b"\n",
        hexadecimal(entries.offset[fde], 8),
        b" ",
        hexadecimal(entries.length(fde), 2 * address_size),
        b" ",
        hexadecimal(entries.entry_id(fde), 2 * id_size),
        b" FDE cie=",
        hexadecimal(entries.cie_offset[entries.cie[fde]], 8),
        b" pc=",
        hexadecimal(start, 2 * address_size),
        b"..",
        hexadecimal(start + entries.size[fde], 2 * address_size),
        b"\n",
    )
