"""`.debug_line` into the line table (DWARF5 6.2).

Strategy: headers are read as columns (`headers.py`); a kernel runs the programs of the whole section. The values of
directories and files are picked by the content types of their entry formats; paths are references (`Strings`) to the
few bytes that the table keeps.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ...schemas.arguments import check_address_size, check_byte_order, checked
from ...schemas.data_classes import dataclass
from ...schemas.forms import DW_FORM, FORM_KINDS
from ...schemas.line import DW_LNCT, EXTENDED, STANDARD
from ...schemas.section import ByteOrder, ParseError, Section
from ...schemas.wire import Block, SizedBlock
from ..arrays import group_numbers, ranks, starts_of, starts_of_ends, values_at
from ..dwarf.unit_strings import (
    LINE_STR,
    STR,
    StringSections,
)
from ..dwarf.units import DebugUnits
from ..elf.admission import only_section
from ..elf.debug_files import BY_LINKS, DebugFiles, with_debug_file
from ..elf.debug_sections import debug_strings, lay_out_debug, units_of_file
from ..elf.image import ElfImage, open_elf
from ..elf.inputs import Input
from ..elf.relocation import LaidOut, relocate
from ..elf.supplementary import SUPPLEMENTARY_STRINGS
from ..kernels import engine, views
from ..kernels.calls import form_storages, reader_of
from ..kernels.line.protocol import UnitField
from ..kernels.shared.protocol import Storage
from ..strings import NOTHING, Numbered, Strings, number_together
from .headers import (
    MD5_SIZE,
    DefinedFiles,
    LineHeaders,
    PathValues,
    block_at,
    defined_files,
    read_line_headers,
    read_path_values,
    refuse_unit,
)
from .path_strings import PathStrings, form_name
from .table import LineRowColumns, LineTable, LineUnitColumns, PathColumns, contents_bit
from .units import units_of_programs, with_units

if TYPE_CHECKING:
    from numpy.typing import NDArray

LINE = ".debug_line"
WORD = 8  # the size in bytes of the largest number
NUMBERS = (DW_LNCT.directory_index, DW_LNCT.timestamp, DW_LNCT.size)


@checked(debug=DebugFiles)
def read_lines(path: Input, debug: DebugFiles = BY_LINKS) -> LineTable:
    """The line table of the `.debug_line` of an ELF file: a path, bytes in memory, or a binary stream.

    `debug` chooses the debug file of a stripped file. Compilation directories and names of units are those of
    `.debug_info`. In a relocatable file, addresses are offsets in their sections. Raises OSError, and ParseError if the
    section is missing or either is malformed.
    """
    return lines_of_image(with_debug_file(open_elf(path), debug))


@checked(byte_order=check_byte_order, address_size=check_address_size)
def from_debug_line(
    data: bytes | memoryview,
    line_str: bytes | memoryview = b"",
    byte_order: ByteOrder = "little",
    address_size: int = 8,
    debug_str: bytes | memoryview = b"",
) -> LineTable:
    """The line table of the bytes of a `.debug_line`, with those of `.debug_line_str` and `.debug_str` for its strings.

    `address_size` is that of units before version 5, which do not store it. Raises ParseError.
    """
    sections = {LINE: data, LINE_STR: line_str, STR: debug_str}
    line, *strings = (
        Section(name, memoryview(content), 0, None, byte_order, address_size) for name, content in sections.items()
    )
    return table_of_lines(line, {one.name: one for one in strings})


def lines_of_image(image: ElfImage) -> LineTable:
    """As `read_lines`, from an open file."""
    laid = lay_out_debug(image)
    strings = debug_strings(laid)
    return lines_of_file(laid, units_of_file(laid, strings), strings)


def lines_of_file(laid: LaidOut, units: DebugUnits, strings: StringSections) -> LineTable:
    """As `read_lines`, with the file's units."""
    headers = read_line_headers(relocate(laid, only_section(laid.image, LINE)))
    base = values_at(units.columns.string_offsets_base, units_of_programs(headers.offset, units), NOTHING)
    return with_units(table_of_programs(headers, run_programs(headers), strings.by_name(), base), units)


