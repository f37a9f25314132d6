"""The main job on Debian's own binaries of each architecture, judged by readelf 2.47 at every PC; and the byte laws.

Strategy: the files are of Debian sid, unpacked, never run. Each is converted, the section put into a file of its
own, and `readelf --sframe` of it held against `readelf -wNF` of the binary. Sid moves: figures are lower bounds.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from unwindkit import UnwindTable, from_sframe, read_elf, to_sframe
from unwindkit.schemas import engine, sframe
from unwindkit.schemas.section import Section

from . import referee
from .oracles import SID_FILES, oracle_root, run_oracle
from .plt_programs import plt_sections
from .readelf_text import FrameRows, frame_rows
from .wrapped import rows_of_bytes

MACHINES = {"sid-amd64": 62, "sid-arm64": 183, "sid-s390x": 22}  # e_machine
SUITES = [pytest.param(suite, marks=pytest.mark.oracle(suite)) for suite in MACHINES]


class AtLeast(NamedTuple):
    """Figures of the architecture that has the fewest, rounded down (2026-10: arm64 libjvm has 46,729 functions)."""

    functions: int
    rows: int
    code_bytes: int


FIGURES = {
    "libc6": AtLeast(3_300, 14_000, 1_100_000),
    "libstdc++6": AtLeast(4_500, 19_000, 1_100_000),
    "perl-base": AtLeast(2_100, 11_000, 1_500_000),
    "libsystemd-shared": AtLeast(6_900, 36_000, 2_800_000),
    "openjdk-21-jre-headless": AtLeast(25_000, 150_000, 11_000_000),
}
# Rules `DW_CFA_register: r11 in rN`, and functions that have one, in s390x's files of 2026-10, rounded down. No r14 is.
IN_REGISTERS = {
    "libc6": (80, 70),
    "libstdc++6": (45, 35),
    "perl-base": (35, 25),
    "libsystemd-shared": (14, 12),
    "openjdk-21-jre-headless": (10_000, 10_000),
}


def file_of(suite: str, package: str) -> Path:
    """The package's file; a link's target only once."""
    (path,) = {found.resolve() for found in oracle_root(suite).glob(SID_FILES[package])}
    return path


def address_behind(table: UnwindTable) -> int:
    """Where a section could stand: on a page of its own behind the code."""
    return int((table.functions.start + table.functions.size).max()) + 0xFFF & -0x1000


def lazy_plt(path: Path, suite: str) -> list[tuple[int, int]]:
    """The x86-64 PLT, whose rows are expressions that readelf does not evaluate: test_plt.py judges them."""
    plt = plt_sections(path).get(".plt") if suite == "sid-amd64" else None
    return [(plt.start, plt.stop)] if plt else []


def unsayable_ranges(frame: FrameRows, excepted: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Runs of neighbouring rows that SFrame V2 cannot say, of all functions, outside the excepted ranges."""
    pieces = referee._pieces(frame.start, frame.end, frame.first_row, frame.pc, frame.text)
    unsayable = np.array([referee.sayable(text, frame.architecture) is None for text in frame.texts])[pieces.number]
    for start, end in excepted:
        unsayable &= (pieces.start < start) | (pieces.start >= end)
    return joined(pieces.start[unsayable], pieces.end[unsayable])


