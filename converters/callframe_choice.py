"""Which CIE a new FDE of an existing section has: one of the section's, or one that is added.

Strategy: what each CIE of the section begins with becomes a row behind those of the table, so that streams on top of
it are written like any others. A function takes the CIE of the section with which its FDE is shortest; CIEs are added
where none will do, or where they save more than they take.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..schemas.cfi import Cie
from ..schemas.pointers import APPLICATION_MASK, DW_EH_PE, FORMAT_MASK, FORMAT_SIZES, is_signed
from ..schemas.wire import DwarfFormat
from .callframe import Records
from .callframe_cies import CIE_BYTES, CieChoice, factors_of
from .callframe_heads import Heads, encoded_sizes, is_beyond
from .callframe_streams import Streams, StreamWriter
from .runs import RowBuilder
from .runs import Streams as ReadStreams
from .unwind import FunctionColumns, FunctionFlag, UnwindTable, table_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

NO_CIE = -1
# Kinds of CIEs that are tried, those with most FDEs: real files have some dozens at most.
MAX_KINDS = 64
_IMPOSSIBLE = 1 << 40  # bytes of what cannot be
_MARKS = np.uint8(0xFF & ~FunctionFlag.HAS_LSDA)


@dataclass(frozen=True, slots=True, eq=False)
class Choices:
    """CIEs to choose from, an element each: `known` first, indices of CIEs in use in the section, then new ones. The
    row `initial` that each begins with, its units in bytes, the heads of its FDEs."""

    known: NDArray[np.int64]
    initial: NDArray[np.int64]
    code: NDArray[np.int64]
    data: NDArray[np.int64]
    heads: Heads

    def streams(self, run: NDArray[np.int64], cie: NDArray[np.int64]) -> Streams:
        """Runs on top of some of them."""
        return Streams(run, self.initial[cie], self.code[cie], self.data[cie])


@dataclass(frozen=True, slots=True, eq=False)
class Best:
    """The CIE with which each FDE is shortest, and its bytes then, before padding."""

    cie: NDArray[np.int64]
    size: NDArray[np.int64]

    @classmethod
    def none(cls, count: int) -> Best:
        """So many FDEs without any."""
        return cls(np.full(count, NO_CIE), np.full(count, _IMPOSSIBLE))

    def offer(self, cie: int, which: NDArray[np.int64], size: NDArray[np.int64]) -> None:
        """Take a CIE for those of which it makes less."""
        less = size < self.size[which]
        self.cie[which[less]], self.size[which[less]] = cie, size[less]


def usable_cies(records: Records) -> NDArray[np.int64]:
    """Of the section's CIEs that a new FDE may have, the first of each kind."""
    cies, layout = records.cies, records.cies.columns
    kinds: dict[tuple[int, ...], int] = {}
    kind = np.array(
        [
            kinds.setdefault(key, len(kinds))
            for key in zip(*(c.tolist() for c in (cies.kind, cies.personality_encoding, cies.personality)), strict=True)
        ],
        np.int64,
    )
    _, first = np.unique(kind, return_index=True)
    users = np.bincount(kind[records.cie], minlength=len(kinds))
    is_plain = np.array([_is_plain(*one) for one in cies.parsed], np.bool_)
    is_usable = is_plain & (layout.address_size == records.section.address_size)
    is_usable &= (layout.code_factor > 0) & (layout.data_factor != 0)
    is_usable &= _is_fixed(layout.address_encoding)
    is_usable &= _is_fixed(layout.lsda_encoding) | (layout.lsda_encoding == DW_EH_PE.omit)
    order = np.argsort(-users, kind="stable")
    chosen = first[order]
    return np.sort(chosen[is_usable[chosen]][:MAX_KINDS])


def _is_plain(cie: object, augmentation: object) -> bool:
    """Whether all of a CIE is known, and nothing is unusual."""
    if not isinstance(cie, Cie) or cie.dwarf_format is not DwarfFormat.DWARF32:
        return False
    return cie.augmentation[:1] in (b"", b"z") and not getattr(augmentation, "unknown", b"")