def string_sections(laid: LaidOut) -> dict[str, Section]:
    """The file's `.debug_line_str` and `.debug_str`, by name, as far as it has them."""
    found = (header for name in (LINE_STR, STR, SUPPLEMENTARY_STRINGS) for header in laid.image.named(name)[:1])
    return {header.name: laid.image.contents(header) for header in found if not header.is_nobits}


def table_of_lines(section: Section, strings: dict[str, Section] | None = None) -> LineTable:
    """The table of a `.debug_line`; `strings` holds the sections of DW_FORM_line_strp and DW_FORM_strp, by name.

    Raises ParseError, also for a descending address within a sequence (except when it wraps around), a sequence
    without DW_LNE_end_sequence, and a register that exceeds 32 bits.
    """
    headers = read_line_headers(section)
    return table_of_programs(headers, run_programs(headers), strings or {})


@dataclass(frozen=True, slots=True, eq=False)
class ProgramRows:
    """The result of running the programs of a section.

    `rows`; the unit of each sequence, `sequence_unit` u32, and its first row, `first_row` i64, with one more element;
    and for each DW_LNE_define_file its unit and the section offset of its operands, `defined_unit` and
    `defined_offset`, i64.
    """

    rows: LineRowColumns
    sequence_unit: NDArray[np.uint32]
    first_row: NDArray[np.int64]
    defined_unit: NDArray[np.int64]
    defined_offset: NDArray[np.int64]


def table_of_programs(
    headers: LineHeaders,
    programs: ProgramRows,
    strings: dict[str, Section],
    string_offsets_base: NDArray[np.int64] | None = None,
) -> LineTable:
    """The table of headers and the rows of their programs; `string_offsets_base` is that of each program's unit, or -1.
    Raises ParseError."""
    paths = read_line_paths(headers, read_path_values(headers), strings, programs, string_offsets_base)
    return LineTable(
        byte_order=headers.section.byte_order,
        units=_unit_columns(headers, paths.chosen),
        first_directory=paths.first_directory,
        directories=paths.directories,
        first_file=paths.first_file,
        files=paths.files,
        strings=paths.strings.compact(),
        sequence_unit=programs.sequence_unit,
        first_row=programs.first_row,
        rows=programs.rows,
        source=headers.section.name,
    )


@cache
def effects(is_extended: bool) -> NDArray[np.uint8]:
    """The effect of each standard or extended opcode (the schema's tables) as an array, for kernels."""
    table = np.zeros(256, np.uint8)
    for opcode, spec in EXTENDED.items() if is_extended else STANDARD.items():
        table[opcode] = spec.effect
    return table


def state_machine(headers: LineHeaders) -> Any:
    """The kernels' state machine for the programs of a section."""
    return engine.line.machine.Machine(reader_of(headers.section), *views(effects(False), effects(True)))


def no_programs() -> ProgramRows:
    """The result if no program is run."""
    nothing = np.zeros(0, np.int64)
    return ProgramRows(LineRowColumns.empty(0), nothing.astype(np.uint32), np.zeros(1, np.int64), nothing, nothing)


def run_programs(headers: LineHeaders) -> ProgramRows:
    """Run the programs of all units: once to count, once to fill. Raises ParseError."""
    machine, counts = state_machine(headers), (0, 0, 0)
    for _ in ("count", "fill"):
        rows = LineRowColumns.empty(counts[0])
        sequences = np.zeros(counts[1], np.uint32), np.zeros(counts[1], np.int64)
        defined = np.zeros(counts[2], np.int64), np.zeros(counts[2], np.int64)
        registers = rows.address, rows.op_index, rows.file, rows.line, rows.column, rows.isa, rows.discriminator
        filled = engine.line.machine.Rows(*views(*registers, rows.flags, *sequences, *defined))
        done = engine.line.machine.run(machine, *views(headers.fields), filled)
        if machine.reader.fault:
            refuse_unit(headers, done, "program", machine.reader)
        counts = filled.row, filled.sequence, filled.defined
    return ProgramRows(rows, sequences[0], starts_of_ends(sequences[1]), *defined)


