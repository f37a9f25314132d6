"""Strategies for call frame information: `.eh_frame_hdr`, instructions, CIEs, FDEs and whole sections."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from .. import cfi_sections
from ..cfi import (
    DW_CFA,
    INLINE_MASK,
    INLINE_OPERANDS,
    INSTRUCTIONS,
    OPERAND_KINDS,
    Cie,
    Dialect,
    Entry,
    Fde,
    FdeFormat,
    Instruction,
    OpaqueCie,
    Terminator,
)
from ..cies import fde_format_at
from ..eh_frame_hdr import EhFrameHdr
from ..pointers import DW_EH_PE, FORMAT_SIZES, is_signed, value_format
from ..section import ByteOrder, Section
from ..wire import INITIAL_LENGTH_SIZES, DwarfFormat, LebBlock, NulTerminated, leb_block, sleb, uleb
from .declarations import pointer_encodings, records, values_of


@cache
def eh_frame_hdrs(address_size: int = 8) -> SearchStrategy[EhFrameHdr]:
    """Whole `.eh_frame_hdr` sections with a few rows, in every encoding."""
    counts = pointer_encodings(direct=True)

    def of(fde_count_enc: int, count: int) -> SearchStrategy[EhFrameHdr]:
        overrides: dict[str, SearchStrategy[Any]] = {
            name: pointer_encodings() for name in ("eh_frame_ptr_enc", "table_enc")
        }
        overrides["fde_count_enc"] = st.just(fde_count_enc)
        if fde_count_enc != DW_EH_PE.omit:
            is_leb = FORMAT_SIZES[value_format(fde_count_enc)] is None
            leb = sleb(count) if is_signed(fde_count_enc) else uleb(count)
            overrides["fde_count"] = st.just(leb if is_leb else count)
        return records(EhFrameHdr, overrides, address_size=address_size)

    return st.tuples(counts, st.integers(0, 5)).flatmap(lambda chosen: of(*chosen))


@cache
def instructions(address_encoding: int = DW_EH_PE.absptr, address_size: int = 8) -> SearchStrategy[Instruction]:
    """Any call frame instruction with any operands, as stored."""
    params = {"address_encoding": address_encoding, "address_size": address_size}

    @cache
    def of(opcode: DW_CFA) -> SearchStrategy[Instruction]:
        operands = [
            st.integers(0, INLINE_MASK) if operand in INLINE_OPERANDS else values_of(OPERAND_KINDS[operand], **params)
            for operand in INSTRUCTIONS[opcode].operands
        ]
        return st.tuples(*operands).map(lambda drawn: Instruction(opcode, drawn))

    return st.sampled_from(list(INSTRUCTIONS)).flatmap(of)


@cache
def cies(dwarf_format: DwarfFormat = DwarfFormat.DWARF32, address_size: int = 8) -> SearchStrategy[Cie]:
    """CIEs of every version, with any augmentation, known or not."""
    known = st.sampled_from([b"", b"eh", b"zR", b"zPLR", b"zRS", b"zRB", b"armcc+"])
    augmentation = st.one_of(known, values_of(NulTerminated()))
    return records(Cie, {"augmentation": augmentation}, dwarf_format=dwarf_format, address_size=address_size)


@cache
def fde_formats(address_size: int = 8) -> SearchStrategy[FdeFormat]:
    """Every layout that a CIE can prescribe."""
    present = pointer_encodings(omit=False)
    return st.builds(
        FdeFormat, st.just(address_size), st.sampled_from([0, 1, 2, 4, 8]), present, pointer_encodings(), st.booleans()
    )


def fdes(
    cie_format: FdeFormat, dwarf_format: DwarfFormat = DwarfFormat.DWARF32, cie_pointer: int = 1
) -> SearchStrategy[Fde]:
    """FDEs of one layout."""
    return records(
        Fde,
        dwarf_format=dwarf_format,
        cie_format=cie_format,
        cie_pointer=cie_pointer,
        address_size=cie_format.address_size,
    )


@st.composite
def cfi_entries(
    draw: DrawFn, dialect: Dialect, byte_order: ByteOrder = "little", address_size: int = 8
) -> tuple[Section, tuple[tuple[int, Entry], ...]]:
    """Whole `.eh_frame` or `.debug_frame` sections: CIEs of every version, each with FDEs that point back to it."""
    data = bytearray()
    placed: list[tuple[int, Entry]] = []
    address = draw(st.integers(0, 1 << 20)) * 16

    def put(entry: Entry, layout: FdeFormat) -> None:
        placed.append((len(data), entry))
        data.extend(cfi_sections.build_entry(entry, dialect, byte_order, layout, address + placed[-1][0]))

    for _ in range(draw(st.integers(1, 3))):
        dwarf_format = draw(st.sampled_from(list(DwarfFormat)))
        cie, cie_offset = draw(_any_cies(dwarf_format, address_size, address + len(data))), len(data)
        put(cie, FdeFormat(address_size))
        section = Section.of(dialect.name, bytes(data), address, byte_order, address_size)
        layout = fde_format_at(section, cie_offset, dialect, "CIE")
        for _ in range(draw(st.integers(0, 3))):
            field = len(data) + INITIAL_LENGTH_SIZES[dwarf_format]
            back = field - cie_offset if dialect.relative else cie_offset
            put(draw(fdes(layout, dwarf_format, back)), layout)
        if dialect.relative and draw(st.booleans()):
            put(Terminator(), layout)
    return Section.of(dialect.name, bytes(data), address, byte_order, address_size), tuple(placed)


def _any_cies(dwarf_format: DwarfFormat, address_size: int, address: int) -> SearchStrategy[Cie | OpaqueCie]:
    opaque = records(OpaqueCie, {"augmentation": st.sampled_from([b"R", b"mlt", b"\xff"])}, dwarf_format=dwarf_format)
    return st.one_of(*[_whole_cies(dwarf_format, address_size, address)] * 3, opaque)


def _augmented(encoding: int, lsda: int) -> tuple[bytes, LebBlock]:
    return b"zLR", leb_block(bytes([lsda, encoding]))


def _whole_cies(dwarf_format: DwarfFormat, address_size: int, address: int) -> SearchStrategy[Cie]:
    """CIEs whose augmentation data fits their augmentation."""
    encodings = pointer_encodings(omit=False)
    augmented = st.builds(_augmented, encodings, pointer_encodings())
    plain = st.sampled_from([(b"", None), (b"z", leb_block(b"")), (b"zS", leb_block(b""))])
    return st.one_of(augmented, plain).flatmap(
        lambda chosen: records(
            Cie,
            {"augmentation": st.just(chosen[0]), "augmentation_data": st.just(chosen[1])},
            dwarf_format=dwarf_format,
            address_size=address_size,
            address=address,
        )
    )
