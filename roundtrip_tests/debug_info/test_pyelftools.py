"""Entries with contiguous code, as pyelftools reads them: offset, range, and the name that references lead to."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile
from unwindkit import read_functions

from ..support.made.debug_entries import NO_LINKS

SOURCE = """
struct S { static int scale(int x) { return x * 3; } };
static inline __attribute__((always_inline)) int twice(int x) { volatile int y = x; return y + y; }
__attribute__((noinline)) int sum(int n) { int s = 0; for (int i = 0; i < n; i++) s += twice(i); return s; }
int main(int count, char **) { return sum(count) + S::scale(twice(count)); }
"""
REFERENCES = ("DW_AT_abstract_origin", "DW_AT_specification")
NAMES = ("DW_AT_linkage_name", "DW_AT_MIPS_linkage_name", "DW_AT_name")


def name_of(entry: Any) -> bytes | None:
    """The linkage name that an entry leads to, else its name."""
    chain = [entry]
    while reference := next((one for one in REFERENCES if one in chain[-1].attributes), None):
        chain.append(chain[-1].get_DIE_from_attribute(reference))
    values = (one.attributes[name].value for name in NAMES for one in chain if name in one.attributes)
    found: bytes | None = next(values, None)
    return found


def contiguous(path: Path) -> dict[int, tuple[int, int, bytes | None]]:
    """Start, size and name of each entry of code with DW_AT_low_pc and DW_AT_high_pc, by section offset."""
    found = {}
    with path.open("rb") as stream:
        for unit in ELFFile(stream).get_dwarf_info().iter_CUs():
            for entry in unit.iter_DIEs():
                if entry.tag not in ("DW_TAG_subprogram", "DW_TAG_inlined_subroutine"):
                    continue
                if "DW_AT_high_pc" not in entry.attributes:
                    continue
                low, high = (entry.attributes[f"DW_AT_{one}_pc"] for one in ("low", "high"))
                size = high.value - (low.value if high.form == "DW_FORM_addr" else 0)
                found[entry.offset] = low.value, size, name_of(entry)
    return found


@pytest.mark.oracle("g++")
@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_entries_are_those_of_pyelftools(tmp_path: Path, version: int) -> None:
    (tmp_path / "main.cc").write_text(SOURCE)
    command = ["g++", "-O0", f"-gdwarf-{version}", "main.cc", "-o", "program"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=100)
    table = read_functions(tmp_path / "program", NO_LINKS)
    found = {}
    for entries, ranges, owner in (
        (table.functions, table.ranges, table.ranges.function),
        (table.inlines, table.inline_ranges, table.inline_ranges.inline),
    ):
        for start, size, index in zip(ranges.start.tolist(), ranges.size.tolist(), owner.tolist(), strict=True):
            one = entries.record(index)
            found[one["offset"]] = start, size, table.names[one["name"]] if one["name"] >= 0 else None
    expected = contiguous(tmp_path / "program")
    assert len(expected) >= 3
    assert {offset: found.get(offset) for offset in expected} == expected
