# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""`.debug_macinfo` and `.debug_macro` in bulk: units and their entries as columns.

Strategy: tables made from the schema's tell which operands an opcode has and how they are stored. A unit's header may
describe further opcodes: descriptions are found by opcode, and marked with their unit. Columns without space are not
filled, so that a first call counts.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from ....schemas import macros
from ....schemas.derive import bit_position
from ..protocol import Fault
from ..shared.protocol import Storage

if not cython.compiled:
    from ..array_types import I64, I64_2D, U8, U16, U64, ConstU8, ConstU8_3D
    from ..shared.reads import Reader
    from ..shared.values import stored_value

LINE = cython.declare(cython.int, int(macros.MacroOperand.LINE))
END = cython.declare(cython.int, macros.END)
HAS_WIDE_OFFSETS = cython.declare(cython.int, 1 << bit_position(macros.MacroFlags, "offset_size")[0])
HAS_LINE_OFFSET = cython.declare(cython.int, 1 << bit_position(macros.MacroFlags, "debug_line_offset")[0])
HAS_OPCODES = cython.declare(cython.int, 1 << bit_position(macros.MacroFlags, "opcode_operands_table")[0])

UNKNOWN = cython.declare(cython.int, int(Storage.UNKNOWN))
STRING = cython.declare(cython.int, int(Storage.STRING))

UNKNOWN_OPCODE = cython.declare(cython.int, int(Fault.UNKNOWN_OPCODE))
UNDEFINED_FORM = cython.declare(cython.int, int(Fault.UNDEFINED_FORM))
UNDEFINED_VERSION = cython.declare(cython.int, int(Fault.UNDEFINED_VERSION))
NOT_ENDED = cython.declare(cython.int, int(Fault.NOT_ENDED))


@cython.final
@cython.cclass
class Operands:
    """The operands of opcodes, and how they are stored.

    `kinds`, by version, opcode and position: the `MacroOperand`s, then 0; the first is UNKNOWN where the version does
    not define the opcode. Version 0, which has no headers, is `.debug_macinfo`. `storages` is by operand, `forms` by
    form. `described`, 256 rows of -1, gets what headers describe: the unit of each opcode, and the section offset of
    its forms.
    """

    def __init__(self, kinds: ConstU8_3D, storages: ConstU8, forms: ConstU8, described: I64_2D) -> None:
        self.kinds = kinds
        self.storages = storages
        self.forms = forms
        self.described = described

    def describe(self, reader: Reader, unit: cython.longlong) -> None:
        """Read the opcodes that a unit's header describes."""
        left: cython.int = cython.cast(cython.int, reader.fixed(1))
        opcode: cython.int
        forms: cython.ulonglong
        while left > 0 and not reader.fault:
            opcode = cython.cast(cython.int, reader.fixed(1))
            self.described[opcode, 0] = unit
            self.described[opcode, 1] = reader.offset
            forms = reader.uleb()
            while forms > 0 and not reader.fault:
                if self.forms[cython.cast(cython.int, reader.fixed(1))] == UNKNOWN and not reader.fault:
                    reader.fault = UNDEFINED_FORM
                forms -= 1
            left -= 1

    def skip(self, reader: Reader, opcode: cython.int, offset_size: cython.int) -> None:
        """Read the operands of an opcode that the unit's header describes."""
        place: cython.longlong = reader.offset
        forms: cython.ulonglong
        form: cython.longlong
        reader.offset = self.described[opcode, 1]
        forms = reader.uleb()
        form = reader.offset
        reader.offset = place
        while forms > 0 and not reader.fault:
            stored_value(reader, self.forms[reader.data[form]], offset_size)
            form += 1
            forms -= 1


