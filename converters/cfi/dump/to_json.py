"""Call frame information as JSON values: CIEs and FDEs with the fields of the specification.

Strategy: the same columns as for `cfi_text`; each distinct row and instruction is formatted once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ....schemas.cfi import Dialect
from ....schemas.section import Section
from ...arch.registers import register_name
from ...dwarf.expression_text import operation_texts
from ...rules import CfaKind, RuleKind
from ...table.lookup import ChosenPcs
from .entries import DecodedEntries, Instructions, decode_entries, entries_at
from .instructions import MOVES, distinct_instructions, plain_instructions
from .rows import EntryRows, interpret_entries

Plain = dict[str, Any]


def cfi_json(
    section: Section, dialect: Dialect, machine: str, interpreted: bool, at: ChosenPcs | None = None
) -> tuple[Plain, Iterator[Plain]]:
    """The section's fields, and an iterator over its entries: CIEs and FDEs with their instructions or their rows.

    Addresses are absolute; `offset` and `cie` are relative to the section's start. `machine`, EM_..., is for register
    names. Raises ParseError.
    """
    entries = decode_entries(section, dialect)
    shown = entries_at(entries, dialect, at)
    shown = shown[~entries.is_terminator[shown]]
    parts = (_with_rows if interpreted else _with_instructions)(entries, machine, shown.tolist())
    return {"section": section.name, "address": section.address}, parts


def _with_instructions(entries: DecodedEntries[Instructions], machine: str, shown: list[int]) -> Iterator[Plain]:
    """The entries with their instructions; `location` is the address after an advance."""
    number, first = distinct_instructions(entries)
    plain = plain_instructions(entries, machine, first)
    moves = entries.decoded.has_effect(*MOVES)
    for entry in shown:
        run, start, mask = entries.run[entry], int(entries.start[entry]), _address_mask(entries, entry)
        span = slice(entries.decoded.first_of[run], entries.decoded.first_of[run + 1])
        columns = (number[span].tolist(), moves[span].tolist(), entries.decoded.pc[span].tolist())
        yield _entry(entries, entry) | {
            "instructions": [
                plain[one] | {"location": start + pc & mask} if is_move else plain[one]
                for one, is_move, pc in zip(*columns, strict=True)
            ]
        }


def _with_rows(entries: DecodedEntries[Instructions], machine: str, shown: list[int]) -> Iterator[Plain]:
    """The entries with their rows, also those of entries without instructions, for which readelf prints none."""
    found = interpret_entries(entries)
    plain = [_plain_row(entries, found, content, machine) for content in range(len(found.row_of))]
    for entry in shown:
        run, start, mask = entries.run[entry], int(entries.start[entry]), _address_mask(entries, entry)
        span = slice(found.first_row[run], found.first_row[run + 1])
        rows = zip(found.rows.offset[span].tolist(), found.content[span].tolist(), strict=True)
        yield _entry(entries, entry) | {"rows": [{"pc": start + pc & mask, **plain[one]} for pc, one in rows]}


def _address_mask(entries: DecodedEntries[Instructions], entry: int) -> int:
    return (1 << 8 * int(entries.layout.address_size[entries.cie[entry]])) - 1


def _entry(entries: DecodedEntries[Instructions], entry: int) -> Plain:
    """The fields of a CIE or an FDE, without the instructions."""
    cie = entries.cies[entries.cie[entry]]
    data = bytes(entries.section.data[int(entries.data[entry]) : int(entries.instructions[entry])]).hex()
    place = {"offset": int(entries.offset[entry]), "length": int(entries.length(np.array([entry]))[0])}
    if entries.is_fde[entry]:
        return {
            "kind": "FDE",
            **place,
            "cie": int(entries.cie_offset[entries.cie[entry]]),
            **({"segment_selector": int(entries.segment[entry])} if cie.segment_selector_size else {}),
            "initial_location": int(entries.start[entry]),
            "address_range": int(entries.size[entry]),
            "augmentation_data": data,
        }
    sizes = {"address_size": cie.address_size, "segment_selector_size": cie.segment_selector_size}
    return {
        "kind": "CIE",
        **place,
        "version": cie.version,
        "augmentation": cie.augmentation.decode("latin-1"),
        **(sizes if cie.address_size is not None else {}),
        "code_alignment_factor": int(cie.code_alignment_factor),
        "data_alignment_factor": int(cie.data_alignment_factor),
        "return_address_register": int(cie.return_address_register),
        "augmentation_data": data,
    }


def _plain_row(entries: DecodedEntries[Instructions], found: EntryRows, content: int, machine: str) -> Plain:
    """The rules of a row; null for a register without a rule."""
    rows, rules, row = found.rows, found.rules, found.row_of[content]
    run = found.run_of[content]
    columns = found.registers[found.first_column[run] : found.first_column[run + 1]].tolist()
    registers: Plain = {register_name(machine, number): None for number in columns}
    address_size = int(entries.layout.address_size[entries.streams.cie[run]])

    def operations(index: int) -> list[str]:
        data, order = found.expressions[index], entries.section.byte_order
        return operation_texts(Section.of(entries.section.name, data, 0, order, address_size), machine)

    for rule in range(rows.first_rule[row], rows.first_rule[row] + rows.rule_count[row]):
        kind, value = RuleKind(rules.kind[rule]), int(rules.value[rule])
        text: Plain | str = kind.name.lower()
        if kind in (RuleKind.EXPRESSION, RuleKind.VAL_EXPRESSION):
            text = {kind.name.lower(): operations(value)}
        elif kind is RuleKind.REGISTER:
            text = {kind.name.lower(): register_name(machine, value)}
        elif kind in (RuleKind.OFFSET, RuleKind.VAL_OFFSET):
            text = {kind.name.lower(): value}
        registers[register_name(machine, int(rules.register[rule]))] = text
    match CfaKind(rows.cfa_kind[row]):
        case CfaKind.REGISTER:
            cfa: Plain | None = {
                "register": register_name(machine, int(rows.cfa_register[row])),
                "offset": int(rows.cfa_offset[row]),
            }
        case CfaKind.EXPRESSION:
            cfa = {"expression": operations(int(rows.cfa_offset[row]))}
        case _:
            cfa = None
    return {"cfa": cfa, "registers": registers}
