"""Notes of ELF core files (Linux, fs/binfmt_elf.c: fill_note_info; include/uapi/linux/elf.h), of 64-bit machines.

Strategy: structures of the kernel are records, those of registers one per machine; a `CoreLayout` has what DWARF calls
their fields. Sizes and counts are checked before they are used; a note that is shorter than its records is malformed.
"""

from __future__ import annotations

from enum import IntEnum
from itertools import chain
from typing import NamedTuple

from ..elf.notes import Note
from ..section import ByteOrder, ParseError, Section
from ..wire import I16, I32, U64, Repeated, fields_of, fixed_size, offset_of, record, wire
from .fixed_records import read_array, read_fixed


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


@record
class Prstatus:
    """struct elf_prstatus up to pr_reg, which follows."""

    si_signo: int = wire(I32, "signal")
    si_code: int = wire(I32, "its code")
    si_errno: int = wire(I32, "0")
    cursig: int = wire(I16, "signal")
    padding: int = wire(I16, "unused")
    sigpend: int = wire(U64, "pending signals")
    sighold: int = wire(U64, "blocked signals")
    pid: int = wire(I32, "the thread")
    ppid: int = wire(I32, "parent")
    pgrp: int = wire(I32, "process group")
    sid: int = wire(I32, "session")
    times: tuple[int, ...] = wire(Repeated(U64, 8), "seconds and microseconds: user, system, and those of children")


@record
class RegistersX86_64:
    """struct user_regs_struct."""

    general: tuple[int, ...] = wire(Repeated(U64, 15), "r15 to r12, rbp, rbx, r11 to r8, rax, rcx, rdx, rsi, rdi")
    orig_rax: int = wire(U64, "number of the system call")
    rip: int = wire(U64, "program counter")
    cs: int = wire(U64, "segment")
    eflags: int = wire(U64, "flags")
    rsp: int = wire(U64, "stack pointer")


@record
class RegistersAarch64:
    """struct user_pt_regs, up to PC."""

    regs: tuple[int, ...] = wire(Repeated(U64, 31), "x0 to x30")
    sp: int = wire(U64, "stack pointer")
    pc: int = wire(U64, "program counter")


@record
class RegistersS390x:
    """s390_regs, up to the general registers."""

    psw_mask: int = wire(U64, "flags")
    psw_addr: int = wire(U64, "program counter")
    gprs: tuple[int, ...] = wire(Repeated(U64, 16), "r0 to r15")


@record
class FloatingAarch64:
    """struct user_fpsimd_state, the registers."""

    vregs: tuple[int, ...] = wire(Repeated(U64, 64), "v0 to v31, of 16 bytes each")


@record
class FloatingS390x:
    """s390_fp_regs."""

    fpc: int = wire(U64, "control register, and padding")
    fprs: tuple[int, ...] = wire(Repeated(U64, 16), "f0 to f15, as 0 2 4 6, 1 3 5 7, 8 10 12 14, 9 11 13 15 in DWARF")


@record
class AuxvEntry:
    """Elf64_auxv_t."""

    type: int = wire(U64, "AT_...")
    value: int = wire(U64, "its value")


@record
class FileHeader:
    """The start of NT_FILE; FileEntry records follow, then as many paths, each with a zero byte."""

    count: int = wire(U64, "entries")
    page_size: int = wire(U64, "the unit of file_ofs in bytes")


@record
class FileEntry:
    """A mapping of a file."""

    start: int = wire(U64, "address")
    end: int = wire(U64, "address after it")
    file_ofs: int = wire(U64, "offset in the file in pages")


@record
class PacMask:
    """struct user_pac_mask: the bits that a signature takes."""

    data_mask: int = wire(U64, "of pointers to data")
    insn_mask: int = wire(U64, "of pointers to code")


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
    """The records of a machine's registers. `general` are the indices of their values in pr_reg, by DWARF number, and
    `pc` is that of the PC. `floating` are those in NT_FPREGSET of the 8 bytes that functions preserve."""

    registers: type
    general: dict[int, int]
    pc: int
    floating_registers: type | None
    floating: dict[int, int]


WORD = 8
# r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp
_X86_64 = (15, 14, 13, 12, 6, 3, 11, 10, 9, 8, 0, 2, 1, 4, 5, None, 16, None, None, 7)
# The even floating-point registers of s390x come first: f0 f2 f4 f6, f1 f3 f5 f7, f8 f10 ..., f9 f11 ... (ELF ABI 1.6).
S390X_FLOATING = (0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15)
S390X_FIRST_FLOATING, AARCH64_FIRST_VECTOR = 16, 64


def _index(cls: type, name: str) -> int:
    """The index of a field, or of its first element, among the words of a record."""
    return offset_of(cls, name) // WORD


