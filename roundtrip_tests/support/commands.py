"""The command line in a separate process, and the program that it is run on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .loaded_command import WARNINGS, loaded_command
from .programs import compiled

DONE, DIFFERENT, WRONG = 0, 1, 2
# Of commands that read raw sections too.
NOT_ELF = "not an ELF file; the kind of a raw section is given by --from"


def unwindkit(
    *arguments: str | Path, pure: bool = False, before: Callable[[], object] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command; by `python -m unwindkit` if something has to be done `before` in that process."""
    environment = os.environ | {"UNWINDKIT_PURE": "1" if pure else "0"}
    if before is None:
        return loaded_command().run([str(argument) for argument in arguments], environment)
    return started_anew(*arguments, environment=environment, before=before)


def usage_error(done: subprocess.CompletedProcess[str]) -> str:
    """What a command says of wrong usage: its first line; the second tells where to read on."""
    assert (done.returncode, done.stdout) == (WRONG, "")
    first, second = done.stderr.splitlines()
    program = first.partition(": error: ")[0]
    assert program.startswith("unwindkit")
    assert second.endswith(f"See {program} --help.")
    return first


def started_anew(
    *arguments: str | Path, environment: dict[str, str], before: Callable[[], object] | None = None
) -> subprocess.CompletedProcess[str]:
    """As users run it."""
    command = [sys.executable, "-m", "unwindkit", *map(str, arguments)]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        check=False,
        env=environment | WARNINGS,
        preexec_fn=before,
    )


def refuses(file: Path, *arguments: str | Path, says: str = "") -> None:
    """Exit 2, one line that names the file, nothing on standard output, no file left."""
    before = sorted(file.parent.rglob("*"))
    done = unwindkit(*arguments)
    assert (done.returncode, done.stdout) == (WRONG, "")
    assert done.stderr == f"unwindkit: {file}: {says}\n"
    assert sorted(file.parent.rglob("*")) == before


def build_program(folder: Path) -> Path:
    """A program that prints "it runs", made by the system's compiler."""
    compiled.require()
    (folder / "main.c").write_text('#include <stdio.h>\nint main(void) { puts("it runs"); return 0; }\n')
    subprocess.run(["gcc", "-g", "-O2", "-fasynchronous-unwind-tables", "main.c", "-o", "main"], cwd=folder, check=True)
    return folder / "main"


@pytest.fixture(scope="session", name="built_program")
def built_program_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of `build_program`, for the session."""
    return build_program(tmp_path_factory.mktemp("program"))


@pytest.fixture(name="copy")
def copy_fixture(built_program: Path, tmp_path: Path) -> Path:
    """A copy of it, to be overwritten."""
    return Path(shutil.copy(built_program, tmp_path / "program"))
