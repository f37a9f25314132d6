"""`.debug_line` into the line table (DWARF5 6.2).

Strategy: headers are columns (`line_heads`); a kernel runs the programs of the whole section. Of directories and files
the values are picked by what their formats say; equal paths get one number.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from ...schemas.forms import DW_FORM, FORM_KINDS
from ...schemas.line import DW_LNCT, EXTENDED, STANDARD
from ...schemas.section import ParseError, Section
from ...schemas.wire import Block, SizedBlock
from ..arrays import ranges
from ..elf.image import ElfImage, open_elf
from ..elf.relocation import LaidOut, laid_out, relocated
from ..kernels import engine, views
from ..kernels.calls import form_storages, reader_of
from ..kernels.line.protocol import UnitField
from ..kernels.shared.protocol import Storage
from .headers import MD5_SIZE, LineHeads, PathValues, block_at, defined_files, line_heads, path_values, refuse_unit
from .table import LineRowColumns, LineTable, LineUnitColumns, PathColumns, contents_bit

if TYPE_CHECKING:
    from numpy.typing import NDArray

LINE, LINE_STR, STR = ".debug_line", ".debug_line_str", ".debug_str"
# Where the strings of these forms are.
STRING_SECTIONS = {DW_FORM.line_strp: LINE_STR, DW_FORM.strp: STR}
WORD = 8  # bytes of the largest number
NUMBERS = (DW_LNCT.directory_index, DW_LNCT.timestamp, DW_LNCT.size)


def read_lines(path: str | os.PathLike[str]) -> LineTable:
    """The line table of an ELF file's `.debug_line`.

    Addresses of a relocatable file count from the start of their sections. Raises OSError, and ParseError where the
    file has no such section, or a broken one.
    """
    return lines_of_image(open_elf(path))


def lines_of_image(image: ElfImage) -> LineTable:
    """As `read_lines`, for an open file."""
    laid = laid_out(image, apart=False)
    found = laid.image.named(LINE)
    if not found:
        raise ParseError(LINE, None, "", "the file has no such section")
    if len(found) > 1:
        raise ParseError(LINE, None, "", f"the file has {len(found)} sections of that name")
    return table_of_lines(relocated(laid, found[0]), string_sections(laid))


def string_sections(laid: LaidOut) -> dict[str, Section]:
    """The sections of strings that a file has, by name."""
    found = (header for name in (LINE_STR, STR) for header in laid.image.named(name)[:1])
    return {header.name: laid.image.contents(header) for header in found if not header.is_nobits}


def table_of_lines(section: Section, strings: dict[str, Section] | None = None) -> LineTable:
    """The table of a `.debug_line`; `strings` are the sections that DW_FORM_line_strp and DW_FORM_strp name, by name.

    What cannot be read as the text says is an error, not a gap: an address that goes down within a sequence (but for
    one that passes the largest), a sequence without its end, a register of more than 32 bits. Raises ParseError.
    """
    heads = line_heads(section)
    rows, sequence_unit, first_row, defined = run_programs(heads)
    paths = line_paths(heads, path_values(heads), strings or {}, defined)
    return table_of_headers(heads, paths, rows, sequence_unit, first_row)


def table_of_headers(
    heads: LineHeads,
    paths: LinePaths,
    rows: LineRowColumns,
    sequence_unit: NDArray[np.uint32],
    first_row: NDArray[np.int64],
) -> LineTable:
    """A table of headers that are read, with these rows."""
    return LineTable(
        byte_order=heads.section.byte_order,
        units=_unit_columns(heads, paths),
        directories=paths.directories,
        files=paths.files,
        strings=paths.strings,
        sequence_unit=sequence_unit,
        first_row=first_row,
        rows=rows,
        source=heads.section.name,
    )


@cache
def effects(is_extended: bool) -> NDArray[np.uint8]:
    """The effect of each standard or extended opcode, as kernels take them (the schema's tables)."""
    table = np.zeros(256, np.uint8)
    for opcode, spec in EXTENDED.items() if is_extended else STANDARD.items():
        table[opcode] = spec.effect
    return table


def machine_of(heads: LineHeads) -> Any:
    """A kernel's machine for the programs of a section."""
    return engine.line.machine.Machine(reader_of(heads.section), *views(effects(False), effects(True)))


def empty_rows(count: int) -> list[NDArray[Any]]:
    """The columns of as many rows, in their order."""
    return [np.zeros(count, kind) for kind in (np.uint64, np.uint8, *[np.uint32] * 5, np.uint8)]


Defined = tuple["NDArray[np.int64]", "NDArray[np.int64]"]


def run_programs(
    heads: LineHeads,
) -> tuple[LineRowColumns, NDArray[np.uint32], NDArray[np.int64], Defined]:
    """The rows of all programs, unit and first row of each sequence, unit and place of each file that they define."""
    machine, counts = machine_of(heads), (0, 0, 0)
    for _ in range(2):
        columns = empty_rows(counts[0])
        unit, end = np.zeros(counts[1], np.uint32), np.zeros(counts[1], np.int64)
        defined = (np.zeros(counts[2], np.int64), np.zeros(counts[2], np.int64))
        rows = engine.line.machine.Rows(*views(*chain(columns, (unit, end), defined)))
        done = engine.line.machine.run(machine, *views(heads.fields), rows)
        if machine.reader.fault:
            refuse_unit(heads, done, "program", machine.reader)
        counts = (rows.row, rows.sequence, rows.defined)
    return LineRowColumns(*columns), unit, np.concatenate([np.zeros(1, np.int64), end]), defined


@dataclass(frozen=True, slots=True, eq=False)
class ChosenValues:
    """For each table, and each of `DW_LNCT` up to MD5, the value of an entry that says it, -1 where none does (the last
    one where two do)."""

    column: NDArray[np.int64]

    def contents(self) -> NDArray[np.uint8]:
        """The contents that entries have, by table."""
        bits = sum(
            (self.column[:, content] >= 0) * contents_bit(content) for content in DW_LNCT if content <= DW_LNCT.MD5
        )
        return np.asarray(bits, np.uint8)


def chosen_values(heads: LineHeads, values: PathValues) -> ChosenValues:
    """Which value of each table's entries says what."""
    column = np.full((2 * len(heads), DW_LNCT.MD5 + 1), -1, np.int64)
    counts = values.format_counts()
    table = np.repeat(np.arange(len(counts)), counts)
    is_known = (values.content <= DW_LNCT.MD5) & (values.content > 0)
    index = np.arange(len(table)) - values.first_format[table]
    column[table[is_known], values.content[is_known].astype(np.int64)] = index[is_known]
    return ChosenValues(column)


@dataclass(frozen=True, slots=True, eq=False)
class LinePaths:
    """The directories and files of all units, those that programs define with them, as a `LineTable` has them, and what
    their entries say."""

    directories: PathColumns
    first_directory: NDArray[np.int64]
    files: PathColumns
    first_file: NDArray[np.int64]
    strings: tuple[bytes, ...]
    chosen: ChosenValues


def line_paths(heads: LineHeads, values: PathValues, strings: dict[str, Section], defined: Defined) -> LinePaths:
    """Pick them from their values. Raises ParseError."""
    chosen, paths = chosen_values(heads, values), _Paths(heads.section, strings)
    directories, first_directory = _path_columns(heads, values, chosen, 0, paths)
    files, first_file = _path_columns(heads, values, chosen, 1, paths)
    files, first_file = _with_defined(heads.section, files, first_file, defined, paths)
    return LinePaths(directories, first_directory, files, first_file, tuple(paths.numbers), chosen)


def _path_columns(
    heads: LineHeads, values: PathValues, chosen: ChosenValues, which: int, paths: _Paths
) -> tuple[PathColumns, NDArray[np.int64]]:
    """The directories (0) or files (1) of all units, and the first one of each unit."""
    tables = 2 * np.arange(len(heads)) + which
    counts = values.entry_counts()[tables]
    table = np.repeat(tables, counts)
    first = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    entry = np.arange(len(table)) - np.repeat(first[:-1], counts)
    base = values.first_value[table] + entry * values.format_counts()[table]

    def where(content: DW_LNCT) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The entries that say it, the values that do, and the forms of these."""
        column = chosen.column[table, content]
        said = np.flatnonzero(column >= 0)
        form = values.form[values.first_format[table[said]] + column[said]].astype(np.int64)
        return said, base[said] + column[said], form

    numbers: dict[str, NDArray[np.uint64]] = {}
    for content in NUMBERS:
        said, value, form = where(content)
        number = values.number[value]
        storage = form_storages()[form]
        is_number = (storage <= WORD) | (storage == Storage.ULEB)
        is_block = (storage >= Storage.BLOCK) & (storage < Storage.UNKNOWN)
        for block in np.flatnonzero(is_block & (number <= WORD)).tolist():
            # The text lets a time be a block: then it is a number of as many bytes.
            number[block] = _block_number(heads.section, values, int(value[block]), int(form[block]))
            is_number[block] = True
        _check_forms(heads, is_number, values.start[value], form, content)
        numbers[content.name] = np.zeros(len(table), np.uint64)
        numbers[content.name][said] = number
    said, value, form = where(DW_LNCT.MD5)
    _check_forms(heads, form == DW_FORM.data16, values.start[value], form, DW_LNCT.MD5)
    md5 = np.zeros((len(table), MD5_SIZE), np.uint8)
    md5[said] = np.frombuffer(heads.section.data, np.uint8)[values.start[value][:, None] + np.arange(MD5_SIZE)]
    said, value, form = where(DW_LNCT.path)
    path = np.full(len(table), paths.number_of(b""), np.uint32)
    path[said] = paths.numbers_of(values, value, form)
    return PathColumns(path, **numbers, md5=md5), first


def _block_number(section: Section, values: PathValues, value: int, form: int) -> int:
    kind = FORM_KINDS[DW_FORM(form)]
    assert isinstance(kind, Block | SizedBlock)
    data = block_at(section, kind, int(values.start[value]), int(values.number[value]))
    return int.from_bytes(data, section.byte_order)


def _check_forms(
    heads: LineHeads, is_right: NDArray[np.bool_], start: NDArray[np.int64], form: NDArray[np.int64], content: DW_LNCT
) -> None:
    """ParseError where a form does not hold what an entry says."""
    for wrong in np.flatnonzero(~is_right)[:1]:
        reason = f"{_form_name(int(form[wrong]))} does not hold it"
        raise ParseError(heads.section, int(start[wrong]), f"DW_LNCT_{content.name}", reason)


def _form_name(form: int) -> str:
    return f"DW_FORM_{DW_FORM(form).name}"


class _Paths:
    """Numbers of different paths, as they are met; `numbers` has them by their bytes."""

    def __init__(self, section: Section, strings: dict[str, Section]) -> None:
        self.section = section
        self.strings = strings
        self.numbers: dict[bytes, int] = {}

    def number_of(self, path: bytes) -> int:
        """The number of a path."""
        return self.numbers.setdefault(path, len(self.numbers))

    def numbers_of(self, values: PathValues, value: NDArray[np.int64], form: NDArray[np.int64]) -> NDArray[np.uint32]:
        """The numbers of the paths that values of string forms say. Raises ParseError."""
        found = np.zeros(len(value), np.uint32)
        for one in np.unique(form).tolist():
            which = np.flatnonzero(form == one)
            start = values.start[value[which]]
            if one == DW_FORM.string:
                size = values.number[value[which]].astype(np.int64)
                spans = zip(start.tolist(), (start + size).tolist(), strict=True)
                found[which] = [self.number_of(bytes(self.section.data[begin:end])) for begin, end in spans]
                continue
            if one not in STRING_SECTIONS:
                reason = f"{_form_name(one)} names a string of another section or file that is not read"
                raise ParseError(self.section, int(start[0]), "DW_LNCT_path", reason)
            offset, inverse = np.unique(values.number[value[which]], return_inverse=True)
            name, place = STRING_SECTIONS[DW_FORM(one)], int(start[0])
            texts = (string_in(self.section, self.strings, name, at, place) for at in offset.tolist())
            numbers = [self.number_of(text) for text in texts]
            found[which] = np.array(numbers, np.uint32)[inverse]
        return found


def string_in(section: Section, strings: dict[str, Section], name: str, offset: int, place: int) -> bytes:
    """The string at an offset of the strings of section `name`, which `place` of `section` names. Raises ParseError."""
    if name not in strings:
        raise ParseError(section, place, "DW_LNCT_path", f"names a string of {name}, which is not there")
    if offset >= len(strings[name]):
        reason = f"{offset:#x}, in a section of {len(strings[name]):#x} bytes"
        raise ParseError(section, place, f"DW_LNCT_path: {name}", reason)
    return string_at(strings[name], offset)


# Most paths are shorter: a section may be large, and is not copied for one.
_FIRST_READ = 256


def string_at(strings: Section, offset: int) -> bytes:
    """The bytes from an offset up to the next zero byte. Raises ParseError where there is none."""
    size = _FIRST_READ
    while True:
        text, end, _ = bytes(strings.data[offset : offset + size]).partition(b"\0")
        if end:
            return text
        if offset + size >= len(strings):
            raise ParseError(strings, offset, "string", "no zero byte ends it")
        size *= 2


def _with_defined(
    section: Section, files: PathColumns, first_file: NDArray[np.int64], defined: Defined, paths: _Paths
) -> tuple[PathColumns, NDArray[np.int64]]:
    """The files with those that programs define behind those of their headers."""
    unit, place = defined
    if not len(unit):
        return files, first_file
    found = defined_files(section, unit, place)
    numbers = [paths.number_of(found.path(section, number)) for number in range(len(unit))]
    more = {name.name: getattr(found, name.name) for name in NUMBERS}
    more |= {"path": np.array(numbers, np.uint32), "md5": np.zeros((len(unit), MD5_SIZE), np.uint8)}
    behind = first_file[1:][unit]
    names = [field.name for field in fields(PathColumns)]
    columns = {name: np.insert(getattr(files, name), behind, more[name], axis=0) for name in names}
    counts = np.diff(first_file) + np.bincount(unit, minlength=len(first_file) - 1)
    return PathColumns(**columns), np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])


def _unit_columns(heads: LineHeads, paths: LinePaths) -> LineUnitColumns:
    lengths = np.zeros((len(heads), 255), np.uint8)
    count = heads.field(UnitField.OPCODE_BASE) - 1
    unit = np.repeat(np.arange(len(heads)), count)
    number = ranges(np.zeros(len(heads), np.int64), count)
    data = np.frombuffer(heads.section.data, np.uint8)
    lengths[unit, number] = data[heads.field(UnitField.OPCODE_LENGTHS)[unit] + number]
    contents = paths.chosen.contents()
    return LineUnitColumns(
        offset=heads.offset,
        version=heads.version.astype(np.uint8),
        is_64=heads.is_64,
        address_size=heads.field(UnitField.ADDRESS_SIZE).astype(np.uint8),
        segment_selector_size=heads.segment_selector_size.astype(np.uint8),
        minimum_instruction_length=heads.field(UnitField.MINIMUM_INSTRUCTION_LENGTH).astype(np.uint8),
        maximum_operations=heads.field(UnitField.MAXIMUM_OPERATIONS).astype(np.uint8),
        default_is_stmt=heads.field(UnitField.DEFAULT_IS_STMT).astype(np.uint8),
        line_base=heads.field(UnitField.LINE_BASE).astype(np.int8),
        line_range=heads.field(UnitField.LINE_RANGE).astype(np.uint8),
        opcode_base=heads.field(UnitField.OPCODE_BASE).astype(np.uint8),
        opcode_lengths=lengths,
        directory_contents=contents[0::2],
        file_contents=contents[1::2],
        first_directory=paths.first_directory,
        first_file=paths.first_file,
    )
