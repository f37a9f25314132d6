"""DWARF expressions: the operations and how their operands are stored (DWARF5 2.5 and 7.7.1).

Strategy: one table of operations, by which the reference engine parses and builds them. Each of the families
`lit`, `reg` and `breg` of 32 opcodes has one row, with its first opcode.
"""

from __future__ import annotations

import io
from functools import cache

from . import direct, engine
from .data_classes import dataclass
from .section import BuildError, ParseError, Section
from .wire import (
    I8,
    I16,
    I32,
    I64,
    SLEB,
    U8,
    U16,
    U32,
    U64,
    ULEB,
    Block,
    Kind,
    Leb128,
    LebBlock,
    Variable,
)

_ADDRESS = Variable(lambda this: this._params.address_size)
_OFFSET = Variable(lambda this: this._params.offset_size)

# Opcode -> name without DW_OP_, operands.
OPERATIONS: dict[int, tuple[str, tuple[Kind, ...]]] = {
    0x03: ("addr", (_ADDRESS,)),
    0x06: ("deref", ()),
    0x08: ("const1u", (U8,)),
    0x09: ("const1s", (I8,)),
    0x0A: ("const2u", (U16,)),
    0x0B: ("const2s", (I16,)),
    0x0C: ("const4u", (U32,)),
    0x0D: ("const4s", (I32,)),
    0x0E: ("const8u", (U64,)),
    0x0F: ("const8s", (I64,)),
    0x10: ("constu", (ULEB,)),
    0x11: ("consts", (SLEB,)),
    0x12: ("dup", ()),
    0x13: ("drop", ()),
    0x14: ("over", ()),
    0x15: ("pick", (U8,)),
    0x16: ("swap", ()),
    0x17: ("rot", ()),
    0x18: ("xderef", ()),
    0x19: ("abs", ()),
    0x1A: ("and", ()),
    0x1B: ("div", ()),
    0x1C: ("minus", ()),
    0x1D: ("mod", ()),
    0x1E: ("mul", ()),
    0x1F: ("neg", ()),
    0x20: ("not", ()),
    0x21: ("or", ()),
    0x22: ("plus", ()),
    0x23: ("plus_uconst", (ULEB,)),
    0x24: ("shl", ()),
    0x25: ("shr", ()),
    0x26: ("shra", ()),
    0x27: ("xor", ()),
    0x28: ("bra", (I16,)),
    0x29: ("eq", ()),
    0x2A: ("ge", ()),
    0x2B: ("gt", ()),
    0x2C: ("le", ()),
    0x2D: ("lt", ()),
    0x2E: ("ne", ()),
    0x2F: ("skip", (I16,)),
    0x90: ("regx", (ULEB,)),
    0x91: ("fbreg", (SLEB,)),
    0x92: ("bregx", (ULEB, SLEB)),
    0x93: ("piece", (ULEB,)),
    0x94: ("deref_size", (U8,)),
    0x95: ("xderef_size", (U8,)),
    0x96: ("nop", ()),
    0x97: ("push_object_address", ()),
    0x98: ("call2", (U16,)),
    0x99: ("call4", (U32,)),
    0x9A: ("call_ref", (_OFFSET,)),
    0x9B: ("form_tls_address", ()),
    0x9C: ("call_frame_cfa", ()),
    0x9D: ("bit_piece", (ULEB, ULEB)),
    0x9E: ("implicit_value", (Block(),)),
    0x9F: ("stack_value", ()),
    0xA0: ("implicit_pointer", (_OFFSET, SLEB)),
    0xA1: ("addrx", (ULEB,)),
    0xA2: ("constx", (ULEB,)),
    0xA3: ("entry_value", (Block(),)),
    0xA5: ("regval_type", (ULEB, ULEB)),
    0xA6: ("deref_type", (U8, ULEB)),
    0xA7: ("xderef_type", (U8, ULEB)),
    0xA8: ("convert", (ULEB,)),
    0xA9: ("reinterpret", (ULEB,)),
}  # fmt: skip

