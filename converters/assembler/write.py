"""Table to `.cfi_*` directives: assembler text from which GNU as makes call frame information that says the same.

Strategy: functions stand in order of addresses in a section without contents, with `.skip` between rows and functions,
so that what is assembled has them as far apart as they were. Texts are few: of a step from row to row, of a number, of
what holds for a function. The whole is pieces of them put behind one another by a kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.cfi import DW_CFA, Instruction
from ..arrays import ranges
from ..bulk_text import Pool
from ..refusals import Refusals
from ..table.model import FunctionFlag, UnwindTable, table_of
from .layout import laid_apart, sayable, text_base
from .pointers import label, lsdas, personalities, pointed_section, pointer_texts
from .rows import Opening, RowTexts, escape, row_texts

if TYPE_CHECKING:
    from numpy.typing import NDArray

SECTION = ".unwound"


@dataclass(frozen=True, slots=True)
class _Form:
    """How a text says where it is: the template of what stands for a number of bytes, whether these count from the
    function's start or from the row before, and whether sections and gaps between functions are said."""

    bytes_on: str
    from_start: bool
    has_sections: bool


_FILE = _Form("\t.skip %d\n", from_start=False, has_sections=True)
# What begins a comment at the end of a line differs by architecture; this is one for all.
_FUNCTION = _Form("\t/* +%#x */\n", from_start=True, has_sections=False)


def to_directives(table: UnwindTable) -> tuple[bytes, Refusals]:
    """The table as source for GNU as of its architecture, and what could not be said.

    The code is a section without contents, `.unwound`; the first line names the address to link it at, for functions
    to be where they are. Of a relocatable file each section is one, `.unwound` and its number, from address 0. Where
    functions overlap, a PC stays with the one that starts first. Raises FormatError where that takes rows out of
    proportion.
    """
    return _text(table, _FILE)


def function_directives(table: UnwindTable, function: int) -> tuple[bytes, Refusals]:
    """The directives of one function, by its index, to be put between instructions; with the reason instead where they
    cannot say it. Where each row begins stands in a comment, in bytes from the function's start."""
    alone = replace(table.function(function), section=0)
    text, refusals = _text(table_of(table.architecture, [alone], table.byte_order, table.source), _FUNCTION)
    return text, replace(refusals, function=np.full(len(refusals), function))


def _text(table: UnwindTable, form: _Form) -> tuple[bytes, Refusals]:
    apart = laid_apart(table)
    base = text_base(apart.functions)
    rows = row_texts(apart)
    pointers = personalities(apart, base), lsdas(apart)
    said, refusals = sayable(table, apart, base, rows.reason, pointers)
    if not len(said):
        return b"", refusals
    pool = Pool([b"", b"\t.cfi_endproc\n"])
    texts = [pointer_texts(apart, one, said, base) for one in pointers]
    before = [
        *_places(pool, apart, said, base, form),
        _openings(pool, apart, said, rows),
        *(pool.add_list(one.lines) + one.of_function for one in texts),
        _barriers(pool, apart, said, rows),
    ]
    behind = [_ends(pool, apart, said, form), np.ones(len(said), np.int64)]
    pieces = _joined(apart, said, before, _row_pieces(pool, apart, rows, form), behind)
    definitions = b"".join([pointed_section(texts, pointers), *(one.definitions for one in texts)])
    anchor = f"{label(0, base)}:\n".encode() * (bool(definitions) and not form.has_sections)
    return anchor + pool.join(pieces) + definitions, refusals


def _numbers(pool: Pool, values: NDArray[np.uint64], form: _Form) -> NDArray[np.int64]:
    """For each number of bytes the piece that says it; 0 is not said."""
    different, index = np.unique(values, return_inverse=True)
    texts = [(form.bytes_on % value if value else "").encode() for value in different.tolist()]
    return pool.add_list(texts) + index.reshape(-1)


