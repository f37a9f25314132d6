# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""`.eh_frame` and `.debug_frame` in bulk: where entries stand, what FDEs cover, which have equal instructions.

Strategy: three passes over columns. `scan` walks the lengths; `functions` reads each FDE's header by
what its CIE says; `intern` gives FDEs with equal instruction bytes and equal CIEs one run.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from . import pure as cython

from ...schemas import pointers, wire
from .protocol import EntryMark, Fault

if not cython.compiled:
    from .reads import fixed, sleb, uleb

LENGTH_RESERVED = cython.declare(cython.ulonglong, wire.LENGTH_RESERVED)
LENGTH_DWARF64 = cython.declare(cython.ulonglong, wire.LENGTH_DWARF64)

FORMAT_MASK = cython.declare(cython.int, pointers.FORMAT_MASK)
APPLICATION_MASK = cython.declare(cython.int, pointers.APPLICATION_MASK)
ULEB128 = cython.declare(cython.int, int(pointers.DW_EH_PE.uleb128))
SLEB128 = cython.declare(cython.int, int(pointers.DW_EH_PE.sleb128))
SIGNED = cython.declare(cython.int, int(pointers.DW_EH_PE.signed))
PCREL = cython.declare(cython.int, int(pointers.DW_EH_PE.pcrel))
FUNCREL = cython.declare(cython.int, int(pointers.DW_EH_PE.funcrel))
ALIGNED = cython.declare(cython.int, int(pointers.DW_EH_PE.aligned))
OMIT = cython.declare(cython.int, int(pointers.DW_EH_PE.omit))

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
    data: cython.const[cython.uchar][::1],
    big: cython.int,
    id_size: cython.int,
    relative: cython.int,
    cie_id32: cython.ulonglong,
    cie_id64: cython.ulonglong,
    offset: cython.longlong[::1],
    body: cython.longlong[::1],
    end: cython.longlong[::1],
    cie: cython.longlong[::1],
    cursor: cython.longlong[::1],
) -> cython.longlong:
    """Fill the four columns, an element an entry; return how many. `id_size` 0 means a section offset's.

    `cie` is the section offset of an FDE's CIE (CIE_OUTSIDE where that lies outside the section). At a
    fault cursor[1] names it and cursor[0] is where the entry starts.
    """
    size: cython.longlong = data.shape[0]
    at: cython.longlong = 0
    start: cython.longlong
    target: cython.longlong
    length: cython.ulonglong
    entry_id: cython.ulonglong
    width: cython.int
    is64: cython.int
    count: cython.longlong = 0
    while at < size:
        cursor[0] = at
        length = fixed(data, cursor, size, 4, big)
        is64 = length == LENGTH_DWARF64
        if is64:
            length = fixed(data, cursor, size, 8, big)
        elif length >= LENGTH_RESERVED:
            cursor[1] = RESERVED_LENGTH
        start = cursor[0]
        if not cursor[1] and length > cython.cast(cython.ulonglong, size - start):
            cursor[1] = LENGTH_PAST_END
        width = id_size if id_size else (8 if is64 else 4)
        offset[count] = at
        if not cursor[1] and length == 0 and not is64:
            body[count] = end[count] = start
            cie[count] = IS_TERMINATOR
            count += 1
            at = start
            continue
        if not cursor[1] and length < cython.cast(cython.ulonglong, width):
            cursor[1] = NO_ROOM_FOR_ID
        entry_id = fixed(data, cursor, size, width, big) if not cursor[1] else 0
        if cursor[1]:
            cursor[0] = at
            return count
        if entry_id == (cie_id64 if is64 else cie_id32):
            cie[count] = IS_CIE
        elif relative:
            target = (
                start - cython.cast(cython.longlong, entry_id)
                if entry_id <= cython.cast(cython.ulonglong, start)
                else CIE_OUTSIDE
            )
            cie[count] = target
        else:
            target = (
                cython.cast(cython.longlong, entry_id)
                if entry_id < cython.cast(cython.ulonglong, size)
                else CIE_OUTSIDE
            )
            cie[count] = target
        body[count] = start + width
        at = start + cython.cast(cython.longlong, length)
        end[count] = at
        count += 1
    return count


