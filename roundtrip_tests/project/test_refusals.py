"""Law 3 for refusals: a conversion refuses exactly the rows that its target cannot express, and says why.

Strategy: what SFrame, STACK CFI and call frame information can express is stated in the tests (support/judges), from
their documents. First every rule alone with every offset near a limit, then tables of several, drawn.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unwindkit import Reason, Refusals, UnwindTable, from_sframe, to_debug_frame, to_eh_frame, to_sframe, to_stack_cfi
from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.converters.rules import RuleKind
from unwindkit.converters.table.model import Row, table_of

from ..conftest import engine_in_use, fewer
from ..support.judges.frame_limits import Verdict, instruction_verdict, stack_cfi_causes
from ..support.judges.refusal_law import faults
from ..support.judges.sframe_limits import E_MACHINES, Format
from ..support.made.limit_rows import functions_of, limit_tables, single_changes
from ..support.stepping.machines import MACHINES
from ..support.tables import rich_tables


def sampled(rows: Iterable[Row], engine_name: str, share: float = 1) -> Iterator[Row]:
    """All rows for the compiled engine, or a share of them, drawn. For the pure one, which is slower, an eighth of
    these: other tests compare both engines."""
    drawn = random.Random("rows")
    wanted = share if engine_name == "compiled" else share / 8
    return (row for row in rows if drawn.random() < wanted)


def sframe_faults(table: UnwindTable, name: str, version: int) -> list[str]:
    """What breaks the law for one table."""
    data, refusals = to_sframe(table, version, section_address=1 << 16)
    return faults(list(table), list(from_sframe(data, 1 << 16)), refusals, Format.of(name, version))


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", E_MACHINES)
def test_each_rule_at_each_limit_is_refused_exactly_where_sframe_cannot_express_it(
    name: str, version: int, kernels: str
) -> None:
    architecture = ARCHITECTURES[name]
    table = table_of(architecture, functions_of(sampled(single_changes(architecture), kernels), architecture))
    assert sframe_faults(table, name, version) == []


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", E_MACHINES)
@given(engine_name=st.sampled_from(["pure", "compiled"]), data=st.data())
def test_sframe_refuses_exactly_what_it_cannot_express(
    name: str, version: int, engine_name: str, data: st.DataObject
) -> None:
    table = data.draw(limit_tables(ARCHITECTURES[name]))
    with engine_in_use(engine_name):
        assert sframe_faults(table, name, version) == []


def single_rows(name: str, engine_name: str, share: float = 1) -> UnwindTable:
    """Each rule alone at each limit, or a share of these rows, without explicit rules that there is no rule: no
    format's reader makes these."""
    architecture = ARCHITECTURES[name]
    rows = (
        row
        for row in single_changes(architecture)
        if all(rule.kind is not RuleKind.UNSPECIFIED for rule in row.registers)
    )
    return table_of(architecture, functions_of(sampled(rows, engine_name, share), architecture))


@pytest.mark.parametrize("name", [name for name, machine in MACHINES.items() if machine.names])
def test_each_rule_is_refused_exactly_where_stack_cfi_cannot_express_it(name: str, kernels: str) -> None:
    # STACK CFI has no limits of offsets: each rule has some hundred.
    table, machine = single_rows(name, kernels, 1 / 4), MACHINES[name]
    reasons = {one.function: one.reason for one in to_stack_cfi(table)[1]}
    wrong = []
    for index, function in enumerate(table):
        causes = stack_cfi_causes(function.rows[0], machine.ra, machine)
        if reasons.get(index) not in (causes or {None}):
            wrong.append((function.rows[0], reasons.get(index), causes))
    assert wrong == []


def wrong_verdicts(table: UnwindTable, refusals: Refusals) -> list[object]:
    """The functions that are refused although instructions can make their rows, or for another reason, or not refused
    although they cannot."""
    reasons = {one.function: one.reason for one in refusals}
    allowed = {
        Verdict.EXPRESSIBLE: {None},
        Verdict.INEXPRESSIBLE: {Reason.RULE_LOST},
        Verdict.DEPENDS: {None, Reason.RULE_LOST},
    }
    return [
        (function, reasons.get(index))
        for index, function in enumerate(table)
        if reasons.get(index) not in allowed[instruction_verdict(function)]
    ]


@pytest.mark.parametrize("name", ["x86", "x86_64", "aarch64_be", "s390x"])
def test_each_rule_can_be_written_as_call_frame_information(name: str, kernels: str) -> None:
    table = single_rows(name, kernels)
    for write in (to_eh_frame, to_debug_frame):
        assert wrong_verdicts(table, write(table)[1])[:3] == []


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("name", ["x86_64", "aarch64", "s390x"])
@fewer(4)
@given(data=st.data())
def test_functions_are_refused_only_where_no_instruction_can_make_their_rows(name: str, data: st.DataObject) -> None:
    table = data.draw(rich_tables(ARCHITECTURES[name]))
    for write in (to_eh_frame, to_debug_frame):
        assert wrong_verdicts(table, write(table)[1])[:3] == []
