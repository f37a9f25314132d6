"""DWARF expressions as in GNU readelf 2.47's dumps of call frame instructions.

Strategy: names and operands come from the schema's table; an operation that readelf does not print as
`DW_OP_name: operand` in decimal has a format here. A vendor's operation has the format of its DWARF 5 successor.
"""

from __future__ import annotations

import io
import re

from ...schemas.expressions import USER_OPCODES, Operation, is_operation, parse_operation
from ...schemas.section import Section
from ...schemas.wire import Leb128, LebBlock
from ..arch.registers import register_name
from ..bulk_text import prefixed

# Text after the name. {0} is an operand in decimal, {x0} in hexadecimal, {p0} with prefix, {r0} as a register's name.
_FORMATS = {
    "addr": ": {x0}",
    "reg": " ({r})",
    "breg": " ({r}): {0}",
    "regx": ": {0} ({r0})",
    "bregx": ": {0} ({r0}) {1}",
    "call2": ": <{p0}>",
    "call4": ": <{p0}>",
    "bit_piece": ": size: {0} offset: {1} ",
    "implicit_value": " {0}",
    "entry_value": ": ({0})",
    "const_type": ": <{p0}>  {1}",
    "regval_type": ": {0} ({r0}) <{p1}>",
    "deref_type": ": {0} <{p1}>",
    "xderef_type": ": {0} <{p1}>",
    "convert": " <{p0}>",
    "reinterpret": " <{p0}>",
    "parameter_ref": ": <{p0}>",
    "addrx": " <{p0}>",
    "constx": " <{p0}>",
    "addr_index": " <{p0}>",
    "const_index": " <{p0}>",
    "push_tls_address": " or DW_OP_HP_unknown",
}
_PLAIN = ("", ": {0}", ": {0} {1}")
# They refer to entries of .debug_info by offsets whose size depends on the unit, which is unknown in a frame section:
# neither they nor the operations after them can be decoded.
_OF_INFO = ("call_ref", "implicit_pointer", "GNU_implicit_pointer", "GNU_variable_value")
_FAMILY = re.compile(r"(b?reg)(\d+)")


def operation_texts(expression: Section, machine: str) -> list[str]:
    """The text of each operation, up to the first one whose operands are unknown. Raises ParseError.

    `machine` is EM_..., which decides register names.
    """
    found: list[str] = []
    stream = io.BytesIO(expression.data)
    at = 0
    while at < len(expression):
        opcode = expression.data[at]
        if not is_operation(opcode):
            kind = "User defined" if opcode in USER_OPCODES else "Unknown"
            return [*found, f"({kind} location op {prefixed(opcode)})"]
        operation = parse_operation(expression, stream, at, f"operation[{len(found)}]")
        if operation.name in _OF_INFO:
            return [*found, f"(DW_OP_{operation.name} in frame info)"]
        found.append(f"DW_OP_{operation.name}{_operands_text(operation, expression, machine)}")
        at = operation.end
    return found


def expression_text(expression: Section, machine: str) -> str:
    """The operations as in `operation_texts`, separated by semicolons."""
    return "; ".join(operation_texts(expression, machine))


def _operands_text(operation: Operation, expression: Section, machine: str) -> str:
    name = operation.name.removeprefix("GNU_")
    values: dict[str, str] = {}
    family = _FAMILY.fullmatch(name)
    if family:
        name = family[1]
        values["r"] = register_name(machine, int(family[2]))
    shown = [_operand_text(operand, name, expression, machine) for operand in operation.operands]
    for index, operand in enumerate(operation.operands):
        if not isinstance(operand, LebBlock):
            number = int(operand)
            values[f"r{index}"] = register_name(machine, number)
            values[f"x{index}"] = f"{number:x}"
            values[f"p{index}"] = prefixed(number)
    return _FORMATS.get(name, _PLAIN[len(shown)]).format(*shown, **values)


def _operand_text(operand: int | Leb128 | LebBlock, name: str, expression: Section, machine: str) -> str:
    if not isinstance(operand, LebBlock):
        return str(int(operand))
    if name == "entry_value":
        inner = Section.of(expression.name, operand.data, 0, expression.byte_order, expression.address_size)
        return expression_text(inner, machine)
    return f"{len(operand.data)} byte block: " + "".join(f"{byte:x} " for byte in operand.data)
