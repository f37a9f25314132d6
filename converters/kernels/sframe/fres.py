# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""SFrame frame row entries in bulk: rows into segments, segments into bytes, and bytes into columns.

Strategy: each pass runs once per row run, never once per function. project.py chooses the words of each row or the
reason why it has none; `split` joins consecutive rows that can be encoded, without repeated ones; `encode` writes
blocks.
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
WORD = cython.declare(cython.ulonglong, 0xFFFFFFFF)
SIZE_4B = cython.declare(cython.int, int(sframe.SFRAME_FRE_OFFSET.SIZE_4B))

BAD_OFFSET_SIZE = cython.declare(cython.int, int(Fault.BAD_OFFSET_SIZE))
BAD_OFFSET_COUNT = cython.declare(cython.int, int(Fault.BAD_OFFSET_COUNT))
FRES_DESCEND = cython.declare(cython.int, int(Fault.FRES_DESCEND))


@cython.final
@cython.cclass
class FreRows:
    """Rows as FREs: the offset from the function's start, a reason (0: none), the info byte and the words of each."""

    def __init__(self, offset: ConstU64, reason: ConstU8, info: ConstU8, words: ConstI32_2D) -> None:
        self.offset = offset
        self.reason = reason
        self.info = info
        self.words = words

    def same(self, row: cython.longlong, other: cython.longlong) -> cython.int:
        """Whether two rows have equal FREs, their offsets aside."""
        word: cython.int
        if self.info[row] != self.info[other]:
            return 0
        for word in range(self.info[row] >> COUNT_SHIFT & COUNT_MASK):
            if self.words[row, word] != self.words[other, word]:
                return 0
        return 1

    def size(self, row: cython.longlong) -> cython.longlong:
        """Bytes of a row's FRE without its start address."""
        return 1 + ((self.info[row] >> COUNT_SHIFT & COUNT_MASK) << (self.info[row] >> SIZE_SHIFT & SIZE_MASK))


@cython.final
@cython.cclass
class Segments:
    """Stretches of runs that are encoded or refused as a whole; run r has segments first[r] up to first[r + 1].

    Each has a `reason` (0: it is encoded), the offset where it starts in its function, and FREs: rows that differ from
    the row before, by index in `rows`. `fres` counts the FREs of all segments up to and including each one; `size` is
    the bytes of its own without their start addresses.
    """

    def __init__(self, first: I64, reason: U8, start: U64, fres: I64, size: I64, rows: I64) -> None:
        self.first = first
        self.reason = reason
        self.start = start
        self.fres = fres
        self.size = size
        self.rows = rows

    def begin(
        self, number: cython.longlong, reason: cython.int, start: cython.ulonglong, fres: cython.longlong
    ) -> None:
        """Begin a segment after `fres` FREs."""
        self.reason[number] = reason
        self.start[number] = start
        self.size[number] = 0
        self.fres[number] = fres

    def first_fre(self, number: cython.longlong) -> cython.longlong:
        """The index in `rows` of a segment's first FRE."""
        return self.fres[number - 1] if number else 0


@cython.ccall
@cython.exceptval(-1, check=False)
def split(limit: cython.longlong, run_rows: ConstI64, rows: FreRows, segments: Segments) -> cython.longlong:
    """Split each run where the reason changes, and after `limit` FREs; return the number of FREs.

    The columns of `segments` need space for one element per row, `first` for one more than runs.
    """
    run: cython.longlong
    row: cython.longlong
    count: cython.longlong = 0  # of segments
    kept: cython.longlong = 0
    last: cython.longlong
    left: cython.longlong = 0  # FREs that the segment may still have
    with cython.nogil:
        for run in range(run_rows.shape[0] - 1):
            segments.first[run] = count
            last = -1
            for row in range(run_rows[run], run_rows[run + 1]):
                if (
                    last < 0
                    or rows.reason[row] != rows.reason[last]
                    or (not rows.reason[row] and not left and not rows.same(row, last))
                ):
                    left = limit
                    segments.begin(count, rows.reason[row], rows.offset[row], kept)
                    count += 1
                elif rows.reason[row] or rows.same(row, last):
                    continue
                last = row
                if not rows.reason[row]:
                    left -= 1
                    segments.rows[kept] = row
                    kept += 1
                    segments.fres[count - 1] = kept
                    segments.size[count - 1] += rows.size(row)
        segments.first[run_rows.shape[0] - 1] = count
        return kept


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def put(out: U8, at: cython.longlong, value: cython.ulonglong, size: cython.int, big: cython.int) -> cython.void:
    """Store the low `size` bytes of a value: nearly always one, for which there is no loop."""
    byte: cython.int
    if size == 1:
        out[at] = value & 0xFF
        return
    for byte in range(size):
        out[at + (size - 1 - byte if big else byte)] = value >> 8 * byte & 0xFF