@dataclass(frozen=True, slots=True, eq=False)
class ChosenValues:
    """`column` i64: by table and `DW_LNCT` up to MD5, the index of the format with that content type in each entry (the
    last one if there are several); -1 if there is none."""

    column: NDArray[np.int64]

    def contents(self) -> NDArray[np.uint8]:
        """The content types that entries have, by table: bits as in `contents_bit`."""
        bits = sum(
            (self.column[:, content] >= 0) * contents_bit(content) for content in DW_LNCT if content <= DW_LNCT.MD5
        )
        return np.asarray(bits, np.uint8)


def _chosen_values(headers: LineHeaders, values: PathValues) -> ChosenValues:
    """Find the content types among each table's formats."""
    column = np.full((2 * len(headers), DW_LNCT.MD5 + 1), -1, np.int64)
    counts = values.format_counts()
    table, index = group_numbers(counts), ranks(counts)
    is_known = (values.content <= DW_LNCT.MD5) & (values.content > 0)
    column[table[is_known], values.content[is_known].astype(np.int64)] = index[is_known]
    return ChosenValues(column)


@dataclass(frozen=True, slots=True, eq=False)
class LinePaths:
    """The directories and files of all units, as in `LineTable`, and where their entries have which content type."""

    directories: PathColumns
    first_directory: NDArray[np.int64]
    files: PathColumns
    first_file: NDArray[np.int64]
    strings: Strings
    chosen: ChosenValues


def read_line_paths(
    headers: LineHeaders,
    values: PathValues,
    strings: dict[str, Section],
    programs: ProgramRows,
    string_offsets_base: NDArray[np.int64] | None = None,
) -> LinePaths:
    """Pick directories and files from their values, and append the files that programs define. Raises ParseError."""
    chosen, paths = _chosen_values(headers, values), PathStrings(headers, strings, string_offsets_base)
    defined = defined_files(headers.section, programs.defined_unit, programs.defined_offset)
    directories, first_directory, of_directories = _path_columns(headers, values, chosen, 0, paths)
    files, first_file, of_files = _path_columns(headers, values, chosen, 1, paths)
    of_defined = Numbered(np.arange(len(defined.unit)), defined.paths(headers.section))
    empty = Numbered(np.zeros(1, np.int64), Strings.of([b""]))
    found, numbers = number_together(empty, of_directories, of_files, of_defined)
    for columns, number in ((directories, numbers[1]), (files, numbers[2])):
        columns.path[:] = np.where(number < 0, numbers[0][0], number)
    files, first_file = _with_defined(files, first_file, defined, numbers[3])
    return LinePaths(directories, first_directory, files, first_file, found, chosen)


def _path_columns(
    headers: LineHeaders, values: PathValues, chosen: ChosenValues, which: int, paths: PathStrings
) -> tuple[PathColumns, NDArray[np.int64], Numbered]:
    """The directories (`which` 0) or files (1) of all units, the index of each unit's first, and their paths, which are
    not numbered yet."""
    tables = 2 * np.arange(len(headers)) + which
    counts = values.entry_counts()[tables]
    table = np.repeat(tables, counts)
    base = values.first_value[table] + ranks(counts) * values.format_counts()[table]

    def values_of(content: DW_LNCT) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The entries that have the content type, the indices of its values, and their forms."""
        column = chosen.column[table, content]
        having = np.flatnonzero(column >= 0)
        form = values.form[values.first_format[table[having]] + column[having]].astype(np.int64)
        return having, base[having] + column[having], form

    columns = PathColumns.defaults(len(table))
    for content in NUMBERS:
        having, value, form = values_of(content)
        getattr(columns, content.name)[having] = _numbers(headers, values, value, form, content)
    having, value, form = values_of(DW_LNCT.MD5)
    _check_forms(headers, form == DW_FORM.data16, values.start[value], form, DW_LNCT.MD5)
    data = np.frombuffer(headers.section.data, np.uint8)
    columns.md5[having] = data[values.start[value][:, None] + np.arange(MD5_SIZE)]
    having, value, form = values_of(DW_LNCT.path)
    found = paths.paths_of(values, value, form, table[having] // 2)
    number = np.full(len(table), NOTHING)
    number[having] = found.number
    return columns, starts_of(counts), Numbered(number, found.strings)


def _numbers(
    headers: LineHeaders, values: PathValues, value: NDArray[np.int64], form: NDArray[np.int64], content: DW_LNCT
) -> NDArray[np.uint64]:
    """The numbers that values of these forms hold. Raises ParseError for a form that holds none."""
    number = values.number[value]
    storage = form_storages()[form]
    is_number = (storage <= WORD) | (storage == Storage.ULEB)
    is_block = (storage >= Storage.BLOCK) & (storage < Storage.UNKNOWN)
    for block in np.flatnonzero(is_block & (number <= WORD)).tolist():
        # DWARF5 6.2.4.1 allows DW_FORM_block for a timestamp; its bytes are read as one integer.
        number[block] = _block_number(headers.section, values, int(value[block]), int(form[block]))
        is_number[block] = True
    _check_forms(headers, is_number, values.start[value], form, content)
    return number


def _block_number(section: Section, values: PathValues, value: int, form: int) -> int:
    """The bytes of a block as an integer in the section's byte order."""
    kind = FORM_KINDS[DW_FORM(form)]
    assert isinstance(kind, Block | SizedBlock)
    data = block_at(section, kind, int(values.start[value]), int(values.number[value]))
    return int.from_bytes(data, section.byte_order)


