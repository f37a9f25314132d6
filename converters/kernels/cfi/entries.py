# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""`.eh_frame` and `.debug_frame` in bulk: the bounds of entries, and the headers of FDEs.

Strategy: `scan` walks the lengths; `read_functions` reads the header of each FDE in the format that its CIE gives.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from ....schemas import pointers, wire
from ..protocol import Fault
from .protocol import EntryMark

if not cython.compiled:
    from ..array_types import I64, U8, U64, ConstI64
    from ..shared.reads import Reader
    from .records import Cies

LENGTH_RESERVED = cython.declare(cython.ulonglong, wire.LENGTH_RESERVED)
LENGTH_DWARF64 = cython.declare(cython.ulonglong, wire.LENGTH_DWARF64)

FORMAT_MASK = cython.declare(cython.int, pointers.FORMAT_MASK)
APPLICATION_MASK = cython.declare(cython.int, pointers.APPLICATION_MASK)
SIGNED = cython.declare(cython.int, int(pointers.DW_EH_PE.signed))
SLEB128 = cython.declare(cython.int, int(pointers.DW_EH_PE.sleb128))
FUNCREL = cython.declare(cython.int, int(pointers.DW_EH_PE.funcrel))
ALIGNED = cython.declare(cython.int, int(pointers.DW_EH_PE.aligned))
OMIT = cython.declare(cython.int, int(pointers.DW_EH_PE.omit))
ALL_ONES = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)

RESERVED_LENGTH = cython.declare(cython.int, int(Fault.RESERVED_LENGTH))
LENGTH_PAST_END = cython.declare(cython.int, int(Fault.LENGTH_PAST_END))
ID_PAST_END = cython.declare(cython.int, int(Fault.ID_PAST_END))
AUGMENTATION_PAST_END = cython.declare(cython.int, int(Fault.AUGMENTATION_PAST_END))

IS_CIE = cython.declare(cython.longlong, int(EntryMark.IS_CIE))
IS_TERMINATOR = cython.declare(cython.longlong, int(EntryMark.IS_TERMINATOR))
CIE_OUTSIDE = cython.declare(cython.longlong, int(EntryMark.CIE_OUTSIDE))


@cython.final
@cython.cclass
class Entries:
    """CIEs, FDEs and terminators: section offsets of the entry, of what follows the ID, of its end, and of an FDE's
    CIE, or else an `EntryMark`. Adjacent terminators are one entry."""

    def __init__(self, offset: I64, body: I64, end: I64, cie: I64) -> None:
        self.offset = offset
        self.body = body
        self.end = end
        self.cie = cie


@cython.final
@cython.cclass
class Dialect:
    """How IDs are stored: `id_size` bytes (0: a section offset's), and their values in CIEs, in 32-bit and 64-bit
    DWARF. CIE pointers are `relative` to their own offset, or to the section."""

    def __init__(
        self, id_size: cython.int, relative: cython.int, cie_id32: cython.ulonglong, cie_id64: cython.ulonglong
    ) -> None:
        self.id_size = id_size
        self.relative = relative
        self.cie_id32 = cie_id32
        self.cie_id64 = cie_id64

    def cie_of(
        self, entry_id: cython.ulonglong, offset: cython.longlong, size: cython.longlong, is64: cython.int
    ) -> cython.longlong:
        """The offset of an entry's CIE, or an `EntryMark`. The ID is at `offset` in a section of `size` bytes."""
        if entry_id == (self.cie_id64 if is64 else self.cie_id32):
            return IS_CIE
        if entry_id > cython.cast(cython.ulonglong, offset if self.relative else size - 1):
            return CIE_OUTSIDE
        if self.relative:
            return offset - cython.cast(cython.longlong, entry_id)
        return cython.cast(cython.longlong, entry_id)


@cython.ccall
@cython.exceptval(-1, check=False)
def scan(reader: Reader, dialect: Dialect, entries: Entries) -> cython.longlong:
    """Find all entries; return how many there are. At a fault the reader is at the start of the entry."""
    size: cython.longlong = reader.end
    at: cython.longlong = 0
    start: cython.longlong
    length: cython.ulonglong
    entry_id: cython.ulonglong
    width: cython.int
    is64: cython.int
    count: cython.longlong = 0
    with cython.nogil:
        while at < size:
            reader.offset = at
            length = reader.fixed(4)
            is64 = length == LENGTH_DWARF64
            if is64:
                length = reader.fixed(8)
            elif length >= LENGTH_RESERVED:
                reader.fault = RESERVED_LENGTH
            start = reader.offset
            if not reader.fault and length > cython.cast(cython.ulonglong, size - start):
                reader.fault = LENGTH_PAST_END
            width = dialect.id_size or (8 if is64 else 4)
            if not reader.fault and length == 0 and not is64:
                # A megabyte of zeros would be a quarter of a million entries.
                if count == 0 or entries.cie[count - 1] != IS_TERMINATOR:
                    entries.offset[count] = at
                    entries.cie[count] = IS_TERMINATOR
                    count += 1
                entries.body[count - 1] = entries.end[count - 1] = start
                at = start
                continue
            if not reader.fault and length < cython.cast(cython.ulonglong, width):
                reader.fault = ID_PAST_END
            entry_id = reader.fixed(width) if not reader.fault else 0
            if reader.fault:
                reader.offset = at
                return count
            entries.offset[count] = at
            entries.cie[count] = dialect.cie_of(entry_id, start, size, is64)
            entries.body[count] = start + width
            at = start + cython.cast(cython.longlong, length)
            entries.end[count] = at
            count += 1
        return count


