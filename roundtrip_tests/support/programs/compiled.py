"""Programs with every kind of frame that compilers and assembler writers make, built here by the system's compiler.

Strategy: three small sources (C, C++ and x86-64 assembler with hand-written CFI) make one program that prints
EXPECTED_OUTPUT under every flag set, so that a test can change the file and still see that it runs. All CFI of
executed functions is correct at every instruction (tests step through them); functions with wrong CFI are never called.
"""

from __future__ import annotations

import functools
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ..oracles import absent
from .compiled_assembler import ASSEMBLER_SOURCE
from .compiled_sources import C_SOURCE, CXX_SOURCE


@dataclass(frozen=True, slots=True)
class FlagSet:
    """One way to build. A `shared` one makes a library, in which `run_frames` does what `main` does."""

    name: str
    flags: tuple[str, ...]
    shared: bool = False


FLAG_SETS = (
    FlagSet("O0", ("-O0",)),
    FlagSet("O2", ("-O2",)),
    FlagSet("O3-frame-pointer", ("-O3", "-fno-omit-frame-pointer")),
    FlagSet("Os-no-pie", ("-Os", "-fno-pie", "-no-pie")),
    FlagSet("cf-protection", ("-O2", "-fcf-protection", "-Wl,-z,ibtplt", "-Wl,-z,lazy")),
    FlagSet("now", ("-O2", "-Wl,-z,now")),
    FlagSet("lazy", ("-O1", "-Wl,-z,lazy")),
    FlagSet("static", ("-O2", "-static")),
    FlagSet("static-pie", ("-O1", "-static-pie", "-fPIE")),
    FlagSet("shared", ("-O2", "-shared", "-fPIC"), shared=True),
    FlagSet("g3", ("-Og", "-g3")),
    FlagSet("no-asynchronous", ("-O2", "-fno-asynchronous-unwind-tables")),
    FlagSet("stack-clash", ("-O2", "-fstack-clash-protection", "-fstack-protector-all")),
    FlagSet("sections", ("-O2", "-ffunction-sections", "-Wl,--gc-sections")),
)


def require() -> None:
    """Skip a test that builds something if there is no compiler."""
    missing = [name for name in ("gcc", "g++") if shutil.which(name) is None]
    if missing:
        absent(f"no {' and no '.join(missing)}")


def require_x86_64() -> None:
    """Skip a test of the hand-written CFI, or of code that only that compiler makes."""
    require()
    if platform.machine() != "x86_64":
        absent("the compiler is not x86-64's")


@functools.cache
def build(folder: Path, flags: FlagSet) -> Path:
    """The program or library of one flag set, in `folder`; built once a session for the same folder."""
    require()
    x86_64 = platform.machine() == "x86_64"
    sources = {"frames_c.c": C_SOURCE, "frames.cc": CXX_SOURCE} | ({"frames_asm.s": ASSEMBLER_SOURCE} if x86_64 else {})
    work = folder / flags.name
    work.mkdir(parents=True, exist_ok=True)
    objects = []
    for name, text in sources.items():
        (work / name).write_text(text)
        compiler = "g++" if name.endswith(".cc") else "gcc"
        options = [option for option in flags.flags if not option.startswith("-Wl,")]
        defines = ["-DWITH_ASSEMBLER"] if x86_64 else []
        _run(work, compiler, *options, *defines, "-c", name, "-o", f"{name}.o")
        objects.append(f"{name}.o")
    output = work / ("libframes.so" if flags.shared else "frames")
    _run(work, "g++", *flags.flags, *objects, "-o", output.name)
    return output


def _run(folder: Path, *command: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
