"""The texts of macro definitions: a proper name, a parameter list without spaces, one space before the body
(DWARF4 6.3.1.1).

Strategy: places of bytes of each class are found once in the whole section, and searched for all texts at a time.
"""

from __future__ import annotations

import string
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    U8 = NDArray[np.uint8]
    I64 = NDArray[np.int64]


class NameFault(IntEnum):
    """What is wrong with a text; the first that applies."""

    NONE = 0
    NAME = 1
    SPACE = 2
    PARAMETERS = 3


_SPACE, _OPEN, _CLOSE = b" ()"


def _bytes_of(characters: str) -> NDArray[np.bool_]:
    table = np.zeros(256, np.bool_)
    table[list(characters.encode())] = True
    return table


# Bytes above 127 are of UTF-8, a backslash begins a universal character name; compilers take the dollar.
_IN_NAME = _bytes_of(string.ascii_letters + string.digits + "_$\\") | (np.arange(256) >= 0x80)
_DIGIT = _bytes_of(string.digits)
_BLANK = _bytes_of(" \t\n\r\f\v")


def name_faults(data: U8, start: I64, end: I64, is_definition: NDArray[np.bool_]) -> U8:
    """The fault of each text, from `start` up to the zero byte at `end`; what is no definition is a name alone."""
    name_end = _next(np.flatnonzero(~_IN_NAME[data]), start, end)
    padded = np.append(data, np.uint8(0))
    is_named = (name_end > start) & ~_DIGIT[padded[start]]
    is_function = is_definition & (padded[name_end] == _OPEN)
    close = _next(np.flatnonzero(data == _CLOSE), name_end, end)
    blank = np.flatnonzero(_BLANK[data])
    blanks = np.searchsorted(blank, close) - np.searchsorted(blank, name_end)
    bad_parameters = is_function & ((close >= end) | (blanks > 0))
    body = np.where(is_function, np.minimum(close + 1, end), name_end)
    is_apart = (padded[body] == _SPACE) & ~_BLANK[padded[np.minimum(body + 1, end)]]
    fault = np.zeros(len(start), np.uint8)
    fault[is_definition & ~is_apart] = NameFault.SPACE
    fault[bad_parameters] = NameFault.PARAMETERS
    fault[~is_named | (~is_definition & (name_end < end))] = NameFault.NAME
    return fault


def _next(places: I64, start: I64, end: I64) -> I64:
    """The first of some places from each start on; its end where none is before that."""
    found: I64 = np.append(places, np.iinfo(np.int64).max)[np.searchsorted(places, start)]
    np.minimum(found, end, out=found)
    return found