@cython.cfunc
@cython.exceptval(check=False)
def pointer(
    data: cython.const[cython.uchar][::1],
    cursor: cython.longlong[::1],
    end: cython.longlong,
    encoding: cython.int,
    sizes: cython.const[cython.uchar][::1],
    address_size: cython.int,
    big: cython.int,
    bases: cython.ulonglong[::1],
) -> cython.ulonglong:
    """The address that a DW_EH_PE value at the cursor stands for, modulo 2**64 (callers cut it to the address size).

    `sizes` gives the bytes of each format (0 an address, 255 a LEB128); `bases` holds the base of each
    application (index: bits 4 to 6) but DW_EH_PE_pcrel's, which is bases[1] + the value's section offset.
    A stored 0 stands for no address, whatever its application: callers ask `cursor[2]`, the stored value.
    """
    application: cython.int = encoding & APPLICATION_MASK
    size: cython.int
    value: cython.ulonglong = 0
    sign: cython.ulonglong
    place: cython.longlong = cursor[0]
    if application == ALIGNED:
        place += (address_size - 1) - (bases[1] + place + address_size - 1) % address_size
        cursor[0] = place
        size = address_size
        encoding = 0
    else:
        size = sizes[encoding & FORMAT_MASK]
        if size == 0:
            size = address_size
    if encoding & FORMAT_MASK == ULEB128:
        value = uleb(data, cursor, end)
    elif encoding & FORMAT_MASK == SLEB128:
        value = cython.cast(cython.ulonglong, sleb(data, cursor, end) & 0xFFFFFFFFFFFFFFFF)
    else:
        value = fixed(data, cursor, end, size, big)
        if encoding & SIGNED and size < 8:
            sign = cython.cast(cython.ulonglong, 1) << (8 * size - 1)
            value = (value ^ sign) + (0xFFFFFFFFFFFFFFFF - sign + 1) & 0xFFFFFFFFFFFFFFFF
    cursor[2] = 1 if value else 0
    if application == PCREL:
        return value + bases[1] + place & 0xFFFFFFFFFFFFFFFF
    return value + bases[application >> 4] & 0xFFFFFFFFFFFFFFFF


