"""Programs that write symbol files, or answer for addresses themselves: what the judge is run on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from ..oracles import BREAKPAD_PROGRAMS, OracleError, oracle_root
from .judge import Subject
from .records import Frame, Lookup, SymbolFile
from .referees import demangle, load_address

# Mozilla's program, by `cargo install dump_syms`: not one of the oracles, as it takes minutes to compile.
MOZILLA = "UNWINDKIT_MOZILLA_DUMP_SYMS"
Producer = Callable[[Path, Path | None, Path], None]


def write_with_unwindkit(path: Path, debug: Path | None, output: Path) -> None:
    """Our own command."""
    options: list[str | Path] = ["--debug-file", debug] if debug else []
    _run([sys.executable, "-m", "unwindkit", "breakpad", path, *options, "-o", output])


def write_with_breakpad(path: Path, debug: Path | None, output: Path) -> None:
    """Breakpad's dump_syms, with inlines and the mark of functions with several names."""
    program = oracle_root("npm") / BREAKPAD_PROGRAMS / "dump_syms"
    _run([program, "-d", "-m", path, *([debug.parent] if debug else [])], output)


def write_with_mozilla(path: Path, debug: Path | None, output: Path) -> None:
    """Mozilla's dump_syms, whose path is in the environment variable MOZILLA, or that is on PATH."""
    program = os.environ.get(MOZILLA) or shutil.which("dump_syms")
    if program is None:
        raise OracleError(f"no dump_syms on PATH, and {MOZILLA} is not set")
    _run([program, "--inlines", "-o", output, debug or path])


PRODUCERS: dict[str, Producer] = {
    "unwindkit": write_with_unwindkit,
    "breakpad": write_with_breakpad,
    "mozilla": write_with_mozilla,
}


def subject_of(symbols: SymbolFile, path: Path, by_order: bool = False) -> Subject:
    """The answers of a symbol file for the virtual addresses of the file that it is of."""
    lookup, load = Lookup(symbols), load_address(path)
    return lambda address: lookup.frames(address - load, by_order)


def symcache_of(path: Path, debug: Path | None, addresses: Sequence[int]) -> Subject:
    """The answers of symbolic's symcache, made from the same debugging information, for these addresses. It keeps
    names as they are in DWARF; c++filt demangles them."""
    load = load_address(path)
    (opened,) = import_module("symbolic").Archive.open(str(debug or path)).iter_objects()
    cache = opened.make_symcache()
    found = {address: cache.lookup(address - load) for address in addresses}
    plain = demangle(one.symbol for places in found.values() for one in places)
    return lambda address: tuple(Frame(plain[one.symbol], one.full_path or "", one.line) for one in found[address])


def _run(command: list[str | Path], output: Path | None = None) -> None:
    environment = os.environ | {"LC_ALL": "C"}
    done = subprocess.run(["nice", *command], capture_output=True, check=False, env=environment)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise OracleError(f"{Path(command[0]).name} ended with {done.returncode}: {said[:300]}")
    if output is not None:
        output.write_bytes(done.stdout)
