"""DWARF expressions (DWARF5 2.5): evaluated with registers and memory, or simplified into a tree.

Strategy: one stack machine for both. With known registers and memory it evaluates; otherwise it builds a tree with
constants folded, in which `register_offset` and `by_residue` recognise common forms. A branch needs a constant: an
expression that branches on an unknown value has no tree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import lru_cache

from ...schemas.data_classes import dataclass
from ...schemas.expressions import FAMILIES, FAMILY_SIZE, OPERATIONS, Operation, parse_expression
from ...schemas.section import ByteOrder, ParseError, Section
from ...schemas.wire import LebBlock, sleb, uleb

# Limits for loops by DW_OP_skip and DW_OP_bra, and for recursion over trees; compilers stay far below them.
MAX_STEPS = 10_000
MAX_STACK = 1_000
MAX_NODES = 250


@dataclass(frozen=True, slots=True)
class Constant:
    """An unsigned number of the address size."""

    value: int


@dataclass(frozen=True, slots=True)
class Register:
    """The value of a register (DWARF number) in the current frame."""

    number: int


@dataclass(frozen=True, slots=True)
class Memory:
    """The unsigned number in `size` bytes at an address."""

    address: Node
    size: int
    nodes: int = field(default=1, compare=False)


@dataclass(frozen=True, slots=True)
class Unary:
    """An operator (DW_OP name) on one node."""

    operator: str
    operand: Node
    nodes: int = field(default=1, compare=False)


@dataclass(frozen=True, slots=True)
class Binary:
    """An operator (DW_OP name) on two nodes; `right` was on top of the stack, `left` below it."""

    operator: str
    left: Node
    right: Node
    nodes: int = field(default=1, compare=False)


Node = Constant | Register | Memory | Unary | Binary
ReadRegister = Callable[[int], int]
ReadMemory = Callable[[int, int], int]


class ExpressionError(Exception):
    """An expression without a value or tree: invalid in call frame information, ill-formed, or too large."""


def parse(expression: bytes, byte_order: ByteOrder = "little", address_size: int = 8) -> tuple[Operation, ...]:
    """The operations of an expression's bytes. Raises ParseError."""
    return parse_expression(Section.of("expression", expression, 0, byte_order, address_size))


def literal(value: int) -> Operation:
    """The shortest operation that pushes a number of 64 bits, signed or unsigned."""
    if 0 <= value < FAMILY_SIZE:
        return Operation(f"lit{value}")
    return Operation("constu", (uleb(value),)) if value > 0 else Operation("consts", (sleb(value),))


def register_plus(register: int, offset: int) -> Operation:
    """The operation that pushes a register's value plus an offset."""
    if register < FAMILY_SIZE:
        return Operation(f"breg{register}", (sleb(offset),))
    return Operation("bregx", (uleb(register), sleb(offset)))


def text(operations: tuple[Operation, ...]) -> str:
    """The operations in order, separated by semicolons."""
    return "; ".join(map(str, operations))


def simplify(operations: tuple[Operation, ...], address_size: int = 8, initial: Node | None = None) -> Node:
    """The tree that an expression leaves on top of the stack, constants folded.

    `initial` is on the stack before the first operation (the CFA, for a register's rule). Raises ExpressionError.
    """
    stack = [] if initial is None else [initial]
    machine = _Machine(stack, address_size, Register, lambda address, size: Memory(address, size, _count(address)))
    return _run(machine, operations)


def evaluate(
    operations: tuple[Operation, ...],
    register: ReadRegister,
    memory: ReadMemory,
    address_size: int = 8,
    initial: int | None = None,
) -> int:
    """The value that an expression leaves on top of the stack, unsigned.

    `register` takes a DWARF number; `memory(address, size)` reads an unsigned number; `initial` is on the stack before
    the first operation. Raises ExpressionError, and whatever `register` and `memory` raise.
    """

    def read(address: Node, size: int) -> Node:
        assert isinstance(address, Constant)
        return Constant(memory(address.value, size))

    stack: list[Node] = [] if initial is None else [Constant(initial)]
    result = _run(_Machine(stack, address_size, lambda number: Constant(register(number)), read), operations)
    assert isinstance(result, Constant)
    return result.value


