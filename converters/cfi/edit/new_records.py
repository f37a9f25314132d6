"""Plan new FDEs and CIEs for an existing section, and choose the CIE of each new FDE.

Strategy: the initial rows of each CIE of the section are appended to the rows of the table, so that instructions that
start from them are written like any others. A function uses the existing CIE that makes its FDE shortest; new CIEs are
added if none fits, or if they save more bytes than they take.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ....schemas.cfi import Cie
from ....schemas.data_classes import dataclass
from ....schemas.pointers import APPLICATION_MASK, DW_EH_PE, FORMAT_MASK, FORMAT_SIZES, is_signed
from ....schemas.section import Section
from ....schemas.wire import DwarfFormat
from ...arrays import distinct_values, ranges, starts_of, starts_of_ends, values_at
from ...columns import Columns, column_of, columns
from ...distinct import number_distinct
from ...refusals import Reason, Refusals
from ...table.model import FunctionColumns, FunctionFlag, UnwindTable, concatenate, table_of
from ..choose_cies import CIE_BYTES, CieChoice, choose_cies, factors_of
from ..interpreter import InstructionRanges, RowBuilder
from ..layout import (
    AddressFields,
    FdeHeaderFields,
    FdeHeaders,
    FrameLayout,
    encoded_sizes,
    fill_headers,
    header_fields_of,
    headers_of,
    is_beyond,
    join_fdes,
    lay_out_cies,
)
from ..records import Records
from ..write import check_expressible, refusals_of
from ..write_instructions import Streams, StreamWriter

if TYPE_CHECKING:
    from numpy.typing import NDArray


NO_SLOT = -1


@dataclass(frozen=True, slots=True, eq=False)
class Additions:
    """New records: the bytes of the CIEs, and an FDE for each `function`, an index into the table. `data` has the bytes
    of the FDEs, `size` of each; `fields` has their offsets, in a slot (`is_in_place`) or after the CIEs.
    `address_fields` are those of the CIEs, `end` is the section offset after all new records."""

    cies: bytes
    cie_count: int
    function: NDArray[np.int64]
    is_in_place: NDArray[np.bool_]
    data: NDArray[np.uint8]
    size: NDArray[np.int64]
    headers: FdeHeaders
    fields: FdeHeaderFields
    address_fields: tuple[AddressFields, ...]
    end: int

    def write(self, section: NDArray[np.uint8], first: int) -> tuple[AddressFields, ...]:
        """Store the records in a section, the CIEs from offset `first`; their space must be zero. Returns the fields
        that hold addresses, which are not stored yet."""
        section[first : first + len(self.cies)] = np.frombuffer(self.cies, np.uint8)
        section[ranges(self.fields.offset, self.size)] = self.data
        return (*self.address_fields, *fill_headers(self.headers, self.fields, section))


@columns
class _Chosen(Columns):
    """The FDEs to add, one record per FDE."""

    function: NDArray[np.int64] = column_of("index", "in the table")
    cie: NDArray[np.int64] = column_of("index", "of its CIE in `Choices`")
    slot: NDArray[np.int64] = column_of("index", "of the FDE that it takes the slot of; NO_SLOT: it is appended")


def plan_additions(
    records: Records, table: UnwindTable, slot: NDArray[np.int64], first: int, pointer_size: int
) -> tuple[Additions, Refusals]:
    """Plan the records of a table's functions: each in the slot of FDE `slot` (an index or NO_SLOT) if it fits,
    otherwise from section offset `first` on. `pointer_size` is the size of addresses in FDEs of new CIEs."""
    table, reason = check_expressible(table, records.dialect, pointer_size)
    which = np.flatnonzero(reason == 0)
    known = usable_cies(records)[: None if len(which) else 0]
    writer = StreamWriter(concatenate([table, initial_rows(records, known)]))
    choice = choose_cies(writer, which)
    layout = _cie_layout(records, table, pointer_size, writer, choice)
    initial = writer.table.run_rows[len(table.run_rows) - 1 : -1]
    choices = choices_of(records, known, initial, choice, headers_of(layout))
    anywhere, inside = best_known(records, writer, choices, which, slot[which], pointer_size)
    fits = inside.cie != NO_CIE
    cie = np.where(fits, inside.cie, with_new(anywhere, choices, writer, choice, fits, layout.alignment))
    is_encoded = cie != NO_CIE
    reason[which[~is_encoded]] = Reason.RULE_LOST
    chosen = _Chosen(which, cie, np.where(fits, slot[which], NO_SLOT)).select(is_encoded)
    return _lay_out(records, layout, writer, choices, chosen, first), refusals_of(table, reason)


def _cie_layout(
    records: Records, table: UnwindTable, pointer_size: int, writer: StreamWriter, choice: CieChoice
) -> FrameLayout:
    """The layout of the new CIEs, without FDEs."""
    nothing = np.zeros(0, np.int64)
    streams = writer.write(Streams.empty(0))
    own = writer.write(choice.cie_streams())
    return FrameLayout(table, records.dialect, pointer_size, choice.keys, nothing, nothing, nothing, streams, own)


def _lay_out(
    records: Records, layout: FrameLayout, writer: StreamWriter, choices: Choices, chosen: _Chosen, first: int
) -> Additions:
    """Lay out the chosen FDEs and the new CIEs that they need."""
    functions, known = layout.table.functions, choices.known
    added = distinct_values(chosen.cie[chosen.cie >= len(known)]) - len(known)
    cies, at, address_fields = lay_out_cies(_only(layout, added))
    cie_offset = np.concatenate([records.cie_offset[known], np.zeros(len(layout.keys), np.int64)])
    cie_offset[len(known) + added] = first + at
    run = functions.run[chosen.function].astype(np.int64)
    stream, of_stream = number_distinct(run, chosen.cie)
    streams = writer.write(choices.streams(run[of_stream], chosen.cie[of_stream]))
    headers = choices.headers.select(chosen.cie)
    is_in_place = chosen.slot != NO_SLOT
    size = headers.size + streams.size[stream]
    size[~is_in_place] += -size[~is_in_place] % layout.alignment
    begin, end = (values_at(column, chosen.slot, 0) for column in (records.fdes.offset, records.fdes.end))
    starts = first + len(cies) + starts_of(np.where(is_in_place, 0, size))
    offset, entry_size = np.where(is_in_place, begin, starts[:-1]), np.where(is_in_place, end - begin, size)
    return Additions(
        cies=cies,
        cie_count=len(added),
        function=chosen.function,
        is_in_place=is_in_place,
        data=join_fdes(streams, stream, headers.size, size),
        size=size,
        headers=headers,
        fields=header_fields_of(functions, chosen.function, offset, entry_size, cie_offset[chosen.cie]),
        address_fields=tuple(replace(one, offset=one.offset + first) for one in address_fields),
        end=int(starts[-1]),
    )


def _only(layout: FrameLayout, which: NDArray[np.int64]) -> FrameLayout:
    """The layout with only some of its CIEs."""
    own = layout.initial_instructions
    chosen = tuple(layout.keys[index] for index in which.tolist())
    return replace(layout, keys=chosen, initial_instructions=replace(own, start=own.start[which], size=own.size[which]))


NO_CIE = -1
# The limit on kinds of CIEs that are tried, those with most FDEs first: real files have a few dozen at most.
MAX_KINDS = 64
_IMPOSSIBLE = 1 << 40  # the size of an FDE that cannot be encoded
_CIE_FLAGS = np.uint8(0xFF & ~FunctionFlag.HAS_LSDA)


@dataclass(frozen=True, slots=True, eq=False)
class Choices:
    """The CIEs to choose from: first those of the section, whose indices are `known`, then new ones. Per CIE: its
    `initial` row; `code` and `data`, its alignment factors in bytes; the layout of its FDEs' headers."""

    known: NDArray[np.int64]
    initial: NDArray[np.int64]
    code: NDArray[np.int64]
    data: NDArray[np.int64]
    headers: FdeHeaders

    def streams(self, run: NDArray[np.int64], cie: NDArray[np.int64]) -> Streams:
        """The streams of runs with these CIEs."""
        return Streams(run, self.initial[cie], self.code[cie], self.data[cie])


