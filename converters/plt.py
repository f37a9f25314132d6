"""PLT sections without call frame information, recognized by their bytes.

Strategy: the stubs of each architecture are data: what they look like and what they do to the stack. Patterns are made
when an architecture is first asked for. Sources: the psABIs, and what GNU ld, lld and mold write: x86-64 with and
without IBT and BND, AArch64 with and without BTI and PAC, s390x.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .elf.image import ElfImage
from .rules import CfaKind, RuleKind
from .table.model import CfaRule, Function, RegisterRule, Row, UnwindTable, concatenate, table_of

if TYPE_CHECKING:
    from .arch.table import Architecture


def with_uncovered_plt(image: ElfImage, table: UnwindTable) -> UnwindTable:
    """The table and what it leaves out of PLT sections: a whole one, or its end."""
    stubs = stubs_of(table.architecture.name)
    if stubs is None:
        return table
    found: list[Function] = []
    start, end = table.functions.start, table.functions.start + table.functions.size
    # A linker makes one section of a name; a thousand headers could name the same bytes.
    for header in (image.named(name)[0] for name in stubs.entries if len(image.named(name)) == 1):
        stop = header.address + header.size
        if stop >= 1 << 64 or not header.is_code or header.is_nobits:
            continue
        touching = (start < np.uint64(stop)) & (end > np.uint64(header.address))
        reach = max(header.address, int(end[touching].max(initial=np.uint64(0))))
        if reach < stop:
            data = bytes(image.contents(header).data)[reach - header.address :]
            found += plt_functions(header.name, reach, data, table.architecture)
    return concatenate(table, table_of(table.architecture, found)) if found else table


def plt_functions(name: str, address: int, data: bytes, architecture: Architecture) -> list[Function]:
    """What a PLT section's bytes say: its first entry, if it has one, all others as one repetitive function, and a
    last one of another kind. Nothing where any byte is not known."""
    stubs = stubs_of(architecture.name)
    assert stubs is not None
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
    return at >= 0 and stub.pattern.match(data[at : at + stub.size]) is not None


def _function(architecture: Architecture, start: int, size: int, stub: Stub, block: int) -> Function:
    rows = tuple(
        Row(at.offset, CfaRule(CfaKind.REGISTER, architecture.stack_pointer, at.cfa_offset), _saved(architecture, at))
        for at in stub.rows
    )
    return Function(start, size, rows, return_column=architecture.return_address, repetition=block)


def _saved(architecture: Architecture, at: StubRow) -> tuple[RegisterRule, ...]:
    if at.ra_offset is None:
        return ()
    return (RegisterRule(architecture.return_address, RuleKind.OFFSET, at.ra_offset),)


class StubRow(NamedTuple):
    """From `offset` in a stub on: the CFA counted from SP, and where from the CFA the return address is saved."""

    offset: int
    cfa_offset: int
    ra_offset: int | None


class Stub(NamedTuple):
    """One kind of entry: its size in bytes, what it looks like, and its rows."""

    size: int
    pattern: re.Pattern[bytes]
    rows: tuple[StubRow, ...]


class Stubs(NamedTuple):
    """An architecture's: the first entry of `.plt`, entries by section, and what may stand behind those of `.plt`."""

    first: tuple[Stub, ...]
    entries: dict[str, tuple[Stub, ...]]
    last: tuple[Stub, ...] = ()


@cache
def stubs_of(architecture: str) -> Stubs | None:
    """An architecture's stubs, by its name; None where none are known."""
    if architecture == "x86_64":
        return _x86_64()
    if architecture in ("aarch64", "aarch64_be"):
        return _aarch64()
    return _s390x() if architecture == "s390x" else None


def _stub(size: int, code: bytes, *rows: StubRow) -> Stub:
    return Stub(size, re.compile(rb"(?s)" + code + rb"\Z"), rows)


_JUMP = rb"\xff\x25.{4}"  # jmp *GOT(%rip)
_ENDBR = rb"\xf3\x0f\x1e\xfa"
_NOPS = rb"(?:\x66*\x90|\x0f\x1f\x00|\x0f\x1f\x40.|\x66*\x0f\x1f\x44.{2}|\x66*(?:\x2e)?\x0f\x1f\x84.{5}|\xcc)*"


