"""The headers of drawn line number programs (DWARF5 6.2.4)."""

from __future__ import annotations

from ...schemas.forms import DW_FORM
from ...schemas.line import DW_LNCT
from ...schemas.wire import LENGTH_DWARF64, DwarfFormat
from ..byte_stream import leb
from ..choices import Draw, integers, sampled_from
from ..wire_writer import WireWriter
from .meaning import HAS_FORMATS, HAS_OPERATIONS, LINE_STRP, VENDOR, LineProgram, Setting

# What is written of a directory or file in version 5, and in which forms (DWARF5 6.2.4.1).
_NUMBER_FORMS = (DW_FORM.udata, DW_FORM.data1, DW_FORM.data2)
_TIME_FORMS = (DW_FORM.udata, DW_FORM.data4, DW_FORM.data8, DW_FORM.block)
_SIZE_FORMS = (DW_FORM.udata, DW_FORM.data1, DW_FORM.data2, DW_FORM.data4, DW_FORM.data8)
_VENDOR_CONTENT = 0x3001
_VENDOR_FORMS = (DW_FORM.udata, DW_FORM.data16, DW_FORM.string, DW_FORM.block, DW_FORM.block1, DW_FORM.sdata)
_SIZES = {DW_FORM.data1: 1, DW_FORM.data2: 2, DW_FORM.data4: 4, DW_FORM.data8: 8, DW_FORM.data16: 16}
_MARKS = integers(0, 15)
_TIME, _SIZE, _MD5, _VENDOR = 1, 2, 4, 8
_VALUES = sampled_from([0, 1, 100, 127])
_PADDING = 0xCC

Formats = list[tuple[int, DW_FORM]]


