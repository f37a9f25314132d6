"""Files whose call frame information is cut at many places: results do not depend on the cuts, nor on threads."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import numpy as np
import pytest
from unwindkit import read_elf, write_sframe_section
from unwindkit.converters import threads
from unwindkit.converters.breakpad.stack_cfi import write as stack_cfi
from unwindkit.converters.sframe import merge_fdes, write_fres
from unwindkit.converters.sframe.write import Compact

from ..support.real_files import REAL_FILES

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The smallest one: the uncompiled kernels read it, too.
FILE = REAL_FILES[0]
Read = Callable[[Path], list[bytes]]


def sections(tmp_path: Path) -> list[bytes]:
    """The `.sframe` sections of a file, of each compact mode and version."""
    out, found = tmp_path / "out", []
    for compact in get_args(Compact):
        for version in (2, 3):
            write_sframe_section(FILE, out, version=version, compact=compact)
            found.append(out.read_bytes())
    return found


def texts(_: Path) -> list[bytes]:
    """The STACK CFI records of a file, whole, and as they are written in chunks."""
    lines = stack_cfi.lay_out_text(read_elf(FILE))
    return [lines.text(), b"".join(map(bytes, lines.chunks()))]


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("read", [sections, texts])
def test_what_is_written_does_not_depend_on_the_cuts(
    read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = read(tmp_path)
    assert all(len(one) > 1000 for one in expected)
    if read is texts:
        assert expected[0] == expected[1]
    for count, part in ((1, 7), (2, 7), (3, 1 << 8)):
        monkeypatch.setenv(threads.VARIABLE, str(count))
        monkeypatch.setattr(write_fres, "PART", part)
        monkeypatch.setattr(write_fres, "HASHED_PART", part)
        monkeypatch.setattr(write_fres, "ENCODED_PART", part)
        monkeypatch.setattr(merge_fdes, "CODE_PART", part << 4)
        monkeypatch.setattr(stack_cfi, "PART", part)
        monkeypatch.setattr(stack_cfi, "CHUNK", part)
        monkeypatch.setattr(stack_cfi, "LEAST_CHUNKS", 1)
        assert read(tmp_path) == expected


def test_a_chunk_is_valid_until_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    fill = stack_cfi.StackCfiText.fill

    def fill_slowly(lines: stack_cfi.StackCfiText, first: int, last: int, out: NDArray[np.uint8]) -> int:
        time.sleep(0.01)
        return fill(lines, first, last, out)

    monkeypatch.setenv(threads.VARIABLE, "2")
    monkeypatch.setattr(stack_cfi, "CHUNK", 7)
    monkeypatch.setattr(stack_cfi, "LEAST_CHUNKS", 1)
    monkeypatch.setattr(stack_cfi.StackCfiText, "fill", fill_slowly)
    for chunk in islice(stack_cfi.lay_out_text(read_elf(FILE)).chunks(), 5):
        contents = bytes(chunk)
        time.sleep(0.1)  # all chunks that have been begun are written
        assert bytes(chunk) == contents


def test_few_results_wait_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thread has begun at most two parts that nobody has asked for."""
    for count in (1, 2, 3):
        monkeypatch.setenv(threads.VARIABLE, str(count))
        begun: list[int] = []

        def work(part: int, begun: list[int] = begun) -> int:
            begun.append(part)
            return part * part

        results = threads.in_turn(work, range(20))
        for asked in range(20):
            assert next(results) == asked * asked
            assert len(begun) <= asked + 2 * count
        assert list(results) == []
