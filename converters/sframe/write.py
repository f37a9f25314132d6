"""The table as an `.sframe` section of version 2 (errata 1) or 3 (the SFrame Format); read.py does the reverse.

Strategy: the rows of each run are encoded once (kernels/sframe/fres.py) and split into segments: ranges that can be
encoded and ranges that cannot. The former become the FDEs of each function of that run. FDEs with equal segments and
start widths share one block of FREs. Only the last step, `Encoded.at`, needs the section's address.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ...schemas import sframe
from ...schemas.arguments import checked, optional
from ...schemas.data_classes import dataclass
from ...schemas.derive import bit_position, dtype_of
from ...schemas.section import BuildError, ByteOrder, Section
from ...schemas.sframe import SFRAME_F, SFRAME_FDE_TYPE, SFRAME_FRE_TYPE, SFRAME_V3_FDE_TYPE, SFRAME_VERSION
from ...schemas.steps import Step
from ..arch.table import Architecture
from ..arrays import starts_of
from ..columns import Columns, column_of, columns
from ..distinct import number_distinct
from ..kernels import engine, views
from ..refusals import Reason, Refusals
from ..table.model import FunctionColumns, FunctionFlag, UnwindTable
from ..table.pcmask import split_repetitive
from .fres import abi_of
from .section import FRE_WIDTHS
from .write_fres import (
    Blocks,
    FdePlan,
    Options,
    Pieces,
    Segments,
    SframeRows,
    fre_types,
    project_rows,
    runs_of,
    share_blocks,
    split_runs,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..kernels.sframe.protocol import PaddingCode

Compact = Literal["none", "share", "merge"]
WRITTEN = (SFRAME_VERSION.V2, SFRAME_VERSION.V3)
MAX_FUNCTION_SIZE = 0xFFFFFFFF
MAX_REPETITION = 0xFF


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """A section that lacks only its address.

    One element per encoded range: `function`, the index of its function in the table, `range_start`, absolute, and
    `range_size` in bytes. One element per FDE: `start`, absolute, and `fdes`, the record of the version. With
    `compact="merge"` an FDE may cover several ranges. `fres`: the bytes of the FRE sub-section, with `num_fres` FREs.
    `flags`: those of the header besides FDE_SORTED.
    """

    architecture: Architecture
    byte_order: ByteOrder
    version: SFRAME_VERSION
    compact: Compact
    function: NDArray[np.int64]
    range_start: NDArray[np.uint64]
    range_size: NDArray[np.uint64]
    start: NDArray[np.uint64]
    fdes: NDArray[np.void]
    fres: NDArray[np.uint8]
    num_fres: int
    flags: SFRAME_F

    def __len__(self) -> int:
        """The size of the section in bytes."""
        return sframe.HEADER_SIZE + self.fdes.nbytes + self.fres.nbytes

    def at(self, section_address: int) -> bytes:
        """The section for a virtual address. Raises BuildError if a start does not fit its field."""
        return b"".join(self.pieces_at(section_address))

    def pieces_at(self, section_address: int) -> tuple[memoryview, ...]:
        """As `at`, in pieces: its header, FDEs and FREs."""
        if not 0 <= section_address < 1 << 64:
            raise BuildError(".sframe", None, "section_address", f"{section_address:#x} is not an address")
        base = np.full(len(self.fdes), section_address, np.uint64)
        if self.flags & SFRAME_F.FDE_FUNC_START_PCREL:
            base += np.uint64(sframe.HEADER_SIZE) + np.arange(len(base), dtype=np.uint64) * np.uint64(
                self.fdes.itemsize
            )
        distance = (self.start - base).astype(np.int64)
        name = sframe.START_FIELDS[self.version]
        limit = np.iinfo(self.fdes.dtype[name]).max
        far = np.flatnonzero((distance < -limit - 1) | (distance > limit))
        if len(far):
            reason = f"{int(self.start[far[0]]):#x} is more than 2 GiB from the section at {section_address:#x}"
            raise BuildError(".sframe", None, f"FDE[{far[0]}].{name}", reason)
        self.fdes[name] = distance
        parts = self._header(self.flags | SFRAME_F.FDE_SORTED), self.fdes, self.fres
        return tuple(one.view(np.uint8).data for one in parts)

    def without_starts(self) -> bytes:
        """The section for a relocatable file. It is not flagged as sorted: only the linker sets the starts. Raises
        BuildError without FDE_FUNC_START_PCREL, for which there is no relocation."""
        if not self.flags & SFRAME_F.FDE_FUNC_START_PCREL:
            raise BuildError(".sframe", None, "pcrel", "starts in a relocatable file are relative to their own fields")
        self.fdes[sframe.START_FIELDS[self.version]] = 0
        return self._header(self.flags).tobytes() + self.fdes.tobytes() + self.fres.tobytes()

    def _header(self, flags: SFRAME_F) -> NDArray[np.void]:
        abi = abi_of(self.architecture)
        header = np.zeros(1, dtype_of(sframe.Header, self.byte_order))
        header["magic"] = sframe.SFRAME_MAGIC
        header["version"] = self.version
        header["flags"] = flags
        header["abi_arch"] = abi.abi_arch
        header["cfa_fixed_fp_offset"] = sframe.FIXED_OFFSET_INVALID
        header["cfa_fixed_ra_offset"] = abi.fixed_ra_offset or sframe.FIXED_OFFSET_INVALID
        header["num_fdes"] = len(self.fdes)
        header["num_fres"] = self.num_fres
        header["fre_len"] = self.fres.nbytes
        header["freoff"] = self.fdes.nbytes
        return header


@checked(table=UnwindTable, section_address=int, compact=optional(str))
def to_sframe(
    table: UnwindTable,
    version: int = 2,
    section_address: int = 0,
    compact: Compact | None = None,
    max_rows: int | None = None,
    pcrel: bool = True,
    frame_pointer: bool = False,
) -> tuple[bytes, Refusals]:
    """The table as an `.sframe` section for the virtual address `section_address`, and the ranges that it lacks.

    Architecture and byte order are the table's. `compact`: "none"; "share": functions with equal rows share FREs;
    "merge": additionally, adjacent functions with only padding between them become one FDE of at most `max_rows` FREs,
    for which the table needs its code. The default is "share", but "none" for a big-endian table: libsframe on a
    little-endian host refuses a big-endian section with shared FREs ("merge" shares none there, either).

    Version 2 only: with `pcrel` False starts are relative to the section, without the flag FDE_FUNC_START_PCREL, as
    before errata 1 (binutils 2.44 reads nothing else). `frame_pointer` sets the flag FRAME_POINTER: the caller knows
    that all functions of the file preserve the frame pointer. Raises BuildError for an architecture, a version or a
    flag that cannot be written, and for a start that does not fit its field.
    """
    encoded, refusals = sframe_from_table(table, version, compact, max_rows, pcrel, frame_pointer)
    return encoded.at(section_address), refusals


def sframe_from_table(
    table: UnwindTable,
    version: int = 2,
    compact: Compact | None = None,
    max_rows: int | None = None,
    pcrel: bool = True,
    frame_pointer: bool = False,
) -> tuple[Encoded, Refusals]:
    """As `to_sframe`, without the address."""
    return sframe_from_functions(functions_of_table(table, version), compact, max_rows, pcrel, frame_pointer)


@dataclass(frozen=True, slots=True, eq=False)
class SframeFunctions:
    """The functions of a table, `parent` the index of each there, with their runs of rows as FREs of a version; run r
    has the rows run_rows[r] up to run_rows[r + 1]. The table, which is far larger, is not needed any more."""

    architecture: Architecture
    byte_order: ByteOrder
    version: SFRAME_VERSION
    code: tuple[Section, ...]
    functions: FunctionColumns
    parent: NDArray[np.int64]
    run_rows: NDArray[np.int64]
    rows: SframeRows


def written_version(version: int) -> SFRAME_VERSION:
    """The version of that number. Raises BuildError if it cannot be written."""
    if version not in WRITTEN:
        raise BuildError(".sframe", None, "version", f"version {version} cannot be written, expected 2 or 3")
    return SFRAME_VERSION(version)


def functions_of_table(table: UnwindTable, version: int = 2) -> SframeFunctions:
    """The first half of `sframe_from_table`, after which the table is not needed."""
    known = written_version(version)
    if table.functions.section.any():
        raise BuildError(".sframe", None, "functions", "the file is relocatable: addresses are not final")
    whole = split_repetitive(table)
    about = table.architecture, table.byte_order, known, table.code
    rows = project_rows(whole.tables, known)
    return SframeFunctions(*about, whole.functions, whole.parent, runs_of(whole.tables), rows)


def sframe_from_functions(
    found: SframeFunctions,
    compact: Compact | None = None,
    max_rows: int | None = None,
    pcrel: bool = True,
    frame_pointer: bool = False,
) -> tuple[Encoded, Refusals]:
    """The second half of `sframe_from_table`."""
    is_foreign = found.byte_order == "big"
    if compact is None:
        compact = "none" if is_foreign else "share"
    check_compact(compact, max_rows)
    flags = _flags(found.version, pcrel, frame_pointer)
    options = Options(found.version, compact == "share" or (compact == "merge" and not is_foreign))
    with Step(f".sframe version {int(found.version)}, {compact}") as step:
        encoded, refusals = _encoded(found, compact, max_rows, options, flags)
        step.count(len(encoded.fdes), "FDEs")
        step.count(encoded.num_fres, "FREs")
        step.count(len(refusals), "ranges refused")
    return encoded, refusals


def _encoded(
    found: SframeFunctions, compact: Compact, max_rows: int | None, options: Options, flags: SFRAME_F
) -> tuple[Encoded, Refusals]:
    """All but the checks of `sframe_from_functions`."""
    segments = split_runs(found.run_rows, found.rows, found.version)
    pieces, refusals = _pieces(found.functions, found.architecture, segments)
    plan = FdePlan(found.functions, found.rows, segments, pieces)
    if compact == "merge":
        from .merge_fdes import DEFAULT_MAX_ROWS, Gaps, group_fdes

        gaps = Gaps(found.code, _padding_code(found.architecture), refusals.start)
        plan = group_fdes(plan, options, gaps, max_rows or DEFAULT_MAX_ROWS)
    fdes, fres, num_fres = _encode(plan, options, found.byte_order)
    encoded = Encoded(
        architecture=found.architecture,
        byte_order=found.byte_order,
        version=options.version,
        compact=compact,
        # Callers know only whole functions: the parts of a split one are reported as that function.
        function=found.parent[pieces.function],
        range_start=pieces.start,
        range_size=pieces.size,
        start=plan.pieces.start,
        fdes=fdes,
        fres=fres,
        num_fres=num_fres,
        flags=flags,
    )
    return encoded, replace(refusals, function=found.parent[refusals.function])


def check_compact(compact: str, max_rows: int | None = None) -> None:
    """Raise BuildError for arguments that `to_sframe` does not accept."""
    if compact not in ("none", "share", "merge"):
        raise BuildError(".sframe", None, "compact", f"{compact!r} is not one of 'none', 'share', 'merge'")
    if max_rows is not None and (max_rows < 1 or compact != "merge"):
        raise BuildError(".sframe", None, "max_rows", f"is {max_rows}: it must be at least 1, and only for 'merge'")


def _flags(version: int, pcrel: bool, frame_pointer: bool) -> SFRAME_F:
    """The header's flags besides FDE_SORTED. Raises BuildError for those that only version 2 has."""
    for name, is_asked in (("pcrel", not pcrel), ("frame_pointer", frame_pointer)):
        if is_asked and version != SFRAME_VERSION.V2:
            raise BuildError(".sframe", None, name, f"has no choice in version {version}, only in version 2")
    flags = SFRAME_F.FDE_FUNC_START_PCREL if pcrel else SFRAME_F(0)
    return flags | SFRAME_F.FRAME_POINTER if frame_pointer else flags


