# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Contributions of look-up tables in bulk: their bounds, and their names (`.debug_aranges`, `.debug_pubnames` and so
on).

Strategy: `scan` walks the lengths; `read_names` walks the names of each set from its `body`. Columns without space are
not filled, so that a first call counts.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from ....schemas import wire
from ..protocol import Fault

if not cython.compiled:
    from ..array_types import I64, U8, U64, ConstI64, ConstU8
    from ..shared.reads import Reader

LENGTH_RESERVED = cython.declare(cython.ulonglong, wire.LENGTH_RESERVED)
LENGTH_DWARF64 = cython.declare(cython.ulonglong, wire.LENGTH_DWARF64)

CUT = cython.declare(cython.int, int(Fault.CUT))
RESERVED_LENGTH = cython.declare(cython.int, int(Fault.RESERVED_LENGTH))
LENGTH_PAST_END = cython.declare(cython.int, int(Fault.LENGTH_PAST_END))
NO_ZERO_BYTE = cython.declare(cython.int, int(Fault.NO_ZERO_BYTE))


@cython.ccall
@cython.exceptval(-1, check=False)
def scan(
    reader: Reader,
    padding: cython.longlong,
    offset: I64,
    body: I64,
    end: I64,
) -> cython.longlong:
    """Fill the three columns, one element per set; return the number of sets before `padding`, from where on all is 0.

    `body` is the offset after the initial length, which has 12 bytes in 64-bit DWARF, else 4. At a fault the reader is
    at the start of the set.
    """
    size: cython.longlong = reader.end
    at: cython.longlong = 0
    start: cython.longlong
    length: cython.ulonglong
    count: cython.longlong = 0
    with cython.nogil:
        while at < padding:
            reader.offset = at
            length = reader.fixed(4)
            if length == LENGTH_DWARF64:
                length = reader.fixed(8)
            elif length >= LENGTH_RESERVED:
                reader.fault = RESERVED_LENGTH
            elif length == 0 and not reader.fault:
                reader.fault = CUT
            start = reader.offset
            if not reader.fault and length > cython.cast(cython.ulonglong, size - start):
                reader.fault = LENGTH_PAST_END
            if reader.fault:
                reader.offset = at
                return count
            if count < offset.shape[0]:
                offset[count] = at
                body[count] = start
                end[count] = start + cython.cast(cython.longlong, length)
            at = start + cython.cast(cython.longlong, length)
            count += 1
        return count


@cython.final
@cython.cclass
class Sets:
    """Sets of names: bounds, the size of a section offset, and what `read_names` finds: the number of its `first` name,
    where its names end, and whether an offset of 0 ends them. `first` has one element more: the number of all names."""

    def __init__(
        self, body: ConstI64, end: ConstI64, offset_size: ConstU8, first: I64, names_end: I64, is_terminated: U8
    ) -> None:
        self.body = body
        self.end = end
        self.offset_size = offset_size
        self.first = first
        self.names_end = names_end
        self.is_terminated = is_terminated


@cython.final
@cython.cclass
class Names:
    """Names, `count` of them: the offset as stored, the byte of attributes, and the bounds of the text."""

    def __init__(self, offset: U64, attributes: U8, start: I64, size: I64) -> None:
        self.offset = offset
        self.attributes = attributes
        self.start = start
        self.size = size
        self.count = 0

    def read(self, reader: Reader, offset: cython.ulonglong, has_attributes: cython.int) -> None:
        """Read the rest of a name, and keep it if there is space."""
        attributes: cython.int = cython.cast(cython.int, reader.fixed(1)) if has_attributes else 0
        start: cython.longlong = reader.offset
        end: cython.longlong = start
        while end < reader.end and reader.data[end]:
            end += 1
        if end >= reader.end and not reader.fault:
            reader.fault = NO_ZERO_BYTE
        if reader.fault:
            return
        if self.count < self.offset.shape[0]:
            self.offset[self.count] = offset
            self.attributes[self.count] = attributes
            self.start[self.count] = start
            self.size[self.count] = end - start
        reader.offset = end + 1
        self.count += 1


@cython.ccall
@cython.exceptval(-1, check=False)
def read_names(reader: Reader, has_attributes: cython.int, sets: Sets, names: Names) -> cython.longlong:
    """Read the names of all sets; return how many sets were read: all, unless there is a fault in the next one."""
    index: cython.longlong
    offset: cython.ulonglong
    with cython.nogil:
        for index in range(sets.body.shape[0]):
            reader.offset = sets.body[index]
            reader.end = sets.end[index]
            sets.first[index] = names.count
            sets.is_terminated[index] = 0
            while reader.offset < reader.end:
                offset = reader.fixed(sets.offset_size[index])
                if offset == 0 and not reader.fault:
                    sets.is_terminated[index] = 1
                    break
                names.read(reader, offset, has_attributes)
                if reader.fault:
                    return index
            sets.names_end[index] = reader.offset
        sets.first[sets.body.shape[0]] = names.count
        return sets.body.shape[0]
