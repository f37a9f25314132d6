"""Call frame instructions of a section as GNU readelf 2.47 prints them (`-wf`).

Strategy: kernels write the text. Runs, which many functions share, are decoded and formatted once, before anything is
printed; then some thousand entries at a time are joined from their headings and the texts of their runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ....schemas.cfi import NO_EFFECTS, Dialect
from ....schemas.data_classes import dataclass
from ....schemas.section import Section
from ...arrays import Item, starts_of
from ...dwarf.expression_text import expression_text
from ...kernels import engine, views
from ...kernels.calls import reader_of, refuse
from ...kernels.cfi.protocol import HEADING_WORDS, RunStatus
from ...strings import PART
from ...table.lookup import ChosenPcs
from ..interpreter import CieColumns, InstructionRanges, instruction_table
from .entries import DecodedEntries, entries_at, read_entries, record_of
from .headings import heading_text
from .instructions import expression_at, instruction_forms

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ...kernels.cfi.decoder import Instructions
    from ...kernels.cfi.frame_text import Headings, RunTexts, Words

# The number of entries whose headings are in memory at once.
CHUNK = 1 << 15
# The text of instructions has 17 to 25 bytes per byte of them in most files; if it has more, the memory is doubled.
_TEXT_PER_BYTE = 32


@dataclass(frozen=True, slots=True, eq=False)
class _Runs:
    """The texts of runs, and which of them contain DW_CFA_set_loc."""

    texts: RunTexts
    with_set_loc: NDArray[np.bool_]

    def is_absolute(self) -> NDArray[np.bool_]:
        return self.with_set_loc


def instructions_text(section: Section, dialect: Dialect, machine: str, at: ChosenPcs | None) -> Iterator[bytes]:
    """The text of the entries, in pieces. Raises ParseError before the first."""
    return _pieces(read_entries(section, dialect, partial(_run_texts, machine)), dialect, at)


def _pieces(entries: DecodedEntries[_Runs], dialect: Dialect, at: ChosenPcs | None) -> Iterator[bytes]:
    shown = entries_at(entries, dialect, at)
    kernel = engine.cfi.frame_text
    out = np.empty(PART, np.uint8)
    output = kernel.Output(*views(out))
    for begin in range(0, len(shown), CHUNK):
        which = shown[begin : begin + CHUNK]
        headings, run, done = _headings(entries, which), entries.run[which], 0
        while done < len(which):
            done = kernel.write_entries(headings, entries.decoded.texts, *views(run), done, output)
            if output.at:
                yield out[: output.at].tobytes()
                output.at = 0
            else:
                out = _grown(out, 0)
                output.write_to(*views(out))


def _words(texts: Sequence[bytes]) -> Words:
    starts = starts_of(np.array([len(text) for text in texts], np.int64))
    return engine.cfi.frame_text.Words(*views(np.frombuffer(b"".join(texts), np.uint8), starts))


def _run_texts(machine: str, section: Section, layout: CieColumns, streams: InstructionRanges) -> _Runs:
    """The texts of streams; `layout` is that of CIEs with twins. Raises ParseError."""
    size, count = int((streams.end - streams.start).sum()), len(streams.start)
    # One gap per byte, the size of the shortest instruction. Untouched pages take no memory.
    gap, gap_pc = np.empty(size, np.int64), np.empty(size, np.uint64)
    end, last_gap = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    is_absolute = np.zeros(count, np.uint8)
    text = np.empty(_TEXT_PER_BYTE * size, np.uint8)
    reader, output = reader_of(section), engine.cfi.frame_text.Output(*views(text))
    table, (forms, register_word, words) = instruction_table(NO_EFFECTS), instruction_forms(machine)
    writer = engine.cfi.frame_text.RunWriter(
        reader,
        layout.for_kernels(),
        streams.for_kernels(),
        _one_instruction(table),
        _words(words),
        output,
        *views(table, forms, register_word, end[1:], gap, gap_pc, last_gap[1:], is_absolute),
    )
    expressions = _Expressions(section, machine)
    while (status := writer.write()) != RunStatus.DONE:
        if status == RunStatus.FAULT:
            refuse(section, record_of(layout, streams, writer.stream), reader)
        if status == RunStatus.BLOCK:
            address_size = int(layout.address_size[streams.cie[writer.stream]])
            writer.give_block(expressions.text(writer.block_start, writer.block_end, address_size))
        else:
            text = _grown(text, output.at)
            output.write_to(*views(text))
    return _Runs(engine.cfi.frame_text.RunTexts(*views(text, end, gap, gap_pc, last_gap)), is_absolute > 0)


def _one_instruction(table: NDArray[np.uint8]) -> Instructions:
    """Space for one instruction."""
    opcode, pc = np.empty(1, np.uint8), np.empty(1, np.uint64)
    begin, end, first, second = np.empty((4, 1), np.int64)
    return engine.cfi.decoder.Instructions(*views(table, opcode, begin, end, first, second, pc))


def _grown(text: NDArray[np.uint8], used: int) -> NDArray[np.uint8]:
    """Twice the memory, with the bytes that are used."""
    larger = np.empty(2 * len(text) + 64, np.uint8)
    larger[:used] = text[:used]
    return larger


class _Expressions:
    """The texts of the expressions of a section: each is made once."""

    def __init__(self, section: Section, machine: str) -> None:
        self._section = section
        self._machine = machine
        self._texts: dict[tuple[bytes, int], Words] = {}

    def text(self, start: int, end: int, address_size: int) -> Words:
        """The text of the expression at these section offsets."""
        key = bytes(self._section.data[start:end]), address_size
        if key not in self._texts:
            found = expression_text(expression_at(self._section, start, end, address_size), self._machine)
            self._texts[key] = _words([found.encode()])
        return self._texts[key]


def _headings(entries: DecodedEntries[_Runs], entry: NDArray[np.int64]) -> Headings:
    """The headings of some entries. The words of those that are not FDEs, or have a segment, are made here."""
    present = np.flatnonzero(~entries.is_terminator[entry])
    one = entry[present]
    is_word = np.ones(len(entry), np.bool_)
    is_word[present] = ~entries.is_fde[one] | (entries.segment_size(one) > 0)
    texts = [heading_text(entries, number, False) for number in entry[is_word].tolist()]
    word = np.where(is_word, len(HEADING_WORDS) - 1 + np.cumsum(is_word), -1)

    def spread(values: NDArray[Item]) -> NDArray[Item]:
        """A column of all entries; 0 for terminators."""
        column = np.zeros(len(entry), values.dtype)
        column[present] = values
        return column

    start = entries.start[entry]
    columns = (
        word,
        entries.offset[entry],
        spread(entries.length(one)),
        spread(entries.entry_id(one)),
        spread(entries.cie_offset[entries.cie[one]]),
        start,
        start + entries.size[entry],
        spread(2 * entries.address_size(one)),
        spread(2 * entries.id_size(one)),
        spread(entries.data[one]),
        spread(entries.instructions[one] - entries.data[one]),
    )
    section = np.frombuffer(entries.section.data, np.uint8)
    return engine.cfi.frame_text.Headings(_words([*HEADING_WORDS, *texts]), *views(section, *columns))
