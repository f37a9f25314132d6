# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Call frame instructions written one by one, each in the fewest bytes (DWARF5 6.4.2).

Strategy: for each effect the schema's operand table names the opcodes that have it, and of those that can hold the
operands the shortest is taken. Without room, or where the writer is dry, bytes are only counted.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from ....schemas import cfi

if not cython.compiled:
    from ..array_types import U8, ConstI64, ConstU8, ConstU8_2D
    from ..shared.writes import sleb_size, uleb_size

NO_OPCODE = cython.declare(cython.int, 255)
INLINE_MASK = cython.declare(cython.int, cfi.INLINE_MASK)
OP_NONE = cython.declare(cython.int, int(cfi.Operand.NONE))
OP_INLINE_DELTA = cython.declare(cython.int, int(cfi.Operand.INLINE_DELTA))
OP_INLINE_REGISTER = cython.declare(cython.int, int(cfi.Operand.INLINE_REGISTER))
OP_DELTA1 = cython.declare(cython.int, int(cfi.Operand.DELTA1))
OP_DELTA8 = cython.declare(cython.int, int(cfi.Operand.DELTA8))
OP_FACTORED = cython.declare(cython.int, int(cfi.Operand.FACTORED_OFFSET))
OP_SIGNED_FACTORED = cython.declare(cython.int, int(cfi.Operand.SIGNED_FACTORED_OFFSET))
OP_BLOCK = cython.declare(cython.int, int(cfi.Operand.BLOCK))
OP_SIZE = cython.declare(cython.int, int(cfi.Operand.SIZE))
ALL_ONES = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
NOT = cython.declare(cython.longlong, -1)  # no size: the operand does not hold the value