def joined(starts: npt.NDArray[np.uint64], ends: npt.NDArray[np.uint64]) -> list[tuple[int, int]]:
    """The ranges in order, those that touch as one."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(zip(starts.tolist(), ends.tolist(), strict=True)):
        if found and found[-1][1] == start:
            found[-1] = found[-1][0], end
        else:
            found.append((start, end))
    return found


@pytest.mark.parametrize("package", SID_FILES)
@pytest.mark.parametrize("suite", SUITES)
def test_rows_agree_at_every_pc_and_bytes_survive(suite: str, package: str, tmp_path: Path) -> None:
    path = file_of(suite, package)
    table, frame, excepted = read_elf(path), frame_rows(path), lazy_plt(path, suite)
    address, machine, order = address_behind(table), MACHINES[suite], table.byte_order
    # A libsframe of the other byte order, as readelf's is here, reads no shared FREs.
    for compact in ("none", "share") if order == "little" else ("none",):
        data, refusals = to_sframe(table, section_address=address, compact=compact)
        rows = rows_of_bytes(tmp_path / compact, data, address, machine, order)
        found = referee.compare(frame, rows, excepted)
        assert not found.differences, "\n".join(map(str, found.differences[:10]))

        assert found.functions == len(table) >= FIGURES[package].functions
        assert found.rows >= FIGURES[package].rows
        assert found.bytes_compared >= FIGURES[package].code_bytes
        assert found.bytes_ambiguous == 0
        # All that can be said is said, the PLT's expressions as well, and nothing else.
        covered = int((rows.end - rows.start).sum())
        assert found.bytes_compared + found.bytes_excepted == covered
        assert found.bytes_unsayable - found.bytes_excepted < covered / 1000
        assert joined(refusals.start, refusals.end) == unsayable_ranges(frame, excepted)

        again, _ = to_sframe(from_sframe(data, address), section_address=address, compact=compact)
        assert again == data, "bytes -> table -> bytes"
        record, end = engine.parse(sframe.SframeSection, Section.of(".sframe", data, address, order), 0, len(data))
        assert (engine.build(record, order), end) == (data, len(data)), "bytes -> records -> bytes"


# --- s390x: registers in slots ------------------------------------------------------------------------------

_STEP = re.compile(
    r"^(?:\S+ \S+ \S+ FDE cie=\S+ pc=(?P<start>[0-9a-f]+)\.\.(?P<end>[0-9a-f]+)"
    r"|  DW_CFA_advance_loc\d?: \d+ to (?P<pc>[0-9a-f]+)"
    r"|  DW_CFA_register: (?P<register>r11|r14) in (?P<place>r\d+)"
    r"|  DW_CFA_(?:\w+: (?P<other>r11|r14)\b|(?P<restored>restore_state)).*)",
    re.MULTILINE,
)


class InRegister(NamedTuple):
    """A rule that the FP or RA is in a register, that holds at `pc`, where it was given; and its function's start."""

    function: int
    pc: int
    register: str
    place: str


def rules_in_registers(path: Path) -> set[InRegister]:
    """Those of `DW_CFA_register`, but for any that another instruction at the same PC takes back."""
    found: set[InRegister] = set()
    here: dict[str, str] = {}
    function = end = pc = 0
    steps = [*_STEP.finditer(run_oracle("readelf", "-wNf", path)), None]
    for step in steps:
        if step is None or step["start"] or step["pc"]:
            found |= {InRegister(function, pc, register, place) for register, place in here.items() if pc < end}
            here.clear()
        if step is None:
            break
        if step["start"]:
            function, end = int(step["start"], 16), int(step["end"], 16)
        if step["start"] or step["pc"]:
            pc = int(step["start"] or step["pc"], 16)
        elif step["register"]:
            here[step["register"]] = step["place"]
        elif step["restored"]:
            here.clear()
        elif not step[0].startswith("  DW_CFA_def_cfa"):
            here.pop(step["other"], None)
    return found


@pytest.mark.parametrize("package", SID_FILES)
@pytest.mark.oracle("sid-s390x")
def test_s390x_registers_in_slots_are_those_of_the_instructions(package: str, tmp_path: Path) -> None:
    path = file_of("sid-s390x", package)
    table = read_elf(path)
    address = address_behind(table)
    data, _ = to_sframe(table, section_address=address, compact="none")
    rows = rows_of_bytes(tmp_path / "none", data, address, MACHINES["sid-s390x"], "big")
    text_at = dict(zip(rows.pc.tolist(), rows.text.tolist(), strict=True))

    rules = rules_in_registers(path)
    rules_at_least, functions_at_least = IN_REGISTERS[package]
    assert len(rules) >= rules_at_least
    assert len({rule.function for rule in rules}) >= functions_at_least
    for rule in rules:
        # The FRE starts at the PC of the rule: what is in memory or nowhere before it changes there.
        text = rows.texts[text_at[rule.pc]]
        assert {"r11": text.fp, "r14": text.ra}[rule.register] == rule.place, (rule, str(text))
