"""The bytes and unwind rows of PLT entries, by architecture.

Strategy: data, in one function per architecture, so that patterns are made only when they are needed. Sources: the
psABIs, and the output of GNU ld, lld and mold: x86-64 with and without IBT and BND, AArch64 with and without BTI and
PAC, s390x.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple


class StubRow(NamedTuple):
    """From byte `offset` of a stub: the CFA is SP + `cfa_offset`, and the return address is saved at CFA + `ra_offset`
    (None: it is in its register).
    """

    offset: int
    cfa_offset: int
    ra_offset: int | None


class Stub(NamedTuple):
    """One kind of entry: its size in bytes, the pattern of its code, and its rows."""

    size: int
    pattern: bytes
    rows: tuple[StubRow, ...]


class Stubs(NamedTuple):
    """The stubs of an architecture: the first entry of `.plt`, entries by section, and entries that may end `.plt`.

    Alternatives are tried in order.
    """

    first: tuple[Stub, ...]
    entries: dict[str, tuple[Stub, ...]]
    last: tuple[Stub, ...] = ()


def _stub(size: int, code: bytes, *rows: StubRow) -> Stub:
    return Stub(size, rb"(?s)" + code + rb"\Z", rows)


_JUMP = rb"\xff\x25.{4}"  # jmp *GOT(%rip)
_ENDBR = rb"\xf3\x0f\x1e\xfa"
_NOPS = rb"(?:\x66*\x90|\x0f\x1f\x00|\x0f\x1f\x40.|\x66*\x0f\x1f\x44.{2}|\x66*(?:\x2e)?\x0f\x1f\x84.{5}|\xcc)*"


@cache
def x86_64() -> Stubs:
    """psABI 5.2: the return address is on top of the stack at entry; stubs push words on top of it."""
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
    # push GOT+8(%rip); jmp *GOT+16(%rip). The entry has already pushed its index; in mold's PLT it is in r11.
    first = (
        _pushing(16, rb"\xff\x35.{4}(?:\xf2)?\xff\x25.{4}", 6, cfa_offset=16),
        _pushing(32, _ENDBR + rb"\x41\x53\xff\x35.{4}\xff\x25.{4}", 6, 12),
    )
    return Stubs(first, {".plt": (*lazy, *direct), ".plt.sec": direct, ".plt.got": direct})


def _pushing(size: int, code: bytes, *pushes: int, cfa_offset: int = 8) -> Stub:
    """A stub that has pushed one more word from each offset of `pushes` on."""
    rows = (StubRow(at, cfa_offset + 8 * count, -8) for count, at in enumerate((0, *pushes)))
    return _stub(size, code + _NOPS, *rows)


@cache
def aarch64() -> Stubs:
    """The return address is in x30; the first entry saves x16 and x30, the stub for TLS descriptors x2 and x3."""
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
    """A pattern for instruction words that equal `value` in the bits of `mask`; little-endian in both byte orders."""
    pattern = b""
    for wanted, bits in zip(value.to_bytes(4, "little"), mask.to_bytes(4, "little"), strict=True):
        pattern += b"[" + b"".join(b"\\x%02x" % byte for byte in range(256) if byte & bits == wanted & bits) + b"]"
    return pattern


@cache
def s390x() -> Stubs:
    """No stub moves SP, and the return address stays in r14. IRELATIVE entries have no row in GNU ld's output."""
    leaf = StubRow(0, 160, None)
    # stg %r1,56(%r15); larl %r1,GOT; mvc 48(8,%r15),8(%r1); lg %r1,16(%r1); br %r1; three nopr
    first = (
        rb"\xe3\x10\xf0\x38\x00\x24\xc0\x10.{4}\xd2\x07\xf0\x30\x10\x08\xe3\x10\x10\x10\x00\x04\x07\xf1(?:\x07\x00){3}"
    )
    # larl %r1,GOT; lg %r1,0(%r1); br %r1; basr %r1,%r0; lgf %r1,12(%r1); jg first entry; offset in .rela.plt
    entry = rb"\xc0\x10.{4}\xe3\x10\x10\x00\x00\x04\x07\xf1\x0d\x10\xe3\x10\x10\x0c\x00\x14\xc0\xf4.{8}"
    return Stubs((_stub(32, first, leaf),), {".plt": (_stub(32, entry, leaf),)})
