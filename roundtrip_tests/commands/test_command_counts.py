"""Counts in reports and summaries are of functions: converted + in part + not = all, and none is negative."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import unwindkit
from hypothesis import given
from hypothesis import strategies as st
from unwindkit import from_eh_frame, to_debug_frame, to_directives, to_eh_frame, to_sframe, to_stack_cfi
from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.converters.refusals import Refusals
from unwindkit.converters.table.cut import trim
from unwindkit.converters.table.model import UnwindTable
from unwindkit.jobs.report import Target

from ..conftest import fewer
from ..support.commands import DONE
from ..support.commands import unwindkit as run
from ..support.handmade import PLAIN_CIE, X86_64_START, Fde, eh_frame
from ..support.tables import tables

TO: dict[Target, Callable[[UnwindTable], tuple[Any, Refusals]]] = {
    "sframe": partial(to_sframe, version=3),
    "eh_frame": to_eh_frame,
    "debug_frame": to_debug_frame,
    "directives": to_directives,
    "breakpad": to_stack_cfi,
}
# The CFA: rsp + 8, rbx + 8, rsp + 8 again; three times.
THREE_GAPS = "44 0c 03 08 44 0c 07 08 44 0c 03 08 44 0c 07 08 44 0c 03 08 44 0c 07 08"


@pytest.mark.parametrize("name", ["x86_64", "aarch64", "s390x"])
@fewer(20)
@given(data=st.data())
def test_counts_add_up(name: str, tmp_path: Path, data: st.DataObject) -> None:
    """Functions of the tables overlap, have no bytes, or rows that no target can express."""
    (tmp_path / "in").write_bytes(to_eh_frame(data.draw(tables(ARCHITECTURES[name])))[0])
    table = from_eh_frame((tmp_path / "in").read_bytes(), 0, name)
    for to, encode in TO.items():
        where = {"source": "eh_frame", "architecture": name}
        version = 3 if to == "sframe" else None  # all functions are in the reach of its starts
        report = unwindkit.convert(tmp_path / "in", tmp_path / "out", to, version=version, **where)
        given_table = trim(table) if to == "sframe" else table
        sizes = given_table.functions.size.tolist()
        counted = [number for number, size in enumerate(sizes) if size or to != "sframe"]
        refused, lost = Counter[int](), encode(given_table)[1]
        for one in (lost[index] for index in range(len(lost))):
            refused[one.function] += one.end - one.start
        whole = sum(number not in refused for number in counted)
        in_part = sum(number in refused and refused[number] < sizes[number] for number in counted)
        assert (report.functions, report.converted, report.partial) == (len(counted), whole, in_part)
        assert report.functions - whole - in_part >= 0


@pytest.mark.parametrize(
    ("rows", "says"), [(THREE_GAPS, "0 converted, 1 in part, 0 not"), ("0f 00", "0 converted, 0 in part, 1 not")]
)
def test_a_function_with_many_refused_ranges_is_one_function(rows: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(eh_frame(f"{PLAIN_CIE} {X86_64_START}", Fde(0x1000, 0x40, rows)))
    raw = ("convert", tmp_path / "in", tmp_path / "out", "--from", "eh_frame", "--arch", "x86_64", "--to", "sframe")
    done = run(*raw)
    assert done.returncode == DONE
    assert done.stderr.splitlines()[0] == f"{tmp_path / 'out'}: 1 function: {says}"