@cython.final
@cython.cclass
class Functions:
    """FDEs: initial location, address range, segment selector and LSDA, cut to the address size; and the section
    offsets of the augmentation `data` and of the `instructions`."""

    def __init__(
        self, start: U64, size: U64, segment: U64, lsda: U64, has_lsda: U8, data: I64, instructions: I64
    ) -> None:
        self.start = start
        self.size = size
        self.segment = segment
        self.lsda = lsda
        self.has_lsda = has_lsda
        self.data = data
        self.instructions = instructions

    def read_range(self, reader: Reader, cies: Cies, cie: cython.longlong, index: cython.longlong) -> None:
        """Read the segment selector, the initial location and the address range of an FDE."""
        encoding: cython.int = cies.address_encoding[cie]
        width: cython.int = cies.address_size[cie]
        mask: cython.ulonglong = address_mask(width)
        if cies.segment_size[cie]:
            self.segment[index] = reader.fixed(cies.segment_size[cie])
        self.start[index] = reader.pointer(encoding, width) & mask
        # The range has the format of an address, never its sign or its application (LSB Core 10.6.1.2).
        encoding = 0 if encoding & APPLICATION_MASK == ALIGNED else encoding & FORMAT_MASK
        if encoding == SLEB128:
            # A negative range is modulo the address size here, and refused as too large.
            self.size[index] = cython.cast(cython.ulonglong, reader.sleb() & ALL_ONES) & mask
        else:
            self.size[index] = reader.pointer(encoding & ~SIGNED, width) & mask

    def read_augmentation(self, reader: Reader, cies: Cies, cie: cython.longlong, index: cython.longlong) -> None:
        """Read the augmentation data of an FDE whose CIE has some; the reader is then after it."""
        length: cython.ulonglong = reader.uleb()
        width: cython.int = cies.address_size[cie]
        if not reader.fault and length > cython.cast(cython.ulonglong, reader.end - reader.offset):
            reader.fault = AUGMENTATION_PAST_END
        self.data[index] = reader.offset
        if reader.fault:
            return
        reader.end = reader.offset + cython.cast(cython.longlong, length)
        if cies.lsda_encoding[cie] != OMIT and length:
            reader.bases[FUNCREL >> 4] = self.start[index]
            self.lsda[index] = reader.pointer(cies.lsda_encoding[cie], width) & address_mask(width)
            self.has_lsda[index] = not reader.was_zero
            if reader.was_zero:
                self.lsda[index] = 0
            reader.bases[FUNCREL >> 4] = 0
        if not reader.fault:
            reader.offset = reader.end


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def address_mask(size: cython.int) -> cython.ulonglong:
    """The largest address of `size` bytes."""
    return ALL_ONES if size == 8 else (cython.cast(cython.ulonglong, 1) << 8 * size) - 1


@cython.ccall
@cython.exceptval(-1, check=False)
def read_functions(
    reader: Reader, cies: Cies, body: ConstI64, end: ConstI64, cie: ConstI64, functions: Functions
) -> cython.longlong:
    """Read the header of every FDE, from `body` on; return how many were read: all, unless the next one has a fault.

    `cie` is the index of each FDE's CIE. Columns of `functions` are all 0: where an FDE has no segment selector and no
    LSDA, nothing is written.
    """
    index: cython.longlong
    with cython.nogil:
        for index in range(body.shape[0]):
            reader.offset = body[index]
            reader.end = end[index]
            functions.read_range(reader, cies, cie[index], index)
            functions.data[index] = reader.offset
            if cies.is_augmented[cie[index]] and not reader.fault:
                functions.read_augmentation(reader, cies, cie[index], index)
            if reader.fault:
                return index
            functions.instructions[index] = reader.offset
        return body.shape[0]


@cython.ccall
@cython.exceptval(-1, check=False)
def values(
    reader: Reader, offset: cython.longlong, form: cython.int, address_size: cython.int, value: U64
) -> cython.longlong:
    """Fill `value` with the values of a DW_EH_PE format from `offset` on, sign-extended; return the offset after them,
    or that of a value with a fault."""
    index: cython.longlong
    with cython.nogil:
        reader.offset = offset
        for index in range(value.shape[0]):
            value[index] = reader.pointer(form & FORMAT_MASK, address_size)
            if reader.fault:
                break
        return reader.offset
