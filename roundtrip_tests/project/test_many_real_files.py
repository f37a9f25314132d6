"""Some hundred files of the machine, converted in one go; a tenth as many programs run as before.

Strategy: a random sample of /usr/bin and /usr/lib. A refusal must be one whose reason pyelftools finds in the file as
well. The programs are asked for `--version` and `--help`, from folders of the same length, original and result.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from unwindkit import Failure, write_sframe_many
from unwindkit.batches.workers import worker_processes
from unwindkit.jobs.sframe_report import SframeReport

FOLDERS = ("/usr/bin", "/usr/lib")
# By the profile of hypothesis.
FILES = {"thorough": 150, "long": 500}.get(os.environ.get("HYPOTHESIS_PROFILE", ""), 50)
PROGRAMS = FILES // 10
LARGEST = 30_000_000
# Programs that act regardless of their options, or wait for input.
LEFT_ALONE = {"halt", "init", "poweroff", "reboot", "shutdown", "telinit", "runlevel", "ssh-agent", "script", "watch"}
CFI = (".eh_frame", ".debug_frame")


def sections(elf: ELFFile) -> dict[str, str]:
    return {section.name: section["sh_type"] for section in elf.iter_sections()}


# The message of a refusal, and how to verify it in the file.
REASONS: dict[str, Callable[[ELFFile], bool]] = {
    "is a kernel module": lambda elf: ".gnu.linkonce.this_module" in sections(elf),
    "has no call frame information": lambda elf: not set(CFI) & set(sections(elf)),
    "is NOBITS: this is a separate debug file": lambda elf: "SHT_NOBITS" in {sections(elf).get(name) for name in CFI},
    "SFrame has no ABI for": lambda elf: elf["e_machine"] not in ("EM_X86_64", "EM_AARCH64", "EM_S390"),
    "ELF32": lambda elf: elf.elfclass == 32,
}


def elf_files(folder: str) -> Iterator[Path]:
    seen = set()
    for root, folders, names in os.walk(folder):
        folders.sort()
        for path in (Path(root, name) for name in sorted(names)):
            if path.is_symlink() or not path.is_file() or path.stat().st_ino in seen:
                continue
            seen.add(path.stat().st_ino)
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF" and path.stat().st_size < LARGEST:
                    yield path


@pytest.fixture(scope="module", name="outcomes")
def _outcomes(tmp_path_factory: pytest.TempPathFactory) -> list[SframeReport | Failure]:
    chosen: list[Path] = []
    for place in FOLDERS:
        found = list(elf_files(place))
        chosen += random.Random(6).sample(found, min(len(found), FILES // len(FOLDERS)))
    folder = tmp_path_factory.mktemp("many")
    pairs = [(path, folder / str(index) / path.name) for index, path in enumerate(chosen)]
    with worker_processes(2, len(pairs)) as executor:
        return list(write_sframe_many(pairs, executor))


def test_each_is_converted_or_refused_for_a_reason_that_holds(outcomes: list[SframeReport | Failure]) -> None:
    lossy = 0
    for outcome in outcomes:
        if isinstance(outcome, Failure):
            with Path(outcome.file).open("rb") as file:
                elf = ELFFile(file)
                assert any(text in outcome.error and holds(elf) for text, holds in REASONS.items()), outcome
        else:
            # Every described byte of code is in the result, or in a range that is refused.
            refused = sum(one.bytes for one in outcome.refused.values())
            unread = sum(one.code_bytes for one in outcome.unread.values())
            assert outcome.covered_bytes + refused + unread >= outcome.described_bytes, outcome
            assert (outcome.converted + outcome.partial > 0) == (outcome.fdes > 0), outcome
            lossy += refused > outcome.described_bytes / 50
    written = [one for one in outcomes if isinstance(one, SframeReport)]
    assert len(written) > len(outcomes) // 2
    assert lossy <= len(written) // 10, "version 2 can express nearly all that compilers write"


def answer(program: Path, option: str) -> tuple[int, str] | None:
    """Exit status and output, without the program's own path; None where it waits for something."""
    try:
        done = subprocess.run(
            [program, option],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=program.parent,
            timeout=10,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    return done.returncode, done.stdout.decode(errors="replace").replace(str(program.parent), "")


def test_programs_run_as_before(outcomes: list[SframeReport | Failure], tmp_path: Path) -> None:
    written = [one for one in outcomes if isinstance(one, SframeReport) and one.file.startswith("/usr/bin/")]
    wanted, compared = PROGRAMS, 0
    for outcome in written:
        original = tmp_path / "original" / Path(outcome.file).name
        result = tmp_path / "modified" / original.name
        if original.name in LEFT_ALONE or compared == wanted:
            continue
        for path, source in ((original, outcome.file), (result, outcome.output)):
            path.parent.mkdir(exist_ok=True)
            shutil.copy(source, path)
        for option in ("--version", "--help"):
            before = answer(original, option)
            if before is not None and before == answer(original, option):
                assert answer(result, option) == before, (outcome.file, option)
                compared += option == "--help"
    assert compared >= min(wanted, len(written) // 2)
