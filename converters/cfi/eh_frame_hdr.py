"""`.eh_frame_hdr`: read it into columns, build it, and check it against `.eh_frame` (LSB Core, .eh_frame_hdr).

Strategy: one reader for all uses. A kernel reads the values as stored; they are resolved for the whole table at once.
The check sorts both sides and searches each in the other. It raises only for a header that cannot be read; differences
between the table and `.eh_frame` are findings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ...schemas.arguments import checked, instance_of
from ...schemas.data_classes import dataclass
from ...schemas.derive import dtype_of
from ...schemas.direct import parse
from ...schemas.eh_frame_hdr import POINTER_OFFSET, VERSION, EhFrameHdr, EhFrameHdrHead, EhFrameHdrPrefix
from ...schemas.engine import build
from ...schemas.pointers import APPLICATION_MASK, DW_EH_PE, FORMAT_MASK, FORMAT_SIZES, is_known, value_format
from ...schemas.section import BuildError, ByteOrder, ParseError, Section, order_code
from ..arrays import run_starts, values_at
from ..columns import Columns, column_of, columns
from ..findings import Problem
from ..kernels import engine as kernels
from ..kernels import views
from ..kernels.calls import reader_of, refuse
from ..table.lookup import NOTHING
from ..table.model import FunctionColumns, UnwindTable

if TYPE_CHECKING:
    from numpy.typing import NDArray


# The names of records in error messages.
_HEADER_RECORD, _TABLE_RECORD = EhFrameHdrHead.__name__, f"{EhFrameHdr.__name__}.table"


@dataclass(frozen=True, slots=True, eq=False)
class EhFrameHdrColumns:
    """An `.eh_frame_hdr`. `eh_frame_ptr`, `location` and `fde` are as stored, sign-extended to 64 bits;
    `eh_frame_address`, `location_address` and `fde_address` are resolved, modulo 2**64.

    `eh_frame_ptr` and `fde_count` are None if omitted. The columns, u64, have one element per row that is in the
    section; `fde_count` may be greater. `table_offset` is the section offset of the table.
    """

    version: int
    eh_frame_ptr_enc: int
    fde_count_enc: int
    table_enc: int
    eh_frame_ptr: int | None
    eh_frame_address: int
    fde_count: int | None
    table_offset: int
    location: NDArray[np.uint64]
    location_address: NDArray[np.uint64]
    fde: NDArray[np.uint64]
    fde_address: NDArray[np.uint64]


def read_eh_frame_hdr(section: Section) -> EhFrameHdrColumns:
    """Read the section. Raises ParseError. As in readelf, the low four bits of an encoding are the format whatever the
    other bits are, and an unknown application adds nothing to the value."""
    prefix, end = parse(EhFrameHdrPrefix, section, 0, len(section), _HEADER_RECORD)
    pointer, end = _value(section, end, prefix.eh_frame_ptr_enc, f"{_HEADER_RECORD}.eh_frame_ptr")
    number, offset = _value(section, end, prefix.fde_count_enc, f"{_HEADER_RECORD}.fde_count")
    count = None if not len(number) else _signed(int(number[0]), prefix.fde_count_enc)
    size = 2 * _rows_present(section, offset, prefix.table_enc, count or 0)
    values, end = _values(section, offset, prefix.table_enc, size, _TABLE_RECORD)
    # Wrong for LEB128 values that are relative to their own addresses, because their sizes differ.
    places = np.uint64(offset) + np.arange(size, dtype=np.uint64) * np.uint64((end - offset) // max(1, size))
    addresses = _resolved(section, prefix.table_enc, values, places)
    start = _resolved(section, prefix.eh_frame_ptr_enc, pointer, np.array([POINTER_OFFSET], np.uint64))
    return EhFrameHdrColumns(
        version=prefix.version,
        eh_frame_ptr_enc=prefix.eh_frame_ptr_enc,
        fde_count_enc=prefix.fde_count_enc,
        table_enc=prefix.table_enc,
        eh_frame_ptr=int(pointer[0]) if len(pointer) else None,
        eh_frame_address=int(start[0]) if len(pointer) else 0,
        fde_count=count,
        table_offset=offset,
        location=values[::2],
        location_address=addresses[::2],
        fde=values[1::2],
        fde_address=addresses[1::2],
    )


def _value(section: Section, offset: int, encoding: int, record: str) -> tuple[NDArray[np.uint64], int]:
    """As `_values`, for one value, or none if it is omitted."""
    return _values(section, offset, encoding, int(encoding != DW_EH_PE.omit), record)


def _values(section: Section, offset: int, encoding: int, count: int, record: str) -> tuple[NDArray[np.uint64], int]:
    """`count` values of an encoding's format, as stored, and the section offset after them."""
    values = np.empty(count, np.uint64)
    if not count:
        return values, offset
    if encoding & FORMAT_MASK not in FORMAT_SIZES:
        raise ParseError(section, offset, record, f"the encoding {encoding:#04x} has no format")
    reader = reader_of(section)
    end = kernels.cfi.entries.values(reader, offset, encoding & FORMAT_MASK, section.address_size, *views(values))
    if reader.fault:
        refuse(section, record, reader)
    return values, end


