"""The unwind table as `.cfi_*` directives: assembler text from which GNU as makes the same call frame information.

Strategy: functions are in address order in a section without contents, with `.skip` between rows and between functions,
so that the assembled rows have the original distances. There are few distinct texts: steps between rows, numbers of
bytes, and properties of functions. A kernel joins pieces of them.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.arguments import checked
from ...schemas.cfi import DW_CFA, Instruction
from ...schemas.data_classes import dataclass
from ..arrays import ranges
from ..bulk_text import Pool
from ..refusals import Refusals
from ..table.model import FunctionFlag, UnwindTable, table_of
from .layout import cut_overlaps, expressible_functions, text_base
from .pointers import label, lsdas, personalities, pointed_section, pointer_texts
from .rows import Opening, RowTexts, escape, row_texts

if TYPE_CHECKING:
    from numpy.typing import NDArray

SECTION = ".unwound"


@dataclass(frozen=True, slots=True)
class _Form:
    """How a text expresses the location counter.

    `distance` is the template of a number of bytes, relative to the function's start if `from_start`, else to the
    previous row; `has_sections`: whether sections and the gaps between functions are written.
    """

    distance: str
    from_start: bool
    has_sections: bool


_FILE = _Form("\t.skip %d\n", from_start=False, has_sections=True)
# The character that starts a line comment differs by architecture; this form of comment works for all.
_FUNCTION = _Form("\t/* +%#x */\n", from_start=True, has_sections=False)


@checked(table=UnwindTable)
def to_directives(table: UnwindTable) -> tuple[bytes, Refusals]:
    """The table as source for GNU as of its architecture, and the PC ranges that directives cannot express.

    The code is a section without contents, `.unwound`; the first line has the address at which to link it, so that
    functions keep their addresses. For a relocatable file, each section becomes one at address 0, named `.unwound` and
    its number. Where functions overlap, a PC stays with the one that starts first. Raises FormatError if cutting the
    overlaps takes a disproportionate number of rows.
    """
    return _text(table, _FILE)


@checked(table=UnwindTable)
def function_directives(table: UnwindTable, function: int) -> tuple[bytes, Refusals]:
    """The directives of the function with this index, for use between its instructions; empty, with the reason, if
    directives cannot express it. A comment before each row has its offset in bytes from the function's start."""
    alone = replace(table.function(function), section=0)
    text, refusals = _text(table_of(table.architecture, [alone], table.byte_order, table.source), _FUNCTION)
    return text, replace(refusals, function=np.full(len(refusals), function))


def _text(table: UnwindTable, form: _Form) -> tuple[bytes, Refusals]:
    cut = cut_overlaps(table)
    base = text_base(cut.functions)
    rows = row_texts(cut)
    pointers = personalities(cut, base), lsdas(cut)
    order, refusals = expressible_functions(table, cut, base, rows.reason, pointers)
    if not len(order):
        return b"", refusals
    pool = Pool([b"", b"\t.cfi_endproc\n"])
    texts = [pointer_texts(cut, one, order, base) for one in pointers]
    before = _starts(pool, cut, order, base, form)
    before.append(_openings(pool, cut, order, rows))
    before += [pool.add_list(one.lines) + one.of_function for one in texts]
    before.append(_barriers(pool, cut, order, rows))
    after = [_ends(pool, cut, order, form), np.ones(len(order), np.int64)]
    pieces = _arrange(cut, order, before, _row_pieces(pool, cut, rows, form), after)
    definitions = pointed_section(texts, pointers) + b"".join(one.definitions for one in texts)
    anchor = f"{label(0, base)}:\n".encode() * (bool(definitions) and not form.has_sections)
    return anchor + pool.join(pieces) + definitions, refusals


def _distances(pool: Pool, values: NDArray[np.uint64], form: _Form) -> NDArray[np.int64]:
    """The piece for each number of bytes; the empty text for 0."""
    distinct, index = np.unique(values, return_inverse=True)
    texts = [(form.distance % value if value else "").encode() for value in distinct.tolist()]
    return pool.add_list(texts) + index.reshape(-1)


def _starts(
    pool: Pool, table: UnwindTable, order: NDArray[np.int64], base: int, form: _Form
) -> list[NDArray[np.int64]]:
    """The pieces that lead to the start of each function: a section directive, and the gap after the previous one."""
    if not form.has_sections:
        return []
    functions = table.functions
    sections, first = np.unique(functions.section[order], return_index=True)
    headings = np.zeros(len(order), np.int64)
    headings[first] = pool.add_list([_heading(number, base) for number in sections.tolist()]) + np.arange(len(sections))
    start = functions.start[order] - np.uint64(base)
    ends = np.roll(start + functions.size[order], 1)
    ends[first] = 0
    return [headings, _distances(pool, start - ends, form)]


