"""Results of look-ups at many PCs, as columns: in a section's bytes and in a table, so that they can be compared.

Strategy: both are in SFrame's terms; the row of a table is translated rule by rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from unwindkit import FresAt, RowsAt, UnwindTable
from unwindkit.converters.rules import CfaKind, RaState, RuleKind

I64 = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

FIELDS = ("start", "info", "base", "cfa", "ra", "fp", "signed")
NOT_SAVED = 1 << 40  # an RA or FP that no word encodes: outside the range of 32-bit words


@dataclass(frozen=True, slots=True)
class Answers:
    """One element per PC: whether an FRE was found, and its FIELDS, or zeros."""

    found: Flags
    fields: dict[str, I64]

    def differences(self, other: Answers, pcs: Sequence[int], where: Flags | bool = True) -> list[str]:
        """The first PC at which each column differs, among those `where` they are compared."""
        columns = [("found", self.found, other.found), *((n, self.fields[n], other.fields[n]) for n in FIELDS)]
        return [
            f"{name} at {pcs[at[0]]:#x} and {len(at) - 1} others: {ours[at[0]]} against {theirs[at[0]]}"
            for name, ours, theirs in columns
            if len(at := np.flatnonzero((ours != theirs) & where))
        ]


def answers_of_fres(at: FresAt) -> Answers:
    """The result of `find_fres`."""
    fres, abi = at.fres, at.columns.architecture.sframe
    assert abi is not None
    ra, fp = (np.where(has, words, NOT_SAVED) for words, has in fres.slots(abi.fixed_ra_offset or 0, 0))
    columns = (
        *(fres.start, fres.info, fres.bits("fre_cfa_base_reg_id"), fres.cfa_offsets(abi)),
        *(ra, fp, fres.bits("fre_mangled_ra_p")),
    )
    fields = {
        name: np.where(at.found, column, 0).astype(np.int64) for name, column in zip(FIELDS, columns, strict=True)
    }
    return Answers(at.found, fields)


def answers_of_rows(table: UnwindTable, at: RowsAt, info: I64) -> Answers:
    """The result of `find_rows`; `info`, which a row lacks, is copied."""
    rows, row = np.unique(at.row, return_inverse=True)
    said = np.array([_said(table, number) for number in rows.tolist()], np.int64)[row.reshape(-1)]
    fields = dict(zip(("found", "start", *FIELDS[2:]), said.T, strict=True))
    return Answers(fields.pop("found") == 1, {"info": info} | fields)


def _said(table: UnwindTable, number: int) -> tuple[int, ...]:
    """Whether there is a row, and its FIELDS except `info`."""
    row = table.row(number) if number >= 0 else None
    if row is None or row.cfa.kind is CfaKind.NONE:
        return (0,) * len(FIELDS)
    architecture = table.architecture
    words: dict[int, Any] = {}
    # No FRE has a word for SP: on s390x it is the CFA - 160.
    sp_rules = [(15, RuleKind.VAL_OFFSET, -160)] if architecture.name == "s390x" else []
    assert [rule for rule in row.registers if rule.register == architecture.stack_pointer] == sp_rules
    for rule in row.registers[: len(row.registers) - len(sp_rules)]:
        assert rule.kind in (RuleKind.OFFSET, RuleKind.REGISTER)
        # A register in a slot of s390x: its number and a mark.
        words[rule.register] = int(rule.value) << 1 | 1 if rule.kind is RuleKind.REGISTER else rule.value
    ra, fp = (words.pop(n, NOT_SAVED) for n in (architecture.return_address, architecture.frame_pointer))
    assert not words
    base = {architecture.frame_pointer: 0, architecture.stack_pointer: 1}[row.cfa.register]
    return 1, row.offset, base, int(row.cfa.value), ra, fp, row.ra_state is RaState.SIGNED
