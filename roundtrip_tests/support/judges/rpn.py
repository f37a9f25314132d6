"""A second opinion on DWARF expressions: a stack machine on the bytes, for the operations that real files need.

Strategy: no product code. Opcodes and meanings are from DWARF5 2.5.1 and 7.7.1; little-endian, 64-bit addresses.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

BITS = 64
WRAP = (1 << BITS) - 1


def signed(value: int) -> int:
    """A 64-bit pattern as two's complement."""
    return (value & WRAP) - (1 << BITS) if value & 1 << BITS - 1 else value & WRAP


def _compare(relation: Callable[[int, int], bool]) -> Callable[[int, int], int]:
    return lambda former, top: int(relation(signed(former), signed(top)))


# Former second value, former top.
TWO: dict[int, Callable[[int, int], int]] = {
    0x1A: operator.and_,
    0x1C: operator.sub,
    0x1E: operator.mul,
    0x21: operator.or_,
    0x22: operator.add,
    0x24: lambda former, top: former << top if top < BITS else 0,
    0x25: lambda former, top: former >> top if top < BITS else 0,
    0x26: lambda former, top: signed(former) >> min(top, BITS - 1),
    0x27: operator.xor,
    0x29: _compare(operator.eq),
    0x2A: _compare(operator.ge),
    0x2B: _compare(operator.gt),
    0x2C: _compare(operator.le),
    0x2D: _compare(operator.lt),
    0x2E: _compare(operator.ne),
}
ONE: dict[int, Callable[[int], int]] = {0x19: lambda top: abs(signed(top)), 0x1F: operator.neg, 0x20: operator.invert}
# Opcode of a constant -> its size, whether it is signed.
CONSTANTS = {
    opcode: (1 << index // 2, bool(index % 2)) for index, opcode in enumerate(range(0x08, 0x10))
}  # const1u, const1s, const2u, ...


def leb(data: bytes, at: int, *, is_signed: bool) -> tuple[int, int]:
    """A LEB128 number and the offset after it."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if not byte & 0x80:
            break
    return (value - (1 << shift) if is_signed and byte & 0x40 else value), at


def run(
    expression: bytes, registers: Mapping[int, int], read: Callable[[int], int] | None = None, cfa: int | None = None
) -> int:
    """The final top of the stack, unsigned. `read` returns words of memory; `cfa`, if given, is the initial entry."""
    stack: list[int] = [] if cfa is None else [cfa]
    at = 0
    while at < len(expression):
        opcode, at = expression[at], at + 1
        if 0x30 <= opcode < 0x50:  # lit0 to lit31
            stack.append(opcode - 0x30)
        elif 0x70 <= opcode < 0x90:  # breg0 to breg31
            offset, at = leb(expression, at, is_signed=True)
            stack.append(registers[opcode - 0x70] + offset & WRAP)
        elif opcode == 0x23:  # plus_uconst
            more, at = leb(expression, at, is_signed=False)
            stack.append(stack.pop() + more & WRAP)
        elif opcode == 0x06 and read is not None:  # deref
            stack.append(read(stack.pop()))
        elif opcode in CONSTANTS:
            size, is_signed = CONSTANTS[opcode]
            stack.append(int.from_bytes(expression[at : at + size], "little", signed=is_signed) & WRAP)
            at += size
        elif opcode in ONE:
            stack.append(ONE[opcode](stack.pop()) & WRAP)
        else:
            top, former = stack.pop(), stack.pop()
            stack.append(TWO[opcode](former, top) & WRAP)
    return stack[-1]
