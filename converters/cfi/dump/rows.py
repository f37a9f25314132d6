"""Rows of call frame information as GNU readelf 2.47 prints them (`-wF`): the columns of a run, the text of a row.

Strategy: the row kernel makes all rows, also empty ones. A run has a column for each register that its instructions or
those of its CIE name, whatever the rule. Rows with equal rules and columns are one content, whose text is made once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ....schemas.cfi import DW_CFA, NO_EFFECTS, Effect
from ....schemas.data_classes import dataclass
from ....schemas.section import ParseError
from ...arch.registers import register_name, register_text
from ...arrays import distinct_values, group_numbers, ranges, run_starts, starts_of, starts_of_ends
from ...bulk_text import Pool
from ...distinct import intern
from ...rules import MAX_LIVE_RULES, CfaKind, RuleKind
from ...table.model import RowColumns, RuleColumns
from ..interpreter import RULE_KINDS, RowBuilder
from .entries import DecodedEntries, Instructions

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Keys are a row or a run, shifted by this, and a register of 16 bits.
_REGISTER_BITS = 16


@dataclass(frozen=True, slots=True, eq=False)
class EntryRows:
    """The rows of each run, and the columns that it shows.

    Run r has the rows first_row[r] up to first_row[r + 1]; `shows_rows` is whether readelf prints them (not if all
    instructions are DW_CFA_nop); its columns are registers[first_column[r]:first_column[r + 1]], ascending. `content`
    numbers the distinct contents of rows; content c is that of row `row_of[c]`, of run `run_of[c]`.
    """

    rows: RowColumns
    rules: RuleColumns
    expressions: tuple[bytes, ...]
    first_row: NDArray[np.int64]
    shows_rows: NDArray[np.bool_]
    first_column: NDArray[np.int64]
    registers: NDArray[np.uint16]
    column_set: NDArray[np.int64]
    run_of_set: NDArray[np.int64]
    content: NDArray[np.int64]
    row_of: NDArray[np.int64]
    run_of: NDArray[np.int64]


def interpret_entries(entries: DecodedEntries[Instructions]) -> EntryRows:
    """Interpret the runs of a section. Raises ParseError."""
    # readelf shows neither signed return addresses nor saved register windows.
    builder = RowBuilder(entries.section, entries.layout, NO_EFFECTS, keeps_empty=True)
    last_row, _ = builder.interpret(entries.streams)
    rows, rules = builder.rows(), builder.rules()
    first_row = starts_of_ends(last_row)
    decoded = entries.decoded
    owner = group_numbers(np.diff(decoded.first_of))
    does_something = np.bincount(owner[decoded.opcode != DW_CFA.nop], minlength=len(last_row)) > 0
    first_column, registers = _columns(entries, owner)
    set_of_run, run_of_set = _column_sets(entries, first_column, registers)
    run_of_row = group_numbers(np.diff(first_row))
    content, row_of = _contents(rows, rules, set_of_run[run_of_row])
    return EntryRows(
        rows=rows,
        rules=rules,
        expressions=builder.expressions(),
        first_row=first_row,
        shows_rows=does_something,
        first_column=first_column,
        registers=registers,
        column_set=set_of_run,
        run_of_set=run_of_set,
        content=content,
        row_of=row_of,
        run_of=run_of_row[row_of],
    )


def _columns(
    entries: DecodedEntries[Instructions], owner: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.uint16]]:
    """Where the columns of each run start, and their registers: those that the run or its CIE names."""
    decoded, runs = entries.decoded, len(entries.streams.start)
    # Every instruction that sets or removes a register's rule gives it a column.
    named = decoded.has_effect(*RULE_KINDS, Effect.RESTORE)
    keys = distinct_values(owner[named] << _REGISTER_BITS | decoded.first[named])
    cies = len(entries.cies)
    of_fdes = np.flatnonzero(entries.streams.cie < cies)
    run_of_cie = entries.run[~entries.is_fde & ~entries.is_terminator]
    begin, end = (np.searchsorted(keys, run_of_cie + side << _REGISTER_BITS) for side in (0, 1))
    cie = entries.streams.cie[of_fdes]
    inherited = keys[ranges(begin[cie], (end - begin)[cie])] & ((1 << _REGISTER_BITS) - 1)
    inherited |= np.repeat(of_fdes, (end - begin)[cie]) << _REGISTER_BITS
    keys = distinct_values(np.concatenate([keys, inherited]))
    first = np.searchsorted(keys, np.arange(runs + 1) << _REGISTER_BITS)
    many = np.flatnonzero(np.diff(first) > MAX_LIVE_RULES)
    if len(many):
        reason = f"more than {MAX_LIVE_RULES} registers are named"
        raise ParseError(entries.section, int(entries.streams.start[many[0]]), "instructions", reason)
    return first, (keys & ((1 << _REGISTER_BITS) - 1)).astype(np.uint16)


def _column_sets(
    entries: DecodedEntries[Instructions], first: NDArray[np.int64], registers: NDArray[np.uint16]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number runs: runs with equal headings get the same number. Returns also a run of each number."""
    return_column = np.array([int(cie.return_address_register) for cie in entries.cies], np.int64)
    cie = entries.streams.cie % max(1, len(entries.cies))
    kind = return_column[cie] << 8 | entries.layout.address_size[cie]
    number, run = intern(registers.view(np.uint8), 2 * first[:-1], 2 * first[1:], kind)
    return number.astype(np.int64), run