def _x86_64() -> Stubs:
    """psABI 5.2: the caller's return address is on top, above it what the stub pushes."""
    direct = (
        _pushing(8, _JUMP),
        _pushing(16, _JUMP),
        _pushing(16, _ENDBR + rb"(?:\xf2)?" + _JUMP),
    )
    lazy = (
        _pushing(16, _JUMP + rb"\x68.{4}\xe9.{4}", 11),
        _pushing(16, _ENDBR + rb"\x68.{4}(?:\xf2)?\xe9.{4}", 9),
        _pushing(16, _ENDBR + rb"\x41\xbb.{4}" + _JUMP),
    )
    # push GOT+8(%rip); jmp *GOT+16(%rip). An entry has pushed its index before; mold's is in r11.
    first = (
        _pushing(16, rb"\xff\x35.{4}(?:\xf2)?\xff\x25.{4}", 6, cfa_offset=16),
        _pushing(32, _ENDBR + rb"\x41\x53\xff\x35.{4}\xff\x25.{4}", 6, 12),
    )
    return Stubs(first, {".plt": (*lazy, *direct), ".plt.sec": direct, ".plt.got": direct})


def _pushing(size: int, code: bytes, *pushes: int, cfa_offset: int = 8) -> Stub:
    """A stub that has pushed one word more at each of `pushes`."""
    rows = (StubRow(at, cfa_offset + 8 * count, -8) for count, at in enumerate((0, *pushes)))
    return _stub(size, code + _NOPS, *rows)


def _aarch64() -> Stubs:
    """The return address is in x30; the first entry saves x16 and x30, the TLS descriptors' stub x2 and x3."""
    bti, nop, autia1716 = _instruction(0xD503245F), _instruction(0xD503201F), _instruction(0xD503219F)
    ldr_x17, add_x16 = _instruction(0xF9400211, 0xFFC003FF), _instruction(0x91000210, 0xFFC003FF)
    # adrp x16; ldr x17, [x16, #n]; add x16, x16, #n, which is a nop where n is 0
    address = _instruction(0x90000010, 0x9F00001F) + ldr_x17 + b"(?:" + add_x16 + b"|" + nop + b")"
    jump = _instruction(0xD61F0220)  # br x17
    save = _instruction(0xA9BF7BF0)  # stp x16, x30, [sp, #-16]!
    adrp_x2, adrp_x3 = _instruction(0x90000002, 0x9F00001F), _instruction(0x90000003, 0x9F00001F)
    ldr_x2, add_x3 = _instruction(0xF9400042, 0xFFC003FF), _instruction(0x91000063, 0xFFC003FF)
    # stp x2, x3, [sp, #-16]!, the addresses of the resolver and the descriptors, br x2
    resolve = _instruction(0xA9BF0FE2) + adrp_x2 + adrp_x3 + ldr_x2 + add_x3 + _instruction(0xD61F0040)
    leaf = StubRow(0, 0, None)
    first = (
        _stub(32, save + address + jump + nop * 3, leaf, StubRow(4, 16, -8)),
        _stub(32, bti + save + address + jump + nop * 2, leaf, StubRow(8, 16, -8)),
    )
    entries = (
        _stub(16, address + jump, leaf),
        _stub(24, bti + address + jump + nop, leaf),
        _stub(24, bti + address + autia1716 + jump, leaf),
        _stub(24, address + autia1716 + jump + nop, leaf),
    )
    last = (
        _stub(32, resolve + nop * 2, leaf, StubRow(4, 16, None)),
        _stub(32, bti + resolve + nop, leaf, StubRow(8, 16, None)),
    )
    return Stubs(first, {".plt": entries}, last)


def _instruction(value: int, mask: int = 0xFFFFFFFF) -> bytes:
    """The pattern of an instruction word whose `mask` bits are `value`'s; little-endian in both byte orders."""
    pattern = b""
    for wanted, bits in zip(value.to_bytes(4, "little"), mask.to_bytes(4, "little"), strict=True):
        pattern += b"[" + b"".join(b"\\x%02x" % byte for byte in range(256) if byte & bits == wanted & bits) + b"]"
    return pattern


def _s390x() -> Stubs:
    """No stub moves SP, and the return address stays in r14. GNU ld leaves IRELATIVE entries without a row."""
    leaf = StubRow(0, 160, None)
    # stg %r1,56(%r15); larl %r1,GOT; mvc 48(8,%r15),8(%r1); lg %r1,16(%r1); br %r1; three nopr
    first = (
        rb"\xe3\x10\xf0\x38\x00\x24\xc0\x10.{4}\xd2\x07\xf0\x30\x10\x08\xe3\x10\x10\x10\x00\x04\x07\xf1(?:\x07\x00){3}"
    )
    # larl %r1,GOT; lg %r1,0(%r1); br %r1; basr %r1,%r0; lgf %r1,12(%r1); jg first entry; offset in .rela.plt
    entry = rb"\xc0\x10.{4}\xe3\x10\x10\x00\x00\x04\x07\xf1\x0d\x10\xe3\x10\x10\x0c\x00\x14\xc0\xf4.{8}"
    return Stubs((_stub(32, first, leaf),), {".plt": (_stub(32, entry, leaf),)})
