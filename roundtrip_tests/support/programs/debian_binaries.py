"""Debian's own binaries of each architecture: where they are, and where their rows can be encoded.

Strategy: the files are of Debian sid, unpacked, never run. Sid changes, so numbers in tests are lower bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from unwindkit import UnwindTable

from ..judges import referee
from ..oracles import AMD64_FILES, oracle_root
from ..texts.readelf_text import FrameRows, RowText
from .plt_programs import plt_sections

MACHINES = {"sid-amd64": 62, "sid-arm64": 183, "sid-s390x": 22}  # e_machine
SUITES = [pytest.param(suite, marks=pytest.mark.oracle(suite)) for suite in MACHINES]


def file_of(suite: str, package: str) -> Path:
    """The package's file; a link's target only once."""
    (path,) = {found.resolve() for found in oracle_root(suite).glob(AMD64_FILES[package])}
    return path


def address_behind(table: UnwindTable) -> int:
    """Where a section could be: on a separate page after the code."""
    return int((table.functions.start + table.functions.size).max()) + 0xFFF & -0x1000


def lazy_plt(path: Path, suite: str) -> list[tuple[int, int]]:
    """The x86-64 PLT, whose rows are expressions that readelf does not evaluate: test_plt.py judges them."""
    plt = plt_sections(path).get(".plt") if suite == "sid-amd64" else None
    return [(plt.start, plt.stop)] if plt else []


def pieces_where(
    holds: Callable[[RowText], bool], frame: FrameRows, excepted: list[tuple[int, int]] | None = None
) -> referee._Pieces:
    """Number of such rows, of all functions, outside the excepted ranges."""
    pieces = referee._pieces(frame.start, frame.end, frame.first_row, frame.pc, frame.text)
    found = np.array([holds(text) for text in frame.texts])[pieces.number]
    for start, end in excepted or []:
        found &= (pieces.start < start) | (pieces.start >= end)
    return referee._Pieces(*(column[found] for column in (pieces.start, pieces.end, pieces.number, pieces.function)))


def ranges_where(
    holds: Callable[[RowText], bool], frame: FrameRows, excepted: list[tuple[int, int]] | None = None
) -> list[tuple[int, int]]:
    """Addresses of such rows, of all functions, outside the excepted ranges."""
    pieces = pieces_where(holds, frame, excepted)
    return joined(pieces.start, pieces.end)


def unsayable_ranges(frame: FrameRows, excepted: list[tuple[int, int]], version: int) -> list[tuple[int, int]]:
    """Runs of neighbouring rows that this version of SFrame cannot encode."""
    return ranges_where(lambda row: referee.sayable(row, frame.architecture, version) is None, frame, excepted)


def unsayable_sizes(frame: FrameRows, excepted: list[tuple[int, int]], version: int) -> dict[str, list[int]]:
    """The rows that this version of SFrame cannot encode, with the bytes of code of each, in the order of the CFI."""
    pieces = pieces_where(lambda row: referee.sayable(row, frame.architecture, version) is None, frame, excepted)
    found: dict[str, list[int]] = {}
    for number, size in zip(pieces.number.tolist(), (pieces.end - pieces.start).tolist(), strict=True):
        found.setdefault(str(frame.texts[number]), []).append(size)
    return found


def joined(starts: npt.NDArray[np.uint64], ends: npt.NDArray[np.uint64]) -> list[tuple[int, int]]:
    """The ranges in order, adjacent ones merged."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(zip(starts.tolist(), ends.tolist(), strict=True)):
        if found and found[-1][1] == start:
            found[-1] = found[-1][0], end
        else:
            found.append((start, end))
    return found