@cython.ccall
@cython.exceptval(check=False)
def encode(
    big: cython.int,
    prefix: cython.longlong,
    rows: FreRows,
    segments: Segments,
    segment: ConstI64,
    start_size: ConstU8,
    out: U8,
) -> cython.void:
    """Write a block for each element of `segment`, with start addresses of `start_size` bytes. The `prefix` bytes
    before each block are left as they are."""
    block: cython.longlong
    number: cython.longlong
    index: cython.longlong
    at: cython.longlong = 0
    row: cython.longlong
    word: cython.int
    info: cython.int
    width: cython.int
    with cython.nogil:
        for block in range(segment.shape[0]):
            number = segment[block]
            at += prefix
            for index in range(segments.first_fre(number), segments.fres[number]):
                row = segments.rows[index]
                info = rows.info[row]
                put(out, at, rows.offset[row] - segments.start[number], start_size[block], big)
                at += start_size[block]
                out[at] = info
                at += 1
                width = 1 << (info >> SIZE_SHIFT & SIZE_MASK)
                for word in range(info >> COUNT_SHIFT & COUNT_MASK):
                    put(out, at, rows.words[row, word] & WORD, width, big)
                    at += width


@cython.final
@cython.cclass
class Blocks:
    """Blocks of FREs to read: the offset of each, its number of FREs, the bytes of their start addresses, and the most
    words that one may have."""

    def __init__(self, offset: ConstI64, count: ConstI64, start_size: ConstU8, most: ConstU8) -> None:
        self.offset = offset
        self.count = count
        self.start_size = start_size
        self.most = most


@cython.final
@cython.cclass
class Fres:
    """FREs as stored: start address, info byte and words, which are 0 where an FRE has no more; words without a column
    are read over."""

    def __init__(self, start: U64, info: U8, words: I32_2D) -> None:
        self.start = start
        self.info = info
        self.words = words

    def copy(self, source: cython.longlong, to: cython.longlong) -> None:
        """Overwrite an FRE with another one."""
        word: cython.int
        self.start[to] = self.start[source]
        self.info[to] = self.info[source]
        for word in range(self.words.shape[1]):
            self.words[to, word] = self.words[source, word]

    def read(
        self,
        reader: Reader,
        start_size: cython.int,
        minimum: cython.int,
        most: cython.int,
        index: cython.longlong,
    ) -> None:
        """Read one FRE, of `minimum` up to `most` words."""
        value: cython.longlong
        word: cython.int
        count: cython.int
        size: cython.int
        self.start[index] = reader.fixed(start_size)
        self.info[index] = reader.fixed(1)
        count = self.info[index] >> COUNT_SHIFT & COUNT_MASK
        size = self.info[index] >> SIZE_SHIFT & SIZE_MASK
        for word in range(self.words.shape[1]):
            self.words[index, word] = 0
        if reader.fault:
            return
        if size > SIZE_4B:
            reader.fault = BAD_OFFSET_SIZE
            return
        if count < minimum or count > most:
            reader.fault = BAD_OFFSET_COUNT
            return
        size = 1 << size
        for word in range(count):
            value = cython.cast(cython.longlong, reader.fixed(size))
            if value >> (8 * size - 1):
                value -= cython.cast(cython.longlong, 1) << 8 * size
            if word < self.words.shape[1]:
                self.words[index, word] = value


@cython.ccall
@cython.exceptval(-1, check=False)
def decode(reader: Reader, minimum: cython.int, ascending: cython.int, blocks: Blocks, fres: Fres) -> cython.longlong:
    """Read the FREs of all blocks, one block after the other; return how many blocks were read.

    These are all, unless there is a fault: then the reader is at the FRE. An FRE has `minimum` words or more; unless
    `ascending`, start addresses may come in any order.
    """
    block: cython.longlong
    index: cython.longlong
    at: cython.longlong
    count: cython.longlong = 0
    with cython.nogil:
        for block in range(blocks.offset.shape[0]):
            reader.offset = blocks.offset[block]
            for index in range(blocks.count[block]):
                at = reader.offset
                fres.read(reader, blocks.start_size[block], minimum, blocks.most[block], count)
                if ascending and index and not reader.fault and fres.start[count] <= fres.start[count - 1]:
                    reader.fault = FRES_DESCEND
                if reader.fault:
                    reader.offset = at
                    return block
                count += 1
        return blocks.offset.shape[0]
