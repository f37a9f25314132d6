"""Call frame information as GNU readelf 2.47 prints it: instructions (`-wf`) or rows (`-wF`).

Strategy: an entry is a heading and lines; a line is one of a few texts and a PC. Both are formatted in bulk, some
thousand lines at a time, regardless of where an entry ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ....schemas.cfi import Dialect
from ....schemas.data_classes import dataclass
from ....schemas.section import Section
from ...arrays import ranges, renumbered, starts_of, values_at
from ...bulk_text import MAX_DIGITS, Pool, hexadecimal, lines
from ...table.lookup import ChosenPcs
from .entries import DecodedEntries, decode_entries, entries_at
from .instructions import MOVES, distinct_instructions, instruction_texts
from .rows import heading_texts, interpret_entries, row_texts

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The number of headings and lines formatted at once, which takes some megabytes of memory.
CHUNK = 1 << 16

# readelf breaks lines of augmentation data that do not fit 80 columns.
_DATA_HEADING = b"  Augmentation data:    "
_DATA_BYTES_AFTER_HEADING = (80 - len(_DATA_HEADING)) // 3
_DATA_BYTES_PER_LINE = 80 // 3


# A line of this many columns counts for two.
WIDE = 16


@dataclass(frozen=True, slots=True, eq=False)
class _Lines:
    """The lines of each run: those of run r are first_of[r] up to first_of[r + 1]; a silent run prints none.

    `interpreted`: lines are rows, which begin with a PC; otherwise they are instructions, and a PC follows where
    `has_pc` is set. `pc` is relative to the function's start. `text` is the number of a line's text; `texts` returns
    the texts of some numbers, joined, and their lengths. `add_second` adds the second part of the headings of some
    entries to the pool, told which entries have lines, and returns the number of each one's. `width` is the number of
    columns of the widest line.
    """

    first_of: NDArray[np.int64]
    is_silent: NDArray[np.bool_]
    add_second: Callable[[Pool, NDArray[np.int64], NDArray[np.bool_]], NDArray[np.int64]]
    text: NDArray[np.int64]
    texts: Callable[[NDArray[np.int64]], tuple[bytes, NDArray[np.int64]]]
    pc: NDArray[np.uint64]
    has_pc: NDArray[np.bool_]
    interpreted: bool
    width: int


def cfi_text(
    section: Section, dialect: Dialect, machine: str, interpreted: bool, at: ChosenPcs | None = None
) -> Iterator[bytes]:
    """Yield the text in pieces of some thousand lines, of all entries or of those `at` some PCs. `machine`, EM_..., is
    for register names. Raises ParseError."""
    entries = decode_entries(section, dialect)
    found = _row_lines(entries, machine) if interpreted else _instruction_lines(entries, machine)
    yield f"Contents of the {section.listed_name} section:\n\n".encode(errors="surrogateescape")
    # The run of a terminator is -1, for which values_at gives 0 lines.
    count = values_at(np.where(found.is_silent, 0, np.diff(found.first_of)), entries.run, 0)
    shown = entries_at(entries, dialect, at)
    first_item = starts_of(count[shown] + 1)
    chunk = CHUNK // (1 + found.width // WIDE)
    for begin in range(0, int(first_item[-1]), chunk):
        yield _chunk(entries, found, shown, first_item, begin, min(begin + chunk, int(first_item[-1])))
    yield b"\n"


def _row_lines(entries: DecodedEntries, machine: str) -> _Lines:
    found = interpret_entries(entries)

    def add_headings(pool: Pool, entry: NDArray[np.int64], has_lines: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Add the heading of columns for entries that have rows."""
        sets, number = renumbered(found.column_set[entries.run[entry[has_lines]]])
        piece = np.zeros(len(entry), np.int64)
        piece[has_lines] = pool.add_list(heading_texts(entries, found, machine, sets)) + number
        return piece

    return _Lines(
        first_of=found.first_row,
        is_silent=~found.shows_rows,
        add_second=add_headings,
        text=found.content,
        texts=partial(row_texts, found, machine),
        pc=found.rows.offset,
        has_pc=np.ones(len(found.content), np.bool_),
        interpreted=True,
        width=int(np.diff(found.first_column).max(initial=0)),
    )


