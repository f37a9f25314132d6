"""A folder's ELF files rewritten to another tree, in each way that the project has."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path

import unwindkit
from unwindkit import DebugFiles, Failure
from unwindkit.batches.mapped import map_job

ALONE = DebugFiles(links=False)


def _sframe_v2(source: Path, out: Path) -> object:
    return unwindkit.write_sframe(source, out, debug=ALONE)


def _sframe_v3(source: Path, out: Path) -> object:
    return unwindkit.write_sframe(source, out, version=3, debug=ALONE)


def _removed(source: Path, out: Path) -> object:
    """With an `.sframe` that was written and removed again."""
    unwindkit.write_sframe(source, out, debug=ALONE)
    return unwindkit.remove_sframe(out, out)


def _eh_frame(source: Path, out: Path) -> object:
    """With its own rows as a new `.eh_frame`."""
    return unwindkit.write_eh_frame(source, out, unwindkit.read_elf(source))


KINDS: dict[str, Callable[[Path, Path], object]] = {
    "sframe-v2": _sframe_v2,
    "sframe-v3": _sframe_v3,
    "removed": _removed,
    "eh-frame": _eh_frame,
}


@dataclass(slots=True)
class Tree:
    """What became of the files: how many were written, and how many were refused for each reason."""

    folder: Path
    written: int = 0
    refused: Counter[str] = field(default_factory=Counter)


def make_tree(kind: str, files: Iterable[tuple[Path, str]], folder: Path, executor: Executor | None) -> Tree:
    """Write `files` (path, place) in one of KINDS to the same places in `folder`. A file that is refused is missing
    there. An exception other than OSError and FormatError ends the run."""
    made = Tree(folder)
    for found in map_job(KINDS[kind], [(path, folder / place) for path, place in files], executor, {}):
        if isinstance(found, Failure):
            made.refused[found.kind or found.error] += 1
        else:
            made.written += 1
    return made


def elf_files(folder: Path) -> list[tuple[Path, str]]:
    """Every linked ELF file with its place in the folder; symbolic links are not followed."""
    found = []
    for root, folders, names in os.walk(folder):
        folders.sort()
        for path in (Path(root, name) for name in sorted(names)):
            if path.is_file() and not path.is_symlink() and is_linked(path):
                found.append((path, str(path.relative_to(folder))))
    return found


def is_linked(path: Path) -> bool:
    """Whether the file is ELF, and neither relocatable nor a core file."""
    with path.open("rb") as file:
        start = file.read(18)
    places = start[16:18] if start[5:6] != b"\2" else start[17:15:-1]
    return start[:4] == b"\x7fELF" and int.from_bytes(places, "little") in {2, 3}