@dataclass(frozen=True, slots=True)
class _Machine:
    """The stack, and the functions that make nodes from registers and memory."""

    stack: list[Node]
    address_size: int
    register: Callable[[int], Node]
    memory: Callable[[Node, int], Node]

    @property
    def mask(self) -> int:
        """The largest unsigned number of the address size."""
        return (1 << 8 * self.address_size) - 1

    def push_sum(self, node: Node, number: int) -> None:
        """Push the sum of a node and a number."""
        self.stack.append(_binary("plus", node, Constant(number & self.mask), self.mask))


def _run(machine: _Machine, operations: tuple[Operation, ...]) -> Node:
    starts = {operation.offset: index for index, operation in enumerate(operations)}
    index = steps = 0
    while index < len(operations):
        operation = operations[index]
        steps += 1
        if steps > MAX_STEPS or len(machine.stack) > MAX_STACK:
            raise ExpressionError(f"more than {MAX_STEPS} steps or {MAX_STACK} values")
        try:
            jumps = _apply(machine, operation)
        except IndexError:
            raise ExpressionError(f"too few values on the stack for DW_OP_{operation.name}") from None
        index += 1
        if jumps:
            target = operation.end + _operand(operation)
            if target not in starts and target != operations[-1].end:
                raise ExpressionError(f"DW_OP_{operation.name} jumps to {target:#x}, where no operation starts")
            index = starts.get(target, len(operations))
    if not machine.stack:
        raise ExpressionError("the stack is empty at the end")
    return machine.stack[-1]


def _apply(machine: _Machine, operation: Operation) -> bool:
    """Apply one operation to the stack. Returns whether it jumps."""
    if operation.name in _BRANCHES:
        return _BRANCHES[operation.name](machine)
    if operation.name not in _EFFECTS:
        raise ExpressionError(f"DW_OP_{operation.name} has no meaning in call frame information")
    _EFFECTS[operation.name](machine, operation)
    return False


def _operand(operation: Operation, number: int = 0) -> int:
    value = operation.operands[number]
    if isinstance(value, LebBlock):
        raise ExpressionError(f"DW_OP_{operation.name} has no meaning in call frame information")
    return int(value)


def _signed(value: int, mask: int) -> int:
    return value - mask - 1 if value > mask >> 1 else value


def _divisor(value: int) -> int:
    if value == 0:
        raise ExpressionError("division by zero")
    return value


def _divide(left: int, right: int, mask: int) -> int:
    """Signed division, rounded towards zero (DWARF5 2.5.1.4)."""
    dividend, divisor = _signed(left, mask), _signed(_divisor(right), mask)
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


# Operands are unsigned and at most `mask`; results are truncated to it. Comparisons are signed (DWARF5 2.5.1.5).
_BINARY: dict[str, Callable[[int, int, int], int]] = {
    "and": lambda left, right, mask: left & right,
    "div": _divide,
    "minus": lambda left, right, mask: left - right,
    "mod": lambda left, right, mask: left % _divisor(right),
    "mul": lambda left, right, mask: left * right,
    "or": lambda left, right, mask: left | right,
    "plus": lambda left, right, mask: left + right,
    "shl": lambda left, right, mask: left << right if right <= mask.bit_length() else 0,
    "shr": lambda left, right, mask: left >> right,
    "shra": lambda left, right, mask: _signed(left, mask) >> right,
    "xor": lambda left, right, mask: left ^ right,
    "eq": lambda left, right, mask: int(left == right),
    "ne": lambda left, right, mask: int(left != right),
    "ge": lambda left, right, mask: int(_signed(left, mask) >= _signed(right, mask)),
    "gt": lambda left, right, mask: int(_signed(left, mask) > _signed(right, mask)),
    "le": lambda left, right, mask: int(_signed(left, mask) <= _signed(right, mask)),
    "lt": lambda left, right, mask: int(_signed(left, mask) < _signed(right, mask)),
}

_UNARY: dict[str, Callable[[int, int], int]] = {
    "abs": lambda value, mask: abs(_signed(value, mask)),
    "neg": lambda value, mask: -value,
    "not": lambda value, mask: ~value,
}


def _count(*operands: Node) -> int:
    """The number of nodes of a tree with these operands, limited: each DW_OP_dup can double the size of a tree."""
    count = 1 + sum(1 if isinstance(node, Constant | Register) else node.nodes for node in operands)
    if count > MAX_NODES:
        raise ExpressionError(f"the tree has more than {MAX_NODES} nodes")
    return count


