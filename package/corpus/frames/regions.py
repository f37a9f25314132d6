"""Where a drawn section and its functions are, and which encodings reach them from there."""

from __future__ import annotations

from functools import cache

from ...schemas.data_classes import dataclass
from ...schemas.pointers import APPLICATION_MASK, APPLICATIONS, DW_EH_PE, FORMAT_SIZES, PointerBases, store
from ..byte_stream import fits
from ..choices import Choice, sampled_from
from .features import Feature, encoding_features

# More than any drawn section and its functions take, with short steps between rows and with all.
MAX_SECTION, MAX_SHORT_CODE, MAX_CODE = 0x8000, 0x6000, 0x14000000
MAX_LSDAS = 0x1000


@dataclass(frozen=True, slots=True)
class Region:
    """Addresses: of the section, of the first function, and of the first of the LSDAs and personality routines.

    `bases` are those of DW_EH_PE_textrel and DW_EH_PE_datarel. `is_short`: all functions are within MAX_SHORT_CODE
    bytes.
    """

    section: int
    code: int
    others: int
    bases: PointerBases
    is_short: bool

    @property
    def code_size(self) -> int:
        """The most bytes that the functions take."""
        return MAX_SHORT_CODE if self.is_short else MAX_CODE


@cache
def regions(bits: int, *, is_loaded: bool, has_high: bool) -> Choice[Region]:
    """Regions of an address space of 32 or 64 bits. A section that is not loaded is at address 0."""
    top = 1 << bits
    far = 0x7F0000000000 if bits == 64 else 0x08048000
    high = [top - 0x80000000, top - MAX_CODE - 1] * has_high
    found = []
    for code in (0x401000, 0x1000, 0x1003, far, *high):
        for is_short in (True, False):
            after = code + (MAX_SHORT_CODE if is_short else MAX_CODE)
            # Mostly near the code, as linkers place it; else anywhere.
            near = after if after + 0x20000 < top else code - 0x20000
            for section in (near + 0x20, near + 0x24, 0x20200000):
                bases = PointerBases(text=code & ~0xFFF, data=section + 0x4000)
                found.append(Region(section * is_loaded, code, section + MAX_SECTION, bases, is_short))
    return sampled_from(found)


@cache
def _all_encodings() -> tuple[int, ...]:
    """Every encoding of a direct pointer, plain ones first, DW_EH_PE_aligned as often as another application."""
    found = [form | application for application in APPLICATIONS[:-1] for form in FORMAT_SIZES]
    return (*found, *[DW_EH_PE.aligned] * 6)


@cache
def address_encodings(region: Region, address_size: int, without: frozenset[Feature]) -> tuple[int, ...]:
    """The encodings of 'R' that reach every function of a region from everywhere in the section."""
    ends = (region.code, region.code + region.code_size)
    return tuple(
        encoding
        for encoding in _all_encodings()
        if encoding & APPLICATION_MASK != DW_EH_PE.funcrel
        and not without & encoding_features(encoding, address_size, of_address=True)
        and (region.is_short or FORMAT_SIZES[DW_EH_PE(encoding & 0x0F)] != 2)
        and _reach(region, ends, encoding, address_size)
    )


@cache
def pointer_encodings(
    region: Region, address_size: int, without: frozenset[Feature], *, of_lsda: bool
) -> tuple[int, ...]:
    """The encodings of 'L', or of 'P', that reach every LSDA and personality routine, DW_EH_PE_indirect included."""
    ends = (region.others, region.others + MAX_LSDAS)
    direct = [
        encoding
        for encoding in _all_encodings()
        if (of_lsda or encoding & APPLICATION_MASK != DW_EH_PE.funcrel) and _reach(region, ends, encoding, address_size)
    ]
    found = (*direct, *(encoding | DW_EH_PE.indirect for encoding in direct), *[DW_EH_PE.omit] * of_lsda)
    return tuple(
        encoding for encoding in found if not without & encoding_features(encoding, address_size, of_address=False)
    )


def _reach(region: Region, ends: tuple[int, int], encoding: int, address_size: int) -> bool:
    """Whether an encoding can store all addresses between two, wherever the pointer and its function are."""
    places = (region.section, region.section + MAX_SECTION)
    functions = (region.code, region.code + region.code_size)
    for address in ends:
        for place in places:
            for function in functions:
                bases = PointerBases(region.bases.text, region.bases.data, function)
                if not fits(store(address, encoding, place, bases, address_size), encoding, address_size):
                    return False
    return True
