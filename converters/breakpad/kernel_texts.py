"""The texts of mangled names, as a kernel writes them: as many at a time as a buffer has space for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ..arrays import starts_of
from ..strings import Strings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    U8 = NDArray[np.uint8]
    I64 = NDArray[np.int64]

# Demangles names from one on, until the space may not be enough: `(data, start, out, text_start, first)`. Returns how
# many names are done, and the bytes written.
Demangle: TypeAlias = "Callable[[U8, I64, U8, I64, int], tuple[int, int]]"
# Bytes of text that are written at a time, unless one name needs more.
SPACE = 1 << 18


def texts_by(demangle: Demangle, names: Strings, expansion: int) -> Strings:
    """The text of each name, at most `expansion` times as long; without bytes for one that is left to others."""
    data, start = np.frombuffer(names.join(np.arange(len(names))), np.uint8), starts_of(names.size)
    out = np.empty(max(SPACE, expansion * int(names.size.max(initial=0))), np.uint8)
    text_start, size, done = np.zeros(len(start), np.int64), np.zeros(len(names), np.int64), 0
    written: list[U8] = [np.empty(0, np.uint8)]
    while done < len(names):
        first = done
        done, count = demangle(data, start, out, text_start, first)
        size[first:done] = np.diff(text_start[first + 1 : done + 1], prepend=0)
        written.append(out[:count].copy())
    return Strings.within(np.concatenate(written), starts_of(size)[:-1], size)
