# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""SFrame frame row entries in bulk: words into segments, segments into bytes; and back.

Strategy: each pass is once a row run, never once a function. project.py decides what each row is in SFrame or why it
is none; `segments` joins neighbours that can be said, equal rows merged; `encode` writes blocks.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from ....schemas import sframe
from ....schemas.derive import bit_position
from ..protocol import Fault

if not cython.compiled:
    from ..array_types import I32_2D, I64, U8, U64, ConstI32_2D, ConstI64, ConstU8, ConstU64
    from ..shared.reads import Reader

COUNT_SHIFT = cython.declare(cython.int, bit_position(sframe.FreInfo, "fre_offset_count")[0])
COUNT_MASK = cython.declare(cython.int, bit_position(sframe.FreInfo, "fre_offset_count")[1])
SIZE_SHIFT = cython.declare(cython.int, bit_position(sframe.FreInfo, "fre_offset_size")[0])
SIZE_MASK = cython.declare(cython.int, bit_position(sframe.FreInfo, "fre_offset_size")[1])
SIZE_4B = cython.declare(cython.int, int(sframe.SFRAME_FRE_OFFSET.SIZE_4B))

BAD_OFFSET_SIZE = cython.declare(cython.int, int(Fault.BAD_OFFSET_SIZE))
BAD_OFFSET_COUNT = cython.declare(cython.int, int(Fault.BAD_OFFSET_COUNT))
FRES_DESCEND = cython.declare(cython.int, int(Fault.FRES_DESCEND))


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def same(
    row: cython.longlong,
    other: cython.longlong,
    info: ConstU8,
    words: ConstI32_2D,
) -> cython.int:
    """Whether two rows say the same."""
    word: cython.int
    if info[row] != info[other]:
        return 0
    for word in range(info[row] >> COUNT_SHIFT & COUNT_MASK):
        if words[row, word] != words[other, word]:
            return 0
    return 1


@cython.ccall
@cython.exceptval(-1, check=False)
def segments(
    limit: cython.longlong,
    run_rows: ConstI64,
    offset: ConstU64,
    reason: ConstU8,
    info: ConstU8,
    words: ConstI32_2D,
    first_segment: I64,
    segment_reason: U8,
    segment_start: U64,
    segment_fres: I64,
    segment_bytes: I64,
    fres: I64,
) -> cython.longlong:
    """Split each run where rows turn from sayable to not or change their reason, and after `limit` FREs; return the
    number of FREs.

    A segment has a reason (0: it is said), the offset it starts at in its function, and its FREs: rows
    whose content differs from the row before, whose indices go to `fres` behind one another. `segment_fres`
    counts FREs up to and with the segment; `segment_bytes` are those of its FREs but their start addresses.
    `first_segment` has one element more than runs.
    """
    run: cython.longlong
    row: cython.longlong
    count: cython.longlong = 0  # of segments
    kept: cython.longlong = 0
    last: cython.longlong
    room: cython.longlong = 0
    for run in range(run_rows.shape[0] - 1):
        first_segment[run] = count
        last = -1
        for row in range(run_rows[run], run_rows[run + 1]):
            if (
                last < 0
                or reason[row] != reason[last]
                or (not reason[row] and not same(row, last, info, words) and not room)
            ):
                room = limit
                segment_reason[count] = reason[row]
                segment_start[count] = offset[row]
                segment_bytes[count] = 0
                segment_fres[count] = kept
                count += 1
            elif reason[row] or same(row, last, info, words):
                continue
            last = row
            if not reason[row]:
                room -= 1
                fres[kept] = row
                kept += 1
                segment_fres[count - 1] = kept
                segment_bytes[count - 1] += 1 + (
                    (info[row] >> COUNT_SHIFT & COUNT_MASK) << (info[row] >> SIZE_SHIFT & SIZE_MASK)
                )
    first_segment[run_rows.shape[0] - 1] = count
    return kept