@cython.ccall
@cython.exceptval(-1, check=False)
def functions(
    data: cython.const[cython.uchar][::1],
    big: cython.int,
    sizes: cython.const[cython.uchar][::1],
    bases: cython.ulonglong[::1],
    body: cython.const[cython.longlong][::1],
    end: cython.const[cython.longlong][::1],
    cie: cython.const[cython.longlong][::1],
    address_encoding: cython.const[cython.uchar][::1],
    lsda_encoding: cython.const[cython.uchar][::1],
    is_augmented: cython.const[cython.uchar][::1],
    address_size: cython.const[cython.uchar][::1],
    segment_size: cython.const[cython.uchar][::1],
    start: cython.ulonglong[::1],
    size: cython.ulonglong[::1],
    segment: cython.ulonglong[::1],
    lsda: cython.ulonglong[::1],
    has_lsda: cython.uchar[::1],
    instructions: cython.longlong[::1],
    cursor: cython.longlong[::1],
) -> cython.longlong:
    """Read the header of every FDE; return how many were read (all, but for a fault at the next one).

    `cie` indexes the five CIE columns. Starts, sizes and LSDAs are addresses cut to the address size;
    `instructions` is the section offset behind the header.
    """
    index: cython.longlong
    number: cython.longlong
    limit: cython.longlong
    length: cython.ulonglong
    mask: cython.ulonglong
    encoding: cython.int
    for index in range(body.shape[0]):
        number = cie[index]
        limit = end[index]
        encoding = address_encoding[number]
        mask = (
            0xFFFFFFFFFFFFFFFF
            if address_size[number] == 8
            else ((cython.cast(cython.ulonglong, 1) << 8 * address_size[number]) - 1)
        )
        cursor[0] = body[index]
        segment[index] = 0
        if segment_size[number]:
            segment[index] = fixed(data, cursor, limit, segment_size[number], big)
        start[index] = pointer(data, cursor, limit, encoding, sizes, address_size[number], big, bases) & mask
        # The range has the format of an address, never its sign or its application (LSB Core 10.6.1.2).
        if encoding & APPLICATION_MASK == ALIGNED:
            encoding = 0
        encoding &= FORMAT_MASK
        if encoding == SLEB128:
            # A negative size is none at all: modulo the address size it is refused as too large below.
            size[index] = cython.cast(cython.ulonglong, sleb(data, cursor, limit) & 0xFFFFFFFFFFFFFFFF) & mask
        else:
            size[index] = (
                pointer(data, cursor, limit, encoding & ~SIGNED, sizes, address_size[number], big, bases) & mask
            )
        lsda[index] = 0
        has_lsda[index] = 0
        if is_augmented[number] and not cursor[1]:
            length = uleb(data, cursor, limit)
            if not cursor[1] and length > cython.cast(cython.ulonglong, limit - cursor[0]):
                cursor[1] = AUGMENTATION_PAST_END
            if not cursor[1] and lsda_encoding[number] != OMIT and length:
                limit = cursor[0] + cython.cast(cython.longlong, length)
                bases[FUNCREL >> 4] = start[index]
                lsda[index] = (
                    pointer(data, cursor, limit, lsda_encoding[number], sizes, address_size[number], big, bases) & mask
                )
                has_lsda[index] = cursor[2]
                if not cursor[2]:
                    lsda[index] = 0
                bases[FUNCREL >> 4] = 0
                cursor[0] = limit
            elif not cursor[1]:
                cursor[0] += cython.cast(cython.longlong, length)
        if cursor[1]:
            return index
        instructions[index] = cursor[0]
    return body.shape[0]


@cython.ccall
@cython.exceptval(-1, check=False)
def intern(
    data: cython.const[cython.uchar][::1],
    start: cython.const[cython.longlong][::1],
    end: cython.const[cython.longlong][::1],
    kind: cython.const[cython.longlong][::1],
    base: cython.ulonglong,
    slots: cython.longlong[::1],
    hashes: cython.ulonglong[::1],
    run: cython.uint[::1],
    first: cython.longlong[::1],
) -> cython.longlong:
    """Give equal byte ranges (of equal `kind`) one number in `run`, in order of appearance; return how many.

    `first` is the range that each number appeared with. `slots` is the open hash table: all -1, its length
    a power of two above twice the ranges. `base`, drawn anew for each call and below 2**31, keeps
    an adversary from choosing ranges that collide.
    """
    prime: cython.ulonglong = 0x7FFFFFFF
    mask: cython.longlong = slots.shape[0] - 1
    count: cython.longlong = 0
    index: cython.longlong
    other: cython.longlong
    slot: cython.longlong
    step: cython.longlong
    length: cython.longlong
    value: cython.ulonglong
    for index in range(start.shape[0]):
        length = end[index] - start[index]
        value = cython.cast(cython.ulonglong, kind[index] * 2 + 1) % prime
        for step in range(start[index], end[index]):
            value = (value * base + data[step] + 1) % prime
        slot = cython.cast(cython.longlong, value) & mask
        while slots[slot] >= 0:
            other = first[slots[slot]]
            if hashes[slots[slot]] == value and kind[other] == kind[index] and end[other] - start[other] == length:
                step = 0
                while step < length and data[start[other] + step] == data[start[index] + step]:
                    step += 1
                if step == length:
                    break
            slot = slot + 1 & mask
        if slots[slot] < 0:
            slots[slot] = count
            first[count] = index
            hashes[count] = value
            count += 1
        run[index] = cython.cast(cython.uint, slots[slot])
    return count
