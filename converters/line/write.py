"""The line table into `.debug_line`, and into `.debug_line_str` for the paths of version 5 (DWARF5 6.2).

Strategy: a kernel writes all programs, each as short as possible; headers are declared records, built by the reference
engine. A unit that must keep its size is padded with instructions that change no row, after its last sequence.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ...schemas.arguments import check_integers, checked, optional
from ...schemas.forms import DW_FORM
from ...schemas.line import (
    DW_LNCT,
    DW_LNS,
    EntryFormat,
    FileName,
    LineProgramHeader,
    LineUnit,
    LineUnitHead,
    RowFlag,
    Values,
)
from ...schemas.line_sections import build_unit
from ...schemas.section import BuildError
from ...schemas.wire import DwarfFormat, uleb
from ..arrays import renumbered
from ..kernels import engine, views
from ..kernels.line.protocol import UnitField
from ..kernels.protocol import Fault
from ..limits import exceeded
from .table import LISTS_ZERO, LineTable, PathColumns, contents_bit

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The form of each content type from version 5 on; paths may also be DW_FORM_string.
FORMS = {
    DW_LNCT.path: DW_FORM.line_strp,
    DW_LNCT.directory_index: DW_FORM.udata,
    DW_LNCT.timestamp: DW_FORM.udata,
    DW_LNCT.size: DW_FORM.udata,
    DW_LNCT.MD5: DW_FORM.data16,
}


# Without a row after it, this instruction has no effect: every sequence starts with the flag cleared.
PADDING = DW_LNS.set_basic_block


@checked(table=LineTable, line_str=optional(bytes), unit_sizes=optional(check_integers))
def to_debug_line(
    table: LineTable,
    line_str: bytes | None = b"",
    fixed_advance: bool = False,
    unit_sizes: NDArray[np.int64] | None = None,
) -> tuple[bytes, bytes]:
    """A `.debug_line` with the rows of the table, and the `.debug_line_str` that it refers to.

    `line_str` is an existing section to extend: paths already in it are reused, others are appended; with None, paths
    are in `.debug_line` itself, as in split DWARF. `unit_sizes` are the sizes in bytes to which units are padded.
    `fixed_advance` advances addresses by DW_LNS_fixed_advance_pc only, or DW_LNE_set_address if that does not reach,
    like assemblers that cannot compute differences. Every sequence begins with DW_LNE_set_address. Raises BuildError
    for a row that no instruction can produce: its address descends, or it needs a standard opcode that opcode_base
    makes a special one.
    """
    _check_sequences(table)
    texts = _texts(table, is_repeated=line_str is None)
    programs, end = _programs(table, fixed_advance)
    strings = None if line_str is None else _Strings(line_str, texts)
    pieces: list[bytes] = []
    begin = 0
    for unit, stop in enumerate(end.tolist()):
        record = _unit(table, unit, programs[begin:stop], texts, strings)
        built = build_unit(record, table.byte_order)
        if unit_sizes is not None and len(built) != unit_sizes[unit]:
            built = build_unit(_padded(table, unit, record, int(unit_sizes[unit]) - len(built)), table.byte_order)
        pieces.append(built)
        begin = stop
    return b"".join(pieces), b"" if strings is None else bytes(strings.data)


def _padded(table: LineTable, unit: int, record: LineUnit, missing: int) -> LineUnit:
    """The unit with `missing` bytes more."""
    if missing < 0:
        raise BuildError(table.source, None, f"unit[{unit}]", f"is {-missing} bytes larger than the one it replaces")
    if record.header.opcode_base <= PADDING:
        reason = f"{record.header.opcode_base} makes the opcode {PADDING:d}, which pads, a special one"
        raise BuildError(table.source, None, f"unit[{unit}].opcode_base", reason)
    return replace(record, program=record.program + bytes([PADDING]) * missing)


def _check_sequences(table: LineTable) -> None:
    """Raise BuildError unless the last row of each sequence, and no other, has END_SEQUENCE."""
    is_end = table.rows.flags & RowFlag.END_SEQUENCE != 0
    should_be = np.zeros(len(table), np.bool_)
    should_be[table.first_row[1:] - 1] = True
    for row in np.flatnonzero(is_end != should_be)[:1]:
        reason = (
            "is set before the last row of the sequence" if is_end[row] else "is not set in the sequence's last row"
        )
        raise BuildError(table.source, None, f"row[{row}].end_sequence", reason)


def unit_fields(table: LineTable) -> NDArray[np.int64]:
    """`UnitField`s by unit, for kernels; the section offsets among them are 0."""
    fields = np.zeros((table.unit_count, len(UnitField)), np.int64)
    units = table.units
    fields[:, UnitField.ADDRESS_SIZE] = units.address_size
    fields[:, UnitField.MINIMUM_INSTRUCTION_LENGTH] = units.minimum_instruction_length
    fields[:, UnitField.MAXIMUM_OPERATIONS] = units.maximum_operations
    fields[:, UnitField.DEFAULT_IS_STMT] = units.default_is_stmt
    fields[:, UnitField.LINE_BASE] = units.line_base
    fields[:, UnitField.LINE_RANGE] = units.line_range
    fields[:, UnitField.OPCODE_BASE] = units.opcode_base
    for name in (UnitField.MINIMUM_INSTRUCTION_LENGTH, UnitField.MAXIMUM_OPERATIONS, UnitField.LINE_RANGE):
        for unit in np.flatnonzero(fields[:, name] == 0)[:1]:
            raise BuildError(table.source, None, f"unit[{unit}].{name.name.lower()}", "is 0")
    return fields


def _programs(table: LineTable, fixed_advance: bool) -> tuple[bytes, NDArray[np.int64]]:
    """The programs of all units, concatenated, and the offset where each ends."""
    rows, fields = table.rows, unit_fields(table)
    sequences = np.argsort(table.sequence_unit, kind="stable")
    first = np.searchsorted(table.sequence_unit[sequences], np.arange(table.unit_count + 1))
    end = np.zeros(table.unit_count, np.int64)
    columns = (rows.address, rows.op_index, rows.file, rows.line, rows.column, rows.isa, rows.discriminator, rows.flags)
    out = np.zeros(0, np.uint8)
    for _ in ("count", "fill"):
        writer = engine.shared.writes.Writer(table.byte_order == "big", *views(out))
        encoder = engine.line.encoder.Encoder(writer, int(fixed_advance))
        done = engine.line.encoder.programs(encoder, *views(fields, first, sequences, table.first_row, *columns, end))
        if encoder.fault:
            _refuse(table, done, encoder.fault)
        out = np.zeros(writer.at, np.uint8) if not len(out) else out
    return out.tobytes(), end


def _refuse(table: LineTable, row: int, fault: int) -> NoReturn:
    raise BuildError(table.source, None, f"row[{row}]", Fault(fault).sentence)


def _texts(table: LineTable, is_repeated: bool) -> dict[int, bytes]:
    """The paths of directories and files, by their number. Raises BuildError if they are out of proportion to the
    table; `is_repeated` is whether a path is written for each entry, not once."""
    numbers = np.concatenate([table.directories.path, table.files.path]).astype(np.int64)
    used = renumbered(numbers)[0]
    is_new = table.units.version >= LISTS_ZERO
    total = int(table.strings.size[numbers if is_repeated or not is_new.all() else used].sum())
    limit = table.strings.limit(len(numbers))
    if total > limit:
        reason = f"the paths take {total} bytes; at most {limit} are in proportion to the line table"
        raise BuildError(table.source, None, "files", exceeded(reason))
    return dict(zip(used.tolist(), table.strings.select(used), strict=True))


class _Strings:
    """A string section that grows; `data` is its bytes, `texts` the strings to find in it, by number. Existing strings
    are searched by suffix, because linkers merge a string with the tail of a longer one."""

    def __init__(self, data: bytes, texts: dict[int, bytes]) -> None:
        if data and data[-1]:
            raise BuildError(
                ".debug_line_str", len(data) - 1, "string", "the last one is not terminated by a zero byte"
            )
        self.data = bytearray(data)
        self.texts = texts
        self.offsets: dict[int, int] = {}
        ends: dict[bytes, int] = {}
        at = 0
        for text in data.split(b"\0")[:-1]:
            at += len(text)
            ends.setdefault(text[::-1], at)
            at += 1
        self.ends = sorted(ends.items())

    def offset_of(self, number: int) -> int:
        """The offset of a string, which is appended if it is not there yet."""
        if number not in self.offsets:
            text = self.texts[number]
            reverse = text[::-1]
            found = bisect_left(self.ends, (reverse, 0))
            if found < len(self.ends) and self.ends[found][0].startswith(reverse):
                self.offsets[number] = self.ends[found][1] - len(text)
            else:
                self.offsets[number] = len(self.data)
                self.data += text + b"\0"
        return self.offsets[number]


def _unit(table: LineTable, unit: int, program: bytes, texts: dict[int, bytes], strings: _Strings | None) -> LineUnit:
    """The record of one unit."""
    units = table.units
    version, opcode_base = int(units.version[unit]), int(units.opcode_base[unit])
    has_formats = version >= LISTS_ZERO
    unit_header = LineUnitHead(
        DwarfFormat.DWARF64 if units.is_64[unit] else DwarfFormat.DWARF32,
        version,
        int(units.address_size[unit]) if has_formats else None,
        int(units.segment_selector_size[unit]) if has_formats else None,
    )
    directories = slice(int(table.first_directory[unit]), int(table.first_directory[unit + 1]))
    files = slice(int(table.first_file[unit]), int(table.first_file[unit + 1]))
    tables: dict[str, Any]
    if has_formats:
        contents = _contents(int(units.directory_contents[unit])), _contents(int(units.file_contents[unit]))
        values = _values(table, table.directories, directories, contents[0], texts, strings)
        values_of_files = _values(table, table.files, files, contents[1], texts, strings)
        path_form = DW_FORM.string if strings is None else DW_FORM.line_strp
        tables = _table_fields(contents, values, values_of_files, FORMS | {DW_LNCT.path: path_form})
    else:
        paths = tuple(texts[path] for path in table.directories.path[directories].tolist())
        tables = {"include_directories": paths, "file_names": tuple(_file_names(table, files, texts))}
    header = LineProgramHeader(
        minimum_instruction_length=int(units.minimum_instruction_length[unit]),
        maximum_operations_per_instruction=int(units.maximum_operations[unit]) if version >= 4 else None,
        default_is_stmt=int(units.default_is_stmt[unit]),
        line_base=int(units.line_base[unit]),
        line_range=int(units.line_range[unit]),
        opcode_base=opcode_base,
        standard_opcode_lengths=tuple(units.opcode_lengths[unit, : opcode_base - 1].tolist()),
        **tables,
    )
    return LineUnit(unit_header, header, program)


def _contents(bits: int) -> tuple[DW_LNCT, ...]:
    """The content types of a unit's entries, from the bits of `contents_bit`."""
    return tuple(content for content in FORMS if bits & contents_bit(content))


