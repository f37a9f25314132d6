"""The command sframe."""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..schemas.section import BuildError
from .common import (
    DIFFERENT,
    DONE,
    add_address,
    add_batch,
    add_choices,
    add_dates,
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
    output_path,
    refuse_batch_options,
    refuse_the_input,
    refused_lines,
    say,
    share_text,
    sizes_text,
    target_of,
    unchanged_lines,
    warning_lines,
    writer_lines,
)
from .parser import examples

if TYPE_CHECKING:
    from ..jobs.sframe_report import SframeReport
    from .common import Commands

EXAMPLES = examples(
    ("sframe a.out -o a.sframe.out", "a copy with an .sframe"),
    ("sframe --in-place --where-possible build/", "every file of a tree"),
    ("sframe app.deb --output-dir out -j4", "the files of a package"),
    ("sframe a.out --section a.bin", "the bytes of the section"),
)


def add(commands: Commands) -> None:
    command = commands.add_parser(
        "sframe",
        help="add an .sframe section made from the file's call frame information",
        description="Make an .sframe section from .eh_frame and .debug_frame and add it to a file, or to several; "
        "relocatable files, also in archives, get its relocations too.",
        epilog=EXAMPLES,
    )
    command.add_argument(
        "files", metavar="FILE", nargs="*", help="a file; with --output-dir also a folder, a package or an image"
    )
    output = command.add_mutually_exclusive_group(required=True)
    output.add_argument(
        "-o", dest="output", metavar="OUT", help="write the file with its .sframe here; - for standard output"
    )
    output.add_argument("--in-place", action="store_true", help="replace FILE itself, or the files of a folder")
    output.add_argument(
        "--section", metavar="OUT.bin", help="write only the bytes of the section; - for standard output"
    )
    output.add_argument(
        "--output-dir", metavar="DIR", help="write several files into DIR; paths inside a folder are kept"
    )
    command.add_argument("-j", dest="jobs", type=int, metavar="N", default=1, help="with several files: N at once")
    about = "section to read (default: all, .eh_frame where it has a function and .debug_frame elsewhere)"
    command.add_argument("--from", dest="source", choices=("all", "eh_frame", "debug_frame"), default="all", help=about)
    add_address(command, "with --section: virtual address of the section, to which starts are relative (default 0)")
    add_choices(command, 2, "version to write (default 2)")
    command.add_argument(
        "--max-rows", type=int, metavar="N", help="with --compact merge: at most N FREs per FDE (default 128)"
    )
    add_writer(command)
    add_dates(command)
    about = "compare the result with the call frame information at every PC; one that differs is an error"
    command.add_argument("--check", action="store_true", help=about)
    about = "with --in-place and folders: leave files that can have no .sframe as they are, without an error"
    command.add_argument("--where-possible", action="store_true", help=about)
    command.add_argument("--report", metavar="R.json", help="write the figures as JSON; - for standard output")
    add_debug_files(command)
    add_gates(command)
    add_batch(command)
    add_quiet(command)
    command.set_defaults(run=run, command=command)


def run(options: argparse.Namespace) -> int:
    _refuse_wrong_usage(options)
    if options.output_dir or _is_tree(options):
        return _sframe_many(options)
    refuse_batch_options(options, "--output-dir")
    (options.file,) = options.files
    for written in filter(None, (options.section, options.report)):
        refuse_the_input(options, written)
    if options.report and Path(options.report).resolve() == Path(options.output or options.section or "").resolve():
        options.command.error(f"{options.report} cannot be both the result and the report")
    from ..jobs.sframe_files import write_sframe, write_sframe_section

    target = options.section or target_of(options)
    with input_path(options.file) as path, output_path(target) as out_path:
        if options.section:
            version, compact = options.sframe_version, options.compact
            arguments = options.address, version, compact, options.max_rows, options.source, debug_files(options)
            report = write_sframe_section(path, out_path, *arguments, not options.no_pcrel, options.frame_pointer)
        else:
            report = write_sframe(path, out_path, **_choices(options))
            if options.check:
                from ..jobs.sframe_check import check_sframe

                check_sframe(Path(out_path), debug_files(options))
    report = replace(report, file=options.file, output=target)
    if options.report:
        _write_report(options.report, asdict(report))
    say(options, _report_text(report))
    return DIFFERENT if fails_gates(options, report, report) else DONE


def _is_tree(options: argparse.Namespace) -> bool:
    """Whether several files, or those of folders, are to be replaced."""
    several = len(options.files) > 1 or options.files_from is not None
    return options.in_place and (several or any(Path(one).is_dir() for one in options.files))