def _padding_code(architecture: Architecture) -> PaddingCode:
    """The instruction set of the padding that FDEs may be merged across. Raises BuildError if it is unknown."""
    if architecture.padding_code is None:
        reason = f"'merge' is not supported for {architecture.name}: its padding instructions are unknown"
        raise BuildError(".sframe", None, "compact", reason)
    return architecture.padding_code


def _whole_function_reasons(
    functions: FunctionColumns, architecture: Architecture, split: Segments
) -> NDArray[np.uint8]:
    """For each function the reason why none of it can be encoded, or 0."""
    reason = np.zeros(len(functions.start), np.uint8)
    reason[functions.return_column != architecture.return_address] = Reason.RETURN_COLUMN
    reason[functions.segment != 0] = Reason.SEGMENT
    reason[functions.size > MAX_FUNCTION_SIZE] = Reason.TOO_LARGE
    if not functions.repetition.any():
        return reason
    # A repetitive block is looked up as a whole: it cannot be split around a gap.
    refused = starts_of(split.reason != 0)
    has_gap = (refused[split.first[1:]] - refused[split.first[:-1]])[functions.run] > 0
    reason[(functions.repetition > 0) & (has_gap | (functions.repetition > MAX_REPETITION))] = Reason.REPETITION
    return reason