def _unary(operator: str, operand: Node, mask: int) -> Node:
    if isinstance(operand, Constant):
        return Constant(_UNARY[operator](operand.value, mask) & mask)
    return Unary(operator, operand, _count(operand))


def _binary(operator: str, left: Node, right: Node, mask: int) -> Node:
    """A node for an operator: constants are folded, sums with a constant normalised to node + constant."""
    if isinstance(left, Constant) and isinstance(right, Constant):
        return Constant(_BINARY[operator](left.value, right.value, mask) & mask)
    if operator == "minus" and isinstance(right, Constant):
        operator, right = "plus", Constant(-right.value & mask)
    if operator == "plus":
        if isinstance(left, Constant):
            left, right = right, left
        if isinstance(right, Constant):
            if right.value == 0:
                return left
            if isinstance(left, Binary) and left.operator == "plus" and isinstance(left.right, Constant):
                return _binary("plus", left.left, Constant(left.right.value + right.value & mask), mask)
    return Binary(operator, left, right, _count(left, right))


def _branch_is_taken(machine: _Machine) -> bool:
    condition = machine.stack.pop()
    if not isinstance(condition, Constant):
        raise ExpressionError("DW_OP_bra on an unknown value")
    return condition.value != 0


def _pick(machine: _Machine, depth: int) -> None:
    if not 0 <= depth < len(machine.stack):
        raise IndexError(depth)
    machine.stack.append(machine.stack[-1 - depth])


def _rotate(machine: _Machine, count: int) -> None:
    """Move the top of the stack below the `count` - 1 values under it."""
    if len(machine.stack) < count:
        raise IndexError(count)
    machine.stack.insert(len(machine.stack) - count, machine.stack.pop())


def _dereference(machine: _Machine, size: int) -> None:
    if not 0 < size <= machine.address_size:
        raise ExpressionError(f"DW_OP_deref_size of {size} bytes, expected 1 to {machine.address_size}")
    machine.stack.append(machine.memory(machine.stack.pop(), size))


def _push_literal(number: int) -> _Effect:
    return lambda machine, _: machine.stack.append(Constant(number))


def _push_constant(machine: _Machine, operation: Operation) -> None:
    machine.stack.append(Constant(_operand(operation) & machine.mask))


def _push_register(number: int) -> _Effect:
    return lambda machine, operation: machine.push_sum(machine.register(number), _operand(operation))


def _apply_unary(operator: str) -> _Effect:
    return lambda machine, _: machine.stack.append(_unary(operator, machine.stack.pop(), machine.mask))


def _apply_binary(operator: str) -> _Effect:
    def apply(machine: _Machine, _: Operation) -> None:
        right, left = machine.stack.pop(), machine.stack.pop()
        machine.stack.append(_binary(operator, left, right, machine.mask))

    return apply


_Effect = Callable[[_Machine, Operation], object]
_CONSTANTS = ("addr", *(f"const{size}{sign}" for size in (1, 2, 4, 8) for sign in "us"), "constu", "consts")

# The effect of each operation on the stack. Operations in neither table have no meaning in call frame information.
_EFFECTS: dict[str, _Effect] = {
    **{f"lit{number}": _push_literal(number) for number in range(FAMILY_SIZE)},
    **dict.fromkeys(_CONSTANTS, _push_constant),
    **{f"breg{number}": _push_register(number) for number in range(FAMILY_SIZE)},
    **{name: _apply_unary(name) for name in _UNARY},
    **{name: _apply_binary(name) for name in _BINARY},
    "bregx": lambda machine, operation: machine.push_sum(machine.register(_operand(operation)), _operand(operation, 1)),
    "plus_uconst": lambda machine, operation: machine.push_sum(machine.stack.pop(), _operand(operation)),
    "deref": lambda machine, _: _dereference(machine, machine.address_size),
    "deref_size": lambda machine, operation: _dereference(machine, _operand(operation)),
    "dup": lambda machine, _: _pick(machine, 0),
    "over": lambda machine, _: _pick(machine, 1),
    "pick": lambda machine, operation: _pick(machine, _operand(operation)),
    "drop": lambda machine, _: machine.stack.pop(),
    "swap": lambda machine, _: _rotate(machine, 2),
    "rot": lambda machine, _: _rotate(machine, 3),
    "nop": lambda machine, _: None,
}
# Whether each branch is taken.
_BRANCHES: dict[str, Callable[[_Machine], bool]] = {"skip": lambda _: True, "bra": _branch_is_taken}


