"""The rows of a table as `.cfi_*` directives of GNU as: the text that leads from one row to the next.

Strategy: there are few distinct pairs of consecutive rows; each becomes one text, and a run is the texts of its rows.
as moves directives before the first advance into the CIE, and `.cfi_restore` restores the CIE's rule. The opening of
each run is chosen so that the CIE never has a rule that the run removes: then `.cfi_restore` always removes a rule.
"""

from __future__ import annotations

from enum import IntFlag
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.cfi import DW_CFA, ROW_VALUES, WINDOW_REGISTERS, Effect, Instruction
from ...schemas.cfi_sections import build_instructions
from ...schemas.data_classes import dataclass
from ...schemas.wire import leb_block, uleb
from ..arch.table import Architecture, assembler_of, unwind_registers
from ..arrays import distinct_values, group_numbers, ranges, run_starts
from ..refusals import Reason
from ..rules import CfaKind, RaState, RuleKind
from ..table.distinct import row_contents
from ..table.model import CfaRule, RegisterRule, Row, UnwindTable

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Opening(IntFlag):
    """What the start of a run needs."""

    SIMPLE = 1  # .cfi_startproc simple: no initial rules of the architecture, because a row lacks one of them
    BARRIER = 2  # a DW_CFA_nop before the first row, to keep its rules out of the CIE: a later row removes one of them


@dataclass(frozen=True, slots=True, eq=False)
class RowTexts:
    """`texts` are the distinct texts; `of_row` i64 has the index of the text that leads to each row.

    By run: `opening` u8, `Opening`; `reason` u8, the `Reason` why directives cannot express it, or 0.
    """

    texts: list[bytes]
    of_row: NDArray[np.int64]
    opening: NDArray[np.uint8]
    reason: NDArray[np.uint8]