@cython.final
@cython.cclass
class Units:
    """The units, `count` of them: where each starts, its header's fields, where its `body` starts, and the number of
    its `first` entry; of the last one that was begun that is `begun_at`."""

    def __init__(self, offset: I64, version: U16, flags: U8, line_offset: U64, body: I64, first: I64) -> None:
        self.offset = offset
        self.version = version
        self.flags = flags
        self.line_offset = line_offset
        self.body = body
        self.first = first
        self.count = 0
        self.number = 0
        self.begun_at = 0
        self.offset_size = 4

    def read_header(self, reader: Reader, operands: Operands, entries: cython.longlong) -> None:
        """Read the header of the next unit, which follows `entries` entries. `number` gets the version."""
        at: cython.longlong = reader.offset
        bits: cython.int = 0
        line_offset: cython.ulonglong = 0
        has_header: cython.int = operands.kinds.shape[0] > 1
        self.number = 0
        self.begun_at = entries
        self.offset_size = 4
        if has_header:
            self.number = cython.cast(cython.int, reader.fixed(2))
            if not reader.fault and (self.number >= operands.kinds.shape[0] or operands.kinds[self.number, 0, 0] == 0):
                reader.offset = at
                reader.fault = UNDEFINED_VERSION
                return
            bits = cython.cast(cython.int, reader.fixed(1))
            if bits & HAS_WIDE_OFFSETS:
                self.offset_size = 8
            if bits & HAS_LINE_OFFSET:
                line_offset = reader.fixed(self.offset_size)
            if bits & HAS_OPCODES:
                operands.describe(reader, self.count)
        if self.count < self.offset.shape[0] and not reader.fault:
            self.offset[self.count] = at
            self.version[self.count] = self.number
            self.flags[self.count] = bits
            self.line_offset[self.count] = line_offset
            self.body[self.count] = reader.offset
            self.first[self.count] = entries


@cython.final
@cython.cclass
class Entries:
    """The entries, `count` of them: the section offset and opcode of each. An operand is its `line`, its text, or its
    `value`; the text of an opcode that only a header describes is the bytes of all its operands."""

    def __init__(self, offset: I64, opcode: U8, line: U64, value: U64, text_start: I64, text_size: I64) -> None:
        self.offset = offset
        self.opcode = opcode
        self.line = line
        self.value = value
        self.text_start = text_start
        self.text_size = text_size
        self.count = 0
        self.found_line = self.found_value = 0
        self.found_start = self.found_size = 0

    def read_operands(self, reader: Reader, operands: Operands, units: Units, opcode: cython.int) -> None:
        """Read the operands of an entry."""
        index: cython.int
        kind: cython.int
        storage: cython.int
        start: cython.longlong
        word: cython.ulonglong
        self.found_line = self.found_value = 0
        self.found_start = reader.offset
        self.found_size = 0
        if operands.kinds[units.number, opcode, 0] != UNKNOWN:
            for index in range(operands.kinds.shape[2]):
                kind = operands.kinds[units.number, opcode, index]
                if kind == 0:
                    break
                storage = operands.storages[kind]
                start = reader.offset
                word = stored_value(reader, storage, units.offset_size)
                if storage == STRING:
                    self.found_start = start
                    self.found_size = cython.cast(cython.longlong, word)
                elif kind == LINE:
                    self.found_line = word
                else:
                    self.found_value = word
        elif operands.described[opcode, 0] == units.count:
            operands.skip(reader, opcode, units.offset_size)
            self.found_size = reader.offset - self.found_start
        else:
            reader.fault = UNKNOWN_OPCODE

    def put(self, offset: cython.longlong, opcode: cython.int) -> None:
        """Count an entry, and keep it if there is space."""
        if self.count < self.offset.shape[0]:
            self.offset[self.count] = offset
            self.opcode[self.count] = opcode
            self.line[self.count] = self.found_line
            self.value[self.count] = self.found_value
            self.text_start[self.count] = self.found_start
            self.text_size[self.count] = self.found_size
        self.count += 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def read_body(reader: Reader, operands: Operands, units: Units, entries: Entries) -> cython.void:
    """Read the entries of a unit, up to its END."""
    at: cython.longlong
    opcode: cython.int
    while not reader.fault:
        at = reader.offset
        if at >= reader.end:
            reader.fault = NOT_ENDED
            return
        opcode = cython.cast(cython.int, reader.fixed(1))
        if opcode == END:
            return
        entries.read_operands(reader, operands, units, opcode)
        if reader.fault == UNKNOWN_OPCODE:
            reader.offset = at
        if not reader.fault:
            entries.put(at, opcode)


@cython.ccall
@cython.exceptval(-1, check=False)
def scan(reader: Reader, operands: Operands, units: Units, entries: Entries) -> cython.int:
    """Read all units; return whether a header has the fault, if there is one. The counts are then those before it."""
    with cython.nogil:
        while reader.offset < reader.end:
            units.read_header(reader, operands, entries.count)
            if reader.fault:
                return 1
            read_body(reader, operands, units, entries)
            if reader.fault:
                return 0
            units.count += 1
        return 0
