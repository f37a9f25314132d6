"""Relocatable files: loaded sections get disjoint addresses, and relocations are applied as columns.

Strategy: in a `.o` every section starts at 0. `lay_out` gives the loaded sections disjoint addresses, like a linker;
then relocations are plain sums, and readers work as on linked files. `place_addresses` maps an address back to its
section and the offset there. REL and RELA differ in where the addend is, MIPS n64 in the layout of the record.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from ...schemas.data_classes import dataclass
from ...schemas.elf.headers import SHN_COMMON, SHN_LORESERVE, SHN_UNDEF, SHN_XINDEX
from ...schemas.elf.numbers import SHF
from ...schemas.section import ParseError, Section, order_code
from ..arch.relocations import Operation, RelocationTypes, has_n64_records, relocation_types
from ..arrays import distinct_values, integers_at, put_integers, run_starts, sign_extended
from .image import ElfImage, ElfSection
from .symbols import extended_headers, extended_indices, records_of, symbols_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    U8 = NDArray[np.uint8]
    U32 = NDArray[np.uint32]
    U64 = NDArray[np.uint64]

# Values below it are not addresses of a section: an undefined symbol has 0. All sections of a file of less than a
# gigabyte are within the range of signed 32-bit values.
FIRST_ADDRESS = 0x40000000
# Between sections, so that the end of one is not the start of the next; the largest alignment of code sections.
GAP = 64

TABLES = ("SHT_REL", "SHT_RELA", "SHT_CREL")
LEB_GROUPS = 10


@dataclass(frozen=True, slots=True, eq=False)
class LaidOut:
    """A file whose loaded sections have addresses. `image` has them in its headers; `address` is the same by section
    index, u64.

    For a relocatable file, `tables` are the relocation sections of each section, by its index, and `extended` the
    SHT_SYMTAB_SHNDX section of each symbol table, by its index.
    """

    image: ElfImage
    address: U64
    tables: dict[int, list[ElfSection]]
    extended: dict[int, ElfSection]

    @property
    def is_relocatable(self) -> bool:
        """Whether the addresses are ours, not the file's."""
        return self.image.type == "ET_REL"


def lay_out(image: ElfImage, at_zero: bool = False) -> LaidOut:
    """A relocatable file with disjoint addresses for its loaded sections, code first; any other file as it is.

    `at_zero` leaves them all at 0, as in readelf. Sections that are not loaded stay at 0: offsets into DWARF sections
    are relative to the section. Raises ParseError.
    """
    if image.type != "ET_REL":
        return LaidOut(image, np.zeros(0, np.uint64), {}, {})
    loaded = [one for one in image.sections if one.flags & SHF.ALLOC]
    end = FIRST_ADDRESS
    sections = [replace(one, address=0) if one.address else one for one in image.sections]
    for one in sorted(() if at_zero else loaded, key=lambda one: (one.is_nobits, not one.is_code, one.index)):
        sections[one.index] = replace(one, address=end)
        # A size beyond the file is refused when the bytes are read.
        size = one.size if one.is_nobits else min(one.size, len(image.data))
        end += (size + 2 * GAP) // GAP * GAP
        if end >> 8 * image.address_size:
            raise ParseError("", None, "section headers", "the sections are larger than the address space")
    tables: dict[int, list[ElfSection]] = {}
    for one in image.sections:
        if one.type in TABLES:
            tables.setdefault(one.info, []).append(one)
    return LaidOut(
        image=replace(image, sections=tuple(sections)),
        address=np.array([one.address for one in sections], np.uint64),
        tables=tables,
        extended=extended_headers(image),
    )


def place_addresses(laid: LaidOut, address: U64) -> tuple[U32, U64, NDArray[np.bool_]]:
    """The index of the section of each address (its end included), the offset there, and whether the address is stray.

    An address in no section has index 0 and is returned unchanged; it is stray if it is between two sections, that is,
    relative to one but outside it.
    """
    loaded = sorted((one for one in laid.image.sections if one.address), key=lambda one: one.address)
    base, size, index = (
        np.array([0, *(getattr(one, name) for one in loaded)], np.uint64) for name in ("address", "size", "index")
    )
    number = np.searchsorted(base, address, side="right") - 1
    is_outside = address - base[number] > size[number]
    end = min(int(base[-1]) + int(size[-1]), (1 << 64) - 1)
    is_stray = is_outside & (number > 0) & (address < np.uint64(end))
    number[is_outside] = 0
    return index[number].astype(np.uint32), address - base[number], is_stray


