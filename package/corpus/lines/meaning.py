"""The meaning of drawn line number programs: units, their files, and sequences of rows.

Strategy: the address of a row is a number of operations after the start of its sequence (DWARF5 6.2.2): without VLIW
an operation is an instruction. So every encoding of an advance is a matter of one number.
"""

from __future__ import annotations

from ...converters.arch.table import Architecture
from ...schemas.data_classes import dataclass
from ...schemas.line import STANDARD_OPCODE_LENGTHS
from ...schemas.section import ByteOrder
from ...schemas.wire import DwarfFormat
from ..choices import Draw, integers, one_of, sampled_from

# A column of more than 16 bits, and the opcode_base that compilers write.
WIDE, USUAL_BASE, LAST_USUAL_BASE = 1 << 16, 10, 13
MAX_UNITS, MAX_SEQUENCES, MAX_ROWS = 3, 3, 6
# The first version with maximum_operations_per_instruction, and the first one with entry formats and number 0.
HAS_OPERATIONS, HAS_FORMATS = 4, 5

# What some readers do not know: `without` leaves it out.
DWARF64, VLIW, SEVERAL_UNITS = "dwarf64", "vliw", "several-units"
SHORT_BASE, LONG_BASE = "short-opcode-base", "long-opcode-base"
UNKNOWN_STANDARD, UNKNOWN_EXTENDED = "unknown-standard", "unknown-extended"
SAME_ADDRESS, SET_INSIDE, DEFINE_FILE = "same-address", "set-address-inside", "define-file"
PADDED, WIDE_COLUMN, UNSORTED, HEADER_PADDING = "padded-leb", "wide-column", "unsorted", "header-padding"
LINE_0, HIGH_ADDRESS, LINE_STRP, VENDOR = "line-0", "high-address", "line-strp", "vendor-content"

_UNITS = integers(1, MAX_UNITS)
_SEQUENCES = integers(0, MAX_SEQUENCES)
_ROWS = integers(1, MAX_ROWS)
_BIT = sampled_from([0, 1])
_RARELY = sampled_from([0, 0, 0, 0, 0, 0, 0, 1])
_STARTS = (0x401000, 0x1000, 0x10003)
_GAPS = sampled_from([0, 0, 1, 16, 4096])
_STEPS = sampled_from([1, 2, 3, 5, 17, 40, 300, 20000, 70000])
_STEPS_WITH_0 = sampled_from([1, 2, 3, 5, 0, 0, 17, 300])
_LINES = one_of(integers(1, 40), integers(1, 40), sampled_from([1, 127, 128, 5000, 65535, 65536, 1 << 24]))
_COLUMNS = sampled_from([0, 1, 5, 80, 127, 128, 255, 256, 16384])
_WIDE_COLUMNS = sampled_from([WIDE, 1 << 20])
_MINIMUM_LENGTHS = sampled_from([1, 1, 2, 4])
_OPERATIONS = sampled_from([1, 1, 1, 2, 3, 4])
_LINE_BASES = sampled_from([-5, -3, -1, 0, 1, -10])
_LINE_RANGES = sampled_from([14, 12, 10, 1, 4, 255])
_USUAL_BASES, _SHORT_BASES, _LONG_BASES = (13, 10, 13), (6, 8, 9), (14, 17, 30)
_OPERAND_COUNTS = integers(0, 3)
_DIRECTORIES = integers(0, 3)
_FILES = integers(1, 4)
_DIRECTORY_NAMES = sampled_from(["include", "/usr/include", "src/lib", "/abs/dir/", "..", "d" * 70])
_FILE_NAMES = sampled_from(["a.c", "main.cc", "/full/path.h", "x/y.h", "name with spaces.c", "f" * 130])
_COMPILATION_DIRECTORIES = sampled_from(["/build", "/src/", "relative"])
_PADDINGS = sampled_from([0, 0, 0, 0, 1, 3])


@dataclass(frozen=True, slots=True)
class Setting:
    """What a section is for."""

    version: int
    architecture: Architecture
    byte_order: ByteOrder
    without: frozenset[str]

    def has(self, feature: str) -> bool:
        """Whether a feature may be drawn."""
        return feature not in self.without


@dataclass(frozen=True, slots=True)
class LineRow:
    """A row, `operations` after the start of its sequence. `file` is an index in the unit's `paths`."""

    operations: int
    file: int
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class LineSequence:
    """Contiguous code; `operations` is where it ends."""

    start: int
    rows: tuple[LineRow, ...]
    operations: int


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file: its name and the number of its directory."""

    name: str
    directory: int


@dataclass(frozen=True, slots=True)
class LineProgram:
    """A unit. `directories[0]` is that of the compilation, which is unknown before version 5. `files` are those of the
    header, then `defined` ones, which the program defines. `padding`: bytes by which LEB128 numbers are longer."""

    dwarf_format: DwarfFormat
    minimum_length: int
    maximum_operations: int
    is_stmt: int
    line_base: int
    line_range: int
    opcode_base: int
    opcode_lengths: tuple[int, ...]
    directories: tuple[str, ...]
    files: tuple[SourceFile, ...]
    defined: int
    padding: int
    header_padding: int
    sequences: tuple[LineSequence, ...]

    def address(self, sequence: LineSequence, operations: int) -> int:
        """The address of a row."""
        return sequence.start + self.minimum_length * (operations // self.maximum_operations)

    def size(self, sequence: LineSequence) -> int:
        """The number of bytes of a sequence."""
        return self.address(sequence, sequence.operations) - sequence.start

    def path(self, file: int) -> str:
        """The whole path of a file: relative names are in their directory, and that in the compilation's."""
        found = ""
        one = self.files[file]
        for piece in (self.directories[0], self.directories[one.directory], one.name):
            if piece.startswith("/") or not found:
                found = piece or found
            elif piece and piece is not self.directories[0]:
                found += piece if found.endswith("/") else f"/{piece}"
        return found


