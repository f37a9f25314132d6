"""DW_EH_PE: how `.eh_frame` and `.eh_frame_hdr` encode addresses (LSB Core, Exception Frames; DWARF extensions).

Strategy: an encoding byte is a format (low four bits), an application (bits 4 to 6) and a flag (bit 7).
The stored value is kept separate from its meaning: `resolve` and `store` convert between the two.
"""

from __future__ import annotations

from enum import IntEnum

from .data_classes import dataclass


class DW_EH_PE(IntEnum):
    """Formats, applications, the indirection flag and the value for an absent pointer."""

    absptr = 0x00
    uleb128 = 0x01
    udata2 = 0x02
    udata4 = 0x03
    udata8 = 0x04
    signed = 0x08
    sleb128 = 0x09
    sdata2 = 0x0A
    sdata4 = 0x0B
    sdata8 = 0x0C

    pcrel = 0x10
    textrel = 0x20
    datarel = 0x30
    funcrel = 0x40
    aligned = 0x50

    indirect = 0x80
    omit = 0xFF


FORMAT_MASK = 0x0F
APPLICATION_MASK = 0x70
APPLICATION_SHIFT = 4

APPLICATIONS = (
    DW_EH_PE.absptr, DW_EH_PE.pcrel, DW_EH_PE.textrel, DW_EH_PE.datarel, DW_EH_PE.funcrel, DW_EH_PE.aligned,
)  # fmt: skip

# The size of each format in bytes; 0: the size of a target address, None: a LEB128.
FORMAT_SIZES: dict[DW_EH_PE, int | None] = {
    DW_EH_PE.absptr: 0,
    DW_EH_PE.uleb128: None,
    DW_EH_PE.udata2: 2,
    DW_EH_PE.udata4: 4,
    DW_EH_PE.udata8: 8,
    DW_EH_PE.signed: 0,
    DW_EH_PE.sleb128: None,
    DW_EH_PE.sdata2: 2,
    DW_EH_PE.sdata4: 4,
    DW_EH_PE.sdata8: 8,
}


def is_known(encoding: int) -> bool:
    """Whether the format and the application of an encoding byte are defined."""
    if encoding == DW_EH_PE.omit:
        return True
    return encoding & FORMAT_MASK in FORMAT_SIZES and encoding & APPLICATION_MASK in APPLICATIONS


def value_format(encoding: int) -> DW_EH_PE:
    """The format of an encoding byte. DW_EH_PE_aligned is an address whatever the low bits are."""
    if encoding & APPLICATION_MASK == DW_EH_PE.aligned:
        return DW_EH_PE.absptr
    return DW_EH_PE(encoding & FORMAT_MASK)


def is_signed(encoding: int) -> bool:
    """Whether the stored value is signed."""
    return bool(value_format(encoding) & DW_EH_PE.signed)


def encoding_text(encoding: int) -> str:
    """The names of an encoding byte, such as `DW_EH_PE_pcrel|sdata4`; its number if it is not defined."""
    if not is_known(encoding):
        return f"{encoding:#04x}"
    if encoding == DW_EH_PE.omit:
        return "DW_EH_PE_omit"
    parts = [encoding & DW_EH_PE.indirect, encoding & APPLICATION_MASK, encoding & FORMAT_MASK]
    return "DW_EH_PE_" + ("|".join(DW_EH_PE(one).name for one in parts if one) or DW_EH_PE.absptr.name)


@dataclass(frozen=True, slots=True)
class PointerBases:
    """The virtual addresses that a stored value may be relative to. `text` and `data` default to 0, as in readelf."""

    text: int = 0
    data: int = 0
    function: int = 0


NO_BASES = PointerBases()


def base_of(encoding: int, place: int, bases: PointerBases) -> int:
    """The address that a stored value is relative to. `place` is the address of the value's first byte."""
    match encoding & APPLICATION_MASK:
        case DW_EH_PE.pcrel:
            return place
        case DW_EH_PE.textrel:
            return bases.text
        case DW_EH_PE.datarel:
            return bases.data
        case DW_EH_PE.funcrel:
            return bases.function
        case _:
            return 0


def resolve(stored: int, encoding: int, place: int, bases: PointerBases, address_size: int) -> int:
    """The address that a stored value encodes, modulo the address size (in bytes).

    With DW_EH_PE_indirect, it is the address of the memory that holds the address.
    """
    return stored + base_of(encoding, place, bases) & (1 << 8 * address_size) - 1


def store(address: int, encoding: int, place: int, bases: PointerBases, address_size: int) -> int:
    """The value to store for `address`; the inverse of `resolve`. Signed formats get the value that is nearer to 0."""
    modulus = 1 << 8 * address_size
    value = (address - base_of(encoding, place, bases)) % modulus
    if is_signed(encoding) and value >= modulus // 2:
        return value - modulus
    return value
