"""DWARF expressions that a consumer of call frame information can evaluate (DWARF5 2.5 and 6.4.2).

Strategy: operations are drawn one by one among those for which the stack is deep enough. Location descriptions,
operations that need a compilation unit or a type, and those that DWARF5 6.4.2 forbids are not drawn. A divisor is
always a literal other than 0, and branches lead forward.
"""

from __future__ import annotations

from functools import cache

from ...schemas.data_classes import dataclass
from ...schemas.expressions import FAMILIES, FAMILY_SIZE, OPERATIONS
from ...schemas.section import ByteOrder
from ...schemas.wire import I8, I16, I32, I64, SLEB, U8, U16, U32, U64, ULEB, Integer, Kind
from ..byte_stream import ByteStream
from ..choices import Choice, Draw, integers, one_of, sampled_from


@dataclass(frozen=True, slots=True)
class DwarfExpression:
    """`data`: the bytes. `operations`: their names without DW_OP_, in order. `depth`: the number of values on the stack
    after them, at least 1; the top one is the result. They need `initial_depth` values to start with, 1 in
    DW_CFA_expression and DW_CFA_val_expression, where it is the CFA."""

    data: bytes
    operations: tuple[str, ...]
    initial_depth: int
    depth: int


@dataclass(frozen=True, slots=True)
class _Step:
    """Operations drawn as one: `needs` values on the stack, and how many more there are afterwards."""

    names: tuple[str, ...]
    needs: int
    grows: int


_PUSHES = ["lit", "breg", "bregx", "addr", "const1u", "const1s", "const2u", "const2s", "const4u", "const4s", "constu"]
_PUSHES += ["consts", "const8u", "const8s"]
_BINARY = ["plus", "minus", "mul", "and", "or", "xor", "shl", "shr", "shra", "eq", "ge", "gt", "le", "lt", "ne"]
_STEPS = [
    *(_Step((name,), 0, 1) for name in _PUSHES),
    _Step(("nop",), 0, 0),
    *(_Step((name,), 1, 0) for name in ("deref", "deref_size", "abs", "neg", "not", "plus_uconst")),
    *(_Step((name,), 1, 1) for name in ("dup", "pick")),
    # The divisor is never 0.
    *(_Step(("divisor", name), 1, 0) for name in ("div", "mod")),
    # The skipped operation takes a byte; both ways around the conditional one leave the stack as deep.
    _Step(("skip", "lit"), 0, 0),
    _Step(("dup", "bra", "neg"), 1, 0),
    *(_Step((name,), 2, -1) for name in (*_BINARY, "drop")),
    _Step(("swap",), 2, 0),
    _Step(("over",), 2, 1),
    _Step(("rot",), 3, 0),
]
MAX_STEPS = 5
_COUNTS = integers(1, MAX_STEPS)
_BY_NAME = {name: (opcode, kinds) for opcode, (name, kinds) in (*OPERATIONS.items(), *FAMILIES.items())}
_DEEPEST = max(step.needs for step in _STEPS)
_STEPS_AT = [sampled_from([step for step in _STEPS if step.needs <= depth]) for depth in range(_DEEPEST + 1)]
_MEMBERS = integers(0, FAMILY_SIZE - 1)
_VALUES: dict[Kind, Choice[int]] = {
    kind: one_of(integers(max(low, -130), min(high, 130)), sampled_from([low, high]))
    for kind in (U8, I8, U16, I16, U32, I32, U64, I64)
    for low, high in [kind.limits]
}
_VALUES |= {ULEB: _VALUES[U32], SLEB: _VALUES[I32]}


@cache
def _addresses(size: int) -> Choice[int]:
    return integers(0, Integer(size).limits[1])


def draw_expression(draw: Draw, byte_order: ByteOrder, address_size: int, initial_depth: int) -> DwarfExpression:
    """An expression of a few operations."""
    stream = ByteStream(byte_order, address_size)
    names: list[str] = []
    depth = initial_depth
    count = draw(_COUNTS)
    while count > 0 or depth < 1:
        step = draw(_STEPS_AT[min(depth, _DEEPEST)])
        for name in step.names:
            names.append(_put_operation(draw, stream, name, depth))
        depth += step.grows
        count -= 1
    return DwarfExpression(bytes(stream.data), tuple(names), initial_depth, depth)


def _put_operation(draw: Draw, stream: ByteStream, name: str, depth: int) -> str:
    """Append an operation; return its name."""
    family, number = ("lit", 1 + draw(_MEMBERS) % 31) if name == "divisor" else (name, None)
    opcode, kinds = _BY_NAME[family]
    if opcode in FAMILIES:
        number = draw(_MEMBERS) if number is None else number
        stream.data.append(opcode + number)
        name = f"{family}{number}"
    else:
        stream.data.append(opcode)
    for index, kind in enumerate(kinds):
        stream.put_value(kind, _draw_operand(draw, stream, name, index, kind, depth))
    return name


def _draw_operand(draw: Draw, stream: ByteStream, name: str, index: int, kind: Kind, depth: int) -> int:
    """The value of an operand; `depth` is that of the stack before the step."""
    match name:
        case "skip" | "bra":
            return 1
        case "pick":
            return draw(_MEMBERS) % depth
        case "deref_size":
            return 1 << draw(_MEMBERS) % stream.address_size.bit_length()
        case "addr":
            return draw(_addresses(stream.address_size))
        case "bregx" if index == 0:
            return draw(_MEMBERS)
        case _:
            return draw(_VALUES[kind])
