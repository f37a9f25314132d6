# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Directories and files of line number program headers, value by value, by the forms that the headers declare.

Strategy: up to version 4 a table has one format for all and ends with a zero byte, from 5 on formats and a count of
its own. Runs twice; without space it only counts. Values are not interpreted.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from ..protocol import Fault
from ..shared.protocol import Storage
from .protocol import UnitField

if not cython.compiled:
    from ..array_types import I64, I64_2D, U8, U64, U64_2D, ConstI64, ConstI64_2D, ConstU8, ConstU64
    from ..shared.reads import Reader
    from ..shared.values import stored_value

CUT = cython.declare(cython.int, int(Fault.CUT))
NO_FORMAT = cython.declare(cython.int, int(Fault.NO_FORMAT))

F_HEADER = cython.declare(cython.int, int(UnitField.HEADER))
F_PROGRAM = cython.declare(cython.int, int(UnitField.PROGRAM))
F_HAS_FORMATS = cython.declare(cython.int, int(UnitField.HAS_FORMATS))
F_OFFSET_SIZE = cython.declare(cython.int, int(UnitField.OFFSET_SIZE))

ALL_ONES = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
IS_UNKNOWN = cython.declare(cython.int, int(Storage.UNKNOWN))


@cython.final
@cython.cclass
class Tables:
    """The columns for tables, or, where these have no space, only their counts: `formats`, `values`.

    `storages` has the storage of each form, by its number; `chosen` has space for 256, those of the table that is read.
    Up to version 4 the formats of table t of a unit (0: directories, 1: files) are the next old_count[t] of the `old`
    ones. Table 2u + t of unit u has the formats (their contents and forms) from `first_format` on and the values from
    `first_value` on, up to the next table's, and starts at `place`; of a value its number (see shared/values.py),
    and the offset where it starts.
    """

    def __init__(
        self,
        storages: ConstU8,
        chosen: U8,
        old_count: ConstI64,
        old_content: ConstU64,
        old_form: ConstU64,
        place: I64,
        first_format: I64,
        first_value: I64,
        content: U64,
        form: U64,
        number: U64,
        start: I64,
    ) -> None:
        self.storages = storages
        self.chosen = chosen
        self.old_count = old_count
        self.old_content = old_content
        self.old_form = old_form
        self.place = place
        self.first_format = first_format
        self.first_value = first_value
        self.content = content
        self.form = form
        self.number = number
        self.start = start
        self.formats = self.values = self.old = 0

    def begin(self, table: cython.longlong, at: cython.longlong) -> None:
        """What a table starts with, or what follows the last one."""
        if table < self.first_value.shape[0]:
            self.place[table] = at
            self.first_format[table] = self.formats
            self.first_value[table] = self.values

    def read_formats(self, reader: Reader, has_formats: cython.int, which: cython.int) -> cython.int:
        """The formats of the next table; return how many there are."""
        count: cython.int
        one: cython.int
        content: cython.ulonglong
        form: cython.ulonglong
        count = cython.cast(cython.int, reader.fixed(1) if has_formats else self.old_count[which])
        for one in range(count):
            if has_formats:
                content = reader.uleb()
                form = reader.uleb()
            else:
                content = self.old_content[self.old]
                form = self.old_form[self.old]
                self.old += 1
            if self.formats < self.form.shape[0]:
                self.content[self.formats] = content
                self.form[self.formats] = form
            self.formats += 1
            # One that is not known is a fault where a value of it is: there may be none.
            if form < cython.cast(cython.ulonglong, self.storages.shape[0]):
                self.chosen[one] = self.storages[cython.cast(cython.longlong, form)]
            else:
                self.chosen[one] = IS_UNKNOWN
            if reader.fault:
                return 0
        return count

    def read_entry(self, reader: Reader, count: cython.int, offset_size: cython.int) -> None:
        """The values of one entry."""
        one: cython.int
        begin: cython.longlong
        found: cython.ulonglong
        for one in range(count):
            begin = reader.offset
            found = stored_value(reader, self.chosen[one], offset_size)
            if reader.fault:
                return
            if self.values < self.start.shape[0]:
                self.number[self.values] = found
                self.start[self.values] = begin
            self.values += 1

    def read_table(self, reader: Reader, has_formats: cython.int, which: cython.int, offset_size: cython.int) -> None:
        """The next table of a unit."""
        count: cython.int = self.read_formats(reader, has_formats, which)
        entries: cython.ulonglong = ALL_ONES
        if has_formats and not reader.fault:
            entries = reader.uleb()
            if count == 0 and entries and not reader.fault:
                reader.fault = NO_FORMAT
        while entries and not reader.fault:
            if not has_formats:
                if reader.offset >= reader.end:
                    reader.fault = CUT
                    return
                if reader.data[reader.offset] == 0:
                    reader.offset += 1
                    return
            entries -= 1
            self.read_entry(reader, count, offset_size)


@cython.ccall
@cython.exceptval(-1, check=False)
def read(reader: Reader, unit: ConstI64_2D, tables: Tables) -> cython.longlong:
    """Read both tables of each unit; return how many tables were read (all, but for a fault in the next one).

    At a fault the reader is in the value.
    """
    index: cython.longlong
    which: cython.int
    with cython.nogil:
        for index in range(unit.shape[0]):
            reader.offset = unit[index, F_HEADER]
            reader.end = unit[index, F_PROGRAM]
            tables.old = 0
            for which in range(2):
                tables.begin(2 * index + which, reader.offset)
                tables.read_table(
                    reader,
                    cython.cast(cython.int, unit[index, F_HAS_FORMATS]),
                    which,
                    cython.cast(cython.int, unit[index, F_OFFSET_SIZE]),
                )
                if reader.fault:
                    return 2 * index + which
        tables.begin(2 * unit.shape[0], 0)
        return 2 * unit.shape[0]


@cython.ccall
@cython.exceptval(-1, check=False)
def entries(
    reader: Reader,
    place: ConstI64,
    storage: ConstU8,
    number: U64_2D,
    start: I64_2D,
) -> cython.longlong:
    """Read single entries, of values of these storages, at some places; return how many were read (all, but for a fault
    in the next one). `number` and `start` get a row of values each, as of `Tables`."""
    index: cython.longlong
    one: cython.longlong
    with cython.nogil:
        for index in range(place.shape[0]):
            reader.offset = place[index]
            for one in range(storage.shape[0]):
                start[index, one] = reader.offset
                number[index, one] = stored_value(reader, storage[one], 0)
            if reader.fault:
                return index
        return place.shape[0]
