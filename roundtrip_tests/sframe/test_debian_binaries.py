"""The main conversion on Debian's binaries of each architecture, judged by readelf 2.47 at every PC; the byte laws.

Strategy: the files are from Debian sid, unpacked, never run. Each is converted, the section put into a separate file,
and `readelf --sframe` of that compared with `readelf -wNF` of the binary. Sid moves: figures are lower bounds.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest
from unwindkit import from_sframe, read_elf, to_sframe
from unwindkit.schemas import engine, sframe
from unwindkit.schemas.section import Section

from ..support.judges import referee
from ..support.oracles import SID_FILES, run_oracle
from ..support.programs.debian_binaries import (
    MACHINES,
    SUITES,
    address_behind,
    file_of,
    joined,
    lazy_plt,
    unsayable_ranges,
)
from ..support.texts.readelf_text import frame_rows
from ..support.wrapped import rows_of_bytes


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
# Rules `DW_CFA_register: r11 in rN`, and functions that have one, in s390x's files of 2026-10, rounded down. None is
# for r14.
IN_REGISTERS = {
    "libc6": (80, 70),
    "libstdc++6": (45, 35),
    "perl-base": (35, 25),
    "libsystemd-shared": (14, 12),
    "openjdk-21-jre-headless": (10_000, 10_000),
}


@pytest.mark.parametrize("package", SID_FILES)
@pytest.mark.parametrize("suite", SUITES)
def test_rows_agree_at_every_pc_and_bytes_survive(suite: str, package: str, tmp_path: Path) -> None:
    path = file_of(suite, package)
    table, frame, excepted = read_elf(path), frame_rows(path), lazy_plt(path, suite)
    address, machine, order = address_behind(table), MACHINES[suite], table.byte_order
    # libsframe reads no shared FREs of the other byte order, which is the case here.
    for compact in ("none", "share") if order == "little" else ("none",):
        data, refusals = to_sframe(table, section_address=address, compact=compact)
        rows = rows_of_bytes(tmp_path / compact, data, address, machine, order)
        found = referee.compare(frame, rows, excepted)
        assert not found.differences, "\n".join(map(str, found.differences[:10]))

        assert found.functions == len(table) >= FIGURES[package].functions
        assert found.rows >= FIGURES[package].rows
        assert found.bytes_compared >= FIGURES[package].code_bytes
        assert found.bytes_ambiguous == 0
        # Everything that can be expressed is present, including the PLT's expressions, and nothing else.
        covered = int((rows.end - rows.start).sum())
        assert found.bytes_compared + found.bytes_excepted == covered
        assert found.bytes_unsayable - found.bytes_excepted < covered / 1000
        assert joined(refusals.start, refusals.end) == unsayable_ranges(frame, excepted, version=2)

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
    """A rule, set at `pc`, that the FP or RA is in a register; `function` is the start of its function."""

    function: int
    pc: int
    register: str
    place: str


def rules_in_registers(path: Path) -> set[InRegister]:
    """Those from `DW_CFA_register`, except any that another instruction at the same PC overrides."""
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
        # The FRE starts at the PC of the rule: before it, the register is saved in memory or has no rule.
        text = rows.texts[text_at[rule.pc]]
        assert {"r11": text.fp, "r14": text.ra}[rule.register] == rule.place, (rule, str(text))
