# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""`.eh_frame` and `.debug_frame` in bulk: where entries stand, what FDEs cover, which have equal instructions.

Strategy: three passes over columns. `scan` walks the lengths; `functions` reads each FDE's header by
what its CIE says; `intern` gives FDEs with equal instruction bytes and equal CIEs one run.
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
    from ..array_types import I64, U8, U64, ConstI64, ConstU8
    from ..shared.reads import Reader

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
NO_ROOM_FOR_ID = cython.declare(cython.int, int(Fault.NO_ROOM_FOR_ID))
AUGMENTATION_PAST_END = cython.declare(cython.int, int(Fault.AUGMENTATION_PAST_END))

IS_CIE = cython.declare(cython.longlong, int(EntryMark.IS_CIE))
IS_TERMINATOR = cython.declare(cython.longlong, int(EntryMark.IS_TERMINATOR))
CIE_OUTSIDE = cython.declare(cython.longlong, int(EntryMark.CIE_OUTSIDE))


@cython.ccall
@cython.exceptval(-1, check=False)
def scan(
    reader: Reader,
    id_size: cython.int,
    relative: cython.int,
    cie_id32: cython.ulonglong,
    cie_id64: cython.ulonglong,
    offset: I64,
    body: I64,
    end: I64,
    cie: I64,
) -> cython.longlong:
    """Fill the four columns, an element an entry; return how many. `id_size` 0 means a section offset's.

    `cie` is the section offset of an FDE's CIE (CIE_OUTSIDE where that lies outside the section). At a
    fault the reader stands where the entry starts.
    """
    size: cython.longlong = reader.end
    at: cython.longlong = 0
    start: cython.longlong
    length: cython.ulonglong
    entry_id: cython.ulonglong
    width: cython.int
    is64: cython.int
    count: cython.longlong = 0
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
        width = id_size if id_size else (8 if is64 else 4)
        offset[count] = at
        if not reader.fault and length == 0 and not is64:
            body[count] = end[count] = start
            cie[count] = IS_TERMINATOR
            count += 1
            at = start
            continue
        if not reader.fault and length < cython.cast(cython.ulonglong, width):
            reader.fault = NO_ROOM_FOR_ID
        entry_id = reader.fixed(width) if not reader.fault else 0
        if reader.fault:
            reader.offset = at
            return count
        if entry_id == (cie_id64 if is64 else cie_id32):
            cie[count] = IS_CIE
        elif entry_id > cython.cast(cython.ulonglong, start if relative else size - 1):
            cie[count] = CIE_OUTSIDE
        elif relative:
            cie[count] = start - cython.cast(cython.longlong, entry_id)
        else:
            cie[count] = cython.cast(cython.longlong, entry_id)
        body[count] = start + width
        at = start + cython.cast(cython.longlong, length)
        end[count] = at
        count += 1
    return count


@cython.ccall
@cython.exceptval(-1, check=False)
def functions(
    reader: Reader,
    body: ConstI64,
    end: ConstI64,
    cie: ConstI64,
    address_encoding: ConstU8,
    lsda_encoding: ConstU8,
    is_augmented: ConstU8,
    address_size: ConstU8,
    segment_size: ConstU8,
    start: U64,
    size: U64,
    segment: U64,
    lsda: U64,
    has_lsda: U8,
    data: I64,
    instructions: I64,
) -> cython.longlong:
    """Read the header of every FDE; return how many were read (all, but for a fault at the next one).

    `cie` indexes the five CIE columns. Starts, sizes and LSDAs are addresses cut to the address size;
    `data` is the section offset of the augmentation data, `instructions` that behind it.
    """
    index: cython.longlong
    number: cython.longlong
    length: cython.ulonglong
    mask: cython.ulonglong
    encoding: cython.int
    width: cython.int
    for index in range(body.shape[0]):
        number = cie[index]
        reader.offset = body[index]
        reader.end = end[index]
        encoding = address_encoding[number]
        width = address_size[number]
        mask = ALL_ONES if width == 8 else (cython.cast(cython.ulonglong, 1) << 8 * width) - 1
        segment[index] = reader.fixed(segment_size[number]) if segment_size[number] else 0
        start[index] = reader.pointer(encoding, width) & mask
        # The range has the format of an address, never its sign or its application (LSB Core 10.6.1.2).
        encoding = 0 if encoding & APPLICATION_MASK == ALIGNED else encoding & FORMAT_MASK
        if encoding == SLEB128:
            # A negative size is none at all: modulo the address size it is refused as too large.
            size[index] = cython.cast(cython.ulonglong, reader.sleb() & ALL_ONES) & mask
        else:
            size[index] = reader.pointer(encoding & ~SIGNED, width) & mask
        lsda[index] = 0
        has_lsda[index] = 0
        data[index] = reader.offset
        if is_augmented[number] and not reader.fault:
            length = reader.uleb()
            if not reader.fault and length > cython.cast(cython.ulonglong, reader.end - reader.offset):
                reader.fault = AUGMENTATION_PAST_END
            data[index] = reader.offset
            if not reader.fault:
                reader.end = reader.offset + cython.cast(cython.longlong, length)
                if lsda_encoding[number] != OMIT and length:
                    reader.bases[FUNCREL >> 4] = start[index]
                    lsda[index] = reader.pointer(lsda_encoding[number], width) & mask
                    has_lsda[index] = not reader.was_zero
                    if reader.was_zero:
                        lsda[index] = 0
                    reader.bases[FUNCREL >> 4] = 0
                if not reader.fault:
                    reader.offset = reader.end
        if reader.fault:
            return index
        instructions[index] = reader.offset
    return body.shape[0]


@cython.ccall
@cython.exceptval(-1, check=False)
def values(
    reader: Reader, offset: cython.longlong, form: cython.int, address_size: cython.int, value: U64
) -> cython.longlong:
    """Fill `value` with the values of a DW_EH_PE format from `offset` on, sign-extended; return the offset behind.

    At a fault the reader stands at the value.
    """
    index: cython.longlong
    reader.offset = offset
    for index in range(value.shape[0]):
        value[index] = reader.pointer(form & FORMAT_MASK, address_size)
        if reader.fault:
            break
    return reader.offset
