"""STACK CFI of one file: in a process that has its modules loaded, and by the whole command; the peers of both.

Strategy: programs alternate, as in every part. In process, the child measures itself and prints its usage: from the
path to the bytes of the lines, in memory. Peak memory is the child's at the end, its modules included.
"""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import time
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory

from elftools.elf.elffile import ELFFile

from .cases import Comparison
from .inputs import Found
from .measure import ORACLES, ROOT, Measured, Program, RunError, Skipped, Usage, alternate, environment_of

OURS, SYMBOLIC, DUMP_SYMS = "unwindkit", "symbolic", "dump_syms"
_SHT_PROGBITS = (1).to_bytes(4, "little")
_PACKAGE = "npm/node_modules/minidump"


def commands(path: Path, folder: Path) -> list[Program]:
    """The whole command that writes the symbol file: with names, as dump_syms does, and without."""
    whole = (sys.executable, "-m", "unwindkit", "breakpad", str(path), "-o", str(folder / "out.sym"))
    return [Program(OURS, whole), Program(f"{OURS} --cfi-only", (*whole, "--cfi-only"))]


def peers() -> tuple[list[Program], list[Skipped]]:
    """The peers found, and why the others are missing."""
    found = [symbolic(), dump_syms()]
    programs = [peer for peer in found if isinstance(peer, Program)]
    return programs, [peer for peer in found if isinstance(peer, Skipped)]


def dump_syms() -> Program | Skipped:
    """Breakpad's own, from the npm package `minidump`; it also prints names if the file has them."""
    folder = ORACLES / _PACKAGE
    path = folder / "bin/linux-x64" / DUMP_SYMS
    if not path.exists():
        return Skipped(DUMP_SYMS, f"no {_PACKAGE} in UNWINDKIT_ORACLES or .oracles (.ci/oracles fetches it)")
    version = json.loads((folder / "package.json").read_text())["version"]
    return Program(DUMP_SYMS, (str(path),), version=f"of minidump {version}")


def symbolic() -> Program | Skipped:
    """Sentry's, from PyPI, in a separate process."""
    try:
        version = metadata.version(SYMBOLIC)
    except metadata.PackageNotFoundError:
        return Skipped(SYMBOLIC, "not installed")
    return Program(SYMBOLIC, _child(SYMBOLIC), version=version)


def _child(name: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "benchmarks.stack_cfi", name)


def in_process(found: Found, peer: Program | None, runs: int) -> tuple[Comparison | None, list[Skipped]]:
    """read_elf and to_stack_cfi, and symbolic's Archive.open and make_cficache, in turn."""
    programs = [Program(OURS, _child(OURS)), *([peer] if peer else [])]
    on_file = [Program(one.name, (*one.command, str(found.path))) for one in programs]
    return _compared(found, *alternate(on_file, runs, _usage_inside))


def whole_process(found: Found, peer: Program | None, runs: int) -> tuple[Comparison | None, list[Skipped]]:
    """The commands, from the file to the symbol file."""
    with TemporaryDirectory() as folder:
        programs = commands(found.path, Path(folder))
        if peer:
            readable = readable_by_dump_syms(found.path, Path(folder))
            programs.insert(1, Program(peer.name, (*peer.command, str(readable))))
        return _compared(found, *alternate(programs, runs))


def readable_by_dump_syms(path: Path, folder: Path) -> Path:
    """The file, or a copy for dump_syms, which ignores an `.eh_frame` of type SHT_X86_64_UNWIND (LLVM's libraries
    have one) and would have next to nothing to do."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        index = elf.get_section_index(".eh_frame")
        if index is None or elf.get_section(index)["sh_type"] == "SHT_PROGBITS":
            return path
        type_offset = elf["e_shoff"] + index * elf["e_shentsize"] + 4
    copy = folder / path.name
    shutil.copyfile(path, copy)
    with copy.open("r+b") as file:
        file.seek(type_offset)
        file.write(_SHT_PROGBITS)
    return copy


def _compared(found: Found, measured: list[Measured], failed: list[Skipped]) -> tuple[Comparison | None, list[Skipped]]:
    skipped = [Skipped(f"{skip.name} on {found.name}", skip.reason) for skip in failed]
    if not measured or measured[0].program != OURS:
        return None, skipped
    return Comparison(found.name, tuple(measured)), skipped


def _usage_inside(program: Program) -> Usage:
    """What a child reports about itself. Raises RunError if it fails."""
    done = subprocess.run(program.command, capture_output=True, cwd=ROOT, env=environment_of(program), check=False)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2][:200]
        raise RunError(f"ended with {done.returncode}: {said}")
    return Usage(**json.loads(done.stdout))


def main(name: str, path: str) -> None:
    """The child: convert once and print what it took."""
    if name == OURS:
        from unwindkit import read_elf, to_stack_cfi

        def convert(file: str) -> object:
            return to_stack_cfi(read_elf(file))

    else:
        from symbolic import Archive

        def convert(file: str) -> object:
            return next(Archive.open(file).iter_objects()).make_cficache()

    convert(str(Path(sys.executable).resolve()))  # modules imported at first use are now loaded
    before = resource.getrusage(resource.RUSAGE_SELF)
    start = time.perf_counter()
    held = convert(path)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert held
    usage = Usage(
        wall=wall,
        user=after.ru_utime - before.ru_utime,
        system=after.ru_stime - before.ru_stime,
        peak=after.ru_maxrss * 1024,
        floor=before.ru_maxrss * 1024,
    )
    print(json.dumps(asdict(usage)))


if __name__ == "__main__":
    main(*sys.argv[1:])
