"""Any table that directives can express is reproduced by GNU as at every PC, apart from what is refused.

Strategy: one run of as reads several drawn tables, each in its own section. Drawn rows are rounded to the factors of
the architecture's assembler, so that few are refused.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from unwindkit import Function, FunctionFlag, UnwindTable, by_pc
from unwindkit.converters.arch.table import ARCHITECTURES, Architecture
from unwindkit.converters.rules import RuleKind
from unwindkit.converters.table.model import RegisterRule, Row, table_of

from ..conftest import fewer
from ..support.made.assembled_directives import again
from ..support.programs.objects import SUITES
from ..support.tables import tables

NAMES = ("x86_64", "aarch64", "s390x", "x86", "arm", "ppc", "ppc64", "riscv32", "riscv64")
SIZES = st.sampled_from([0, 0, 0, 1, 127, 128, 1 << 40])


def aligned_rule(rule: RegisterRule, unit: int) -> RegisterRule:
    is_offset = rule.kind in (RuleKind.OFFSET, RuleKind.VAL_OFFSET)
    return rule._replace(value=int(rule.value) // unit * unit) if is_offset else rule


def aligned_row(row: Row, architecture: Architecture, args_size: int) -> Row:
    assembler = architecture.assembler
    unit = -assembler.data_alignment_factor
    cfa = row.cfa
    if isinstance(cfa.value, int) and cfa.value < 0:
        cfa = cfa._replace(value=cfa.value // unit * unit)
    offset = row.offset * assembler.code_alignment_factor
    return Row(offset, cfa, tuple(aligned_rule(rule, unit) for rule in row.registers), row.ra_state, args_size)


@st.composite
def sections(draw: DrawFn, architecture: Architecture) -> UnwindTable:
    """Several tables, with the functions of each in a separate section."""
    found: list[Function] = []
    for section, table in enumerate(draw(st.lists(tables(architecture), min_size=1, max_size=3)), 1):
        for function in table:
            # Repetition blocks would not hold that many rows.
            if function.repetition:
                continue
            sizes = draw(SIZES), draw(SIZES)
            rows = tuple(aligned_row(row, architecture, sizes[at % 2]) for at, row in enumerate(function.rows))
            flags = function.flags | draw(st.sampled_from([FunctionFlag(0), FunctionFlag.MEMORY_TAGGING]))
            if not architecture.signs_return_addresses:
                flags &= FunctionFlag.SIGNAL_FRAME
            size = function.size * architecture.assembler.code_alignment_factor
            found.append(replace(function, rows=rows, flags=flags, section=section, size=size))
    return table_of(architecture, found)


@pytest.mark.oracle(*SUITES)
@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@fewer(20)
def test_tables_come_back(name: str, data: st.DataObject, tmp_path: Path) -> None:
    table = data.draw(sections(ARCHITECTURES[name]))
    back, refusals = again(tmp_path, table)
    assert by_pc(back) == by_pc(table, without=refusals)
