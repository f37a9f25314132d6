"""What kernels of symbol files and their callers agree on."""

from __future__ import annotations

from enum import IntEnum


class TextRow(IntEnum):
    """What a row is in text that says changes: nothing that can be said, nothing new, a change, a new beginning."""

    SKIPPED = 0
    SAME = 1
    DELTA = 2
    INIT = 3


class LineKind(IntEnum):
    """What a line of a symbol file is: with the longer of two heads, the shorter, or with numbers to be looked at."""

    LONGER = 0
    SHORTER = 1
    ODD = 2