@columns
class _Ranges(Columns):
    """Ranges of functions."""

    function: NDArray[np.int64] = column_of("index")
    segment: NDArray[np.int64] = column_of("index")
    start: NDArray[np.uint64] = column_of("address")
    size: NDArray[np.uint64] = column_of("bytes")
    reason: NDArray[np.uint8] = column_of(Reason, "0 if it can be encoded")


def _pieces(functions: FunctionColumns, architecture: Architecture, split: Segments) -> tuple[Pieces, Refusals]:
    """The segments of all functions as address ranges: those that can be encoded, and those that are refused."""
    reason = _whole_function_reasons(functions, architecture, split)
    order = np.argsort(functions.start, kind="stable")
    order = order[functions.size[order] > 0]
    kernels = engine.sframe.pieces
    columns = views(order, functions.start, functions.size, functions.run, reason)
    sorted_functions, segments = kernels.Functions(*columns), split.for_kernels()
    # Most files have one range per function, and refuse nothing; what has no space is counted.
    encoded, refused = _Ranges.empty(len(order)), _Ranges.empty(0)
    while True:
        to_fill = kernels.Ranges(**encoded.views()), kernels.Ranges(**refused.views())
        kernels.cut(sorted_functions, segments, *to_fill)
        counts = to_fill[0].count, to_fill[1].count
        if counts[0] <= len(encoded) and counts[1] <= len(refused):
            break
        encoded, refused = _Ranges.empty(counts[0]), _Ranges.empty(counts[1])
    encoded = encoded.select(slice(counts[0]))
    pieces = Pieces(encoded.function, encoded.segment, encoded.start, encoded.size)
    return pieces, Refusals(refused.function, refused.start, refused.start + refused.size, refused.reason)


