"""The CIEs and FDEs of a table laid out as bytes: where every field stands (DWARF5 6.4.1; LSB Core 10.6.1).

Strategy: CIEs are few, and built by the reference engine; FDEs are columns. All that holds addresses is left for later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..schemas.cfi import EH_FRAME, Cie, Dialect, FdeFormat
from ..schemas.pointers import APPLICATION_MASK, DW_EH_PE, is_signed
from ..schemas.wire import DwarfFormat, leb_block, sleb, uleb
from .callframe_cies import Shape
from .callframe_heads import HeadFields, Heads, Places, fields_of, joined_fdes
from .callframe_streams import Written
from .unwind import FunctionFlag, UnwindTable

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
    from ..schemas import cfi_sections

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
    offset = first + np.cumsum(size) - size
    fields = fields_of(layout.table.functions, layout.function, offset, size, cie_offset[layout.cie])
    return Fdes(joined_fdes(layout.streams, layout.job, head, size), heads, fields)


def _is_marked(shape: Shape) -> bool:
    """Whether a CIE says more than its fields do, without which `.debug_frame` has no augmentation."""
    return bool(shape.flags) or shape.personality_encoding != DW_EH_PE.omit