def _places(pool: Pool, table: UnwindTable, said: NDArray[np.int64], base: int, form: _Form) -> list[NDArray[np.int64]]:
    """For each function the pieces that lead to its start: its section, and the bytes between."""
    if not form.has_sections:
        return []
    functions = table.functions
    section = functions.section[said]
    sections, first = np.unique(section, return_index=True)
    headers = np.zeros(len(said), np.int64)
    headers[first] = pool.add_list([_header(number, base) for number in sections.tolist()]) + np.arange(len(sections))
    start = functions.start[said] - np.uint64(base)
    ends = np.roll(start + functions.size[said], 1)
    ends[first] = 0
    return [headers, _numbers(pool, start - ends, form)]


def _header(section: int, base: int) -> bytes:
    name = f"{SECTION}.{section}" if section else SECTION
    # Every assembler takes %nobits; @ begins a comment for ARM's.
    return f'/* {name}: address {base:#x} */\n\t.section {name}, "ax", %nobits\n{label(section, base)}:\n'.encode()


_MARKS = {
    FunctionFlag.SIGNAL_FRAME: "\t.cfi_signal_frame\n",
    FunctionFlag.PAUTH_B_KEY: "\t.cfi_b_key_frame\n",
    FunctionFlag.MEMORY_TAGGING: "\t.cfi_mte_tagged_frame\n",
}


def _openings(pool: Pool, table: UnwindTable, said: NDArray[np.int64], rows: RowTexts) -> NDArray[np.int64]:
    """For each function the piece that begins it and says what holds for the whole of it."""
    functions = table.functions
    columns = rows.opening[functions.run], functions.flags, functions.return_column
    keys, index = np.unique(np.stack([one[said] for one in columns], axis=1), axis=0, return_inverse=True)
    number: NDArray[np.int64] = index.reshape(-1)
    texts = [
        f"\t.cfi_startproc{' simple' * (Opening.SIMPLE in Opening(opening))}\n"
        + "".join(line for flag, line in _MARKS.items() if flag in FunctionFlag(flags))
        + f"\t.cfi_return_column {column}\n" * (column != table.architecture.return_address)
        for opening, flags, column in keys.tolist()
    ]
    return pool.add_list([text.encode() for text in texts]) + number


def _barriers(pool: Pool, table: UnwindTable, said: NDArray[np.int64], rows: RowTexts) -> NDArray[np.int64]:
    """For each function the piece that keeps its first row out of the CIE, where it has to be."""
    needs = (rows.opening[table.functions.run[said]] & Opening.BARRIER) > 0
    return np.where(needs, pool.add_list([f"\t{escape(Instruction(DW_CFA.nop))}\n".encode()]), 0)


def _row_pieces(pool: Pool, table: UnwindTable, rows: RowTexts, form: _Form) -> NDArray[np.int64]:
    """For each row of the table two pieces: where it begins, and what leads to it."""
    offset = table.rows.offset
    if form.from_start:
        moved = offset
    else:
        moved = np.diff(offset, prepend=np.uint64(0))
        first = table.run_rows[:-1][np.diff(table.run_rows) > 0]
        moved[first] = offset[first]
    return np.stack([_numbers(pool, moved, form), pool.add_list(rows.texts) + rows.of_row], axis=1)


def _ends(pool: Pool, table: UnwindTable, said: NDArray[np.int64], form: _Form) -> NDArray[np.int64]:
    """For each function the piece that leads to its end."""
    functions = table.functions
    size = functions.size[said]
    last = table.rows.offset[table.run_rows[functions.run[said] + np.uint32(1)] - 1]
    return _numbers(pool, size if form.from_start else size - np.minimum(last, size), form)


def _joined(
    table: UnwindTable,
    said: NDArray[np.int64],
    before: list[NDArray[np.int64]],
    row_pieces: NDArray[np.int64],
    behind: list[NDArray[np.int64]],
) -> NDArray[np.int64]:
    """All pieces in order: of each function those before its rows, two a row, and those behind."""
    run = table.functions.run[said]
    first = table.run_rows[run]
    count = table.run_rows[run + np.uint32(1)] - first
    size = len(before) + 2 * count + len(behind)
    start = np.cumsum(size) - size
    pieces = np.empty(int(size.sum()), np.int64)
    for index, column in enumerate(before):
        pieces[start + index] = column
    pieces[ranges(start + len(before), 2 * count)] = row_pieces[ranges(first, count)].reshape(-1)
    for index, column in enumerate(behind):
        pieces[start + len(before) + 2 * count + index] = column
    return pieces
