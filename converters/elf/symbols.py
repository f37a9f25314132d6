"""Symbol tables: their records as columns, and the addresses of names.

Strategy: a table is read as a NumPy array of records. Wanted names are searched in the string table, each once, so that
no string is made for any other symbol.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.arguments import checked, each, encoded_text
from ...schemas.elf.headers import SHN_ABS, SHN_LORESERVE, SHN_UNDEF, SHN_XINDEX
from ...schemas.elf.numbers import STT
from ...schemas.section import ParseError, Section, order_code
from ..arrays import ranges
from ..limits import exceeded, raised
from .image import ElfImage, ElfSection

if TYPE_CHECKING:
    from numpy.typing import NDArray

TABLES = ("SHT_SYMTAB", "SHT_DYNSYM")
# Types of symbols that may be code; symbols of assembler sources often have no type.
_FUNCTION_TYPES = [STT.FUNC, STT.GNU_IFUNC]
_CODE_TYPES = [STT.NOTYPE, *_FUNCTION_TYPES]
_TYPE_MASK = 0xF
# Names may be the ends of one another in a string table. Those of all symbols of a table have at most this many bytes
# for each byte of the table and of its strings: of 2,930 tables of Debian's files, the highest ratio is 0.81.
MAX_NAMES = 8


def records_of(table: Section, header: ElfSection, layout: np.dtype[np.void]) -> NDArray[np.void]:
    """A section as records of one layout. Raises ParseError if it is not a whole number of them, or compressed."""
    if header.is_compressed:
        # It may be read once for each of many relocation sections.
        raise ParseError(table.name, None, "sh_flags", "is SHF_COMPRESSED, which such a table never is")
    if header.entry_size != layout.itemsize:
        reason = f"{header.entry_size} bytes, expected {layout.itemsize}"
        raise ParseError(table.name, None, "sh_entsize", reason)
    if len(table) % layout.itemsize:
        raise ParseError(table.name, None, "sh_size", f"{len(table)} bytes are not a multiple of {layout.itemsize}")
    return np.frombuffer(table.data, layout)


def symbols_of(image: ElfImage, header: ElfSection) -> NDArray[np.void]:
    """The records of a symbol table: `name`, `info`, `other`, `shndx`, `value`, `size` (gABI, Elf32_Sym, Elf64_Sym)."""
    order = order_code(image.byte_order)
    fields = [("name", "u4"), ("info", "u1"), ("other", "u1"), ("shndx", "u2"), ("value", "u8"), ("size", "u8")]
    if image.address_size == 4:
        fields = [("name", "u4"), ("value", "u4"), ("size", "u4"), ("info", "u1"), ("other", "u1"), ("shndx", "u2")]
    layout = np.dtype([(name, f"{order}{code}") for name, code in fields])
    return records_of(image.contents(header), header, layout)


def extended_headers(image: ElfImage) -> dict[int, ElfSection]:
    """The SHT_SYMTAB_SHNDX section of each symbol table, by its index."""
    return {one.link: one for one in image.sections if one.type == "SHT_SYMTAB_SHNDX"}


def extended_indices(
    image: ElfImage, symbols: ElfSection, count: int, headers: dict[int, ElfSection]
) -> NDArray[np.uint32]:
    """Section indices that exceed 16 bits, one per symbol of a table (gABI, SHT_SYMTAB_SHNDX). Raises ParseError."""
    if symbols.index not in headers:
        raise ParseError(symbols.name, None, "st_shndx", "is SHN_XINDEX without SHT_SYMTAB_SHNDX")
    section = image.contents(headers[symbols.index])
    if len(section) != 4 * count:
        reason = f"{len(section)} bytes, expected 4 for each of {count} symbols"
        raise ParseError(section.name, None, "sh_size", reason)
    return np.frombuffer(section.data, f"{order_code(section.byte_order)}u4")


@checked(image=ElfImage, names=each(str))
def addresses_of_names(image: ElfImage, names: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The addresses of the functions of each name, ascending, from `.symtab` and `.dynsym`; in a relocatable file the
    offsets in their sections.

    Several local functions may have one name: all are included. A versioned name (`memcpy@@GLIBC_2.14`) is also found
    without its version. Raises ParseError for malformed tables and for a name that no table has.
    """
    found = find_names(image, names)
    refuse_unknown(name for name, addresses in found.items() if not addresses)
    return found


def refuse_unknown(names: Iterable[str]) -> None:
    """Raise ParseError for names that no function has."""
    missing = ", ".join(names)
    if missing:
        raise ParseError("", None, "symbols", f"no function is called {missing}")


