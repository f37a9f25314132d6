"""A file with a new section can be used as before: every input and every engine of `elf_matrix`.

It runs, debuggers find the same in it, and eu-elflint reports nothing new; where the program headers are kept, or an
older section had space, it also survives strip, objcopy, eu-strip and patchelf. After the two other engines those tools
may break it: see the counts in `docs/writing-elf.md`.
"""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest
from unwindkit.writers.elf.add import HEADERS_KEPT, HEADERS_MOVED, IN_PLACE, LIEF

from ..support.made.elf_matrix import ENGINES, INPUTS, OLD_SECTION, USES, WRITTEN, Input, Row, made, row_of, table
from ..support.oracles import absent
from ..support.programs.elf_programs import CXX, Built

AT_ALL = ("runs", "the check", "addr2line", "gdb", "eu-elflint")
# Why program headers cannot be kept.
IN_THE_WAY = dict.fromkeys(
    ["static", "static, stripped", "aarch64, -static", "aarch64, -static -s", "s390x, -static", "s390x, -static -s"],
    "e_phoff: .rela.plt is in the way",
)
WITHOUT_GAP = ("PIE, -z noseparate-code", "by lld", "by lld, stripped", "by mold", "by mold, stripped")


def is_absent(one: Input) -> NoReturn:
    absent(f"no {one.name!r} here, or not all that it is tried with")


@pytest.mark.oracle
@pytest.mark.parametrize("one", INPUTS, ids=lambda one: one.name)
def test_a_file_stays_as_useful_as_it_was(one: Input, built: Built, tmp_path: Path) -> None:
    original = made(one, built, tmp_path / "file")
    if original is None:
        is_absent(one)
        return
    row = row_of(one, original, built(CXX), original.parent)
    assert set(row.refused) | set(row.kept) == set(ENGINES)
    assert (IN_PLACE in row.kept) == (one.name in (OLD_SECTION, WRITTEN))
    assert row.refused.get(HEADERS_KEPT) == IN_THE_WAY.get(one.name)
    assert HEADERS_MOVED in row.kept
    assert ("no gap between loadable segments" in row.refused.get(LIEF, "")) == (one.name in WITHOUT_GAP)

    for engine, kept in row.kept.items():
        asked = USES if engine in (IN_PLACE, HEADERS_KEPT) else AT_ALL
        assert [use for use in asked if not kept.get(use, True)] == [], engine
        assert {"runs", "the check", "eu-elflint", "strip 2.40", "objcopy 2.40", "eu-strip"} <= set(kept)
        assert ("addr2line" in kept) == one.has_lines
        assert ("gdb" in kept) == one.can_abort
        # patchelf accepts no static program, and strip 2.47 is available for x86-64 at least.
        assert ("patchelf" in kept) == ("static" not in one.name), engine
        assert one.prefix or {"strip 2.47", "objcopy 2.47"} <= set(kept)


def test_the_table_of_the_matrix() -> None:
    whole = Row({IN_PLACE: "nothing there", LIEF: "no gap"}, {HEADERS_KEPT: {"runs": True, "gdb": True}})
    whole.kept[HEADERS_MOVED] = {"runs": True, "gdb": False}
    other = Row({IN_PLACE: "nothing there", HEADERS_KEPT: "in the way"}, {LIEF: {"runs": False}})
    other.kept[HEADERS_MOVED] = {"runs": True}
    assert table({"a": whole, "b": other}).splitlines() == [
        "| input | in place | headers kept | headers moved | lief |",
        "|---|---|---|---|---|",
        "| a | - | 2 | 2, not gdb | - |",
        "| b | - | - | 1 | 1, not runs |",
        "",
        "| kept by | in place | headers kept | headers moved | lief |",
        "|---|---|---|---|---|",
        "| runs | 0 of 0 | 1 of 1 | 2 of 2 | 0 of 1 |",
        *(
            f"| {use} | 0 of 0 | {'1 of 1 | 0 of 1' if use == 'gdb' else '0 of 0 | 0 of 0'} | 0 of 0 |"
            for use in USES[1:]
        ),
        "",
        "Why program headers could not be kept:",
        "",
        "- 1 times: in the way",
    ]