@columns
class _Attributes(Columns):
    """The fields of an FDE besides its start, size and FREs."""

    fre_type: NDArray[np.uint8] = column_of(SFRAME_FRE_TYPE)
    info: NDArray[np.uint8] = column_of("`FdeInfo` or `FdeInfoV3`", "func_info")
    info2: NDArray[np.uint8] = column_of(SFRAME_V3_FDE_TYPE, "func_info2")
    repetition: NDArray[np.uint16] = column_of("bytes", "func_rep_size")


def _attributes(plan: FdePlan, version: SFRAME_VERSION) -> _Attributes:
    pieces = plan.pieces
    repetition = plan.functions.repetition[pieces.function]
    types = fre_types(plan.segments.last_start(plan.rows, pieces.segment))
    info2 = plan.segments.is_flex(plan.rows, pieces.segment) * np.uint8(SFRAME_V3_FDE_TYPE.FLEX)
    return _Attributes(types, types | _flag_bits(plan.functions, pieces, version), info2, repetition)


def _encode(plan: FdePlan, options: Options, byte_order: ByteOrder) -> tuple[NDArray[np.void], NDArray[np.uint8], int]:
    """The FDE records without their starts, the bytes of the FRE sub-section, and the number of FREs there."""
    version, pieces = options.version, plan.pieces
    attributes = _attributes(plan, version)
    blocks, block = _blocks(plan, attributes, options, byte_order)
    kept, place = _stored_blocks(blocks, block) if options.shares else (np.arange(len(blocks)), np.arange(len(blocks)))
    stored, counts = blocks.select(kept), blocks.counts()
    offsets = stored.offsets(counts[kept])
    fdes = np.zeros(len(pieces), dtype_of(sframe.FDE_RECORDS[version], byte_order))
    fdes["func_size"] = pieces.size
    fdes["func_start_fre_off"] = offsets[place[block]]
    fres = stored.encode(offsets)
    if version >= SFRAME_VERSION.V3:
        records = np.zeros(len(stored), dtype_of(sframe.FuncDescAttribute, byte_order))
        records["func_info2"] = attributes.info2[stored.fde]
        _describe(records, counts[kept], attributes.select(stored.fde))
        raw = records.view(np.uint8).reshape(-1, sframe.ATTRIBUTE_SIZE)
        fres[offsets[:-1, None] + np.arange(sframe.ATTRIBUTE_SIZE)] = raw
    else:
        _describe(fdes, counts[block], attributes)
    return fdes, fres, int(counts[kept].sum())