@dataclass(frozen=True, slots=True, eq=False)
class Best:
    """The CIE that makes each FDE shortest, and the FDE's size with it, before padding."""

    cie: NDArray[np.int64]
    size: NDArray[np.int64]

    @classmethod
    def none(cls, count: int) -> Best:
        """This many FDEs without a CIE."""
        return cls(np.full(count, NO_CIE), np.full(count, _IMPOSSIBLE))

    def offer(self, cie: int, which: NDArray[np.int64], size: NDArray[np.int64]) -> None:
        """Use a CIE for those FDEs `which` that it makes shorter; `size` are their sizes with it."""
        less = size < self.size[which]
        self.cie[which[less]], self.size[which[less]] = cie, size[less]


def usable_cies(records: Records) -> NDArray[np.int64]:
    """The CIEs of the section that a new FDE can use, the first of each kind."""
    cies, layout = records.cies, records.cies.columns
    kind, first = number_distinct(layout.kind, layout.personality_encoding, layout.personality)
    users = np.bincount(kind[records.cie], minlength=len(first))
    is_plain = np.array([_is_plain(*one) for one in cies.parsed], np.bool_)
    is_usable = is_plain & (layout.address_size == records.section.address_size)
    is_usable &= (layout.code_factor > 0) & (layout.data_factor != 0)
    is_usable &= _is_fixed(layout.address_encoding)
    is_usable &= _is_fixed(layout.lsda_encoding) | (layout.lsda_encoding == DW_EH_PE.omit)
    order = np.argsort(-users, kind="stable")
    chosen = first[order]
    return np.sort(chosen[is_usable[chosen]][:MAX_KINDS])


