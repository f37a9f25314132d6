"""Line records of code for which several sequences have lines."""

from __future__ import annotations

import numpy as np
import pytest
from unwindkit import from_line_records, to_debug_line
from unwindkit.converters.dwarf.units import NO_UNITS
from unwindkit.converters.line.headers import read_line_headers
from unwindkit.converters.line.ranges import line_ranges, run_in_parts, source_files
from unwindkit.schemas.section import Section

pytestmark = pytest.mark.usefixtures("kernels")


def ranges_of(*texts: str) -> list[tuple[int, int, int, bytes]]:
    """The line records of units with these FILE and line records; code is from 0x1000 up to 0x2000."""
    data = b"".join(to_debug_line(from_line_records(text), None)[0] for text in texts)
    section = Section(".debug_line", memoryview(data), 0, None, "little", 8)
    headers = read_line_headers(section)
    files = source_files(headers, {}, NO_UNITS)
    found = line_ranges(run_in_parts(headers, np.array([0x1000], np.uint64), np.array([0x2000], np.uint64)), files)
    columns = (found.address.tolist(), found.size.tolist(), found.line.tolist(), found.path.tolist())
    return [(*one, files.paths[path]) for *one, path in zip(*columns, strict=True)]


def test_sequences_for_the_same_code_are_not_mixed() -> None:
    """Of a COMDAT function that two units have, the linker keeps one; both sequences are at its address."""
    first = "FILE 0 /a.c\nFUNC 1000 8 0 f\n1000 5 1 0\n1005 3 2 0\n"
    second = "FILE 0 /b.c\nFUNC 1000 8 0 f\n1000 2 7 0\n1002 6 8 0\n"
    assert ranges_of(first, second) == [(0x1000, 5, 1, b"/a.c"), (0x1005, 3, 2, b"/a.c")]
    assert ranges_of(second, first) == [(0x1000, 2, 7, b"/b.c"), (0x1002, 6, 8, b"/b.c")]


def test_discarded_code_before_real_code_does_not_make_a_copy() -> None:
    """Two sequences from 0 to one address, of which the linker kept other parts, if records are judged one by one."""
    first = "FILE 0 /a.c\nFUNC 0 1008 0 f\n0 1000 1 0\n1000 2 2 0\n1002 6 0 0\n"
    second = "FILE 0 /b.c\nFUNC 0 1008 0 f\n0 1002 1 0\n1002 6 8 0\n"
    assert ranges_of(first, second) == [(0x1000, 2, 2, b"/a.c"), (0x1002, 6, 0, b"/a.c")]
    assert ranges_of("FILE 0 /a.c\nFUNC 0 1002 0 f\n0 1000 1 0\n1000 2 2 0\n", second) == [
        (0x1000, 2, 2, b"/a.c"),
        (0x1002, 6, 8, b"/b.c"),
    ]
