"""What each format can express, tried: for each feature a table of one function is written and read back.

Strategy: a cell is `yes` if what is read back is the same, `other rule` if there is a different rule in its place,
`lost` if there is none, or the reason of the refusal. So the matrix is what the code does, and no second list of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import unwindkit
from unwindkit import (
    ARCHITECTURES,
    CfaKind,
    CfaRule,
    Function,
    FunctionFlag,
    RaState,
    RegisterRule,
    Row,
    RuleKind,
    UnwindTable,
)

START, SIZE = 0x1000, 0x40
RBX, RBP, RSP, R12, RIP = 3, 6, 7, 12, 16
SAVED_RIP = RegisterRule(RIP, RuleKind.OFFSET, -8)
SP_8, SP_16 = CfaRule(CfaKind.REGISTER, RSP, 8), CfaRule(CfaKind.REGISTER, RSP, 16)
EXPRESSION = bytes.fromhex("770806")  # DW_OP_breg7 (rsp) 8, DW_OP_deref
ARITHMETIC = bytes.fromhex("77083122")  # DW_OP_breg7 (rsp) 8, DW_OP_lit1, DW_OP_plus
X30, SP_OF_AARCH64 = 30, CfaRule(CfaKind.REGISTER, 31, 16)
ABSOLUTE = 0  # DW_EH_PE_absptr


@dataclass(frozen=True, slots=True)
class Feature:
    """A function that has it, and what of a table that is read back has to be equal; by default the rules by PC."""

    name: str
    function: Function
    architecture: str = "x86_64"
    kept: Callable[[UnwindTable], object] = unwindkit.by_pc


def function(*rows: Row, **fields: object) -> Function:
    """A function of x86-64, or with the fields of another one."""
    return replace(Function(START, SIZE, rows, return_column=RIP), **fields)


def with_rule(rule: RegisterRule) -> Function:
    """A function whose second row also has a rule."""
    return function(
        Row(0, SP_8, (SAVED_RIP,)), Row(4, SP_16, tuple(sorted((rule, SAVED_RIP), key=lambda one: one.register)))
    )


def with_cfa(cfa: CfaRule) -> Function:
    """A function whose second row has another CFA."""
    return function(Row(0, SP_8, (SAVED_RIP,)), Row(4, cfa, (SAVED_RIP,)))


def with_ra(*rules: RegisterRule) -> Function:
    """A function with another rule for the return address."""
    return function(Row(0, SP_8, rules))


def signed(state: RaState) -> Function:
    """A function of AArch64 that signs its return address."""
    saved = (RegisterRule(29, RuleKind.OFFSET, -16), RegisterRule(X30, RuleKind.OFFSET, -8))
    rows = (Row(0, SP_OF_AARCH64._replace(value=0)), Row(4, SP_OF_AARCH64, saved, ra_state=state))
    return Function(START, SIZE, rows, return_column=X30)


def rules(table: UnwindTable) -> dict[int, RuleKind]:
    """The kinds of the rules of the last row."""
    return {rule.register: rule.kind for rule in table.function(0).rows[-1].registers}


def first(column: str) -> Callable[[UnwindTable], object]:
    """A column of the first function."""
    return lambda table: getattr(table.function(0), column)


FEATURES = (
    Feature("CFA = SP + offset", with_cfa(CfaRule(CfaKind.REGISTER, RSP, 64))),
    Feature("CFA = FP + offset", with_cfa(CfaRule(CfaKind.REGISTER, RBP, 16))),
    Feature("CFA = another register + offset", with_cfa(CfaRule(CfaKind.REGISTER, R12, 16))),
    Feature("CFA in memory, at a register + offset", with_cfa(CfaRule(CfaKind.EXPRESSION, 0, EXPRESSION))),
    Feature("CFA by any other expression", with_cfa(CfaRule(CfaKind.EXPRESSION, 0, EXPRESSION + b"\x31\x22"))),
    Feature("no CFA", with_cfa(CfaRule(CfaKind.NONE))),
    Feature("return address at its usual place", with_ra(SAVED_RIP)),
    Feature("return address saved elsewhere", with_ra(RegisterRule(RIP, RuleKind.OFFSET, -24))),
    Feature("return address in a register", with_ra(RegisterRule(RIP, RuleKind.REGISTER, R12))),
    Feature("return address undefined (outermost frame)", with_ra(RegisterRule(RIP, RuleKind.UNDEFINED)), kept=rules),
    Feature("FP saved", with_rule(RegisterRule(RBP, RuleKind.OFFSET, -16))),
    Feature("another register saved", with_rule(RegisterRule(RBX, RuleKind.OFFSET, -16))),
    Feature("FP in a register", with_rule(RegisterRule(RBP, RuleKind.REGISTER, R12))),
    Feature("FP is CFA + offset", with_rule(RegisterRule(RBP, RuleKind.VAL_OFFSET, -16))),
    Feature("FP saved at an address by expression", with_rule(RegisterRule(RBP, RuleKind.EXPRESSION, ARITHMETIC))),
    Feature("FP by an expression", with_rule(RegisterRule(RBP, RuleKind.VAL_EXPRESSION, ARITHMETIC))),
    Feature("another register undefined", with_rule(RegisterRule(RBX, RuleKind.UNDEFINED))),
    Feature("another register the same value", with_rule(RegisterRule(RBX, RuleKind.SAME_VALUE))),
    Feature("SP by a rule of its own", with_rule(RegisterRule(RSP, RuleKind.OFFSET, -16))),
    Feature(
        "a repeated block of rows (PLT)",
        function(Row(0, SP_8, (SAVED_RIP,)), Row(11, SP_16, (SAVED_RIP,)), repetition=16),
    ),
    Feature("signal frame", function(Row(0, SP_8, (SAVED_RIP,)), flags=FunctionFlag.SIGNAL_FRAME), kept=first("flags")),
    Feature(
        "personality and LSDA",
        function(
            Row(0, SP_8, (SAVED_RIP,)),
            flags=FunctionFlag.HAS_LSDA, personality_encoding=ABSOLUTE, personality=0x2000, lsda=0x3000,
        ),
        kept=lambda table: (table.function(0).personality, table.function(0).lsda),
    ),
    Feature(
        "size of pushed arguments",
        function(Row(0, SP_8, (SAVED_RIP,)), Row(4, SP_16, (SAVED_RIP,), args_size=8)),
        kept=lambda table: [row.args_size for row in table.function(0).rows],
    ),
    Feature("AArch64: signed return address", signed(RaState.SIGNED), "aarch64"),
    Feature("AArch64: signed with the PC", signed(RaState.SIGNED_WITH_PC), "aarch64"),
    Feature(
        "AArch64: signed with the B key",
        replace(signed(RaState.SIGNED), flags=FunctionFlag.PAUTH_B_KEY), "aarch64", first("flags"),
    ),
)  # fmt: skip

# The text of a column, and both directions.
Round = tuple[Callable[[UnwindTable], tuple[bytes, unwindkit.Refusals]], Callable[[bytes, str], UnwindTable]]
FORMATS: dict[str, Round] = {
    "`.eh_frame`": (unwindkit.to_eh_frame, lambda data, arch: unwindkit.from_eh_frame(data, 0, arch)),
    "`.debug_frame`": (unwindkit.to_debug_frame, unwindkit.from_debug_frame),
    "directives": (unwindkit.to_directives, unwindkit.from_directives),
    "SFrame 2": (lambda table: unwindkit.to_sframe(table, 2), lambda data, _: unwindkit.from_sframe(data)),
    "SFrame 3": (lambda table: unwindkit.to_sframe(table, 3), lambda data, _: unwindkit.from_sframe(data)),
    "STACK CFI": (unwindkit.to_stack_cfi, unwindkit.from_stack_cfi),
}


def outcome(feature: Feature, there: Round) -> str:
    """What becomes of a feature in a format."""
    write, read = there
    table = unwindkit.table_of(ARCHITECTURES[feature.architecture], [feature.function])
    data, refusals = write(table)
    if len(refusals):
        return f"{next(iter(refusals)).reason.name}"
    back = read(data, feature.architecture)
    if feature.kept(back) == feature.kept(table):
        return "yes"
    states = [one.function(0).rows[-1].ra_state for one in (back, table)]
    is_other = feature.kept is unwindkit.by_pc and rules(back).keys() == rules(table).keys() and states[0] is states[1]
    return "other rule" if is_other else "*lost*"


def matrix() -> str:
    """The rows of the table."""
    lines = [f"| | {' | '.join(FORMATS)} |", "|---|" + "---|" * len(FORMATS)]
    lines += [f"| {one.name} | {' | '.join(outcomes(one))} |" for one in FEATURES]
    return "\n".join(lines) + "\n"


def outcomes(feature: Feature) -> Iterator[str]:
    """The cells of a row."""
    return (outcome(feature, there) for there in FORMATS.values())