def _is_fixed(encoding: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Encodings that need no base but their own place, of formats with a fixed size."""
    fixed = [form for form, size in FORMAT_SIZES.items() if size is not None]
    found: NDArray[np.bool_] = np.isin(encoding & APPLICATION_MASK, (DW_EH_PE.absptr, DW_EH_PE.pcrel))
    found &= np.isin(encoding & FORMAT_MASK, fixed) & (encoding & DW_EH_PE.indirect == 0)
    return found


def beginnings(records: Records, known: NDArray[np.int64]) -> UnwindTable:
    """A table without functions whose runs are what some CIEs begin with."""
    layout, architecture = records.cies.columns, records.architecture
    nothing = table_of(architecture, (), records.section.byte_order)
    if not len(known):
        return nothing
    builder = RowBuilder(records.section, layout, architecture.signs_return_addresses, records.bases)
    end = layout.end[known]
    last_row, _ = builder.interpret(ReadStreams(end, end, np.zeros(len(known), np.uint64), known, known))
    return UnwindTable(
        architecture,
        records.section.byte_order,
        nothing.functions,
        run_rows=np.concatenate([np.zeros(1, np.int64), last_row]),
        rows=builder.rows(),
        rules=builder.rules(),
        expressions=builder.expressions(),
    )


def choices_of(
    records: Records, known: NDArray[np.int64], initial: NDArray[np.int64], choice: CieChoice, heads: Heads
) -> Choices:
    """The section's CIEs `known`, which begin with the rows `initial`, and those of `choice` with these heads."""
    layout = records.cies.columns
    code, data = factors_of(choice.shapes)
    both = Heads(
        heads.dialect,
        heads.byte_order,
        heads.address_size,
        np.concatenate([layout.address_encoding[known], heads.address_encoding]),
        np.concatenate([layout.lsda_encoding[known], heads.lsda_encoding]),
        np.concatenate([layout.segment_size[known].astype(np.int64), heads.segment_size]),
        np.concatenate([layout.is_augmented[known] > 0, heads.is_augmented]),
    )
    return Choices(
        known,
        np.concatenate([initial, choice.initial]),
        np.concatenate([layout.code_factor[known], code]),
        np.concatenate([layout.data_factor[known], data]),
        both,
    )


def best_known(
    records: Records,
    functions: FunctionColumns,
    writer: StreamWriter,
    choices: Choices,
    which: NDArray[np.int64],
    room: NDArray[np.int64],
) -> tuple[Best, Best]:
    """Of the section's CIEs the best for each of some functions: anywhere, and in the room of the FDE of that index
    (below 0: none), which it has to fit and, where CIE pointers count back, to come before."""
    anywhere, inside = Best.none(len(which)), Best.none(len(which))
    begin, end = (np.append(column, 0)[room] for column in (records.fdes.offset, records.fdes.end))
    head = choices.heads.size
    run = functions.run[which].astype(np.int64)
    for number, cie in enumerate(choices.known.tolist()):
        fitting = np.flatnonzero(_says_the_same(records, cie, functions, which))
        runs, of_run = np.unique(run[fitting], return_inverse=True)
        sizes = writer.sizes(choices.streams(runs, np.full(len(runs), number)))
        size = np.where(sizes < 0, _IMPOSSIBLE, sizes + head[number])[of_run.reshape(-1)]
        anywhere.offer(number, fitting, size)
        has_room = size <= end[fitting] - begin[fitting]
        if records.dialect.relative:
            has_room &= records.cie_offset[cie] < begin[fitting]
        inside.offer(number, fitting[has_room], size[has_room])
    return anywhere, inside


def _says_the_same(
    records: Records, cie: int, functions: FunctionColumns, which: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which functions a CIE is right for but for its instructions, and has room for the addresses of."""
    cies, layout = records.cies, records.cies.columns
    address_size = records.section.address_size
    same: NDArray[np.bool_] = functions.return_column[which] == cies.return_column[cie]
    same &= functions.flags[which] & _MARKS == cies.flags[cie] & _MARKS
    same &= functions.personality_encoding[which] == cies.personality_encoding[cie]
    same &= functions.personality[which] == cies.personality[cie]
    same &= (functions.segment[which] == 0) & (layout.segment_size[cie] == 0)
    encoding = layout.address_encoding[cie : cie + 1]
    same &= ~is_beyond(functions.size[which], int(encoded_sizes(encoding, address_size)[0]), signed=False)
    same &= _reaches(int(encoding[0]), functions.start[which], address_size)
    has_lsda = functions.flags[which] & FunctionFlag.HAS_LSDA > 0
    lsda = functions.lsda[which]
    lsda_encoding = int(layout.lsda_encoding[cie])
    if lsda_encoding == DW_EH_PE.omit:
        same &= ~has_lsda
        return same
    # Stored as it is, an address of 0 would be none.
    is_null = (lsda == 0) & (lsda_encoding & APPLICATION_MASK == DW_EH_PE.absptr)
    same &= ~has_lsda | (_reaches(lsda_encoding, lsda, address_size) & ~is_null)
    return same


def _reaches(encoding: int, address: NDArray[np.uint64], address_size: int) -> NDArray[np.bool_]:
    """Which addresses can be stored; of those that count from their place that is seen when they are."""
    size = int(encoded_sizes(np.array([encoding], np.uint8), address_size)[0])
    if encoding & APPLICATION_MASK == DW_EH_PE.pcrel or size >= address_size:
        return np.ones(len(address), np.bool_)
    return ~is_beyond(address, size, is_signed(encoding))


def with_new(
    known: Best,
    choices: Choices,
    writer: StreamWriter,
    choice: CieChoice,
    is_settled: NDArray[np.bool_],
    alignment: int,
) -> NDArray[np.int64]:
    """For each function the CIE that is best: of those known or of `choice`; NO_CIE where none will do. `is_settled`
    are functions that ask for none. `alignment` is what the size of an entry is a multiple of."""
    first_new, has_new = len(choices.known), choice.job >= 0
    new = np.append(choice.job_cie, NO_CIE)[choice.job]
    head = np.append(choices.heads.size, 0)[np.where(has_new, first_new + new, NO_CIE)]
    size = np.append(writer.sizes(choice.streams()), 0)[choice.job] + head
    asks = has_new & ~is_settled
    is_forced = asks & (known.cie == NO_CIE)
    before, after = (one + -one % alignment for one in (known.size, size))
    saved = np.where(asks & ~is_forced, np.maximum(before - after, 0), 0)
    group, count = new[asks], len(choice.shapes)
    gain = np.bincount(group, saved[asks], count) - CIE_BYTES - writer.sizes(choice.cie_streams())
    is_made = (gain > 0) | (np.bincount(group, is_forced[asks], count) > 0)
    takes_new = asks & np.append(is_made, False)[new] & (is_forced | (saved > 0))
    return np.where(takes_new, first_new + new, known.cie)
