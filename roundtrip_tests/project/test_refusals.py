"""Law 3 for refusals: a conversion refuses exactly the rows that its target cannot express, and says why.

Strategy: what the targets can express is stated in the tests (support/judges), from their documents. First every rule
alone with every offset near a limit, then tables of several, drawn.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unwindkit import UnwindTable, from_sframe, to_sframe
from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.converters.table.model import table_of

from ..conftest import engine_in_use
from ..support.judges.refusal_law import faults
from ..support.judges.sframe_limits import E_MACHINES, Format
from ..support.made.limit_rows import functions_of, limit_tables, single_changes


def sframe_faults(table: UnwindTable, name: str, version: int) -> list[str]:
    """What breaks the law for one table."""
    data, refusals = to_sframe(table, version, section_address=1 << 16)
    return faults(list(table), list(from_sframe(data, 1 << 16)), refusals, Format.of(name, version))


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", E_MACHINES)
def test_each_rule_at_each_limit_is_refused_exactly_where_sframe_cannot_express_it(name: str, version: int) -> None:
    architecture = ARCHITECTURES[name]
    table = table_of(architecture, functions_of(single_changes(architecture), architecture))
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
