"""The four laws of the design, for every schema and every conversion.

1. Records: parse(build(r)) == r. 2. Bytes: build(parse(b)) == b on real sections. 3. Conversion: the rules at
each PC survive a format except for its documented loss. 4. Hostile input: only FormatError. What conversions refuse is
judged in test_refusals.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unwindkit import FormatError, by_pc, from_sframe, project_sframe, read_elf, to_sframe
from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.converters.cfi.read import table_from_cfi
from unwindkit.converters.elf.image import open_elf
from unwindkit.schemas import cfi, cfi_sections, direct, eh_frame_hdr, engine, sframe, strategies
from unwindkit.schemas.cfi import DEBUG_FRAME, EH_FRAME, Dialect
from unwindkit.schemas.section import BuildError, ByteOrder, ParseError, Section
from unwindkit.schemas.sframe_abi import SFRAME_ABI, SFRAME_ABIS
from unwindkit.schemas.wire import DwarfFormat, Leb128, LebBlock

from ..conftest import engine_in_use, fewer
from ..support.real_files import REAL_FILES
from ..support.tables import tables

orders = st.sampled_from(["little", "big"])
address_sizes = st.sampled_from([4, 8])
SFRAME_ARCHITECTURES = [name for name, architecture in ARCHITECTURES.items() if architecture.sframe is not None]

# Every declared record that can be parsed alone, with the FRE type or encoding that it depends on.
PLAIN_RECORDS = [
    (sframe.Preamble, {}),
    (sframe.Header, {}),
    (sframe.FdeInfo, {}),
    (sframe.FuncDescEntry, {}),
    (sframe.FuncDescEntryV1, {}),
    (sframe.FuncDescIndex, {}),
    (sframe.FuncDescAttribute, {}),
    (sframe.FdeInfoV3, {}),
    (sframe.FdeInfo2, {}),
    (sframe.FreInfo, {}),
]


def survives(record: object, order: ByteOrder, **params: object) -> None:
    """Law 1 for one record."""
    data = engine.build(record, order, **params)
    section = Section.of("test", data, 0, order)
    parsed, end = engine.parse(type(record), section, 0, len(data), **params)
    assert parsed == record
    assert end == len(data)
    assert direct.parse(type(record), section, 0, len(data), **params) == (record, end)
    assert direct.build(record, order, **params) == data


def declared_records(module: ModuleType) -> set[type]:
    """The records that a module declares with wire fields."""
    found = {value for value in vars(module).values() if is_dataclass(value) and isinstance(value, type)}
    return {cls for cls in found if fields(cls) and all("kind" in field.metadata for field in fields(cls))}


def test_law_1_covers_every_declared_record() -> None:
    tested = {cls for cls, _ in PLAIN_RECORDS} | {
        sframe.FrameRowEntry,
        sframe.SframeSection,
        eh_frame_hdr.EhFrameHdr,
        eh_frame_hdr.EhFrameHdrHead,
        eh_frame_hdr.EhFrameHdrPrefix,
        cfi.Cie,
        cfi.OpaqueCie,
        cfi.Fde,
        cfi.LsdaPointer,
        cfi.PersonalityPointer,
    }
    assert set.union(*map(declared_records, (sframe, eh_frame_hdr, cfi))) == tested


@given(order=orders, data=st.data())
def test_law_1_fixed_records(order: ByteOrder, data: st.DataObject) -> None:
    for cls, params in PLAIN_RECORDS:
        if cls in (sframe.FdeInfo, sframe.FdeInfoV3, sframe.FdeInfo2, sframe.FreInfo):
            continue  # bit fields are not separate records: they are tested inside FDE and FRE
        survives(data.draw(strategies.records(cls, **params)), order, **params)


@given(order=orders, data=st.data())
def test_law_1_frame_row_entries(order: ByteOrder, data: st.DataObject) -> None:
    fretype = data.draw(st.sampled_from(list(sframe.SFRAME_FRE_TYPE)))
    sizes = st.sampled_from(list(sframe.SFRAME_FRE_OFFSET))
    info = st.builds(sframe.FreInfo, st.integers(0, 1), sizes, st.integers(0, 15), st.integers(0, 1))
    survives(
        data.draw(strategies.records(sframe.FrameRowEntry, {"info": info}, fretype=fretype)), order, fretype=fretype
    )


@given(order=orders, section=strategies.sframe_sections())
def test_law_1_sframe_sections(order: ByteOrder, section: sframe.SframeSection) -> None:
    survives(section, order)


@pytest.mark.parametrize("version", sframe.SFRAME_VERSION)
@pytest.mark.parametrize("abi_arch", SFRAME_ABI)
@fewer(4)
@given(engine_name=st.sampled_from(["pure", "compiled"]), data=st.data())
def test_laws_1_to_3_sframe_of_every_version_and_abi(
    version: sframe.SFRAME_VERSION, abi_arch: SFRAME_ABI, engine_name: str, data: st.DataObject
) -> None:
    order = SFRAME_ABIS[abi_arch].byte_order
    section = data.draw(strategies.valid_sframe_sections(version, abi_arch))
    survives(section, order)
    address = data.draw(st.sampled_from([0, 0x1238, 1 << 40]))
    with engine_in_use(engine_name):
        table = from_sframe(engine.build(section, order), address)
        # Read, written, read again: nothing is lost, as SFrame keeps all that it encodes.
        written, refusals = to_sframe(table, max(version, 2), section_address=address)
        back = by_pc(from_sframe(written, address))
    expected = by_pc(table, without=refusals)
    assert back == expected, expected.differences(back)


@given(order=orders, address_size=address_sizes, data=st.data())
def test_law_1_eh_frame_hdr(order: ByteOrder, address_size: int, data: st.DataObject) -> None:
    header = data.draw(strategies.eh_frame_hdrs(address_size))
    survives(header, order, address_size=address_size)
    for cls in (eh_frame_hdr.EhFrameHdrPrefix, eh_frame_hdr.EhFrameHdrHead):
        survives(cls(*(getattr(header, field.name) for field in fields(cls))), order, address_size=address_size)


@given(order=orders, address_size=address_sizes, data=st.data())
def test_law_1_cies(order: ByteOrder, address_size: int, data: st.DataObject) -> None:
    dwarf_format = data.draw(st.sampled_from(list(DwarfFormat)))
    cie = data.draw(strategies.cies(dwarf_format, address_size))
    survives(cie, order, address_size=address_size, dwarf_format=dwarf_format)
    opaque = strategies.records(cfi.OpaqueCie, dwarf_format=dwarf_format)
    survives(data.draw(opaque), order, dwarf_format=dwarf_format)


@given(order=orders, address_size=address_sizes, data=st.data())
def test_direct_reading_of_damaged_records_is_that_of_the_reference_engine(
    order: ByteOrder, address_size: int, data: st.DataObject
) -> None:
    dwarf_format = data.draw(st.sampled_from(list(DwarfFormat)))
    params: dict[str, object] = {"dwarf_format": dwarf_format, "address_size": address_size}
    whole = bytearray(engine.build(data.draw(strategies.cies(dwarf_format, address_size)), order, **params))
    for _ in range(data.draw(st.integers(0, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    section = Section.of("test", bytes(whole), 0x1000, order)
    start = data.draw(st.integers(0, 2))
    end = data.draw(st.integers(start, len(whole)))

    def outcome(parse: Callable[..., tuple[object, int]], record: type) -> object:
        try:
            return parse(record, section, start, end, "a record", **params)
        except ParseError as error:
            return str(error)

    for record in (cfi.Cie, cfi.OpaqueCie, cfi.PersonalityPointer):
        assert outcome(direct.parse, record) == outcome(engine.parse, record)


# Values that no CIE, or not every CIE, can have.
WRONG_VALUES: tuple[object, ...] = (
    *(None, -1, 5, 1 << 64, b"z", b"eh", b"a\0b"),
    *(Leb128(-1, 1), Leb128(200, 1), Leb128(1, 3), Leb128(1 << 63, 10)),
    *(LebBlock(b"", 1), LebBlock(bytes(200), 1), LebBlock(b"", 3)),
)


@given(order=orders, address_size=address_sizes, data=st.data())
def test_direct_writing_of_wrong_values_is_that_of_the_reference_engine(
    order: ByteOrder, address_size: int, data: st.DataObject
) -> None:
    dwarf_format = data.draw(st.sampled_from(list(DwarfFormat)))
    cie = data.draw(strategies.cies(dwarf_format, address_size))
    names = st.sampled_from([one.name for one in fields(cfi.Cie)])
    cie = replace(cie, **data.draw(st.dictionaries(names, st.sampled_from(WRONG_VALUES), min_size=1, max_size=2)))

    def outcome(build: Callable[..., bytes]) -> object:
        try:
            return build(cie, order, dwarf_format=dwarf_format, address_size=address_size)
        except (AttributeError, BuildError) as error:  # AttributeError: a value of another type
            return repr(error)

    assert outcome(direct.build) == outcome(engine.build)


@given(order=orders, address_size=address_sizes, data=st.data())
def test_law_1_fdes(order: ByteOrder, address_size: int, data: st.DataObject) -> None:
    layout = data.draw(strategies.fde_formats(address_size))
    dwarf_format = data.draw(st.sampled_from(list(DwarfFormat)))
    params = {"cie_format": layout, "dwarf_format": dwarf_format, "cie_pointer": 7, "address_size": address_size}
    survives(data.draw(strategies.fdes(layout, dwarf_format, 7)), order, **params)


@given(order=orders, address_size=address_sizes, data=st.data())
def test_law_1_augmentation_pointers(order: ByteOrder, address_size: int, data: st.DataObject) -> None:
    encoding = data.draw(strategies.pointer_encodings())
    params = {"lsda_encoding": encoding, "address_size": address_size}
    survives(data.draw(strategies.records(cfi.LsdaPointer, **params)), order, **params)
    personality = strategies.records(cfi.PersonalityPointer, {"encoding": st.just(encoding)}, **params)
    survives(data.draw(personality), order, **params)


@given(order=orders, address_size=address_sizes, data=st.data())
def test_law_1_instructions(order: ByteOrder, address_size: int, data: st.DataObject) -> None:
    encoding = data.draw(strategies.pointer_encodings(omit=False, direct=True))
    found = tuple(data.draw(st.lists(strategies.instructions(encoding, address_size), max_size=8)))
    built = cfi_sections.build_instructions(found, order, address_size, encoding)
    section = Section.of("test", built, 0, order, address_size)
    assert cfi_sections.parse_instructions(section, 0, len(built), encoding) == found


@pytest.mark.parametrize("dialect", [EH_FRAME, DEBUG_FRAME], ids=lambda dialect: dialect.name)
@given(order=orders, address_size=address_sizes, data=st.data())
def test_laws_1_and_2_whole_cfi_sections(
    dialect: Dialect, order: ByteOrder, address_size: int, data: st.DataObject
) -> None:
    section, placed = data.draw(strategies.cfi_entries(dialect, order, address_size))
    assert cfi_sections.parse_section(section, dialect) == placed
    assert cfi_sections.build_section(placed, dialect, section) == bytes(section.data)


@pytest.mark.parametrize("path", REAL_FILES, ids=str)
def test_law_2_real_sections_build_back_to_their_bytes(path: str) -> None:
    image = open_elf(path)
    section = image.contents(image.named(".eh_frame")[0])
    entries = cfi_sections.parse_section(section, EH_FRAME)
    assert cfi_sections.build_section(entries, EH_FRAME, section) == bytes(section.data)
    hdr = image.contents(image.named(".eh_frame_hdr")[0])
    record, end = engine.parse(eh_frame_hdr.EhFrameHdr, hdr, 0, len(hdr))
    assert (engine.build(record), end) == (bytes(hdr.data), len(hdr))


@pytest.mark.parametrize("path", REAL_FILES, ids=str)
def test_law_2_sframe_made_of_real_files(path: str) -> None:
    table = read_elf(path)
    data, _ = to_sframe(table, section_address=int(np.max(table.functions.start)))
    parsed, end = engine.parse(sframe.SframeSection, Section.of(".sframe", data), 0, len(data))
    assert (engine.build(parsed), end) == (data, len(data))


@pytest.mark.parametrize("name", SFRAME_ARCHITECTURES)
@pytest.mark.parametrize("version", [2, 3])
@given(engine_name=st.sampled_from(["pure", "compiled"]), compact=st.sampled_from(["none", "share"]), data=st.data())
def test_law_3_sframe_keeps_the_rules_at_every_pc(
    name: str, version: int, engine_name: str, compact: str, data: st.DataObject
) -> None:
    table = data.draw(tables(ARCHITECTURES[name]))
    address = data.draw(st.integers(0, 1 << 20))
    with engine_in_use(engine_name):
        section, refusals = to_sframe(table, version, section_address=address, compact=compact)
        back = by_pc(from_sframe(section, address))
    expected = by_pc(project_sframe(table, version), without=refusals)
    assert back == expected, expected.differences(back)


@pytest.mark.parametrize("path", REAL_FILES, ids=str)
@pytest.mark.parametrize("version", [2, 3])
def test_law_3_on_real_files(path: str, version: int, kernels: str) -> None:
    image = open_elf(path)
    section = image.contents(image.named(".eh_frame")[0])
    table = table_from_cfi(section, EH_FRAME, ARCHITECTURES["x86_64"])
    address = int(np.max(table.functions.start)) + 0x1000
    data, refusals = to_sframe(table, version, section_address=address)
    back, expected = by_pc(from_sframe(data, address)), by_pc(project_sframe(table, version), without=refusals)
    assert back == expected, expected.differences(back)
    assert len(back.start) > len(table) // 2


@given(data=st.binary(max_size=200))
def test_law_4_any_bytes_as_sframe(kernels: str, data: bytes) -> None:
    try:
        from_sframe(data)
    except FormatError as error:
        assert error.section == ".sframe"


@pytest.mark.parametrize("dialect", [EH_FRAME, DEBUG_FRAME], ids=lambda dialect: dialect.name)
@given(data=st.binary(max_size=200))
def test_law_4_any_bytes_as_call_frame_information(kernels: str, dialect: Dialect, data: bytes) -> None:
    try:
        table_from_cfi(Section.of(dialect.name, data), dialect, ARCHITECTURES["x86_64"])
    except FormatError as error:
        assert error.section == dialect.name