def find_names(image: ElfImage, names: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """As `addresses_of_names`, with no addresses for a name that no table has. If the sections of a relocatable file
    have addresses (`lay_out`), so have its functions."""
    found: dict[str, set[int]] = {name: set() for name in names}
    for header in image.sections:
        if header.type in TABLES and not header.is_nobits:
            for name, addresses in _addresses(image, header, list(found)):
                found[name] |= addresses
    return {name: tuple(sorted(addresses)) for name, addresses in found.items()}


def numbers_and_names(asked: Iterable[int | str]) -> list[int | str]:
    """What was asked for: numbers, and texts that are numbers, as addresses; all other texts are names."""
    found: list[int | str] = []
    for one in asked:
        try:
            found.append(int(one, 0) if isinstance(one, str) else int(one))
        except ValueError:
            found.append(one)
    return found


def addresses_asked_for(image: ElfImage, asked: Iterable[int | str]) -> list[tuple[int, str | None]]:
    """Addresses, each with the name that it was asked for by, or None.

    A number, or a text that is a number, is an address; any other text is a name, and gives the addresses of its
    functions. Raises as `addresses_of_names`.
    """
    numbers = numbers_and_names(asked)
    names = list(dict.fromkeys(one for one in numbers if isinstance(one, str)))
    by_name = addresses_of_names(image, names) if names else {}
    found: list[tuple[int, str | None]] = []
    for one in numbers:
        found += [(address, one) for address in by_name[one]] if isinstance(one, str) else [(one, None)]
    return found


def strings_of(image: ElfImage, header: ElfSection) -> bytes:
    """The string table of a symbol table. Raises ParseError."""
    if header.link >= len(image.sections) or image.sections[header.link].type != "SHT_STRTAB":
        raise ParseError(header.name, None, "sh_link", f"section {header.link} is not a string table")
    return bytes(image.contents(image.sections[header.link]).data)


def name_ranges(symbols: NDArray[np.void], strings: bytes, table: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the names of symbols are in a string table: offset and size in bytes, without the terminator.

    A malformed name may lack its terminator or start past the end of the table, where it is empty. Raises ParseError if
    the names of the symbols of `table` are together much larger than it.
    """
    ends = np.append(np.flatnonzero(np.frombuffer(strings, np.uint8) == 0), len(strings))
    start = np.minimum(symbols["name"].astype(np.int64), len(strings))
    size = ends[np.searchsorted(ends, start)] - start
    total, stored = int(size.sum()), symbols.nbytes + len(strings)
    if total > raised(MAX_NAMES * stored):
        reason = f"the names of {len(symbols)} symbols have {total} bytes, in tables of {stored} bytes"
        raise ParseError(table, None, "st_name", exceeded(reason))
    return start, size


def defined_functions(image: ElfImage, header: ElfSection) -> tuple[NDArray[np.void], NDArray[np.uint64]]:
    """The records of functions that the file defines, and their addresses: in a relocatable file those that its section
    headers have been given, if any. Raises ParseError."""
    symbols = symbols_of(image, header)
    is_function = _is_defined(symbols, _FUNCTION_TYPES)
    address = _addresses_of(image, symbols)
    if image.type == "ET_REL":
        address += _section_addresses(image, header, symbols, is_function)
    return symbols[is_function], address[is_function]


def _is_defined(symbols: NDArray[np.void], types: Sequence[int]) -> NDArray[np.bool_]:
    """Which symbols have one of these types and an address."""
    is_code = np.isin(symbols["info"] & _TYPE_MASK, types)
    nowhere = np.isin(symbols["shndx"], [SHN_UNDEF, SHN_ABS])
    return is_code & ~nowhere


def _section_addresses(
    image: ElfImage, header: ElfSection, symbols: NDArray[np.void], which: NDArray[np.bool_]
) -> NDArray[np.uint64]:
    """The address of the section of some symbols; 0 for all others. Raises ParseError."""
    index = np.where(which, symbols["shndx"], 0).astype(np.uint32)
    extended = index == SHN_XINDEX
    if extended.any():
        index[extended] = extended_indices(image, header, len(symbols), extended_headers(image))[extended]
    index[(index >= SHN_LORESERVE) & ~extended] = 0
    for wrong in np.flatnonzero(index >= len(image.sections))[:1]:
        reason = f"is {int(index[wrong])}, but there are only {len(image.sections)} sections"
        raise ParseError(header.name, None, f"symbol[{wrong}].st_shndx", reason)
    return np.array([one.address for one in image.sections], np.uint64)[index]


def _addresses(image: ElfImage, header: ElfSection, names: list[str]) -> list[tuple[str, set[int]]]:
    """The addresses of each name in one table."""
    strings = strings_of(image, header)
    symbols = symbols_of(image, header)
    is_code = _is_defined(symbols, _CODE_TYPES)
    address = _addresses_of(image, symbols)
    if image.type == "ET_REL":
        address += _section_addresses(image, header, symbols, is_code)
    symbols, address = symbols[is_code], address[is_code]
    by_name = np.argsort(symbols["name"], kind="stable")
    offsets = symbols["name"][by_name]
    found = []
    for name in names:
        places = np.array(_places(strings, name), np.uint64)
        first, last = (np.searchsorted(offsets, places, side=side) for side in ("left", "right"))
        found.append((name, {*address[by_name[ranges(first, last - first)]].tolist()}))
    return found


def _places(strings: bytes, name: str) -> list[int]:
    """The offsets in a string table of strings that equal the name, or the name and a version, or that end in it."""
    wanted, places = encoded_text(name), []
    at = strings.find(wanted) if wanted else -1
    while at >= 0:
        if strings[at + len(wanted) : at + len(wanted) + 1] in (b"\0", b"@"):
            places.append(at)
        at = strings.find(wanted, at + 1)
    return places


def _addresses_of(image: ElfImage, symbols: NDArray[np.void]) -> NDArray[np.uint64]:
    """The addresses of symbols that are code."""
    value = symbols["value"].astype(np.uint64)
    if not image.architecture.marks_code:
        return value
    is_function = symbols["info"] & _TYPE_MASK == STT.FUNC
    return np.where(is_function, value & ~np.uint64(1), value)
