"""The machines of shadow_stack.py: how qemu's log shows a step, and which instructions branch, store or sign.

Strategy: only the parts of instructions that move a return address or a frame pointer are decoded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple


class Store(NamedTuple):
    """The register is stored at `base` + `displacement`."""

    register: int
    base: int
    displacement: int


class Instruction(NamedTuple):
    """`target`: the register whose value it may branch to. `key`: A or B if it signs the RA; "" if it authenticates it;
    None: neither."""

    size: int
    target: int | None = None
    stores: tuple[Store, ...] = ()
    key: str | None = None


# --- machines ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Machine:
    """`record` matches a step in qemu's log: its groups are the PC and the registers; `places` are the offsets of
    their 16 digits in the latter, by DWARF number. The CFA is the SP at a function's entry + `entry_cfa`.
    `address_mask` strips the signature of a return address; `watched`: FP and RA, whose stores are tracked."""

    name: str
    record: re.Pattern[bytes]
    places: tuple[int, ...]
    sp: int
    fp: int
    ra: int
    entry_cfa: int
    address_mask: int
    decode: Callable[[bytes], Instruction]


def decode_aarch64(code: bytes) -> Instruction:
    """Branches to registers; 64-bit STP and STR of x29 and x30 (Arm ARM, C4.1: loads and stores)."""
    word = int.from_bytes(code[:4], "little")
    first, base, second = word & 31, word >> 5 & 31, word >> 10 & 31
    if word & 0xFFFFFC1F in (0xD65F0000, 0xD61F0000):  # RET, BR
        return Instruction(4, base)
    if word in (0xD65F0BFF, 0xD65F0FFF):  # RETAA, RETAB
        return Instruction(4, 30)
    if word in _SIGNING:
        return Instruction(4, key=_SIGNING[word])
    stores: tuple[Store, ...] = ()
    if (mode := word & 0xFFC00000) in (0xA9000000, 0xA9800000, 0xA8800000):  # STP: offset, pre-index, post-index
        at = 0 if mode == 0xA8800000 else 8 * _signed(word >> 15, 7)
        stores = (Store(first, base, at), Store(second, base, at + 8))
    elif mode == 0xF9000000:  # STR, unsigned offset
        stores = (Store(first, base, 8 * (word >> 10 & 0xFFF)),)
    elif word & 0xFFE00400 == 0xF8000400:  # STR, post-index or (bit 11) pre-index
        stores = (Store(first, base, _signed(word >> 12, 9) if word & 0x800 else 0),)
    elif word & 0xFFE00C00 == 0xF8000000:  # STUR
        stores = (Store(first, base, _signed(word >> 12, 9)),)
    return Instruction(4, None, tuple(store for store in stores if store.register in (29, 30)))


_SIGNING = {0xD503233F: "A", 0xD503237F: "B", 0xD50323BF: "", 0xD50323FF: ""}  # PACIASP, PACIBSP, AUTIASP, AUTIBSP


def decode_s390x(code: bytes) -> Instruction:
    """Branches to registers; STG and STMG of r11 and r14 (Principles of Operation, appendix B)."""
    opcode = code[0]
    size = (2, 4, 4, 6)[opcode >> 6]
    if opcode == 0x07:  # BCR: r0 is no branch
        return Instruction(size, code[1] & 15 or None)
    if opcode not in (0xE3, 0xEB) or code[5] != 0x24:
        return Instruction(size)
    first, third, base = code[1] >> 4, code[1] & 15, code[2] >> 4
    displacement = _signed(code[4] << 12 | (code[2] & 15) << 8 | code[3], 20)
    if opcode == 0xE3:  # STG; prologues use no index register
        registers = [first] if third == 0 else []
    else:  # STMG: from first to third, r0 follows r15
        registers = [(first + i) % 16 for i in range((third - first) % 16 + 1)]
    stores = (Store(register, base, displacement + 8 * i) for i, register in enumerate(registers))
    return Instruction(size, None, tuple(store for store in stores if store.register in (11, 14)))


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (value >> bits - 1 << bits)


# X00 to X30 and SP, or R00 to R15: 16 digits after 4 characters, 21 from one to the next.
_GENERAL = tuple(21 * number + 4 for number in range(32))
# V00 to V15: 32 digits, the first half is the floating-point register; DWARF numbers 16 to 31 (s390x ELF ABI 1.6).
_FLOATING = tuple(21 * 16 + 37 * n + 4 for n in (0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15))

MACHINES = {
    "aarch64": Machine(
        "aarch64",
        re.compile(rb" PC=([0-9a-f]{16}) (X00=.{647} SP=[0-9a-f]{16})", re.DOTALL),
        _GENERAL, sp=31, fp=29, ra=30, entry_cfa=0, address_mask=(1 << 48) - 1, decode=decode_aarch64,
    ),
    "s390x": Machine(
        "s390x",
        re.compile(rb"PSW=mask \w{16} addr ([0-9a-f]{16})[^\n]*\n(R00=.{332}V00=.{551}V15=[0-9a-f]{16})", re.DOTALL),
        _GENERAL[:16] + _FLOATING, sp=15, fp=11, ra=14, entry_cfa=160, address_mask=-1, decode=decode_s390x,
    ),
}  # fmt: skip
