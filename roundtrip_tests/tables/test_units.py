"""Units of `.debug_info`: headers and root entries by hand, by both engines, and as llvm-dwarfdump prints them.

Strategy: bytes are worked out from DWARF5 7.5; a law draws units of all versions with attributes in all forms, and the
reference engine reads them one by one.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unwindkit import ParseError, Section, read_units
from unwindkit.converters.dwarf.unit_strings import StringSections
from unwindkit.converters.dwarf.units import DebugUnits, units_of_sections
from unwindkit.schemas import engine, strategies
from unwindkit.schemas.debug_info import roots
from unwindkit.schemas.debug_info.roots import DW_AT, DW_TAG, DW_UT, ROOT_FORM, ROOT_KINDS, RootEntry, parse_root
from unwindkit.schemas.section import ByteOrder
from unwindkit.schemas.wire import DwarfFormat, uleb

from ..conftest import engine_in_use, fewer
from ..support.handmade import octets
from ..support.oracles import run_oracle
from ..support.programs.debug_programs import CLANG, VARIANTS, Variant, built
from ..support.work import at_most_calls

orders = st.sampled_from(["little", "big"])
formats = st.sampled_from(list(DwarfFormat))


def section(data: str | bytes, name: str = ".debug_info", order: ByteOrder = "little") -> Section:
    return Section.of(name, octets(data) if isinstance(data, str) else data, 0, order)


def units(info: str, abbreviations: str, order: ByteOrder = "little", **strings: bytes) -> DebugUnits:
    sections = {name: section(data, name, order) for name, data in strings.items()}
    return units_of_sections(
        section(info, order=order), section(abbreviations, ".debug_abbrev", order), StringSections(**sections)
    )


# --- by hand ----------------------------------------------------------------------------------------------------------

VERSION_2 = """
    29000000                # length
    0200                    # version
    08000000                # debug_abbrev_offset
    08                      # address_size
    02                      # abbreviation 2
    1122334455667788        # DW_AT_low_pc and DW_AT_high_pc: ref_addr, which in version 2 has the size of an address
    1122334455667788
    612e6300                # DW_AT_name: "a.c"
    2f7300                  # DW_AT_comp_dir: "/s"
    40000000                # DW_AT_stmt_list: data4
    aa000000                # DW_AT_macro_info: data4
    00 00                   # no children
"""
# The table of version 2 starts at 8; the abbreviation before the unit's has an attribute, too.
ABBREVIATIONS_2 = """
    0000000000000000
    01 34 00  03 08  00 00
    02 11 01  11 10  12 10  03 08  1b 08  10 06  43 06  00 00
    00
"""


def test_a_unit_of_version_2(kernels: str) -> None:
    found = units(VERSION_2, ABBREVIATIONS_2)
    assert len(found) == 1
    one = found[0]
    assert (one.version, one.tag, one.name, one.comp_dir, one.dwo_name) == (2, DW_TAG.compile_unit, b"a.c", b"/s", b"")
    assert (one.line_offset, one.macinfo_offset, one.macro_offset) == (0x40, 0xAA, -1)
    assert (found.columns.size.tolist(), found.columns.address_size.tolist()) == ([45], [8])


SKELETON_64_BIG = """
    ffffffff 000000000000002d   # length
    0005 04 08                  # version, DW_UT_skeleton, address_size
    0000000000000000            # debug_abbrev_offset
    0123456789abcdef            # dwo_id
    01                          # abbreviation 1
    0000000000000123            # DW_AT_stmt_list: sec_offset
    01                          # DW_AT_comp_dir: strx1
    0000000000000010            # DW_AT_str_offsets_base: sec_offset, after the index that needs it
    00                          # DW_AT_dwo_name: strx
    000000000000                # padding