def _table_fields(
    contents: tuple[tuple[DW_LNCT, ...], ...],
    directories: tuple[Values, ...],
    files: tuple[Values, ...],
    forms: dict[DW_LNCT, DW_FORM],
) -> dict[str, Any]:
    """The header fields of the directory and file tables, from version 5 on."""
    formats = [tuple(EntryFormat(uleb(int(one)), uleb(int(forms[one]))) for one in types) for types in contents]
    return {
        "directory_entry_format_count": len(formats[0]),
        "directory_entry_format": formats[0],
        "directories_count": uleb(len(directories)),
        "directories": directories,
        "file_name_entry_format_count": len(formats[1]),
        "file_name_entry_format": formats[1],
        "file_names_count": uleb(len(files)),
        "files": files,
    }


def _values(
    table: LineTable,
    columns: PathColumns,
    which: slice,
    contents: tuple[DW_LNCT, ...],
    texts: dict[int, bytes],
    strings: _Strings | None,
) -> tuple[Values, ...]:
    """The values of directories or files, as stored in their forms."""
    if not contents and which.start < which.stop:
        raise BuildError(table.source, None, "files", "entries without any content type cannot be counted")
    found: list[list[object]] = []
    for content in contents:
        if content is DW_LNCT.path:
            paths = columns.path[which].tolist()
            found.append([strings.offset_of(path) if strings is not None else texts[path] for path in paths])
        elif content is DW_LNCT.MD5:
            found.append([one.tobytes() for one in columns.md5[which]])
        else:
            found.append([uleb(number) for number in getattr(columns, content.name)[which].tolist()])
    return tuple(zip(*found, strict=True))


def _file_names(table: LineTable, which: slice, texts: dict[int, bytes]) -> list[FileName]:
    """The file entries of versions 2 to 4."""
    files = table.files
    columns = (files.directory_index[which], files.timestamp[which], files.size[which])
    numbers = zip(*(column.tolist() for column in columns), strict=True)
    paths = (texts[path] for path in files.path[which].tolist())
    return [FileName(path, *map(uleb, each)) for path, each in zip(paths, numbers, strict=True)]