def _packed(*columns: NDArray[Any]) -> NDArray[np.uint8]:
    """The bytes of columns side by side: one line per row."""
    return np.concatenate([column.view(np.uint8).reshape(len(column), column.itemsize) for column in columns], axis=1)


def _contents(
    rows: RowColumns, rules: RuleColumns, column_set: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number rows: rows with equal rules and columns get the same number. Returns also a row of each number."""
    packed = _packed(rules.register, rules.kind, rules.value)
    # Consecutive rows with unchanged rules have the same slice, which is numbered once.
    is_new = run_starts(rows.first_rule, rows.rule_count)
    begin = rows.first_rule[is_new] * packed.shape[1]
    end = begin + rows.rule_count[is_new].astype(np.int64) * packed.shape[1]
    slices, _ = intern(packed.reshape(-1), begin, end, np.zeros(len(begin), np.int64))
    keys = (slices[np.cumsum(is_new) - 1], column_set, rows.cfa_kind, rows.cfa_register, rows.cfa_offset)
    return _numbered(_packed(*keys))


def _numbered(lines: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number lines of one length: equal lines get the same number. Returns also a line of each number."""
    begin = lines.shape[1] * np.arange(len(lines))
    number, first = intern(lines.reshape(-1), begin, begin + lines.shape[1], np.zeros(len(lines), np.int64))
    return number.astype(np.int64), first


def heading_texts(
    entries: DecodedEntries[Instructions], found: EntryRows, machine: str, sets: NDArray[np.int64]
) -> list[bytes]:
    """The heading lines for these sets of columns."""
    texts = []
    for run in found.run_of_set[sets].tolist():
        cie = int(entries.streams.cie[run]) % len(entries.cies)
        return_column = int(entries.cies[cie].return_address_register)
        registers = found.registers[found.first_column[run] : found.first_column[run + 1]].tolist()
        names = ("ra" if one == return_column else register_name(machine, one) for one in registers)
        width = 2 * int(entries.layout.address_size[cie])
        texts.append(f"{'   LOC':<{width}} CFA      {''.join(f'{name:<5} ' for name in names)}\n".encode())
    return texts


def row_texts(found: EntryRows, machine: str, contents: NDArray[np.int64]) -> tuple[bytes, NDArray[np.int64]]:
    """The text after the PC, for these contents: the concatenated texts, and their lengths."""
    rows, rules, count = found.rows, found.rules, len(contents)
    row, run = found.row_of[contents], found.run_of[contents]
    cfas = (column[row].tolist() for column in (rows.cfa_kind, rows.cfa_register, rows.cfa_offset))
    pool = Pool([b"\n", b"u     "])
    cfa = pool.add_list([_cfa_text(machine, *cfa) for cfa in zip(*cfas, strict=True)])
    # Find the column of each rule: both ascend by content and register.
    rule_count = rows.rule_count[row].astype(np.int64)
    rule = ranges(rows.first_rule[row], rule_count)
    rule_key = group_numbers(rule_count) << _REGISTER_BITS | rules.register[rule]
    column_count = np.diff(found.first_column)[run]
    column = found.registers[ranges(found.first_column[run], column_count)]
    column_key = group_numbers(column_count) << _REGISTER_BITS | column
    cells, number = _cell_texts(rules, rule, machine)
    cell = np.ones(len(column), np.int64)
    cell[np.searchsorted(column_key, rule_key)] = pool.add_list(cells) + number
    # The pieces of a line: the CFA, one cell per column, the line feed.
    begin = starts_of(column_count + 2)[:-1]
    pieces = np.zeros(len(cell) + 2 * count, np.int64)
    pieces[begin] = cfa + np.arange(count)
    pieces[ranges(begin + 1, column_count)] = cell
    lengths = np.add.reduceat(pool.lengths()[pieces], begin) if count else np.zeros(0, np.int64)
    return pool.join(pieces), lengths


def _cell_texts(rules: RuleColumns, rule: NDArray[np.int64], machine: str) -> tuple[list[bytes], NDArray[np.int64]]:
    """The distinct texts of these rules, and the number of each rule's text."""
    kind, value = rules.kind[rule], rules.value[rule]
    number, first = _numbered(_packed(kind, value))
    pairs = zip(kind[first].tolist(), value[first].tolist(), strict=True)
    return [f"{_cell_text(*pair, machine):<5} ".encode() for pair in pairs], number


def _cell_text(kind: int, value: int, machine: str) -> str:
    match kind:
        case RuleKind.SAME_VALUE:
            return "s"
        case RuleKind.OFFSET:
            return f"c{value:+}"
        case RuleKind.VAL_OFFSET:
            return f"v{value:+}"
        case RuleKind.REGISTER:
            return register_text(machine, value)
        case RuleKind.EXPRESSION:
            return "exp"
        case RuleKind.VAL_EXPRESSION:
            return "vexp"
        case _:
            return "u"


def _cfa_text(machine: str, kind: int, register: int, offset: int) -> bytes:
    # A CFA without a rule is shown as register 0, as in readelf.
    text = "exp" if kind == CfaKind.EXPRESSION else f"{register_name(machine, register)}{offset:+}"
    return f" {text:<8} ".encode()