# The comment before a section directive gives the address at which to link it.
_ADDRESS = "/* {}: address {:#x} */"
_WRITTEN = re.compile(re.escape(_ADDRESS.format(SECTION, 0).encode()).replace(rb"0x0", rb"(0x[0-9a-f]{1,16})"))


def written_address(text: bytes) -> int | None:
    """The address in the first line of a text from `to_directives`; None for other texts."""
    found = _WRITTEN.match(text)
    return int(found[1], 16) if found else None


def _heading(section: int, base: int) -> bytes:
    name = f"{SECTION}.{section}" if section else SECTION
    # Every assembler accepts %nobits; @ starts a comment in ARM's.
    return f'{_ADDRESS.format(name, base)}\n\t.section {name}, "ax", %nobits\n{label(section, base)}:\n'.encode()


_FLAG_DIRECTIVES = {
    FunctionFlag.SIGNAL_FRAME: "\t.cfi_signal_frame\n",
    FunctionFlag.PAUTH_B_KEY: "\t.cfi_b_key_frame\n",
    FunctionFlag.MEMORY_TAGGING: "\t.cfi_mte_tagged_frame\n",
}


def _openings(pool: Pool, table: UnwindTable, order: NDArray[np.int64], rows: RowTexts) -> NDArray[np.int64]:
    """The piece that opens each function, with the directives that apply to all of it."""
    functions = table.functions
    columns = rows.opening[functions.run], functions.flags, functions.return_column
    keys, index = np.unique(np.stack([one[order] for one in columns], axis=1), axis=0, return_inverse=True)
    number: NDArray[np.int64] = index.reshape(-1)
    texts = [
        f"\t.cfi_startproc{' simple' * (Opening.SIMPLE in Opening(opening))}\n"
        + "".join(line for flag, line in _FLAG_DIRECTIVES.items() if flag in FunctionFlag(flags))
        + f"\t.cfi_return_column {column}\n" * (column != table.architecture.return_address)
        for opening, flags, column in keys.tolist()
    ]
    return pool.add_list([text.encode() for text in texts]) + number


def _barriers(pool: Pool, table: UnwindTable, order: NDArray[np.int64], rows: RowTexts) -> NDArray[np.int64]:
    """The piece that keeps the first row of each function out of the CIE, if that is necessary."""
    needs = (rows.opening[table.functions.run[order]] & Opening.BARRIER) > 0
    return np.where(needs, pool.add_list([f"\t{escape(Instruction(DW_CFA.nop))}\n".encode()]), 0)


def _row_pieces(pool: Pool, table: UnwindTable, rows: RowTexts, form: _Form) -> NDArray[np.int64]:
    """Two pieces for each row of the table: the distance to it, and the directives that lead to it."""
    offset = table.rows.offset
    if form.from_start:
        moved = offset
    else:
        moved = np.diff(offset, prepend=np.uint64(0))
        first = table.run_rows[:-1][np.diff(table.run_rows) > 0]
        moved[first] = offset[first]
    return np.stack([_distances(pool, moved, form), pool.add_list(rows.texts) + rows.of_row], axis=1)


def _ends(pool: Pool, table: UnwindTable, order: NDArray[np.int64], form: _Form) -> NDArray[np.int64]:
    """The piece that leads to the end of each function."""
    functions = table.functions
    size = functions.size[order]
    last = table.rows.offset[table.run_rows[functions.run[order] + np.uint32(1)] - 1]
    return _distances(pool, size if form.from_start else size - np.minimum(last, size), form)


def _arrange(
    table: UnwindTable,
    order: NDArray[np.int64],
    before: list[NDArray[np.int64]],
    row_pieces: NDArray[np.int64],
    after: list[NDArray[np.int64]],
) -> NDArray[np.int64]:
    """All pieces in order: for each function those before its rows, two per row, and those after its rows."""
    run = table.functions.run[order]
    first = table.run_rows[run]
    count = table.run_rows[run + np.uint32(1)] - first
    size = len(before) + 2 * count + len(after)
    start = np.cumsum(size) - size
    pieces = np.empty(int(size.sum()), np.int64)
    for index, column in enumerate(before):
        pieces[start + index] = column
    pieces[ranges(start + len(before), 2 * count)] = row_pieces[ranges(first, count)].reshape(-1)
    for index, column in enumerate(after):
        pieces[start + len(before) + 2 * count + index] = column
    return pieces
