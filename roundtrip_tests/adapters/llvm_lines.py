"""LLVM: `llvm-dwarfdump --debug-line` on each line number program. Arguments: the command of llvm-dwarfdump.

Its warnings are not errors: it warns of bytes after the tables of a header, too.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence

from .protocol import Refused, Request, Row, at, serve

_VERSION = re.compile(r"^ +version: (\d+)$", re.MULTILINE)
_DIRECTORY = re.compile(r'^include_directories\[ *(\d+)\] = "(.*)"$', re.MULTILINE)
_FILE = re.compile(r'^file_names\[ *(\d+)\]:\n +name: "(.*)"\n +dir_index: (\d+)$', re.MULTILINE)
_ROW = re.compile(r"^0x([0-9a-f]+) +(\d+) +(\d+) +(\d+) +\d+ +\d+ +\d+ (.*)$", re.MULTILINE)


def paths_of(unit: str, version: int) -> dict[int, str]:
    """Whole paths by file number."""
    directories = {int(number): path for number, path in _DIRECTORY.findall(unit)}
    compilation = directories.get(0, "") if version >= 5 else ""

    def below(directory: str, path: str) -> str:
        return path if path.startswith("/") or not directory else f"{directory.removesuffix('/')}/{path}"

    return {
        int(number): below(below(compilation, directories.get(int(index), "")) if int(index) else compilation, name)
        for number, name, index in _FILE.findall(unit)
    }


def rows_of(unit: str) -> Iterator[Row]:
    """File, line and column from each address of a unit to the next one of its sequence."""
    version = _VERSION.search(unit)
    paths = paths_of(unit, int(version[1]) if version else 0)
    before: tuple[int, list[str]] | None = None
    for text, line, column, file, flags in _ROW.findall(unit):
        pc = int(text, 16)
        if before is not None:
            yield before[0], pc, before[1]
        before = None if "end_sequence" in flags else (pc, [paths.get(int(file), "?"), line, column])


def answer(request: Request) -> list[Sequence[str]]:
    """The rows at the PCs of a case."""
    command = [*sys.argv[1:], "--debug-line", request.path]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60)
    text = done.stdout.decode(errors="replace")
    errors = [line for line in done.stderr.decode(errors="replace").splitlines() if not line.startswith("warning: ")]
    if done.returncode or errors:
        raise Refused(errors[0] if errors else f"exit code {done.returncode}")
    units = re.split(r"^debug_line\[0x[0-9a-f]+\]$", text, flags=re.MULTILINE)[1:]
    return at([row for unit in units for row in rows_of(unit)], request.pcs)


if __name__ == "__main__":
    serve(answer)