def _refuse_wrong_usage(options: argparse.Namespace) -> None:
    error = options.command.error
    if options.address and not options.section:
        error("--address requires --section")
    if options.max_rows is not None and (options.compact != "merge" or options.max_rows < 1):
        error("--max-rows requires --compact merge, and a number from 1")
    is_many = options.output_dir or options.in_place
    if options.jobs < 1 or (options.jobs > 1 and not is_many):
        error("-j requires --output-dir or --in-place, and a number from 1")
    if not is_many and len(options.files) > 1:
        error("several files require --output-dir or --in-place")
    if options.manifest and options.in_place:
        error("--manifest requires --output-dir: with --in-place, files that are replaced again do not change")
    if options.where_possible and not _is_tree(options):
        error("--where-possible requires --in-place with folders or several files")
    if options.check and options.section:
        error("--check is for the whole file: --section does not write one")
    if options.debug_file and (options.output_dir or _is_tree(options)):
        error("--debug-file is for one file")
    if options.section and (options.writer != "auto" or options.preserve_dates):
        error("--section does not write an ELF file: --writer and --preserve-dates do not apply")


def _choices(options: argparse.Namespace) -> dict[str, Any]:
    """The options of `write_sframe`, the same for all files."""
    return {
        "version": options.sframe_version,
        "compact": options.compact,
        "max_rows": options.max_rows,
        "writer": options.writer,
        "preserve_dates": options.preserve_dates,
        "source": options.source,
        "debug": debug_files(options),
        "pcrel": not options.no_pcrel,
        "frame_pointer": options.frame_pointer,
    }


def _write_report(path: str, report: object) -> None:
    import json

    from ..writers.files import write_bytes

    with output_path(path) as out_path:
        write_bytes(Path(out_path), json.dumps(report, indent=2).encode() + b"\n")


def _sframe_many(options: argparse.Namespace) -> int:
    from ..batches.sources import is_elf_or_archive, refuse_overwriting, with_links
    from .batches import as_json, batch_of, do_batch, find_files

    options.file = options.output_dir or options.files_from or options.files[0]
    sources = find_files(options, is_elf_or_archive)
    if options.output_dir:
        refuse_overwriting(sources.files, Path(options.output_dir))
    elif sources.packages:
        raise BuildError(
            "", None, "", f"{sources.packages[0]} is a package: --in-place replaces files and folders only"
        )
    choices = _choices(options) | {"is_checked": options.check, "where_possible": options.where_possible}
    if options.in_place:
        sources = replace(sources, files=with_links(sources.files))
    batch = batch_of(options, "sframe", sources, options.output_dir, choices)
    done = do_batch(options, batch, _short_text, lambda report: fails_gates(options, report, report), "written")
    if options.report:
        _write_report(options.report, as_json(done))
    return done.code


def _short_text(report: SframeReport) -> str:
    return "\n".join([_first_line(report), *coverage_lines(report, report.refused), *_warnings(report)])


def _report_text(report: SframeReport) -> str:
    lines = [
        _first_line(report),
        f"  .sframe {report.sframe_bytes:,} bytes ({count_text(report.fdes, 'FDE')}, "
        f"{count_text(report.fres, 'FRE')}), {report.sframe_bytes / max(1, report.cfi_bytes):.2f} of "
        + " and ".join(f"{name}'s {size:,}" for name, size in report.cfi_sizes.items()),
        *coverage_lines(report, report.refused),
        *refused_lines(report.refused),
    ]
    if report.replaced_bytes:
        lines.append(f"  replaced an .sframe of {sizes_text(report.replaced_bytes)} bytes")
    if report.members:
        lines.append(f"  archive: {count_text(report.members, 'member')} converted")
        lines += unchanged_lines(report.kept)
    lines += debug_lines(report)
    lines += writer_lines(report.writer, report.moved, report.passed_over)
    return "\n".join([*lines, *_warnings(report)])


def _first_line(report: SframeReport) -> str:
    return (
        f"{report.output}: {count_text(report.functions, 'function')}: {report.converted:,} converted, "
        f"{report.partial:,} in part, {report.functions - report.converted - report.partial:,} not; "
        f"{share_text(report.covered_bytes, report.code_bytes)} of {report.code_bytes:,} code bytes covered"
    )


def _warnings(report: SframeReport) -> list[str]:
    return warning_lines(report.file, report.warnings)
