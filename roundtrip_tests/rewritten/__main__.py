"""`python -m roundtrip_tests.rewritten [--sample N] [--seed S] [--kind KIND ...] [--jobs J] [FOLDER]`: every linked ELF
file of a folder (`/usr` by default) rewritten; then this system runs on the rewritten files: every program of
FOLDER/bin answers --version and --help, and every library of this machine is loaded, as before."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

from unwindkit import FormatError, open_elf
from unwindkit.batches.workers import worker_processes

from .system import Outcomes, absence, run_in_system
from .trees import KINDS, Tree, elf_files, make_tree

ALWAYS = ("libc.so.6", "ld-linux-x86-64.so.2", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1")
THIS_MACHINE = "EM_X86_64"


def main() -> int:
    """Run, print, and return 1 if something differs."""
    parser = argparse.ArgumentParser(prog="python -m roundtrip_tests.rewritten", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("/usr"), metavar="FOLDER")
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="how to rewrite (default: each way)")
    parser.add_argument("--sample", type=int, metavar="N", help="only N files, and what all programs need")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    if (reason := absence()) is not None:
        print(reason, file=sys.stderr)
        return 2
    files = chosen(elf_files(options.folder), options.sample, options.seed)
    programs, libraries = runnable(files, options.folder)
    print(f"{len(files)} files, {len(programs)} programs to run, {len(libraries)} libraries to load", flush=True)
    wrong = 0
    # The same for all: programs name their home.
    with tempfile.TemporaryDirectory() as folder:
        scratch, place = Path(folder, "scratch"), Path(folder, "tree")
        scratch.mkdir()
        before = [run_in_system(None, options.folder, programs, libraries, scratch) for _ in range(2)]
        for kind in options.kind or KINDS:
            with worker_processes(options.jobs, len(files)) as executor:
                tree = make_tree(kind, files, place, executor)
            after = run_in_system(tree.folder, options.folder, programs, libraries, scratch)
            wrong += report(kind, tree, after, compare(before, after))
            shutil.rmtree(place, ignore_errors=True)
    return 1 if wrong else 0


def report(kind: str, tree: Tree, after: Outcomes, differences: list[str]) -> int:
    """Print what became of one tree; how many differences there are."""
    print(f"{kind}: {tree.written} written, {sum(tree.refused.values())} refused")
    for text, count in tree.refused.most_common():
        print(f"  {count} refused: {text}")
    answered = sum(is_answer(one) for one in after.programs.values())
    loaded = sum(not text for text in after.libraries.values())
    print(f"  {answered} programs answered, {loaded} libraries loaded; {len(differences)} differ from before")
    for text in differences:
        print(f"  {text}")
    sys.stdout.flush()
    return len(differences)


def chosen(files: list[tuple[Path, str]], sample: int | None, seed: int) -> list[tuple[Path, str]]:
    """All files, or a seeded sample with the libraries that every program needs."""
    if sample is None or sample >= len(files):
        return files
    needed = {Path(place).name for name in ALWAYS for place in (Path("/usr/lib/x86_64-linux-gnu", name).resolve(),)}
    always = [one for one in files if one[0].name in needed]
    return [*always, *random.Random(seed).sample(files, sample)]


def runnable(files: list[tuple[Path, str]], folder: Path) -> tuple[list[str], list[str]]:
    """The programs in FOLDER/bin, and the libraries for this machine."""
    programs = [str(path) for path, place in files if Path(place).parent == Path("bin")]
    libraries = [str(path) for path, _ in files if ".so" in path.name and _is_library(path)]
    return programs, libraries


def _is_library(path: Path) -> bool:
    """Whether it is a shared object for this machine."""
    try:
        image = open_elf(path)
    except FormatError:
        return False
    return image.type == "ET_DYN" and str(image.machine) == THIS_MACHINE and image.address_size == 8


def is_answer(outcome: list[list[object]]) -> bool:
    """Whether a program answered at least one of the options."""
    return any(one[0] == 0 for one in outcome)


def compare(before: list[Outcomes], after: Outcomes) -> list[str]:
    """What differs, as sentences. Answers that two runs of the old program do not share are not compared. Lines may
    come in another order: groff runs several programs at once."""
    first, second = before
    found = [
        f"{path} {option}: {str(new)[:300]}, before {str(old)[:300]}"
        for path, answers in after.programs.items()
        for option, new, old, again in zip(
            ("--version", "--help"), answers, first.programs[path], second.programs[path], strict=True
        )
        if old == again and _lines(new) != _lines(old)
    ]
    return found + [
        f"{path}: {text or 'loaded'}, before {first.libraries[path] or 'loaded'}"
        for path, text in after.libraries.items()
        if first.libraries[path] == second.libraries[path] and text != first.libraries[path]
    ]


def _lines(answer: list[object]) -> list[list[str]]:
    return [sorted(str(one).splitlines()) for one in answer]


if __name__ == "__main__":
    sys.exit(main())