# Vendor operations, and DW_OP_const_type, whose block has a one-byte length: no type is so large that an LEB128 length
# would differ. None has a meaning in call frame information; dumps name them.
VENDOR_OPERATIONS: dict[int, tuple[str, tuple[Kind, ...]]] = {
    0xA4: ("const_type", (ULEB, Block())),
    0xE0: ("GNU_push_tls_address", ()),
    0xE1: ("HP_is_value", ()),
    0xE2: ("HP_fltconst4", ()),
    0xE3: ("HP_fltconst8", ()),
    0xE4: ("HP_mod_range", ()),
    0xE5: ("HP_unmod_range", ()),
    0xE6: ("HP_tls", ()),
    0xF0: ("GNU_uninit", ()),
    0xF2: ("GNU_implicit_pointer", (_OFFSET, SLEB)),
    0xF3: ("GNU_entry_value", (Block(),)),
    0xF4: ("GNU_const_type", (ULEB, Block())),
    0xF5: ("GNU_regval_type", (ULEB, ULEB)),
    0xF6: ("GNU_deref_type", (U8, ULEB)),
    0xF7: ("GNU_convert", (ULEB,)),
    0xF8: ("PGI_omp_thread_num", ()),
    0xF9: ("GNU_reinterpret", (ULEB,)),
    0xFA: ("GNU_parameter_ref", (U32,)),
    0xFB: ("GNU_addr_index", (ULEB,)),
    0xFC: ("GNU_const_index", (ULEB,)),
    0xFD: ("GNU_variable_value", (_OFFSET,)),
}
USER_OPCODES = range(0xE0, 0x100)

# First opcode of a family -> name, operands; the number, of a literal or a register, is opcode - first.
FAMILIES: dict[int, tuple[str, tuple[Kind, ...]]] = {0x30: ("lit", ()), 0x50: ("reg", ()), 0x70: ("breg", (SLEB,))}
FAMILY_SIZE = 32


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation. `name` has no DW_OP_, and the number in a family (`breg7`); `operands` are as stored.

    `offset` is that of its opcode in the expression, `end` the one after its operands, which branches are relative to.
    """

    name: str
    operands: tuple[int | Leb128 | LebBlock, ...] = ()
    offset: int = 0
    end: int = 0

    def __str__(self) -> str:
        """As in an assembler listing."""
        values = (
            operand.data.hex() if isinstance(operand, LebBlock) else str(int(operand)) for operand in self.operands
        )
        return " ".join([f"DW_OP_{self.name}", *values])


@cache
def _by_opcode() -> dict[int, tuple[str, tuple[Kind, ...]]]:
    """Every opcode, including each member of a family."""
    found = OPERATIONS | VENDOR_OPERATIONS
    for first, (name, operands) in FAMILIES.items():
        found |= {first + number: (f"{name}{number}", operands) for number in range(FAMILY_SIZE)}
    return found


@cache
def _by_name() -> dict[str, tuple[int, tuple[Kind, ...]]]:
    return {name: (opcode, operands) for opcode, (name, operands) in _by_opcode().items()}


def is_operation(opcode: int) -> bool:
    """Whether an opcode is known."""
    return opcode in _by_opcode()


def parse_expression(expression: Section, offset_size: int = 4) -> tuple[Operation, ...]:
    """The operations of an expression. Raises ParseError at an unknown opcode or a truncated operand."""
    found: list[Operation] = []
    stream = io.BytesIO(expression.data)
    at = 0
    while at < len(expression):
        found.append(parse_operation(expression, stream, at, f"operation[{len(found)}]", offset_size))
        at = found[-1].end
    return tuple(found)


def parse_operation(
    expression: Section, stream: io.BytesIO, offset: int, record: str, offset_size: int = 4
) -> Operation:
    """The operation at `offset`; `stream` has the expression's bytes. Raises as `parse_expression` does."""
    opcode = expression.data[offset]
    if opcode not in _by_opcode():
        raise ParseError(expression, offset, record, f"the opcode {opcode:#04x} is not defined")
    name, kinds = _by_opcode()[opcode]
    end = offset + 1
    operands = []
    stream.seek(end)
    for kind in kinds:
        value, end = direct.parse_value(kind, expression, stream, 0, record, offset_size=offset_size)
        operands.append(value)
    return Operation(name, tuple(operands), offset, end)


def build_expression(operations: tuple[Operation, ...], like: Section, offset_size: int = 4) -> bytes:
    """The bytes of operations; byte order and address size are `like`'s. Raises BuildError."""
    data = bytearray()
    for index, operation in enumerate(operations):
        if operation.name not in _by_name():
            raise BuildError(like, None, f"operation[{index}]", f"DW_OP_{operation.name} is not defined")
        opcode, kinds = _by_name()[operation.name]
        data.append(opcode)
        if len(kinds) != len(operation.operands):
            reason = f"found {len(operation.operands)} operands, expected {len(kinds)}"
            raise BuildError(like, None, f"operation[{index}]", reason)
        for kind, value in zip(kinds, operation.operands, strict=True):
            sizes = {"address_size": like.address_size, "offset_size": offset_size}
            data += engine.build_value(kind, value, like.byte_order, f"operation[{index}]", **sizes)
    return bytes(data)
