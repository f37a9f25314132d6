"""Malformed look-up tables and macros: both engines refuse the same bytes, with an offset, and neither takes long.

Strategy: drawn and compiled sections with bytes changed, truncated, or inserted; then single false fields, each large
enough to hang a reader that follows it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unwindkit import FormatError, ParseError
from unwindkit.converters.lookup_tables.aranges import check_address_ranges, read_address_ranges
from unwindkit.converters.lookup_tables.pubnames import check_pubnames, read_pubnames
from unwindkit.converters.macro.check import check_macros
from unwindkit.converters.macro.dump import macro_text
from unwindkit.converters.macro.strings import macro_sources
from unwindkit.converters.macro.table import read_macros
from unwindkit.jobs.dump import dump_json, dump_sections
from unwindkit.jobs.section_dumps import TABLE_SECTIONS
from unwindkit.schemas import strategies
from unwindkit.schemas.lookup_tables import (
    ARANGES,
    NAME_SECTIONS,
    build_address_ranges,
    build_names,
    parse_address_ranges,
    parse_names,
)
from unwindkit.schemas.macros import MACRO_SECTIONS, build_macros, parse_macros
from unwindkit.schemas.section import ByteOrder, Section

from ..conftest import engine_in_use, fewer
from ..support.handmade import octets
from ..support.made.made_frames import X86_64, elf_file
from ..support.tiny_elf import PROGBITS, Content
from ..support.work import at_most_calls
from .test_vectors_lookup_tables import GNU_NAMES_BIG, NAMES, RANGES, RANGES_BIG_64
from .test_vectors_macros import MACINFO, MACRO, VENDORS_BIG_64

orders = st.sampled_from(["little", "big"])
SEEDS = {
    ARANGES: (RANGES, RANGES_BIG_64),
    ".debug_pubnames": (NAMES,),
    ".debug_pubtypes": (NAMES,),
    ".debug_gnu_pubnames": (GNU_NAMES_BIG,),
    ".debug_gnu_pubtypes": (GNU_NAMES_BIG,),
    ".debug_macinfo": (MACINFO,),
    ".debug_macro": (MACRO, VENDORS_BIG_64),
}


@st.composite
def changed(draw: st.DrawFn, name: str, order: ByteOrder) -> bytes:
    """Bytes of a section with some of them changed, removed, or inserted."""
    if name == ARANGES:
        drawn = build_address_ranges(tuple(draw(st.lists(strategies.address_range_sets(), max_size=2))), order)
    elif name in NAME_SECTIONS:
        is_gnu = NAME_SECTIONS[name]
        drawn = build_names(tuple(draw(st.lists(strategies.name_sets(is_gnu), max_size=2))), is_gnu, order)
    else:
        drawn = build_macros(tuple(draw(st.lists(strategies.macro_units(MACRO_SECTIONS[name]), max_size=2))), order)
    data = bytearray(draw(st.sampled_from([drawn, *map(octets, SEEDS[name])])))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 4))] = draw(st.binary(max_size=4))
    return bytes(data)


def refused_by(read: Callable[[Section], object], section: Section) -> bool:
    """Whether it raises ParseError; its offset is in the section or at its end."""
    try:
        read(section)
    except ParseError as error:
        assert error.offset is not None
        assert 0 <= error.offset <= len(section)
        return True
    return False


@pytest.mark.parametrize("name", TABLE_SECTIONS)
@fewer(8)
@given(order=orders, data=st.data())
def test_both_engines_refuse_the_same(name: str, order: ByteOrder, data: st.DataObject) -> None:
    section = Section.of(name, data.draw(changed(name, order)), 0, order)
    if name == ARANGES:
        by_reference = refused_by(parse_address_ranges, section)
        by_kernels: list[Callable[[Section], object]] = [read_address_ranges, check_address_ranges]
    elif name in NAME_SECTIONS:
        by_reference = refused_by(lambda one: parse_names(one, NAME_SECTIONS[name]), section)
        by_kernels = [read_pubnames, check_pubnames]
    else:
        by_reference = refused_by(lambda one: parse_macros(one, MACRO_SECTIONS[name]), section)
        by_kernels = [read_macros, check_macros]
    for engine in ("pure", "compiled"):
        with engine_in_use(engine):
            assert [refused_by(read, section) for read in by_kernels] == [by_reference] * 2


@fewer(8)
@given(data=st.data())
def test_dumps_raise_nothing_else(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Sections that macro entries point into are drawn, too."""
    path = tmp_path_factory.getbasetemp() / "hostile-tables"
    name = data.draw(st.sampled_from([".debug_macro", ".debug_macinfo", ARANGES, ".debug_gnu_pubnames"]))
    others = [".debug_str", ".debug_str_offsets", ".debug_line", ".debug_line_str"]
    contents = [Content(name, data.draw(changed(name, "little")), PROGBITS, 0)]
    contents += [Content(one, data.draw(st.binary(max_size=20)), PROGBITS, 0) for one in others]
    path.write_bytes(elf_file(X86_64, *contents))
    for job in (dump_sections, dump_json):
        try:
            for piece in job(path, TABLE_SECTIONS):
                list(getattr(piece, "parts", ()))
        except FormatError as error:
            assert error.section


