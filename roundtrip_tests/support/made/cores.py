"""ELF core files made by hand: one thread's registers, mapped files, and memory.

Strategy: registers are given by DWARF number. Their order in NT_PRSTATUS is written down here once more, by the names
in the headers of the systems (sys/user.h), so that the reader's layout is not its own measure.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

# DWARF numbers in the order of struct user_regs_struct; the PC, where it has no number, is given as "pc".
_X86_64 = {
    "r15": 15, "r14": 14, "r13": 13, "r12": 12, "rbp": 6, "rbx": 3, "r11": 11, "r10": 10, "r9": 9, "r8": 8, "rax": 0,
    "rcx": 2, "rdx": 1, "rsi": 4, "rdi": 5, "orig_rax": None, "rip": 16, "cs": None, "eflags": None, "rsp": 7,
    "ss": None, "fs_base": None, "gs_base": None, "ds": None, "es": None, "fs": None, "gs": None,
}  # fmt: skip
PC = -1
ORDERS: dict[str, list[int | None]] = {
    "x86_64": list(_X86_64.values()),
    "aarch64": [*range(32), PC, None],
    "s390x": [None, PC, *range(16), *[None] * 9],
}
MACHINES = {"x86_64": (62, "<"), "aarch64": (183, "<"), "s390x": (22, ">")}
CORE, LINUX = b"CORE\0", b"LINUX\0"
NT_PRSTATUS, NT_FPREGSET, NT_AUXV, NT_FILE = 1, 2, 6, 0x46494C45


class Mapped(NamedTuple):
    """An entry of NT_FILE; the offset is in pages."""

    start: int
    end: int
    page: int
    path: str


def note(order: str, name: bytes, kind: int, data: bytes) -> bytes:
    """A note with its padding."""
    padded = name + bytes(-len(name) % 4)
    return struct.pack(f"{order}III", len(name), len(data), kind) + padded + data + bytes(-len(data) % 4)


def prstatus(architecture: str, registers: Mapping[int, int], pid: int = 7) -> bytes:
    """NT_PRSTATUS: the registers begin at 112, the PID is at 32."""
    order = MACHINES[architecture][1]
    words = [0 if number is None else registers.get(number, 0) for number in ORDERS[architecture]]
    head = bytes(32) + struct.pack(f"{order}i", pid)
    return head.ljust(112, b"\0") + struct.pack(f"{order}{len(words)}Q", *words) + bytes(8)


def core_of(
    architecture: str,
    registers: Mapping[int, int],
    memory: Mapping[int, bytes] | None = None,
    mapped: Sequence[Mapped] = (),
    auxv: Mapping[int, int] | None = None,
    more: bytes = b"",
) -> bytes:
    """A core file; `more` are further notes, at the end."""
    machine, order = MACHINES[architecture]
    notes = note(order, CORE, NT_PRSTATUS, prstatus(architecture, registers))
    if mapped:
        entries = b"".join(struct.pack(f"{order}QQQ", *one[:3]) for one in mapped)
        names = b"".join(one.path.encode() + b"\0" for one in mapped)
        notes += note(order, CORE, NT_FILE, struct.pack(f"{order}QQ", len(mapped), 4096) + entries + names)
    if auxv:
        words = b"".join(struct.pack(f"{order}QQ", *one) for one in [*auxv.items(), (0, 0)])
        notes += note(order, CORE, NT_AUXV, words)
    parts = [(4, 0, notes + more), *((1, address, data) for address, data in (memory or {}).items())]
    at = 64 + 56 * len(parts)
    headers, body = b"", b""
    for kind, address, data in parts:
        size = len(data)
        headers += struct.pack(f"{order}IIQQQQQQ", kind, 4, at + len(body), address, 0, size, size, 1)
        body += data
    identity = b"\x7fELF\x02" + (b"\x01" if order == "<" else b"\x02") + b"\x01" + bytes(9)
    fields = struct.pack(f"{order}HHIQQQIHHHHHH", 4, machine, 1, 0, 64, 0, 0, 64, 56, len(parts), 64, 0, 0)
    return identity + fields + headers + body
