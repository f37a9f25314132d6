"""Fuzz targets that are the bytes of one section: call frame information, SFrame, lines, look-up tables, entries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import unwindkit
from unwindkit import ARCHITECTURES, Section, UnwindTable, expressions
from unwindkit.converters.cfi.dump.eh_frame_hdr import eh_frame_hdr_json, eh_frame_hdr_text
from unwindkit.converters.cfi.dump.readelf import cfi_text
from unwindkit.converters.cfi.dump.to_json import cfi_json
from unwindkit.converters.cfi.read import table_from_cfi
from unwindkit.converters.line.dump.decode import read_line_dump
from unwindkit.converters.line.dump.decoded import decoded_line_text
from unwindkit.converters.line.dump.raw import raw_line_text
from unwindkit.converters.lookup_tables.aranges_dump import address_ranges_text
from unwindkit.converters.lookup_tables.pubnames_dump import names_text
from unwindkit.converters.macro.dump import macro_text
from unwindkit.converters.sframe.dump import sframe_json, sframe_text
from unwindkit.schemas.cfi import DEBUG_FRAME, EH_FRAME, Dialect
from unwindkit.schemas.lookup_tables import NAME_SECTIONS
from unwindkit.schemas.macros import MACRO_SECTIONS
from unwindkit.schemas.section import ByteOrder

from ..cfi.test_vectors_cfi import EXAMPLES
from ..support.handmade import Fde, eh_frame, octets
from ..support.made.debug_entries import NO_LINKS, Layout
from ..support.made.sframe_seeds import sframe_seeds
from ..tables.test_vectors_lookup_tables import GNU_NAMES_BIG, NAMES, RANGES, RANGES_BIG_64
from ..tables.test_vectors_macros import MACINFO, MACRO, VENDORS_BIG_64
from .seeds import Place, Seed, corpus_seeds, words
from .target import Read, Target

PROBES = np.array([0, 1, 0x1000, 0x1001, 0x1040, 0x2000, 0x3010, (1 << 63) - 1, (1 << 64) - 1], np.uint64)
LINE_STR, DEBUG_STR = ".debug_line_str", ".debug_str"

# --- call frame information -------------------------------------------------------------------------------------------


def _frames(dialect: Dialect) -> Read:
    def read(seed: Seed) -> UnwindTable:
        return table_from_cfi(seed.section(dialect.name), dialect, ARCHITECTURES[seed.architecture])

    return read


def _dumps(dialect: Dialect, *, interpreted: bool) -> Read:
    def read(seed: Seed) -> list[Any]:
        section = seed.section(dialect.name)
        json = cfi_json(section, dialect, "EM_X86_64", interpreted)
        return [[*cfi_text(section, dialect, "EM_X86_64", interpreted)], repr([*json[1]])]

    return read


def _rows(seed: Seed) -> object:
    return unwindkit.find_rows(_frames(EH_FRAME)(seed), PROBES)


def every_instruction() -> Seed:
    """An `.eh_frame` whose FDEs have each instruction once, on x86-64."""
    every = [text for text, opcode, _ in EXAMPLES if opcode.name not in ("set_loc", "restore_state")]
    fdes = [Fde(0x1000 * number, 0x40, text) for number, text in enumerate(every, 1)]
    return Seed(eh_frame("01 00 01 78 10 0c0708 9001", *fdes), name=".eh_frame")


def _cfi_seeds() -> list[Seed]:
    return [*corpus_seeds("eh-frame"), every_instruction()]


def _written(write: Callable[[UnwindTable], Any]) -> Read:
    def read(seed: Seed) -> object:
        return write(_frames(EH_FRAME)(seed))

    return read


def _sframe_again(version: int) -> Callable[[UnwindTable], Any]:
    def write(table: UnwindTable) -> object:
        data, refusals = unwindkit.to_sframe(table, version=version)
        return data, len(refusals), unwindkit.from_sframe(data)

    return write


CONVERSIONS: dict[str, Read] = {
    "to_sframe 2": _written(_sframe_again(2)),
    "to_sframe 3": _written(_sframe_again(3)),
    "to_eh_frame": _written(lambda table: unwindkit.to_eh_frame(table)[0]),
    "to_debug_frame": _written(lambda table: unwindkit.to_debug_frame(table)[0]),
    "to_stack_cfi": _written(lambda table: unwindkit.to_stack_cfi(table)[0]),
    "to_directives": _written(lambda table: unwindkit.to_directives(table)[0]),
    "by_pc": _written(lambda table: unwindkit.by_pc(table)),
}

# --- .eh_frame_hdr ----------------------------------------------------------------------------------------------------


def _hdr_check(seed: Seed) -> object:
    frames = Seed(seed.other(".eh_frame"), (), ".eh_frame", seed.byte_order, seed.address_size, seed.architecture)
    found = [(frames.section(), _frames(EH_FRAME)(frames))] if frames.data else []
    return unwindkit.check_eh_frame_hdr(seed.section(".eh_frame_hdr"), found).sentences()


# --- SFrame -----------------------------------------------------------------------------------------------------------


def _sframe_table(seed: Seed) -> UnwindTable:
    return unwindkit.from_sframe(seed.data, seed.address)


def _fres(seed: Seed) -> object:
    return unwindkit.find_fres(seed.data, PROBES, seed.address)


def _sframe_dump(seed: Seed) -> object:
    section = seed.section(".sframe")
    return [*sframe_text(section)], repr([*sframe_json(section)[1]])


def _rewritten(seed: Seed) -> object:
    table = _sframe_table(seed)
    compact = [unwindkit.to_sframe(table, version=version, compact="share")[0] for version in (2, 3)]
    return unwindkit.to_eh_frame(table)[0], compact


SFRAME_READS: dict[str, Read] = {
    "from_sframe": _sframe_table,
    "find_fres": _fres,
    "dump": _sframe_dump,
    "write": _rewritten,
}


def _sframe_target(version: int) -> Target:
    def seeds() -> list[Seed]:
        found = corpus_seeds(f"sframe-v{version}")
        made = [data for name, data in sframe_seeds().items() if name.startswith(f"V{version}")]
        return found + [Seed(data, words(data[:28], 4), ".sframe") for data in made]

    return Target(f"sframe-v{version}", seeds, SFRAME_READS, ("converters/sframe", "converters/kernels/sframe"))


# --- expressions ------------------------------------------------------------------------------------------------------


def _expression_seeds() -> list[Seed]:
    hexadecimal = [
        "7708", "7708 06 23 10 22", "9110 06", "03 0010000000000000 06", "08ff 11807f 1c 1e", "12 13 14 15 01 16 17",
        "30 31 28 0200 32 2f 0000 96", "7700 0aff0f 1a 3f 2a", "10ffffffffffffffffff01 1f 20 21 24 25 26 27",
        "7708 800f1a 3b2a 332422", "0c ffffffff 94 04 19", "3029 2a2b 2c2d 2e", "50", "9010", "9e 04 01020304",
    ]  # fmt: skip
    return [Seed(octets(text), name="expression", address_size=size) for text in hexadecimal for size in (4, 8)]


def _simplified(seed: Seed) -> object:
    operations = expressions.parse(seed.data, seed.byte_order, seed.address_size)
    node = expressions.simplify(operations, seed.address_size)
    offset = expressions.register_offset(node, seed.address_size)
    return expressions.text(operations), repr(node)[:1000], offset, expressions.by_residue(node, 16, seed.address_size)


def _evaluated(seed: Seed) -> object:
    operations = expressions.parse(seed.data, seed.byte_order, seed.address_size)
    mask = (1 << 8 * seed.address_size) - 1
    return expressions.evaluate(
        operations,
        lambda number: number * 0x1234567 & mask,
        lambda address, size: (address ^ 0x5555) & (1 << 8 * size) - 1,
        seed.address_size,
        0x7FFF0000,
    )


# --- lines ------------------------------------------------------------------------------------------------------------


def _lines(seed: Seed) -> unwindkit.LineTable:
    return unwindkit.from_debug_line(
        seed.data, seed.other(LINE_STR), seed.byte_order, seed.address_size, seed.other(DEBUG_STR)
    )


def _line_dumps(seed: Seed) -> object:
    section, strings = seed.section(".debug_line"), {}
    for name in (LINE_STR, DEBUG_STR):
        strings[name] = Section.of(name, seed.other(name), 0, seed.byte_order)
    dump = read_line_dump(section, strings)
    return [*raw_line_text(dump)], [*decoded_line_text(dump)]


def _lines_again(seed: Seed) -> object:
    table = _lines(seed)
    found = unwindkit.find_lines(table, PROBES)
    return unwindkit.to_debug_line(table), unwindkit.to_line_records(table), len(found)


LINE_READS: dict[str, Read] = {"from_debug_line": _lines, "dump": _line_dumps, "write": _lines_again}


def _line_target(version: int) -> Target:
    code = ("converters/line", "converters/kernels/line")
    return Target(f"debug-line-{version}", lambda: corpus_seeds(f"debug-line-{version}", 24), LINE_READS, code)


# --- look-up tables and macros ----------------------------------------------------------------------------------------


def _vectors(named: dict[str, tuple[str, ...]]) -> list[Seed]:
    found = []
    for name, texts in named.items():
        for text in texts:
            data = octets(text)
            is_big = text in (RANGES_BIG_64, GNU_NAMES_BIG, VENDORS_BIG_64)
            places = (*words(data[:24], 2), *words(data[:24], 4), *words(data[:24], 8))
            found.append(Seed(data, places, name, "big" if is_big else "little"))
    return found


def _macro_check(seed: Seed) -> object:
    return unwindkit.check_macros(seed.section()).sentences()


def _flat(seed: Seed) -> object:
    table = unwindkit.read_macros(seed.section())
    return [unwindkit.flatten_macros(table, unit, max_entries=1000) for unit in range(min(4, len(table.unit_offset)))]


def _aranges(seed: Seed) -> object:
    table = unwindkit.read_address_ranges(seed.section())
    return table, unwindkit.write_address_ranges(table), unwindkit.find_address_ranges(table, PROBES)


def _names(seed: Seed) -> object:
    table = unwindkit.read_pubnames(seed.section())
    return table, unwindkit.write_pubnames(table), unwindkit.find_names(table, ["main", "f"])


TABLE_TARGETS = (
    Target(
        "aranges",
        lambda: _vectors({".debug_aranges": (RANGES, RANGES_BIG_64)}),
        {
            "read": _aranges,
            "check": lambda seed: unwindkit.check_address_ranges(seed.section()).sentences(),
            "dump": lambda seed: [*address_ranges_text(seed.section())],
        },
        ("converters/lookup_tables", "converters/kernels/dwarf/contributions.py"),
    ),
    Target(
        "names",
        lambda: _vectors({name: (GNU_NAMES_BIG if NAME_SECTIONS[name] else NAMES,) for name in NAME_SECTIONS}),
        {
            "read": _names,
            "check": lambda seed: unwindkit.check_pubnames(seed.section()).sentences(),
            "dump": lambda seed: [*names_text(seed.section())],
        },
        ("converters/lookup_tables", "converters/kernels/dwarf/contributions.py"),
    ),
    Target(
        "macros",
        lambda: _vectors(
            {name: (MACRO, VENDORS_BIG_64) if MACRO_SECTIONS[name] else (MACINFO,) for name in MACRO_SECTIONS}
        ),
        {
            "read": lambda seed: unwindkit.read_macros(seed.section()),
            "check": _macro_check,
            "flatten": _flat,
            "dump": lambda seed: [*macro_text(seed.section(), unwindkit.macro_sources())],
        },
        ("converters/macro", "converters/kernels/dwarf/macros.py"),
    ),
)

# --- entries of .debug_info, abbreviations, range lists ---------------------------------------------------------------

INFO, ABBREV, RANGES_4, RANGES_5 = ".debug_info", ".debug_abbrev", ".debug_ranges", ".debug_rnglists"
# 1: compile unit with name and ranges; 2: subprogram with name, low_pc, high_pc; 3: subprogram of an abstract one;
# 4: namespace; 5: subprogram with ranges; 6: inlined subroutine with origin, ranges, call file, line; 7: with sibling.
ABBREVIATIONS = octets("""
    01 11 01 03 08 55 17 00 00
    02 2e 01 03 08 11 01 12 0b 00 00
    03 2e 00 47 13 11 01 12 0b 00 00
    04 39 01 03 08 00 00
    05 2e 01 03 08 55 17 00 00
    06 1d 01 31 13 55 17 58 0b 59 0b 00 00
    07 2e 01 01 13 03 08 11 01 12 0b 00 00
    00