def _instruction_lines(entries: DecodedEntries, machine: str) -> _Lines:
    number, first = distinct_instructions(entries)
    all_texts = instruction_texts(entries, machine, first)

    def texts(numbers: NDArray[np.int64]) -> tuple[bytes, NDArray[np.int64]]:
        found = [all_texts[one] for one in numbers.tolist()]
        return b"".join(found), np.array([len(text) for text in found], np.int64)

    return _Lines(
        first_of=entries.decoded.first_of,
        is_silent=np.zeros(len(entries.streams.start), np.bool_),
        add_second=partial(_add_data, entries),
        text=number,
        texts=texts,
        pc=entries.decoded.pc,
        has_pc=entries.decoded.has_effect(*MOVES),
        interpreted=False,
        width=0,
    )


def _chunk(
    entries: DecodedEntries,
    found: _Lines,
    shown: NDArray[np.int64],
    first_item: NDArray[np.int64],
    begin: int,
    end: int,
) -> bytes:
    """The text of the items from `begin` up to `end`: those of entries[i] are first_item[i], its heading, and then its
    lines."""
    first, last = np.searchsorted(first_item, [begin, end - 1], side="right") - 1
    place = np.arange(first, last + 1)
    entry, low = shown[place], np.maximum(first_item[place], begin)
    has_heading = low == first_item[place]
    line_count = np.minimum(first_item[place + 1], end) - low - has_heading
    # An entry whose heading is in an earlier chunk continues in the middle of its lines.
    line = ranges(found.first_of[entries.run[entry]] + low - first_item[place] - 1 + has_heading, line_count)
    owner = np.repeat(entry, line_count)
    pool = Pool([b""])
    numbers, text = renumbered(found.text[line])
    texts = pool.add_texts(*found.texts(numbers))
    has_pc = found.has_pc[line]
    size = 1 + has_pc.astype(np.int64)
    # A heading is two pieces, a line is one piece and its PC.
    headings = np.cumsum(has_heading)
    line_at = np.cumsum(size) - size + 2 * np.repeat(headings, line_count)
    pieces_before = starts_of(size)[starts_of(line_count)[:-1]]
    heading_at = (pieces_before + 2 * headings - 2)[has_heading]
    pieces = np.zeros(2 * len(heading_at) + int(size.sum()), np.int64)
    pieces[heading_at] = _add_headings(pool, entries, entry[has_heading], found.interpreted)
    has_lines = np.diff(first_item)[place] > 1
    pieces[heading_at + 1] = found.add_second(pool, entry[has_heading], has_lines[has_heading])
    pieces[line_at + (found.interpreted & has_pc)] = texts + text
    with_pc = np.flatnonzero(has_pc)
    pieces[line_at[with_pc] + (not found.interpreted)] = _add_pcs(pool, entries, found, owner[with_pc], line[with_pc])
    return pool.join(pieces)


