"""An `.sframe` section as columns of its stored fields: the input of the table, the look-up and the dump.

Strategy: all differences between versions and all bounds are handled here; further code reads columns. `check_columns`
adds the checks that looking up PCs requires; a dump does without them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...schemas import sframe
from ...schemas.data_classes import dataclass
from ...schemas.derive import bit_position, dtype_of
from ...schemas.section import ByteOrder, ParseError, Section
from ...schemas.sframe import SFRAME_F, SFRAME_FDE_TYPE, SFRAME_FRE_TYPE, SFRAME_V3_FDE_TYPE, SFRAME_VERSION
from ..arch.table import Architecture, architecture_of_abi
from .fres import MAX_WORDS, FreBlocks, abi_of, fres_of_blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class SframeColumns:
    """A section's header and the fields of its FDEs, one element per FDE.

    `start` u64, absolute; `size` u64, bytes; `fre_offset` i64, offset of the first FRE in `fres`; `num_fres` i64;
    `info` u8, the FDE info word; `info2` u8, the second info word (0 before version 3); `repetition` u16, size in bytes
    of a PCMASK block, else 0; `origin` u64, section offset of the FDE. `fres` is the FRE sub-section, at section offset
    `fres_offset`.
    """

    section: Section
    header: np.void
    version: SFRAME_VERSION
    architecture: Architecture
    start: NDArray[np.uint64]
    size: NDArray[np.uint64]
    fre_offset: NDArray[np.int64]
    num_fres: NDArray[np.int64]
    info: NDArray[np.uint8]
    info2: NDArray[np.uint8]
    repetition: NDArray[np.uint16]
    origin: NDArray[np.uint64]
    fres: memoryview
    fres_offset: int

    def __len__(self) -> int:
        """The number of FDEs."""
        return len(self.start)

    @property
    def auxiliary_header(self) -> bytes:
        """The bytes of the auxiliary header."""
        return bytes(self.section.data[sframe.HEADER_SIZE :][: int(self.header["auxhdr_len"])])

    def bits(self, name: str) -> NDArray[np.uint8]:
        """One field of the FDE info word."""
        return _bits(self.info, _INFO_RECORDS[self.version], name)

    def is_signal_frame(self) -> NDArray[np.bool_]:
        """Which FDEs are signal frames; none before version 3."""
        if self.version < SFRAME_VERSION.V3:
            return np.zeros(len(self), np.bool_)
        return self.bits("signal_p").astype(np.bool_)

    def is_flex(self) -> NDArray[np.bool_]:
        """Which FDEs' words are pairs (SFRAME_FDE_TYPE_FLEX)."""
        return np.equal(_bits(self.info2, sframe.FdeInfo2, "fde_type"), SFRAME_V3_FDE_TYPE.FLEX)

    def widths(self) -> NDArray[np.uint8]:
        """The size in bytes of the start addresses in each FDE's FREs."""
        return FRE_WIDTHS[self.bits("fretype")]

    def blocks(self) -> FreBlocks:
        """The FREs of each FDE: one block per FDE."""
        return FreBlocks(self.fre_offset, self.num_fres, self.widths(), self.is_flex(), np.arange(len(self)))

    def distinct_blocks(self) -> tuple[FreBlocks, NDArray[np.int64]]:
        """The distinct blocks of FREs, and the index of each FDE's block."""
        # In two steps, because sorting single numbers is several times faster than sorting rows.
        layout = (self.num_fres * len(FRE_WIDTHS) + self.bits("fretype")) * 2 + self.is_flex()
        _, rank = np.unique(layout, return_inverse=True)
        _, first, block = np.unique(self.fre_offset << 32 | rank.reshape(-1), return_index=True, return_inverse=True)
        return self.blocks().select(first), block.reshape(-1)


# The bytes of a start address, by `SFRAME_FRE_TYPE`.
FRE_WIDTHS = np.array([sframe.FRE_START_SIZES[kind] for kind in SFRAME_FRE_TYPE], np.uint8)
_INFO_RECORDS = {
    SFRAME_VERSION.V1: sframe.FdeInfo,
    SFRAME_VERSION.V2: sframe.FdeInfo,
    SFRAME_VERSION.V3: sframe.FdeInfoV3,
}


def _bits(values: NDArray[np.uint8], record: type, name: str) -> NDArray[np.uint8]:
    shift, mask = bit_position(record, name)
    return values >> np.uint8(shift) & np.uint8(mask)


