# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Tables of abbreviations, decoded: for each attribute how its value is stored, and for most entries their size.

Strategy: every table is decoded once for the units that share it and the sizes of their values. Units use their
abbreviations millions of times; the size of an entry is computed here wherever it does not depend on the entry.
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
    from ..array_types import I32, I64, U8, U16, U32, U64, ConstI64, ConstU8
    from ..shared.reads import Reader

TABLES_OVERLAP = cython.declare(cython.int, int(Fault.TABLES_OVERLAP))

IMPLICIT_CONST = cython.declare(cython.ulonglong, int(roots.ROOT_FORM.implicit_const))
IS_UNKNOWN = cython.declare(cython.int, int(Storage.UNKNOWN))
IS_ADDRESS = cython.declare(cython.int, int(Storage.ADDRESS))
IS_REF_ADDR = cython.declare(cython.int, int(Storage.REF_ADDR))
IS_SECTION_OFFSET = cython.declare(cython.int, int(Storage.SECTION_OFFSET))
IS_IMPLICIT_CONST = cython.declare(cython.int, int(Storage.IMPLICIT_CONST))
FIXED_MAX = cython.declare(cython.int, 16)
TAG_MAX = cython.declare(cython.ulonglong, 0xFFFF)
ALL_ONES = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
WORD_MASK = cython.declare(cython.ulonglong, 0xFFFFFFFF)
NOT_FIXED = cython.declare(cython.int, -1)
# Far above any entry; a table with more bytes of fixed size is hostile.
FIXED_LIMIT = cython.declare(cython.int, 1 << 24)


@cython.final
@cython.cclass
class Tables:
    """What tables of abbreviations are decoded with. `offset` of each in `.debug_abbrev`, and of the values of the
    units that use it the `address_size`, the `offset_size` and the `ref_size` of DW_FORM_ref_addr, in bytes; the
    storage of each form; `attributes` has for each
    DW_AT the number by which it is read, or 0."""

    def __init__(
        self,
        offset: ConstI64,
        address_size: ConstU8,
        offset_size: ConstU8,
        ref_size: ConstU8,
        storages: ConstU8,
        attributes: ConstU8,
    ) -> None:
        self.offset = offset
        self.address_size = address_size
        self.offset_size = offset_size
        self.ref_size = ref_size
        self.storages = storages
        self.attributes = attributes

    def storage_of(self, table: cython.longlong, form: cython.ulonglong) -> cython.int:
        """How values of a form are stored in the units of a table."""
        storage: cython.int = IS_UNKNOWN
        if form < cython.cast(cython.ulonglong, self.storages.shape[0]):
            storage = self.storages[cython.cast(cython.longlong, form)]
        if storage == IS_ADDRESS:
            storage = self.address_size[table]
        elif storage == IS_REF_ADDR:
            storage = self.ref_size[table]
        elif storage == IS_SECTION_OFFSET:
            storage = self.offset_size[table]
        return storage


@cython.final
@cython.cclass
class Abbreviations:
    """Decoded abbreviations: `code`, `tag` (65535 for larger ones), `has_children`; `size`, the bytes of the values,
    -1 if that depends on the entry; and the attributes from `begin` up to `end`. Table t has those from first[t] on, in
    ascending order of their codes when entries are read.

    Of each attribute the number by which it is read, `attribute` (0 if it is not), the `form`, the `storage`, and the
    `implicit` value.
    """

    def __init__(
        self,
        first: I64,
        code: U64,
        tag: U16,
        has_children: U8,
        size: I32,
        begin: I64,
        end: I64,
        attribute: U8,
        form: U32,
        storage: U8,
        implicit: U64,
    ) -> None:
        self.first = first
        self.code = code
        self.tag = tag
        self.has_children = has_children
        self.size = size
        self.begin = begin
        self.end = end
        self.attribute = attribute
        self.form = form
        self.storage = storage
        self.implicit = implicit
        self.count = 0
        self.attribute_count = 0

    def index_of(self, table: cython.longlong, code: cython.ulonglong) -> cython.longlong:
        """The index of the abbreviation with a code in a table; -1 if there is none."""
        low: cython.longlong = self.first[table]
        high: cython.longlong = self.first[table + 1]
        end: cython.longlong = high
        middle: cython.longlong
        # Most tables number their abbreviations from 1.
        if code - 1 < cython.cast(cython.ulonglong, high - low):
            middle = low + cython.cast(cython.longlong, code - 1)
            if self.code[middle] == code:
                return middle
        while low < high:
            middle = (low + high) >> 1
            if self.code[middle] < code:
                low = middle + 1
            else:
                high = middle
        if low < end and self.code[low] == code:
            return low
        return -1

    def read(self, reader: Reader, tables: Tables, table: cython.longlong) -> None:
        """Decode the table that the reader is at, unless there is a fault; the arrays have enough elements."""
        code: cython.ulonglong
        tag: cython.ulonglong
        while not reader.fault:
            # A table may end with the section.
            code = reader.uleb() if reader.offset < reader.end else 0
            if code == 0 or reader.fault:
                return
            if self.count >= self.code.shape[0]:
                reader.fault = TABLES_OVERLAP
                return
            tag = reader.uleb()
            self.code[self.count] = code
            self.tag[self.count] = cython.cast(cython.ushort, tag if tag < TAG_MAX else TAG_MAX)
            self.has_children[self.count] = cython.cast(cython.uchar, reader.fixed(1))
            self.begin[self.count] = self.attribute_count
            self.size[self.count] = self.read_attributes(reader, tables, table)
            self.end[self.count] = self.attribute_count
            self.count += 1

    def read_attributes(self, reader: Reader, tables: Tables, table: cython.longlong) -> cython.int:
        """Decode the attributes of one abbreviation; return the bytes of their values, or -1."""
        name: cython.ulonglong
        form: cython.ulonglong
        implicit: cython.ulonglong
        storage: cython.int
        size: cython.int = 0
        while not reader.fault:
            name = reader.uleb()
            form = reader.uleb()
            implicit = 0
            if form == IMPLICIT_CONST:
                implicit = cython.cast(cython.ulonglong, reader.sleb() & ALL_ONES)
            if reader.fault or (name == 0 and form == 0):
                return size
            if self.attribute_count >= self.attribute.shape[0]:
                reader.fault = TABLES_OVERLAP
                return size
            storage = tables.storage_of(table, form)
            if storage == IS_IMPLICIT_CONST:
                pass
            elif storage > FIXED_MAX or size > FIXED_LIMIT:
                size = NOT_FIXED
            elif size != NOT_FIXED:
                size += storage
            self.attribute[self.attribute_count] = 0
            if name < cython.cast(cython.ulonglong, tables.attributes.shape[0]):
                self.attribute[self.attribute_count] = tables.attributes[cython.cast(cython.longlong, name)]
            self.form[self.attribute_count] = cython.cast(cython.uint, form & WORD_MASK)
            self.storage[self.attribute_count] = cython.cast(cython.uchar, storage)
            self.implicit[self.attribute_count] = implicit
            self.attribute_count += 1
        return size


@cython.ccall
@cython.exceptval(-1, check=False)
def decode(reader: Reader, tables: Tables, found: Abbreviations) -> cython.longlong:
    """Decode the tables at some offsets; return how many were decoded: all, unless there is a fault in the next one."""
    table: cython.longlong
    with cython.nogil:
        for table in range(tables.offset.shape[0]):
            reader.offset = tables.offset[table]
            found.first[table] = found.count
            found.read(reader, tables, table)
            found.first[table + 1] = found.count
            if reader.fault:
                return table
        return tables.offset.shape[0]
