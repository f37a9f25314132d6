"""The heads of FDEs, from length to augmentation data, as columns; and addresses put where they belong.

Strategy: an FDE's bytes are pieces, room for its head, its stream, padding, joined by a kernel; then each field of all
heads is scattered at once. Fields with addresses are left for later as `Places`: it is only known at the end where the
section will be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..schemas.cfi import Dialect
from ..schemas.pointers import APPLICATION_MASK, DW_EH_PE, FORMAT_MASK, is_signed
from ..schemas.section import BuildError, ByteOrder
from ..schemas.wire import DwarfFormat
from .callframe_streams import Written
from .kernels import engine, views
from .runs import pointer_sizes
from .unwind import FunctionColumns, FunctionFlag

if TYPE_CHECKING:
    from numpy.typing import NDArray

LENGTH_BYTES = ID_BYTES = DwarfFormat.DWARF32
HEAD_ROOM = 64  # no head and no padding has more bytes


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Fields that hold addresses: `offset` in the section, `value` the address, whether it counts from its own place,
    and `name` for messages. All have `size` bytes, which are signed or not."""

    name: str
    size: int
    offset: NDArray[np.int64]
    value: NDArray[np.uint64]
    is_relative: bool
    is_signed: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Heads:
    """What the CIEs of some FDEs say of their heads, one element each: `address_encoding` and `lsda_encoding` u8,
    DW_EH_PE bytes of formats with a fixed size (omit: no LSDA), `segment_size` i64 in bytes, `is_augmented` bool."""

    dialect: Dialect
    byte_order: ByteOrder
    address_size: int
    address_encoding: NDArray[np.uint8]
    lsda_encoding: NDArray[np.uint8]
    segment_size: NDArray[np.int64]
    is_augmented: NDArray[np.bool_]

    @property
    def pointer(self) -> NDArray[np.int64]:
        """Bytes of an address."""
        return encoded_sizes(self.address_encoding, self.address_size)

    @property
    def lsda(self) -> NDArray[np.int64]:
        """Bytes of the augmentation data."""
        return encoded_sizes(self.lsda_encoding, self.address_size)

    @property
    def size(self) -> NDArray[np.int64]:
        """Bytes of a whole head."""
        return LENGTH_BYTES + ID_BYTES + self.segment_size + 2 * self.pointer + self.is_augmented + self.lsda

    def select(self, which: NDArray[np.int64]) -> Heads:
        """Some of them."""
        names = ("address_encoding", "lsda_encoding", "segment_size", "is_augmented")
        columns = (getattr(self, name)[which] for name in names)
        return Heads(self.dialect, self.byte_order, self.address_size, *columns)


@dataclass(frozen=True, slots=True, eq=False)
class HeadFields:
    """What stands in heads, one element an FDE: its section `offset` and `size` in bytes, the section offset of its
    `cie`, and what the function has of the same name."""

    offset: NDArray[np.int64]
    size: NDArray[np.int64]
    cie: NDArray[np.int64]
    start: NDArray[np.uint64]
    length: NDArray[np.uint64]
    segment: NDArray[np.uint64]
    has_lsda: NDArray[np.bool_]
    lsda: NDArray[np.uint64]


def fields_of(
    functions: FunctionColumns,
    which: NDArray[np.int64],
    offset: NDArray[np.int64],
    size: NDArray[np.int64],
    cie: NDArray[np.int64],
) -> HeadFields:
    """What stands in the heads of some functions' FDEs."""
    return HeadFields(
        offset,
        size,
        cie,
        start=functions.start[which],
        length=functions.size[which],
        segment=functions.segment[which],
        has_lsda=functions.flags[which] & FunctionFlag.HAS_LSDA > 0,
        lsda=functions.lsda[which],
    )


def encoded_sizes(encoding: NDArray[np.uint8], address_size: int) -> NDArray[np.int64]:
    """Bytes of values of some encodings, none of which is a LEB128; 0 where it is DW_EH_PE_omit."""
    size: NDArray[np.int64] = pointer_sizes()[encoding & FORMAT_MASK].astype(np.int64)
    size[size == 0] = address_size
    size[encoding == DW_EH_PE.omit] = 0
    return size