def _is_plain(cie: object, augmentation: object) -> bool:
    """Whether a CIE is 32-bit DWARF and its augmentation is completely known."""
    if not isinstance(cie, Cie) or cie.dwarf_format is not DwarfFormat.DWARF32:
        return False
    return cie.augmentation[:1] in (b"", b"z") and not getattr(augmentation, "unknown", b"")


def _is_fixed(encoding: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Which encodings have a fixed size and need no base address, or only that of the field itself."""
    fixed = [form for form, size in FORMAT_SIZES.items() if size is not None]
    found: NDArray[np.bool_] = np.isin(encoding & APPLICATION_MASK, (DW_EH_PE.absptr, DW_EH_PE.pcrel))
    found &= np.isin(encoding & FORMAT_MASK, fixed) & (encoding & DW_EH_PE.indirect == 0)
    return found


def initial_rows(records: Records, known: NDArray[np.int64]) -> UnwindTable:
    """A table without functions whose runs are the initial rows of these CIEs."""
    layout, architecture = records.cies.columns, records.architecture
    nothing = table_of(architecture, (), records.section.byte_order)
    if not len(known):
        return nothing
    builder = RowBuilder(records.section, layout, architecture.instruction_effects, records.bases)
    end = layout.end[known]
    last_row, _ = builder.interpret(InstructionRanges(end, end, np.zeros(len(known), np.uint64), known, known))
    return UnwindTable(
        architecture,
        records.section.byte_order,
        nothing.functions,
        run_rows=starts_of_ends(last_row),
        rows=builder.rows(),
        rules=builder.rules(),
        expressions=builder.expressions(),
    )


def choices_of(
    records: Records, known: NDArray[np.int64], initial: NDArray[np.int64], choice: CieChoice, headers: FdeHeaders
) -> Choices:
    """The CIEs to choose from: those of the section with the indices `known` and the initial rows `initial`, and those
    of `choice`, with these headers."""
    layout = records.cies.columns
    code, data = factors_of(choice.keys)
    both = FdeHeaders(
        headers.dialect,
        headers.byte_order,
        headers.address_size,
        np.concatenate([layout.address_encoding[known], headers.address_encoding]),
        np.concatenate([layout.lsda_encoding[known], headers.lsda_encoding]),
        np.concatenate([layout.segment_size[known].astype(np.int64), headers.segment_size]),
        np.concatenate([layout.is_augmented[known] > 0, headers.is_augmented]),
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
    writer: StreamWriter,
    choices: Choices,
    which: NDArray[np.int64],
    slot: NDArray[np.int64],
    pointer_size: int,
) -> tuple[Best, Best]:
    """The best existing CIE for each function: for an FDE anywhere, and for one in the slot of the FDE with that index,
    if any. The FDE must fit the slot, and if CIE pointers are relative the CIE must be before the slot. Addresses of
    fewer bytes than `pointer_size` have to be within reach from the whole section."""
    functions = writer.table.functions
    anywhere, inside = Best.none(len(which)), Best.none(len(which))
    begin, end = (values_at(column, slot, 0) for column in (records.fdes.offset, records.fdes.end))
    header = choices.headers.size
    run = functions.run[which].astype(np.int64)
    for number, cie in enumerate(choices.known.tolist()):
        fitting = np.flatnonzero(_agrees(records, cie, functions, which, pointer_size))
        runs, of_run = np.unique(run[fitting], return_inverse=True)
        sizes = writer.sizes(choices.streams(runs, np.full(len(runs), number)))
        size = np.where(sizes < 0, _IMPOSSIBLE, sizes + header[number])[of_run.reshape(-1)]
        anywhere.offer(number, fitting, size)
        fits = size <= end[fitting] - begin[fitting]
        if records.dialect.relative:
            fits &= records.cie_offset[cie] < begin[fitting]
        inside.offer(number, fitting[fits], size[fits])
    return anywhere, inside


def _agrees(
    records: Records, cie: int, functions: FunctionColumns, which: NDArray[np.int64], pointer_size: int
) -> NDArray[np.bool_]:
    """Which functions can use a CIE, whatever its instructions: their properties are equal and their addresses fit."""
    layout, section = records.cies.columns, records.section
    same: NDArray[np.bool_] = functions.return_column[which] == layout.return_column[cie]
    same &= functions.flags[which] & _CIE_FLAGS == layout.flags[cie] & _CIE_FLAGS
    same &= functions.personality_encoding[which] == layout.personality_encoding[cie]
    same &= functions.personality[which] == layout.personality[cie]
    same &= (functions.segment[which] == 0) & (layout.segment_size[cie] == 0)
    encoding = layout.address_encoding[cie : cie + 1]
    same &= ~is_beyond(functions.size[which], int(encoded_sizes(encoding, section.address_size)[0]), signed=False)
    same &= _reaches(int(encoding[0]), functions.start[which], section, pointer_size)
    has_lsda = functions.flags[which] & FunctionFlag.HAS_LSDA > 0
    lsda = functions.lsda[which]
    lsda_encoding = int(layout.lsda_encoding[cie])
    if lsda_encoding == DW_EH_PE.omit:
        same &= ~has_lsda
        return same
    # An absolute address of 0 means that there is no LSDA.
    is_null = (lsda == 0) & (lsda_encoding & APPLICATION_MASK == DW_EH_PE.absptr)
    same &= ~has_lsda | (_reaches(lsda_encoding, lsda, section, pointer_size) & ~is_null)
    return same


def _reaches(encoding: int, address: NDArray[np.uint64], section: Section, pointer_size: int) -> NDArray[np.bool_]:
    """Which addresses fit the encoding; PC-relative ones of `pointer_size` bytes are checked later, when they are
    stored."""
    size = int(encoded_sizes(np.array([encoding], np.uint8), section.address_size)[0])
    is_relative = encoding & APPLICATION_MASK == DW_EH_PE.pcrel
    if size >= (pointer_size if is_relative else section.address_size):
        return np.ones(len(address), np.bool_)
    if not is_relative:
        return ~is_beyond(address, size, is_signed(encoding))
    # Where in the section the field will be is not known yet: at most half of its reach may be used.
    half = np.uint64(1 << 8 * size - 2)
    is_near: NDArray[np.bool_] = address - np.uint64(section.address) + half < half + half
    return is_near & is_signed(encoding)


def with_new(
    known: Best,
    choices: Choices,
    writer: StreamWriter,
    choice: CieChoice,
    is_settled: NDArray[np.bool_],
    alignment: int,
) -> NDArray[np.int64]:
    """The best CIE for each function, existing or of `choice`; NO_CIE if none can be used. Functions in `is_settled`
    need no new CIE. `alignment` is that of entries, in bytes."""
    first_new, has_new = len(choices.known), choice.stream >= 0
    new = values_at(choice.stream_cie, choice.stream, NO_CIE)
    header = values_at(choices.headers.size, np.where(has_new, first_new + new, NO_CIE), 0)
    size = values_at(choice.encoded.size, choice.stream, 0) + header
    asks = has_new & ~is_settled
    is_forced = asks & (known.cie == NO_CIE)
    before, after = (one + -one % alignment for one in (known.size, size))
    saved = np.where(asks & ~is_forced, np.maximum(before - after, 0), 0)
    group, count = new[asks], len(choice.keys)
    gain = np.bincount(group, saved[asks], count) - CIE_BYTES - writer.sizes(choice.cie_streams())
    is_made = (gain > 0) | (np.bincount(group, is_forced[asks], count) > 0)
    takes_new = asks & values_at(is_made, new, False) & (is_forced | (saved > 0))
    return np.where(takes_new, first_new + new, known.cie)
