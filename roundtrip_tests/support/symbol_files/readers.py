"""Programs that read symbol files: what each says about addresses of one.

Strategy: symbolic makes a symcache of the file. Breakpad's minidump_stackwalk is given minidumps of many threads
without stacks: the frames of each are those at one address, with one for each INLINE record.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from ..oracles import BREAKPAD_PROGRAMS, oracle_root
from ..programs.minidumps import Module, State, minidump
from .judge import Chain, Subject
from .records import Frame

# Breakpad's processor reads no more threads of a minidump.
THREADS = 4_000
# Where the file is in the minidumps' memory.
BASE = 0x5000_0000
ARCHITECTURES = {"x86_64": "x86_64", "x86": "x86", "arm64": "aarch64"}  # by Breakpad's names
BUILD_ID = bytes(range(20))
SEPARATOR = "|"


def read_by_symbolic(symbols: Path, addresses: Sequence[int]) -> Subject | None:
    """The answers of symbolic, None for an architecture that it does not know; addresses are relative to the load
    address, as all in symbol files."""
    symbolic = import_module("symbolic")
    try:
        (opened,) = symbolic.Archive.open(str(symbols)).iter_objects()
    except symbolic.ObjectErrorUnknown as error:
        if str(error) != "invalid architecture":
            raise
        return None
    cache = opened.make_symcache()
    found = {address: cache.lookup(address) for address in addresses}
    return lambda address: tuple(Frame(one.symbol, one.full_path or "", one.line) for one in found[address])


def read_by_stackwalk(symbols: Path, addresses: Sequence[int], names: Iterable[str], folder: Path) -> Subject | None:
    """The answers of minidump_stackwalk; None for an architecture that it does not know. `names` are those in the file;
    `folder` is for a store."""
    with symbols.open("rb") as file:
        _, _, word, _, name = file.readline().decode().rstrip("\n").split(" ", 4)
    if word not in ARCHITECTURES:
        return None
    place = folder / name / f"{_guid(BUILD_ID)}0"
    place.mkdir(parents=True)
    shutil.copy(symbols, place / f"{name}.sym")
    # It removes its separator from names.
    spelled = {name.replace(SEPARATOR, ""): name for name in names if SEPARATOR in name}
    found: dict[int, Chain] = {}
    for start in range(0, len(addresses), THREADS):
        some = addresses[start : start + THREADS]
        found |= zip(some, _walk(ARCHITECTURES[word], name, some, folder), strict=True)
    return lambda address: tuple(
        replace(one, function=spelled.get(one.function, one.function)) for one in found[address]
    )


def _guid(build_id: bytes) -> str:
    """The identifier that the walker makes of a build id: three numbers are least significant byte first."""
    return "".join(part.hex() for part in (build_id[3::-1], build_id[5:3:-1], build_id[7:5:-1], build_id[8:16])).upper()


def _walk(architecture: str, name: str, addresses: Sequence[int], folder: Path) -> list[Chain]:
    """The frames at each address, innermost first."""
    module = Module(f"/{name}", BASE, 1 << 30, BUILD_ID)
    counters = [BASE + address for address in addresses]
    program = {"x86": "eip", "x86_64": "rip", "aarch64": "pc"}[architecture]
    dump = folder / "threads.dmp"
    dump.write_bytes(minidump(architecture, State({program: counters[0]}, 0, b"", (module,)), counters[1:]))
    command = [oracle_root("npm") / BREAKPAD_PROGRAMS / "minidump_stackwalk", "-m", dump, folder]
    done = subprocess.run(["nice", *command], capture_output=True, check=True)
    chains: list[list[Frame]] = [[] for _ in addresses]
    for line in done.stdout.decode(errors="surrogateescape").splitlines():
        words = line.split(SEPARATOR)
        if words[0].isdigit() and len(words) == 7:
            thread, _, _, function, file, number, _ = words
            chains[int(thread)].append(Frame(function, file, int(number or 0)))
    return [tuple(chain) for chain in chains]