def sframe_columns(section: Section) -> SframeColumns:
    """Read a section of any version; the magic number gives the byte order. Raises ParseError."""
    section, version = _identify(section)
    header = _header(section)
    architecture = _architecture(section, header)
    fdes_offset, fres_offset = _sub_sections(section, header, version)
    size = sframe.FDE_SIZES[version]
    end = fdes_offset + int(header["num_fdes"]) * size
    fdes = np.frombuffer(section.data[fdes_offset:end], dtype_of(sframe.FDE_RECORDS[version], section.byte_order))
    origin = np.arange(fdes_offset, end, size, dtype=np.uint64)
    fres = section.data[fres_offset : fres_offset + int(header["fre_len"])]
    attributes, attribute_size = (fdes, 0) if version < SFRAME_VERSION.V3 else _attributes(section, fdes, origin, fres)
    info = np.ascontiguousarray(attributes["func_info"])
    return _check_fdes(
        SframeColumns(
            section=section,
            header=header,
            version=version,
            architecture=architecture,
            start=_starts(section, header, fdes[sframe.START_FIELDS[version]], origin),
            size=fdes["func_size"].astype(np.uint64),
            fre_offset=fdes["func_start_fre_off"].astype(np.int64) + attribute_size,
            num_fres=attributes["func_num_fres"].astype(np.int64),
            info=info,
            info2=np.ascontiguousarray(attributes["func_info2"]) if attribute_size else np.zeros_like(info),
            repetition=_repetitions(attributes, info, version),
            origin=origin,
            fres=fres,
            fres_offset=fres_offset,
        )
    )


def _check_fdes(columns: SframeColumns) -> SframeColumns:
    """The same columns, if every FDE has a known FRE type and FREs inside the sub-section. Raises ParseError."""
    _refuse(
        columns,
        ("func_info.fretype", columns.bits("fretype") > SFRAME_FRE_TYPE.ADDR4, "unknown FRE type"),
        (
            "func_start_fre_off",
            columns.fre_offset + (columns.num_fres > 0) > len(columns.fres),
            f"is past the end of the FRE sub-section of {len(columns.fres):#x} bytes",
        ),
    )
    return columns


def check_columns(columns: SframeColumns) -> SframeColumns:
    """The same columns, checked for looking up PCs: flags, offsets fixed by the ABI, FDE types, block sizes, sizes, and
    order. Raises ParseError.
    """
    section, header, start = columns.section, columns.header, columns.start
    if unknown := int(header["flags"]) & ~int(sframe.FLAGS[columns.version]):
        reason = f"has the bits {unknown:#x}, which version {int(columns.version)} does not define"
        raise ParseError(section, 3, "header.flags", reason)
    fixed = sframe.FIXED_OFFSET_INVALID, abi_of(columns.architecture).fixed_ra_offset or sframe.FIXED_OFFSET_INVALID
    for offset, (name, expected) in enumerate(zip(("fp", "ra"), fixed, strict=True), 5):
        found = header[f"cfa_fixed_{name}_offset"]
        if found != expected:
            reason = f"is {found}, expected {expected} for {columns.architecture.name}"
            raise ParseError(section, offset, f"header.cfa_fixed_{name}_offset", reason)
    is_masked = columns.bits("fdetype") == SFRAME_FDE_TYPE.PCMASK
    fde_type = _bits(columns.info2, sframe.FdeInfo2, "fde_type")
    _refuse(
        columns,
        ("func_rep_size", is_masked & (columns.repetition == 0), "the repetitive block has no bytes"),
        ("func_info2.fde_type", fde_type > SFRAME_V3_FDE_TYPE.FLEX, "unknown FDE type"),
        ("func_size", columns.size > ~start, "the function reaches past the address space"),
    )
    if header["flags"] & SFRAME_F.FDE_SORTED:
        # Signed differences: starts may wrap around the end of the address space.
        descends = np.concatenate([np.zeros(1, np.bool_), np.diff(start.astype(np.int64)) < 0])[: len(start)]
        _refuse(
            columns, ("func_start_address", descends, "is below the one before, but the section is flagged as sorted")
        )
    return columns


def _refuse(columns: SframeColumns, *faults: tuple[str, NDArray[np.bool_], str]) -> None:
    """Raise ParseError for the first FDE with a fault. A fault is a field, whether each FDE has it, and the reason."""
    for name, is_wrong, reason in faults:
        wrong = np.flatnonzero(is_wrong)
        if len(wrong):
            raise ParseError(columns.section, int(columns.origin[wrong[0]]), f"FDE[{wrong[0]}].{name}", reason)


def further_words(columns: SframeColumns) -> int:
    """The number of FREs with offsets after those of CFA, RA and FP. Raises ParseError."""
    blocks, _ = columns.distinct_blocks()
    fres = fres_of_blocks(columns.section, columns.fres, columns.fres_offset, blocks, least=0, ascending=False)
    has_fixed_ra = columns.header["cfa_fixed_ra_offset"] != sframe.FIXED_OFFSET_INVALID
    return int((~fres.is_flex & (fres.bits("fre_offset_count") > MAX_WORDS - int(has_fixed_ra))).sum())


def section_version(section: Section) -> int:
    """The version number of an `.sframe` section, also if unknown. Raises ParseError."""
    section = replace(section, byte_order=_byte_order(section))
    preamble = section.data[: sframe.PREAMBLE_SIZE]
    return int(np.frombuffer(preamble, dtype_of(sframe.Preamble, section.byte_order))[0]["version"])


