"""The command breakpad."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..schemas.section import BuildError
from .common import (
    DIFFERENT,
    DONE,
    STREAM,
    add_batch,
    add_debug_files,
    add_gates,
    add_quiet,
    count_text,
    coverage_lines,
    debug_files,
    debug_lines,
    fails_gates,
    input_path,
    refuse_batch_options,
    refuse_the_input,
    refused_lines,
    say,
    share_text,
)
from .parser import examples

if TYPE_CHECKING:
    from ..jobs.breakpad import BreakpadReport
    from .batches import Done
    from .common import Commands

EXAMPLES = examples(
    ("breakpad a.out -o a.sym", "its symbol file"),
    ("breakpad /usr/lib --store symbols -j4", "a symbol store"),
)


def add(commands: Commands) -> None:
    command = commands.add_parser(
        "breakpad",
        help="write the Breakpad symbol file of an ELF file: functions, lines, PUBLIC, STACK CFI",
        description="Write the Breakpad symbol file of a linked ELF file, or add those of several to a symbol store.",
        epilog=EXAMPLES,
    )
    command.add_argument(
        "files", metavar="FILE", nargs="*", help="an ELF file; with --store also a folder, a package or an image"
    )
    output = command.add_mutually_exclusive_group()
    output.add_argument(
        "-o", dest="output", metavar="OUT.sym", default=STREAM, help="write it here (default: -, standard output)"
    )
    output.add_argument("--store", metavar="DIR", help="write it to DIR/NAME/ID/NAME.sym")
    about = "with --store: also put the symbol files into zip archives of at most 2 GiB in DIR, with a list"
    command.add_argument("--zip", metavar="DIR", help=about)
    add_debug_files(command)
    _add_contents(command)
    about = "with --store: N files at once; for one file: N threads (default: one for each CPU)"
    command.add_argument("-j", dest="jobs", type=int, metavar="N", help=about)
    add_gates(command)
    add_batch(command)
    add_quiet(command)
    command.set_defaults(run=run, command=command)


def _add_contents(command: argparse.ArgumentParser) -> None:
    """The options of what the symbol file contains."""
    command.add_argument("--cfi-only", action="store_true", help="no functions, lines and PUBLIC records")
    command.add_argument("--no-inlines", action="store_true", help="no INLINE records")
    command.add_argument("--no-lines", action="store_true", help="no line records")
    command.add_argument(
        "--prefix-map",
        metavar="OLD=NEW",
        action="append",
        default=[],
        help="replace OLD at the start of the names of source files with NEW (repeatable)",
    )
    for system, name in (("git", "Git"), ("hg", "Mercurial")):
        command.add_argument(
            f"--{system}",
            metavar="DIR=REPOSITORY@REVISION",
            action="append",
            default=[],
            help=f"name source files below DIR as files of a {name} repository (repeatable)",
        )


def _contents(options: argparse.Namespace) -> dict[str, Any]:
    """What the symbol file contains, as arguments of `write_breakpad`."""
    from ..converters.breakpad.source_paths import prefix_map, repository_map

    try:
        maps = [prefix_map(text) for text in options.prefix_map]
        maps += [repository_map("git", text) for text in options.git]
        maps += [repository_map("hg", text) for text in options.hg]
    except BuildError as error:
        options.command.error(f"{error.record}: {error.reason}")
    return {
        "cfi_only": options.cfi_only,
        "inlines": not options.no_inlines,
        "lines": not options.no_lines,
        "path_maps": tuple(maps),
        "debug": debug_files(options),
    }


def run(options: argparse.Namespace) -> int:
    if options.jobs is not None and options.jobs < 1:
        options.command.error("-j requires a number from 1")
    if options.debug_file and options.store and len(options.files) > 1:
        options.command.error("--debug-file is for one file")
    from ..converters.threads import use_one_arena

    use_one_arena()
    if options.store:
        return _into_store(options)
    refuse_batch_options(options, "--store")
    if options.zip:
        options.command.error("--zip requires --store")
    if len(options.files) > 1:
        options.command.error("several files require --store")
    (options.file,) = options.files
    refuse_the_input(options, options.output)
    from ..converters.threads import at_most
    from ..jobs.breakpad import write_breakpad

    with input_path(options.file) as path, at_most(options.jobs or 0):
        out = sys.stdout.buffer if options.output == STREAM else options.output
        report = replace(write_breakpad(path, out, **_contents(options)), file=options.file)
    say(options, _text(report))
    return DIFFERENT if _fails(options, report) else DONE


def _fails(options: argparse.Namespace, report: BreakpadReport) -> bool:
    """As `fails_gates`; --strict also fails on a file without call frame information."""
    return fails_gates(options, report, report) or (options.strict and not report.is_whole)


def _into_store(options: argparse.Namespace) -> int:
    from ..batches.sources import is_linked
    from ..converters.threads import at_most
    from .batches import batch_of, do_batch, find_files

    options.file = options.store
    sources = find_files(options, is_linked)
    batch = batch_of(options, "breakpad", sources, options.store, _contents(options))
    with at_most(options.jobs or 0):
        done = do_batch(options, batch, _text, lambda report: _fails(options, report), "done")
    if options.zip:
        _zip_store(options, done)
    return done.code


def _zip_store(options: argparse.Namespace, done: Done) -> None:
    from ..writers.zip_parts import write_zip_parts

    store = Path(options.store)
    names = [str(Path(output).relative_to(store)) for output in done.outputs]
    parts = write_zip_parts(store, names, Path(options.zip))
    files = count_text(len(set(names)), "symbol file")
    say(options, f"{options.zip}: {files} in {count_text(len(parts), 'archive')}")


def _text(report: BreakpadReport) -> str:
    name = report.output or report.name
    lines = [f"{name}: {report.id}: {count_text(report.publics, 'public symbol')}, {report.size:,} bytes"]
    if report.funcs:
        counts = (report.funcs, "function"), (report.inlines, "inlined call"), (report.lines, "line record")
        lines.append(f"  {', '.join(count_text(count, what) for count, what in counts)}")
    if report.skipped_units:
        lines.append(f"  left out: {count_text(report.skipped_units, 'malformed unit')} of .debug_info")
    if report.functions:
        share = share_text(report.covered_bytes, report.code_bytes)
        about = f"{count_text(report.functions, 'function')} of {report.source}"
        lines.append(f"  STACK CFI: {about}; {share} of {report.code_bytes:,} code bytes covered")
    else:
        lines.append("  no call frame information: stack walks will end in this file")
    lines += debug_lines(report)
    if report.outside:
        lines.append(f"  left out: {report.outside:,} outside the loaded segments")
    if not report.is_new:
        lines.append("  already in the store, with the same content")
    return "\n".join(lines + coverage_lines(report, report.refused) + refused_lines(report.refused))