class HeaderWriter:
    """The header of one unit. `strings` is the `.debug_line_str` of the section; `used` are features in it."""

    def __init__(self, setting: Setting, program: LineProgram, name: str, strings: bytearray) -> None:
        self.setting, self.program, self.name, self.strings = setting, program, name, strings
        self.writer = WireWriter(setting.byte_order)
        self.used: set[str] = set()

    def write(self, draw: Draw) -> None:
        """The fields after header_length."""
        one, put = self.program, self.writer.put
        put(f"{self.name}.minimum_instruction_length", one.minimum_length, 1)
        if self.setting.version >= HAS_OPERATIONS:
            put(f"{self.name}.maximum_operations_per_instruction", one.maximum_operations, 1)
        put(f"{self.name}.default_is_stmt", one.is_stmt, 1)
        put(f"{self.name}.line_base", one.line_base, 1)
        put(f"{self.name}.line_range", one.line_range, 1)
        put(f"{self.name}.opcode_base", one.opcode_base, 1)
        for index, length in enumerate(one.opcode_lengths):
            put(f"{self.name}.standard_opcode_lengths[{index}]", length, 1)
        if self.setting.version >= HAS_FORMATS:
            self._write_tables(draw)
        else:
            self._write_lists()
        self.writer.data += bytes([_PADDING]) * one.header_padding

    def _write_lists(self) -> None:
        """Directories and files up to version 4."""
        one, data = self.program, self.writer.data
        for directory in one.directories[1:]:
            data += directory.encode() + b"\0"
        data += b"\0"
        for file in one.files[: len(one.files) - one.defined]:
            data += file.name.encode() + b"\0" + leb(file.directory, signed=False) + b"\0\0"
        data += b"\0"

    def _write_tables(self, draw: Draw) -> None:
        """Directories and files from version 5 on."""
        one = self.program
        path = DW_FORM.line_strp if self.setting.has(LINE_STRP) and draw(_MARKS) & 1 else DW_FORM.string
        if path is DW_FORM.line_strp:
            self.used.add(LINE_STRP)
        formats: Formats = [(DW_LNCT.path, path)]
        self._write_table(draw, "director", formats, [(name, 0) for name in one.directories])
        formats.append((DW_LNCT.directory_index, draw(sampled_from(_NUMBER_FORMS))))
        marks = draw(_MARKS)
        if marks & _TIME:
            formats.append((DW_LNCT.timestamp, draw(sampled_from(_TIME_FORMS))))
        if marks & _SIZE:
            formats.append((DW_LNCT.size, draw(sampled_from(_SIZE_FORMS))))
        if marks & _MD5:
            formats.append((DW_LNCT.MD5, DW_FORM.data16))
        if marks & _VENDOR and self.setting.has(VENDOR):
            self.used.add(VENDOR)
            formats.append((_VENDOR_CONTENT, draw(sampled_from(_VENDOR_FORMS))))
        turn = draw(integers(0, len(formats) - 1))
        formats = formats[turn:] + formats[:turn]
        self._write_table(draw, "file_name", formats, [(file.name, file.directory) for file in one.files])

    def _write_table(self, draw: Draw, title: str, formats: Formats, entries: list[tuple[str, int]]) -> None:
        """A count of formats, the formats, a count of entries, the entries."""
        name, padding = f"{self.name}.{title}", self.program.padding
        is_directory = title == "director"
        prefix, count = (f"{name}y", f"{name}ies_count") if is_directory else (name, f"{name}s_count")
        self.writer.put(f"{prefix}_entry_format_count", len(formats), 1)
        for index, (content, form) in enumerate(formats):
            entry = f"{prefix}_entry_format[{index}]"
            self.writer.put_leb(f"{entry}.content_type", content, padding=padding)
            self.writer.put_leb(f"{entry}.form", form, padding=padding)
        self.writer.put_leb(count, len(entries), padding=padding)
        for path, directory in entries:
            for content, form in formats:
                match content:
                    case DW_LNCT.path:
                        self._put_path(path, form)
                    case DW_LNCT.directory_index:
                        self._put_value(directory, form)
                    case _:
                        self._put_value(draw(_VALUES), form)

    def _put_path(self, path: str, form: DW_FORM) -> None:
        if form is DW_FORM.line_strp:
            self.writer.data += len(self.strings).to_bytes(self.program.dwarf_format, self.setting.byte_order)
            self.strings += path.encode() + b"\0"
        else:
            self.writer.data += path.encode() + b"\0"

    def _put_value(self, value: int, form: DW_FORM) -> None:
        data = self.writer.data
        match form:
            case DW_FORM.udata:
                data += leb(value, signed=False, padding=self.program.padding)
            case DW_FORM.sdata:
                data += leb(value, signed=True, padding=self.program.padding)
            case DW_FORM.string:
                data += b"%d\0" % value
            case DW_FORM.block | DW_FORM.block1:
                data += bytes([1, value])
            case _:
                data += value.to_bytes(_SIZES[form], self.setting.byte_order)


def put_initial_length(writer: WireWriter, name: str, size: int, dwarf_format: DwarfFormat) -> None:
    """Append a unit_length (DWARF5 7.4)."""
    if dwarf_format is DwarfFormat.DWARF64:
        writer.put(f"{name}.escape", LENGTH_DWARF64, 4)
    writer.put(f"{name}.unit_length", size, dwarf_format)


def whole_unit(setting: Setting, header: HeaderWriter, program: WireWriter) -> WireWriter:
    """The bytes of a unit: lengths and version, the header, and the program."""
    name, dwarf_format = header.name, header.program.dwarf_format
    inner = WireWriter(setting.byte_order)
    inner.put(f"{name}.version", setting.version, 2)
    if setting.version >= HAS_FORMATS:
        inner.put(f"{name}.address_size", setting.architecture.address_size, 1)
        inner.put(f"{name}.segment_selector_size", 0, 1)
    inner.put(f"{name}.header_length", len(header.writer.data), dwarf_format)
    inner.put_all(header.writer)
    inner.put_all(program)
    unit = WireWriter(setting.byte_order)
    put_initial_length(unit, name, len(inner.data), dwarf_format)
    unit.put_all(inner)
    return unit
