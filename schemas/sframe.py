"""SFrame V1, V2 (errata 1) and V3: header, function descriptor entries, frame row entries (the SFrame Format).

Strategy: every field, flag and bit of the specification is declared once. A section is header, FDEs and FREs;
`SframeSection` keeps the bytes between them, so that any section that parses builds back to its bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum, IntFlag
from typing import Any

from .sframe_abi import SFRAME_ABI
from .wire import (
    I8,
    I32,
    I64,
    U8,
    U16,
    U32,
    BitField,
    Bits,
    Either,
    Integer,
    Many,
    Nested,
    Rest,
    Sized,
    Variable,
    fields_of,
    fixed_size,
    record,
    wire,
)

SFRAME_MAGIC = 0xDEE2
SHT_GNU_SFRAME = 0x6FFFFFF4
PT_GNU_SFRAME = 0x6474E554
SECTION_ALIGNMENT = 8


class SFRAME_VERSION(IntEnum):
    """Versions of the format (SFrame Version)."""

    V1 = 1
    V2 = 2
    V3 = 3


class SFRAME_F(IntFlag):
    """Section-wide flags (SFrame Flags)."""

    FDE_SORTED = 0x1
    FRAME_POINTER = 0x2
    FDE_FUNC_START_PCREL = 0x4


FLAGS: dict[SFRAME_VERSION, SFRAME_F] = {
    SFRAME_VERSION.V1: SFRAME_F.FDE_SORTED | SFRAME_F.FRAME_POINTER,
    SFRAME_VERSION.V2: SFRAME_F.FDE_SORTED | SFRAME_F.FRAME_POINTER | SFRAME_F.FDE_FUNC_START_PCREL,
    SFRAME_VERSION.V3: SFRAME_F.FDE_SORTED | SFRAME_F.FDE_FUNC_START_PCREL,
}


class SFRAME_FDE_TYPE(IntEnum):
    """How an FDE's PCs are looked up (V2: The SFrame FDE Types; V3: The SFrame FDE PC Types)."""

    PCINC = 0
    PCMASK = 1


class SFRAME_V3_FDE_TYPE(IntEnum):
    """How an FDE's data words are read (V3: The SFrame FDE Types)."""

    DEFAULT = 0
    FLEX = 1


class SFRAME_FRE_TYPE(IntEnum):
    """Width of an FRE's start address (The SFrame FRE Types)."""

    ADDR1 = 0
    ADDR2 = 1
    ADDR4 = 2


class SFRAME_FRE_OFFSET(IntEnum):
    """Width of an FRE's stack offsets (The SFrame FRE Info Word)."""

    SIZE_1B = 0
    SIZE_2B = 1
    SIZE_4B = 2


class SFRAME_AARCH64_PAUTH_KEY(IntEnum):
    """The key that signs return addresses (The SFrame FDE Info Word)."""

    A = 0
    B = 1


class SFRAME_BASE_REG(IntEnum):
    """The register that a CFA is based on (fre_cfa_base_reg_id)."""

    FP = 0
    SP = 1


# An RA offset for "not saved" (SFRAME_FRE_RA_OFFSET_INVALID), and the header's for "not fixed".
RA_OFFSET_INVALID = 0
FIXED_OFFSET_INVALID = 0

FRE_START_SIZES = {SFRAME_FRE_TYPE.ADDR1: 1, SFRAME_FRE_TYPE.ADDR2: 2, SFRAME_FRE_TYPE.ADDR4: 4}
FRE_OFFSET_SIZES = {SFRAME_FRE_OFFSET.SIZE_1B: 1, SFRAME_FRE_OFFSET.SIZE_2B: 2, SFRAME_FRE_OFFSET.SIZE_4B: 4}


@record
class Preamble:
    """The fields that are the same in every version (SFrame Preamble)."""

    magic: int = wire(Integer(2, allowed=(SFRAME_MAGIC,)), "0xdee2; tells the byte order")
    version: int = wire(Integer(1, allowed=tuple(SFRAME_VERSION)), "version of the section")
    flags: int = wire(U8, "section-wide flags, `SFRAME_F`")


