# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Call frame instructions written one by one, each in the fewest bytes (DWARF5 6.4.2).

Strategy: the schema's operand table gives the opcodes for each effect; the shortest one that can hold the operands is
written.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from ....schemas import cfi

if not cython.compiled:
    from ..array_types import U8, ConstI64, ConstU8, ConstU8_2D
    from ..shared.writes import Writer, sleb_size, uleb_size

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
NOT = cython.declare(cython.longlong, -1)  # no size: the operand cannot hold the value


@cython.final
@cython.cclass
class Expressions:
    """DWARF expressions: each is data[start:start + size]."""

    def __init__(self, data: ConstU8, start: ConstI64, size: ConstI64) -> None:
        self.data = data
        self.start = start
        self.size = size


@cython.cclass
class InstructionWriter(Writer):
    """Instructions, one by one. `table` has the effect and the operand kinds of each opcode; `choices` the opcodes for
    each effect, then NO_OPCODE.

    An operand that is a block is given as the index of an expression, one that is a size as the signed number with the
    same 64 bits.
    """

    def __init__(
        self, big: cython.int, expressions: Expressions, table: ConstU8_2D, choices: ConstU8_2D, out: U8
    ) -> None:
        Writer.__init__(self, big, out)
        self.expressions = expressions
        self.table = table
        self.choices = choices
        self.code_factor = self.data_factor = 1
        self.size = 0
        self.is_uneven = self.fault = 0

    def stored(self, kind: cython.int, value: cython.longlong) -> cython.longlong:
        """The stored value of an operand, divided by its factor; sets `is_uneven` if that leaves a remainder."""
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
        # Magnitudes, because C and Python round quotients of negative numbers differently.
        unit = factor if factor > 0 else -factor
        size = value if value >= 0 else -value
        if size % unit:
            self.is_uneven = 1
            return 0
        size = size // unit
        return size if (value >= 0) == (factor > 0) else -size

    def operand_size(self, kind: cython.int, value: cython.longlong) -> cython.longlong:
        """Bytes of an operand after its opcode; NOT if it cannot hold the value."""
        size: cython.longlong
        if kind == OP_NONE:
            return 0
        if kind == OP_BLOCK:
            size = self.expressions.size[value]
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

    def put_operand(self, kind: cython.int, value: cython.longlong) -> cython.void:
        """Write an operand that can hold its value."""
        index: cython.longlong
        size: cython.longlong
        if kind == OP_BLOCK:
            size = self.expressions.size[value]
            self.put_uleb(cython.cast(cython.ulonglong, size))
            for index in range(self.expressions.start[value], self.expressions.start[value] + size):
                self.put(self.expressions.data[index])
        elif kind == OP_SIZE:
            self.put_uleb(cython.cast(cython.ulonglong, value) & ALL_ONES)
        elif kind == OP_SIGNED_FACTORED:
            self.put_sleb(self.stored(kind, value))
        elif OP_DELTA1 <= kind <= OP_DELTA8:
            self.put_fixed(cython.cast(cython.ulonglong, self.stored(kind, value)), 1 << (kind - OP_DELTA1))
        elif kind != OP_NONE and kind != OP_INLINE_DELTA and kind != OP_INLINE_REGISTER:
            self.put_uleb(cython.cast(cython.ulonglong, self.stored(kind, value)))

    def choose(self, effect: cython.int, first: cython.longlong, second: cython.longlong) -> cython.int:
        """The shortest opcode with an effect that holds the operands, or NO_OPCODE; `size` gets its bytes, or NOT."""
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
            one = self.operand_size(self.table[opcode, 1], first)
            two = self.operand_size(self.table[opcode, 2], second)
            if one != NOT and two != NOT and (best == NO_OPCODE or 1 + one + two < self.size):
                best, self.size = opcode, 1 + one + two
        return best

    def instruct(self, effect: cython.int, first: cython.longlong, second: cython.longlong) -> cython.void:
        """Write an instruction with an effect; a fault if none can hold the operands."""
        opcode: cython.int = self.choose(effect, first, second)
        kind: cython.int
        if opcode == NO_OPCODE:
            self.fault = 1
            return
        kind = self.table[opcode, 1]
        if kind == OP_INLINE_DELTA or kind == OP_INLINE_REGISTER:
            self.put(opcode | cython.cast(cython.int, self.stored(kind, first)))
        else:
            self.put(opcode)
        self.put_operand(kind, first)
        self.put_operand(self.table[opcode, 2], second)
