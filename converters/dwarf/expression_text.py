"""DWARF expressions as GNU readelf 2.47 prints them among call frame instructions.

Strategy: names and operands are those of the schema's table; what is not printed as `DW_OP_name: operand` in decimal
has a format of its own here. A vendor's operation is printed as the one of DWARF 5 that it became.
"""

from __future__ import annotations

import io
import re

from ...schemas.expressions import USER_OPCODES, Operation, is_operation, parse_operation
from ...schemas.section import Section
from ...schemas.wire import Leb128, LebBlock
from ..arch.registers import register_name
from ..bulk_text import prefixed

# What stands behind the name: operands in decimal, by `x0` in hexadecimal, by `r0` as the name of a register.
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
# They name entries of .debug_info by offsets whose size no frame tells: what follows cannot be told, either.
_OF_INFO = ("call_ref", "implicit_pointer", "GNU_implicit_pointer", "GNU_variable_value")
_FAMILY = re.compile(r"(b?reg)(\d+)")


def operation_texts(expression: Section, machine: str) -> list[str]:
    """Each operation's text, up to the first one whose operands nobody knows. Raises ParseError.

    The expression's byte order and address size are those of `expression`; `machine` is EM_..., for registers' names.
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
    """The operations behind one another, as `operation_texts`."""
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
