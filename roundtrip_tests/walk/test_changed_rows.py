"""check reports any changed field of a real file's sections: a sample of `python -m roundtrip_tests.changed_rows`."""

from __future__ import annotations

import pytest

from ..changed_rows import MISSED, run
from ..support.real_files import REAL_FILES


@pytest.mark.oracle
def test_every_change_is_reported_or_changes_no_row() -> None:
    outcomes = run(list(REAL_FILES[:1]), 20, seed=1)
    assert sum(outcomes.values()) == 80
    assert {source for source, _, _ in outcomes} == {".eh_frame", ".sframe V2", ".sframe V3", "STACK CFI"}
    assert [one for one in outcomes if one[2] == MISSED] == []
    assert sum(number for one, number in outcomes.items() if one[2] == "different") > 40