def draw_programs(draw: Draw, setting: Setting) -> list[LineProgram]:
    """The units of a section. All sequences are disjoint and ascend; the order in a unit may be another one."""
    bits = 8 * setting.architecture.address_size
    high = (1 << bits) - (1 << 28)
    start = draw(sampled_from([*_STARTS, *[high] * setting.has(HIGH_ADDRESS)]))
    found = []
    for _ in range(draw(_UNITS) if setting.has(SEVERAL_UNITS) else 1):
        one = _draw_program(draw, setting, start)
        for sequence in one.sequences:
            start = max(start, sequence.start + one.size(sequence))
        found.append(one)
    return found


def _draw_program(draw: Draw, setting: Setting, start: int) -> LineProgram:
    bases = [*_USUAL_BASES, *_SHORT_BASES * setting.has(SHORT_BASE), *_LONG_BASES * setting.has(LONG_BASE)]
    opcode_base = draw(sampled_from(bases))
    unknown = [draw(_OPERAND_COUNTS) for _ in range(opcode_base - 1 - len(STANDARD_OPCODE_LENGTHS))]
    directories = _draw_directories(draw, setting)
    defined = draw(_RARELY) if setting.version < HAS_FORMATS and setting.has(DEFINE_FILE) else 0
    files = [
        SourceFile(draw(_FILE_NAMES), draw(integers(0, len(directories) - 1))) for _ in range(draw(_FILES) + defined)
    ]
    has_operations = setting.version >= HAS_OPERATIONS and setting.has(VLIW)
    minimum, operations = draw(_MINIMUM_LENGTHS), draw(_OPERATIONS) if has_operations else 1
    return LineProgram(
        dwarf_format=DwarfFormat.DWARF64 if setting.has(DWARF64) and draw(_RARELY) else DwarfFormat.DWARF32,
        minimum_length=minimum,
        maximum_operations=operations,
        is_stmt=draw(_BIT),
        line_base=draw(_LINE_BASES),
        line_range=draw(_LINE_RANGES),
        opcode_base=opcode_base,
        opcode_lengths=(*STANDARD_OPCODE_LENGTHS, *unknown)[: opcode_base - 1],
        directories=directories,
        files=tuple(files),
        defined=defined,
        padding=draw(_PADDINGS) if setting.has(PADDED) else 0,
        header_padding=draw(_PADDINGS) if setting.has(HEADER_PADDING) else 0,
        sequences=_draw_sequences(draw, setting, start, (minimum, operations, len(files))),
    )


def _draw_directories(draw: Draw, setting: Setting) -> tuple[str, ...]:
    first = draw(_COMPILATION_DIRECTORIES) if setting.version >= HAS_FORMATS else ""
    return (first, *(draw(_DIRECTORY_NAMES) for _ in range(draw(_DIRECTORIES))))


def _draw_sequences(
    draw: Draw, setting: Setting, start: int, parameters: tuple[int, int, int]
) -> tuple[LineSequence, ...]:
    minimum, operations, files = parameters
    found = []
    for _ in range(draw(_SEQUENCES)):
        start += draw(_GAPS)
        one = LineSequence(start, *_draw_rows(draw, setting, operations, files))
        start += minimum * (one.operations // operations)
        found.append(one)
    if len(found) > 1 and setting.has(UNSORTED) and draw(_BIT):
        found = found[1:] + found[:1]
    return tuple(found)


def _draw_rows(draw: Draw, setting: Setting, operations: int, files: int) -> tuple[tuple[LineRow, ...], int]:
    """The rows of a sequence, and its end, which is at the start of an instruction."""
    steps = _STEPS_WITH_0 if setting.has(SAME_ADDRESS) and not draw(_RARELY) else _STEPS
    # Without VLIW operations, rows of one instruction are of one address; so they are steps of whole instructions.
    unit = 1 if setting.has(SAME_ADDRESS) else operations
    place, rows = 0, []
    for _ in range(draw(_ROWS)):
        line = 0 if setting.has(LINE_0) and draw(_RARELY) else draw(_LINES)
        column = draw(_WIDE_COLUMNS if setting.has(WIDE_COLUMN) and draw(_RARELY) else _COLUMNS)
        rows.append(LineRow(place, draw(integers(0, files - 1)), line, column))
        place += draw(steps) * unit
    return tuple(rows), (max(place, 1) + operations - 1) // operations * operations
