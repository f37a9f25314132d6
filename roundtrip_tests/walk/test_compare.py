"""Two tables at every PC: each kind of change is seen, what a format cannot express is not one, and no other is missed.

Strategy: tables of a few rows written by hand, compared with a changed copy; expected ranges are worked out by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from unwindkit import from_sframe, from_stack_cfi, to_sframe, to_stack_cfi
from unwindkit.converters.arch.table import ARCHITECTURES, breakpad_names
from unwindkit.converters.refusals import Reason
from unwindkit.converters.rules import CfaKind, RaState, RuleKind
from unwindkit.converters.table.model import (
    CfaRule,
    Function,
    FunctionFlag,
    RegisterRule,
    Row,
    UnwindTable,
    table_of,
)
from unwindkit.converters.walk.compare import (
    EVERYTHING,
    ComparedRanges,
    Relation,
    common_scope,
    compare,
    sframe_scope,
    stack_cfi_scope,
)
from unwindkit.testing import unwind_tables

from ..support.handmade import NO_CFA, at, octets, on, row, sp

X86_64, AARCH64, S390X = (ARCHITECTURES[name] for name in ("x86_64", "aarch64", "s390x"))
RA = at(16, -8)
SFRAME_V2, SFRAME_V3 = (sframe_scope(X86_64, has_signal_frames) for has_signal_frames in (False, True))
BREAKPAD = stack_cfi_scope(breakpad_names(X86_64), X86_64)
UNDEFINED_RA = RegisterRule(16, RuleKind.UNDEFINED)
# r12 + 8, and the word at SP + 16 (DW_OP_breg12, DW_OP_breg7, DW_OP_deref).
R12_PLUS_8, AT_SP_PLUS_16 = octets("7c 08"), octets("77 10 06")


def function(*rows: Row, start: int = 0x1000, size: int = 0x20, column: int = 16, **others: int) -> Function:
    return Function(start, size, rows, return_column=column, **others)


def table(*functions: Function) -> UnwindTable:
    return table_of(X86_64, functions)


PLAIN = function(row(0, sp(8), RA), row(1, sp(16), at(6, -16), RA), row(0x10, on(6, 16), at(6, -16), RA))


def listed(ranges: ComparedRanges) -> list[tuple[int, int, Relation]]:
    columns = (ranges.start.tolist(), ranges.end.tolist(), ranges.relation.tolist())
    return [(start, end, Relation(relation)) for start, end, relation in zip(*columns, strict=True)]


def test_a_table_equals_itself_and_its_pieces() -> None:
    """Splitting a function, or merging two with equal rows, changes no rule."""
    first = function(row(0, sp(8), RA), row(1, sp(16), at(6, -16), RA), size=0x10)
    second = function(row(0, on(6, 16), at(6, -16), RA), start=0x1010, size=0x10)
    found = compare(table(PLAIN), table(second, first))
    assert found.is_equal
    assert [one[2] for one in listed(found.ranges)] == [Relation.EQUAL] * len(found.ranges)
    assert (int(found.ranges.start[0]), int(found.ranges.end[-1])) == (0x1000, 0x1020)


def test_each_relation_with_its_range() -> None:
    one = table(PLAIN, function(row(0, sp(8), RA), start=0x2000, size=8))
    other = table(
        function(row(0, sp(8), RA), row(4, sp(16), at(6, -16), RA), row(0x10, on(6, 24), at(6, -16), RA)),
        function(row(0, sp(8), RA), start=0x1FF0, size=0x14),
    )
    found = compare(one, other)
    assert not found.is_equal
    # Only borders of functions cut ranges with equal rules: 0x2000 and 0x2004.
    assert listed(found.ranges) == [
        (0x1000, 0x1001, Relation.EQUAL),
        (0x1001, 0x1004, Relation.DIFFERENT),
        (0x1004, 0x1010, Relation.EQUAL),
        (0x1010, 0x1020, Relation.DIFFERENT),
        (0x1FF0, 0x2000, Relation.ONLY_SECOND),
        (0x2000, 0x2004, Relation.EQUAL),
        (0x2004, 0x2008, Relation.ONLY_FIRST),
    ]
    different = found.select(Relation.DIFFERENT)
    assert found.first_sets[different.first[1]].row.cfa == on(6, 16)
    assert found.second_sets[different.second[1]].row.cfa == on(6, 24)


CHANGES: dict[str, Callable[[Row], Row]] = {
    "CFA offset": lambda one: replace(one, cfa=sp(24)),
    "CFA register": lambda one: replace(one, cfa=on(6, 16)),
    "RA offset": lambda one: replace(one, registers=(at(6, -16), at(16, -16))),
    "FP offset": lambda one: replace(one, registers=(at(6, -24), RA)),
    "FP without a rule": lambda one: replace(one, registers=(RA,)),
    "RA without a rule": lambda one: replace(one, registers=(at(6, -16),)),
    "FP is a value": lambda one: replace(one, registers=(RegisterRule(6, RuleKind.VAL_OFFSET, -16), RA)),
    "FP in a register": lambda one: replace(one, registers=(RegisterRule(6, RuleKind.REGISTER, 3), RA)),
    "FP by an expression": lambda one: replace(one, registers=(RegisterRule(6, RuleKind.EXPRESSION, R12_PLUS_8), RA)),
    "SP by a rule": lambda one: replace(one, registers=(at(6, -16), RegisterRule(7, RuleKind.VAL_OFFSET, 8), RA)),
    "CFA by an expression": lambda one: replace(one, cfa=CfaRule(CfaKind.EXPRESSION, 0, AT_SP_PLUS_16)),
    "outermost": lambda one: replace(one, registers=(at(6, -16), UNDEFINED_RA)),
}
AT_1 = PLAIN.rows[1]


@pytest.mark.parametrize("scope", [EVERYTHING, SFRAME_V2, SFRAME_V3, BREAKPAD, common_scope(SFRAME_V2, BREAKPAD)])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_rule_is_a_difference(change: Callable[[Row], Row], scope: object) -> None:
    other = table(replace(PLAIN, rows=(PLAIN.rows[0], change(AT_1), PLAIN.rows[2])))
    for pair in ((table(PLAIN), other), (other, table(PLAIN))):
        found = compare(*pair, scope)
        assert listed(found.select(Relation.DIFFERENT)) == [(0x1001, 0x1010, Relation.DIFFERENT)]


def test_registers_that_a_format_lacks_are_compared_only_by_others() -> None:
    """SFrame has no rule of rbx; STACK CFI has. Neither has the arguments on the stack."""
    other = table(replace(PLAIN, rows=(PLAIN.rows[0], replace(AT_1, registers=(at(3, -24), at(6, -16), RA)))))
    one = table(replace(PLAIN, rows=PLAIN.rows[:2]))
    assert compare(one, other, SFRAME_V2).is_equal
    assert not compare(one, other, BREAKPAD).is_equal
    assert not compare(one, other).is_equal
    arguments = table(replace(PLAIN, rows=(PLAIN.rows[0], replace(AT_1, args_size=16))))
    assert compare(one, arguments, BREAKPAD).is_equal
    assert not compare(one, arguments).is_equal


def test_equal_callers_by_other_rules_are_equal() -> None:
    """An expression that gives the address of the slot; "same value" of a register that calls preserve."""
    slot = octets("77 00")  # DW_OP_breg7 0: SP, which is CFA - 16
    other = table(replace(PLAIN, rows=(
        replace(PLAIN.rows[0], registers=(RegisterRule(6, RuleKind.SAME_VALUE), RA)),
        replace(AT_1, registers=(RegisterRule(6, RuleKind.EXPRESSION, slot), RA)),
        PLAIN.rows[2],
    )))  # fmt: skip
    assert compare(table(PLAIN), other, SFRAME_V3).is_equal
    assert compare(table(PLAIN), other, BREAKPAD).is_equal
    # As rules, they differ.
    assert len(compare(table(PLAIN), other).select(Relation.DIFFERENT)) == 2


@pytest.mark.parametrize("offset", [8, 16])
def test_expressions_with_cases_are_tried_in_several_states(offset: int) -> None:
    """SP + 8 + 8 * (bit 4 of r12) is SP + 8 in half of all states, and SP + 16 in the others."""
    in_half = octets("77 08 7c 00 34 25 31 1a 33 24 22")
    one, other = (table(function(row(0, cfa, RA))) for cfa in (sp(offset), CfaRule(CfaKind.EXPRESSION, 0, in_half)))
    assert not compare(one, other, SFRAME_V3).is_equal


def test_signed_return_addresses() -> None:
    signed, plain = (
        table_of(AARCH64, [function(row(0, on(31, 16), at(30, -8), ra_state=state), column=30)])
        for state in (RaState.SIGNED, RaState.PLAIN)
    )
    assert not compare(signed, plain).is_equal
    assert not compare(signed, plain, sframe_scope(AARCH64, has_signal_frames=True)).is_equal
    # Breakpad strips every return address.
    assert compare(signed, plain, stack_cfi_scope(breakpad_names(AARCH64), AARCH64)).is_equal


def test_signal_frames_are_known_from_version_3_on() -> None:
    signal = table(replace(PLAIN, flags=FunctionFlag.SIGNAL_FRAME))
    assert compare(table(PLAIN), signal, SFRAME_V2).is_equal
    assert not compare(table(PLAIN), signal, SFRAME_V3).is_equal
    ended = replace(PLAIN, rows=(row(0, sp(8), UNDEFINED_RA),))
    assert not compare(table(ended), table(replace(ended, flags=FunctionFlag.SIGNAL_FRAME)), SFRAME_V3).is_equal
    assert not compare(table(PLAIN), signal).is_equal


def test_a_saved_stack_pointer_is_the_abi_s_in_sframe() -> None:
    """s390x saves SP at CFA - 40; SFrame states that it is the CFA - 160. Another value is a difference."""
    saved, stated, wrong = (
        table_of(S390X, [function(row(0, on(15, 160), at(14, -48), rule), column=14)])
        for rule in (at(15, -40), RegisterRule(15, RuleKind.VAL_OFFSET, -160), RegisterRule(15, RuleKind.VAL_OFFSET, 0))
    )
    scope = sframe_scope(S390X, has_signal_frames=False)
    assert compare(saved, stated, scope).is_equal
    assert not compare(saved, wrong, scope).is_equal
    assert not compare(saved, stated, stack_cfi_scope(breakpad_names(S390X), S390X)).is_equal


def test_handlers_are_compared_where_both_formats_have_them() -> None:
    other = table(replace(PLAIN, personality=0x9000, personality_encoding=0, lsda=0x8000, flags=FunctionFlag.HAS_LSDA))
    assert listed(compare(table(PLAIN), other).ranges)[0][2] is Relation.DIFFERENT
    assert compare(table(PLAIN), other, SFRAME_V3).is_equal
    moved = table(replace(PLAIN, personality=0x9000, personality_encoding=0, lsda=0x8008, flags=FunctionFlag.HAS_LSDA))
    assert not compare(other, moved).is_equal


def test_sections_of_a_relocatable_file_are_kept_separate() -> None:
    one = table(PLAIN, replace(PLAIN, section=2))
    other = table(PLAIN, replace(PLAIN, section=3))
    found = compare(one, other)
    assert [found.select(relation).section.tolist() for relation in (Relation.ONLY_FIRST, Relation.ONLY_SECOND)] == [
        [2] * 3,
        [3] * 3,
    ]


def test_ranges_of_one_table_have_the_reason() -> None:
    """The middle row has a CFA that version 2 cannot encode; the first function is not in the section at all."""
    rows = (row(0, sp(8), RA), row(4, CfaRule(CfaKind.EXPRESSION, 0, AT_SP_PLUS_16), RA), row(8, sp(8), RA))
    one = table(PLAIN, function(*rows, start=0x2000))
    data, refusals = to_sframe(one)
    second = from_sframe(data)
    found = compare(one, second.select(np.flatnonzero(second.functions.start != 0x1000)), SFRAME_V2, refusals)
    only = found.select(Relation.ONLY_FIRST)
    assert [*zip(only.start.tolist(), only.end.tolist(), only.reason.tolist(), strict=True)] == [
        (0x1000, 0x1001, 0),
        (0x1001, 0x1010, 0),
        (0x1010, 0x1020, 0),
        (0x2004, 0x2008, Reason.CFA_EXPRESSION),
    ]
    assert not found.is_equal
    assert compare(one, second, SFRAME_V2, refusals).is_equal
    assert not compare(one, second, SFRAME_V2).is_equal
    assert compare(second, one, SFRAME_V2, None, refusals).is_equal


def test_rows_without_a_cfa_are_no_rows() -> None:
    other = table(replace(PLAIN, rows=(replace(PLAIN.rows[0], cfa=NO_CFA, registers=()), *PLAIN.rows[1:])))
    assert listed(compare(table(PLAIN), other).ranges)[0] == (0x1000, 0x1001, Relation.ONLY_FIRST)


def test_empty_tables() -> None:
    assert compare(table(), table()).is_equal
    assert [one[2] for one in listed(compare(table(), table(PLAIN)).ranges)] == [Relation.ONLY_SECOND] * 3


@given(drawn=unwind_tables())
def test_conversions_of_any_table_are_equal_but_for_refusals(drawn: UnwindTable) -> None:
    """Law 3 by evaluation: the callers that SFrame and STACK CFI recover are those of the table."""
    for version, scope in ((2, SFRAME_V2), (3, SFRAME_V3)):
        data, refusals = to_sframe(drawn, version=version)
        assert compare(drawn, from_sframe(data), scope, refusals).is_equal
    text, refused = to_stack_cfi(drawn)
    back = from_stack_cfi(text, drawn.architecture.name, drawn.load_address)
    assert not len(compare(drawn, back, BREAKPAD, refused).select(Relation.ONLY_SECOND))
