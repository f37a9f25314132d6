"""Notes of ELF core files (Linux, fs/binfmt_elf.c: fill_note_info; include/uapi/linux/elf.h), of 64-bit machines.

Strategy: the layout of registers is data, one `CoreLayout` per machine. Sizes and counts are checked before they are
used; a note that is shorter than its layout is malformed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from ..section import ByteOrder, ParseError, order_code


class NT(IntEnum):
    """Types of notes, of the names CORE and LINUX."""

    PRSTATUS = 1
    FPREGSET = 2
    AUXV = 6
    ARM_PAC_MASK = 0x406
    FILE = 0x46494C45


class AT(IntEnum):
    """Types of entries in NT_AUXV."""

    NULL = 0
    ENTRY = 9
    SYSINFO_EHDR = 33


class Note(NamedTuple):
    """One note; `offset` is that of its description in the file."""

    type: int
    name: bytes
    description: memoryview
    offset: int


class Thread(NamedTuple):
    """The thread of an NT_PRSTATUS: registers by DWARF number, and the PC."""

    pid: int
    pc: int
    registers: dict[int, int]


class MappedFile(NamedTuple):
    """An entry of NT_FILE: addresses, and the offset in the file in bytes."""

    start: int
    end: int
    offset: int
    path: str


class CoreLayout(NamedTuple):
    """Where registers are: `general` are the indices of words in pr_reg, by DWARF number, `pc` is that of the PC.
    `floating` are offsets in NT_FPREGSET, by DWARF number, of the 8 bytes that functions preserve."""

    general: dict[int, int]
    pc: int
    floating: dict[int, int]


WORD = 8
# struct elf_prstatus: pr_pid, pr_reg.
PID_OFFSET, REGISTERS_OFFSET = 32, 112
# r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp
_X86_64 = (15, 14, 13, 12, 6, 3, 11, 10, 9, 8, 0, 2, 1, 4, 5, None, 16, None, None, 7)
# The even floating-point registers of s390x come first: f0 f2 f4 f6, f1 f3 f5 f7, f8 f10 ..., f9 f11 ... (ELF ABI 1.6).
S390X_FLOATING = (0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15)
S390X_FIRST_FLOATING, AARCH64_FIRST_VECTOR = 16, 64
LAYOUTS = {
    "EM_X86_64": CoreLayout({number: at for at, number in enumerate(_X86_64) if number is not None}, 16, {}),
    # x0 to x30, sp, pc; v0 to v31.
    "EM_AARCH64": CoreLayout(
        {number: number for number in range(32)}, 32, {AARCH64_FIRST_VECTOR + n: 16 * n for n in range(32)}
    ),
    # PSW mask and address, r0 to r15; FPC, f0 to f15.
    "EM_S390": CoreLayout(
        {number: 2 + number for number in range(16)},
        1,
        {S390X_FIRST_FLOATING + at: WORD + WORD * n for at, n in enumerate(S390X_FLOATING)},
    ),
}
_SOURCE = "notes"


def notes_in(data: memoryview, byte_order: ByteOrder, offset: int = 0) -> Iterator[Note]:
    """The notes of a PT_NOTE or SHT_NOTE (gABI, Note Section), at `offset` in the file. One that reaches past the end
    is the last."""
    words = struct.Struct(f"{order_code(byte_order)}III")
    at = 0
    while at + words.size <= len(data):
        name_size, size, kind = words.unpack_from(data, at)
        start = at + words.size + (name_size + 3 & ~3)
        if start + size > len(data):
            break
        name = bytes(data[at + words.size : at + words.size + name_size])
        yield Note(kind, name, data[start : start + size], offset + start)
        at = start + (size + 3 & ~3)


def _words(note: Note, byte_order: ByteOrder, record: str) -> tuple[int, ...]:
    if len(note.description) % WORD:
        raise ParseError(_SOURCE, note.offset, record, f"{len(note.description)} bytes are no whole number of words")
    found: tuple[int, ...] = struct.unpack(
        f"{order_code(byte_order)}{len(note.description) // WORD}Q", note.description
    )
    return found


def parse_prstatus(note: Note, layout: CoreLayout, byte_order: ByteOrder) -> Thread:
    """The registers of a thread. Raises ParseError."""
    if len(note.description) < REGISTERS_OFFSET:
        reason = f"{len(note.description)} bytes, expected at least {REGISTERS_OFFSET}"
        raise ParseError(_SOURCE, note.offset, "NT_PRSTATUS", reason)
    (pid,) = struct.unpack_from(f"{order_code(byte_order)}i", note.description, PID_OFFSET)
    registers = note._replace(description=note.description[REGISTERS_OFFSET:], offset=note.offset + REGISTERS_OFFSET)
    return parse_registers(registers, layout, byte_order, pid)


def parse_registers(note: Note, layout: CoreLayout, byte_order: ByteOrder, pid: int) -> Thread:
    """The registers of a thread in `pr_reg`, the contents of a note here. Raises ParseError."""
    count = max(layout.pc, *layout.general.values()) + 1
    if len(note.description) < WORD * count:
        reason = f"{len(note.description)} bytes, expected at least {WORD * count}"
        raise ParseError(_SOURCE, note.offset, "NT_PRSTATUS.pr_reg", reason)
    words = struct.unpack_from(f"{order_code(byte_order)}{count}Q", note.description)
    return Thread(pid, words[layout.pc], {number: words[at] for number, at in layout.general.items()})


def parse_fpregset(note: Note, layout: CoreLayout, byte_order: ByteOrder) -> dict[int, int]:
    """The floating-point registers that the note has."""
    return {
        number: int.from_bytes(note.description[at : at + WORD], byte_order)
        for number, at in layout.floating.items()
        if at + WORD <= len(note.description)
    }


def parse_auxv(note: Note, byte_order: ByteOrder) -> dict[int, int]:
    """The auxiliary vector: the first value of each type. Raises ParseError."""
    words = _words(note, byte_order, "NT_AUXV")
    found: dict[int, int] = {}
    for kind, value in zip(words[::2], words[1::2], strict=False):
        if kind == AT.NULL:
            break
        found.setdefault(kind, value)
    return found


def parse_pac_mask(note: Note, byte_order: ByteOrder) -> int:
    """The bits of a signed return address that are not part of it. Raises ParseError."""
    words = _words(note, byte_order, "NT_ARM_PAC_MASK")
    if len(words) != 2:
        raise ParseError(_SOURCE, note.offset, "NT_ARM_PAC_MASK", f"{len(words)} words, expected 2")
    return words[1]  # insn_mask


def parse_file(note: Note, byte_order: ByteOrder) -> tuple[MappedFile, ...]:
    """The mapped files, as in the note. Raises ParseError."""
    words = struct.Struct(f"{order_code(byte_order)}QQ")
    if len(note.description) < words.size:
        raise ParseError(_SOURCE, note.offset, "NT_FILE", f"{len(note.description)} bytes, expected at least 16")
    count, page_size = words.unpack_from(note.description)
    entry = struct.Struct(f"{order_code(byte_order)}QQQ")
    names_at = words.size + count * entry.size
    if names_at > len(note.description):
        raise ParseError(_SOURCE, note.offset, "NT_FILE.count", f"{count} entries do not fit the note")
    names = bytes(note.description[names_at:]).split(b"\0")
    if len(names) < count + 1:
        raise ParseError(_SOURCE, note.offset, "NT_FILE", f"has {len(names) - 1} names for {count} entries")
    entries = entry.iter_unpack(note.description[words.size : names_at])
    return tuple(
        MappedFile(start, end, page * page_size, name.decode("utf-8", "surrogateescape"))
        for (start, end, page), name in zip(entries, names, strict=False)
    )
