"""Strategies for look-up tables and macro information.

Strategy: headers and records are drawn from their declarations, and combined to sets and units here. An offset of 0 or
an opcode of 0, which would end a set or a unit, is not drawn.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from .. import engine
from ..forms import DW_FORM
from ..lookup_tables import (
    AddressRange,
    AddressRangeSet,
    AddressRangesHeader,
    Name,
    NameSet,
    NamesHeader,
    range_padding,
    range_size,
)
from ..macros import MacroEntry, MacroFlags, MacroHeader, MacroUnit, OpcodeOperands, kinds_of
from ..wire import INITIAL_LENGTH_SIZES, DwarfFormat, Leb128, leb_size
from .declarations import MAX_PADDING, records, values_of

_LO_USER, _HI_USER = 0xE0, 0xFF

formats = st.sampled_from(list(DwarfFormat))


@st.composite
def address_range_sets(draw: DrawFn, dwarf_format: DwarfFormat | None = None) -> AddressRangeSet:
    """Sets of `.debug_aranges` of any sizes; some without a terminator, some with trailing bytes."""
    header = draw(records(AddressRangesHeader, dwarf_format=dwarf_format or draw(formats)))
    address_range = records(AddressRange, address_size=header.address_size, segment_size=header.segment_size)
    ranges = draw(st.lists(address_range, max_size=4))
    if draw(st.booleans()):
        ranges.append(AddressRange(0 if header.segment_size else None, 0, 0))
    encoded = engine.build(header, dwarf_format=header.dwarf_format)
    padding = range_padding(INITIAL_LENGTH_SIZES[header.dwarf_format] + len(encoded), header)
    trailing = draw(st.binary(max_size=range_size(header) - 1)) if draw(st.booleans()) else b""
    return AddressRangeSet(header, draw(st.binary(min_size=padding, max_size=padding)), tuple(ranges), trailing)


@st.composite
def name_sets(draw: DrawFn, is_gnu: bool, dwarf_format: DwarfFormat | None = None) -> NameSet:
    """Sets of `.debug_pubnames` and the like; some without a terminator, some with bytes after it."""
    header = draw(records(NamesHeader, dwarf_format=dwarf_format or draw(formats)))
    offsets = st.integers(1, (1 << 8 * header.dwarf_format) - 1)
    name = records(Name, {"offset": offsets}, dwarf_format=header.dwarf_format, is_gnu=is_gnu)
    names = tuple(draw(st.lists(name, max_size=4)))
    is_terminated = draw(st.booleans())
    return NameSet(header, names, is_terminated, draw(st.binary(max_size=5)) if is_terminated else b"")


@st.composite
def opcode_operands(draw: DrawFn) -> OpcodeOperands:
    """Descriptions of opcodes, mostly of vendors; their counts may be padded."""
    forms = tuple(draw(st.lists(st.sampled_from([int(form) for form in DW_FORM]), max_size=4)))
    count = Leb128(len(forms), leb_size(len(forms), signed=False) + draw(st.integers(0, MAX_PADDING)))
    return OpcodeOperands(draw(st.one_of(st.integers(_LO_USER, _HI_USER), st.integers(1, _HI_USER))), count, forms)


@st.composite
def macro_headers(draw: DrawFn) -> MacroHeader:
    """Headers of `.debug_macro` units of both versions, with and without described opcodes."""
    flags = draw(st.builds(MacroFlags, st.just(0), *[st.integers(0, 1)] * 3))
    overrides: dict[str, SearchStrategy[Any]] = {"flags": st.just(flags)}
    if flags.opcode_operands_table:
        table = tuple(draw(st.lists(opcode_operands(), max_size=4)))
        overrides |= {"opcode_operands_count": st.just(len(table)), "opcode_operands": st.just(table)}
    return draw(records(MacroHeader, overrides))


@st.composite
def macro_units(draw: DrawFn, has_header: bool) -> MacroUnit:
    """Units of `.debug_macro`, or of `.debug_macinfo`, with any entries; LEB128 numbers may be padded."""
    header = draw(macro_headers()) if has_header else None
    kinds = kinds_of(header)
    dwarf_format = DwarfFormat.DWARF32 if header is None else header.dwarf_format

    def entries(opcode: int) -> SearchStrategy[MacroEntry]:
        operands = (values_of(kind, dwarf_format=dwarf_format) for kind in kinds[opcode])
        return st.builds(MacroEntry, st.just(opcode), st.tuples(*operands))

    return MacroUnit(header, tuple(draw(st.lists(st.sampled_from(sorted(kinds)).flatmap(entries), max_size=6))))
