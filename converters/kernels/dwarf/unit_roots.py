# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Root entries of the units of `.debug_info`: their abbreviations, and the values of some of their attributes.

Strategy: each table of abbreviations is walked once, for all units that use it. Each root entry is then read by its
abbreviation, up to a form that is unknown. `.debug_info` and `.debug_abbrev` have a reader each.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from ....schemas.debug_info import roots
from ..protocol import Fault
from ..shared.protocol import Storage

if not cython.compiled:
    from ..array_types import I64, I64_2D, U64, U64_2D, ConstI64, ConstU8, ConstU64
    from ..shared.reads import Reader
    from ..shared.values import stored_value

NO_ABBREVIATION = cython.declare(cython.int, int(Fault.NO_ABBREVIATION))
TABLES_OVERLAP = cython.declare(cython.int, int(Fault.TABLES_OVERLAP))
TOO_MANY_ATTRIBUTES = cython.declare(cython.int, int(Fault.TOO_MANY_ATTRIBUTES))

IMPLICIT_CONST = cython.declare(cython.ulonglong, int(roots.ROOT_FORM.implicit_const))
MAX_ATTRIBUTES = cython.declare(cython.int, roots.MAX_ATTRIBUTES)
IS_UNKNOWN = cython.declare(cython.int, int(Storage.UNKNOWN))
IS_ADDRESS = cython.declare(cython.int, int(Storage.ADDRESS))
IS_REF_ADDR = cython.declare(cython.int, int(Storage.REF_ADDR))
IS_INDIRECT = cython.declare(cython.int, int(Storage.INDIRECT))
IS_IMPLICIT_CONST = cython.declare(cython.int, int(Storage.IMPLICIT_CONST))
ALL_ONES = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)


@cython.ccall
@cython.exceptval(-1, check=False)
def read_codes(reader: Reader, place: I64, end: ConstI64, code: U64) -> cython.longlong:
    """Read the abbreviation code of the root entry at each `place`, which becomes the offset after it; 0 for a unit
    that ends there. Return how many were read: all, unless there is a fault in the next one."""
    index: cython.longlong
    with cython.nogil:
        for index in range(place.shape[0]):
            code[index] = 0
            if place[index] >= end[index]:
                continue
            reader.offset = place[index]
            reader.end = end[index]
            code[index] = reader.uleb()
            if reader.fault:
                return index
            place[index] = reader.offset
        return place.shape[0]


@cython.final
@cython.cclass
class Wanted:
    """Abbreviations to be found: `code`, ascending in each table of abbreviations; table t has those from first[t] on.
    Of each is found its `tag`, and the section offset of its `attributes`, until then -1."""

    def __init__(self, first: ConstI64, code: ConstU64, tag: U64, attributes: I64) -> None:
        self.first = first
        self.code = code
        self.tag = tag
        self.attributes = attributes

    def index_of(self, table: cython.longlong, code: cython.ulonglong) -> cython.longlong:
        """The index of a code among those of a table; -1 if it is not wanted."""
        low: cython.longlong = self.first[table]
        high: cython.longlong = self.first[table + 1]
        middle: cython.longlong
        while low < high:
            middle = (low + high) >> 1
            if self.code[middle] < code:
                low = middle + 1
            else:
                high = middle
        if low < self.first[table + 1] and self.code[low] == code:
            return low
        return -1

    def find(self, reader: Reader, table: cython.longlong, budget: cython.longlong) -> None:
        """Find the abbreviations of the table where the reader is, in `budget` bytes."""
        left: cython.longlong = self.first[table + 1] - self.first[table]
        start: cython.longlong = reader.offset
        index: cython.longlong
        code: cython.ulonglong
        tag: cython.ulonglong
        while left > 0 and not reader.fault:
            if reader.offset - start > budget:
                reader.fault = TABLES_OVERLAP
                return
            code = reader.uleb() if reader.offset < reader.end else 0
            if code == 0 and not reader.fault:
                reader.fault = NO_ABBREVIATION
            if reader.fault:
                return
            tag = reader.uleb()
            reader.fixed(1)
            index = self.index_of(table, code)
            if index >= 0 and self.attributes[index] < 0 and not reader.fault:
                self.tag[index] = tag
                self.attributes[index] = reader.offset
                left -= 1
            skip_attributes(reader)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def skip_attributes(reader: Reader) -> cython.void:
    """Pass over the attributes of an abbreviation."""
    name: cython.ulonglong = 1
    form: cython.ulonglong = 1
    while (name or form) and not reader.fault:
        name = reader.uleb()
        form = reader.uleb()
        if form == IMPLICIT_CONST:
            reader.sleb()