@record
class Header:
    """The header of the section (SFrame Header)."""

    magic: int = wire(Integer(2, allowed=(SFRAME_MAGIC,)), "0xdee2; tells the byte order")
    version: int = wire(Integer(1, allowed=tuple(SFRAME_VERSION)), "version of the section, `SFRAME_VERSION`")
    flags: int = wire(U8, "section-wide flags, `SFRAME_F`")
    abi_arch: int = wire(Integer(1, allowed=tuple(SFRAME_ABI)), "ABI and byte order, `SFRAME_ABI`")
    cfa_fixed_fp_offset: int = wire(I8, "fixed offset of FP from the CFA; 0: none")
    cfa_fixed_ra_offset: int = wire(I8, "fixed offset of RA from the CFA; 0: none")
    auxhdr_len: int = wire(U8, "bytes of the auxiliary header after this one")
    num_fdes: int = wire(U32, "function descriptor entries")
    num_fres: int = wire(U32, "frame row entries")
    fre_len: int = wire(U32, "bytes of the FRE sub-section")
    fdeoff: int = wire(U32, "offset of the FDE sub-section, from the end of the header")
    freoff: int = wire(U32, "offset of the FRE sub-section, from the end of the header")


@record
class FdeInfo:
    """The SFrame FDE info word, from bit 7 down."""

    unused: int = wire(BitField(2), "unused")
    pauth_key: int = wire(BitField(1), "AArch64: key that signs return addresses, `SFRAME_AARCH64_PAUTH_KEY`")
    fdetype: int = wire(BitField(1), "`SFRAME_FDE_TYPE`")
    fretype: int = wire(BitField(4), "`SFRAME_FRE_TYPE`")


@record
class FuncDescEntry:
    """SFrame function descriptor entry, 20 bytes (SFrame Function Descriptor Entries)."""

    func_start_address: int = wire(I32, "start of the function, from this field (PCREL) or from the section's start")
    func_size: int = wire(U32, "size of the function in bytes")
    func_start_fre_off: int = wire(U32, "offset of its first FRE, from the start of the FRE sub-section")
    func_num_fres: int = wire(U32, "its FREs")
    func_info: FdeInfo = wire(Bits(FdeInfo), "the FDE info word")
    func_rep_size: int = wire(U8, "bytes of the repetitive block, for PCMASK")
    func_padding2: int = wire(U16, "unused")


@record
class FuncDescEntryV1:
    """The same in version 1, 17 bytes (Changes from Version 1 to Version 2)."""

    func_start_address: int = wire(I32, "start of the function, from the section's start")
    func_size: int = wire(U32, "size of the function in bytes")
    func_start_fre_off: int = wire(U32, "offset of its first FRE, from the start of the FRE sub-section")
    func_num_fres: int = wire(U32, "its FREs")
    func_info: FdeInfo = wire(Bits(FdeInfo), "the FDE info word")


@record
class FuncDescIndex:
    """SFrame function descriptor index of version 3, 16 bytes (The SFrame FDE Index)."""

    func_start_offset: int = wire(I64, "start of the function, from this field (PCREL) or from the section's start")
    func_size: int = wire(U32, "size of the function in bytes")
    func_start_fre_off: int = wire(U32, "offset of its attributes, from the start of the FRE sub-section")


@record
class FdeInfoV3:
    """The first info byte of version 3, from bit 7 down (The SFrame FDE Info Bytes)."""

    signal_p: int = wire(BitField(1), "1: a signal frame")
    unused: int = wire(BitField(1), "unused")
    pauth_key: int = wire(BitField(1), "AArch64: key that signs return addresses, `SFRAME_AARCH64_PAUTH_KEY`")
    fdetype: int = wire(BitField(1), "`SFRAME_FDE_TYPE` (fde_pctype in the text)")
    fretype: int = wire(BitField(4), "`SFRAME_FRE_TYPE`")


@record
class FdeInfo2:
    """The second info byte of version 3, from bit 7 down."""

    unused: int = wire(BitField(3), "unused")
    fde_type: int = wire(BitField(5), "`SFRAME_V3_FDE_TYPE`")


@record
class FuncDescAttribute:
    """SFrame FDE attribute of version 3, 5 bytes before a function's FREs (The SFrame FDE Attribute)."""

    func_num_fres: int = wire(U16, "the function's FREs; none: an outermost frame")
    func_info: FdeInfoV3 = wire(Bits(FdeInfoV3), "the first info byte")
    func_info2: FdeInfo2 = wire(Bits(FdeInfo2), "the second info byte")
    func_rep_size: int = wire(U8, "bytes of the repetitive block, for PCMASK")