def joined_fdes(
    streams: Written, job: NDArray[np.int64], head: NDArray[np.int64], size: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """The bytes of FDEs behind one another, each of so many bytes with room for its head and the stream of its job."""
    # Pieces: the streams, then so many zeros, which are room in heads and DW_CFA_nop behind streams.
    zeros = np.zeros(HEAD_ROOM, np.uint8)
    count = len(streams.start)
    padding = size - head - streams.size[job]
    start = np.concatenate([streams.start, np.full(HEAD_ROOM, len(streams.data))])
    sizes = np.concatenate([streams.size, np.arange(HEAD_ROOM)])
    pieces = np.stack([count + head, job, count + padding], axis=1).reshape(-1)
    data = np.empty(int(size.sum()), np.uint8)
    engine.text.join.join(*views(np.concatenate([streams.data, zeros]), start, sizes, pieces, data))
    return data


def fill_heads(heads: Heads, fields: HeadFields, data: NDArray[np.uint8]) -> Iterator[Places]:
    """Fill the fields of all heads that hold no addresses, the rest of which is zero; return those that do."""
    order = heads.byte_order
    field = fields.offset + LENGTH_BYTES
    put(data, fields.offset, fields.size - LENGTH_BYTES, LENGTH_BYTES, order)
    put(data, field, field - fields.cie if heads.dialect.relative else fields.cie, ID_BYTES, order)
    for size in np.unique(heads.segment_size[heads.segment_size > 0]).tolist():
        which = heads.segment_size == size
        put(data, field[which] + ID_BYTES, fields.segment[which], size, order)
    start, pointer = field + ID_BYTES + heads.segment_size, heads.pointer
    for encoding in np.unique(heads.address_encoding).tolist():
        which = heads.address_encoding == encoding
        size = int(pointer[which][0])
        put(data, start[which] + size, fields.length[which], size, order)
        yield _places("FDE.initial_location", encoding, size, start[which], fields.start[which])
    behind, lsda = start + 2 * pointer, heads.lsda
    data[behind[heads.is_augmented]] = lsda[heads.is_augmented]
    for encoding in np.unique(heads.lsda_encoding[fields.has_lsda]).tolist():
        which = (heads.lsda_encoding == encoding) & fields.has_lsda
        yield _places("FDE.lsda", encoding, int(lsda[which][0]), behind[which] + 1, fields.lsda[which])


def _places(name: str, encoding: int, size: int, offset: NDArray[np.int64], value: NDArray[np.uint64]) -> Places:
    is_relative = encoding & APPLICATION_MASK == DW_EH_PE.pcrel
    return Places(name, size, offset, value, is_relative, is_signed(encoding))


def put(
    data: NDArray[np.uint8],
    offset: NDArray[np.int64],
    values: NDArray[np.int64] | NDArray[np.uint64],
    size: int,
    order: ByteOrder,
) -> None:
    """Write the low `size` bytes of each value at its offset."""
    stored = values.astype("<u8").view(np.uint8).reshape(len(values), 8)[:, :size]
    for byte in range(size):
        data[offset + byte] = stored[:, byte if order == "little" else size - 1 - byte]


def put_addresses(
    name: str,
    data: NDArray[np.uint8],
    places: Iterable[Places],
    section_address: int,
    byte_order: ByteOrder,
    address_size: int,
) -> None:
    """Write addresses into a section of that name at `section_address`. Raises BuildError where one is beyond its
    field's range."""
    for one in places:
        values = one.value
        if one.is_relative:
            values = values - (one.offset.astype(np.uint64) + np.uint64(section_address))
        # Addresses of a whole address' bytes wrap.
        far = np.flatnonzero(is_beyond(values, one.size, one.is_signed))
        if len(far) and one.size < address_size:
            at, target = int(one.offset[far[0]]), int(one.value[far[0]])
            reason = f"{target:#x} does not fit {one.size} bytes"
            if one.is_relative:
                reason = f"{target:#x} is more than {_reach(one)} from the section at {section_address:#x}"
            raise BuildError(name, at, one.name, reason)
        put(data, one.offset, values, one.size, byte_order)


def is_beyond(values: NDArray[np.uint64], size: int, signed: bool) -> NDArray[np.bool_]:
    """Which values, modulo 2**64, `size` bytes have no room for."""
    if size >= 8:
        return np.zeros(len(values), np.bool_)
    if signed:
        values = values + np.uint64(1 << 8 * size - 1)
    return values >> np.uint64(8 * size) > 0


def _reach(places: Places) -> str:
    """How far such a field reaches."""
    reach = 1 << 8 * places.size - places.is_signed
    return f"{reach >> 30} GiB" if reach >> 30 else f"{reach} bytes"
