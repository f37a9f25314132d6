"""Breakpad's own programs, from the npm package `minidump`: symbol stores, and `minidump_stackwalk`'s walks.

Strategy: no product code but the one function whose text is judged. A store is a folder NAME/ID/NAME.sym; the walk is
read from the human-readable text, which gives registers and how each frame was found.
"""

from __future__ import annotations

import io
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from unwindkit import DebugFiles, write_breakpad

from ..oracles import BREAKPAD_PROGRAMS, OracleError, oracle_root
from ..programs.minidumps import CONTEXTS, State, minidump

# The walker's words for how a frame was found.
BY_CFI, SCANNING = "call frame info", "stack scanning"


@dataclass(frozen=True, slots=True)
class WalkedFrame:
    """`registers` are those that the walker recovered, by gdb's names; `module` is "" if there is none. The function is
    "" and the line 0 if they are not known; they are not compared."""

    module: str
    pc: int
    registers: Mapping[str, int]
    found_by: str
    function: str = field(default="", compare=False)
    line: int = field(default=0, compare=False)


def our_symbols(path: Path) -> str:
    """The file whose text is judged: everything that the product writes, whatever debug files are installed."""
    out = io.BytesIO()
    write_breakpad(path, out, debug=DebugFiles(links=False))
    return out.getvalue().decode()


def dump_syms(path: Path, *options: str) -> str:
    """Breakpad's own file; a name that is not UTF-8 is replaced."""
    return _run("dump_syms", *options, str(path))


def cfi_lines(symbols: str) -> list[str]:
    """The STACK CFI lines of a symbol file."""
    return [line for line in symbols.splitlines() if line.startswith("STACK CFI ")]


def store(folder: Path, files: Iterable[str]) -> Path:
    """A symbol store of these files' text."""
    for text in files:
        _, _, _, identifier, name = text.partition("\n")[0].split(" ", 4)
        place = folder / name / identifier
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{name}.sym").write_text(text)
    return folder


def walk(architecture: str, state: State, symbols: Path) -> list[WalkedFrame]:
    """The frames of the thread, the youngest first. The dump is written next to the store."""
    dump = symbols.with_name(f"{symbols.name}.dmp")
    dump.write_bytes(minidump(architecture, state))
    return parse_walk(architecture, _run("minidump_stackwalk", str(dump), str(symbols)))


def parse_walk(architecture: str, text: str) -> list[WalkedFrame]:
    """The frames of the one thread of `minidump_stackwalk`'s text."""
    body = text.partition("(crashed)\n")[2].partition("\nLoaded modules:")[0]
    found, names = [], _GDB_NAMES.get(architecture, {})
    for part in re.split(r"^ ?(?=[ \d]\d  )", body, flags=re.MULTILINE)[1:]:
        title, *lines = part.splitlines()
        said = [pair for line in lines for pair in _REGISTER.findall(line)]
        registers = {names.get(name, name): int(value, 16) for name, value in said}
        how = next(line.partition("Found by: ")[2] for line in lines if "Found by: " in line)
        module = re.match(r"[ \d]+  (?!0x)([^!]+?)(?: \+ 0x\w+)?(?:!|$)", title)
        named = re.search(r"!(.+?)(?: \[.+ : (\d+) \+ 0x\w+\]| \+ 0x\w+)$", title)
        function, line = (named[1], int(named[2] or 0)) if named else ("", 0)
        pc = registers[CONTEXTS[architecture].pc]
        found.append(WalkedFrame(module[1] if module else "", pc, registers, how, function, line))
    return found


# Registers that gdb names differently.
_GDB_NAMES = {"aarch64": {"fp": "x29", "lr": "x30"}, "arm": {"fp": "r11"}}
_REGISTER = re.compile(r"(\w+) = 0x([0-9a-f]+)")


def _run(program: str, *arguments: str) -> str:
    """Standard output of one of the package's programs."""
    command = [str(oracle_root("npm") / BREAKPAD_PROGRAMS / program), *arguments]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise OracleError(f"{program} ended with {done.returncode}: {done.stderr.decode(errors='replace')[-500:]}")
    return done.stdout.decode(errors="replace")
