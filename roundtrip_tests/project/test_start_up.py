"""What a command imports: what it runs, and nothing else. Most of a short command's time is the start.

Strategy: each command runs in a child, on a small file, and prints the modules that were imported. Modules are listed
by what they are for, not by name, so that a new module of a format needs no change here.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ..support.real_files import REAL_FILES

# Imported by no command that reads a well-formed file and writes no ELF file.
NEVER = {
    "concurrent.futures",
    "construct",
    "elftools",
    "lief",
    "hypothesis",
    "json",
    "shutil",
    "tempfile",
    "hashlib",
    "lzma",
    "subprocess",
}
FORMATS = {"assembler", "breakpad", "debug_info", "line", "lookup_tables", "macro", "sframe", "walk"}
COMMANDS: dict[str, tuple[list[str], set[str]]] = {
    "info": (["FILE"], {"sframe"}),
    "find": (["FILE", "0x1000"], {"sframe"}),
    "sframe": (["FILE", "--section", "OUT"], {"sframe"}),
    "breakpad": (["FILE", "-o", "OUT"], {"breakpad", "debug_info", "line"}),
    "dump": (["--frames", "FILE"], set()),
    "convert": (["FILE", "OUT", "--to", "eh_frame", "--section"], set()),
}


def imported(*arguments: str) -> set[str]:
    """The modules that a process has imported at the end of a command."""
    code = (
        "import sys; from unwindkit.cli import main; code = main(sys.argv[1:]);"
        " print('imported:', *sys.modules); sys.exit(code)"
    )
    ended = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return set(ended.stdout.splitlines()[-1].removeprefix("imported:").split())


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_imports_the_formats_that_it_reads_and_writes(command: str, tmp_path: Path) -> None:
    arguments, formats = COMMANDS[command]
    places = {"FILE": REAL_FILES[0], "OUT": str(tmp_path / "out")}
    modules = imported(command, *(places.get(one, one) for one in arguments))
    # Compiled kernels are imported under names with an underscore; those of no use here are not imported either way.
    assert "unwindkit.converters.cfi.records" in modules
    assert modules & NEVER == set()
    folders = {name.split(".")[2] for name in modules if name.startswith("unwindkit.converters.")}
    assert folders & FORMATS == formats
    commands = {name.removeprefix("unwindkit.cli.") for name in modules if name.startswith("unwindkit.cli.")}
    assert commands - {f"{command}_lines"} == {"commands", "common", "parser", "signals", command}
    assert not any(name.startswith(("unwindkit.writers.elf", "unwindkit.schemas.strategies")) for name in modules)
    assert "numpy.ma" not in modules


def test_version_imports_the_names_of_the_package_only() -> None:
    modules = imported("--version")
    assert {name for name in modules if name.startswith("unwindkit")} == {"unwindkit", "unwindkit.cli"}
    assert modules & {"argparse", "dataclasses", "numpy", "pathlib", "re", "typing"} == set()


def test_a_program_searches_for_garbage_rarely() -> None:
    """In a process of its own only: a test, or a program that calls `main`, keeps its own choice."""
    code = (
        "import gc, sys; from unwindkit.cli import NEW_OBJECTS, main, run_program; before = gc.get_threshold();"
        " main(['--version']); same = gc.get_threshold() == before and not gc.get_freeze_count();"
        " sys.argv[1:] = ['--version']; code = run_program();"
        " print(same, gc.get_threshold()[0] == NEW_OBJECTS, gc.get_freeze_count() > 0, code)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[-1] == "True True True 0"
