"""Write row runs as instruction streams: the caller of the kernel that writes them.

Strategy: a stream is a run together with a CIE, which is given by its initial row. The arguments of the kernel that
concern the table are made once; it then computes sizes, or writes streams whose sizes are known.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from ...schemas import cfi
from ...schemas.cfi import Effect, MachineEffects, Operand
from ...schemas.data_classes import dataclass
from ..arrays import stable_order, starts_of, starts_of_ends
from ..columns import Columns, column_of, columns
from ..kernels import engine, views
from ..rules import RuleKind
from ..table.distinct import content_numbers, with_distinct_expressions
from ..table.model import ROW_VALUES, UnwindTable
from .interpreter import RULE_KINDS, instruction_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

NO_ROW = -1
_NO_OPCODE = 255


@cache
def opcode_choices(effects: MachineEffects) -> NDArray[np.uint8]:
    """The opcodes with each effect on a machine, as kernels take them: standard opcodes, or vendor opcodes if there is
    no standard one.

    Opcodes with an address operand are left out: their bytes would depend on the address of the function.
    """
    by_effect: dict[Effect, list[int]] = {}
    of_machine = dict(effects)
    for opcode, spec in cfi.INSTRUCTIONS.items():
        if Operand.ADDRESS not in spec.operands:
            by_effect.setdefault(of_machine.get(opcode, spec.effect), []).append(opcode)
    choices = np.full((256, 1 + max(map(len, by_effect.values()))), _NO_OPCODE, np.uint8)
    for effect, opcodes in by_effect.items():
        standard = [one for one in opcodes if not cfi.LO_USER <= one <= cfi.HI_USER]
        chosen = standard or opcodes
        choices[effect, : len(chosen)] = chosen
    return choices


@cache
def rule_effects() -> NDArray[np.uint8]:
    """The effect that sets a rule of each kind, as kernels take it; 0 if there is none."""
    effects = np.zeros(len(RuleKind), np.uint8)
    for effect, kind in RULE_KINDS.items():
        effects[kind] = effect
    return effects


@cache
def value_effects() -> NDArray[np.uint8]:
    """The effect that sets each of a row's values, as kernels take it."""
    return np.array([cfi.INSTRUCTIONS[opcode].effect for opcode in cfi.ROW_VALUES], np.uint8)


# Space for the instructions of a row, which take 5 bytes on average; if it does not suffice, they are written again.
ROW_SPACE = 8


@columns
class Streams(Columns):
    """Instruction streams to write."""

    run: NDArray[np.int64] = column_of("index", "of the run; NO_ROW for the initial instructions of a CIE")
    initial: NDArray[np.int64] = column_of("row index", "of the CIE's initial row; NO_ROW for none")
    code_factor: NDArray[np.int64] = column_of("bytes")
    data_factor: NDArray[np.int64] = column_of("bytes")


@dataclass(frozen=True, slots=True, eq=False)
class EncodedStreams:
    """The bytes of streams: each is data[start:start + size]. The size is -1 if no instructions can express it."""

    data: NDArray[np.uint8]
    start: NDArray[np.int64]
    size: NDArray[np.int64]

    def select(self, which: NDArray[np.int64]) -> EncodedStreams:
        """Some of the streams."""
        return EncodedStreams(self.data, self.start[which], self.size[which])

    def replaced(self, which: NDArray[np.int64], by: EncodedStreams) -> EncodedStreams:
        """The streams, with others in place of those `which`."""
        if not len(which):
            return self
        start, size = self.start.copy(), self.size.copy()
        start[which], size[which] = len(self.data) + by.start, by.size
        return EncodedStreams(np.concatenate([self.data, by.data]), start, size)


class StreamWriter:
    """A table prepared for the kernel. `content` is a number for each row; rows with equal rules have the same."""

    def __init__(self, table: UnwindTable) -> None:
        self.table = table = with_distinct_expressions(table)
        self.content = content_numbers(table)
        kernels, rows = engine.cfi.row_writer, table.rows
        restores, remembers, covered, following, saved = (np.empty(len(rows), np.int64) for _ in range(5))
        previous = _previous(table.run_rows, self.content)
        effects = table.architecture.instruction_effects
        values = [getattr(rows, name).view(np.int64) for name in cfi.ROW_VALUES.values()]
        tables = (instruction_table(effects), opcode_choices(effects), rule_effects(), value_effects())
        self._writer = kernels.RowWriter(
            table.byte_order == "big",
            table.address_size,
            engine.shared.rows.Rows(**rows.views(without=ROW_VALUES)),
            engine.shared.rows.Rules(**table.rules.views()),
            engine.cfi.instruction_writer.Expressions(*views(*_joined(table.expressions))),
            kernels.Brackets(*views(previous, restores, remembers, covered, following, saved)),
            *views(*tables, np.stack(values, axis=1), np.empty(0, np.uint8)),
        )

    def sizes(self, streams: Streams) -> NDArray[np.int64]:
        """The size of each stream; -1 if no instructions can express it."""
        return self._write(streams, np.empty(0, np.uint8))[1]

    def write(self, streams: Streams) -> EncodedStreams:
        """The bytes of each stream."""
        run = streams.run[streams.run != NO_ROW]
        rows = self.table.run_rows[run + 1] - self.table.run_rows[run]
        data = np.empty(ROW_SPACE * (len(streams) + int(rows.sum())), np.uint8)
        start, size = self._write(streams, data)
        if (total := int(np.maximum(size, 0).sum())) > len(data):
            data = np.empty(total, np.uint8)
            self._write(streams, data)
        return EncodedStreams(data[:total], start, size)

    def _write(self, streams: Streams, out: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        end = np.empty(len(streams.run), np.int64)
        is_cie, run_rows = streams.run == NO_ROW, self.table.run_rows
        first = np.where(is_cie, 0, run_rows[streams.run])
        last = np.where(is_cie, 0, run_rows[streams.run + 1])
        self._writer.write(*views(first, last, streams.initial, streams.code_factor, streams.data_factor, out, end))
        bare = np.where(end < 0, -1 - end, end)
        start = starts_of_ends(bare)[:-1]
        return start, np.where(end < 0, -1, bare - start)


def _joined(expressions: tuple[bytes, ...]) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """The concatenated bytes, and the start and size of each expression in them."""
    size = np.array([len(one) for one in expressions], np.int64)
    return np.frombuffer(b"".join(expressions), np.uint8), starts_of(size)[:-1], size


def _previous(run_rows: NDArray[np.int64], content: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each row the preceding row in its run with the same rules, or NO_ROW."""
    start = np.repeat(run_rows[:-1], np.diff(run_rows))
    order = stable_order(content)
    before, row = order[:-1], order[1:]
    is_same = (content[row] == content[before]) & (before >= start[row])
    previous = np.full(len(content), NO_ROW, np.int64)
    previous[row[is_same]] = before[is_same]
    return previous