def register_offset(node: Node, address_size: int = 8) -> tuple[int, int] | None:
    """Register and signed offset if the tree is their sum, else None."""
    mask = (1 << 8 * address_size) - 1
    match node:
        case Register(number):
            return number, 0
        case Binary("plus", Register(number), Constant(value)):
            return number, _signed(value, mask)
    return None


def by_residue(node: Node, program_counter: int, address_size: int = 8) -> tuple[int, tuple[int, ...]] | None:
    """If the tree is register + f(PC & (2**k - 1)): the register, and f of each PC modulo 2**k; else None.

    The number of values is the smallest possible power of two, at most 256. Raises ExpressionError if f has no value
    for a PC.
    """
    mask = (1 << 8 * address_size) - 1
    masks = _pc_masks(node, program_counter)
    registers = _registers(node) - {program_counter}
    if masks is None or not masks or len(registers) != 1:
        return None
    offsets = []
    base = registers.pop()
    for residue in range(max(masks) + 1):
        found = register_offset(_substitute(node, program_counter, residue, mask), address_size)
        if found is None or found[0] != base:
            return None
        offsets.append(found[1])
    while len(offsets) > 1 and offsets[: len(offsets) // 2] == offsets[len(offsets) // 2 :]:
        offsets = offsets[: len(offsets) // 2]
    return base, tuple(offsets)


MAX_RESIDUES = 256


def _pc_masks(node: Node, program_counter: int) -> set[int] | None:
    """The masks applied to the PC at its occurrences; None if one of them is not masked by 2**k - 1."""
    match node:
        case Register(number):
            return None if number == program_counter else set()
        case Constant():
            return set()
        case Memory(address, _):
            return None if _pc_masks(address, program_counter) != set() else set()
        case Binary("and", inner, Constant(value)) | Binary("and", Constant(value), inner):
            # (PC + c) & mask depends only on PC & mask.
            found = register_offset(inner)
            if found is not None and found[0] == program_counter:
                return {value} if value & (value + 1) == 0 and value < MAX_RESIDUES else None
            return _pc_masks(inner, program_counter)
        case Unary(_, inner):
            return _pc_masks(inner, program_counter)
        case Binary(_, left, right):
            former, latter = _pc_masks(left, program_counter), _pc_masks(right, program_counter)
            return None if former is None or latter is None else former | latter


def _registers(node: Node) -> set[int]:
    match node:
        case Register(number):
            return {number}
        case Constant():
            return set()
        case Memory(inner, _) | Unary(_, inner):
            return _registers(inner)
        case Binary(_, left, right):
            return _registers(left) | _registers(right)


def _substitute(node: Node, number: int, value: int, mask: int) -> Node:
    """The tree with a register replaced by its value, and folded."""
    match node:
        case Register(register) if register == number:
            return Constant(value)
        case Unary(operator, inner):
            return _unary(operator, _substitute(inner, number, value, mask), mask)
        case Binary(operator, left, right):
            former = _substitute(left, number, value, mask)
            return _binary(operator, former, _substitute(right, number, value, mask), mask)
    return node


MAX_MASKED_SIZE = 250  # that of a lazy PLT has 11 bytes
_BREG0, _BREGX = (opcode for opcode, (name, _) in {**FAMILIES, **OPERATIONS}.items() if name in ("breg", "bregx"))


def names_register(expression: bytes, number: int) -> bool:
    """Whether an expression may read a register, judged by its bytes alone: False is certain, True is not."""
    return _BREG0 + number in expression or _BREGX in expression


# Linkers write one expression for each architecture and size of entries.
@lru_cache(maxsize=16)
def masked_offsets(
    expression: bytes, program_counter: int, byte_order: ByteOrder = "little", address_size: int = 8
) -> tuple[int, tuple[int, ...]] | None:
    """As `by_residue`, for an expression's bytes; also None if they are malformed or longer than MAX_MASKED_SIZE."""
    if len(expression) > MAX_MASKED_SIZE:
        return None
    try:
        tree = simplify(parse(expression, byte_order, address_size), address_size)
        return by_residue(tree, program_counter, address_size)
    except (ParseError, ExpressionError):
        return None