def relocate(laid: LaidOut, header: ElfSection) -> Section:
    """The bytes of a section, with its relocations applied. Raises ParseError.

    A symbol that the file does not define has the value 0, and so has an address that only a linker can choose.
    """
    section = laid.image.contents(header)
    tables = laid.tables.get(header.index)
    if not tables:
        return section
    data = np.frombuffer(section.data, np.uint8).copy()
    for table in tables:
        if table.type == "SHT_CREL":
            raise ParseError(table.name, None, "sh_type", "is SHT_CREL, compact relocations, which are not supported")
        _apply(_relocations(laid, table, len(data)), data, section)
    return replace(section, data=data.data)


@dataclass(frozen=True, slots=True, eq=False)
class _Relocations:
    """The relocations of one table that have an effect.

    `number` is the index in `table`; `place` is the offset in the section that they change; `value` is S + A, or S if
    not `has_addend`: A is then in the section.
    """

    table: Section
    entry_size: int
    types: RelocationTypes
    number: NDArray[np.int64]
    place: NDArray[np.int64]
    type: U32
    operation: U8
    bits: U8
    is_pcrel: NDArray[np.bool_]
    value: U64
    has_addend: bool

    def select(self, bits: int, *operations: Operation) -> _Relocations:
        """The relocations with one of these operations on fields of `bits` bits."""
        return self._take(np.flatnonzero(np.isin(self.operation, operations) & (self.bits == bits)))

    def by_place(self) -> _Relocations:
        """The relocations sorted by place."""
        return self._take(np.argsort(self.place, kind="stable"))

    def _take(self, which: NDArray[np.int64]) -> _Relocations:
        names = ("number", "place", "type", "operation", "bits", "is_pcrel", "value")
        return replace(self, **{name: getattr(self, name)[which] for name in names})

    def refuse(self, index: int, field: str, reason: str) -> NoReturn:
        """Raise ParseError for one relocation."""
        number = int(self.number[index])
        raise ParseError(self.table, number * self.entry_size, f"relocation[{number}].{field}", reason)

    def name(self, index: int) -> str:
        """The name of one relocation's type."""
        return self.types[int(self.type[index])][0]


@dataclass(frozen=True, slots=True, eq=False)
class _Formulas:
    """The relocation types of a machine as columns, by number; the last element is for all larger numbers."""

    operation: U8
    bits: U8
    is_pcrel: NDArray[np.bool_]


@cache
def _formulas(machine: str) -> _Formulas:
    types = relocation_types(machine)
    size = max(types) + 2
    columns = _Formulas(np.zeros(size, np.uint8), np.zeros(size, np.uint8), np.zeros(size, np.bool_))
    for number, (_, formula) in types.items():
        columns.operation[number], columns.bits[number], columns.is_pcrel[number] = formula
    return columns


@dataclass(frozen=True, slots=True, eq=False)
class _Fields:
    """The records of a relocation table as stored; `addend` is 0 for REL."""

    entry_size: int
    offset: U64
    type: U32
    symbol: U32
    addend: U64
    has_several: NDArray[np.bool_]


def _fields(image: ElfImage, header: ElfSection, table: Section) -> _Fields:
    """Split REL or RELA records into fields."""
    is_rela, word = header.type == "SHT_RELA", image.address_size
    order = order_code(image.byte_order)
    is_n64 = has_n64_records(str(image.machine), word)
    # n64: r_info is a symbol and three types, one after the other in both byte orders, not one integer.
    info = (
        [("symbol", f"{order}u4"), ("special", "u1"), ("type3", "u1"), ("type2", "u1"), ("type", "u1")]
        if is_n64
        else [("info", f"{order}u{word}")]
    )
    addend = [("addend", f"{order}i{word}")] * is_rela
    records = records_of(table, header, np.dtype([("offset", f"{order}u{word}"), *info, *addend]))
    if is_n64:
        kind, symbol = records["type"], records["symbol"]
        has_several = (records["type2"] | records["type3"] | records["special"]) != 0
    else:
        shift = np.uint64(32 if word == 8 else 8)
        value = records["info"].astype(np.uint64)
        kind, symbol = value & (np.uint64(1) << shift) - np.uint64(1), value >> shift
        has_several = np.zeros(len(records), np.bool_)
    return _Fields(
        entry_size=records.itemsize,
        offset=records["offset"].astype(np.uint64),
        type=kind.astype(np.uint32),
        symbol=symbol.astype(np.uint32),
        addend=records["addend"].astype(np.int64).view(np.uint64) if is_rela else np.zeros(len(records), np.uint64),
        has_several=has_several,
    )


