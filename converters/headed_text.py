"""Text of many rows under few heads: what dumps of sets and units have in common.

Strategy: heads and rows are items in one order; some thousand items at a time become pieces of a pool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from .text import MAX_DIGITS, Pool, hexadecimal, leading_zeros, lines

if TYPE_CHECKING:
    from numpy.typing import NDArray

    I64 = NDArray[np.int64]
    U64 = NDArray[np.uint64]

# Items that are put into text at once.
CHUNK = 1 << 15


def headed_text(
    first: I64, head: Callable[[int], bytes], add_rows: Callable[[Pool, slice], I64], chunk: int = CHUNK
) -> Iterator[bytes]:
    """The text, in pieces: before the rows first[i] up to first[i + 1], what `head(i)` says.

    `add_rows` puts what some rows say into a pool, and gives the numbers of the pieces of each, an array of a line a
    row.
    """
    heads = len(first) - 1
    head_item = first[:-1] + np.arange(heads)
    total = int(first[-1]) + heads
    for begin in range(0, total, chunk):
        end = min(begin + chunk, total)
        low, high = np.searchsorted(head_item, [begin, end]).tolist()
        pool = Pool([])
        head_pieces = pool.add_list([head(index) for index in range(low, high)]) + np.arange(high - low)
        row_pieces = add_rows(pool, slice(begin - low, end - high))
        is_head = np.zeros(end - begin, np.bool_)
        is_head[head_item[low:high] - begin] = True
        width = row_pieces.shape[1]
        size = np.where(is_head, 1, width)
        at = np.cumsum(size) - size
        pieces = np.zeros(int(size.sum()), np.int64)
        pieces[at[is_head]] = head_pieces
        pieces[at[~is_head][:, None] + np.arange(width)] = row_pieces
        yield pool.joined(pieces)


def add_hexadecimal(pool: Pool, values: U64, prefix: bytes = b"") -> I64:
    """Put values into the pool as C prints them for `%x`; the number of each. With the prefix `0x` 0 has none."""
    zeros = leading_zeros(values)
    if not prefix:
        return pool.add(hexadecimal(values), zeros) + np.arange(len(values))
    digits = lines(len(values), prefix, hexadecimal(values))
    # The prefix comes right before the digits, which start behind their leading zeros.
    row = np.flatnonzero(values)
    for index, byte in enumerate(prefix):
        digits[row, zeros[row] + index] = byte
    return pool.add(digits, zeros + np.where(values == 0, len(prefix), 0)) + np.arange(len(values))


def add_decimal(pool: Pool, values: U64) -> I64:
    """Put values into the pool as C prints them for `%u`; the number of each."""
    # As many digits as the largest has.
    digit_count = len(str(int(values.max(initial=0))))
    powers = np.uint64(10) ** np.arange(digit_count - 1, -1, -1, dtype=np.uint64)
    digits = (values[:, None] // powers % np.uint64(10)).astype(np.uint8)
    zeros = np.argmax(digits > 0, axis=1)
    zeros[values == 0] = len(powers) - 1
    return pool.add(digits + np.uint8(ord("0")), zeros) + np.arange(len(values))


def left_aligned(values: U64, width: int) -> I64:
    """How many spaces follow each value's hexadecimal digits to make `width` characters of them."""
    return np.maximum(0, width - (MAX_DIGITS - leading_zeros(values)))
