"""How CIEs and FDEs are laid out: augmentation, pointer encodings, and the headers of FDEs as columns.

Strategy: the bytes of an FDE are pieces (space for its header, its instructions, padding) that a kernel joins; then
each header field is scattered for all FDEs at once. Fields that hold addresses are kept as `Places`: where the section
will be is known only at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.cfi import EH_FRAME, Cie, Dialect, FdeFormat
from ...schemas.pointers import APPLICATION_MASK, DW_EH_PE, FORMAT_MASK, is_signed
from ...schemas.section import BuildError, ByteOrder
from ...schemas.wire import DwarfFormat, leb_block, sleb, uleb
from ..arrays import put_integers, starts_of
from ..columns import Columns, column_of, columns
from ..kernels import engine, views
from ..kernels.calls import pointer_sizes
from ..table.model import FunctionColumns, FunctionFlag, UnwindTable
from .choose_cies import Shape
from .write_instructions import Written

if TYPE_CHECKING:
    from numpy.typing import NDArray


# What entries of .eh_frame are multiples of: its readers take them at any address, and more would only cost room.
# Those of .debug_frame are multiples of an address (DWARF5 6.4.1, length).
ALIGNMENT = 4
_SIGNED = {4: DW_EH_PE.sdata4, 8: DW_EH_PE.sdata8}
# Encodings of a personality that need no base but the place they stand at: sizes of their values.
_KEPT_FORMATS = {DW_EH_PE.udata4: 4, DW_EH_PE.sdata4: 4, DW_EH_PE.udata8: 8, DW_EH_PE.sdata8: 8}
_KEPT_APPLICATIONS = (DW_EH_PE.absptr, DW_EH_PE.pcrel)
_LETTERS = {FunctionFlag.SIGNAL_FRAME: b"S", FunctionFlag.PAUTH_B_KEY: b"B", FunctionFlag.MEMORY_TAGGING: b"G"}


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """What is laid out: an FDE for each of `function`, with its CIE and the number of its stream; `shapes` and
    `beginnings` are the CIEs'. `pointer_size` is in bytes, of addresses in FDEs."""

    table: UnwindTable
    dialect: Dialect
    pointer_size: int
    shapes: tuple[Shape, ...]
    function: NDArray[np.int64]
    cie: NDArray[np.int64]
    job: NDArray[np.int64]
    streams: Written
    beginnings: Written

    @property
    def is_eh(self) -> bool:
        """Whether it is an `.eh_frame`."""
        return self.dialect is EH_FRAME

    @property
    def address_encoding(self) -> int:
        """Of addresses in FDEs."""
        return DW_EH_PE.pcrel | _SIGNED[self.pointer_size] if self.is_eh else DW_EH_PE.absptr

    @property
    def alignment(self) -> int:
        """What the size of an entry is a multiple of."""
        return ALIGNMENT if self.is_eh else self.table.address_size


@dataclass(frozen=True, slots=True, eq=False)
class Fdes:
    """The bytes of all FDEs without their heads, and what these hold."""

    data: NDArray[np.uint8]
    heads: Heads
    fields: HeadFields


def laid_out_cies(layout: Layout) -> tuple[bytes, NDArray[np.int64], tuple[Places, ...]]:
    """Their bytes, their offsets, and where their personalities stand."""
    from ...schemas import cfi_sections

    data, offsets, places = bytearray(), [], []
    plain = FdeFormat(layout.table.address_size)
    starts = zip(layout.shapes, layout.beginnings.start.tolist(), layout.beginnings.size.tolist(), strict=True)
    for index, (shape, start, size) in enumerate(starts):
        beginning = layout.beginnings.data[start : start + size].tobytes()
        unpadded = cfi_sections.build_entry(
            _cie(layout, shape, beginning), layout.dialect, layout.table.byte_order, plain
        )
        cie = _cie(layout, shape, beginning + bytes(-len(unpadded) % layout.alignment))
        offsets.append(len(data))
        data += cfi_sections.build_entry(cie, layout.dialect, layout.table.byte_order, plain)
        if cie.augmentation_data and b"P" in cie.augmentation:
            # Its data begins with the encoding, and stands right before the instructions.
            at = len(data) - len(cie.initial_instructions) - len(cie.augmentation_data.data) + 1
            encoding, width = _personality_encoding(layout, shape)
            is_relative = encoding & APPLICATION_MASK == DW_EH_PE.pcrel
            value = np.array([shape.personality], np.uint64)
            place = np.array([at], np.int64)
            places.append(Places(f"CIE[{index}].personality", width, place, value, is_relative, is_signed(encoding)))
    return bytes(data), np.array(offsets, np.int64), tuple(places)


