"""The command info."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from .common import DONE, INPUTS, add_debug_files, add_raw, count_text, debug_files, input_of, raw_input, share_text
from .parser import examples

if TYPE_CHECKING:
    from ..jobs.info import FileInfo, SectionInfo
    from .common import Commands

EXAMPLES = examples(
    ("info a.out", "sections, and the code that they cover"),
    ("info --json crash.o", "as JSON"),
)


def add(commands: Commands) -> None:
    command = commands.add_parser("info", help="list the unwind information of a file", epilog=EXAMPLES)
    command.add_argument("file", metavar="FILE", nargs="?", help=INPUTS)
    add_raw(command)
    add_debug_files(command)
    command.add_argument("--json", action="store_true", help="as JSON")
    command.add_argument("--engine", action="store_true", help="print which kernels are in use: compiled or pure")
    command.set_defaults(run=run, command=command)


def run(options: argparse.Namespace) -> int:
    if options.engine:
        from ..converters.kernels import engine

        print(engine.chosen().name)
    if options.file is None:
        return DONE if options.engine else options.command.error("FILE is missing")

    from ..jobs.info import info

    found = info(input_of(options.file), **raw_input(options), debug=debug_files(options))
    if options.json:
        import json

        print(json.dumps(asdict(found), indent=2))
    else:
        print(_info_text(found))
    return DONE


def _info_text(found: FileInfo) -> str:
    if found.fault is not None:
        return f"{found.file}: not readable: {found.fault}"
    about = f"{found.file}: {found.architecture}, {found.byte_order}-endian, {_type_text(found)}"
    lines = [about + (f", {found.code_bytes:,} bytes of code" if _has_code(found) else "")]
    if found.records is not None:
        lines.append(f"  records: {', '.join(f'{count:,} {words}' for words, count in found.records.items())}")
    for section in found.sections:
        version = "" if section.version is None else f" version {section.version}"
        stored = "" if section.stored_size is None else f" ({section.stored_size:,} compressed)"
        place = f", in {section.file}" if section.file else ""
        lines.append(f"{section.name}{version}: {section.size:,} bytes{stored} at {section.address:#x}{place}")
        lines += _section_lines(found, section)
    if found.members:
        lines += map(_info_text, found.members)
    elif not found.sections:
        lines.append("no unwind information")
    if found.debug_file:
        lines.append(f"debug file: {found.debug_file}")
    lines += [f"debug file {note}" for note in found.debug_notes]
    return "\n".join(lines)


def _type_text(found: FileInfo) -> str:
    if found.module is not None:
        return f"{found.type} of {found.module}"
    return f"{found.type} of {count_text(len(found.members), 'file')}" if found.type == "archive" else found.type


def _has_code(found: FileInfo) -> bool:
    return found.type not in ("raw section", "symbol file")


def _section_lines(found: FileInfo, section: SectionInfo) -> list[str]:
    if section.fault:
        return [f"  not readable: {section.fault}"]
    if section.functions is None:
        return []
    if section.rows is None:
        disagreements = [f"  disagrees with .eh_frame: {sentence}" for sentence in section.disagreements or ()]
        return [f"  {count_text(section.functions, 'entry', 'entries')}", *disagreements]
    counts = (
        f"  {count_text(section.functions, 'function')}, {count_text(section.rows, 'row')}, "
        f"{count_text(section.distinct_runs, 'distinct row run')}"
    )
    if _has_code(found):
        counts += f", {share_text(section.covered_bytes or 0, found.code_bytes)} of code bytes covered"
    opaque = f"  {count_text(section.opaque, 'function')} without rules: unknown augmentation"
    return [counts, *[opaque] * bool(section.opaque)]
