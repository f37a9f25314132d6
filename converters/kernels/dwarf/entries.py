# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Debugging information entries: a walk over those of units, and the attributes of the ones that matter.

Strategy: an entry that does not matter is passed over by the size in its abbreviation, or attribute by attribute. Of a
function with code and of an inlined one the attributes and the entry that contains it are kept; of an entry whose name
qualifies others, its extent.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from ..protocol import Fault
from ..shared.protocol import Storage
from .protocol import Role

if not cython.compiled:
    from ..array_types import I64, I64_2D, U16, U32, U32_2D, U64_2D, ConstI64, ConstU8
    from ..shared.reads import Reader
    from ..shared.values import skip_bytes, stored_value
    from .abbreviations import Abbreviations

CUT = cython.declare(cython.int, int(Fault.CUT))
NO_ENTRY = cython.declare(cython.int, int(Fault.NO_ENTRY))
NO_ABBREVIATION = cython.declare(cython.int, int(Fault.NO_ABBREVIATION))
UNKNOWN_FORM = cython.declare(cython.int, int(Fault.UNKNOWN_FORM))
TOO_DEEP = cython.declare(cython.int, int(Fault.TOO_DEEP))

IS_OTHER = cython.declare(cython.int, int(Role.OTHER))
IS_FUNCTION = cython.declare(cython.int, int(Role.FUNCTION))
IS_DECLARATION = cython.declare(cython.int, int(Role.DECLARATION))
IS_INLINED = cython.declare(cython.int, int(Role.INLINED))
IS_SCOPE = cython.declare(cython.int, int(Role.SCOPE))
IS_ULEB = cython.declare(cython.int, int(Storage.ULEB))
IS_SLEB = cython.declare(cython.int, int(Storage.SLEB))
IS_BLOCK = cython.declare(cython.int, int(Storage.BLOCK))
IS_STRING = cython.declare(cython.int, int(Storage.STRING))
IS_UNKNOWN = cython.declare(cython.int, int(Storage.UNKNOWN))
IS_INDIRECT = cython.declare(cython.int, int(Storage.INDIRECT))
IS_IMPLICIT_CONST = cython.declare(cython.int, int(Storage.IMPLICIT_CONST))
WORD = cython.declare(cython.int, 8)
FIXED_MAX = cython.declare(cython.int, 16)
# A LEB128 of this many bytes fits in 64 bits.
LEB_MAX = cython.declare(cython.int, 9)
NOTHING = cython.declare(cython.longlong, -1)
WORD_MASK = cython.declare(cython.ulonglong, 0xFFFFFFFF)


@cython.final
@cython.cclass
class Units:
    """The units whose entries are read: the offset of the first entry, `place`; the `end`; the number of their table
    of abbreviations, and the size of a section offset."""

    def __init__(self, place: ConstI64, end: ConstI64, table: ConstI64, offset_size: ConstU8) -> None:
        self.place = place
        self.end = end
        self.table = table
        self.offset_size = offset_size


@cython.final
@cython.cclass
class Attributes:
    """How attributes are found: decoded `abbreviations`, the `Role` of each one's entries, and the storage of each form
    for DW_FORM_indirect."""

    def __init__(self, abbreviations: Abbreviations, role: ConstU8, storages: ConstU8) -> None:
        self.abbreviations = abbreviations
        self.role = role
        self.storages = storages

    def end_of_values(self, reader: Reader, abbreviation: cython.longlong, offset: cython.longlong) -> cython.longlong:
        """The offset after the values of an entry, which begin at `offset`; -1 if it takes `skip` to find it, or there
        is a fault."""
        index: cython.longlong
        start: cython.longlong
        storage: cython.int
        for index in range(self.abbreviations.begin[abbreviation], self.abbreviations.end[abbreviation]):
            storage = self.abbreviations.storage[index]
            if storage <= FIXED_MAX:
                offset += storage
            elif storage == IS_ULEB or storage == IS_SLEB:
                start = offset
                while offset < reader.end and reader.data[offset] >= 0x80:
                    offset += 1
                offset += 1
                if offset - start > LEB_MAX:
                    return NOTHING
            elif storage == IS_BLOCK and offset < reader.end and reader.data[offset] < 0x80:
                offset += 1 + reader.data[offset]
            elif storage == IS_STRING:
                while offset < reader.end and reader.data[offset]:
                    offset += 1
                offset += 1
            elif storage != IS_IMPLICIT_CONST:
                return NOTHING
            if offset > reader.end:
                return NOTHING
        return offset

    def skip(self, reader: Reader, abbreviation: cython.longlong, offset_size: cython.int) -> None:
        """Pass over the values of an entry."""
        size: cython.int = self.abbreviations.size[abbreviation]
        index: cython.longlong
        storage: cython.int
        if size >= 0:
            skip_bytes(reader, cython.cast(cython.ulonglong, size), CUT)
            return
        for index in range(self.abbreviations.begin[abbreviation], self.abbreviations.end[abbreviation]):
            storage = self.abbreviations.storage[index]
            if storage <= FIXED_MAX:
                skip_bytes(reader, cython.cast(cython.ulonglong, storage), CUT)
            elif storage == IS_INDIRECT:
                storage = self.storage_of(reader.uleb())
                stored_value(reader, storage, offset_size)
            elif storage != IS_IMPLICIT_CONST:
                stored_value(reader, storage, offset_size)
            if reader.fault:
                return

    def storage_of(self, form: cython.ulonglong) -> cython.int:
        """The storage of the form that the value of DW_FORM_indirect begins with, which may not be indirect again."""
        storage: cython.int = IS_UNKNOWN
        if form < cython.cast(cython.ulonglong, self.storages.shape[0]):
            storage = self.storages[cython.cast(cython.longlong, form)]
        if storage == IS_INDIRECT or storage == IS_IMPLICIT_CONST:
            storage = IS_UNKNOWN
        return storage


