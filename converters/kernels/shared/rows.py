# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Rows of a table and their register rules, to be read or filled: the columns of converters/table/model.py."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

if not cython.compiled:
    from ..array_types import I64, U8, U16, U64, ConstI64, ConstU8, ConstU16, ConstU64


@cython.final
@cython.cclass
class Rows:
    """The columns of `RowColumns`, but for its `ROW_VALUES`."""

    def __init__(
        self,
        offset: ConstU64,
        cfa_kind: ConstU8,
        cfa_register: ConstU16,
        cfa_offset: ConstI64,
        ra_state: ConstU8,
        first_rule: ConstI64,
        rule_count: ConstU16,
    ) -> None:
        self.offset = offset
        self.cfa_kind = cfa_kind
        self.cfa_register = cfa_register
        self.cfa_offset = cfa_offset
        self.ra_state = ra_state
        self.first_rule = first_rule
        self.rule_count = rule_count


@cython.final
@cython.cclass
class Rules:
    """The columns of `RuleColumns`."""

    def __init__(self, register: ConstU16, kind: ConstU8, value: ConstI64) -> None:
        self.register = register
        self.kind = kind
        self.value = value


@cython.final
@cython.cclass
class NewRows:
    """The columns of `RowColumns`, but for its `ROW_VALUES`, to be filled."""

    def __init__(
        self,
        offset: U64,
        cfa_kind: U8,
        cfa_register: U16,
        cfa_offset: I64,
        ra_state: U8,
        first_rule: I64,
        rule_count: U16,
    ) -> None:
        self.offset = offset
        self.cfa_kind = cfa_kind
        self.cfa_register = cfa_register
        self.cfa_offset = cfa_offset
        self.ra_state = ra_state
        self.first_rule = first_rule
        self.rule_count = rule_count


@cython.final
@cython.cclass
class NewRules:
    """The columns of `RuleColumns`, to be filled."""

    def __init__(self, register: U16, kind: U8, value: I64) -> None:
        self.register = register
        self.kind = kind
        self.value = value
