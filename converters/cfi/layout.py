"""Lay out CIEs and FDEs: augmentations, pointer encodings, and the headers of FDEs as columns.

Strategy: the bytes of an FDE are pieces (space for its header, its instructions, padding) that a kernel joins; then
each header field is stored for all FDEs at once. Fields that hold addresses are kept as `AddressFields`, because the
address of the section is not known yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.cfi import EH_FRAME, Cie, Dialect, FdeFormat
from ...schemas.data_classes import dataclass
from ...schemas.pointers import APPLICATION_MASK, DW_EH_PE, FORMAT_MASK, is_signed
from ...schemas.section import BuildError, ByteOrder, Section
from ...schemas.wire import LENGTH_RESERVED, DwarfFormat, leb_block, sleb, uleb
from ..arrays import distinct_values, put_integers, starts_of
from ..columns import Columns, column_of, columns
from ..kernels import engine, views
from ..kernels.calls import pointer_sizes
from ..table.model import FunctionColumns, FunctionFlag, UnwindTable
from .choose_cies import CieKey
from .write_instructions import EncodedStreams

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Entries of .eh_frame are padded to this: readers accept any alignment, and more padding would only waste space.
# Entries of .debug_frame are padded to the size of an address (DWARF5 6.4.1, length).
ALIGNMENT = 4
_SIGNED = {4: DW_EH_PE.sdata4, 8: DW_EH_PE.sdata8}
# Formats of a personality's encoding that are kept, and the sizes of their values; they need no other base address.
_KEPT_FORMATS = {DW_EH_PE.udata4: 4, DW_EH_PE.sdata4: 4, DW_EH_PE.udata8: 8, DW_EH_PE.sdata8: 8}
_KEPT_APPLICATIONS = (DW_EH_PE.absptr, DW_EH_PE.pcrel)
_LETTERS = {FunctionFlag.SIGNAL_FRAME: b"S", FunctionFlag.PAUTH_B_KEY: b"B", FunctionFlag.MEMORY_TAGGING: b"G"}


@dataclass(frozen=True, slots=True, eq=False)
class FrameLayout:
    """What to lay out. Per FDE: `function`, its function's index in the table, its `cie`, and its `stream`, an index
    into `streams`. Per CIE: `keys` and `initial_instructions`. `pointer_size` is the size of addresses in FDEs."""

    table: UnwindTable
    dialect: Dialect
    pointer_size: int
    keys: tuple[CieKey, ...]
    function: NDArray[np.int64]
    cie: NDArray[np.int64]
    stream: NDArray[np.int64]
    streams: EncodedStreams
    initial_instructions: EncodedStreams

    @property
    def is_eh(self) -> bool:
        """Whether the section is an `.eh_frame`."""
        return self.dialect is EH_FRAME

    @property
    def address_encoding(self) -> int:
        """The DW_EH_PE encoding of addresses in FDEs."""
        return DW_EH_PE.pcrel | _SIGNED[self.pointer_size] if self.is_eh else DW_EH_PE.absptr

    @property
    def alignment(self) -> int:
        """The alignment of entries in bytes."""
        return ALIGNMENT if self.is_eh else self.table.address_size


@dataclass(frozen=True, slots=True, eq=False)
class Fdes:
    """The bytes of all FDEs with empty headers, the layouts of the headers, and the values of their fields."""

    data: NDArray[np.uint8]
    headers: FdeHeaders
    fields: FdeHeaderFields


def lay_out_cies(layout: FrameLayout) -> tuple[bytes, NDArray[np.int64], tuple[AddressFields, ...]]:
    """The bytes of the CIEs, their offsets, and the address fields of their personalities."""
    from ...schemas import cfi_sections

    data, offsets, address_fields = bytearray(), [], []
    plain = FdeFormat(layout.table.address_size)
    initial = layout.initial_instructions
    for index, (key, start, size) in enumerate(
        zip(layout.keys, initial.start.tolist(), initial.size.tolist(), strict=True)
    ):
        instructions = initial.data[start : start + size].tobytes()
        unpadded = cfi_sections.build_entry(
            _cie(layout, key, instructions), layout.dialect, layout.table.byte_order, plain
        )
        cie = _cie(layout, key, instructions + bytes(-len(unpadded) % layout.alignment))
        offsets.append(len(data))
        data += cfi_sections.build_entry(cie, layout.dialect, layout.table.byte_order, plain)
        if cie.augmentation_data and b"P" in cie.augmentation:
            # The augmentation data begins with the encoding, and is directly before the instructions.
            at = len(data) - len(cie.initial_instructions) - len(cie.augmentation_data.data) + 1
            encoding, width = _personality_encoding(layout, key)
            is_relative = encoding & APPLICATION_MASK == DW_EH_PE.pcrel
            value = np.array([key.personality], np.uint64)
            place = np.array([at], np.int64)
            address_fields.append(
                AddressFields(f"CIE[{index}].personality", width, place, value, is_relative, is_signed(encoding))
            )
    return bytes(data), np.array(offsets, np.int64), tuple(address_fields)


def _cie(layout: FrameLayout, key: CieKey, instructions: bytes) -> Cie:
    letters, data = b"", b""
    if key.personality_encoding != DW_EH_PE.omit:
        encoding, width = _personality_encoding(layout, key)
        letters, data = b"P", bytes([encoding]) + bytes(width)
    if FunctionFlag.HAS_LSDA in key.flags:
        letters, data = letters + b"L", data + bytes([layout.address_encoding])
    if layout.is_eh:
        letters, data = letters + b"R", data + bytes([layout.address_encoding])
    letters += b"".join(letter for flag, letter in _LETTERS.items() if flag in key.flags)
    is_augmented = layout.is_eh or letters
    has_byte = key.return_column < 1 << 8
    version = 4 if key.segment_size else 1 if layout.is_eh and has_byte else 3
    return Cie(
        dwarf_format=DwarfFormat.DWARF32,
        version=version,
        augmentation=b"z" + letters if is_augmented else b"",
        eh_data=None,
        address_size=layout.table.address_size if version >= 4 else None,
        segment_selector_size=key.segment_size if version >= 4 else None,
        code_alignment_factor=uleb(key.code_factor),
        data_alignment_factor=sleb(key.data_factor),
        return_address_register=key.return_column if version == 1 else uleb(key.return_column),
        augmentation_data=leb_block(data) if is_augmented else None,
        initial_instructions=instructions,
    )


def _personality_encoding(layout: FrameLayout, key: CieKey) -> tuple[int, int]:
    """The encoding to write for a personality, and the size of the value: the original encoding, if it needs no base.

    Otherwise, and in `.debug_frame`, which is not loaded, that of addresses in FDEs.
    """
    indirect = key.personality_encoding & DW_EH_PE.indirect
    encoding = key.personality_encoding & ~DW_EH_PE.indirect
    form, application = encoding & ~APPLICATION_MASK, encoding & APPLICATION_MASK
    size = layout.table.address_size if form == DW_EH_PE.absptr else _KEPT_FORMATS.get(DW_EH_PE(form), 0)
    if layout.is_eh and size and application in _KEPT_APPLICATIONS:
        return key.personality_encoding, size
    return indirect | layout.address_encoding, layout.pointer_size


def headers_of(layout: FrameLayout) -> FdeHeaders:
    """The layout of FDE headers, one element per CIE."""
    flags = np.array([key.flags for key in layout.keys], np.int64)
    encoding = np.full(len(flags), layout.address_encoding, np.uint8)
    return FdeHeaders(
        layout.dialect,
        layout.table.byte_order,
        layout.table.address_size,
        address_encoding=encoding,
        lsda_encoding=np.where(flags & FunctionFlag.HAS_LSDA > 0, encoding, DW_EH_PE.omit).astype(np.uint8),
        segment_size=np.array([key.segment_size for key in layout.keys], np.int64),
        is_augmented=np.array([layout.is_eh or _needs_augmentation(key) for key in layout.keys], np.bool_),
    )


def lay_out_fdes(layout: FrameLayout, first: int, cie_offset: NDArray[np.int64]) -> Fdes:
    """Lay out the FDEs from section offset `first`, with space for headers; their CIEs are at `cie_offset`. Raises
    BuildError if they do not end within 4 GiB."""
    headers = headers_of(layout).select(layout.cie)
    header = headers.size
    bare = header + layout.streams.size[layout.stream]
    size = bare + -bare % layout.alignment
    offset = first + starts_of(size)
    refuse_large(layout.dialect.name, int(offset[-1]))
    fields = header_fields_of(layout.table.functions, layout.function, offset[:-1], size, cie_offset[layout.cie])
    return Fdes(join_fdes(layout.streams, layout.stream, header, size), headers, fields)


def refuse_large(section: Section | str, size: int) -> None:
    """Raise BuildError for a section of `size` bytes, in which lengths and CIE pointers might not fit 32-bit DWARF
    (DWARF5 7.4), the only format that is written."""
    if size >= LENGTH_RESERVED:
        reason = f"the section would have {size:,} bytes, and 32-bit DWARF reaches {LENGTH_RESERVED - 1:,}"
        raise BuildError(section, None, "FDE.cie_pointer", reason)


def _needs_augmentation(key: CieKey) -> bool:
    """Whether a CIE has properties that only an augmentation can express."""
    return bool(key.flags) or key.personality_encoding != DW_EH_PE.omit


LENGTH_BYTES = ID_BYTES = DwarfFormat.DWARF32
MAX_HEADER = 64  # the limit on the sizes of headers and paddings


@dataclass(frozen=True, slots=True, eq=False)
class AddressFields:
    """Fields that hold addresses: their section offsets, and `value`, the addresses. All have `size` bytes;
    `is_relative`: stored relative to the address of the field itself; `name` is for messages."""

    name: str
    size: int
    offset: NDArray[np.int64]
    value: NDArray[np.uint64]
    is_relative: bool
    is_signed: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class FdeHeaders:
    """The layout of FDE headers, one element per header: `address_encoding` and `lsda_encoding`, u8, DW_EH_PE bytes of
    formats with a fixed size (omit: no LSDA); `segment_size`, i64, in bytes; `is_augmented`, bool, whether there is
    augmentation data."""

    dialect: Dialect
    byte_order: ByteOrder
    address_size: int
    address_encoding: NDArray[np.uint8]
    lsda_encoding: NDArray[np.uint8]
    segment_size: NDArray[np.int64]
    is_augmented: NDArray[np.bool_]

    @property
    def pointer(self) -> NDArray[np.int64]:
        """The size of an address."""
        return encoded_sizes(self.address_encoding, self.address_size)

    @property
    def lsda(self) -> NDArray[np.int64]:
        """The size of the augmentation data."""
        return encoded_sizes(self.lsda_encoding, self.address_size)

    @property
    def size(self) -> NDArray[np.int64]:
        """The size of a header."""
        return LENGTH_BYTES + ID_BYTES + self.segment_size + 2 * self.pointer + self.is_augmented + self.lsda

    def select(self, which: NDArray[np.int64]) -> FdeHeaders:
        """Some of the headers."""
        names = ("address_encoding", "lsda_encoding", "segment_size", "is_augmented")
        columns = (getattr(self, name)[which] for name in names)
        return FdeHeaders(self.dialect, self.byte_order, self.address_size, *columns)


@columns
class FdeHeaderFields(Columns):
    """The values of the header fields of FDEs, one record per FDE."""

    offset: NDArray[np.int64] = column_of("section offset", "of the FDE")
    size: NDArray[np.int64] = column_of("bytes", "of the FDE")
    cie: NDArray[np.int64] = column_of("section offset", "of its CIE")
    start: NDArray[np.uint64] = column_of("address", "of the function")
    length: NDArray[np.uint64] = column_of("bytes", "of the function")
    segment: NDArray[np.uint64] = column_of("segment selector")
    has_lsda: NDArray[np.bool_] = column_of()
    lsda: NDArray[np.uint64] = column_of("address")


def header_fields_of(
    functions: FunctionColumns,
    which: NDArray[np.int64],
    offset: NDArray[np.int64],
    size: NDArray[np.int64],
    cie: NDArray[np.int64],
) -> FdeHeaderFields:
    """The header fields of the FDEs of the functions `which`."""
    return FdeHeaderFields(
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
    """The sizes of values with these encodings, none of which is a LEB128; 0 for DW_EH_PE_omit."""
    size: NDArray[np.int64] = pointer_sizes()[encoding & FORMAT_MASK].astype(np.int64)
    size[size == 0] = address_size
    size[encoding == DW_EH_PE.omit] = 0
    return size


def join_fdes(
    streams: EncodedStreams, stream: NDArray[np.int64], header: NDArray[np.int64], size: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """The bytes of consecutive FDEs with these sizes: space for the header, the stream, padding."""
    # The pieces to join are the streams, and zeros of each length: space for headers, and DW_CFA_nop as padding.
    zeros = np.zeros(MAX_HEADER, np.uint8)
    count = len(streams.start)
    padding = size - header - streams.size[stream]
    start = np.concatenate([streams.start, np.full(MAX_HEADER, len(streams.data))])
    sizes = np.concatenate([streams.size, np.arange(MAX_HEADER)])
    pieces = np.stack([count + header, stream, count + padding], axis=1).reshape(-1)
    data = np.empty(int(size.sum()), np.uint8)
    engine.text.join.join(*views(np.concatenate([streams.data, zeros]), start, sizes, pieces, data))
    return data


def fill_headers(headers: FdeHeaders, fields: FdeHeaderFields, data: NDArray[np.uint8]) -> Iterator[AddressFields]:
    """Store the header fields that hold no addresses, in space that is zero; yield the fields that do."""
    order = headers.byte_order
    field = fields.offset + LENGTH_BYTES
    put_integers(data, fields.offset, fields.size - LENGTH_BYTES, LENGTH_BYTES, order)
    put_integers(data, field, field - fields.cie if headers.dialect.relative else fields.cie, ID_BYTES, order)
    for size in distinct_values(headers.segment_size[headers.segment_size > 0]).tolist():
        which = headers.segment_size == size
        put_integers(data, field[which] + ID_BYTES, fields.segment[which], size, order)
    start, pointer = field + ID_BYTES + headers.segment_size, headers.pointer
    for encoding in distinct_values(headers.address_encoding).tolist():
        which = headers.address_encoding == encoding
        size = int(pointer[which][0])
        put_integers(data, start[which] + size, fields.length[which], size, order)
        yield _fields("FDE.initial_location", encoding, size, start[which], fields.start[which])
    after, lsda = start + 2 * pointer, headers.lsda
    data[after[headers.is_augmented]] = lsda[headers.is_augmented]
    for encoding in distinct_values(headers.lsda_encoding[fields.has_lsda]).tolist():
        which = (headers.lsda_encoding == encoding) & fields.has_lsda
        yield _fields("FDE.lsda", encoding, int(lsda[which][0]), after[which] + 1, fields.lsda[which])


def _fields(name: str, encoding: int, size: int, offset: NDArray[np.int64], value: NDArray[np.uint64]) -> AddressFields:
    is_relative = encoding & APPLICATION_MASK == DW_EH_PE.pcrel
    return AddressFields(name, size, offset, value, is_relative, is_signed(encoding))


def put_addresses(
    name: str,
    data: NDArray[np.uint8],
    address_fields: Iterable[AddressFields],
    section_address: int,
    byte_order: ByteOrder,
    address_size: int,
) -> None:
    """Store the addresses in a section at `section_address`. Raises BuildError if one does not fit its field."""
    for one in address_fields:
        values = one.value
        if one.is_relative:
            values = values - (one.offset.astype(np.uint64) + np.uint64(section_address))
        # Fields of the size of an address wrap around.
        far = np.flatnonzero(is_beyond(values, one.size, one.is_signed))
        if len(far) and one.size < address_size:
            at, target = int(one.offset[far[0]]), int(one.value[far[0]])
            reason = f"{target:#x} does not fit {one.size} bytes"
            if one.is_relative:
                reason = f"{target:#x} is more than {_reach(one)} from the section at {section_address:#x}"
            raise BuildError(name, at, one.name, reason)
        put_integers(data, one.offset, values, one.size, byte_order)


def is_beyond(values: NDArray[np.uint64], size: int, signed: bool) -> NDArray[np.bool_]:
    """Which values, modulo 2**64, do not fit `size` bytes."""
    if size >= 8:
        return np.zeros(len(values), np.bool_)
    if signed:
        values = values + np.uint64(1 << 8 * size - 1)
    return values >> np.uint64(8 * size) > 0


def _reach(address_fields: AddressFields) -> str:
    """The range of a field, as text."""
    reach = 1 << 8 * address_fields.size - address_fields.is_signed
    return f"{reach >> 30} GiB" if reach >> 30 else f"{reach} bytes"