@cython.final
@cython.cclass
class Entries:
    """The entries that are kept: section `offset`; `tag`; number of the `unit`; of an inlined function `parent`, the
    index of the innermost kept entry that contains it, of others -1; the outermost of these, `function`, itself for
    others; and by column the `form` of an attribute, 0 if it is absent, and its `number`.

    `wanted` has for each attribute that is decoded the number of its column plus 1, or 0. The number of a string in the
    entry itself is its section offset.
    """

    def __init__(
        self,
        offset: I64,
        tag: U16,
        unit: U32,
        parent: I64,
        function: I64,
        form: U32_2D,
        number: U64_2D,
        wanted: ConstU8,
    ) -> None:
        self.offset = offset
        self.tag = tag
        self.unit = unit
        self.parent = parent
        self.function = function
        self.form = form
        self.number = number
        self.wanted = wanted
        self.count = 0
        self.is_full = 0

    def read(
        self, reader: Reader, attributes: Attributes, abbreviation: cython.longlong, offset_size: cython.int
    ) -> None:
        """Read the values of an entry into row `count`."""
        index: cython.longlong
        column: cython.int
        storage: cython.int
        form: cython.ulonglong
        number: cython.ulonglong
        start: cython.longlong
        for column in range(self.form.shape[1]):
            self.form[self.count, column] = 0
        for index in range(attributes.abbreviations.begin[abbreviation], attributes.abbreviations.end[abbreviation]):
            column = self.wanted[attributes.abbreviations.attribute[index]] - 1
            storage = attributes.abbreviations.storage[index]
            if column < 0 and storage <= reader.end - reader.offset and storage <= FIXED_MAX:
                reader.offset += storage
                continue
            form = attributes.abbreviations.form[index]
            if storage == IS_INDIRECT:
                form = reader.uleb()
                storage = attributes.storage_of(form)
            start = reader.offset
            if storage == IS_IMPLICIT_CONST:
                number = attributes.abbreviations.implicit[index]
            elif storage <= WORD:
                number = reader.fixed(storage)
            else:
                number = stored_value(reader, storage, offset_size)
            if reader.fault:
                return
            if column >= 0:
                self.form[self.count, column] = cython.cast(cython.uint, form & WORD_MASK)
                if storage == IS_STRING:
                    number = cython.cast(cython.ulonglong, start)
                self.number[self.count, column] = number


@cython.final
@cython.cclass
class Scopes:
    """Entries whose names qualify those of others: section `offset`, and `end`, the offset after its last child;
    `parent`, the index of the innermost scope that contains it, or -1."""

    def __init__(self, offset: I64, end: I64, parent: I64) -> None:
        self.offset = offset
        self.end = end
        self.parent = parent
        self.count = 0