# --- false fields -----------------------------------------------------------------------------------------------------

LARGE = 1 << 18


@pytest.mark.parametrize(
    ("name", "data", "offset"),
    [
        (ARANGES, octets("ffffffff ffffffffffffffff"), 0),
        (ARANGES, octets("ffffffff 0000000000000080 0200"), 0),
        (ARANGES, octets("00000000") * LARGE + b"\1", 0),
        (".debug_pubnames", octets("f3ffffff"), 0),
        (".debug_pubnames", octets("00000000") * LARGE + b"\1", 0),
        (".debug_macinfo", b"\x01" + b"\x80" * LARGE, None),
        (".debug_macinfo", b"\x01\x00" + b"A" * LARGE, None),
        (".debug_macinfo", b"\x04" * LARGE, LARGE),
        (
            ".debug_macro",
            octets("0500 04 ff") + b"\xe0\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" + b"\x0b" * LARGE,
            None,
        ),
        (".debug_macro", octets("0500 04 01 e0 01 09 e0 ffffffffffffffffff01 00"), None),
        (".debug_macro", octets("0500 04 01 e0 01 04 e0 ffffffff 00"), None),
    ],
)
def test_lies(name: str, data: bytes, offset: int | None, tmp_path: Path, kernels: str) -> None:
    (tmp_path / "file").write_bytes(elf_file(X86_64, Content(name, data, PROGBITS, 0)))
    with at_most_calls(10_000_000), pytest.raises(ParseError) as caught:
        b"".join(dump_sections(tmp_path / "file", TABLE_SECTIONS))
    assert caught.value.offset is not None
    assert offset is None or caught.value.offset == offset


def test_many_small_units_and_sets_take_no_square() -> None:
    with at_most_calls(60_000_000):
        macro = Section.of(".debug_macro", octets("0500 00 00") * LARGE)
        assert len(read_macros(macro).body) == LARGE
        names = Section.of(".debug_pubnames", octets("0e000000 0200 00000000 00000000 01000000") * (LARGE // 16))
        with pytest.raises(ParseError):
            read_pubnames(names)
        ranges = Section.of(ARANGES, octets("0a000000 0200 00000000 01 00 0102") * (LARGE // 16))
        assert len(check_address_ranges(ranges)) > 0


def test_a_chain_and_a_ring_of_imports_end() -> None:
    """Printing does not follow imports, either."""
    count = 20_000
    entry = b"\5\0\0\7%s\0"
    chain = b"".join(entry % (9 * min(index + 1, count - 1)).to_bytes(4, "little") for index in range(count))
    ring = b"".join(entry % (9 * ((index + 1) % count)).to_bytes(4, "little") for index in range(count))
    with at_most_calls(20_000_000):
        assert len(check_macros(Section.of(".debug_macro", chain))) == 1
        assert len(check_macros(Section.of(".debug_macro", ring))) == count
        text = b"".join(macro_text(Section.of(".debug_macro", ring), macro_sources()))
        assert text.count(b"DW_MACRO_import") == count


def test_line_programs_inside_one_another_are_not_parsed() -> None:
    """Each unit of macros refers to another byte of .debug_line, and each would find thousands of names from there
    on."""
    count = 2000
    head, names = octets("0200 00000000 01 01 01 01 01 00"), b"a\0\0\0\0" * 3000
    length = (count * (4 + len(head)) + len(names)).to_bytes(4, "little")
    line = (length + head) * count + names * 2
    units = b"".join(octets("0500 02") + (16 * index).to_bytes(4, "little") + b"\3\0\1\4\0" for index in range(count))
    with at_most_calls(1_000_000):
        sources = macro_sources(line=Section.of(".debug_line", line))
        text = b"".join(macro_text(Section.of(".debug_macro", units), sources))
        assert text.count(b"filenum: 1\n") == count
