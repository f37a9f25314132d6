"""One step of unwinding: every format that a table is converted to gives the caller's registers of the format before.

Strategy: readers of the tests' own (support/stepping) on the bytes of both formats; registers and memory are random.
The C libraries of all architectures are sampled here; `python -m roundtrip_tests.one_step` runs them at 10,000 PCs of
each pair. Tables of random rows cover the other architectures and rules that no library has.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from unwindkit import (
    ARCHITECTURES,
    UnwindTable,
    read_elf,
)

from ..one_step import libraries
from ..support.oracles import FRAME_SUITES
from ..support.programs.objects import SUITES
from ..support.stepping.formats import FORMATS
from ..support.stepping.machines import MACHINES
from ..support.stepping.made_rows import made_table
from ..support.stepping.pairs import Outcome, outcomes

# 32-bit Arm's library has no call frame information.
WITH_ROWS = [suite for suite in FRAME_SUITES if suite != "sid-armhf"]
# Those that an assembler is at hand for anyway: the tests' readers are all that these pairs need.
WITHOUT_ASSEMBLER = [name for name in FORMATS if name != "directives"]
FUNCTIONS, PCS, SEED = 150, 100, 17


def sample(table: UnwindTable, seed: int = SEED) -> UnwindTable:
    """Some of a table's functions."""
    chosen = random.Random(seed).sample(range(len(table)), min(len(table), FUNCTIONS))
    return table.select(np.array(sorted(chosen)))


def all_equal(found: Iterable[Outcome]) -> int:
    """How many frames were equal; none differs or contradicts the ABI, and each pair has some."""
    total = 0
    for one in found:
        assert one.differences == []
        assert (one.different, one.contradictory) == (0, 0)
        assert one.equal > PCS // 2, one
        total += one.equal
    return total


@pytest.mark.oracle(*WITH_ROWS, *SUITES)
@pytest.mark.parametrize("suite", WITH_ROWS)
def test_c_libraries_give_the_same_caller_in_every_format(suite: str, tmp_path: Path) -> None:
    table = sample(read_elf(libraries()[suite], "all"))
    assert all_equal(outcomes(table, tmp_path, PCS, SEED)) > 1000


@pytest.mark.oracle(*SUITES)
@pytest.mark.parametrize("name", MACHINES)
def test_random_rows_give_the_same_caller_in_every_format(name: str, tmp_path: Path) -> None:
    found = list(outcomes(made_table(name, SEED), tmp_path, PCS, SEED))
    assert [one.differences for one in found if one.different] == []
    # Half the rows have no rule for SP; where readers of DWARF keep it, few CFAs fit that.
    assert all(one.contradictory == 0 or MACHINES[name].keeps_sp for one in found)
    assert sum(one.equal for one in found) > PCS * len(found) // 3


def test_every_architecture_has_a_machine() -> None:
    assert MACHINES.keys() == ARCHITECTURES.keys()
