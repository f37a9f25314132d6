"""The functions of real files, reassembled by GNU as from `to_directives`, are unchanged at every PC.

Strategy: readelf 2.47 reads the `.eh_frame` that as builds from our directives; its rows must be those of the file's
own `.eh_frame`. It also reads the `.sframe` that as and ld build; its rows must be those of ours, wherever neither is
refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unwindkit import read_elf, to_sframe

from benchmarks.gas import reassembled

from ..support.judges.referee import _paint, _Pieces, _pieces, _row_columns, _sframe_pieces
from ..support.programs.debian_binaries import MACHINES, address_behind, file_of
from ..support.real_files import REAL_FILES
from ..support.texts.readelf_text import U64, FrameRows, Index, SframeRows, frame_rows, sframe_rows
from ..support.wrapped import rows_of_bytes

NOTHING = -1


def files() -> list[Any]:
    here = [path for path in map(Path, REAL_FILES) if path.name.startswith(("bash", "libc."))]
    return [pytest.param("", path, id=path.name) for path in here] + [
        pytest.param(suite, "libc6", id=suite, marks=pytest.mark.oracle(suite)) for suite in MACHINES
    ]


def texts_at(bounds: U64, pieces: _Pieces, texts: Sequence[object], numbers: dict[str, int]) -> Index:
    """The text in force from each bound to the next, as a number shared by equal texts; NOTHING where there is no
    row."""
    number = [numbers.setdefault(str(text), len(numbers)) for text in texts]
    return np.array([*number, NOTHING], np.int64)[_paint(bounds, pieces)[0]]


def both_sides(one: FrameRows | SframeRows, other: FrameRows | SframeRows) -> tuple[Index, Index, U64]:
    """Two readings as text numbers, and the size in bytes of each interval between bounds."""
    sides = [_sframe_pieces(r) if isinstance(r, SframeRows) else _pieces(*_row_columns(r)) for r in (one, other)]
    bounds = np.unique(np.concatenate([column for side in sides for column in (side.start, side.end)]))
    numbers: dict[str, int] = {}
    said, heard = (texts_at(bounds, side, r.texts, numbers) for side, r in zip(sides, (one, other), strict=True))
    return said, heard, np.diff(bounds, append=bounds[-1:])


def wider_starts(read: SframeRows) -> int:
    """The bytes by which a section would be larger if the starts of FREs had the width of their functions' sizes."""
    is_whole = read.repetition_block == 0
    first, end = read.first_row[:-1], read.first_row[1:]
    reach = read.end - read.start, read.pc[end - 1] - read.start
    by_size, by_last = (
        np.array([1, 2, 4])[np.searchsorted([1 << 8, 1 << 16], one[is_whole], side="right")] for one in reach
    )
    return int(((by_size - by_last) * (end - first)[is_whole]).sum())


@pytest.mark.oracle
@pytest.mark.parametrize(("suite", "file"), files())
def test_what_as_is_given_says_what_the_file_says(suite: str, file: Path | str, tmp_path: Path) -> None:
    path = file if isinstance(file, Path) else file_of(suite, file)
    made = reassembled(path, tmp_path)
    frame, again = frame_rows(path), frame_rows(tmp_path / "again.so")
    assert (made.functions, made.unsaid) == (len(frame.start), 0)
    expected, found, _ = both_sides(frame, again)
    assert np.array_equal(expected, found)

    table = read_elf(path)
    machine = MACHINES.get(suite, MACHINES["sid-amd64"])
    data, _ = to_sframe(table, 3, address_behind(table), "none")
    ours = rows_of_bytes(tmp_path / "ours", data, address_behind(table), machine, table.byte_order)
    theirs = sframe_rows(tmp_path / "again.so")
    assert (theirs.header.version, theirs.header.num_fdes) == (3, made.functions - made.refused)
    said, by_as, size = both_sides(ours, theirs)
    both = (said != NOTHING) & (by_as != NOTHING)
    assert np.array_equal(said[both], by_as[both])
    # as refuses whole functions, including the lazy PLT.
    assert made.refused < 10
    assert size[both].sum() > 0.98 * size[said != NOTHING].sum()
    # as takes the width of the starts of FREs from the size of the function, not from the last start.
    assert 0.98 < (len(data) + wider_starts(ours)) / made.sframe < 1.01