""")


def _entries(layout: Layout) -> bytes:
    address, offset = layout.address, layout.offset
    first = layout.header_size
    body = b"\x01a.c\0" + offset(12 if layout.version == 5 else 0)
    body += b"\x02f\0" + address(0) + b"\x20"
    body += b"\x06" + layout.number(first + 5 + layout.offset_size, 4) + offset(12 if layout.version == 5 else 0)
    body += b"\x01\x05\0\0"
    body += b"\x04n\0" + b"\x03" + layout.number(first + 5 + layout.offset_size, 4) + address(0x40) + b"\x10\0"
    body += b"\x05g\0" + offset(12 if layout.version == 5 else 0) + b"\0"
    return layout.unit(body + b"\0")


def _range_lists(layout: Layout) -> bytes:
    pairs = [layout.number(one, layout.address_size) for one in (0, 8, 0x10, 0x18)]
    if layout.version < 5:
        base = b"\xff" * layout.address_size + layout.address(0)
        return base + b"".join(pairs) + bytes(2 * layout.address_size)
    entries = b"\x05" + layout.address(0) + b"\x04\x00\x08\x04\x10\x18\x07" + layout.address(0x20) + b"\x08"
    entries += b"\x06" + layout.address(0x30) + layout.address(0x38) + b"\x00"
    return layout.contribution(layout.number(5, 2) + bytes([layout.address_size, 0]) + bytes(4) + entries)


LAYOUTS = [Layout(version, order, size) for version in (3, 4, 5) for order in "<>" for size in (4, 8)]


def _layout_of(seed: Seed) -> Layout:
    return Layout(int(seed.variant), "<" if seed.byte_order == "little" else ">", seed.address_size)


def entry_seeds(name: str) -> list[Seed]:
    """A seed for each layout, whose data are those of the section of that name; the other sections are `others`."""
    found = []
    for layout in LAYOUTS:
        ranges = RANGES_5 if layout.version == 5 else RANGES_4
        sections = {INFO: _entries(layout), ABBREV: ABBREVIATIONS, ranges: _range_lists(layout)}
        chosen = ranges if name == RANGES_4 else name
        data = sections.pop(chosen)
        order: ByteOrder = "little" if layout.order == "<" else "big"
        seed = Seed(data, (Place(0, 4), *words(data, 4)), chosen, "little", layout.address_size)
        found.append(replace(seed, byte_order=order, others=tuple(sections.items()), variant=str(layout.version)))
    return found


def entry_file(seed: Seed) -> bytes:
    """The ELF file with the sections of a seed."""
    return _layout_of(seed).file({seed.name: seed.data, **dict(seed.others)})


def _functions(seed: Seed) -> object:
    return unwindkit.read_functions(entry_file(seed), NO_LINKS)


def _units(seed: Seed) -> object:
    return unwindkit.read_units(entry_file(seed), NO_LINKS)


ENTRY_READS: dict[str, Read] = {"read_functions": _functions, "read_units": _units}
ENTRY_CODE = ("converters/debug_info", "converters/kernels/dwarf")

SECTION_TARGETS = (
    Target(
        "eh-frame",
        _cfi_seeds,
        {"table": _frames(EH_FRAME), "find_rows": _rows},
        ("converters/cfi/read.py", "converters/cfi/records.py", "converters/kernels/cfi"),
    ),
    Target(
        "debug-frame",
        lambda: corpus_seeds("debug-frame"),
        {"table": _frames(DEBUG_FRAME)},
        ("converters/cfi/read.py", "converters/cfi/records.py", "converters/kernels/cfi"),
    ),
    Target(
        "frame-dumps",
        _cfi_seeds,
        {"instructions": _dumps(EH_FRAME, interpreted=False), "rows": _dumps(EH_FRAME, interpreted=True)},
        ("converters/cfi/dump", "converters/kernels/text"),
    ),
    Target(
        "conversions",
        _cfi_seeds,
        CONVERSIONS,
        ("converters/sframe", "converters/kernels/sframe", "converters/assembler", "converters/breakpad/stack_cfi"),
    ),
    Target(
        "eh-frame-hdr",
        lambda: corpus_seeds("eh-frame-hdr"),
        {
            "text": lambda seed: [*eh_frame_hdr_text(seed.section(".eh_frame_hdr"))],
            "json": lambda seed: repr([*eh_frame_hdr_json(seed.section(".eh_frame_hdr"))[1]]),
            "check": _hdr_check,
        },
        ("converters/cfi/eh_frame_hdr.py", "converters/cfi/dump/eh_frame_hdr.py", "schemas/eh_frame_hdr.py"),
    ),
    *map(_sframe_target, (1, 2, 3)),
    Target(
        "expressions",
        _expression_seeds,
        {"simplify": _simplified, "evaluate": _evaluated},
        ("converters/dwarf/expressions.py", "schemas/expressions.py"),
        (unwindkit.FormatError, expressions.ExpressionError),
    ),
    *map(_line_target, (2, 3, 4, 5)),
    *TABLE_TARGETS,
    Target("debug-info", lambda: entry_seeds(INFO), ENTRY_READS, ENTRY_CODE),
    Target("debug-abbrev", lambda: entry_seeds(ABBREV), ENTRY_READS, ENTRY_CODE),
    Target("range-lists", lambda: entry_seeds(RANGES_4), ENTRY_READS, ENTRY_CODE),
)
