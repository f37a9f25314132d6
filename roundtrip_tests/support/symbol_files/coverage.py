"""Which functions of a file's DWARF a symbol file has lost, by LLVM's list of functions; and which code is folded.

Strategy: no product code. llvm-gsymutil converts a copy of the file without symbol tables, so that every function in
its list is from DWARF; one function has an entry for each of its contiguous ranges.
"""

from __future__ import annotations

import re
import subprocess
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..oracles import OracleError, oracle_command
from .records import SymbolFile

_FUNCTION = re.compile(r'^FunctionInfo @ 0x[0-9a-f]+: \[0x([0-9a-f]+) - 0x([0-9a-f]+)\) "(.*)"', re.MULTILINE)
_LOADED = re.compile(r"^Loaded (\d+) functions from DWARF", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class FunctionRange:
    """A contiguous range of a function, as virtual addresses."""

    start: int
    end: int
    name: str


def dwarf_functions(hidden: Path, folder: Path) -> list[FunctionRange]:
    """The functions of a file whose symbol tables are hidden; `folder` is for what llvm-gsymutil writes. Those with
    the same range count once."""
    output = folder / "functions.gsym"
    program = ["nice", *oracle_command("llvm-gsymutil-22", "sid-llvm")]
    done = subprocess.run(
        [*program, "--quiet", "--convert", hidden, "--out-file", output, "--num-threads", "1"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode or not _LOADED.search(done.stdout + done.stderr):
        raise OracleError(f"llvm-gsymutil ended with {done.returncode}: {done.stderr[:300]}")
    text = subprocess.run([*program, output], capture_output=True, text=True, check=True, errors="replace").stdout
    return parse_functions(text)


def parse_functions(text: str) -> list[FunctionRange]:
    """The functions that llvm-gsymutil prints."""
    return [FunctionRange(int(one[1], 16), int(one[2], 16), one[3]) for one in _FUNCTION.finditer(text)]


def lost_functions(functions: list[FunctionRange], symbols: SymbolFile, load: int) -> Iterator[FunctionRange]:
    """The ones of which no FUNC record, or several that join, cover every byte. `load` is what addresses of the
    symbol file are relative to."""
    starts, ends = list[int](), list[int]()
    for one in sorted(symbols.functions, key=lambda one: one.address):
        if ends and one.address <= ends[-1]:
            ends[-1] = max(ends[-1], one.end)
        elif one.size:
            starts.append(one.address)
            ends.append(one.end)
    for function in functions:
        index = bisect_right(starts, function.start - load) - 1
        if index < 0 or ends[index] < function.end - load:
            yield function


_ROW = re.compile(r"^0x([0-9a-f]{16}) .*?( end_sequence)?$", re.MULTILINE)


def folded_ranges(path: Path) -> list[tuple[int, int]]:
    """Code that identical functions share, by llvm-dwarfdump: two line sequences start there. More than one answer
    about it is right, and DWARF may name another function than the sequence that a program finds first. Sequences of
    discarded code, at 0, are not among them. For small files."""
    command = ["nice", *oracle_command("llvm-dwarfdump-22", "sid-llvm"), "--debug-line", path]
    text = subprocess.run(command, capture_output=True, text=True, check=True, errors="replace").stdout
    by_start: dict[int, list[int]] = {}
    start = -1
    for row in _ROW.finditer(text):
        address = int(row[1], 16)
        start = address if start < 0 else start
        if row[2]:
            by_start.setdefault(start, []).append(address)
            start = -1
    return [(start, max(ends)) for start, ends in by_start.items() if start and len(ends) > 1]