@cython.ccall
@cython.exceptval(-1, check=False)
def find_abbreviations(reader: Reader, offset: ConstI64, wanted: Wanted, budget: cython.longlong) -> cython.longlong:
    """Find abbreviations in the tables at some offsets, walking at most `budget` bytes; return how many tables were
    read: all, unless there is a fault in the next one."""
    table: cython.longlong
    with cython.nogil:
        for table in range(offset.shape[0]):
            reader.offset = offset[table]
            wanted.find(reader, table, budget)
            if reader.fault:
                return table
            budget -= reader.offset - offset[table]
        return offset.shape[0]


@cython.final
@cython.cclass
class Roots:
    """Root entries: the offset of the first value, `place`; the `end` of the unit; the offset of the `attributes` in
    `.debug_abbrev`, -1 for a unit without an entry; and the sizes of an address, a section offset, and a reference to
    another unit."""

    def __init__(
        self,
        place: ConstI64,
        end: ConstI64,
        attributes: ConstI64,
        address_size: ConstU8,
        offset_size: ConstU8,
        ref_size: ConstU8,
    ) -> None:
        self.place = place
        self.end = end
        self.attributes = attributes
        self.address_size = address_size
        self.offset_size = offset_size
        self.ref_size = ref_size


@cython.final
@cython.cclass
class Values:
    """What is read of each root entry: the attributes whose DW_AT `column` maps to a number, the column plus 1.

    `form` is 0 if the attribute is absent; `number` is the value, as of `stored_value`, and `start` its section offset.
    `storages` is by form.
    """

    def __init__(self, storages: ConstU8, column: ConstU8, form: U64_2D, number: U64_2D, start: I64_2D) -> None:
        self.storages = storages
        self.column = column
        self.form = form
        self.number = number
        self.start = start

    def storage_of(self, form: cython.ulonglong) -> cython.int:
        """How values of a form are stored."""
        if form < cython.cast(cython.ulonglong, self.storages.shape[0]):
            return self.storages[cython.cast(cython.longlong, form)]
        return IS_UNKNOWN

    def read(self, info: Reader, abbreviation: Reader, roots: Roots, unit: cython.longlong) -> None:
        """Read the values of a root entry, up to an unknown form."""
        count: cython.int
        column: cython.int
        storage: cython.int
        is_direct: cython.int
        start: cython.longlong
        name: cython.ulonglong
        form: cython.ulonglong
        number: cython.ulonglong
        implicit: cython.ulonglong
        for count in range(MAX_ATTRIBUTES + 1):
            name = abbreviation.uleb()
            form = abbreviation.uleb()
            implicit = cython.cast(cython.ulonglong, abbreviation.sleb() & ALL_ONES) if form == IMPLICIT_CONST else 0
            if name == 0 and form == 0:
                return
            if count == MAX_ATTRIBUTES and not abbreviation.fault:
                abbreviation.fault = TOO_MANY_ATTRIBUTES
            if abbreviation.fault:
                return
            is_direct = form == IMPLICIT_CONST
            storage = self.storage_of(form)
            while storage == IS_INDIRECT and not info.fault:
                form = info.uleb()
                storage = self.storage_of(form)
            if storage == IS_UNKNOWN or (storage == IS_IMPLICIT_CONST and not is_direct) or info.fault:
                return
            start = info.offset
            if storage == IS_IMPLICIT_CONST:
                number = implicit
            else:
                if storage == IS_ADDRESS:
                    storage = roots.address_size[unit]
                elif storage == IS_REF_ADDR:
                    storage = roots.ref_size[unit]
                number = stored_value(info, storage, roots.offset_size[unit])
            if info.fault:
                return
            if name < cython.cast(cython.ulonglong, self.column.shape[0]):
                column = self.column[cython.cast(cython.longlong, name)] - 1
                if column >= 0:
                    self.form[unit, column] = form
                    self.number[unit, column] = number
                    self.start[unit, column] = start


@cython.ccall
@cython.exceptval(-1, check=False)
def read_roots(info: Reader, abbreviation: Reader, roots: Roots, values: Values) -> cython.longlong:
    """Read the values of all root entries; return how many were read: all, unless there is a fault in the next one, of
    one of the readers."""
    unit: cython.longlong
    with cython.nogil:
        for unit in range(roots.place.shape[0]):
            if roots.attributes[unit] < 0:
                continue
            info.offset = roots.place[unit]
            info.end = roots.end[unit]
            abbreviation.offset = roots.attributes[unit]
            values.read(info, abbreviation, roots, unit)
            if info.fault or abbreviation.fault:
                return unit
        return roots.place.shape[0]
