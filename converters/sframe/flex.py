"""CFA and register rules in the forms of FLEX FDEs: any register + offset, or the value in memory at that address.

Strategy: an expression that computes a register (or the CFA) plus an offset, or the value in memory there, becomes that
form; a form becomes the shortest such expression. All other expressions have no form.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.data_classes import dataclass
from ...schemas.section import ByteOrder, ParseError, Section
from ..arch.table import Architecture
from ..arrays import starts_of
from ..columns import Columns, column_of, columns
from ..rules import CfaKind, RuleKind
from ..table.model import RowColumns, RuleColumns, UnwindTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..dwarf.expressions import Node

# In place of a base register: the CFA, which is on the stack of a register's expression; an expression without a form.
CFA_BASE, NO_BASE = -1, -2

# Register, offset and dereference fit in this many bytes.
MAX_EXPRESSION = 24


@columns
class Forms(Columns):
    """One record per rule.

    CFA: REGISTER is base + value, EXPRESSION the value in memory at base + value. Register: EXPRESSION is saved in
    memory at base + value, VAL_EXPRESSION is base + value. NO_BASE: an expression without a form.
    """

    kind: NDArray[np.uint8] = column_of("`CfaKind` or `RuleKind`")
    base: NDArray[np.int64] = column_of("DWARF register", "of an expression")
    value: NDArray[np.int64] = column_of("bytes", "or a DWARF register")


@dataclass(frozen=True, slots=True, eq=False)
class RuleForms:
    """Register rules: `register` u16, DWARF numbers."""

    register: NDArray[np.uint16]
    forms: Forms


def forms_of(table: UnwindTable) -> tuple[Forms, Forms]:
    """The forms of a table's CFA rules, and of its register rules."""
    base, offset, is_memory = _places(table)
    rows, rules = table.rows, table.rules
    is_expression = rows.cfa_kind == CfaKind.EXPRESSION
    index = np.where(is_expression, rows.cfa_offset, len(table.expressions))
    # The stack of a CFA expression is empty at the start: CFA_BASE is no base of it, either.
    cfa_base = np.where(is_expression, base[index], rows.cfa_register)
    is_plain = is_expression & (cfa_base >= 0) & ~is_memory[index]
    cfa = Forms(
        np.where(is_plain, CfaKind.REGISTER, rows.cfa_kind).astype(np.uint8),
        cfa_base,
        np.where(is_expression, offset[index], rows.cfa_offset),
    )
    return cfa, _register_forms(rules, base, offset, is_memory)


def _register_forms(
    rules: RuleColumns, base: NDArray[np.int64], offset: NDArray[np.int64], is_memory: NDArray[np.bool_]
) -> Forms:
    is_saved, is_value = rules.kind == RuleKind.EXPRESSION, rules.kind == RuleKind.VAL_EXPRESSION
    index = np.where(is_saved | is_value, rules.value, len(base) - 1)
    found, value, in_memory = base[index], offset[index], is_memory[index]
    # A register that is saved at an address in memory needs two reads, which no control word can express.
    found = np.where(is_saved & in_memory, NO_BASE, found)
    is_saved_there = is_saved | (is_value & in_memory)
    is_register = is_value & ~in_memory & (found >= 0) & (value == 0)
    kind = np.select(
        [
            is_saved_there & (found == CFA_BASE),
            is_value & ~in_memory & (found == CFA_BASE),
            is_register,
            is_saved_there & (found >= 0),
        ],
        [RuleKind.OFFSET, RuleKind.VAL_OFFSET, RuleKind.REGISTER, RuleKind.EXPRESSION],
        rules.kind,
    ).astype(np.uint8)
    value = np.where(is_register, found, value)
    is_expression = (kind == RuleKind.EXPRESSION) | (kind == RuleKind.VAL_EXPRESSION)
    return Forms(kind, np.where(is_expression, found, 0), np.where(is_saved | is_value, value, rules.value))