@cython.ccall
@cython.exceptval(check=False)
def encode(
    big: cython.int,
    head: cython.longlong,
    segment: ConstI64,
    start_size: ConstU8,
    offset: ConstU64,
    info: ConstU8,
    words: ConstI32_2D,
    segment_start: ConstU64,
    segment_fres: ConstI64,
    fres: ConstI64,
    out: U8,
) -> cython.void:
    """Write a block for each element of `segment`, its start addresses `start_size` bytes wide, `head` bytes before it
    left as they are."""
    block: cython.longlong
    number: cython.longlong
    index: cython.longlong
    at: cython.longlong = 0
    value: cython.ulonglong
    row: cython.longlong
    word: cython.int
    width: cython.int
    byte: cython.int
    for block in range(segment.shape[0]):
        number = segment[block]
        at += head
        for index in range(segment_fres[number - 1] if number else 0, segment_fres[number]):
            row = fres[index]
            width = start_size[block]
            value = offset[row] - segment_start[number]
            for byte in range(width):
                out[at + (width - 1 - byte if big else byte)] = value >> 8 * byte & 0xFF
            at += width
            out[at] = info[row]
            at += 1
            width = 1 << (info[row] >> SIZE_SHIFT & SIZE_MASK)
            for word in range(info[row] >> COUNT_SHIFT & COUNT_MASK):
                for byte in range(width):
                    out[at + (width - 1 - byte if big else byte)] = words[row, word] >> 8 * byte & 0xFF
                at += width


@cython.cfunc
@cython.exceptval(check=False)
def decode_one(
    reader: Reader,
    start_size: cython.int,
    least: cython.int,
    at: cython.longlong,
    start: U64,
    info: U8,
    words: I32_2D,
) -> cython.void:
    """Read one FRE, of `least` words or more, into the columns at index `at`."""
    value: cython.longlong
    word: cython.int
    number: cython.int
    width: cython.int
    start[at] = reader.fixed(start_size)
    info[at] = reader.fixed(1)
    number = info[at] >> COUNT_SHIFT & COUNT_MASK
    width = info[at] >> SIZE_SHIFT & SIZE_MASK
    for word in range(words.shape[1]):
        words[at, word] = 0
    if reader.fault:
        return
    if width > SIZE_4B:
        reader.fault = BAD_OFFSET_SIZE
        return
    if number < least or number > words.shape[1]:
        reader.fault = BAD_OFFSET_COUNT
        return
    width = 1 << width
    for word in range(number):
        value = cython.cast(cython.longlong, reader.fixed(width))
        if value >> (8 * width - 1):
            value -= cython.cast(cython.longlong, 1) << 8 * width
        words[at, word] = value


@cython.ccall
@cython.exceptval(-1, check=False)
def decode(
    reader: Reader,
    least: cython.int,
    ascending: cython.int,
    block_offset: ConstI64,
    block_fres: ConstI64,
    start_size: ConstU8,
    start: U64,
    info: U8,
    words: I32_2D,
) -> cython.longlong:
    """Read `block_fres` FREs at each `block_offset`; return how many blocks were read (all, but for a fault).

    Columns get one element an FRE, blocks behind one another; words that an FRE does not have are 0. An
    FRE has `least` words or more; where `ascending` is 0 their starts need not ascend. At a fault the reader stands
    where the FRE starts.
    """
    block: cython.longlong
    index: cython.longlong
    at: cython.longlong
    count: cython.longlong = 0
    for block in range(block_offset.shape[0]):
        reader.offset = block_offset[block]
        for index in range(block_fres[block]):
            at = reader.offset
            decode_one(reader, start_size[block], least, count, start, info, words)
            if ascending and index and not reader.fault and start[count] <= start[count - 1]:
                reader.fault = FRES_DESCEND
            if reader.fault:
                reader.offset = at
                return block
            count += 1
    return block_offset.shape[0]
