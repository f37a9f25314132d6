"""Unwind rows for PLT sections without call frame information, recognized by their bytes.

Strategy: a section is recognized only if all of its bytes belong to known stubs (arch/plt_stubs.py).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from .arch.plt_stubs import Stub, StubRow
from .arch.table import UnwindRegisters, unwind_registers
from .elf.image import ElfImage
from .rules import CfaKind, RuleKind
from .table.model import CfaRule, Function, RegisterRule, Row, UnwindTable, concatenate, table_of

if TYPE_CHECKING:
    from .arch.table import Architecture


def with_uncovered_plt(image: ElfImage, table: UnwindTable) -> UnwindTable:
    """The table, extended by the parts of PLT sections that it does not cover: a whole section, or the end of one."""
    if table.architecture.plt_stubs is None:
        return table
    stubs = table.architecture.plt_stubs()
    found: list[Function] = []
    start, end = table.functions.start, table.functions.start + table.functions.size
    # Linkers make one section per name. In a hostile file, a thousand headers could share the same bytes.
    for header in (image.named(name)[0] for name in stubs.entries if len(image.named(name)) == 1):
        stop = header.address + header.size
        if stop >= 1 << 64 or not header.is_code or header.is_nobits:
            continue
        touching = (start < np.uint64(stop)) & (end > np.uint64(header.address))
        reach = max(header.address, int(end[touching].max(initial=np.uint64(0))))
        if reach < stop:
            data = bytes(image.contents(header).data)[reach - header.address :]
            found += plt_functions(header.name, reach, data, table.architecture)
    return concatenate([table, table_of(table.architecture, found)]) if found else table


def plt_functions(name: str, address: int, data: bytes, architecture: Architecture) -> list[Function]:
    """The functions in the bytes of a PLT section: the first entry, if any; all further entries as one repetitive
    function; and a last entry of another kind, if any. Empty if any byte is not recognized.
    """
    assert architecture.plt_stubs is not None
    stubs = architecture.plt_stubs()
    found: list[Function] = []
    begin, stop = 0, len(data)
    if name == ".plt":
        if first := next((one for one in stubs.first if _is_at(one, data, 0)), None):
            found.append(_function(architecture, address, first.size, first, 0))
            begin = first.size
        if last := next((one for one in stubs.last if _is_at(one, data, stop - one.size)), None):
            stop -= last.size
            found.append(_function(architecture, address + stop, last.size, last, 0))
    if begin >= stop:
        return found if begin == stop else []
    for stub in stubs.entries[name]:
        places = range(begin, stop, stub.size)
        if (stop - begin) % stub.size == 0 and all(_is_at(stub, data, at) for at in places):
            block = stub.size if (address + begin) % stub.size == 0 else 0
            if block or len(stub.rows) == 1:
                found.append(_function(architecture, address + begin, stop - begin, stub, block))
            return found
    return []


def _is_at(stub: Stub, data: bytes, at: int) -> bool:
    return at >= 0 and re.match(stub.pattern, data[at : at + stub.size]) is not None


def _function(architecture: Architecture, start: int, size: int, stub: Stub, block: int) -> Function:
    registers = unwind_registers(architecture)
    rows = tuple(
        Row(at.offset, CfaRule(CfaKind.REGISTER, registers.sp, at.cfa_offset), _saved(registers, at))
        for at in stub.rows
    )
    return Function(start, size, rows, return_column=registers.ra, repetition=block)


def _saved(registers: UnwindRegisters, at: StubRow) -> tuple[RegisterRule, ...]:
    if at.ra_offset is None:
        return ()
    return (RegisterRule(registers.ra, RuleKind.OFFSET, at.ra_offset),)
