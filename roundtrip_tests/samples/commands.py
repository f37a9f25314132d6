"""The commands that each sample is given to."""

from __future__ import annotations

import importlib.util
import struct
from collections.abc import Iterator

from unwindkit.cli.common import SOURCES

from .collect import DIRECTIVES, OTHER

DUMPS = ("--frames", "--frames-interp", "--sframe", "--aranges", "--pubnames", "--pubtypes", "--macro", "--rawline")
TARGETS = ("sframe", "eh_frame", "debug_frame", "directives", "breakpad", "debug_line", "debug_aranges")
# Of commands that are asked about a place: the entry point of an ELF file, and a function.
ENTRY = {1: struct.Struct("I"), 2: struct.Struct("Q")}
ENTRY_OFFSET, START_SIZE = 24, 32
FILE, OUT = "FILE", "OUT"


def entry_of(start: bytes) -> int:
    """The entry point, of the first bytes of an ELF file; 0 of others."""
    if not start.startswith(b"\x7fELF") or len(start) < START_SIZE or start[4] not in ENTRY:
        return 0
    order = ">" if start[5] == 2 else "<"
    return int(struct.unpack_from(order + ENTRY[start[4]].format, start, ENTRY_OFFSET)[0])


def commands_for(kind: str, start: bytes) -> Iterator[tuple[str, ...]]:
    """Every command, with FILE and OUT for the paths; `start` are the first bytes of the file."""
    raw = ("--from", "directives", "--arch", "x86_64") if kind == DIRECTIVES else ()
    entry = hex(entry_of(start))
    yield from _reading(raw, entry)
    for target in TARGETS:
        yield "convert", FILE, OUT, "--to", target, *raw
        yield "convert", FILE, OUT, "--to", target, "--section", *raw
    if kind == DIRECTIVES:
        return
    yield "convert", FILE, OUT, "--to", "breakpad-lines"
    yield "convert", FILE, OUT, "--to", "debug_line", "--line-version", "5"
    yield "convert", FILE, OUT, "--to", "eh_frame", "--from", "sframe"
    if kind == OTHER:
        for source in SOURCES:
            yield "info", FILE, "--from", source, "--arch", "x86_64"
            yield "dump", FILE, "--from", source, "--arch", "x86_64"
    yield from _writing(entry)
    yield "walk", FILE, "--registers", "--lines", "--limit", "64"
    yield "walk", FILE, "--json", "--from", "eh_frame"


def _reading(raw: tuple[str, ...], entry: str) -> Iterator[tuple[str, ...]]:
    for command in ("info", "check", "dump"):
        yield command, FILE, *raw
        yield command, FILE, "--json", *raw
    for option in (*DUMPS, "--decodedline"):
        yield "dump", option, FILE, *raw
        yield "dump", option, "--json", FILE, *raw
    for command in ("find", "explain"):
        yield command, FILE, entry, *raw
        yield command, FILE, entry, "--json", *raw
    yield "explain", FILE, "main", "--html", OUT, *raw
    yield "check", FILE, "--from", "all", "--with", "sframe"


def _writing(entry: str) -> Iterator[tuple[str, ...]]:
    yield "sframe", FILE, "-o", OUT
    yield "sframe", FILE, "-o", OUT, "--sframe-version", "3", "--compact", "merge", "--check"
    yield "sframe", FILE, "-o", OUT, "--writer", "lief"
    yield "sframe", FILE, "--section", OUT
    yield "remove", FILE, "-o", OUT
    yield "edit", FILE, "-o", OUT, "--drop", entry
    yield "edit", FILE, "-o", OUT, "--merge", FILE
    yield "merge", FILE, FILE, "-o", OUT
    yield "breakpad", FILE, "-o", OUT
    yield "breakpad", FILE, "-o", OUT, "--cfi-only"
    yield "breakpad", FILE, "--store", OUT
    for options in (("-f", "-i", "-C"), ("--json",)):
        yield "symbolize", *options, "-e", FILE, entry, "0", "1000", "ffffffffffffffff"
    if importlib.util.find_spec("pyarrow"):
        yield "export", FILE, "-o", OUT