def _places(table: UnwindTable) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Base and offset of each expression, and whether it is the value in memory there; then one element of NO_BASE."""
    found = [_place(one, table.byte_order, table.address_size) for one in table.expressions]
    base, offset, is_memory = zip(*found, (NO_BASE, 0, False), strict=True)
    return np.array(base, np.int64), np.array(offset, np.int64), np.array(is_memory, np.bool_)


def _place(expression: bytes, byte_order: ByteOrder, address_size: int) -> tuple[int, int, bool]:
    if len(expression) > MAX_EXPRESSION:
        return NO_BASE, 0, False
    from ..dwarf.expressions import ExpressionError, Memory, Register, parse, register_offset, simplify

    try:
        node: Node = simplify(parse(expression, byte_order, address_size), address_size, Register(CFA_BASE))
    except (ExpressionError, ParseError):
        return NO_BASE, 0, False
    is_memory = isinstance(node, Memory) and node.size == address_size
    place = register_offset(node.address if isinstance(node, Memory) else node, address_size)
    if place is None or (isinstance(node, Memory) and not is_memory):
        return NO_BASE, 0, False
    return *place, is_memory


def columns_of_forms(
    architecture: Architecture,
    cfa: Forms,
    rules: RuleForms,
    rows: RowColumns,
) -> tuple[RowColumns, RuleColumns, tuple[bytes, ...]]:
    """The rows with these CFA rules; the register rules; and the expressions, the shortest for each form.

    A form of NO_BASE becomes the empty expression.
    """
    expressions: dict[bytes, int] = {}
    forms = rules.forms
    is_memory = cfa.kind == CfaKind.EXPRESSION
    cfa_offset = np.where(is_memory, _add_expressions(cfa, is_memory, architecture, expressions, deref=True), cfa.value)
    is_expression = (forms.kind == RuleKind.EXPRESSION) | (forms.kind == RuleKind.VAL_EXPRESSION)
    indices = _add_expressions(forms, is_expression, architecture, expressions, deref=False)
    value = np.where(is_expression, indices, forms.value)
    is_register = cfa.kind == CfaKind.REGISTER
    cfa_register = np.where(is_register, cfa.base, 0).astype(np.uint16)
    rows = replace(rows, cfa_kind=cfa.kind, cfa_register=cfa_register, cfa_offset=cfa_offset)
    return rows, RuleColumns(rules.register, forms.kind, value), tuple(expressions)


def _add_expressions(
    forms: Forms, which: NDArray[np.bool_], architecture: Architecture, expressions: dict[bytes, int], *, deref: bool
) -> NDArray[np.int64]:
    """Add the expressions of the forms `which` to `expressions`. Returns the index of each; 0 for other forms."""
    number = np.zeros(len(forms.kind), np.int64)
    if which.any():
        places = np.stack([forms.base[which], forms.value[which]], axis=1)
        distinct, of_one = np.unique(places, axis=0, return_inverse=True)
        numbers = [
            expressions.setdefault(_expression(register, value, architecture, deref=deref), len(expressions))
            for register, value in distinct.tolist()
        ]
        number[which] = np.array(numbers, np.int64)[of_one.reshape(-1)]
    return number


def _expression(register: int, offset: int, architecture: Architecture, *, deref: bool) -> bytes:
    if register < 0:
        return b""
    from ...schemas.expressions import Operation, build_expression
    from ..dwarf.expressions import register_plus

    base = register_plus(register, offset)
    like = Section.of("", b"", 0, architecture.byte_order, architecture.address_size)
    return build_expression((base, Operation("deref")) if deref else (base,), like)


def in_forms(table: UnwindTable) -> UnwindTable:
    """The table with every expression that has a form replaced by the expression of that form."""
    cfa, forms = forms_of(table)
    rows, rules, expressions = columns_of_forms(
        table.architecture, cfa, RuleForms(table.rules.register, forms), table.rows
    )
    return replace(table, rows=rows, rules=rules, expressions=expressions)


def outermost_alone(table: UnwindTable) -> UnwindTable:
    """The table with rows whose return address is undefined reduced to that rule."""
    rows, rules = table.rows, table.rules
    is_undefined_ra = (rules.register == table.architecture.return_address) & (rules.kind == RuleKind.UNDEFINED)
    before = starts_of(is_undefined_ra)
    end = rows.first_rule + rows.rule_count
    is_outermost = before[end] > before[rows.first_rule]
    if not is_outermost.any():
        return table
    # All these rules are equal: use the first one.
    undefined_ra = int(np.flatnonzero(is_undefined_ra)[0])
    return replace(
        table,
        rows=replace(
            rows,
            cfa_kind=np.where(is_outermost, np.uint8(CfaKind.NONE), rows.cfa_kind),
            cfa_register=np.where(is_outermost, np.uint16(0), rows.cfa_register),
            cfa_offset=np.where(is_outermost, 0, rows.cfa_offset),
            ra_state=np.where(is_outermost, np.uint8(0), rows.ra_state),
            first_rule=np.where(is_outermost, undefined_ra, rows.first_rule),
            rule_count=np.where(is_outermost, np.uint16(1), rows.rule_count),
        ),
    )