def section_architecture(section: Section) -> Architecture:
    """The architecture of the header's ABI. Raises ParseError."""
    section, _ = _identify(section)
    return _architecture(section, _header(section))


def _identify(section: Section) -> tuple[Section, SFRAME_VERSION]:
    """The section with its own byte order, and its version. Raises ParseError for an unknown version."""
    version = section_version(section)
    if version not in tuple(SFRAME_VERSION):
        known = ", ".join(str(int(one)) for one in SFRAME_VERSION)
        raise ParseError(section, 2, "header.version", f"unknown version {version}, expected one of {known}")
    return replace(section, byte_order=_byte_order(section)), SFRAME_VERSION(version)


def _header(section: Section) -> np.void:
    """The header of a section of a known version."""
    if len(section) < sframe.HEADER_SIZE:
        reason = f"{len(section)} bytes do not hold a header of {sframe.HEADER_SIZE}"
        raise ParseError(section, 0, "header", reason)
    header: np.void = np.frombuffer(section.data[: sframe.HEADER_SIZE], dtype_of(sframe.Header, section.byte_order))[0]
    return header


def _byte_order(section: Section) -> ByteOrder:
    """The byte order, from the magic number (SFrame Magic Number and Endianness)."""
    if len(section) < sframe.PREAMBLE_SIZE:
        reason = f"{len(section)} bytes do not hold a preamble of {sframe.PREAMBLE_SIZE}"
        raise ParseError(section, 0, "preamble", reason)
    orders: tuple[ByteOrder, ByteOrder] = ("little", "big")
    for order in orders:
        if int.from_bytes(section.data[:2], order) == sframe.SFRAME_MAGIC:
            return order
    raise ParseError(section, 0, "header.magic", f"{bytes(section.data[:2]).hex()} is not {sframe.SFRAME_MAGIC:#x}")


def _architecture(section: Section, header: np.void) -> Architecture:
    """The architecture of the header's ABI."""
    try:
        architecture = architecture_of_abi(int(header["abi_arch"]))
    except ValueError:
        raise ParseError(section, 4, "header.abi_arch", f"unknown ABI {header['abi_arch']}") from None
    if architecture.byte_order != section.byte_order:
        reason = f"is the ABI of {architecture.name}, but the section is {section.byte_order}-endian"
        raise ParseError(section, 4, "header.abi_arch", reason)
    return architecture


def _sub_sections(section: Section, header: np.void, version: SFRAME_VERSION) -> tuple[int, int]:
    """The section offsets of the FDE and FRE sub-sections, both inside the section (SFrame Header)."""
    header_end = sframe.HEADER_SIZE + int(header["auxhdr_len"])
    fdes_offset, fres_offset = header_end + int(header["fdeoff"]), header_end + int(header["freoff"])
    fdes_end = fdes_offset + int(header["num_fdes"]) * sframe.FDE_SIZES[version]
    for name, end in (("num_fdes", fdes_end), ("fre_len", fres_offset + int(header["fre_len"]))):
        if end > len(section):
            reason = f"the sub-section ends at {end:#x}, the section at {len(section):#x}"
            raise ParseError(section, 0, f"header.{name}", reason)
    return fdes_offset, fres_offset


def _attributes(
    section: Section, fdes: NDArray[np.void], origin: NDArray[np.uint64], fres: memoryview
) -> tuple[NDArray[np.void], int]:
    """Version 3: the attributes before each FDE's FREs, and their size in bytes."""
    offset, size = fdes["func_start_fre_off"].astype(np.int64), sframe.ATTRIBUTE_SIZE
    outside = np.flatnonzero(offset + size > len(fres))
    if len(outside):
        reason = f"is past the end of the FRE sub-section of {len(fres):#x} bytes"
        place = f"FDE[{outside[0]}].func_start_fre_off"
        raise ParseError(section, int(origin[outside[0]]), place, reason)
    stored = np.frombuffer(fres, np.uint8)[offset[:, None] + np.arange(size)]
    return stored.reshape(-1).view(dtype_of(sframe.FuncDescAttribute, section.byte_order)), size


def _starts(
    section: Section,
    header: np.void,
    stored: NDArray[np.int32] | NDArray[np.int64],
    origin: NDArray[np.uint64],
) -> NDArray[np.uint64]:
    """The absolute start of each function; stored relative to its field (errata 1), or to the section's start."""
    base = np.full(len(stored), section.address, np.uint64)
    if header["flags"] & SFRAME_F.FDE_FUNC_START_PCREL:
        base += origin
    return base + stored.astype(np.int64).astype(np.uint64)


def _repetitions(attributes: NDArray[np.void], info: NDArray[np.uint8], version: SFRAME_VERSION) -> NDArray[np.uint16]:
    is_masked = _bits(info, _INFO_RECORDS[version], "fdetype") == SFRAME_FDE_TYPE.PCMASK
    stored = sframe.V1_REPETITION if version == SFRAME_VERSION.V1 else attributes["func_rep_size"].astype(np.uint16)
    return np.where(is_masked, stored, 0).astype(np.uint16)
