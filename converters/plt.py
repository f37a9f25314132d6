"""x86-64 PLT sections that no call frame information covers, recognised by name, entry size and bytes.

Strategy: a section is taken only if every byte of it is one of the known stubs (psABI 5.2; GNU ld, lld, mold,
with and without IBT and BND). A stub runs with the caller's return address on top, and what it pushes itself.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .elf import ElfImage
from .rules import CfaKind, RuleKind
from .unwind import CfaRule, Function, RegisterRule, Row, UnwindTable, concatenate, table_of

if TYPE_CHECKING:
    from .arch import Architecture

_JUMP = rb"\xff\x25.{4}"  # jmp *GOT(%rip)
_ENDBR = rb"\xf3\x0f\x1e\xfa"
_NOPS = rb"(?:\x66*\x90|\x0f\x1f\x00|\x0f\x1f\x40.|\x66*\x0f\x1f\x44.{2}|\x66*(?:\x2e)?\x0f\x1f\x84.{5}|\xcc)*"


class Stub(NamedTuple):
    """One kind of entry: its size in bytes, what it looks like, the offset behind its push (0: it pushes nothing)."""

    size: int
    pattern: re.Pattern[bytes]
    pushed: int


def _stub(size: int, code: bytes, pushed: int = 0) -> Stub:
    return Stub(size, re.compile(rb"(?s)" + code + _NOPS + rb"\Z"), pushed)


# push GOT+8(%rip); jmp *GOT+16(%rip)
HEADER = _stub(16, rb"\xff\x35.{4}(?:\xf2)?\xff\x25.{4}", 6)
LAZY = (
    _stub(16, _JUMP + rb"\x68.{4}\xe9.{4}", 11),
    _stub(16, _ENDBR + rb"\x68.{4}(?:\xf2)?\xe9.{4}", 9),
)
DIRECT = (
    _stub(8, _JUMP),
    _stub(16, _JUMP),
    _stub(16, _ENDBR + rb"(?:\xf2)?" + _JUMP),
)
SECTIONS = {".plt": (*LAZY, *DIRECT), ".plt.sec": DIRECT, ".plt.got": DIRECT}


def with_uncovered_plt(image: ElfImage, table: UnwindTable) -> UnwindTable:
    """The table and the PLT sections that none of its functions touches."""
    if table.architecture.name != "x86_64":
        return table
    found: list[Function] = []
    start, end = table.functions.start, table.functions.start + table.functions.size
    for header in image.sections:
        is_covered = np.any((start < header.address + header.size) & (end > header.address))
        if header.name in SECTIONS and header.is_code and not header.is_nobits and not is_covered:
            data = bytes(image.contents(header).data)
            found += plt_functions(header.name, header.address, data, table.architecture)
    return concatenate(table, table_of(table.architecture, found)) if found else table


def plt_functions(name: str, address: int, data: bytes, architecture: Architecture) -> list[Function]:
    """What a PLT section's bytes say: its first entry, if it has one, and all others as one repetitive function."""
    found = []
    at = 0
    if name == ".plt" and HEADER.pattern.match(data[: HEADER.size]):
        found.append(_function(architecture, address, HEADER.size, HEADER, 0, first=16))
        at = HEADER.size
    for stub in SECTIONS[name]:
        entries = [data[start : start + stub.size] for start in range(at, len(data), stub.size)]
        if entries and all(len(entry) == stub.size and stub.pattern.match(entry) for entry in entries):
            block = stub.size if (address + at) % stub.size == 0 else 0
            if block or not stub.pushed:
                found.append(_function(architecture, address + at, len(data) - at, stub, block))
            return found
    return found if at == len(data) else []


def _function(architecture: Architecture, start: int, size: int, stub: Stub, block: int, first: int = 8) -> Function:
    saved = (RegisterRule(architecture.return_address, RuleKind.OFFSET, -8),)
    offsets = {0: first} | ({stub.pushed: first + 8} if stub.pushed else {})
    rows = tuple(
        Row(at, CfaRule(CfaKind.REGISTER, architecture.stack_pointer, offset), saved) for at, offset in offsets.items()
    )
    return Function(start, size, rows, return_column=architecture.return_address, repetition=block)