@cython.cclass
class OpcodeWriter:
    """Instructions, one by one, into `out`. `instructions` has effect and operand kinds for each opcode; `choices` the
    opcodes of each effect, then NO_OPCODE.

    Operands that are blocks are given by index of an expression, those that are sizes as the signed number with
    their 64 bits.
    """

    def __init__(
        self,
        instructions: ConstU8_2D,
        choices: ConstU8_2D,
        big: cython.int,
        expressions: ConstU8,
        expression_start: ConstI64,
        expression_size: ConstI64,
    ) -> None:
        self.instructions = instructions
        self.choices = choices
        self.big = big
        self.expressions = expressions
        self.expression_start = expression_start
        self.expression_size = expression_size
        self.code_factor = self.data_factor = 1
        self.at = 0
        self.is_dry = self.is_uneven = self.fault = 0

    def write_to(self, out: U8) -> None:
        """Begin anew, with the room that there is."""
        self.out = out
        self.at = 0

    def put(self, byte: cython.int) -> cython.void:
        """One byte, where there is room and it is meant."""
        if not self.is_dry and self.at < self.out.shape[0]:
            self.out[self.at] = byte
        self.at += 1

    def stored(self, kind: cython.int, value: cython.longlong) -> cython.longlong:
        """What is stored for an operand, without its factor; `is_uneven` where the factor does not divide it."""
        factor: cython.longlong = 1
        unit: cython.longlong
        size: cython.longlong
        if kind == OP_FACTORED or kind == OP_SIGNED_FACTORED:
            factor = self.data_factor
        elif kind == OP_INLINE_DELTA or OP_DELTA1 <= kind <= OP_DELTA8:
            factor = self.code_factor
        self.is_uneven = 0
        if factor == 1:
            return value
        # Of the magnitudes: C and Python round quotients of negative numbers differently.
        unit = factor if factor > 0 else -factor
        size = value if value >= 0 else -value
        if size % unit:
            self.is_uneven = 1
            return 0
        size = size // unit
        return size if (value >= 0) == (factor > 0) else -size

    def operand_size(self, kind: cython.int, value: cython.longlong) -> cython.longlong:
        """Bytes of an operand behind its opcode; NOT where it does not hold the value."""
        size: cython.longlong
        if kind == OP_NONE:
            return 0
        if kind == OP_BLOCK:
            size = self.expression_size[value]
            return uleb_size(cython.cast(cython.ulonglong, size)) + size
        if kind == OP_SIZE:
            return uleb_size(cython.cast(cython.ulonglong, value) & ALL_ONES)
        value = self.stored(kind, value)
        if self.is_uneven:
            return NOT
        if kind == OP_SIGNED_FACTORED:
            return sleb_size(value)
        if value < 0:
            return NOT
        if kind == OP_INLINE_DELTA or kind == OP_INLINE_REGISTER:
            return 0 if value <= INLINE_MASK else NOT
        if OP_DELTA1 <= kind <= OP_DELTA8:
            size = 1 << (kind - OP_DELTA1)
            return size if size == 8 or value >> 8 * size == 0 else NOT
        return uleb_size(cython.cast(cython.ulonglong, value))

    def put_uleb(self, value: cython.ulonglong) -> cython.void:
        """An unsigned LEB128."""
        while value > 0x7F:
            self.put(cython.cast(cython.int, value & 0x7F) | 0x80)
            value >>= 7
        self.put(cython.cast(cython.int, value))

    def put_operand(self, kind: cython.int, value: cython.longlong) -> cython.void:
        """An operand that `operand_size` found room for."""
        index: cython.longlong
        size: cython.longlong
        if kind == OP_BLOCK:
            size = self.expression_size[value]
            self.put_uleb(cython.cast(cython.ulonglong, size))
            for index in range(self.expression_start[value], self.expression_start[value] + size):
                self.put(self.expressions[index])
        elif kind == OP_SIZE:
            self.put_uleb(cython.cast(cython.ulonglong, value) & ALL_ONES)
        elif kind == OP_SIGNED_FACTORED:
            value = self.stored(kind, value)
            while value < -0x40 or value > 0x3F:
                self.put(cython.cast(cython.int, value & 0x7F) | 0x80)
                value >>= 7
            self.put(cython.cast(cython.int, value & 0x7F))
        elif OP_DELTA1 <= kind <= OP_DELTA8:
            value = self.stored(kind, value)
            size = 1 << (kind - OP_DELTA1)
            for index in range(size):
                self.put(cython.cast(cython.int, value >> 8 * (size - 1 - index if self.big else index) & 0xFF))
        elif kind != OP_NONE and kind != OP_INLINE_DELTA and kind != OP_INLINE_REGISTER:
            self.put_uleb(cython.cast(cython.ulonglong, self.stored(kind, value)))

    def choose(self, effect: cython.int, first: cython.longlong, second: cython.longlong) -> cython.int:
        """The shortest opcode with the effect that holds the operands, and its `size`; NO_OPCODE where none does."""
        index: cython.longlong
        one: cython.longlong
        two: cython.longlong
        opcode: cython.int
        best: cython.int = NO_OPCODE
        self.size = NOT
        for index in range(self.choices.shape[1]):
            opcode = self.choices[effect, index]
            if opcode == NO_OPCODE:
                break
            one = self.operand_size(self.instructions[opcode, 1], first)
            two = self.operand_size(self.instructions[opcode, 2], second)
            if one != NOT and two != NOT and (best == NO_OPCODE or 1 + one + two < self.size):
                best, self.size = opcode, 1 + one + two
        return best

    def instruct(self, effect: cython.int, first: cython.longlong, second: cython.longlong) -> cython.void:
        """Write an instruction with this effect; a fault where none can say it."""
        opcode: cython.int = self.choose(effect, first, second)
        kind: cython.int
        if opcode == NO_OPCODE:
            self.fault = 1
            return
        kind = self.instructions[opcode, 1]
        if kind == OP_INLINE_DELTA or kind == OP_INLINE_REGISTER:
            self.put(opcode | cython.cast(cython.int, self.stored(kind, first)))
        else:
            self.put(opcode)
        self.put_operand(kind, first)
        self.put_operand(self.instructions[opcode, 2], second)