@cython.final
@cython.cclass
class Walk:
    """A walk over the entries of units. `stack` has a row for each depth: the kept entry there, the scope, and the
    offset of the function that is a scope as soon as it contains one, each -1 for none."""

    def __init__(self, units: Units, attributes: Attributes, entries: Entries, scopes: Scopes, stack: I64_2D) -> None:
        self.units = units
        self.attributes = attributes
        self.entries = entries
        self.scopes = scopes
        self.stack = stack
        self.depth = 0

    def unit(self, reader: Reader, unit: cython.longlong) -> None:
        """Walk over the entries of one unit, up to the end of its tree or a fault."""
        table: cython.longlong = self.units.table[unit]
        offset_size: cython.int = self.units.offset_size[unit]
        start: cython.longlong
        code: cython.ulonglong
        abbreviation: cython.longlong
        reader.offset = self.units.place[unit]
        reader.end = self.units.end[unit]
        self.depth = 0
        self.stack[0, 0] = self.stack[0, 1] = self.stack[0, 2] = NOTHING
        while reader.offset < reader.end and not reader.fault:
            if self.depth > 0:
                self.others(reader, table)
                if self.depth <= 0 or reader.offset >= reader.end:
                    break
            start = reader.offset
            code = reader.uleb()
            if reader.fault:
                break
            if code == 0:
                self.close(reader.offset)
                if self.depth <= 0:
                    break
                continue
            abbreviation = self.attributes.abbreviations.index_of(table, code)
            if abbreviation < 0:
                reader.offset = start
                reader.fault = NO_ABBREVIATION
                break
            self.entry(reader, unit, start, abbreviation, offset_size)
            if self.entries.is_full or self.depth <= 0:
                break
        while self.depth > 0:
            self.close(reader.end)

    def others(self, reader: Reader, table: cython.longlong) -> None:
        """Pass over entries that are not kept, up to the first one that `entry` reads: nearly all are such ones, so
        that this is written for speed. What is unusual, such as a fault, is left to `entry` too."""
        start: cython.longlong = reader.offset
        at: cython.longlong
        index: cython.longlong
        code: cython.longlong
        role: cython.int
        first: cython.longlong = self.attributes.abbreviations.first[table]
        count: cython.longlong = self.attributes.abbreviations.first[table + 1] - first
        while start < reader.end and self.depth > 0:
            at = start + 1
            code = reader.data[start]
            if code == 0:
                self.close(at)
                start = at
                continue
            if code >= 0x80:
                if at >= reader.end or reader.data[at] >= 0x80:
                    break
                code += (cython.cast(cython.longlong, reader.data[at]) << 7) - 0x80
                at += 1
            index = first + code - 1
            # Abbreviations are numbered from 1, mostly.
            if (
                code == 0
                or code > count
                or self.attributes.abbreviations.code[index] != cython.cast(cython.ulonglong, code)
            ):
                break
            role = self.attributes.role[index]
            if role != IS_OTHER and role != IS_DECLARATION:
                break
            if self.attributes.abbreviations.size[index] >= 0:
                at += self.attributes.abbreviations.size[index]
            else:
                at = self.attributes.end_of_values(reader, index, at)
            if at < 0 or at > reader.end:
                break
            if self.attributes.abbreviations.has_children[index]:
                if self.depth + 1 >= self.stack.shape[0]:
                    break
                self.depth += 1
                self.stack[self.depth, 0] = self.stack[self.depth - 1, 0] if role == IS_OTHER else NOTHING
                self.stack[self.depth, 1] = self.stack[self.depth - 1, 1]
                self.stack[self.depth, 2] = NOTHING if role == IS_OTHER else start
            start = at
        reader.offset = start

    def entry(
        self,
        reader: Reader,
        unit: cython.longlong,
        start: cython.longlong,
        abbreviation: cython.longlong,
        offset_size: cython.int,
    ) -> None:
        """Read one entry, which begins at `start`; the reader is after its code."""
        role: cython.int = self.attributes.role[abbreviation]
        has_children: cython.int = self.attributes.abbreviations.has_children[abbreviation]
        kept: cython.longlong = self.stack[self.depth, 0]
        if role == IS_FUNCTION or role == IS_INLINED:
            if self.entries.count >= self.entries.offset.shape[0]:
                self.entries.is_full = 1
                return
            self.entries.read(reader, self.attributes, abbreviation, offset_size)
            if reader.fault:
                return
            self.entries.offset[self.entries.count] = start
            self.entries.tag[self.entries.count] = self.attributes.abbreviations.tag[abbreviation]
            self.entries.unit[self.entries.count] = cython.cast(cython.uint, unit)
            if role == IS_INLINED and kept >= 0:
                self.entries.parent[self.entries.count] = kept
                self.entries.function[self.entries.count] = self.entries.function[kept]
            else:
                self.entries.parent[self.entries.count] = NOTHING
                self.entries.function[self.entries.count] = self.entries.count
            kept = self.entries.count
            self.entries.count += 1
        else:
            self.attributes.skip(reader, abbreviation, offset_size)
            if reader.fault:
                return
            if role == IS_DECLARATION:
                # What a function without code contains has none either.
                kept = NOTHING
        if has_children:
            self.open(reader, start, kept, role)

    def open(self, reader: Reader, start: cython.longlong, kept: cython.longlong, role: cython.int) -> None:
        """Go down to the children of an entry."""
        scope: cython.longlong = self.stack[self.depth, 1]
        if self.depth + 1 >= self.stack.shape[0]:
            reader.fault = TOO_DEEP
            return
        if role == IS_SCOPE:
            self.open_functions()
            if self.entries.is_full:
                return
            scope = self.add_scope(start, self.stack[self.depth, 1])
        self.depth += 1
        self.stack[self.depth, 0] = kept
        self.stack[self.depth, 1] = scope
        self.stack[self.depth, 2] = start if role == IS_FUNCTION or role == IS_DECLARATION else NOTHING

    def open_functions(self) -> None:
        """Make scopes of the functions that contain the entry at hand."""
        level: cython.longlong
        deeper: cython.longlong
        scope: cython.longlong
        for level in range(1, self.depth + 1):
            if self.stack[level, 2] != NOTHING:
                scope = self.add_scope(self.stack[level, 2], self.stack[level - 1, 1])
                self.stack[level, 2] = NOTHING
                # Those below are not scopes either: a scope would have made this one.
                for deeper in range(level, self.depth + 1):
                    self.stack[deeper, 1] = scope

    def add_scope(self, start: cython.longlong, parent: cython.longlong) -> cython.longlong:
        """Add a scope; return its index, or -1 if there is no space."""
        if self.scopes.count >= self.scopes.offset.shape[0]:
            self.entries.is_full = 1
            return NOTHING
        self.scopes.offset[self.scopes.count] = start
        self.scopes.end[self.scopes.count] = NOTHING
        self.scopes.parent[self.scopes.count] = parent
        self.scopes.count += 1
        return self.scopes.count - 1

    def close(self, end: cython.longlong) -> None:
        """Go up, after the last child."""
        scope: cython.longlong = self.stack[self.depth, 1]
        if self.depth > 0:
            self.depth -= 1
            if scope >= 0 and scope != self.stack[self.depth, 1]:
                self.scopes.end[scope] = end


