"""`.debug_line` as in GNU readelf 2.47 with `--debug-dump=rawline`: headers, and instruction by instruction.

Strategy: an instruction's effect chooses a template, which a kernel fills. Unknown opcodes, files that programs define,
and headers have no template; their text is a word.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ....schemas.forms import DW_FORM, FORM_KINDS
from ....schemas.line import DW_LNCT, LNE_LO_USER, LineEffect
from ....schemas.section import Section
from ....schemas.wire import Block, Sized, SizedBlock, Variable
from ...bulk_text import Templates, in_parts, prefixed
from ...dwarf.unit_strings import INDEXED_FORMS, STRING_SECTIONS
from ...kernels.line.protocol import Event, UnitField
from ...strings import PART
from ..headers import block_at
from ..path_strings import strings_in
from .decode import EFFECTS, ENDING, HEADING, Events, LineDump, defined_in, events_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_AT = "  [0x{offset:08x}]"
_EXTENDED = f"{_AT}  Extended opcode {{opcode}}: "
_WORD = f"{_AT}{{word:w}}"
# By effect; INDEX is replaced by op_index, VIEW by the view number of the row.
_TEXTS = {
    HEADING: "{word:w}",
    ENDING: "\n",
    LineEffect.NOTHING: _WORD,
    LineEffect.SPECIAL: f"{_AT}  Special opcode {{opcode}}: advance Address by {{advance}} to {{address:#x}}INDEX"
    " and Line by {line_advance:d} to {line:d}VIEW\n",
    LineEffect.COPY: f"{_AT}  CopyVIEW\n",
    LineEffect.ADVANCE_PC: f"{_AT}  Advance PC by {{advance}} to {{address:#x}}INDEX\n",
    LineEffect.ADVANCE_LINE: f"{_AT}  Advance Line by {{line_advance:d}} to {{line:d}}\n",
    LineEffect.SET_FILE: f"{_AT}  Set File Name to entry {{operand}} in the File Name Table\n",
    LineEffect.SET_COLUMN: f"{_AT}  Set column to {{operand}}\n",
    LineEffect.NEGATE_STMT: f"{_AT}  Set is_stmt to {{is_stmt}}\n",
    LineEffect.SET_BASIC_BLOCK: f"{_AT}  Set basic block\n",
    LineEffect.CONST_ADD_PC: f"{_AT}  Advance PC by constant {{advance}} to {{address:#x}}INDEX\n",
    LineEffect.FIXED_ADVANCE_PC: f"{_AT}  Advance PC by fixed size amount {{operand}} to {{address:#x}}\n",
    LineEffect.SET_PROLOGUE_END: f"{_AT}  Set prologue_end to true\n",
    LineEffect.SET_EPILOGUE_BEGIN: f"{_AT}  Set epilogue_begin to true\n",
    LineEffect.SET_ISA: f"{_AT}  Set ISA to {{operand}}\n",
    LineEffect.END_SEQUENCE: f"{_EXTENDED}End of Sequence\n\n",
    LineEffect.SET_ADDRESS: f"{_EXTENDED}set Address to {{address:#x}}\n",
    LineEffect.DEFINE_FILE: _WORD,
    LineEffect.SET_DISCRIMINATOR: f"{_EXTENDED}set Discriminator to {{operand}}\n",
}
# A template for each effect, with and without INDEX and VIEW.
_TEMPLATES = [
    _TEXTS[effect].replace("INDEX", index).replace("VIEW", view)
    for effect in EFFECTS
    for index in ("", "[{op_index}]")
    for view in ("", " (view {view})")
]

# Hewlett-Packard's (GNU binutils, include/dwarf2.h); readelf does not print their operands.
_HP_NAMES = {
    0x11: "negate_is_UV_update",
    0x12: "push_context",
    0x13: "pop_context",
    0x14: "set_file_line_column",
    0x15: "set_routine_name",
    0x16: "set_sequence",
    0x17: "negate_post_semantics",
    0x18: "negate_function_exit",
    0x19: "negate_front_end_logical",
    0x20: "define_proc",
}


def raw_line_text(dump: LineDump) -> Iterator[bytes]:
    """The text, in chunks. Raises ParseError."""
    yield f"Raw dump of debug contents of section {dump.section.listed_name}:\n\n".encode(errors="surrogateescape")
    text = _Text(dump)
    for events in events_of(dump.headers, range(len(dump.headers))):
        yield from text.of(events)


class _Text:
    """The text of one chunk of instructions after the other; holds the number of files that a unit has so far."""

    def __init__(self, dump: LineDump) -> None:
        self._dump = dump
        self._templates = Templates(Event, _TEMPLATES)
        self._is_vliw = dump.is_vliw()
        self._file_count = np.diff(dump.paths.first_file)

    def of(self, events: Events) -> Iterator[bytes]:
        """The text of a chunk, in parts of which none holds more than PART bytes of headers, or a piece of one."""
        begin, words, size = 0, list[bytes](), 0
        for number in events.having(HEADING).tolist():
            for text in in_parts(_header_text(self._dump, int(events.unit[number]))):
                if size + len(text) > PART:
                    yield self._filled(events.part(begin, number), words)
                    begin, words, size = number, [], 0
                if len(text) >= PART:
                    yield text
                else:
                    # The last piece of a header, which is less than a part.
                    words.append(text)
                    size += len(text)
        yield self._filled(events.part(begin, len(events)), words)

    def _filled(self, events: Events, words: list[bytes]) -> bytes:
        """The text of entries, given the words of their headings."""
        first_word = self._templates.first_word
        events.values[events.having(HEADING), Event.WORD] = first_word + np.arange(len(words))
        for which, texts in (self._defined_files(events), self._unknown(events)):
            events.values[which, Event.WORD] = first_word + len(words) + np.arange(len(texts))
            words = words + texts
        has_view = events.value(Event.VIEW) > 0
        template = 4 * events.effect.astype(np.int64) + 2 * self._is_vliw[events.unit] + has_view
        return self._templates.fill(template, events.values, words)

    def _unknown(self, events: Events) -> tuple[NDArray[np.int64], list[bytes]]:
        """The instructions with unknown opcodes, and the text of each."""
        which, section = events.having(LineEffect.NOTHING), self._dump.section
        texts: list[bytes] = []
        for number in which.tolist():
            begin, end = (int(events.values[number, event]) for event in (Event.BEGIN, Event.END))
            opcode = int(events.values[number, Event.OPCODE])
            if events.values[number, Event.IS_EXTENDED]:
                texts.append(unknown_extended(opcode, bytes(section.data[begin:end])))
            else:
                texts.append(unknown_standard(section, opcode, begin, end))
        return which, texts

    def _defined_files(self, events: Events) -> tuple[NDArray[np.int64], list[bytes]]:
        """The instructions that define files (DW_LNE_define_file), and the text of each."""
        which = events.having(LineEffect.DEFINE_FILE)
        if not len(which):
            return which, []
        found = defined_in(self._dump.section, events)
        paths = found.paths(self._dump.section)
        heading = b"  Extended opcode 3: define new File Table entry\n  Entry\tDir\tTime\tSize\tName\n"
        columns = (events.unit[which], found.directory_index, found.timestamp, found.size)
        texts: list[bytes] = []
        for number, (unit, *values) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
            self._file_count[unit] += 1
            entry = "\t".join(map(str, (self._file_count[unit], *values)))
            texts.append(heading + f"   {entry}\t".encode() + paths[number] + b"\n\n")
        return which, texts


def unknown_standard(section: Section, opcode: int, begin: int, end: int) -> bytes:
    """The text of an unknown standard opcode, with its LEB128 operands."""
    operands: list[str] = []
    value = shift = 0
    for byte in section.data[begin:end]:
        # Groups after the tenth are padding: the kernel has checked it.
        value |= (byte & 0x7F) << shift if shift < 70 else 0
        shift += 7
        if byte < 0x80:
            operands.append(prefixed(value))
            value = shift = 0
    return f"  Unknown opcode {opcode} with operands: {', '.join(operands)}\n".encode()


def unknown_extended(opcode: int, operands: bytes) -> bytes:
    """The text of an unknown extended opcode."""
    title = f"  Extended opcode {opcode}: "
    if opcode in _HP_NAMES:
        return f"{title}DW_LNE_HP_{_HP_NAMES[opcode]}\n".encode()
    kind = "user defined" if opcode >= LNE_LO_USER else "UNKNOWN"
    data = "".join(f" {byte:02x}" for byte in operands)
    return f"{title}{kind}: length {len(operands)} [{data}]\n".encode()


def _header_text(dump: LineDump, unit: int) -> Iterator[bytes]:
    """The header of a unit, and the heading of its instructions."""
    headers = dump.headers
    fields = headers.fields[unit].tolist()
    version, offset = int(headers.version[unit]), int(headers.offset[unit])
    length = fields[UnitField.END] - offset - (12 if headers.is_64[unit] else 4)
    lines = [
        ("Offset", prefixed(offset)),
        ("Length", length),
        ("DWARF Version", version),
        ("Address size (bytes)", fields[UnitField.ADDRESS_SIZE] if version >= 5 else None),
        ("Segment selector (bytes)", int(headers.segment_selector_size[unit]) if version >= 5 else None),
        ("Prologue Length", int(headers.header_length[unit])),
        ("Minimum Instruction Length", fields[UnitField.MINIMUM_INSTRUCTION_LENGTH]),
        ("Maximum Ops per Instruction", fields[UnitField.MAXIMUM_OPERATIONS] if version >= 4 else None),
        ("Initial value of 'is_stmt'", fields[UnitField.DEFAULT_IS_STMT]),
        ("Line Base", fields[UnitField.LINE_BASE]),
        ("Line Range", fields[UnitField.LINE_RANGE]),
        ("Opcode Base", fields[UnitField.OPCODE_BASE]),
    ]
    shown = "".join(f"  {name + ':':<29}{value}\n" for name, value in lines if value is not None)
    first = fields[UnitField.OPCODE_LENGTHS]
    lengths = bytes(dump.section.data[first : first + fields[UnitField.OPCODE_BASE] - 1])
    yield f"{shown}\n Opcodes:\n{_opcodes_text(lengths)}".encode()
    yield from _formatted_tables(dump, unit) if version >= 5 else _old_tables(dump, unit)
    has_program = fields[UnitField.PROGRAM] < fields[UnitField.END]
    yield b"\n Line Number Statements:\n" if has_program else b"\n No Line Number Statements.\n"


@lru_cache(64)
def _opcodes_text(lengths: bytes) -> str:
    """The numbers of operands of the standard opcodes, which are the same in nearly all units."""
    return "".join(
        f"  Opcode {opcode} has {count} arg{'' if count == 1 else 's'}\n" for opcode, count in enumerate(lengths, 1)
    )


def _old_tables(dump: LineDump, unit: int) -> Iterator[bytes]:
    """Directories and files up to version 4."""
    paths, place = dump.paths, dump.values.place
    numbers = _paths_of_table(dump, 2 * unit)
    state = f" (offset {prefixed(int(place[2 * unit]))}):\n" if numbers else " is empty.\n"
    yield b"\n The Directory Table" + state.encode()
    for number, path in enumerate(numbers, 1):
        yield f"  {number}\t".encode() + dump.texts[path] + b"\n"
    begin, end = (int(paths.first_file[one]) for one in (unit, unit + 1))
    if begin == end:
        yield b"\n The File Name Table is empty.\n"
        return
    files = paths.files
    columns = (files.path, files.directory_index, files.timestamp, files.size)
    entries = zip(*(column[begin:end].tolist() for column in columns), strict=True)
    offset = prefixed(int(place[2 * unit + 1]))
    yield f"\n The File Name Table (offset {offset}):\n  Entry\tDir\tTime\tSize\tName\n".encode()
    for number, (path, directory, time, size) in enumerate(entries, 1):
        yield f"  {number}\t{directory}\t{time}\t{size}\t".encode() + dump.texts[path] + b"\n"


# The most bytes that a value takes, with what is before it, but for a path or a block.
_VALUE_SIZE = 64
_COLUMN_NAMES = {
    DW_LNCT.path: "\tName",
    DW_LNCT.directory_index: "\tDir",
    DW_LNCT.timestamp: "\tTime",
    DW_LNCT.size: "\tSize",
    DW_LNCT.MD5: "\tMD5\t\t\t",
}


def _formatted_tables(dump: LineDump, unit: int) -> Iterator[bytes]:
    """Directories and files from version 5 on; readelf prints the path of an entry last."""
    for which, name in enumerate(("Directory Table", "File Name Table")):
        yield from _formatted_table(dump, 2 * unit + which, name)


def _formatted_table(dump: LineDump, table: int, name: str) -> Iterator[bytes]:
    values = dump.values
    formats = slice(int(values.first_format[table]), int(values.first_format[table + 1]))
    contents = values.content[formats].tolist()
    begin, end = int(values.first_value[table]), int(values.first_value[table + 1])
    if begin == end:
        yield f"\n The {name} is empty.\n".encode()
        return
    order = sorted(range(len(contents)), key=lambda one: contents[one] == DW_LNCT.path)
    offset = prefixed(int(values.start[begin]))
    heading = (
        f"\n The {name} (offset {offset}, lines {(end - begin) // len(contents)}, columns {len(contents)}):\n  Entry"
    )
    heading += "".join(
        _COLUMN_NAMES.get(contents[one], f"\t(Unknown format content type {contents[one]})") for one in order
    )
    yield f"{heading}\n".encode()
    columns = [_column_texts(dump, table, one) for one in order]
    rows = (b"  %d%b\n" % (number, b"".join(texts)) for number, texts in enumerate(zip(*columns, strict=True)))
    if _is_small(dump, table):
        yield b"".join(rows)
    else:
        yield from rows


def _is_small(dump: LineDump, table: int) -> bool:
    """Whether the text of a table, as of nearly every one, is less than a part: paths and short values."""
    values = dump.values
    begin, end = int(values.first_format[table]), int(values.first_format[table + 1])
    forms = values.form[begin:end].tolist()
    path = int(dump.paths.chosen.column[table, DW_LNCT.path])
    is_short = all(form in _AS_NUMBER or column == path for column, form in enumerate(forms))
    count = int(values.first_value[table + 1]) - int(values.first_value[table])
    return is_short and count * (dump.longest + _VALUE_SIZE) <= PART


_IN_HEXADECIMAL = (DW_FORM.data4, DW_FORM.data8, DW_FORM.sec_offset)
# Forms whose values are printed as unsigned decimal numbers.
_AS_NUMBER = (DW_FORM.udata, DW_FORM.data1, DW_FORM.data2, DW_FORM.flag, *INDEXED_FORMS)
_STRING_KINDS = {DW_FORM.line_strp: "indirect line string", DW_FORM.strp: "indirect string"}


def _column_texts(dump: LineDump, table: int, column: int) -> Iterator[bytes]:
    """The text of a value of each entry of a table: the one that the entry's format of that index has."""
    first, end = int(dump.values.first_format[table]), int(dump.values.first_format[table + 1])
    form = DW_FORM(int(dump.values.form[first + column]))
    begin, stop = (int(dump.values.first_value[one]) for one in (table, table + 1))
    values = slice(begin + column, stop, end - first)
    if form in _AS_NUMBER:
        return (b"\t%d" % number for number in dump.values.number[values].tolist())
    if form not in STRING_SECTIONS:
        return (_value_text(dump, form, value) for value in range(values.start, values.stop, values.step))
    offset = dump.values.number[values]
    if dump.paths.chosen.column[table, DW_LNCT.path] == column:
        number, strings = _paths_of_table(dump, table), dump.texts
    else:
        # A content type that is not known.
        place = int(dump.values.start[values.start])
        found = strings_in(dump.section, dump.strings, STRING_SECTIONS[form], offset, place)
        number, strings = found.number.tolist(), found.strings
    kind, pairs = _STRING_KINDS[form].encode(), zip(offset.tolist(), number, strict=True)
    return (b"\t(%b, offset: %b): %b" % (kind, b"%#x" % at if at else b"0", strings[one]) for at, one in pairs)


