# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Directories and files of line number program headers, value by value, by the forms that the headers say.

Strategy: up to version 4 a table has one format for all and ends with a zero byte, from 5 on formats and a count of
its own. Runs twice, without room only to count. What a value says is not looked at.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from . import pure as cython

from .protocol import Fault, LineCount, Storage, UnitField

if not cython.compiled:
    from .reads import Reader

CUT = cython.declare(cython.int, int(Fault.CUT))
UNKNOWN_FORM = cython.declare(cython.int, int(Fault.UNKNOWN_FORM))
NO_FORMAT = cython.declare(cython.int, int(Fault.NO_FORMAT))

F_HEADER = cython.declare(cython.int, int(UnitField.HEADER))
F_PROGRAM = cython.declare(cython.int, int(UnitField.PROGRAM))
F_HAS_FORMATS = cython.declare(cython.int, int(UnitField.HAS_FORMATS))
F_OFFSET_SIZE = cython.declare(cython.int, int(UnitField.OFFSET_SIZE))

FIXED_MAX = cython.declare(cython.int, 16)
WORD = cython.declare(cython.int, 8)
IS_UNKNOWN = cython.declare(cython.int, int(Storage.UNKNOWN))
IS_ULEB = cython.declare(cython.int, int(Storage.ULEB))
IS_SLEB = cython.declare(cython.int, int(Storage.SLEB))
IS_STRING = cython.declare(cython.int, int(Storage.STRING))
IS_SECTION_OFFSET = cython.declare(cython.int, int(Storage.SECTION_OFFSET))
IS_BLOCK = cython.declare(cython.int, int(Storage.BLOCK))
BLOCK_BASE = cython.declare(cython.int, int(Storage.BLOCK1) - 1)

FORMATS = cython.declare(cython.int, int(LineCount.FORMATS))
VALUES = cython.declare(cython.int, int(LineCount.VALUES))
ALL_ONES = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)


@cython.cfunc
@cython.exceptval(check=False)
def skip(reader: Reader, size: cython.ulonglong) -> cython.void:
    """Pass over some bytes, which have to be there."""
    if reader.offset > reader.end or size > cython.cast(cython.ulonglong, reader.end - reader.offset):
        reader.fault = CUT
    else:
        reader.offset += cython.cast(cython.longlong, size)


@cython.cfunc
@cython.exceptval(check=False)
def value(reader: Reader, storage: cython.int, offset_size: cython.int) -> cython.ulonglong:
    """One value: a number, or, of a string, a block and 16 bytes, how many bytes it has; the reader is behind it."""
    start: cython.longlong
    size: cython.ulonglong
    if storage == IS_ULEB:
        return reader.uleb()
    if storage == IS_SECTION_OFFSET:
        return reader.fixed(offset_size)
    if storage == IS_STRING:
        start = reader.offset
        while reader.offset < reader.end and reader.data[reader.offset]:
            reader.offset += 1
        if reader.offset >= reader.end:
            reader.fault = CUT
            return 0
        reader.offset += 1
        return cython.cast(cython.ulonglong, reader.offset - 1 - start)
    if storage == IS_UNKNOWN:
        reader.fault = UNKNOWN_FORM
        return 0
    if storage <= WORD:
        return reader.fixed(storage)
    if storage <= FIXED_MAX:
        skip(reader, cython.cast(cython.ulonglong, storage))
        return cython.cast(cython.ulonglong, storage)
    if storage == IS_SLEB:
        return cython.cast(cython.ulonglong, reader.sleb() & ALL_ONES)
    size = reader.uleb() if storage == IS_BLOCK else reader.fixed(storage - BLOCK_BASE)
    if not reader.fault:
        skip(reader, size)
    return size