def _check_forms(
    headers: LineHeaders,
    is_right: NDArray[np.bool_],
    start: NDArray[np.int64],
    form: NDArray[np.int64],
    content: DW_LNCT,
) -> None:
    """Raise ParseError if a form cannot hold the content type."""
    for wrong in np.flatnonzero(~is_right)[:1]:
        reason = f"{form_name(int(form[wrong]))} is not allowed for this content type"
        raise ParseError(headers.section, int(start[wrong]), f"DW_LNCT_{content.name}", reason)


def _with_defined(
    files: PathColumns, first_file: NDArray[np.int64], defined: DefinedFiles, path: NDArray[np.int64]
) -> tuple[PathColumns, NDArray[np.int64]]:
    """The files, with those that a unit's program defines after those of its header; `path` numbers their paths."""
    unit = defined.unit
    if not len(unit):
        return files, first_file
    more = PathColumns.defaults(
        len(unit),
        path=path.astype(np.uint32),
        directory_index=defined.directory_index,
        timestamp=defined.timestamp,
        size=defined.size,
    )
    counts = np.diff(first_file) + np.bincount(unit, minlength=len(first_file) - 1)
    return files.insert(first_file[1:][unit], more), starts_of(counts)


def _unit_columns(headers: LineHeaders, chosen: ChosenValues) -> LineUnitColumns:
    lengths = np.zeros((len(headers), 255), np.uint8)
    count = headers.field(UnitField.OPCODE_BASE) - 1
    unit, number = group_numbers(count), ranks(count)
    data = np.frombuffer(headers.section.data, np.uint8)
    lengths[unit, number] = data[headers.field(UnitField.OPCODE_LENGTHS)[unit] + number]
    contents = chosen.contents()
    return LineUnitColumns.defaults(
        len(headers),
        offset=headers.offset,
        version=headers.version.astype(np.uint8),
        is_64=headers.is_64,
        address_size=headers.field(UnitField.ADDRESS_SIZE).astype(np.uint8),
        segment_selector_size=headers.segment_selector_size.astype(np.uint8),
        minimum_instruction_length=headers.field(UnitField.MINIMUM_INSTRUCTION_LENGTH).astype(np.uint8),
        maximum_operations=headers.field(UnitField.MAXIMUM_OPERATIONS).astype(np.uint8),
        default_is_stmt=headers.field(UnitField.DEFAULT_IS_STMT).astype(np.uint8),
        line_base=headers.field(UnitField.LINE_BASE).astype(np.int8),
        line_range=headers.field(UnitField.LINE_RANGE).astype(np.uint8),
        opcode_base=headers.field(UnitField.OPCODE_BASE).astype(np.uint8),
        opcode_lengths=lengths,
        directory_contents=contents[0::2],
        file_contents=contents[1::2],
    )