def _signed(value: int, encoding: int) -> int:
    """The integer that a value sign-extended to 64 bits represents."""
    return value - (1 << 64) if encoding & DW_EH_PE.signed and value >> 63 else value


def _rows_present(section: Section, offset: int, encoding: int, count: int) -> int:
    """How many of `count` rows from section offset `offset` are in the section. Raises ParseError if rows of LEB128
    numbers cannot all fit."""
    # An omitted table has no rows whatever the count; GNU ld omits it if it could not read an .eh_frame.
    if encoding == DW_EH_PE.omit or count <= 0:
        return 0
    left = len(section) - offset
    size = next((size for form, size in FORMAT_SIZES.items() if form == encoding & FORMAT_MASK), None)
    if size is not None:
        return min(count, left // (2 * (size or section.address_size)))
    if 2 * count > left:
        raise ParseError(section, offset, _TABLE_RECORD, f"{count} rows do not fit {left} bytes")
    return count


def _resolved(
    section: Section, encoding: int, values: NDArray[np.uint64], places: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """The addresses that values encode, modulo 2**64. `places` are the section offsets of the values; DW_EH_PE_datarel
    is relative to the section's start."""
    match encoding & APPLICATION_MASK:
        case DW_EH_PE.pcrel:
            return values + np.uint64(section.address) + places[: len(values)]
        case DW_EH_PE.datarel:
            return values + np.uint64(section.address)
        case _:
            return values


# The encodings that GNU ld writes and unwinders search: pairs of signed offsets relative to the header's first byte.
_POINTER, _COUNT, _TABLE = DW_EH_PE.pcrel | DW_EH_PE.sdata4, DW_EH_PE.udata4, DW_EH_PE.datarel | DW_EH_PE.sdata4
_VALUE_BYTES = 4
_HEADER_BYTES = POINTER_OFFSET + 2 * _VALUE_BYTES  # eh_frame_ptr and fde_count


@columns
class FdeAddresses(Columns):
    """The FDEs of an `.eh_frame`, as needed for its `.eh_frame_hdr`."""

    offset: NDArray[np.int64] = column_of("section offset")
    start: NDArray[np.uint64] = column_of("address", "of the function")
    size: NDArray[np.uint64] = column_of("bytes", "of the function")

    @classmethod
    def of_functions(cls, functions: FunctionColumns) -> FdeAddresses:
        """The FDEs of functions that were read from one section."""
        return cls(functions.origin.astype(np.int64), functions.start, functions.size)


class EhFrame(Protocol):
    """An encoded `.eh_frame` for any address."""

    @property
    def byte_order(self) -> ByteOrder: ...

    @property
    def address_size(self) -> int: ...

    @property
    def fdes(self) -> FdeAddresses: ...

    def __len__(self) -> int: ...

    def at(self, section_address: int) -> bytes: ...


def eh_frame_hdr_size(fdes: FdeAddresses) -> int:
    """The size of the `.eh_frame_hdr` of these FDEs."""
    return _HEADER_BYTES + 2 * _VALUE_BYTES * len(_searched(fdes))


def build_eh_frame_hdr(
    fdes: FdeAddresses, byte_order: ByteOrder, address_size: int, eh_frame_address: int, address: int
) -> bytes:
    """Build the `.eh_frame_hdr` at the virtual address `address` for FDEs whose section is at `eh_frame_address`.

    It has one row per start, for the largest function there; functions without bytes get no row, because a search that
    ends at such a row would miss a function around it. Raises BuildError if a distance does not fit four bytes.
    """
    if not 0 <= address < 1 << 8 * address_size:
        raise BuildError(".eh_frame_hdr", None, "address", f"{address:#x} is not a {8 * address_size}-bit address")
    rows = fdes.select(_searched(fdes))
    fde = rows.offset.astype(np.uint64) + np.uint64(eh_frame_address)
    values = np.stack([rows.start, fde], axis=1).reshape(-1)
    # Distances are modulo the address space, so they may wrap.
    distance = (values - np.uint64(address)).view(np.int64)
    if address_size == _VALUE_BYTES:
        distance = distance.astype(np.int32).astype(np.int64)
    limits = np.iinfo(np.int32)
    far = np.flatnonzero((distance < limits.min) | (distance > limits.max))
    if len(far):
        reason = f"{int(values[far[0]]):#x} is more than 2 GiB from the header at {address:#x}"
        raise BuildError(".eh_frame_hdr", None, f"table[{far[0] // 2}]", reason)
    half = 1 << 8 * address_size - 1
    to_eh_frame = (eh_frame_address - (address + POINTER_OFFSET) + half) % (2 * half) - half
    if not limits.min <= to_eh_frame <= limits.max:
        reason = f"{eh_frame_address:#x} is more than 2 GiB from the header at {address:#x}"
        raise BuildError(".eh_frame_hdr", None, "eh_frame_ptr", reason)
    header = EhFrameHdrHead(VERSION, _POINTER, _COUNT, _TABLE, to_eh_frame, len(rows))
    table = distance.astype(f"{order_code(byte_order)}i{_VALUE_BYTES}").tobytes()
    return build(header, byte_order, address_size=address_size) + table


def _searched(fdes: FdeAddresses) -> NDArray[np.int64]:
    """The FDEs that get a row, in order of their starts."""
    order = np.lexsort((fdes.offset, ~fdes.size, fdes.start))
    order = order[fdes.size[order] > 0]
    return order[run_starts(fdes.start[order])]


class HdrProblem(Problem):
    """Kinds of differences between an `.eh_frame_hdr` and `.eh_frame`."""

    WRONG_EH_FRAME = 1, "eh_frame_ptr is not the address of .eh_frame", "eh_frame_ptr is not the address of .eh_frame"
    CUT = 2, "row is missing: the section is too small", "rows are missing: the section is too small"
    UNSORTED = 3, "row is not in ascending order", "rows are not in ascending order"
    NO_FDE = 4, "row has a start that no FDE has", "rows have starts that no FDE has"
    WRONG_FDE = 5, "row points to an FDE with another start", "rows point to FDEs with other starts"
    NO_ROW = 6, "FDE has no row", "FDEs have no row"


@dataclass(frozen=True, slots=True, eq=False)
class HdrFindings:
    """The differences, one element each: `problem`, u8; `row`, i64, of the header's table; `function`, i64, in the
    tables of `.eh_frame` (both -1 if it does not concern one); `address`, u64, the start or eh_frame_ptr.

    `rows` is the declared number of rows, None if it is omitted. The `row` of a CUT is the first missing one.
    """

    rows: int | None
    problem: NDArray[np.uint8]
    row: NDArray[np.int64]
    function: NDArray[np.int64]
    address: NDArray[np.uint64]

    def __len__(self) -> int:
        """The number of differences."""
        return len(self.problem)

    def sentences(self) -> tuple[str, ...]:
        """One sentence per kind of difference, with the count and the address of the first."""
        found = []
        for problem in HdrProblem:
            which = np.flatnonzero(self.problem == problem)
            if len(which):
                one, several = problem.words
                count = self.rows - int(self.row[which[0]]) if problem is HdrProblem.CUT and self.rows else len(which)
                number = "" if problem is HdrProblem.WRONG_EH_FRAME else f"{count:,} "
                place = "" if problem is HdrProblem.CUT else f": {int(self.address[which[0]]):#x}"
                first = " first" if place and count > 1 else ""
                found.append(f"{number}{one if count == 1 else several}{place}{first}")
        return tuple(found)


@checked(section=Section)
def check_eh_frame_hdr(section: Section, frames: Sequence[tuple[Section, UnwindTable]]) -> HdrFindings:
    """Compare an `.eh_frame_hdr` with the file's `.eh_frame` sections and the tables read from them.

    FDEs with the same start need only one row, as lld writes it, and functions without bytes none. Raises ParseError if
    the header cannot be read or has an encoding that no search can use.
    """
    for frame, table in frames:
        instance_of(Section)(frame, "frames")
        instance_of(UnwindTable)(table, "frames")
    return check_eh_frame_hdr_columns(section, read_eh_frame_hdr(section), frames)


def check_eh_frame_hdr_columns(
    section: Section, header: EhFrameHdrColumns, frames: Sequence[tuple[Section, UnwindTable]]
) -> HdrFindings:
    """As `check_eh_frame_hdr`, for a section that has been read."""
    _refuse_unusual(section, header)
    found = [_wrong_eh_frame(section, header, frames)]
    if header.fde_count is None or header.table_enc == DW_EH_PE.omit:
        return _findings(None, found)
    count, rows = max(0, header.fde_count), len(header.fde)
    if rows < count:
        found.append(_problem(HdrProblem.CUT, row=np.array([rows])))
    start = np.concatenate([np.zeros(0, np.uint64), *(table.functions.start for _, table in frames)])
    size = np.concatenate([np.zeros(0, np.uint64), *(table.functions.size for _, table in frames)])
    origins = (table.functions.origin + np.uint64(frame.address) for frame, table in frames)
    fde = np.concatenate([np.zeros(0, np.uint64), *origins])
    mask = np.uint64((1 << 8 * section.address_size) - 1)
    found += _disagreements(header.location_address & mask, header.fde_address & mask, start, fde, size > 0)
    return _findings(count, found)


_Problem = tuple["NDArray[np.uint8]", "NDArray[np.int64]", "NDArray[np.int64]", "NDArray[np.uint64]"]


def _problem(
    problem: HdrProblem,
    row: NDArray[np.int64] | None = None,
    function: NDArray[np.int64] | None = None,
    address: NDArray[np.uint64] | None = None,
) -> _Problem:
    """The columns of differences of one kind; their number is the length of the first column given."""
    count = next(len(column) for column in (row, function, address) if column is not None)
    nothing = np.full(count, NOTHING, np.int64)
    return (
        np.full(count, problem, np.uint8),
        nothing if row is None else row,
        nothing if function is None else function,
        np.zeros(count, np.uint64) if address is None else address,
    )


def _findings(rows: int | None, found: Sequence[_Problem]) -> HdrFindings:
    return HdrFindings(rows, *(np.concatenate(columns) for columns in zip(*found, strict=True)))


def _refuse_unusual(section: Section, header: EhFrameHdrColumns) -> None:
    """Raise ParseError for encodings that are undefined or that no search can use: aligned values, and rows of LEB128
    numbers that are relative to their own addresses."""
    layout = dtype_of(EhFrameHdrPrefix, section.byte_order).fields
    assert layout is not None
    for name in ("eh_frame_ptr_enc", "fde_count_enc", "table_enc"):
        encoding = getattr(header, name)
        is_odd = not is_known(encoding) or encoding & APPLICATION_MASK == DW_EH_PE.aligned
        if name == "table_enc" and not is_odd:
            is_pcrel = encoding & APPLICATION_MASK == DW_EH_PE.pcrel
            is_odd |= bool(encoding & DW_EH_PE.indirect) or (is_pcrel and FORMAT_SIZES[value_format(encoding)] is None)
        if is_odd and encoding != DW_EH_PE.omit:
            raise ParseError(section, layout[name][1], name, f"{encoding:#04x} is not an encoding for this field")


def _wrong_eh_frame(
    section: Section, header: EhFrameHdrColumns, frames: Sequence[tuple[Section, UnwindTable]]
) -> _Problem:
    """A difference if eh_frame_ptr is present and not the address of an `.eh_frame`."""
    address = np.zeros(0, np.uint64)
    if header.eh_frame_ptr is not None and not header.eh_frame_ptr_enc & DW_EH_PE.indirect:
        found = header.eh_frame_address & (1 << 8 * section.address_size) - 1
        if found not in [frame.address for frame, _ in frames]:
            address = np.array([found], np.uint64)
    return _problem(HdrProblem.WRONG_EH_FRAME, address=address)


def _disagreements(
    row_start: NDArray[np.uint64],
    row_fde: NDArray[np.uint64],
    start: NDArray[np.uint64],
    fde: NDArray[np.uint64],
    has_bytes: NDArray[np.bool_],
) -> list[_Problem]:
    """Compare rows with FDEs: `start` are the addresses of the FDEs' functions, `fde` those of the FDEs."""
    by_fde = np.argsort(fde, kind="stable")
    named = _found(fde[by_fde], row_fde)
    is_right = named != NOTHING
    is_right[is_right] = start[by_fde[named[is_right]]] == row_start[is_right]
    has_fde = _found(np.sort(start), row_start) != NOTHING
    has_row = _found(np.sort(row_start), start) != NOTHING
    unsorted = np.flatnonzero(row_start[1:] < row_start[:-1]) + 1
    without_fde = np.flatnonzero(~has_fde)
    wrong = np.flatnonzero(has_fde & ~is_right)
    without_row = np.flatnonzero(~has_row & has_bytes)
    return [
        _problem(HdrProblem.UNSORTED, row=unsorted, address=row_start[unsorted]),
        _problem(HdrProblem.NO_FDE, row=without_fde, address=row_start[without_fde]),
        _problem(HdrProblem.WRONG_FDE, row=wrong, address=row_start[wrong]),
        _problem(HdrProblem.NO_ROW, function=without_row, address=start[without_row]),
    ]


def _found(ascending: NDArray[np.uint64], values: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The index of each value in a sorted column, or NOTHING."""
    place = np.searchsorted(ascending, values)
    is_there = (place < len(ascending)) & (values_at(ascending, place, 0) == values)
    return np.where(is_there, place, NOTHING)
