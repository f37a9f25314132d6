"""Attributes of entries: tables of abbreviations, decoded once for the units that share them.

Strategy: a table is decoded with the sizes of the values of its units, so units with equal sizes share it. `Attribute`
numbers the attributes that are read at all; a reader of entries chooses its columns among them.
"""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ...schemas.data_classes import dataclass
from ...schemas.debug_info.entries import DW_AT, DW_TAG, SCOPES
from ...schemas.debug_info.roots import OLD_VERSIONS
from ...schemas.section import ParseError, Section
from ..arrays import group_numbers, starts_of
from ..columns import Columns, column_of, columns
from ..dwarf.units import OVERLAPS, DebugUnits, form_storages_of_units
from ..kernels import engine, views
from ..kernels.calls import reader_of, refuse
from ..kernels.dwarf.protocol import Role

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..kernels.dwarf.abbreviations import Abbreviations
    from ..kernels.dwarf.entries import Attributes, Units

# The least bytes of an abbreviation, and of an attribute in one.
ABBREVIATION_SIZE, ATTRIBUTE_SIZE = 5, 2


class Attribute(IntEnum):
    """The attributes that are read, by the number that decoded abbreviations have for them."""

    LOW_PC = 1
    HIGH_PC = 2
    RANGES = 3
    ABSTRACT_ORIGIN = 4
    SPECIFICATION = 5
    CALL_FILE = 6
    CALL_LINE = 7
    NAME = 8
    LINKAGE_NAME = 9
    DECL_FILE = 10
    DECL_LINE = 11
    LANGUAGE = 12
    SIGNATURE = 13
    ADDR_BASE = 14
    RNGLISTS_BASE = 15
    DWO_ID = 16


_NUMBERS = {
    DW_AT.low_pc: Attribute.LOW_PC,
    DW_AT.high_pc: Attribute.HIGH_PC,
    DW_AT.ranges: Attribute.RANGES,
    DW_AT.abstract_origin: Attribute.ABSTRACT_ORIGIN,
    DW_AT.specification: Attribute.SPECIFICATION,
    DW_AT.call_file: Attribute.CALL_FILE,
    DW_AT.call_line: Attribute.CALL_LINE,
    DW_AT.name_: Attribute.NAME,
    DW_AT.linkage_name: Attribute.LINKAGE_NAME,
    DW_AT.MIPS_linkage_name: Attribute.LINKAGE_NAME,
    DW_AT.decl_file: Attribute.DECL_FILE,
    DW_AT.decl_line: Attribute.DECL_LINE,
    DW_AT.language: Attribute.LANGUAGE,
    DW_AT.signature: Attribute.SIGNATURE,
    DW_AT.addr_base: Attribute.ADDR_BASE,
    DW_AT.GNU_addr_base: Attribute.ADDR_BASE,
    DW_AT.rnglists_base: Attribute.RNGLISTS_BASE,
    DW_AT.GNU_ranges_base: Attribute.RNGLISTS_BASE,
    DW_AT.GNU_dwo_id: Attribute.DWO_ID,
}
# An entry with code has one of these.
CODE = (Attribute.LOW_PC, Attribute.HIGH_PC, Attribute.RANGES)
_ROLES = {
    DW_TAG.subprogram: Role.FUNCTION,
    DW_TAG.inlined_subroutine: Role.INLINED,
    **dict.fromkeys(SCOPES, Role.SCOPE),
}


@cache
def _attribute_numbers() -> NDArray[np.uint8]:
    """The number of each DW_AT, 0 for one that is not read."""
    numbers = np.zeros(max(_NUMBERS) + 1, np.uint8)
    numbers[list(_NUMBERS)] = list(_NUMBERS.values())
    return numbers


@cache
def _roles() -> NDArray[np.uint8]:
    """The role of each tag."""
    roles = np.zeros(1 << 16, np.uint8)
    roles[list(_ROLES)] = list(_ROLES.values())
    return roles


def wanted(*attributes: Attribute) -> NDArray[np.uint8]:
    """For each attribute the number of its column plus 1, if these are the columns; else 0."""
    columns = np.zeros(max(Attribute) + 1, np.uint8)
    columns[list(attributes)] = np.arange(len(attributes)) + 1
    return columns


@dataclass(frozen=True, slots=True, eq=False)
class DecodedUnits:
    """The units of a section, as kernels read their entries; by unit the number of its `table` of abbreviations."""

    section: Section
    units: DebugUnits
    kernel_units: Units
    attributes: Attributes
    table: NDArray[np.int64]