@record
class FreInfo:
    """The SFrame FRE info word, from bit 7 down."""

    fre_mangled_ra_p: int = wire(BitField(1), "1: the return address is signed")
    fre_offset_size: int = wire(BitField(2), "`SFRAME_FRE_OFFSET`")
    fre_offset_count: int = wire(BitField(4), "stack offsets that follow")
    fre_cfa_base_reg_id: int = wire(BitField(1), "`SFRAME_BASE_REG`")


def _start_size(this: Any) -> int:
    return FRE_START_SIZES[this._params.fretype]


def _offset_size(this: Any) -> int:
    # 3 is not a size; construct refuses a width of 0 bytes with the field's path.
    return FRE_OFFSET_SIZES.get(this.info.fre_offset_size, 0)


@record
class FrameRowEntry:
    """SFrame frame row entry (SFrame FRE); parsing and building take the FDE's `fretype`."""

    start_address: int = wire(Variable(_start_size), "first PC it applies to, from the function's start")
    info: FreInfo = wire(Bits(FreInfo), "the FRE info word")
    offsets: tuple[int, ...] = wire(
        Many(Variable(_offset_size, signed=True), lambda this: this.info.fre_offset_count),
        "CFA offset, then RA and FP as the ABI defines; FLEX: control and offset of each",
    )


PREAMBLE_SIZE = fixed_size(Preamble)
HEADER_SIZE = fixed_size(Header)
FDE_RECORDS: dict[SFRAME_VERSION, type] = {
    SFRAME_VERSION.V1: FuncDescEntryV1,
    SFRAME_VERSION.V2: FuncDescEntry,
    SFRAME_VERSION.V3: FuncDescIndex,
}
START_FIELDS: dict[SFRAME_VERSION, str] = {version: fields_of(entry)[0].name for version, entry in FDE_RECORDS.items()}
ATTRIBUTE_SIZE = fixed_size(FuncDescAttribute)
FDE_SIZES = {version: fixed_size(entry) for version, entry in FDE_RECORDS.items()}

# The most FREs that a function's count can hold.
MAX_FRES = {version: U16.limits[1] if version == SFRAME_VERSION.V3 else U32.limits[1] for version in SFRAME_VERSION}

# V1 has no func_rep_size: its only writer, GNU ld 2.40, uses PCMASK for the entries of AMD64's .plt, of 16 bytes
# (libsframe 2.40: "the pltN entry stub is 16 bytes").
V1_REPETITION = 16


# The control word of a pair (Flexible FDE Type Interpretation): if `reg_p`, the base is a register, else the CFA; if
# `deref_p`, the value is in memory at base + offset, else it is base + offset. The bits from 3 up are the DWARF
# register number.
CONTROL_REG = 1 << 0
CONTROL_DEREF = 1 << 1
CONTROL_REGISTER_SHIFT = 3
# The control word of an entity without a rule; no offset follows it.
PADDING_WORD = 0


def _is(version: SFRAME_VERSION) -> Callable[[Any], bool]:
    return lambda this: bool(this.header.version == version)


def _num_fdes(this: Any) -> int:
    return int(this.header.num_fdes)


def _fdes_end(this: Any) -> int:
    return int(this.header.fdeoff + this.header.num_fdes * FDE_SIZES[this.header.version])


@record
class SframeSection:
    """A whole section: header, FDE and FRE sub-sections, and any bytes between and after them."""

    header: Header = wire(Nested(Header), "the header")
    auxiliary_header: bytes = wire(Sized(lambda this: this.header.auxhdr_len), "ABI-specific")
    before_fdes: bytes = wire(Sized(lambda this: this.header.fdeoff), "bytes before the FDE sub-section")
    fdes: tuple[FuncDescEntry | FuncDescEntryV1 | FuncDescIndex, ...] = wire(
        Either(
            _is(SFRAME_VERSION.V3),
            Many(Nested(FuncDescIndex), _num_fdes),
            Either(
                _is(SFRAME_VERSION.V1),
                Many(Nested(FuncDescEntryV1), _num_fdes),
                Many(Nested(FuncDescEntry), _num_fdes),
            ),
        ),
        "the FDE sub-section",
    )
    before_fres: bytes = wire(Sized(lambda this: this.header.freoff - _fdes_end(this)), "bytes between the two")
    fres: bytes = wire(Sized(lambda this: this.header.fre_len), "the FRE sub-section")
    trailing: bytes = wire(Rest(), "bytes after it")