@cython.ccall
@cython.exceptval(-1, check=False)
def tables(
    reader: Reader,
    unit: cython.const[cython.longlong][:, ::1],
    storages: cython.const[cython.uchar][::1],
    form_storage: cython.uchar[::1],
    old_count: cython.const[cython.longlong][::1],
    old_content: cython.const[cython.ulonglong][::1],
    old_form: cython.const[cython.ulonglong][::1],
    count: cython.longlong[::1],
    place: cython.longlong[::1],
    first_format: cython.longlong[::1],
    first_value: cython.longlong[::1],
    content: cython.ulonglong[::1],
    form: cython.ulonglong[::1],
    number: cython.ulonglong[::1],
    start: cython.longlong[::1],
) -> cython.longlong:
    """Read both tables of each unit; return how many tables were read (all, but for a fault in the next one).

    `storages` has the storage of each form, by its number; `form_storage` is room for 256. Up to version 4 the formats
    of table t of a unit (0: directories, 1: files) are the next old_count[t] of the `old` ones. Table 2u + t of unit u
    has the formats (their contents and forms) from `first_format` on and the values from `first_value` on, up to the
    next table's, and starts at `place`; of a value its number (see `value`) and the offset where it starts. Without
    room for values the two counts alone. At a fault the reader stands in the value.
    """
    index: cython.longlong
    which: cython.int
    one: cython.int
    old: cython.longlong
    formats: cython.longlong = 0
    values: cython.longlong = 0
    begin: cython.longlong
    entries: cython.ulonglong
    form_count: cython.int
    fills: cython.int = start.shape[0] > 0
    fills_formats: cython.int = form.shape[0] > 0
    formats_at: cython.longlong
    kind: cython.ulonglong
    found: cython.ulonglong
    known: cython.int = cython.cast(cython.int, storages.shape[0])
    offset_size: cython.int
    for index in range(unit.shape[0]):
        reader.offset = unit[index, F_HEADER]
        reader.end = unit[index, F_PROGRAM]
        offset_size = cython.cast(cython.int, unit[index, F_OFFSET_SIZE])
        old = 0
        for which in range(2):
            begin = reader.offset
            formats_at = formats
            if unit[index, F_HAS_FORMATS]:
                form_count = cython.cast(cython.int, reader.fixed(1))
            else:
                form_count = cython.cast(cython.int, old_count[which])
            for one in range(form_count):
                if unit[index, F_HAS_FORMATS]:
                    found = reader.uleb()
                    kind = reader.uleb()
                else:
                    found = old_content[old]
                    kind = old_form[old]
                    old += 1
                if reader.fault:
                    return 2 * index + which
                if fills_formats:
                    content[formats] = found
                    form[formats] = kind
                formats += 1
                # One that is not known is a fault where a value of it is: there may be none.
                form_storage[one] = (
                    storages[cython.cast(cython.longlong, kind)]
                    if kind < cython.cast(cython.ulonglong, known)
                    else IS_UNKNOWN
                )
            entries = reader.uleb() if unit[index, F_HAS_FORMATS] else ALL_ONES
            if form_count == 0 and entries:
                reader.fault = NO_FORMAT
            if reader.fault:
                return 2 * index + which
            if place.shape[0]:
                place[2 * index + which] = begin
                first_format[2 * index + which] = formats_at
                first_value[2 * index + which] = values
            while entries:
                if not unit[index, F_HAS_FORMATS]:
                    if reader.offset >= reader.end:
                        reader.fault = CUT
                        return 2 * index + which
                    if reader.data[reader.offset] == 0:
                        reader.offset += 1
                        break
                entries -= 1
                for one in range(form_count):
                    begin = reader.offset
                    found = value(reader, form_storage[one], offset_size)
                    if reader.fault:
                        return 2 * index + which
                    if fills:
                        number[values] = found
                        start[values] = begin
                    values += 1
    count[FORMATS] = formats
    count[VALUES] = values
    if place.shape[0]:
        first_format[2 * unit.shape[0]] = formats
        first_value[2 * unit.shape[0]] = values
    return 2 * unit.shape[0]


@cython.ccall
@cython.exceptval(-1, check=False)
def entries(
    reader: Reader,
    place: cython.const[cython.longlong][::1],
    storage: cython.const[cython.uchar][::1],
    number: cython.ulonglong[:, ::1],
    start: cython.longlong[:, ::1],
) -> cython.longlong:
    """Read single entries, of values of these storages, at some places; return how many were read (all, but for a fault
    in the next one). `number` and `start` get a row of values each, as of `tables`."""
    index: cython.longlong
    one: cython.longlong
    for index in range(place.shape[0]):
        reader.offset = place[index]
        for one in range(storage.shape[0]):
            start[index, one] = reader.offset
            number[index, one] = value(reader, storage[one], 0)
        if reader.fault:
            return index
    return place.shape[0]
