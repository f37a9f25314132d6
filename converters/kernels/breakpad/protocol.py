"""What kernels of symbol files and their callers agree on."""

from __future__ import annotations

from enum import IntEnum


class TextRow(IntEnum):
    """How text that lists changes has a row: not expressible, unchanged, as a change, or as a new INIT record."""

    SKIPPED = 0
    SAME = 1
    DELTA = 2
    INIT = 3


class LineKind(IntEnum):
    """What a line of a symbol file begins with: the longer of two prefixes, the shorter, or numbers to be checked."""

    LONGER = 0
    SHORTER = 1
    ODD = 2


class FunctionWord(IntEnum):
    """What lines about functions begin with: the numbers of the first words."""

    FUNC = 0
    FUNC_M = 1
    INLINE = 2