def _relocations(laid: LaidOut, header: ElfSection, size: int) -> _Relocations:
    """Read the relocation table of a section of `size` bytes."""
    image, machine = laid.image, str(laid.image.machine)
    table = image.contents(header)
    fields = _fields(image, header, table)
    formulas = _formulas(machine)
    known = np.minimum(fields.type, len(formulas.operation) - 1)
    number = np.flatnonzero((formulas.operation[known] != Operation.NOTHING) | fields.has_several)
    kind = known[number]
    found = _Relocations(
        table=table,
        entry_size=fields.entry_size,
        types=relocation_types(machine),
        number=number,
        place=np.minimum(fields.offset[number], np.uint64(size)).astype(np.int64),
        type=fields.type[number],
        operation=formulas.operation[kind],
        bits=formulas.bits[kind],
        is_pcrel=formulas.is_pcrel[kind],
        value=fields.addend[number],
        has_addend=header.type == "SHT_RELA",
    )
    for wrong in np.flatnonzero(found.operation == Operation.UNKNOWN)[:1]:
        found.refuse(wrong, "type", f"{int(found.type[wrong])} is unknown for {machine}")
    for wrong in np.flatnonzero(fields.has_several[number])[:1]:
        found.refuse(wrong, "type2", "is not R_MIPS_NONE: composed relocations are not supported")
    for wrong in np.flatnonzero(found.place + (found.bits.astype(np.int64) + 7) // 8 > size)[:1]:
        place = int(fields.offset[number[wrong]])
        found.refuse(wrong, "offset", f"{found.name(wrong)} at {place:#x} reaches past the section's {size:#x} bytes")
    return replace(found, value=found.value + _symbol_values(laid, header, fields.symbol[number], found))


def _symbol_values(laid: LaidOut, header: ElfSection, symbol: U32, relocations: _Relocations) -> U64:
    """The address of each relocation's symbol; 0 if the file does not define it."""
    image = laid.image
    if header.link >= len(image.sections) or image.sections[header.link].type != "SHT_SYMTAB":
        raise ParseError(header.name, None, "sh_link", f"section {header.link} is not a symbol table")
    symbols_header = image.sections[header.link]
    symbols = symbols_of(image, symbols_header)
    for wrong in np.flatnonzero(symbol >= len(symbols))[:1]:
        relocations.refuse(wrong, "symbol", f"{int(symbol[wrong])} is out of range: there are {len(symbols)} symbols")
    section = symbols["shndx"][symbol].astype(np.uint32)
    value = symbols["value"][symbol].astype(np.uint64)
    extended = section == SHN_XINDEX
    is_reserved = (section >= SHN_LORESERVE) & ~extended
    if extended.any():
        section[extended] = extended_indices(image, symbols_header, len(symbols), laid.extended)[symbol[extended]]
    for wrong in np.flatnonzero((section >= len(image.sections)) & ~is_reserved)[:1]:
        reason = f"is in section {int(section[wrong])}, but there are only {len(image.sections)} sections"
        relocations.refuse(wrong, "symbol", reason)
    address = laid.address[np.where(is_reserved, 0, section)] + value
    is_nowhere = (section == SHN_UNDEF) | (section == SHN_COMMON)
    address[is_nowhere | (relocations.operation == Operation.LINKER)] = 0
    return address


_STEPS = (
    *((Operation.SET, bits) for bits in (64, 32, 16, 8)),
    *((Operation.LINKER, bits) for bits in (64, 32)),
    *((Operation.SET_PART, bits) for bits in (32, 16, 8, 6)),
    *((operation, bits) for operation in (Operation.ADD, Operation.SUBTRACT) for bits in (64, 32, 24, 16, 8, 6)),
)


def _apply(relocations: _Relocations, data: U8, section: Section) -> None:
    """Change the bytes of a section: first relocations that set fields, then those that add to them."""
    kinds = distinct_values(relocations.operation.astype(np.uint16) << 8 | relocations.bits)
    present = {divmod(kind, 1 << 8) for kind in kinds.tolist()}
    for operation, bits in _STEPS:
        if (operation, bits) not in present:
            continue
        chosen = relocations.select(bits, operation)
        if operation == Operation.SET_PART:
            _write(data, chosen.place, chosen.value, bits, section)
        elif operation in (Operation.ADD, Operation.SUBTRACT):
            _add(chosen, data, section, bits, operation == Operation.SUBTRACT)
        else:
            _set(chosen, data, section, bits)
    if any(bits == 0 for _, bits in present):
        _set_uleb128(relocations, data)


def _set(relocations: _Relocations, data: U8, section: Section, bits: int) -> None:
    """Set fields to S + A or S + A - P."""
    place = relocations.place
    ascending = np.sort(place)
    for twice in ascending[~run_starts(ascending)][:1]:
        index = int(np.flatnonzero(place == twice)[1])
        relocations.refuse(
            index, "offset", f"{relocations.name(index)} at {int(twice):#x}: another relocation sets the same field"
        )
    value = relocations.value.copy()
    if not relocations.has_addend:
        value += sign_extended(_read(data, place, bits, section), bits)
    value -= np.where(relocations.is_pcrel, place.astype(np.uint64) + np.uint64(section.address), np.uint64(0))
    if bits < 8 * section.address_size:
        value &= np.uint64((1 << 8 * section.address_size) - 1)
        least_negative = np.uint64((1 << 8 * section.address_size) - (1 << bits - 1))
        for wrong in np.flatnonzero((value >> np.uint64(bits) > 0) & (value < least_negative))[:1]:
            reason = f"{relocations.name(wrong)}: {int(value[wrong]):#x} does not fit {bits} bits"
            relocations.refuse(wrong, "addend", reason)
    _write(data, place, value, bits, section)


def _add(relocations: _Relocations, data: U8, section: Section, bits: int, is_subtracted: bool) -> None:
    """Add S + A to fields, or subtract it; several relocations may change one field."""
    place, field = np.unique(relocations.place, return_inverse=True)
    value = _read(data, place, bits, section)
    # Modulo 2**64: the field keeps the low bits.
    np.add.at(value, field, np.uint64(0) - relocations.value if is_subtracted else relocations.value)
    _write(data, place, value, bits, section)


def _read(data: U8, place: NDArray[np.int64], bits: int, section: Section) -> U64:
    return integers_at(data, place, (bits + 7) // 8, section.byte_order) & np.uint64((1 << bits) - 1)


def _write(data: U8, place: NDArray[np.int64], value: U64, bits: int, section: Section) -> None:
    if bits % 8:
        # Only the low bits of the byte: the rest is the opcode of DW_CFA_advance_loc.
        mask = np.uint64((1 << bits) - 1)
        value = data[place].astype(np.uint64) & ~mask | value & mask
    put_integers(data, place, value, (bits + 7) // 8, section.byte_order)


def _set_uleb128(relocations: _Relocations, data: U8) -> None:
    """Set unsigned LEB128 numbers to the difference of two symbols; they keep their sizes (RISC-V psABI: always pairs
    of relocations)."""
    minuends, subtrahends = (
        relocations.select(0, *operations).by_place()
        for operations in ((Operation.SET_ULEB128, Operation.ADD_ULEB128), (Operation.SUBTRACT_ULEB128,))
    )
    _refuse_single(minuends, subtrahends)
    place, size = minuends.place, _uleb128_sizes(minuends, data)
    value = minuends.value - subtrahends.value
    is_added = minuends.operation == Operation.ADD_ULEB128
    for group in range(LEB_GROUPS):
        here = np.flatnonzero(is_added & (size > group))
        value[here] += (data[place[here] + group] & np.uint8(0x7F)).astype(np.uint64) << np.uint64(7 * group)
    for group in range(LEB_GROUPS):
        here = np.flatnonzero(size > group)
        byte = data[place[here] + group]
        data[place[here] + group] = byte & 0x80 | (value[here] & np.uint64(0x7F)).astype(np.uint8)
        value[here] >>= np.uint64(7)
    for wrong in np.flatnonzero(value)[:1]:
        _refuse_difference(minuends, wrong)


def _refuse_single(minuends: _Relocations, subtrahends: _Relocations) -> None:
    """Raise ParseError unless each relocation has exactly one partner at its place; both are sorted by place."""
    single = np.setxor1d(minuends.place, subtrahends.place)
    repeated = (one.place[~run_starts(one.place)] for one in (minuends, subtrahends))
    for place in np.concatenate([single, *repeated])[:1]:
        one = next(one for one in (minuends, subtrahends) if place in one.place)
        index = int(np.flatnonzero(one.place == place)[0])
        one.refuse(index, "type", f"{one.name(index)} at {int(place):#x} is not part of a pair")


def _uleb128_sizes(relocations: _Relocations, data: U8) -> NDArray[np.int64]:
    """The size in bytes of the LEB128 number at each place. Raises ParseError for one that is too long."""
    size = np.zeros(len(relocations.place), np.int64)
    open_ones = np.arange(len(size))
    for _ in range(LEB_GROUPS):
        place = relocations.place[open_ones] + size[open_ones]
        for wrong in open_ones[place >= len(data)][:1]:
            relocations.refuse(wrong, "offset", "the LEB128 number reaches past the section's end")
        size[open_ones] += 1
        open_ones = open_ones[data[place] >= 0x80]
    for wrong in open_ones[:1]:
        _refuse_difference(relocations, wrong)
    return size


def _refuse_difference(minuends: _Relocations, index: int) -> NoReturn:
    minuends.refuse(
        index, "addend", f"{minuends.name(index)}: the difference does not fit the size of the LEB128 number"
    )
