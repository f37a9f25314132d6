"""A minidump as Breakpad's readers expect it: system, one thread with registers and stack, modules, an exception.

Strategy: no product code. Records are as in Breakpad's minidump_format.h and minidump_cpu_*.h, little-endian and
packed; in a context only the general registers are set. `minidump_stackwalk` shows whether they are right.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

# Stream types, MINIDUMP_STREAM_TYPE.
THREAD_LIST, MODULE_LIST, MEMORY_LIST, EXCEPTION, SYSTEM_INFO = 3, 4, 5, 6, 7
LINUX = 0x8201
SIGSEGV = 11
BUILD_ID_RECORD = b"LEpB"  # MD_CVINFOELF_SIGNATURE 'BpEL', in memory order
_HEADER = struct.Struct("<4sIIIIIQ")
_DIRECTORY = struct.Struct("<III")
_THREAD = struct.Struct("<IIIIQQIIII")
_MODULE = struct.Struct("<QIIII52sIIIIQQ")
_SYSTEM = struct.Struct("<HHHBBIIIIIHH24s")
_EXCEPTION = struct.Struct("<IIIIQQII120sII")
_MEMORY = struct.Struct("<QII")
_U32 = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Module:
    """A file in memory: `base` is where its first PT_LOAD is, `build_id` GNU's."""

    name: str
    base: int
    size: int
    build_id: bytes


@dataclass(frozen=True, slots=True)
class Context:
    """Where a machine's registers are in its context record: `places` has a format and an offset by gdb's name."""

    processor_architecture: int
    size: int
    flags: int
    flags_offset: int
    pc: str
    sp: str
    places: Mapping[str, tuple[str, int]]


def _run(names: Sequence[str], form: str, offset: int) -> dict[str, tuple[str, int]]:
    """Registers that follow each other."""
    return {name: (form, offset + struct.calcsize(form) * index) for index, name in enumerate(names)}


def _numbered(prefix: str, start: int, end: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(start, end)]


_X86_NAMES = ("edi", "esi", "ebx", "edx", "ecx", "eax", "ebp", "eip", "cs", "eflags", "esp", "ss")
_AMD64_NAMES = ("rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", *_numbered("r", 8, 16), "rip")
_RISCV_NAMES = (
    *("pc", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1"),
    *(*_numbered("a", 0, 8), *_numbered("s", 2, 12), *_numbered("t", 3, 7)),
)
_MIPS_NAMES = (
    *("zero", "at", "v0", "v1", *_numbered("a", 0, 4), *_numbered("t", 0, 8), *_numbered("s", 0, 8)),
    *("t8", "t9", "k0", "k1", "gp", "sp", "fp", "ra"),
)
_MIPS_PLACES = _run(_MIPS_NAMES, "<Q", 8) | {"pc": ("<Q", 312)}
# Flags: the machine's, and that control and integer registers are present.
CONTEXTS = {
    "x86": Context(0, 716, 0x10003, 0, "eip", "esp", _run(_X86_NAMES, "<I", 0x9C)),
    "x86_64": Context(9, 1232, 0x100003, 48, "rip", "rsp", _run(_AMD64_NAMES, "<Q", 0x78)),
    "arm": Context(5, 368, 0x40000002, 0, "pc", "sp", _run((*_numbered("r", 0, 13), "sp", "lr", "pc"), "<I", 4)),
    "aarch64": Context(12, 912, 0x400003, 0, "pc", "sp", _run((*_numbered("x", 0, 31), "sp", "pc"), "<Q", 8)),
    "mips": Context(1, 600, 0x40002, 0, "pc", "sp", _MIPS_PLACES),
    "mips64": Context(0x8004, 600, 0x80002, 0, "pc", "sp", _MIPS_PLACES),
    "riscv32": Context(0x8005, 268, 0x800003, 0, "pc", "sp", _run(_RISCV_NAMES, "<I", 8)),
    "riscv64": Context(0x8006, 528, 0x8000003, 0, "pc", "sp", _run(_RISCV_NAMES, "<Q", 8)),
}


@dataclass(frozen=True, slots=True)
class State:
    """A stopped thread in a minidump: registers by gdb's names, memory from `stack_start` on."""

    registers: Mapping[str, int]
    stack_start: int
    stack: bytes
    modules: tuple[Module, ...]


def minidump(architecture: str, state: State, counters: Sequence[int] = ()) -> bytes:
    """The file. Each of `counters` is the program counter of one more thread, without a stack."""
    machine = CONTEXTS[architecture]
    out = bytearray(_HEADER.size + 5 * _DIRECTORY.size)

    def put(data: bytes) -> tuple[int, int]:
        """Size and offset of appended data."""
        out.extend(bytes(-len(out) % 8))
        out.extend(data)
        return len(data), len(out) - len(data)

    context = put(_context(machine, state.registers))
    stack = (state.stack_start, *put(state.stack))
    system = _SYSTEM.pack(machine.processor_architecture, 0, 0, 1, 0, 0, 0, 0, LINUX, put(_string("6.1"))[1], 0, 0, b"")
    modules = b"".join(_module(one, put) for one in state.modules)
    more = b"".join(
        _THREAD.pack(number, 0, 0, 0, 0, 0, 0, 0, *put(_context(machine, {machine.pc: counter})))
        for number, counter in enumerate(counters, 2)
    )
    pc = state.registers[machine.pc]
    streams = {
        SYSTEM_INFO: system,
        THREAD_LIST: _U32.pack(1 + len(counters)) + _THREAD.pack(1, 0, 0, 0, 0, *stack, *context) + more,
        MODULE_LIST: _U32.pack(len(state.modules)) + modules,
        MEMORY_LIST: _U32.pack(1) + _MEMORY.pack(*stack),
        EXCEPTION: _EXCEPTION.pack(1, 0, SIGSEGV, 0, 0, pc, 0, 0, b"", *context),
    }
    placed = [(kind, *put(data)) for kind, data in streams.items()]
    header = _HEADER.pack(b"MDMP", 0xA793, len(placed), _HEADER.size, 0, 0, 0)
    out[: _HEADER.size + 5 * _DIRECTORY.size] = header + b"".join(_DIRECTORY.pack(*one) for one in placed)
    return bytes(out)


def _context(machine: Context, registers: Mapping[str, int]) -> bytes:
    record = bytearray(machine.size)
    _U32.pack_into(record, machine.flags_offset, machine.flags)
    for name, (form, offset) in machine.places.items():
        struct.pack_into(form, record, offset, registers.get(name, 0))
    return bytes(record)


def _string(text: str) -> bytes:
    data = text.encode("utf-16-le")
    return _U32.pack(len(data)) + data + bytes(2)


def _module(module: Module, put: Callable[[bytes], tuple[int, int]]) -> bytes:
    name, record = put(_string(module.name))[1], put(BUILD_ID_RECORD + module.build_id)
    return _MODULE.pack(module.base, module.size, 0, 0, name, bytes(52), *record, 0, 0, 0, 0)
