"""SFrame V3 of Debian's own binaries of each architecture, judged by readelf 2.47 at every PC; and back to V2.

Strategy: each file is converted, the section put into a separate file, and `readelf --sframe` of that compared with
`readelf -wNF` of the binary, including FLEX, signal frames and outermost frames. Sid moves: figures are lower bounds.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from unwindkit import Refusals, UnwindTable, by_pc, from_sframe, project_sframe, read_elf, to_sframe
from unwindkit.jobs.dump import dump_sframe
from unwindkit.schemas import engine, sframe
from unwindkit.schemas.section import Section

from ..support.judges import referee
from ..support.oracles import AMD64_FILES, SID_FILES, run_oracle
from ..support.programs.debian_binaries import (
    MACHINES,
    SUITES,
    address_behind,
    file_of,
    joined,
    lazy_plt,
    ranges_where,
    unsayable_ranges,
    unsayable_sizes,
)
from ..support.texts.readelf_text import FrameRows, RowText, SframeRows, frame_rows
from ..support.wrapped import flexible_words, rows_of_bytes


class AtLeast(NamedTuple):
    """Functions, rows and bytes of code that are compared; FDEs that are flexible, and signal frames; FREs of outermost
    frames. Those of 2026-11, rounded down."""

    functions: int
    rows: int
    code_bytes: int
    flexible: int = 0
    signal: int = 0
    outermost: int = 0


FIGURES = {
    ("sid-amd64", "libc6"): AtLeast(3_900, 23_000, 1_400_000, flexible=3, signal=1, outermost=2),
    ("sid-arm64", "libc6"): AtLeast(3_500, 24_000, 1_100_000, flexible=8, outermost=3),
    ("sid-s390x", "libc6"): AtLeast(3_700, 15_000, 1_300_000, flexible=80, outermost=3),
    ("sid-amd64", "libstdc++6"): AtLeast(5_300, 31_000, 1_300_000),
    ("sid-arm64", "libstdc++6"): AtLeast(4_800, 29_000, 1_200_000),
    ("sid-s390x", "libstdc++6"): AtLeast(5_000, 21_000, 1_600_000, flexible=45),
    ("sid-amd64", "perl-base"): AtLeast(2_300, 29_000, 1_800_000, outermost=1),
    ("sid-arm64", "perl-base"): AtLeast(2_300, 22_000, 1_600_000, outermost=1),
    ("sid-s390x", "perl-base"): AtLeast(2_300, 12_000, 1_900_000, flexible=35, outermost=1),
    ("sid-amd64", "libsystemd-shared"): AtLeast(8_100, 100_000, 3_300_000, flexible=12),
    ("sid-arm64", "libsystemd-shared"): AtLeast(7_400, 76_000, 3_100_000, flexible=4),
    ("sid-s390x", "libsystemd-shared"): AtLeast(7_400, 39_000, 3_300_000, flexible=14),
    ("sid-amd64", "openjdk-21-jre-headless"): AtLeast(49_000, 260_000, 15_000_000),
    ("sid-arm64", "openjdk-21-jre-headless"): AtLeast(46_000, 270_000, 14_000_000),
    ("sid-s390x", "openjdk-21-jre-headless"): AtLeast(27_000, 160_000, 11_000_000, flexible=11_000),
    ("sid-amd64", "ocaml"): AtLeast(20_000, 120_000, 4_500_000, flexible=1_500, signal=12, outermost=1),
}
# The rows that version 3 cannot express. In libc: SP in a register, or saved above the CFA, and another return column.
UNSAYABLE = {
    ("sid-amd64", "libc6"): {"rdi+0 r9 (r9) r1 (rdx) sp=r8 (r8)", "rdx+0 c+120 c+168 sp=c+160"},
    ("sid-s390x", "libc6"): {
        *("r15+160 u u in column 0", "r15+384 u u in column 0 sp=v-160"),
        *("r15+384 u c-208 in column 0 sp=v-160", "r15+160 u c-208 in column 0 sp=v-160"),
    },
    # Where the runtime switches stacks, the CFA is a constant above a value in memory, or is read twice. Version 3
    # dereferences once, and adds before that.
    ("sid-amd64", "ocaml"): {
        "exp(breg7 8; deref; plus_uconst 8) u c-8",
        "exp(breg7 16; deref; plus_uconst 80) c-24 c-8",
        "exp(breg7 56; deref; plus_uconst 0; deref; plus_uconst 8) u c-8",
    },
}


class Input(NamedTuple):
    """A binary as read by us and by readelf; the ranges that readelf cannot evaluate; an address for a section."""

    suite: str
    package: str
    table: UnwindTable
    frame: FrameRows
    excepted: list[tuple[int, int]]
    address: int
    machine: int


def compacts(table: UnwindTable) -> tuple[str, ...]:
    """libsframe reads no shared FREs of the other byte order, which is the case here."""
    return ("none", "share") if table.byte_order == "little" else ("none",)


def rewritten(data: bytes, address: int, compact: str) -> bytes:
    again, refused = to_sframe(from_sframe(data, address), version=3, section_address=address, compact=compact)
    assert len(refused) == 0
    return again


def judged(given: Input, rows: SframeRows) -> referee.Comparison:
    """The referee's comparison, which must have no differences."""
    found = referee.compare(given.frame, rows, given.excepted)
    assert not found.differences, "\n".join(map(str, found.differences[:10]))
    assert found.bytes_ambiguous == 0
    assert found.functions == len(given.table)
    assert found.bytes_compared + found.bytes_excepted == int((rows.end - rows.start).sum())
    return found


