"""Commands that read: info, dump, find."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING

from .cli_common import DONE, address_of, count_text, share_text

if TYPE_CHECKING:
    from .cli_common import Commands
    from .dumps import PlainSection
    from .jobs import FileInfo


def add_info(commands: Commands) -> None:
    command = commands.add_parser("info", help="what unwind information a file has")
    command.add_argument("file", metavar="FILE", nargs="?")
    command.add_argument("--json", action="store_true", help="as JSON")
    command.add_argument("--engine", action="store_true", help="say which kernels are in use: compiled or pure")
    command.set_defaults(run=_info, command=command)


def add_dump(commands: Commands) -> None:
    command = commands.add_parser("dump", help="print what sections hold, as GNU readelf 2.47 prints it")
    command.add_argument("file", metavar="FILE")
    command.add_argument("--frames", action="store_true", help="call frame instructions, as readelf -wNf does")
    command.add_argument("--frames-interp", action="store_true", help="the rows that they make, as readelf -wNF does")
    command.add_argument("--sframe", action="store_true", help="every .sframe section, as readelf --sframe does")
    command.add_argument("--aranges", action="store_true", help="address ranges of units, as readelf -wNr does")
    command.add_argument("--pubnames", action="store_true", help="names of functions and data, as readelf -wNp does")
    command.add_argument("--pubtypes", action="store_true", help="names of types, as readelf -wNt does")
    command.add_argument("--macro", action="store_true", help="macro information, as readelf -wNm does")
    command.add_argument("--rawline", action="store_true", help="line number programs, as readelf -wNl does")
    command.add_argument("--decodedline", action="store_true", help="the rows that they make, as readelf -wNL does")
    command.add_argument("--json", action="store_true", help="as JSON, one object a section")
    command.set_defaults(run=_dump, command=command)


def add_find(commands: Commands) -> None:
    command = commands.add_parser("find", help="the row in force at a PC, from each source in the file")
    command.add_argument("file", metavar="FILE")
    command.add_argument("pcs", metavar="PC", nargs="+", type=address_of, help="an address, 0x1234 or decimal")
    command.add_argument("--json", action="store_true", help="as JSON")
    command.set_defaults(run=_find, command=command)


def _info(options: argparse.Namespace) -> int:
    if options.engine:
        from .converters.kernels import engine

        print(engine().name)
    if options.file is None:
        return DONE if options.engine else options.command.error("FILE is missing")

    from .jobs import describe

    found = describe(options.file)
    print(json.dumps(asdict(found), indent=2) if options.json else _info_text(found))
    return DONE


def _info_text(found: FileInfo) -> str:
    lines = [
        f"{found.file}: {found.architecture}, {found.byte_order}-endian, {found.type}, "
        f"{found.code_bytes:,} bytes of code"
    ]
    for section in found.sections:
        version = "" if section.version is None else f" version {section.version}"
        lines.append(f"{section.name}{version}: {section.size:,} bytes at {section.address:#x}")
        if section.fault:
            lines.append(f"  not readable: {section.fault}")
        elif section.rows is None:
            lines.append(f"  {count_text(section.functions, 'entry', 'entries')}")
            lines += [f"  disagrees with .eh_frame: {sentence}" for sentence in section.disagreements or ()]
        else:
            lines.append(
                f"  {count_text(section.functions, 'function')}, {count_text(section.rows, 'row')}, "
                f"{count_text(section.distinct_runs, 'distinct row run')}, "
                f"{share_text(section.covered_bytes or 0, found.code_bytes)} of code bytes covered"
            )
            if section.opaque:
                lines.append(f"  {count_text(section.opaque, 'function')} without rules: an unknown augmentation")
    if not found.sections:
        lines.append("no unwind information")
    return "\n".join(lines)


def _dump(options: argparse.Namespace) -> int:
    from .dumps import DECODED, FRAME_SECTIONS, LINE_SECTIONS, RAW, SFRAME_SECTIONS, dump_sections, plain_sections
    from .table_dumps import ARANGES_SECTIONS, MACROS, PUBNAMES_SECTIONS, PUBTYPES_SECTIONS

    has_frames = options.frames or options.frames_interp
    line_views = (RAW,) * options.rawline + (DECODED,) * options.decodedline
    names = FRAME_SECTIONS * has_frames + SFRAME_SECTIONS * options.sframe + LINE_SECTIONS * bool(line_views)
    names += ARANGES_SECTIONS * options.aranges + PUBNAMES_SECTIONS * options.pubnames
    names += PUBTYPES_SECTIONS * options.pubtypes + MACROS * options.macro
    if not names:
        options.command.error("say what to print: --frames, --sframe, --rawline, ... (see --help)")
    if options.json:
        _print_json(plain_sections(options.file, names, options.frames_interp, line_views))
        return DONE
    sys.stdout.flush()
    for piece in dump_sections(options.file, names, options.frames_interp, line_views):
        sys.stdout.buffer.write(piece)
    return DONE


def _print_json(sections: Iterable[PlainSection]) -> None:
    """An array of objects, written piece by piece: a large section is never whole in memory as objects."""

    before = "["
    for section in sections:
        print(before, json.dumps(section.fields)[:-1], f', "{section.name}": [', sep="", end="")
        for number, part in enumerate(section.parts):
            print(",\n " if number else "\n ", json.dumps(part), sep="", end="")
        print("]}", end="")
        before = ",\n"
    print("[]" if before == "[" else "]")


def _find(options: argparse.Namespace) -> int:
    from .converters.found import find_in_file, found_plain, found_text

    architecture, found = find_in_file(options.file, options.pcs)
    if options.json:
        import json

        print(json.dumps([found_plain(architecture, one) for one in found], indent=2))
    else:
        print(found_text(architecture, found))
    return DONE
