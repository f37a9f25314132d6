"""The command symbolize: names and lines of addresses, with the options and the output of addr2line."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .common import DONE, STREAM, add_address, add_debug_files, debug_files
from .parser import examples

if TYPE_CHECKING:
    from ..converters.files.symbol_names import SourceFrame
    from .common import Commands

UNKNOWN = "??"
DIGITS = 16  # of an address

EXAMPLES = examples(
    ("symbolize -f -i -C a.out 1234 1240", "as addr2line"),
    ("symbolize a.sym 1234", "from a symbol file"),
)


def add(commands: Commands) -> None:
    command = commands.add_parser(
        "symbolize", help="print function, inlined functions, file and line of addresses", epilog=EXAMPLES
    )
    command.add_argument(
        "words",
        metavar="FILE|SYM ADDRESS",
        nargs="*",
        help="a linked ELF file or a symbol file, and hexadecimal addresses in it (default: those in standard input)",
    )
    command.add_argument("-e", "--exe", metavar="FILE", help="the file; all other arguments are addresses")
    command.add_argument("-f", "--functions", action="store_true", help="print function names")
    command.add_argument("-i", "--inlines", action="store_true", help="print the callers of inlined functions, too")
    command.add_argument("-C", "--demangle", action="store_true", help="demangle function names (C++, Rust)")
    command.add_argument("-a", "--addresses", action="store_true", help="print each address first")
    command.add_argument("-p", "--pretty-print", action="store_true", help="one line per frame")
    command.add_argument("-s", "--basenames", action="store_true", help="print file names without folders")
    add_address(command, "symbol file: its load address (default 0)")
    add_debug_files(command)
    command.add_argument("--json", action="store_true", help="all of this as JSON")
    command.set_defaults(run=run, command=command, file="")


def run(options: argparse.Namespace) -> int:
    from ..converters.files.symbolize import symbolize

    words = list(options.words)
    if options.exe is None and not words:
        options.command.error("FILE is missing")
    options.file = options.exe if options.exe is not None else words.pop(0)
    if options.file == STREAM:
        options.command.error("FILE cannot be standard input, which is for addresses")
    pcs = [_address(options, one) for one in words or sys.stdin.read().split()]
    found = symbolize(options.file, pcs, address=options.address, demangle=options.demangle, debug=debug_files(options))
    for note in found.notes:
        print(f"unwindkit: {options.file}: {note}", file=sys.stderr)
    if options.json:
        print(json.dumps([_json(pc, frames) for pc, frames in zip(pcs, found, strict=True)], indent=2))
    else:
        for pc, frames in zip(pcs, found, strict=True):
            print(_text(options, pc, frames))
    return DONE


def _address(options: argparse.Namespace, text: str) -> int:
    try:
        address = int(text, 16)
    except ValueError:
        address = -1
    if not 0 <= address < 1 << 64:
        options.command.error(f"{text!r} is not a hexadecimal address")
    return address


def _text(options: argparse.Namespace, pc: int, frames: Sequence[SourceFrame]) -> str:
    """The lines for one address, as addr2line prints them."""
    lines = [_frame_text(options, one) for one in (frames if options.inlines else frames[:1])]
    address = f"0x{pc:0{DIGITS}x}"
    if options.pretty_print:
        return (f"{address}: " if options.addresses else "") + "\n (inlined by) ".join(lines)
    return "\n".join([*([address] if options.addresses else []), *lines])


def _frame_text(options: argparse.Namespace, frame: SourceFrame) -> str:
    file = frame.file.rpartition("/")[2] if options.basenames else frame.file
    # A file without a line is code that the compiler attributes to no line.
    place = f"{file or UNKNOWN}:{frame.line or ('?' if file else 0)}"
    if not options.functions:
        return place
    between = "\n" if not options.pretty_print else " at " if frame.function or file else " "
    return f"{frame.function or UNKNOWN}{between}{place}"


def _json(pc: int, frames: Sequence[SourceFrame]) -> dict[str, Any]:
    return {
        "pc": pc,
        "frames": [
            {
                "function": one.function or None,
                "file": one.file or None,
                "line": one.line or None,
                "inlined": one.is_inlined,
            }
            for one in frames
        ],
    }
