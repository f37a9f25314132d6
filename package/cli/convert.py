"""The command convert."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from .common import (
    DIFFERENT,
    DONE,
    INPUTS,
    add_address,
    add_choices,
    add_debug_files,
    add_gates,
    add_quiet,
    add_writer,
    count_text,
    coverage_lines,
    debug_files,
    debug_lines,
    fails_gates,
    input_path,
    integer,
    output_path,
    place_text,
    refuse_the_input,
    refused_lines,
    say,
    sframe_text,
    share_text,
    unchanged_lines,
    warning_lines,
    writer_lines,
)
from .convert_lines import LINE_TARGETS, add_lines, refuse_line_options, run_lines
from .parser import examples

if TYPE_CHECKING:
    from ..jobs.convert import ConvertReport
    from .common import Commands

TARGETS = ("sframe", "eh_frame", "debug_frame", "directives", "breakpad", *LINE_TARGETS)
KINDS = ("sframe", "eh_frame", "debug_frame", "breakpad", "directives", "debug_line", "all")
EXAMPLES = examples(
    ("convert a.sym out.bin --to eh_frame", "from a symbol file"),
    ("convert a.out b.out --to sframe", "a copy with the section"),
)


def add(commands: Commands) -> None:
    command = commands.add_parser(
        "convert",
        help="convert unwind information into another format: ELF files, archives, raw sections, symbol files",
        description="Convert the unwind information of IN into another format.",
        epilog=EXAMPLES,
    )
    command.add_argument("file", metavar="IN", help=INPUTS)
    command.add_argument("output", metavar="OUT", help="write the result here; - for standard output")
    command.add_argument(
        "--to",
        required=True,
        metavar="FORMAT",
        choices=TARGETS,
        help=f"format to write: {', '.join(TARGETS)}",
    )
    command.add_argument(
        "--from",
        dest="source",
        metavar="KIND",
        choices=KINDS,
        help=f"the kind of a raw IN, or the section of an ELF IN to read: {', '.join(KINDS)} "
        "(all: .eh_frame and .debug_frame)",
    )
    add_choices(command, None, "version to write (default 2)")
    add_address(command, "raw IN: its virtual address (default 0); symbol file: its load address")
    command.add_argument(
        "--to-address", type=integer, help="virtual address of the section to write (default: that of IN)"
    )
    command.add_argument("--arch", help="architecture of raw call frame information or a symbol file")
    add_debug_files(command)
    add_writer(command)
    command.add_argument("--section", action="store_true", help="ELF IN: write only the bytes of the section")
    command.add_argument(
        "--into", metavar="ELF", help="OUT is a copy of this file, with the section made from IN (default: IN, if ELF)"
    )
    command.add_argument(
        "--keep",
        action="store_true",
        help="the functions of the ELF file's own section stay; add only what they do not cover",
    )
    add_gates(command)
    add_lines(command)
    add_quiet(command)
    command.set_defaults(run=run, command=command)


def run(options: argparse.Namespace) -> int:
    from ..jobs.convert import convert

    if options.to in LINE_TARGETS:
        return run_lines(options)
    refuse_line_options(options)
    refuse_the_input(options, options.output)
    if options.into is not None:
        refuse_the_input(options, options.output, options.into)
    has_default = options.compact is None and options.sframe_version is None and not options.no_pcrel
    if options.to != "sframe" and (options.frame_pointer or not has_default):
        options.command.error("--compact, --sframe-version, --no-pcrel and --frame-pointer require --to sframe")
    from ..jobs.file_kinds import is_elf

    with input_path(options.file) as path, output_path(options.output) as out_path:
        if options.min_coverage is not None and not is_elf(Path(options.into or path)):
            options.command.error("--min-coverage requires an ELF file, whose code is known")
        report = convert(
            path,
            out_path,
            options.to,
            source=options.source,
            address=options.address,
            architecture=options.arch,
            to_address=options.to_address,
            section_only=options.section,
            into=options.into,
            keep=options.keep,
            writer=options.writer,
            version=options.sframe_version,
            compact=options.compact,
            debug=debug_files(options),
            pcrel=not options.no_pcrel,
            frame_pointer=options.frame_pointer,
        )
    say(options, _text(replace(report, file=options.file, output=options.output), options.keep))
    return DIFFERENT if fails_gates(options, report, report) else DONE


def _text(report: ConvertReport, has_kept: bool) -> str:
    version = f" version {report.source_version}" if report.source_version else ""
    header = "" if not report.header_address else f", .eh_frame_hdr at {report.header_address:#x}"
    source = " and ".join(f"{size:,} bytes of {name}" for name, size in report.source_sizes.items())
    share = share_text(report.covered_bytes, report.code_bytes)
    covered = f"; {share} of {report.code_bytes:,} code bytes covered" if report.code_bytes else ""
    if report.sframe is not None:
        written = sframe_text(report.sframe, report.address)
    else:
        written = f"{report.to}: {report.written:,} bytes{place_text(report.address)}"
    lines = [
        f"{report.output}: {count_text(report.functions, 'function')}: {report.converted:,} converted, "
        f"{report.partial:,} in part, {report.functions - report.converted - report.partial:,} not{covered}",
        f"  {written}{header}; from {source}{version}",
        *coverage_lines(report, report.refused),
    ]
    if has_kept:
        lines.append(f"  kept: {count_text(report.kept, 'function')} of {report.into}")
    lines += debug_lines(report)
    if report.members:
        lines.append(f"  archive: {count_text(report.members, 'member')} converted")
        lines += unchanged_lines(report.unchanged)
    lines += writer_lines(report.writer, report.moved, report.passed_over)
    return "\n".join([*lines, *refused_lines(report.refused), *warning_lines(report.file, report.warnings)])
