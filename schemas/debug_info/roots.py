"""The headers of units in `.debug_info`, versions 2 to 5, and their root entries (DWARF5 7.5).

Strategy: only what finding attributes of root entries requires; pyelftools reads trees of entries. `ROOT_KINDS` is the
table of forms from which both engines take how a value is stored.
"""

from __future__ import annotations

import io
from dataclasses import field
from enum import IntEnum
from typing import Any

from .. import engine
from ..data_classes import dataclass
from ..forms import FORM_KINDS, SECTION_OFFSET
from ..section import ParseError, Section
from ..wire import (
    SLEB,
    U8,
    U16,
    U32,
    U64,
    ULEB,
    Block,
    DwarfFormat,
    Given,
    Integer,
    Kind,
    Leb128,
    Sized,
    Variable,
    When,
    record,
    wire,
)

DEBUG_INFO, DEBUG_ABBREV = ".debug_info", ".debug_abbrev"
# Type units of version 4, also with the suffix of split DWARF.
DEBUG_TYPES = ".debug_types"
OLD_VERSIONS, NEW_VERSIONS = (2, 3, 4), (5,)


class DW_UT(IntEnum):
    """Unit types (DWARF5 table 7.2)."""

    compile = 0x01
    type = 0x02
    partial = 0x03
    skeleton = 0x04
    split_compile = 0x05
    split_type = 0x06


class DW_TAG(IntEnum):
    """Tags of root entries (DWARF5 table 7.3)."""

    compile_unit = 0x11
    partial_unit = 0x3C
    type_unit = 0x41
    skeleton_unit = 0x4A


class DW_AT(IntEnum):
    """Attributes of root entries that name files or refer to other sections (DWARF5 table 7.5), and GNU's (version 4)
    for macros and split DWARF."""

    name_ = 0x03
    stmt_list = 0x10
    comp_dir = 0x1B
    macro_info = 0x43
    str_offsets_base = 0x72
    dwo_name = 0x76
    macros = 0x79
    GNU_macros = 0x2119
    GNU_dwo_name = 0x2130


class ROOT_FORM(IntEnum):
    """Forms besides those of `DW_FORM` (DWARF5 table 7.6); GNU's are of split DWARF 4 and of dwz, LLVM's is for
    addresses."""

    addr = 0x01
    ref_addr = 0x10
    ref1 = 0x11
    ref2 = 0x12
    ref4 = 0x13
    ref8 = 0x14
    ref_udata = 0x15
    indirect = 0x16
    exprloc = 0x18
    flag_present = 0x19
    addrx = 0x1B
    ref_sup4 = 0x1C
    ref_sig8 = 0x20
    implicit_const = 0x21
    loclistx = 0x22
    rnglistx = 0x23
    ref_sup8 = 0x24
    addrx1 = 0x29
    addrx2 = 0x2A
    addrx3 = 0x2B
    addrx4 = 0x2C
    GNU_addr_index = 0x1F01
    GNU_str_index = 0x1F02
    GNU_ref_alt = 0x1F20
    GNU_strp_alt = 0x1F21


ADDRESS = Variable(lambda this: int(this._params.address_size))
# DWARF 2 gave references to other units the size of an address.
REF_ADDR = Variable(
    lambda this: int(this._params.address_size if this._params.version == 2 else this._params.dwarf_format)
)
NO_BYTES = Sized(lambda _: 0)

# How a value of each form is stored. DW_FORM_indirect is read as the form that precedes the value, and the value of
# DW_FORM_implicit_const is in the abbreviation.
ROOT_KINDS: dict[int, Kind] = {
    **{int(form): kind for form, kind in FORM_KINDS.items()},
    ROOT_FORM.addr: ADDRESS,
    ROOT_FORM.ref_addr: REF_ADDR,
    ROOT_FORM.ref1: U8,
    ROOT_FORM.ref2: U16,
    ROOT_FORM.ref4: U32,
    ROOT_FORM.ref8: U64,
    ROOT_FORM.ref_udata: ULEB,
    ROOT_FORM.exprloc: Block(),
    ROOT_FORM.flag_present: NO_BYTES,
    ROOT_FORM.addrx: ULEB,
    ROOT_FORM.ref_sup4: U32,
    ROOT_FORM.ref_sig8: U64,
    ROOT_FORM.loclistx: ULEB,
    ROOT_FORM.rnglistx: ULEB,
    ROOT_FORM.ref_sup8: U64,
    ROOT_FORM.addrx1: U8,
    ROOT_FORM.addrx2: U16,
    ROOT_FORM.addrx3: Integer(3),
    ROOT_FORM.addrx4: U32,
    ROOT_FORM.GNU_addr_index: ULEB,
    ROOT_FORM.GNU_str_index: ULEB,
    ROOT_FORM.GNU_ref_alt: SECTION_OFFSET,
    ROOT_FORM.GNU_strp_alt: SECTION_OFFSET,
}
# Compilers give a root entry about ten attributes.
MAX_ATTRIBUTES = 256


@record
class OldUnitHeader:
    """The header of a unit of versions 2 to 4 (DWARF4 7.5.1.1), after its length."""

    dwarf_format: DwarfFormat = wire(Given(lambda this: this._params.dwarf_format), "32- or 64-bit DWARF")
    version: int = wire(Integer(2, allowed=OLD_VERSIONS), "2 to 4")
    debug_abbrev_offset: int = wire(SECTION_OFFSET, "of its abbreviations, in .debug_abbrev")
    address_size: int = wire(Integer(1, allowed=(1, 2, 4, 8)), "bytes of an address")