"""
ABBREVIATIONS_SKELETON = "01 4a 00  10 17  1b 25  72 17  76 1a  00 00  00"


def test_a_skeleton_of_64_bit_dwarf(kernels: str) -> None:
    offsets = bytes(16) + (4).to_bytes(8, "big") + (0).to_bytes(8, "big")
    found = units(SKELETON_64_BIG, ABBREVIATIONS_SKELETON, "big", strings=b"/s\0\0a.dwo\0", string_offsets=offsets)
    assert found.columns.unit_type.tolist() == [DW_UT.skeleton]
    one = found[0]
    assert (one.tag, one.comp_dir, one.dwo_name, one.name) == (DW_TAG.skeleton_unit, b"/s", b"a.dwo", b"")
    assert (one.line_offset, found.columns.string_offsets_base.tolist()) == (0x123, [0x10])


def of_version_5(values: str, form: int, constant: str = "") -> tuple[str, str]:
    """A unit of version 5 whose root entry has DW_AT_high_pc in `form`, then the name "x"; and its abbreviations."""
    body = f"0500 01 08 00000000 01 {values} 7800"
    number = bytes([form]) if form < 0x80 else bytes([0x80 | form & 0x7F, form >> 7])
    return f"{len(octets(body)):02x}000000 {body}", f"01 11 00  12 {number.hex()} {constant}  03 08  00 00  00"


# The bytes of a value of each form (DWARF5 7.5.5 and 7.5.6), in 32-bit DWARF with addresses of 8 bytes.
FORMS = {
    0x01: "1122334455667788",  # addr
    0x03: "0200 aabb",  # block2
    0x04: "02000000 aabb",  # block4
    0x05: "1122",  # data2
    0x06: "11223344",  # data4
    0x07: "1122334455667788",  # data8
    0x08: "6100",  # string
    0x09: "02 aabb",  # block
    0x0A: "02 aabb",  # block1
    0x0B: "11",  # data1
    0x0C: "01",  # flag
    0x0D: "ff7f",  # sdata
    0x0E: "11223344",  # strp
    0x0F: "ff01",  # udata
    0x10: "11223344",  # ref_addr
    0x11: "11",  # ref1
    0x12: "1122",  # ref2
    0x13: "11223344",  # ref4
    0x14: "1122334455667788",  # ref8
    0x15: "ff01",  # ref_udata
    0x16: "16 16 0b 11",  # indirect, three times, then data1
    0x17: "11223344",  # sec_offset
    0x18: "02 aabb",  # exprloc
    0x19: "",  # flag_present
    0x1A: "ff01",  # strx
    0x1B: "ff01",  # addrx
    0x1C: "11223344",  # ref_sup4
    0x1D: "11223344",  # strp_sup
    0x1E: "11223344556677881122334455667788",  # data16
    0x1F: "11223344",  # line_strp
    0x20: "1122334455667788",  # ref_sig8
    0x21: "",  # implicit_const: the value is in the abbreviation
    0x22: "ff01",  # loclistx
    0x23: "ff01",  # rnglistx
    0x24: "1122334455667788",  # ref_sup8
    0x25: "11",  # strx1
    0x26: "1122",  # strx2
    0x27: "112233",  # strx3
    0x28: "11223344",  # strx4
    0x29: "11",  # addrx1
    0x2A: "1122",  # addrx2
    0x2B: "112233",  # addrx3
    0x2C: "11223344",  # addrx4
    0x1F01: "ff01",  # GNU_addr_index
    0x1F02: "ff01",  # GNU_str_index
    0x1F20: "11223344",  # GNU_ref_alt
    0x1F21: "11223344",  # GNU_strp_alt
}


def test_every_form_has_an_example() -> None:
    assert set(FORMS) == {*ROOT_KINDS, ROOT_FORM.indirect, ROOT_FORM.implicit_const}


@pytest.mark.parametrize("form", FORMS, ids=hex)
def test_the_size_of_each_form(form: int) -> None:
    info, abbreviations = of_version_5(FORMS[form], form, "ff7f" if form == ROOT_FORM.implicit_const else "")
    assert units(info, abbreviations)[0].name == b"x"


@pytest.mark.parametrize(
    ("form", "values"), [(0x02, "11"), (0x2D, "11"), (0x3FFF, "11"), (0x16, "21"), (0x16, "02"), (0x16, "ff7f")]
)
def test_attributes_after_an_unknown_form_are_not_read(form: int, values: str, kernels: str) -> None:
    found = units(*of_version_5(values, form))[0]
    assert (found.tag, found.name) == (DW_TAG.compile_unit, b"")


def test_an_implicit_constant_is_the_value() -> None:
    found = units("09000000 0500 01 08 00000000 01", "01 11 00  10 21 c100  00 00  00")
    assert found[0].line_offset == 0x41


@pytest.mark.parametrize(
    ("info", "version"),
    [
        ("07000000 0600 01 08 000000", 6),  # a version that nobody knows
        ("08000000 0500 80 08 00000000", 5),  # DW_UT_lo_user
        ("08000000 0500 00 08 00000000", 5),  # a unit type that is not defined
        ("08000000 0500 01 08 00000000", 5),  # no entry
        ("09000000 0500 01 08 00000000 00", 5),  # the null entry only
    ],
)
def test_units_without_a_root_entry(info: str, version: int, kernels: str) -> None:
    found = units(info, "01 11 00  03 08  00 00  00")
    assert [(one.version, one.tag, one.name) for one in map(found.__getitem__, range(len(found)))] == [
        (version, 0, b"")
    ]


@pytest.mark.parametrize(
    ("unit_type", "more"), [(DW_UT.type, 12), (DW_UT.skeleton, 8), (DW_UT.split_compile, 8), (DW_UT.split_type, 12)]
)
def test_headers_of_each_type(unit_type: int, more: int) -> None:
    body = f"0500 {unit_type:02x} 08 00000000 {'55' * more} 01 7800"
    found = units(f"{len(octets(body)):02x}000000 {body}", "01 41 00  03 08  00 00  00")
    assert found[0].name == b"x"


# An index with each form, and an offset, of the string "b", which is at 2.
STRINGS = {"strings": b"a\0b\0", "line_strings": b"\0\0b\0", "supplementary": b"\0\0b\0"}
OFFSETS_5 = octets("0c000000 0500 0000 00000000 02000000")
STRING_CASES = [
    (0x0E, "02000000", {}),
    (0x1F, "02000000", {}),
    (0x1D, "02000000", {}),
    (0x1F21, "02000000", {}),
    (0x1A, "01", {"string_offsets": OFFSETS_5}),
    (0x25, "01", {"string_offsets": OFFSETS_5}),
    (0x26, "0100", {"string_offsets": OFFSETS_5}),
    (0x27, "010000", {"string_offsets": OFFSETS_5}),
    (0x28, "01000000", {"string_offsets": OFFSETS_5}),
    # GNU's section has no header.
    (0x1F02, "01", {"string_offsets": OFFSETS_5[8:]}),
]


def named_by(form: int, value: str) -> tuple[str, str]:
    """A unit of version 5 with a name in this form, and its abbreviations."""
    number = bytes([form]) if form < 0x80 else bytes([0x80 | form & 0x7F, form >> 7])
    body = f"0500 01 08 00000000 01 {value}"
    return f"{len(octets(body)):02x}000000 {body}", f"01 11 00  03 {number.hex()}  00 00  00"


@pytest.mark.parametrize(("form", "value", "more"), STRING_CASES)
def test_strings_of_each_form(form: int, value: str, more: dict[str, bytes]) -> None:
    assert units(*named_by(form, value), **STRINGS, **more)[0].name == b"b"


def test_strings_of_a_supplementary_file_that_is_not_there() -> None:
    assert units(*named_by(0x1F21, "02000000"), strings=b"a\0b\0")[0].name == b""


@pytest.mark.parametrize(
    ("form", "value", "sections", "message"),
    [
        (0x0E, "04000000", {"strings": b"a\0b\0"}, r"DW_AT_name: .debug_str: 0x4 is outside a section of 0x4 bytes"),
        (0x0E, "00000000", {}, r"\+0xd.*: DW_AT_name: refers to .debug_str, which the file does not have"),
        (0x0E, "02000000", {"strings": b"a\0b"}, r"strings\+0x2: string: is not terminated"),
        (0x1A, "02", {"strings": b"a\0", "string_offsets": OFFSETS_5}, r"DW_AT_name: .debug_str_offsets: there is no"),
        (0x1A, "02", {"strings": b"a\0"}, r"refers to .debug_str_offsets, which the file does not have"),
    ],
)
def test_strings_that_are_not_there(form: int, value: str, sections: dict[str, bytes], message: str) -> None:
    with pytest.raises(ParseError, match=message):
        units(*named_by(form, value), **sections)


GOOD = "01 11 00  03 08  00 00  00"


@pytest.mark.parametrize(
    ("info", "abbreviations", "message"),
    [
        ("01000000 05", GOOD, r"\+0x0.*unit\[0\].length: does not hold the version"),
        ("07000000 0500 01 08 000000", GOOD, r"unit\[0\].length: does not hold a header of 8 bytes"),
        ("06000000 0400 00000000", GOOD, r"unit\[0\].length: does not hold a header of 7 bytes"),
        ("0b000000 0500 01 03 00000000 01 7800", GOOD, r"unit\[0\].address_size: 3 is not one of"),
        ("0b000000 0500 01 08 00000000 02 7800", GOOD, r"abbreviations at 0x0: the abbreviation of the root entry is"),
        ("0b000000 0500 01 08 ff000000 01 7800", GOOD, r"the abbreviation of the root entry is missing"),
        ("0a000000 0500 01 08 00000000 01 78", GOOD, r"\+0xd: unit\[0\].root: the string has no terminating zero byte"),
        ("09000000 0500 01 08 00000000 80", GOOD, r"unit\[0\].root: the record ends inside a value"),
        ("0b000000 0500 01 08 00000000 01 7800", "01 11 00  03 08", r"the record ends inside a value"),
        ("0b000000 0500 01 08 00000000 01 7800", "01 11 00" + "03 19" * 257 + "00 00", r"more than 256 attributes"),
        ("f0ffffff 0500", GOOD, "a reserved initial length"),
    ],
)
def test_what_is_no_unit(info: str, abbreviations: str, message: str, kernels: str) -> None:
    with pytest.raises(ParseError, match=message):
        units(info, abbreviations)


def test_tables_of_abbreviations_are_not_walked_once_for_each_unit() -> None:
    """A thousand tables that begin inside one another, and a thousand units of one table of 100,000 abbreviations."""
    count, table = 1000, octets("0500 00 00 00") * 100_000 + octets("07 11 00 00 00 00")
    with at_most_calls(10_000_000):
        body = octets("0500 01 08") + b"%s\x07"
        offsets = [(5 * index).to_bytes(4, "little") for index in range(count)]
        inside = b"".join((len(body) + 2).to_bytes(4, "little") + body % offset for offset in offsets)
        with pytest.raises(ParseError, match="overlap"):
            units_of_sections(section(inside), section(table, ".debug_abbrev"))
        codes = octets("09000000 0500 01 08 00000000 07") * count
        shared = section(table, ".debug_abbrev")
        assert set(units_of_sections(section(codes), shared).columns.tag.tolist()) == {DW_TAG.compile_unit}


# --- both engines -----------------------------------------------------------------------------------------------------

ROOT_RECORDS = (roots.OldUnitHeader, roots.UnitHeader, roots.SplitUnitFields, roots.TypeUnitFields)
ATTRIBUTES = (*DW_AT, 0x11, 0x25, 0x3FFF)
DRAWN_FORMS = (*ROOT_KINDS, ROOT_FORM.implicit_const, ROOT_FORM.indirect, 0x02)


def built_unit(draw: st.DrawFn, order: ByteOrder, code: int) -> tuple[bytes, bytes]:
    """A unit whose abbreviations are a table of its own at offset 0, and that table."""
    version, dwarf_format = draw(st.integers(2, 5)), draw(formats)
    params = {"dwarf_format": dwarf_format, "version": version}
    cls = roots.OldUnitHeader if version < 5 else roots.UnitHeader
    header = draw(strategies.records(cls, {"debug_abbrev_offset": st.just(0), "version": st.just(version)}, **params))
    params["address_size"] = header.address_size
    body = engine.build(header, order, **params)
    if (extra := roots.UNIT_TYPE_FIELDS.get(getattr(header, "unit_type", 0))) is not None:
        body += engine.build(draw(strategies.records(extra, **params)), order, **params)
    body += leb(code)
    specifications = b""
    for name, form in draw(st.lists(st.tuples(st.sampled_from(ATTRIBUTES), st.sampled_from(DRAWN_FORMS)), max_size=5)):
        specifications += leb(name) + leb(form)
        if form == ROOT_FORM.implicit_const:
            specifications += leb(draw(st.integers(0, 63)))
        if form == ROOT_FORM.indirect:
            form = draw(st.sampled_from(sorted(ROOT_KINDS)))
            body += leb(form)
        if form in ROOT_KINDS:
            kind = ROOT_KINDS[form]
            body += engine.build_value(kind, draw(strategies.values_of(kind, **params)), order, "value", **params)
    escape = b"\xff" * 4 if dwarf_format == 8 else b""
    table = leb(code) + leb(DW_TAG.compile_unit) + b"\0" + specifications + b"\0\0"
    return escape + len(body).to_bytes(dwarf_format, order) + body, table


def leb(value: int) -> bytes:
    return engine.build_value(roots.ULEB, uleb(value), "little", "leb")


@fewer(2)
@given(order=orders, chosen=st.sampled_from(["pure", "compiled"]), data=st.data())
def test_root_entries_as_the_reference_engine_reads_them(order: ByteOrder, chosen: str, data: st.DataObject) -> None:
    pairs = [built_unit(data.draw, order, code) for code in range(1, data.draw(st.integers(1, 3)) + 1)]
    info = section(b"".join(unit for unit, _ in pairs), order=order)
    abbreviations = section(b"".join(table for _, table in pairs) + b"\0", ".debug_abbrev", order)
    with engine_in_use(chosen):
        found = units_of_sections(info, abbreviations)
    place = 0
    for number, (unit, _) in enumerate(pairs):
        dwarf_format = DwarfFormat.DWARF64 if unit[:4] == b"\xff" * 4 else DwarfFormat.DWARF32
        body = place + (12 if dwarf_format == 8 else 4)
        place += len(unit)
        root = parse_root(info, abbreviations, body, place, dwarf_format)
        one = found[number]
        assert (one.version, one.tag) == (root.header.version, root.tag)
        assert one.line_offset == offset_of(root, DW_AT.stmt_list)
        assert one.macinfo_offset == offset_of(root, DW_AT.macro_info)
        if not {DW_AT.macros, DW_AT.GNU_macros} <= root.attributes.keys():
            assert one.macro_offset == max(offset_of(root, DW_AT.macros), offset_of(root, DW_AT.GNU_macros))


def offset_of(root: RootEntry, name: DW_AT) -> int:
    """The offset in an attribute, as the columns have it."""
    form, value = root.attributes.get(name, (0, 0))
    return min(int(value) % (1 << 64), (1 << 63) - 1) if form in OFFSET_FORMS else -1


# data1, data2, data4, data8, udata, sec_offset, implicit_const
OFFSET_FORMS = {0x0B, 0x05, 0x06, 0x07, 0x0F, 0x17, 0x21}


@pytest.mark.parametrize("cls", [*ROOT_RECORDS, roots.Abbreviation, roots.AttributeSpecification])
@fewer(8)
@given(order=orders, dwarf_format=formats, data=st.data())
def test_law_1(cls: type, order: ByteOrder, dwarf_format: DwarfFormat, data: st.DataObject) -> None:
    record = data.draw(strategies.records(cls, dwarf_format=dwarf_format))
    data_of = engine.build(record, order, dwarf_format=dwarf_format)
    whole = section(data_of, "test", order)
    assert engine.parse(cls, whole, 0, len(data_of), dwarf_format=dwarf_format) == (record, len(data_of))


# --- files of compilers -----------------------------------------------------------------------------------------------


@pytest.mark.oracle("sid-llvm")
@pytest.mark.parametrize("variant", [*VARIANTS, *CLANG], ids=lambda variant: variant.name)
def test_root_entries_as_llvm_dwarfdump_prints_them(variant: Variant, debug_folder: Path) -> None:
    built_object, path = built(debug_folder, variant)
    found = read_units(path)
    text = run_oracle("llvm-dwarfdump-22", "--debug-info", "--show-form", "-r", "0", path, suite="sid-llvm")
    blocks = re.split(r"^(?=0x\w+: \w+ Unit:)", text, flags=re.M)[1:]
    assert len(blocks) == len(found) == 2
    for number, block in enumerate(blocks):
        unit = found[number]
        said = dict(re.findall(r"^ +DW_AT_(?:GNU_)?(\w+) .*\t\((.*)\)$", block, re.M))
        assert unit.offset == int(block[: block.index(":")], 16)
        assert unit.version == int(re.findall(r"version = (\w+)", block)[0], 16)
        assert (f'"{unit.name.decode()}"', f'"{unit.comp_dir.decode()}"') == (said["name"], said["comp_dir"])
        offsets = (unit.line_offset, unit.macro_offset, unit.macinfo_offset)
        assert offsets == tuple(int(said.get(one, "-1"), 16) for one in ("stmt_list", "macros", "macro_info"))
    # In the object, the offset of the macros is among those of several sections of one name.
    assert [replace(one, macro_offset=0) for one in read_units(built_object)] == [replace(found[0], macro_offset=0)]
