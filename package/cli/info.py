"""The command info."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from .common import DONE, count_text, input_path, share_text

if TYPE_CHECKING:
    from ..jobs.info import FileInfo
    from .common import Commands


def add(commands: Commands) -> None:
    command = commands.add_parser("info", help="list the unwind information of a file")
    command.add_argument("file", metavar="FILE", nargs="?", help="an ELF file; - for standard input")
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

    with input_path(options.file) as path:
        found = replace(info(path), file=options.file)
    print(json.dumps(asdict(found), indent=2) if options.json else _info_text(found))
    return DONE


def _info_text(found: FileInfo) -> str:
    lines = [
        f"{found.file}: {found.architecture}, {found.byte_order}-endian, {found.type}, "
        f"{found.code_bytes:,} bytes of code"
    ]
    for section in found.sections:
        version = "" if section.version is None else f" version {section.version}"
        stored = "" if section.stored_size is None else f" ({section.stored_size:,} compressed)"
        lines.append(f"{section.name}{version}: {section.size:,} bytes{stored} at {section.address:#x}")
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
                lines.append(f"  {count_text(section.opaque, 'function')} without rules: unknown augmentation")
    if not found.sections:
        lines.append("no unwind information")
    return "\n".join(lines)