def decode_units(section: Section, debug_abbrev: Section | None, units: DebugUnits) -> DecodedUnits:
    """Decode the tables of abbreviations of all units whose headers are known. Raises ParseError."""
    headers = units.columns
    is_read = headers.root >= 0
    if debug_abbrev is None and is_read.any():
        raise ParseError(section, int(headers.offset[is_read][0]), "unit", "there is no .debug_abbrev")
    offset_size = np.where(headers.is_64, 8, 4).astype(np.uint8)
    ref_size = np.where(headers.version == min(OLD_VERSIONS), headers.address_size, offset_size).astype(np.uint8)
    limit = np.uint64(0 if debug_abbrev is None else len(debug_abbrev))
    offset = np.minimum(headers.abbreviations, limit).astype(np.int64)
    keys = np.column_stack([offset, headers.address_size, offset_size, ref_size])[is_read]
    distinct, table = np.unique(keys, axis=0, return_inverse=True)
    number = np.zeros(len(units), np.int64)
    number[is_read] = table.reshape(-1)
    sizes = (np.ascontiguousarray(distinct[:, column]).astype(np.uint8) for column in (1, 2, 3))
    tables = _TableColumns(np.ascontiguousarray(distinct[:, 0]), *sizes)
    decoded, roles = _decode(debug_abbrev or replace(section, data=memoryview(b"")), tables)
    kernel = engine.dwarf.entries
    attributes = kernel.Attributes(decoded, *views(roles, form_storages_of_units()))
    return DecodedUnits(section, units, _kernel_units(units, number, is_read), attributes, number)


def walk_only(decoded: DecodedUnits, is_walked: NDArray[np.bool_]) -> DecodedUnits:
    """The same units; a walk leaves out the others."""
    is_walked = is_walked & (decoded.units.columns.root >= 0)
    return replace(decoded, kernel_units=_kernel_units(decoded.units, decoded.table, is_walked))


def _kernel_units(units: DebugUnits, table: NDArray[np.int64], is_walked: NDArray[np.bool_]) -> Units:
    """Units as kernels take them."""
    headers = units.columns
    end, offset_size = headers.offset + headers.size, np.where(headers.is_64, 8, 4).astype(np.uint8)
    return engine.dwarf.entries.Units(*views(np.where(is_walked, headers.root, end), end, table, offset_size))


@columns
class AbbreviationColumns(Columns):
    """Decoded abbreviations, as the kernels' `Abbreviations`."""

    code: NDArray[np.uint64] = column_of()
    tag: NDArray[np.uint16] = column_of("`DW_TAG`", "65535 for a larger one")
    has_children: NDArray[np.uint8] = column_of("0 or 1")
    size: NDArray[np.int32] = column_of("bytes", "of the values; -1 if that depends on the entry")
    begin: NDArray[np.int64] = column_of("index", "of the first attribute")
    end: NDArray[np.int64] = column_of("index", "after the last attribute")


@columns
class AttributeColumns(Columns):
    """The attributes of decoded abbreviations."""

    attribute: NDArray[np.uint8] = column_of(Attribute, "0 for one that is not read")
    form: NDArray[np.uint32] = column_of("`DW_FORM`")
    storage: NDArray[np.uint8] = column_of("`Storage`")
    implicit: NDArray[np.uint64] = column_of(meaning="the value of a DW_FORM_implicit_const")


@columns
class _TableColumns(Columns):
    """The tables of abbreviations that units use, and the sizes of the values there."""

    offset: NDArray[np.int64] = column_of("section offset")
    address_size: NDArray[np.uint8] = column_of("bytes")
    offset_size: NDArray[np.uint8] = column_of("bytes")
    ref_size: NDArray[np.uint8] = column_of("bytes")


def _decode(section: Section, tables: _TableColumns) -> tuple[Abbreviations, NDArray[np.uint8]]:
    """Decode tables; also return the roles of all abbreviations. Raises ParseError."""
    kernel, reader, limit = engine.dwarf.abbreviations, reader_of(section), OVERLAPS * len(section)
    first = np.zeros(len(tables) + 1, np.int64)
    firsts: dict[str, Any] = {"first": first.data}
    abbreviations = AbbreviationColumns.empty(limit // ABBREVIATION_SIZE + 1)
    attributes = AttributeColumns.empty(limit // ATTRIBUTE_SIZE + 1)
    found = kernel.Abbreviations(**firsts, **abbreviations.views(), **attributes.views())
    numbers: dict[str, Any] = {"storages": form_storages_of_units().data, "attributes": _attribute_numbers().data}
    done = kernel.decode(reader, kernel.Tables(**tables.views(), **numbers), found)
    if reader.fault:
        refuse(section, f"abbreviations at {int(tables.offset[done]):#x}", reader)
    # Of equal codes the first is found.
    order = np.lexsort((abbreviations.code[: found.count], group_numbers(np.diff(first))))
    abbreviations = abbreviations.select(order)
    attributes = attributes.select(np.arange(found.attribute_count))
    roles = _roles_of(abbreviations, attributes)
    return kernel.Abbreviations(**firsts, **abbreviations.views(), **attributes.views()), roles


def _roles_of(abbreviations: AbbreviationColumns, attributes: AttributeColumns) -> NDArray[np.uint8]:
    """The role of the entries of each abbreviation."""
    before = starts_of(np.isin(attributes.attribute, CODE))
    has_code = before[abbreviations.end] > before[abbreviations.begin]
    roles = _roles()[abbreviations.tag]
    for with_code, without in ((Role.FUNCTION, Role.DECLARATION), (Role.INLINED, Role.OTHER)):
        roles[(roles == with_code) & ~has_code] = without
    return roles