def _describe(records: NDArray[np.void], num_fres: NDArray[np.int64], attributes: _Attributes) -> None:
    """Set the fields that are in the FDE, or, from version 3 on, in the attributes before its FREs."""
    records["func_num_fres"] = num_fres
    records["func_info"] = attributes.info
    records["func_rep_size"] = attributes.repetition


def _blocks(
    plan: FdePlan, attributes: _Attributes, options: Options, byte_order: ByteOrder
) -> tuple[Blocks, NDArray[np.int64]]:
    """The blocks of FREs to write, and the index of each FDE's block. With `shares` FDEs of one segment share one."""
    segment = plan.pieces.segment
    group: NDArray[np.integer[Any]] = attributes.fre_type
    groups, header = len(FRE_WIDTHS), 0
    if options.version >= SFRAME_VERSION.V3:
        # Attributes are part of the block: only FDEs with equal attributes can share one.
        header = sframe.ATTRIBUTE_SIZE
        group, kinds = number_distinct(attributes.repetition, attributes.info2, attributes.info)
        groups = max(1, len(kinds))
    fde = block = np.arange(len(segment))
    if options.shares:
        key = segment * groups
        key += group
        fde, place = _by_first_use(key, len(plan.segments.reason) * groups)
        block = place[key]
    of_block = fde, segment[fde], FRE_WIDTHS[attributes.fre_type[fde]], group[fde].astype(np.int64)
    return Blocks(byte_order, plan.rows, plan.segments, *of_block, header), block


def _stored_blocks(blocks: Blocks, block: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The indices of the blocks to store; and for each block the index, among these, of the one whose bytes it uses.

    `block` is the index of each FDE's block.
    """
    host = share_blocks(blocks)
    used = host[block]
    first_use, place = _by_first_use(used, len(host))
    return used[first_use], place[host]


def _flag_bits(functions: FunctionColumns, pieces: Pieces, version: SFRAME_VERSION) -> NDArray[np.uint8]:
    """The info word of each FDE, without its FRE type."""
    record = sframe.FdeInfoV3 if version >= SFRAME_VERSION.V3 else sframe.FdeInfo
    flags = functions.flags[pieces.function]
    is_masked = (functions.repetition[pieces.function] > 0).astype(np.uint8) * np.uint8(SFRAME_FDE_TYPE.PCMASK)
    bits = is_masked << bit_position(record, "fdetype")[0]
    bits |= (flags & FunctionFlag.PAUTH_B_KEY > 0).astype(np.uint8) << bit_position(record, "pauth_key")[0]
    if version >= SFRAME_VERSION.V3:
        bits |= (flags & FunctionFlag.SIGNAL_FRAME > 0).astype(np.uint8) << bit_position(record, "signal_p")[0]
    return bits.astype(np.uint8)


def _by_first_use(numbers: NDArray[np.int64], limit: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The indices of first occurrences, ascending; and the rank among them of each number below `limit`."""
    first_use = np.full(limit, -1, np.int64)
    # Of several assignments to one element the last wins: assigning backwards, that is the first use.
    first_use[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    first = np.sort(first_use[first_use >= 0])
    place = np.zeros(limit, np.int64)
    place[numbers[first]] = np.arange(len(first))
    return first, place
