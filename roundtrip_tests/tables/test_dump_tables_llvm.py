"""A second reader: our readers and llvm-dwarfdump 22 find the same in look-up tables and macros.

Strategy: its text is parsed here and compared with columns, not with our text.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from unwindkit.converters.elf.image import open_elf
from unwindkit.converters.lookup_tables.aranges import read_address_ranges
from unwindkit.converters.lookup_tables.pubnames import read_pubnames
from unwindkit.converters.macro.dump import macro_text
from unwindkit.converters.macro.strings import macro_sources, string_offsets_bases
from unwindkit.schemas.lookup_tables import NAME_SECTIONS
from unwindkit.schemas.section import Section

from ..support.oracles import run_oracle
from ..support.programs.debug_programs import CLANG, VARIANTS, Variant, built

pytestmark = pytest.mark.oracle("sid-llvm")
CHOSEN = [one for one in VARIANTS if one.name in ("dwarf4", "dwarf5", "dwarf64", "s390x-dwarf5", "s390x-dwarf64")]
CHOSEN.append(CLANG[1])
SOME = pytest.mark.parametrize("variant", CHOSEN, ids=lambda variant: variant.name)


def dumped(path: Path, name: str) -> str:
    return run_oracle("llvm-dwarfdump-22", f"--{name.removeprefix('.').replace('_', '-')}", path, suite="sid-llvm")


def section_of(path: Path, name: str) -> Section | None:
    image = open_elf(path)
    return next((image.contents(one) for one in image.named(name)), None)


@SOME
def test_address_ranges(variant: Variant, debug_folder: Path) -> None:
    path = built(debug_folder, variant)[1]
    text = dumped(path, ".debug_aranges")
    section = section_of(path, ".debug_aranges")
    assert section is not None
    table = read_address_ranges(section)
    units = [int(offset, 16) for offset in re.findall(r"cu_offset = (\w+)", text)]
    assert table.debug_info_offset.tolist() == units
    assert len(units) == 2
    is_range = ~table.is_end
    pairs = zip(table.address[is_range].tolist(), (table.address + table.length)[is_range].tolist(), strict=True)
    assert [*pairs] == [(int(a, 16), int(b, 16)) for a, b in re.findall(r"^\[(\w+), (\w+)\)", text, re.M)]


@SOME
def test_names(variant: Variant, debug_folder: Path) -> None:
    path = built(debug_folder, variant)[1]
    found = 0
    for name in NAME_SECTIONS:
        section = section_of(path, name)
        if section is None:
            continue
        table, text = read_pubnames(section), dumped(path, name)
        assert table.debug_info_length.tolist() == [int(size, 16) for size in re.findall(r"unit_size = (\w+)", text)]
        lines = re.findall(r'^(0x\w+) (?:(\w+) +(\w+) +)?"(.*)"$', text, re.M)
        assert [
            (f"{offset:#010x}", table.name_of(index).decode()) for index, offset in enumerate(table.offset.tolist())
        ] == [(f"{int(offset, 16):#010x}", each) for offset, _, _, each in lines]
        if table.has_attributes:
            assert table.part("is_static").tolist() == [scope == "STATIC" for _, scope, _, _ in lines]
            kinds = {"TYPE": 1, "VARIABLE": 2, "FUNCTION": 3}
            assert table.part("kind").tolist() == [kinds[kind] for _, _, kind, _ in lines]
        found += len(lines)
    assert found > 10


@SOME
def test_macros(variant: Variant, debug_folder: Path) -> None:
    path = built(debug_folder, variant)[1]
    # llvm-dwarfdump's text has no file names.
    sections = [section_of(path, name) for name in (".debug_macro", ".debug_str", ".debug_str_offsets")]
    section, strings, offsets = sections
    assert section is not None
    bases = None
    if offsets is not None:
        bases = string_offsets_bases(offsets, section_of(path, ".debug_info"), section_of(path, ".debug_abbrev"))
        assert len(bases) == 2
    ours = b"".join(macro_text(section, macro_sources(strings, None, offsets, bases=bases))).decode()
    names = {
        "GNU_transparent_include": "import",
        "GNU_define_indirect": "define_strp",
        "GNU_undef_indirect": "undef_strp",
    }
    theirs = []
    for kind, rest in re.findall(r"^ *DW_MACRO_(\w+)(?: - (.*))?$", dumped(path, ".debug_macro"), re.M):
        theirs.append((names.get(kind, kind.removeprefix("GNU_")), rest.replace("import offset: ", "")))
    found = []
    for kind, rest in re.findall(r"^ DW_MACRO_(\w+)(?: (?:- )?(.*))?$", ours, re.M):
        rest = re.sub(r"^offset : (\w+)$", lambda match: f"{int(match[1], 16):#0{2 + 2 * size(ours)}x}", rest)
        found.append((kind, rest.replace(" : ", ": ")))
    assert found == [(kind, rest.replace(" : ", ": ")) for kind, rest in theirs]
    assert len(found) > 300


def size(text: str) -> int:
    """The size of an offset in bytes."""
    return int(re.findall(r"Offset size: +(\d)", text)[0])
