"""Programs that gcc compiles and GNU as and ld of some version assemble and link, with the `.sframe` that these write.

Strategy: gcc looks for `as` and `ld` in a folder first (`-B`); scripts there run a suite's with its own loader.
"""

from __future__ import annotations

import functools
import platform
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from . import oracles
from .oracles import absent


@dataclass(frozen=True, slots=True)
class Binutils:
    """A version of GNU as and ld, and the version of SFrame that `-Wa,--gsframe` makes with it.

    `suite` is the suite of the oracles that has it; None: the system's.
    """

    release: str
    suite: str | None
    version: int


# 2.44's V2 lacks the PC-relative flag.
V1, V2, V3 = Binutils("2.40", None, 1), Binutils("2.44", "trixie", 2), Binutils("2.47", "forky", 3)
EVERY_VERSION = tuple(
    pytest.param(tools, id=f"binutils-{tools.release}", marks=pytest.mark.oracle(*filter(None, [tools.suite])))
    for tools in (V1, V2, V3)
)
SFRAME = "-Wa,--gsframe"


@functools.cache
def absence(tools: Binutils) -> str | None:
    """Why nothing can be built with these, or None; `pytest.mark.oracle` reports a missing suite."""
    if platform.machine() != "x86_64":
        return f"the programs are for x86-64, not for {platform.machine()}"
    if shutil.which("gcc") is None or shutil.which("g++") is None:
        return "no gcc or no g++"
    if tools.suite is None:
        text = subprocess.run(["as", "--version"], capture_output=True, text=True, check=True).stdout
        if tools.release not in text.partition("\n")[0]:
            return f"the system's binutils are not {tools.release}, which wrote SFrame V{tools.version}"
    return None


@functools.cache
def chosen(folder: Path, tools: Binutils) -> tuple[str, ...]:
    """gcc's options for these as and ld; their scripts are put into a separate folder in `folder`. Skips the test
    if there are none."""
    if (reason := absence(tools)) is not None:
        absent(reason)
    if tools.suite is None:
        return ()
    scripts = folder / f"binutils-{tools.release}"
    scripts.mkdir(parents=True, exist_ok=True)
    for program in ("as", "ld"):
        script = scripts / program
        command = shlex.join(map(str, oracles.oracle_command(program, tools.suite)))
        script.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        script.chmod(0o755)
    return ("-B", str(scripts))


def gcc(folder: Path, *arguments: str | Path) -> None:
    """Run gcc in a folder; a failure shows its messages."""
    done = subprocess.run(["gcc", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
