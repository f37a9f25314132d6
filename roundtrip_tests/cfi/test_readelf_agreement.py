"""The main conversion, judged by readelf 2.47: `--sframe` of what we wrote against `-wNF` of what we read, at every PC.

Files of this machine and files compiled here; each rewritten program still runs, each library still loads.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from unwindkit import write_sframe
from unwindkit.jobs.sframe_report import SframeReport

from ..support.judges.referee import Comparison, compare
from ..support.programs import compiled
from ..support.programs.compiled_sources import EXPECTED_OUTPUT
from ..support.real_files import REAL_FILES
from ..support.texts.readelf_text import frame_rows, sframe_rows

pytestmark = pytest.mark.oracle

COMPACT = pytest.mark.parametrize("compact", ["share", "none"])


def lazy_plt(path: Path) -> list[tuple[int, int]]:
    """The PLT, whose rows are expressions that readelf does not evaluate: test_plt.py judges them."""
    with path.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".plt")
        return [(section["sh_addr"], section["sh_addr"] + section["sh_size"])] if section else []


def judged(path: Path, output: Path, compact: str) -> tuple[Comparison, SframeReport]:
    """Rewrite a file and have readelf's two views of it compared."""
    report = write_sframe(path, output, compact=compact)
    found = compare(frame_rows(path), sframe_rows(output), lazy_plt(path))
    assert not found.differences, "\n".join(map(str, found.differences[:10]))
    assert found.bytes_ambiguous == 0
    # A PLT that no call frame information covers is recognised by its bytes: at most two functions.
    assert found.functions <= report.functions <= found.functions + 2
    return found, report


def loads(library: Path) -> None:
    """Load a library into a separate process, in place of the system's."""
    code = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
    environment = dict(os.environ, LD_PRELOAD=str(library))
    subprocess.run([sys.executable, "-c", code, str(library)], check=True, env=environment)


@COMPACT
@pytest.mark.parametrize("path", REAL_FILES, ids=str)
def test_rows_of_real_files_agree_at_every_pc(path: str, compact: str, tmp_path: Path) -> None:
    output = tmp_path / Path(path).name
    found, report = judged(Path(path), output, compact)
    # All but a handful of functions can be expressed (libc: 9 of 3,713 cannot), and no other is left out by mistake.
    assert found.rows_compared > 0.99 * found.rows
    assert found.bytes_compared + found.bytes_excepted == report.covered_bytes
    assert report.converted + report.partial >= 0.99 * report.functions


@pytest.mark.parametrize("path", REAL_FILES, ids=str)
def test_rewritten_real_files_run_and_load(path: str, tmp_path: Path) -> None:
    output = tmp_path / Path(path).name
    write_sframe(path, output)
    if ".so" in output.name:
        loads(output)
        return
    for arguments in (["--version"], ["--help"]):
        runs = [subprocess.run([program, *arguments], capture_output=True, check=False) for program in (path, output)]
        texts = [
            run.stdout.replace(program.encode(), b"") for run, program in zip(runs, (path, str(output)), strict=True)
        ]
        assert runs[0].returncode == runs[1].returncode == 0
        assert texts[0] == texts[1] != b""


@COMPACT
@pytest.mark.parametrize("flags", compiled.FLAG_SETS, ids=lambda flags: flags.name)
def test_rows_of_compiled_files_agree_and_they_run(
    flags: compiled.FlagSet, compact: str, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    compiled.require()
    program = compiled.build(tmp_path_factory.getbasetemp() / "compiled", flags)
    output = tmp_path / program.name
    found, report = judged(program, output, compact)
    assert found.rows_compared > 100
    assert found.bytes_unsayable > 0, "the sources have functions that V2 cannot say"
    assert report.refused
    if flags.shared:
        loads(output)
    else:
        assert subprocess.run([output], capture_output=True, text=True, check=True).stdout == EXPECTED_OUTPUT
