"""unwindkit's own reader, in the protocol's words: the row at each PC from the bytes of a case.

It is a reader under test like any other. No answer of a corpus comes from here.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from io import BytesIO
from types import MappingProxyType

from ..converters.arch.table import Architecture, unwind_registers
from ..converters.breakpad.stack_cfi.read import from_stack_cfi
from ..converters.cfi.eh_frame_hdr import read_eh_frame_hdr
from ..converters.cfi.read import from_debug_frame, from_eh_frame
from ..converters.dwarf.expressions import ExpressionError, Memory, Register, parse, register_offset, simplify
from ..converters.dwarf.unit_strings import LINE_STR
from ..converters.files.find import find_in_file
from ..converters.line.lookup import LineAt, find_lines
from ..converters.line.read import LINE, from_debug_line
from ..converters.table.lookup import find_rows
from ..converters.table.model import FunctionFlag
from ..corpus.breakpad import SECTION
from ..corpus.case import ERROR, NONE, Answer, Case
from ..corpus.eh_frame_hdr import SECTION as EH_FRAME_HDR
from ..corpus.rules import row_answer
from ..schemas.cfi import EH_FRAME
from ..schemas.eh_frame_hdr import VERSION
from ..schemas.section import ByteOrder, FormatError, ParseError, Section

_EXPRESSION = re.compile(r"(v?)exp\(([0-9a-f]*)\)")
# In place of a register: the CFA, which is on the stack of a register's expression.
_CFA = -1


def own_answers(case: Case, pcs: Sequence[int]) -> list[Answer]:
    """What we read in the section at each PC; an error for all, if one is reported."""
    others = {name: data for name, data, _ in case.other_sections}
    return answers(case.data, case.section, case.architecture, case.byte_order, case.address, pcs, others)


def answers(
    data: bytes,
    section: str,
    architecture: Architecture,
    byte_order: ByteOrder,
    address: int,
    pcs: Sequence[int],
    others: Mapping[str, bytes] = MappingProxyType({}),
) -> list[Answer]:
    """The answers for a raw section; `others` are sections that it refers to, by name."""
    try:
        if section == LINE:
            strings = others.get(LINE_STR, b"")
            lines = from_debug_line(data, strings, byte_order, architecture.address_size)
            return [_line_answer(one) for one in find_lines(lines, pcs)]
        if section == ".sframe":
            return _sframe_answers(data, architecture, address, pcs)
        if section == EH_FRAME_HDR:
            return _search_answers(Section.of(section, data, address, byte_order, architecture.address_size), pcs)
        if section == SECTION:
            table = from_stack_cfi(data, architecture.name)
        elif section == EH_FRAME.name:
            table = from_eh_frame(data, address, architecture.name, byte_order)
        else:
            table = from_debug_frame(data, architecture.name, byte_order)
    except FormatError as error:
        return [(ERROR, str(error).replace("\t", " "))] * len(pcs)
    fp = unwind_registers(architecture).fp
    at, columns = find_rows(table, pcs), table.functions
    found: list[Answer] = []
    for function, row in zip(at.function.tolist(), at.row.tolist(), strict=True):
        if row >= 0 and columns.flags[function] & FunctionFlag.UNKNOWN_AUGMENTATION:
            found.append((ERROR, "unknown augmentation"))
        else:
            answer = NONE if row < 0 else row_answer(table.row(row), int(columns.return_column[function]), fp)
            found.append(_plain_row(answer) if section == SECTION else answer)
    return found


def _search_answers(section: Section, pcs: Sequence[int]) -> list[Answer]:
    header = read_eh_frame_hdr(section)
    if header.version != VERSION:
        raise ParseError(section, 0, "version", f"{header.version}; expected {VERSION}")
    if (header.fde_count or 0) > len(header.location_address):
        raise ParseError(section, header.table_offset, "fde_count", f"{header.fde_count} rows are not in the section")
    starts, fdes = header.location_address.tolist(), header.fde_address.tolist()
    found = [bisect_right(starts, pc) - 1 for pc in pcs]
    return [NONE if index < 0 else (hex(fdes[index]),) for index in found]


def _line_answer(found: LineAt | None) -> Answer:
    return NONE if found is None else (found.file.decode(errors="replace"), str(found.line), str(found.column))


def _sframe_answers(data: bytes, architecture: Architecture, address: int, pcs: Sequence[int]) -> list[Answer]:
    _, found = find_in_file(BytesIO(data), pcs, source="sframe", address=address)
    registers = unwind_registers(architecture)
    rows = [
        NONE if one.row is None or not one.size else row_answer(one.row, registers.ra, registers.fp) for one in found
    ]
    return list(map(_plain_row, rows))


def _plain_row(row: Answer) -> Answer:
    return tuple(_plain(rule, is_cfa=index == 0) for index, rule in enumerate(row))


def _plain(rule: str, *, is_cfa: bool) -> str:
    """The rules of FLEX FDEs and of symbol files, which we read as expressions: these refer to registers alone."""
    match = _EXPRESSION.match(rule)
    if match is None:
        return rule
    is_value, rest = is_cfa or match[1] == "v", rule[match.end() :]
    try:
        node = simplify(parse(bytes.fromhex(match[2])), initial=None if is_cfa else Register(_CFA))
    except ExpressionError:
        return rule
    is_memory = isinstance(node, Memory)
    place = register_offset(node.address if isinstance(node, Memory) else node, 8)
    if place is None or (is_memory and not is_value):
        return rule
    base, offset = place
    is_saved = is_memory or not is_value
    if base == _CFA:
        return f"{'c' if is_saved else 'v'}{offset:+d}{rest}"
    return (f"m(r{base}{offset:+d})" if is_saved else f"r{base}{offset:+d}") + rest