@record
class UnitHeader:
    """The header of a unit of version 5 (DWARF5 7.5.1), after its length; what `UNIT_TYPE_FIELDS` has follows."""

    dwarf_format: DwarfFormat = wire(Given(lambda this: this._params.dwarf_format), "32- or 64-bit DWARF")
    version: int = wire(Integer(2, allowed=NEW_VERSIONS), "5")
    unit_type: int = wire(Integer(1, allowed=tuple(DW_UT)), "`DW_UT`")
    address_size: int = wire(Integer(1, allowed=(1, 2, 4, 8)), "bytes of an address")
    debug_abbrev_offset: int = wire(SECTION_OFFSET, "of its abbreviations, in .debug_abbrev")


@record
class SplitUnitFields:
    """The rest of the header of a skeleton unit, or of a split compilation unit (DWARF5 7.5.1.2)."""

    dwo_id: int = wire(U64, "the same in both")


@record
class TypeUnitFields:
    """The rest of the header of a type unit (DWARF5 7.5.1.3)."""

    type_signature: int = wire(U64, "of the type")
    type_offset: int = wire(SECTION_OFFSET, "of the type's entry, relative to the unit")


# The record that follows the header, by unit type.
UNIT_TYPE_FIELDS: dict[int, type] = {
    DW_UT.type: TypeUnitFields,
    DW_UT.skeleton: SplitUnitFields,
    DW_UT.split_compile: SplitUnitFields,
    DW_UT.split_type: TypeUnitFields,
}


@record
class Abbreviation:
    """The fields of an abbreviation before its attributes."""

    code: Leb128 = wire(ULEB, "its number")
    tag: Leb128 = wire(ULEB, "DW_TAG")
    has_children: int = wire(U8, "whether its entries have children")


@record
class AttributeSpecification:
    """An attribute of an abbreviation; the last one's name and form are 0."""

    name: Leb128 = wire(ULEB, "DW_AT")
    form: Leb128 = wire(ULEB, "DW_FORM")
    implicit_const: Leb128 | None = wire(
        When(SLEB, lambda this: this.form.value == ROOT_FORM.implicit_const), "the value itself"
    )


@dataclass(frozen=True, slots=True)
class RootEntry:
    """The root entry of a unit: its header; its tag, 0 if the unit has no entry; form and value of each attribute, by
    `DW_AT`."""

    header: OldUnitHeader | UnitHeader
    tag: int
    attributes: dict[int, tuple[int, Any]] = field(default_factory=dict)

    @property
    def values(self) -> dict[int, Any]:
        """The values of its attributes."""
        return {name: value for name, (_, value) in self.attributes.items()}


def parse_root(
    debug_info: Section, debug_abbrev: Section, start: int, end: int, dwarf_format: DwarfFormat
) -> RootEntry:
    """The root entry of a unit, with its attributes up to the first unknown form. `start` is the offset after its
    length.

    Raises ParseError if the version or type of the unit is unknown, or its abbreviation is not found.
    """
    params: dict[str, Any] = {"dwarf_format": dwarf_format}
    stream = io.BytesIO(debug_info.data[start:end])
    version = int.from_bytes(debug_info.data[start : min(start + 2, end)], debug_info.byte_order)
    cls: type[OldUnitHeader | UnitHeader] = OldUnitHeader if version in OLD_VERSIONS else UnitHeader
    header, _ = engine.parse_stream(cls, debug_info, stream, start, "unit", **params)
    extra = UNIT_TYPE_FIELDS.get(getattr(header, "unit_type", DW_UT.compile))
    if extra is not None:
        engine.parse_stream(extra, debug_info, stream, start, "unit", **params)
    params |= {"address_size": header.address_size, "version": header.version}
    code = int(_value(ULEB, debug_info, stream, start, params)) if stream.tell() < end - start else 0
    if code == 0:
        return RootEntry(header, tag=0)
    tag, specifications = _abbreviation(debug_abbrev, header.debug_abbrev_offset, code)
    root = RootEntry(header, tag)
    for one in specifications:
        form, value = int(one.form), None
        while form == ROOT_FORM.indirect:
            form = int(_value(ULEB, debug_info, stream, start, params))
        if form == ROOT_FORM.implicit_const and one.implicit_const is not None:
            value = int(one.implicit_const)
        elif form in ROOT_KINDS:
            value = _value(ROOT_KINDS[form], debug_info, stream, start, params)
        else:
            break
        root.attributes[int(one.name)] = form, value
    return root


def _value(kind: Kind, section: Section, stream: io.BytesIO, start: int, params: dict[str, Any]) -> Any:
    return engine.parse_value(kind, section, stream, start, "unit.root", **params)[0]


def _abbreviation(section: Section, offset: int, code: int) -> tuple[int, list[AttributeSpecification]]:
    """The tag and the attributes of the abbreviation with that code. Raises ParseError."""
    stream = io.BytesIO(section.data[offset:])
    while any(section.data[offset + stream.tell() :][:1]):
        abbreviation, _ = engine.parse_stream(Abbreviation, section, stream, offset, "abbreviation")
        found: list[AttributeSpecification] = []
        while True:
            one, _ = engine.parse_stream(AttributeSpecification, section, stream, offset, "abbreviation")
            if not int(one.name) and not int(one.form):
                break
            found.append(one)
        if int(abbreviation.code) == code and len(found) > MAX_ATTRIBUTES:
            raise ParseError(section, offset, "abbreviation", f"has more than {MAX_ATTRIBUTES} attributes")
        if int(abbreviation.code) == code:
            return int(abbreviation.tag), found
    raise ParseError(section, offset, "abbreviation", f"there is no abbreviation {code}")