def _add_pcs(
    pool: Pool, entries: DecodedEntries, found: _Lines, entry: NDArray[np.int64], line: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Add the PCs of lines to the pool, with a line feed if after an instruction. Returns the number of each one."""
    digits = hexadecimal(entries.start[entry] + found.pc[line])
    skip = MAX_DIGITS - 2 * entries.address_size(entry)
    return pool.add(lines(len(line), digits, b"" if found.interpreted else b"\n"), skip) + np.arange(len(line))


def _add_headings(
    pool: Pool, entries: DecodedEntries, entry: NDArray[np.int64], interpreted: bool
) -> NDArray[np.int64]:
    """Add the headings of entries to the pool. Returns the number of each one."""
    heading = np.zeros(len(entry), np.int64)
    fde = np.flatnonzero(entries.is_fde[entry])
    fde = fde[entries.segment_size(entry[fde]) == 0]
    address_size, id_size = entries.address_size(entry[fde]), entries.id_size(entry[fde])
    for sizes in {*zip(address_size.tolist(), id_size.tolist(), strict=True)}:
        which = fde[(address_size == sizes[0]) & (id_size == sizes[1])]
        heading[which] = pool.add(_fde_headings(entries, entry[which], *sizes)) + np.arange(len(which))
    others = np.delete(np.arange(len(entry)), fde)
    texts = [_heading(entries, one, interpreted) for one in entry[others].tolist()]
    heading[others] = pool.add_list(texts) + np.arange(len(others))
    return heading


def _fde_headings(
    entries: DecodedEntries, fde: NDArray[np.int64], address_size: int, id_size: int
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


def _heading(entries: DecodedEntries, entry: int, interpreted: bool) -> bytes:
    """The heading of an entry that is not an FDE, or of an FDE with a segment."""
    offset = int(entries.offset[entry])
    if entries.cie[entry] < 0:
        # For several adjacent ones, which are one entry, readelf prints this once.
        return f"\n{offset:08x} ZERO terminator\n\n".encode()
    one = np.array([entry])
    digits, id_digits = 2 * int(entries.address_size(one)[0]), 2 * int(entries.id_size(one)[0])
    length = int(entries.length(one)[0]) % (1 << 4 * digits)
    place = f"\n{offset:08x} {length:0{digits}x} {int(entries.entry_id(one)[0]):0{id_digits}x} "
    cie = entries.cies[entries.cie[entry]]
    if entries.is_fde[entry]:
        start = int(entries.start[entry])
        end = (start + int(entries.size[entry])) % (1 << 4 * digits)
        cie_offset, segment = int(entries.cie_offset[entries.cie[entry]]), int(entries.segment[entry])
        return f"{place}FDE cie={cie_offset:08x} pc={segment:04x}:{start:0{digits}x}..{end:0{digits}x}\n".encode()
    code, data, column = (
        int(value) for value in (cie.code_alignment_factor, cie.data_alignment_factor, cie.return_address_register)
    )
    if interpreted:
        numbers = f'" cf={code} df={data} ra={column}\n'
        return b"".join((f'{place}CIE "'.encode(), cie.augmentation, numbers.encode()))
    sizes = f"  Pointer Size:          {cie.address_size}\n  Segment Size:          {cie.segment_selector_size}\n"
    return b"".join(
        (
            f"{place}CIE\n  Version:               {cie.version}\n".encode(),
            b'  Augmentation:          "' + cie.augmentation + b'"\n',
            (sizes if cie.address_size is not None else "").encode(),
            f"  Code alignment factor: {code}\n  Data alignment factor: {data}\n".encode(),
            f"  Return address column: {column}\n".encode(),
        )
    )


def _add_data(entries: DecodedEntries, pool: Pool, entry: NDArray[np.int64], _: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Add the lines of the augmentation data of entries to the pool. Returns the number of each one."""
    section = np.frombuffer(entries.section.data, np.uint8)
    size = np.where(entries.is_terminator[entry], 0, entries.instructions[entry] - entries.data[entry])
    # A CIE without augmentation data has an empty line.
    line = np.where(entries.is_fde[entry] | entries.is_terminator[entry], 0, pool.add_list([b"\n"]))
    for length in sorted({*size.tolist()} - {0}):
        which = np.flatnonzero(size == length)
        values = section[entries.data[entry[which]][:, None] + np.arange(length)].astype(np.uint64)
        parts: list[bytes | NDArray[np.uint8]] = [_DATA_HEADING]
        for index in range(length):
            is_broken = length >= _DATA_BYTES_AFTER_HEADING and index % _DATA_BYTES_PER_LINE == 0
            parts += [b"\n " if is_broken else b" ", hexadecimal(values[:, index], 2)]
        line[which] = pool.add(lines(len(which), *parts, b"\n")) + np.arange(len(which))
    return line