def _paths_of_table(dump: LineDump, table: int) -> list[int]:
    """The numbers of the paths of a table's entries."""
    paths, unit = dump.paths, table // 2
    columns, first = (paths.files, paths.first_file) if table % 2 else (paths.directories, paths.first_directory)
    found: list[int] = columns.path[first[unit] : first[unit + 1]].tolist()
    return found


def _value_text(dump: LineDump, form: DW_FORM, value: int) -> bytes:
    """A value as readelf prints attributes of that form."""
    number, start = int(dump.values.number[value]), int(dump.values.start[value])
    kind = FORM_KINDS[form]
    if form is DW_FORM.string:
        return b"\t" + bytes(dump.section.data[start : start + number])
    if isinstance(kind, Sized):
        high_first = bytes(dump.section.data[start : start + number])
        if dump.section.byte_order == "little":
            high_first = high_first[::-1]
        high, low = int.from_bytes(high_first[:8]), int.from_bytes(high_first[8:])
        return f" {high:#x}{low:016x}".encode() if high else f" {prefixed(low)}".encode()
    if isinstance(kind, Block | SizedBlock):
        data = "".join(f"{byte:x} " for byte in block_at(dump.section, kind, start, number))
        return f"\t{number} byte block: {data}".encode()
    if form in _IN_HEXADECIMAL:
        return f"\t{prefixed(number)}".encode()
    if form is DW_FORM.strp_sup and isinstance(kind, Variable):
        return f"\t<{prefixed(number)}>".encode()
    assert form is DW_FORM.sdata, form
    return f"\t{number - (number >> 63 << 64)}".encode()