def _cie(layout: Layout, shape: Shape, instructions: bytes) -> Cie:
    letters, data = b"", b""
    if shape.personality_encoding != DW_EH_PE.omit:
        encoding, width = _personality_encoding(layout, shape)
        letters, data = b"P", bytes([encoding]) + bytes(width)
    if FunctionFlag.HAS_LSDA in shape.flags:
        letters, data = letters + b"L", data + bytes([layout.address_encoding])
    if layout.is_eh:
        letters, data = letters + b"R", data + bytes([layout.address_encoding])
    letters += b"".join(letter for flag, letter in _LETTERS.items() if flag in shape.flags)
    is_augmented = layout.is_eh or letters
    has_byte = shape.return_column < 1 << 8
    version = 4 if shape.segment_size else 1 if layout.is_eh and has_byte else 3
    return Cie(
        dwarf_format=DwarfFormat.DWARF32,
        version=version,
        augmentation=b"z" + letters if is_augmented else b"",
        eh_data=None,
        address_size=layout.table.address_size if version >= 4 else None,
        segment_selector_size=shape.segment_size if version >= 4 else None,
        code_alignment_factor=uleb(shape.code_factor),
        data_alignment_factor=sleb(shape.data_factor),
        return_address_register=shape.return_column if version == 1 else uleb(shape.return_column),
        augmentation_data=leb_block(data) if is_augmented else None,
        initial_instructions=instructions,
    )


def _personality_encoding(layout: Layout, shape: Shape) -> tuple[int, int]:
    """The encoding that is written for a personality, and its size: the one it had, where that needs no base.

    Otherwise, and in `.debug_frame`, which is nowhere in memory, as addresses of FDEs are encoded.
    """
    indirect = shape.personality_encoding & DW_EH_PE.indirect
    encoding = shape.personality_encoding & ~DW_EH_PE.indirect
    form, application = encoding & ~APPLICATION_MASK, encoding & APPLICATION_MASK
    size = layout.table.address_size if form == DW_EH_PE.absptr else _KEPT_FORMATS.get(DW_EH_PE(form), 0)
    if layout.is_eh and size and application in _KEPT_APPLICATIONS:
        return shape.personality_encoding, size
    return indirect | layout.address_encoding, layout.pointer_size


def heads_of(layout: Layout) -> Heads:
    """How heads of FDEs are laid out, an element a CIE."""
    flags = np.array([shape.flags for shape in layout.shapes], np.int64)
    encoding = np.full(len(flags), layout.address_encoding, np.uint8)
    return Heads(
        layout.dialect,
        layout.table.byte_order,
        layout.table.address_size,
        address_encoding=encoding,
        lsda_encoding=np.where(flags & FunctionFlag.HAS_LSDA > 0, encoding, DW_EH_PE.omit).astype(np.uint8),
        segment_size=np.array([shape.segment_size for shape in layout.shapes], np.int64),
        is_augmented=np.array([layout.is_eh or _is_marked(shape) for shape in layout.shapes], np.bool_),
    )


def laid_out_fdes(layout: Layout, first: int, cie_offset: NDArray[np.int64]) -> Fdes:
    """The FDEs from section offset `first` on, with room for their heads; their CIEs stand at `cie_offset`."""
    heads = heads_of(layout).select(layout.cie)
    head = heads.size
    bare = head + layout.streams.size[layout.job]
    size = bare + -bare % layout.alignment
    offset = first + starts_of(size)[:-1]
    fields = fields_of(layout.table.functions, layout.function, offset, size, cie_offset[layout.cie])
    return Fdes(joined_fdes(layout.streams, layout.job, head, size), heads, fields)


def _is_marked(shape: Shape) -> bool:
    """Whether a CIE says more than its fields do, without which `.debug_frame` has no augmentation."""
    return bool(shape.flags) or shape.personality_encoding != DW_EH_PE.omit


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


@columns
class HeadFields(Columns):
    """What the headers of FDEs hold."""

    offset: NDArray[np.int64] = column_of("section offset", "of the FDE")
    size: NDArray[np.int64] = column_of("bytes", "of the FDE")
    cie: NDArray[np.int64] = column_of("section offset", "of its CIE")
    start: NDArray[np.uint64] = column_of("address", "of the function")
    length: NDArray[np.uint64] = column_of("bytes", "of the function")
    segment: NDArray[np.uint64] = column_of("segment selector")
    has_lsda: NDArray[np.bool_] = column_of()
    lsda: NDArray[np.uint64] = column_of("address")


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
    put_integers(data, fields.offset, fields.size - LENGTH_BYTES, LENGTH_BYTES, order)
    put_integers(data, field, field - fields.cie if heads.dialect.relative else fields.cie, ID_BYTES, order)
    for size in np.unique(heads.segment_size[heads.segment_size > 0]).tolist():
        which = heads.segment_size == size
        put_integers(data, field[which] + ID_BYTES, fields.segment[which], size, order)
    start, pointer = field + ID_BYTES + heads.segment_size, heads.pointer
    for encoding in np.unique(heads.address_encoding).tolist():
        which = heads.address_encoding == encoding
        size = int(pointer[which][0])
        put_integers(data, start[which] + size, fields.length[which], size, order)
        yield _places("FDE.initial_location", encoding, size, start[which], fields.start[which])
    behind, lsda = start + 2 * pointer, heads.lsda
    data[behind[heads.is_augmented]] = lsda[heads.is_augmented]
    for encoding in np.unique(heads.lsda_encoding[fields.has_lsda]).tolist():
        which = (heads.lsda_encoding == encoding) & fields.has_lsda
        yield _places("FDE.lsda", encoding, int(lsda[which][0]), behind[which] + 1, fields.lsda[which])


def _places(name: str, encoding: int, size: int, offset: NDArray[np.int64], value: NDArray[np.uint64]) -> Places:
    is_relative = encoding & APPLICATION_MASK == DW_EH_PE.pcrel
    return Places(name, size, offset, value, is_relative, is_signed(encoding))


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
        put_integers(data, one.offset, values, one.size, byte_order)


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