LAYOUTS = {
    "EM_X86_64": CoreLayout(
        RegistersX86_64,
        {number: at for at, number in enumerate(_X86_64) if number is not None},
        _index(RegistersX86_64, "rip"),
        None,
        {},
    ),
    "EM_AARCH64": CoreLayout(
        RegistersAarch64,
        {number: number for number in range(32)},
        _index(RegistersAarch64, "pc"),
        FloatingAarch64,
        {AARCH64_FIRST_VECTOR + n: 2 * n for n in range(32)},
    ),
    "EM_S390": CoreLayout(
        RegistersS390x,
        {number: _index(RegistersS390x, "gprs") + number for number in range(16)},
        _index(RegistersS390x, "psw_addr"),
        FloatingS390x,
        {S390X_FIRST_FLOATING + at: _index(FloatingS390x, "fprs") + n for at, n in enumerate(S390X_FLOATING)},
    ),
}


def _contents(note: Note, byte_order: ByteOrder) -> Section:
    """The description of a note; errors give offsets in it, and in the file."""
    return Section("note", note.description, 0, note.offset, byte_order)


def _words(found: object, cls: type) -> tuple[int, ...]:
    """The words of a record, each of a field or of an element of it."""
    values = (getattr(found, field.name) for field in fields_of(cls))
    return tuple(chain.from_iterable(one if isinstance(one, tuple) else (one,) for one in values))


def parse_prstatus(note: Note, layout: CoreLayout, byte_order: ByteOrder) -> Thread:
    """The registers of a thread. Raises ParseError."""
    section = _contents(note, byte_order)
    return _thread(section, fixed_size(Prstatus), layout, read_fixed(Prstatus, section, 0, "NT_PRSTATUS").pid)


def parse_registers(note: Note, layout: CoreLayout, byte_order: ByteOrder, pid: int) -> Thread:
    """The registers of a thread in `pr_reg`, the contents of a note here. Raises ParseError."""
    return _thread(_contents(note, byte_order), 0, layout, pid)


def _thread(section: Section, offset: int, layout: CoreLayout, pid: int) -> Thread:
    words = _words(read_fixed(layout.registers, section, offset, "NT_PRSTATUS.pr_reg"), layout.registers)
    return Thread(pid, words[layout.pc], {number: words[at] for number, at in layout.general.items()})


def parse_fpregset(note: Note, layout: CoreLayout, byte_order: ByteOrder) -> dict[int, int]:
    """The floating-point registers; none if the machine's functions preserve none, or the note has not all."""
    cls = layout.floating_registers
    if cls is None or len(note.description) < fixed_size(cls):
        return {}
    words = _words(read_fixed(cls, _contents(note, byte_order), 0, "NT_FPREGSET"), cls)
    return {number: words[at] for number, at in layout.floating.items()}


def parse_auxv(note: Note, byte_order: ByteOrder) -> dict[int, int]:
    """The auxiliary vector: the first value of each type. Raises ParseError."""
    return auxv_values(_contents(note, byte_order))


def auxv_values(section: Section) -> dict[int, int]:
    """As `parse_auxv`."""
    count, more = divmod(len(section), fixed_size(AuxvEntry))
    if more:
        raise ParseError(section, None, "NT_AUXV", f"{len(section)} bytes are no whole number of entries")
    found: dict[int, int] = {}
    for entry in read_array(AuxvEntry, section, 0, count, "NT_AUXV"):
        if entry.type == AT.NULL:
            break
        found.setdefault(entry.type, entry.value)
    return found


def parse_pac_mask(note: Note, byte_order: ByteOrder) -> int:
    """The bits of a signed return address that are not part of it. Raises ParseError."""
    return read_fixed(PacMask, _contents(note, byte_order), 0, "NT_ARM_PAC_MASK").insn_mask


def parse_file(note: Note, byte_order: ByteOrder) -> tuple[MappedFile, ...]:
    """The mapped files, as in the note. Raises ParseError."""
    section = _contents(note, byte_order)
    header = read_fixed(FileHeader, section, 0, "NT_FILE")
    entries = read_array(FileEntry, section, fixed_size(FileHeader), header.count, "NT_FILE")
    names_at = fixed_size(FileHeader) + header.count * fixed_size(FileEntry)
    names = bytes(section.data[names_at:]).split(b"\0")
    if len(names) < header.count + 1:
        reason = f"has {len(names) - 1} names for {header.count} entries"
        raise ParseError(section, names_at, "NT_FILE", reason)
    return tuple(
        MappedFile(one.start, one.end, one.file_ofs * header.page_size, name.decode("utf-8", "surrogateescape"))
        for one, name in zip(entries, names, strict=False)
    )