def row_texts(table: UnwindTable) -> RowTexts:
    """The directives of all rows."""
    content, contents = row_contents(table)
    initial, empty = len(contents), len(contents) + 1
    contents += [initial_content(table.architecture), Row(0, CfaRule(CfaKind.NONE))]
    run = group_numbers(np.diff(table.run_rows))
    is_first = run_starts(run)
    opening = _openings(content, contents, run, is_first, len(table.run_rows) - 1)
    begin = np.where(opening[run] & Opening.SIMPLE, empty, initial)
    before = np.where(is_first, begin, np.roll(content, 1))
    steps, of_row = np.unique(before * len(contents) + content, return_inverse=True)
    pairs = [(contents[step // len(contents)], contents[step % len(contents)]) for step in steps.tolist()]
    step_reason = np.array([_reason(*pair, table.architecture) for pair in pairs], np.uint8)
    window = _window(table.architecture)
    texts = [
        b"" if reason else _changes(*pair, window).encode()
        for pair, reason in zip(pairs, step_reason.tolist(), strict=True)
    ]
    return RowTexts(texts, of_row, opening, _run_reasons(table, run, step_reason[of_row]))


def initial_content(architecture: Architecture) -> Row:
    """The rules in force after `.cfi_startproc`."""
    assembler, registers = assembler_of(architecture), unwind_registers(architecture)
    cfa = CfaRule(CfaKind.REGISTER, registers.sp, assembler.cfa_offset)
    if assembler.ra_offset is None:
        return Row(0, cfa)
    return Row(0, cfa, (RegisterRule(registers.ra, RuleKind.OFFSET, assembler.ra_offset),))


def _registers(content: Row) -> set[int]:
    return {rule.register for rule in content.registers}


def _openings(
    content: NDArray[np.int64],
    contents: list[Row],
    run: NDArray[np.int64],
    is_first: NDArray[np.bool_],
    runs: int,
) -> NDArray[np.uint8]:
    """The opening of each run; the architecture's initial content is the last but one of `contents`.

    as reuses the CIE of another function if its instructions are a prefix of this function's. So `.cfi_restore` removes
    a register's rule only if no directive before the first advance or DW_CFA_nop gives it one.
    """
    held = [_registers(one) for one in contents]
    follows = np.flatnonzero(~is_first)
    steps, step = np.unique(content[follows - 1] * len(contents) + content[follows], return_inverse=True)
    lost = [held[one // len(contents)] - held[one % len(contents)] for one in steps.tolist()]
    lost_pairs = _pairs(run[follows], lost, step)
    first = np.flatnonzero(is_first)
    opening = np.zeros(runs, np.uint8)
    for registers, needs in ((held, Opening.BARRIER), ([held[-2]] * len(held), Opening.SIMPLE)):
        pairs = _pairs(run[first], registers, content[first])
        opening[pairs[np.isin(pairs, lost_pairs)] >> _REGISTER_BITS] |= np.uint8(needs)
    lacks = [one.cfa.kind is CfaKind.NONE or not held[-2] <= has for one, has in zip(contents, held, strict=True)]
    opening[run[first[np.array(lacks)[content[first]]]]] |= np.uint8(Opening.SIMPLE)
    return opening


_REGISTER_BITS = 16


def _pairs(run: NDArray[np.int64], registers: list[set[int]], which: NDArray[np.int64]) -> NDArray[np.int64]:
    """The distinct pairs of a run and a register, as one number each; element i pairs run[i] with the registers of set
    which[i]."""
    flat = np.array([register for some in registers for register in sorted(some)], np.int64)
    count = np.array([len(some) for some in registers], np.int64)
    place = ranges((np.cumsum(count) - count)[which], count[which])
    return distinct_values((np.repeat(run, count[which]) << _REGISTER_BITS) + flat[place])


def _run_reasons(table: UnwindTable, run: NDArray[np.int64], step_reason: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The first reason among the rows of each run, or 0; `step_reason` is by row."""
    unit = np.uint64(assembler_of(table.architecture).code_alignment_factor)
    row_reason = np.where(table.rows.offset % unit != 0, np.uint8(Reason.UNALIGNED_ROW), step_reason)
    refused = np.flatnonzero(row_reason)[::-1]
    reason = np.zeros(len(table.run_rows) - 1, np.uint8)
    reason[run[refused]] = row_reason[refused]
    return reason


def _reason(before: Row, row: Row, architecture: Architecture) -> int:
    """The `Reason` why no directives lead from one row to the next, or 0."""
    unit = assembler_of(architecture).data_alignment_factor
    if row.cfa.kind is CfaKind.NONE and before.cfa.kind is not CfaKind.NONE:
        return Reason.NO_CFA
    # Only negative offsets are factored; as silently truncates one that is not a multiple.
    if isinstance(row.cfa.value, int) and row.cfa.value < 0 and row.cfa.value % unit:
        return Reason.CFA_OFFSET
    if row.ra_state is not RaState.PLAIN and not architecture.signs_return_addresses:
        return Reason.NO_DIRECTIVE
    for rule in row.registers:
        if rule.kind in (RuleKind.UNSPECIFIED, RuleKind.ARCHITECTURAL):
            return Reason.NO_DIRECTIVE
        if rule.kind in (RuleKind.OFFSET, RuleKind.VAL_OFFSET) and int(rule.value) % unit:
            return Reason.UNALIGNED_OFFSET
    return 0


_RULES = {
    RuleKind.UNDEFINED: ".cfi_undefined {0}",
    RuleKind.SAME_VALUE: ".cfi_same_value {0}",
    RuleKind.OFFSET: ".cfi_offset {0}, {1}",
    RuleKind.VAL_OFFSET: ".cfi_val_offset {0}, {1}",
    RuleKind.REGISTER: ".cfi_register {0}, {1}",
}
_EXPRESSIONS = {RuleKind.EXPRESSION: DW_CFA.expression, RuleKind.VAL_EXPRESSION: DW_CFA.val_expression}
_SIGNS = {RaState.SIGNED: ".cfi_negate_ra_state", RaState.SIGNED_WITH_PC: ".cfi_negate_ra_state_with_pc"}


def _window(architecture: Architecture) -> frozenset[RegisterRule]:
    """The rules that `.cfi_window_save` sets; empty if the architecture has no register windows."""
    if Effect.WINDOW_SAVE not in dict(architecture.instruction_effects).values():
        return frozenset()
    return frozenset(
        RegisterRule(register, RuleKind.OFFSET, index * architecture.address_size)
        for index, register in enumerate(WINDOW_REGISTERS)
    )


def _changes(before: Row, row: Row, window: frozenset[RegisterRule]) -> str:
    """The directives that lead from one row to the next; `window` are the rules that `.cfi_window_save` sets."""
    had = {rule.register: rule for rule in before.registers}
    # `.cfi_restore` removes the rule, because the CIE has none: see `_openings`.
    directives = {register: f".cfi_restore {register}" for register in had.keys() - _registers(row)}
    changed = {rule for rule in row.registers if had.get(rule.register) != rule}
    saves_window = bool(window & changed) and window <= set(row.registers)
    directives |= {rule.register: _rule(rule) for rule in (changed - window if saves_window else changed)}
    lines = [*_cfa(before.cfa, row.cfa), *[".cfi_window_save"] * saves_window]
    lines += [line for _, line in sorted(directives.items())]
    if row.ra_state is not before.ra_state:
        # The directive that enters a signed state also leaves it.
        lines += [_SIGNS[state] for state in (before.ra_state, row.ra_state) if state is not RaState.PLAIN]
    for opcode, name in ROW_VALUES.items():
        if getattr(row, name) != getattr(before, name):
            lines.append(escape(Instruction(opcode, (uleb(getattr(row, name)),))))
    return "".join(f"\t{line}\n" for line in lines)


def _cfa(before: CfaRule, cfa: CfaRule) -> list[str]:
    if cfa == before:
        return []
    if isinstance(cfa.value, bytes):
        return [escape(Instruction(DW_CFA.def_cfa_expression, (leb_block(cfa.value),)))]
    if before.kind is cfa.kind and before.register == cfa.register:
        return [f".cfi_def_cfa_offset {cfa.value}"]
    if before.kind is cfa.kind and before.value == cfa.value:
        return [f".cfi_def_cfa_register {cfa.register}"]
    return [f".cfi_def_cfa {cfa.register}, {cfa.value}"]


def _rule(rule: RegisterRule) -> str:
    if isinstance(rule.value, bytes):
        return escape(Instruction(_EXPRESSIONS[rule.kind], (uleb(rule.register), leb_block(rule.value))))
    return _RULES[rule.kind].format(rule.register, rule.value)


def escape(instruction: Instruction) -> str:
    """The directive that encodes a call frame instruction byte by byte."""
    return f".cfi_escape {', '.join(map(hex, build_instructions((instruction,))))}"
