"""The command walk: backtraces of a core file or of a running process."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from .common import DONE, add_debug_files, debug_files, integer
from .parser import examples

if TYPE_CHECKING:
    from ..converters.arch.table import Architecture
    from ..converters.files.core_modules import Places
    from ..converters.files.symbol_names import SourceFrame
    from ..converters.files.walk_core import CoreFrame, CoreTraces
    from .common import Commands

# SOURCES of converters/files/core_modules.py, which takes long to import.
SOURCES = ("auto", "eh_frame", "debug_frame", "sframe", "breakpad")
PID_LIMIT = 1 << 31  # of package/jobs/walk_process.py
UNKNOWN = "??"
IN_A_LINE = 4  # registers

EXAMPLES = examples(
    ("walk core", "all threads of a core file"),
    ("walk --pid 1234 --lines", "a running process"),
)


def add(commands: Commands) -> None:
    command = commands.add_parser(
        "walk", help="print the backtraces of a core file or a running process", epilog=EXAMPLES
    )
    command.add_argument(
        "file", metavar="CORE", nargs="?", help="an ELF core file of x86-64, AArch64 or s390x, or a minidump"
    )
    command.add_argument("--pid", type=int, help="a running process, stopped for a moment, instead of a core file")
    command.add_argument("--exe", metavar="FILE", help="the program (default: the path in CORE)")
    command.add_argument(
        "--root",
        metavar="DIR",
        action="append",
        default=[],
        help="look for the files of the process in DIR before / (repeatable)",
    )
    command.add_argument("--from", dest="source", choices=SOURCES, default="auto", help="what callers are found by")
    command.add_argument(
        "--symbols", metavar="STORE", action="append", default=[], help="symbol store for breakpad (repeatable)"
    )
    command.add_argument("--registers", action="store_true", help="print the registers of each frame")
    command.add_argument("--lines", action="store_true", help="print inlined functions, files and lines (slower)")
    command.add_argument("--limit", type=integer, default=10_000, metavar="N", help="frames per thread (default 10000)")
    add_debug_files(command)
    command.add_argument("--json", action="store_true", help="as JSON")
    command.set_defaults(run=run, command=command)


def run(options: argparse.Namespace) -> int:
    from ..converters.files.core_modules import Places

    if options.limit < 1:
        options.command.error(f"--limit is {options.limit}, expected at least 1")
    if options.pid is not None and not 0 < options.pid < PID_LIMIT:
        options.command.error(f"--pid is {options.pid}, which is not the number of a process")
    if (options.file is None) == (options.pid is None):
        options.command.error("give a CORE, or --pid")
    options.file = options.file or f"process {options.pid}"
    places = Places(options.exe, (*options.root, "/"), debug_files(options), tuple(options.symbols))
    found = _walked(options, places)
    for note in found.notes:
        print(f"unwindkit: {options.file}: {note}", file=sys.stderr)
    print(json.dumps(_json(found), indent=2) if options.json else _text(found, options.registers))
    return DONE


def _walked(options: argparse.Namespace, places: Places) -> CoreTraces:
    if options.pid is not None:
        from ..jobs.walk_process import walk_process

        return walk_process(options.pid, options.source, places, lines=options.lines, limit=options.limit)
    from ..converters.files.walk_core import walk_core

    return walk_core(options.file, options.source, places, lines=options.lines, limit=options.limit)


def register_name(architecture: Architecture, number: int) -> str:
    """As `find` prints registers."""
    roles = {architecture.stack_pointer: "sp", architecture.frame_pointer: "fp", architecture.return_address: "ra"}
    return roles.get(number, f"r{number}")


def _text(found: CoreTraces, has_registers: bool) -> str:
    lines = []
    for thread in found.threads:
        lines.append(f"thread {thread.pid}:")
        for number, frame in enumerate(thread.frames):
            lines += _frame_lines(number, frame)
            if has_registers:
                lines += _register_lines(found.architecture, frame)
        lines.append(f"  end: {thread.sentence}")
    return "\n".join(lines)


def _frame_lines(number: int, frame: CoreFrame) -> list[str]:
    """The frame, innermost function first; then those that it is inlined into."""
    walked = frame.walked
    first, *others = frame.names or (None,)
    place = f" in {frame.module}+{frame.address:#x}" if frame.module else ""
    signal = ", signal frame" if walked.is_signal_frame else ""
    cfa = "unknown" if walked.cfa is None else f"{walked.cfa:#x}"
    lines = [f"  #{number:<3} {walked.frame.pc:#018x} {_name(first)}{place} (cfa {cfa}, by {walked.source}{signal})"]
    return lines + [f"       inlined into {_name(one)}" for one in others]


def _name(frame: SourceFrame | None) -> str:
    if frame is None:
        return UNKNOWN
    return f"{frame.function or UNKNOWN}{f' at {frame.file}:{frame.line}' if frame.file else ''}"


def _register_lines(architecture: Architecture, frame: CoreFrame) -> list[str]:
    values = [
        f"{register_name(architecture, number)}={value:#x}"
        for number, value in sorted(frame.walked.frame.registers.items())
    ]
    return [f"       {' '.join(values[at : at + IN_A_LINE])}" for at in range(0, len(values), IN_A_LINE)]


def _json(found: CoreTraces) -> dict[str, Any]:
    architecture = found.architecture
    return {
        "architecture": architecture.name,
        "threads": [
            {
                "pid": thread.pid,
                "frames": [_frame_json(architecture, frame) for frame in thread.frames],
                "end": thread.end.name,
                "reason": thread.sentence,
            }
            for thread in found.threads
        ],
        "notes": list(found.notes),
    }


def _frame_json(architecture: Architecture, frame: CoreFrame) -> dict[str, Any]:
    walked = frame.walked
    return {
        "pc": walked.frame.pc,
        "cfa": walked.cfa,
        "source": walked.source,
        "signal_frame": walked.is_signal_frame,
        "module": frame.module or None,
        "address": frame.address if frame.module else None,
        "functions": [
            {"function": one.function or None, "file": one.file or None, "line": one.line or None}
            for one in frame.names
        ],
        "registers": {
            register_name(architecture, number): value for number, value in sorted(walked.frame.registers.items())
        },
    }