@cython.ccall
@cython.exceptval(-1, check=False)
def walk(reader: Reader, found: Walk, first: cython.longlong, end: cython.longlong) -> cython.longlong:
    """Walk over the entries of the units from `first` up to `end`; return how many units were read before a fault, or
    before the arrays were full."""
    unit: cython.longlong
    entries: cython.longlong
    scopes: cython.longlong
    with cython.nogil:
        for unit in range(first, end):
            entries = found.entries.count
            scopes = found.scopes.count
            found.unit(reader, unit)
            if reader.fault or found.entries.is_full:
                # What was read of the unit is dropped.
                found.entries.count = entries
                found.scopes.count = scopes
                return unit
        return end


@cython.ccall
@cython.exceptval(-1, check=False)
def read_at(reader: Reader, units: Units, attributes: Attributes, entries: Entries, unit: ConstI64) -> cython.longlong:
    """Read the entry at each `offset`, in these units, each as one row; return how many were read: all, unless there is
    a fault in the next one."""
    row: cython.longlong
    code: cython.ulonglong
    abbreviation: cython.longlong
    with cython.nogil:
        for row in range(unit.shape[0]):
            entries.count = row
            reader.offset = entries.offset[row]
            reader.end = units.end[unit[row]]
            code = reader.uleb()
            abbreviation = NOTHING
            if not reader.fault:
                if code == 0:
                    reader.fault = NO_ENTRY
                else:
                    abbreviation = attributes.abbreviations.index_of(units.table[unit[row]], code)
                    if abbreviation < 0:
                        reader.fault = NO_ABBREVIATION
            if not reader.fault:
                entries.tag[row] = attributes.abbreviations.tag[abbreviation]
                entries.read(reader, attributes, abbreviation, units.offset_size[unit[row]])
            if reader.fault:
                return row
        entries.count = unit.shape[0]
        return entries.count