def counted(found: referee.Comparison, rows: SframeRows) -> AtLeast:
    flexible, signal = (sum(mark in attributes for attributes in rows.attributes) for mark in "FS")
    is_outermost = np.array([text.ra == "undefined" for text in rows.texts])
    outermost = int(is_outermost[rows.text].sum())
    return AtLeast(found.functions, found.rows_compared, found.bytes_compared, flexible, signal, outermost)


def check_words(data: bytes) -> None:
    """What readelf does not show of FLEX words: the CFA is relative to a register, anything else relative to the CFA is
    in memory there, and the bit between is unused."""
    for words in set(flexible_words(data)):
        controls = [words[0]] if words else []
        rest = words[2:]
        while rest:
            controls, rest = [*controls, rest[0]], rest[2 if rest[0] else 1 :]
        assert not controls or controls[0] & 1, words
        assert all(control & 4 == 0 and (control & 1 or control in (0, 2)) for control in controls), words


EVERY_FILE = [
    pytest.param((suite.values[0], package), id=f"{suite.values[0]}-{package}", marks=suite.marks)
    for suite in SUITES
    for package in (AMD64_FILES if suite.values[0] == "sid-amd64" else SID_FILES)
]


@pytest.fixture(scope="module", params=EVERY_FILE, name="given")
def _given(request: pytest.FixtureRequest) -> Input:
    """Module scope, so that the tests of one file run in succession and it is read once."""
    suite, package = request.param
    path = file_of(suite, package)
    table = read_elf(path)
    excepted, address = lazy_plt(path, suite), address_behind(table)
    return Input(suite, package, table, frame_rows(path), excepted, address, MACHINES[suite])


def test_rows_agree_at_every_pc_and_bytes_survive(given: Input, tmp_path: Path) -> None:
    table, address, order = given.table, given.address, given.table.byte_order
    for compact in compacts(table):
        data, refusals = to_sframe(table, version=3, section_address=address, compact=compact)
        path = tmp_path / compact
        rows = rows_of_bytes(path, data, address, given.machine, order)
        assert (rows.header.version, rows.header.flags) == (3, ("FDE_SORTED", "FDE_FUNC_START_PCREL"))
        found = judged(given, rows)
        figures, least = counted(found, rows), FIGURES[given.suite, given.package]
        assert all(here >= bound for here, bound in zip(figures, least, strict=True)), figures
        # Everything that can be expressed is present, including the PLT's expressions, and nothing else.
        assert joined(refusals.start, refusals.end) == unsayable_ranges(given.frame, given.excepted, version=3)
        assert found.bytes_unsayable - found.bytes_excepted < 200
        check_words(data)

        again = rewritten(data, address, compact)
        assert again == data, "bytes -> table -> bytes"
        assert b"".join(dump_sframe(path)) == run_oracle("readelf", "-wN", "--sframe", path).encode()
    record, end = engine.parse(sframe.SframeSection, Section.of(".sframe", data, address, order), 0, len(data))
    assert (engine.build(record, order), end) == (data, len(data)), "bytes -> records -> bytes"


def test_rows_that_version_3_cannot_say_are_known(given: Input) -> None:
    found = unsayable_sizes(given.frame, given.excepted, version=3)
    assert found.keys() == UNSAYABLE.get((given.suite, given.package), set())
    if given.package == "ocaml":
        # Six rows of 132 bytes, in 5.4.1.
        assert [found[text] for text in sorted(found)] == [[43], [36], [10, 10, 15, 18]]


def test_versions_say_the_same_but_for_what_version_2_cannot(given: Input) -> None:
    architecture = given.frame.architecture

    def only_in_v3(row: RowText) -> bool:
        return referee.sayable(row, architecture, 2) is None and referee.sayable(row, architecture, 3) is not None

    def section(table: UnwindTable, version: int) -> tuple[UnwindTable, Refusals, bytes]:
        data, refusals = to_sframe(table, version=version, section_address=given.address)
        return from_sframe(data, given.address), refusals, data

    in_v2, _, bytes_of_v2 = section(given.table, 2)
    in_v3, refused, _ = section(in_v2, 3)
    back, refused_back, bytes_back = section(in_v3, 2)
    assert len(refused) == len(refused_back) == 0
    assert by_pc(in_v2) == by_pc(in_v3) == by_pc(back)
    assert bytes_back == bytes_of_v2

    in_v3, _, _ = section(given.table, 3)
    in_v2, refused, _ = section(in_v3, 2)
    assert joined(refused.start, refused.end) == ranges_where(only_in_v3, given.frame)
    # The rest has lost the mark of signal frames.
    assert by_pc(in_v2) == by_pc(project_sframe(in_v3, 2), refused)
    again, refused_again, _ = section(in_v2, 3)
    assert len(refused_again) == 0
    assert by_pc(again) == by_pc(in_v2)
