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
    """One kind of entry: its size in bytes, what it looks like, the CFA's offset from SP at its start, and the
    offsets in it behind each push."""

    size: int
    pattern: re.Pattern[bytes]
    cfa_offset: int
    pushes: tuple[int, ...]


def _stub(size: int, code: bytes, *pushes: int, cfa_offset: int = 8) -> Stub:
    return Stub(size, re.compile(rb"(?s)" + code + _NOPS + rb"\Z"), cfa_offset, pushes)


# The first entry: push GOT+8(%rip); jmp *GOT+16(%rip). An entry has pushed its index before; mold's is in r11.
HEADERS = (
    _stub(16, rb"\xff\x35.{4}(?:\xf2)?\xff\x25.{4}", 6, cfa_offset=16),
    _stub(32, _ENDBR + rb"\x41\x53\xff\x35.{4}\xff\x25.{4}", 6, 12),
)
LAZY = (
    _stub(16, _JUMP + rb"\x68.{4}\xe9.{4}", 11),
    _stub(16, _ENDBR + rb"\x68.{4}(?:\xf2)?\xe9.{4}", 9),
    _stub(16, _ENDBR + rb"\x41\xbb.{4}" + _JUMP),
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
    # A linker makes one section of a name; a thousand headers could name the same bytes.
    for header in (image.named(name)[0] for name in SECTIONS if len(image.named(name)) == 1):
        is_address = header.address + header.size < 1 << 64
        is_covered = is_address and np.any((start < header.address + header.size) & (end > header.address))
        if is_address and header.is_code and not header.is_nobits and not is_covered:
            data = bytes(image.contents(header).data)
            found += plt_functions(header.name, header.address, data, table.architecture)
    return concatenate(table, table_of(table.architecture, found)) if found else table


def plt_functions(name: str, address: int, data: bytes, architecture: Architecture) -> list[Function]:
    """What a PLT section's bytes say: its first entry, if it has one, and all others as one repetitive function."""
    found = []
    at = 0
    for stub in HEADERS:
        if name == ".plt" and stub.pattern.match(data[: stub.size]):
            found.append(_function(architecture, address, stub.size, stub, 0))
            at = stub.size
            break
    for stub in SECTIONS[name]:
        entries = [data[start : start + stub.size] for start in range(at, len(data), stub.size)]
        if entries and all(len(entry) == stub.size and stub.pattern.match(entry) for entry in entries):
            block = stub.size if (address + at) % stub.size == 0 else 0
            if block or not stub.pushes:
                found.append(_function(architecture, address + at, len(data) - at, stub, block))
            return found
    return found if at == len(data) else []


def _function(architecture: Architecture, start: int, size: int, stub: Stub, block: int) -> Function:
    saved = (RegisterRule(architecture.return_address, RuleKind.OFFSET, -8),)
    rows = tuple(
        Row(at, CfaRule(CfaKind.REGISTER, architecture.stack_pointer, stub.cfa_offset + 8 * pushed), saved)
        for pushed, at in enumerate((0, *stub.pushes))
    )
    return Function(start, size, rows, return_column=architecture.return_address, repetition=block)
