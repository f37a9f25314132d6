"""A second opinion on DWARF expressions: a stack machine on the bytes, for the operations that real files need.

Strategy: no product code. Opcodes and meanings are from DWARF5 2.5.1 and 7.7.1.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Words:
    """The size and the byte order of a machine's words."""

    size: int = 8
    order: Literal["little", "big"] = "little"

    @property
    def bits(self) -> int:
        return 8 * self.size

    def wrap(self, value: int) -> int:
        """A number as an unsigned word."""
        return value & (1 << self.bits) - 1

    def signed(self, value: int) -> int:
        """A word as two's complement."""
        value = self.wrap(value)
        return value - (value >> self.bits - 1 << self.bits)


WRAP = Words().wrap(-1)


def signed(value: int) -> int:
    """A 64-bit pattern as two's complement."""
    return Words().signed(value)


def _compare(relation: Callable[[int, int], bool]) -> Callable[[int, int, Words], int]:
    return lambda former, top, words: int(relation(words.signed(former), words.signed(top)))


def _wrapped(operation: Callable[[int, int], int]) -> Callable[[int, int, Words], int]:
    return lambda former, top, _: operation(former, top)


def _quotient(former: int, top: int, words: Words) -> int:
    """Signed, rounded towards zero."""
    left, right = words.signed(former), words.signed(top)
    return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)


# Former second value, former top.
TWO: dict[int, Callable[[int, int, Words], int]] = {
    0x1A: _wrapped(operator.and_),
    0x1C: _wrapped(operator.sub),
    0x1E: _wrapped(operator.mul),
    0x21: _wrapped(operator.or_),
    0x22: _wrapped(operator.add),
    0x24: lambda former, top, words: former << top if top < words.bits else 0,
    0x25: lambda former, top, words: former >> top if top < words.bits else 0,
    0x26: lambda former, top, words: words.signed(former) >> min(top, words.bits - 1),
    0x27: _wrapped(operator.xor),
    0x29: _compare(operator.eq),
    0x2A: _compare(operator.ge),
    0x2B: _compare(operator.gt),
    0x2C: _compare(operator.le),
    0x2D: _compare(operator.lt),
    0x2E: _compare(operator.ne),
}
DIVISIONS: dict[int, Callable[[int, int, Words], int]] = {0x1B: _quotient, 0x1D: _wrapped(operator.mod)}
ONE: dict[int, Callable[[int, Words], int]] = {
    0x19: lambda top, words: abs(words.signed(top)),
    0x1F: lambda top, _: -top,
    0x20: lambda top, _: ~top,
}
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
    expression: bytes,
    registers: Mapping[int, int],
    read: Callable[[int], int] | None = None,
    cfa: int | None = None,
    words: Words = Words(),
) -> int:
    """The final top of the stack, unsigned. `read` returns words of memory; `cfa`, if given, is the initial entry."""
    stack: list[int] = [] if cfa is None else [cfa]
    at = 0
    while at < len(expression):
        opcode, at = expression[at], at + 1
        if 0x30 <= opcode < 0x50:  # lit0 to lit31
            stack.append(opcode - 0x30)
        elif 0x70 <= opcode < 0x90 or opcode == 0x92:  # breg0 to breg31, bregx
            register = opcode - 0x70
            if opcode == 0x92:
                register, at = leb(expression, at, is_signed=False)
            offset, at = leb(expression, at, is_signed=True)
            stack.append(words.wrap(registers[register] + offset))
        elif opcode in (0x10, 0x11):  # constu, consts
            value, at = leb(expression, at, is_signed=opcode == 0x11)
            stack.append(words.wrap(value))
        elif opcode == 0x23:  # plus_uconst
            more, at = leb(expression, at, is_signed=False)
            stack.append(words.wrap(stack.pop() + more))
        elif opcode == 0x06 and read is not None:  # deref
            stack.append(read(stack.pop()))
        elif opcode == 0x15:  # pick
            stack.append(stack[-1 - expression[at]])
            at += 1
        elif opcode in CONSTANTS:
            size, is_signed = CONSTANTS[opcode]
            stack.append(words.wrap(int.from_bytes(expression[at : at + size], words.order, signed=is_signed)))
            at += size
        elif opcode in ONE:
            stack.append(words.wrap(ONE[opcode](stack.pop(), words)))
        else:
            top, former = stack.pop(), stack.pop()
            stack.append(words.wrap((DIVISIONS if opcode in DIVISIONS else TWO)[opcode](former, top, words)))
    return stack[-1]
