"""One step of unwinding: every format that a table is converted to gives the caller's registers of the format before.

Strategy: readers of the tests' own (support/stepping) on the bytes of both formats; registers and memory are random.
The C libraries of all architectures are sampled here; `python -m roundtrip_tests.one_step` runs them at 10,000 PCs of
each pair. Tables of random rows cover the other architectures and rules that no library has.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unwindkit import (
    ARCHITECTURES,
    CfaKind,
    CfaRule,
    Function,
    RegisterRule,
    Row,
    RuleKind,
    UnwindTable,
    read_elf,
    table_of,
)
from unwindkit.converters.breakpad.stack_cfi import rule_text

from ..one_step import libraries
from ..support.handmade import octets
from ..support.oracles import FRAME_SUITES
from ..support.programs.objects import SUITES
from ..support.stepping.formats import FORMATS
from ..support.stepping.frames import Caller, Frame, Kind, Place
from ..support.stepping.machines import MACHINES
from ..support.stepping.made_rows import made_table
from ..support.stepping.pairs import Outcome, outcomes
from ..support.stepping.sframe_sections import SframeSection
from ..support.stepping.stack_cfi_lines import StackCfiLines

# 32-bit Arm's library has no call frame information.
WITH_ROWS = [suite for suite in FRAME_SUITES if suite != "sid-armhf"]
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


# --- the readers themselves: frames worked out by hand ----------------------------------------------------------------

R15_SAVED = RegisterRule(15, RuleKind.OFFSET, -40)
WITHOUT = Row(0, CfaRule(CfaKind.REGISTER, 15, 160))
ALLOCATED = Row(8, CfaRule(CfaKind.REGISTER, 15, 320), (R15_SAVED,))


def s390x(*rows: Row) -> UnwindTable:
    return table_of(ARCHITECTURES["s390x"], [Function(0x1000, 0x20, rows, return_column=14)])


def test_s390x_in_every_format_by_hand(tmp_path: Path) -> None:
    """r15 is 0x8000: the caller's at the entry; after `stmg` and `aghi %r15,-160` that is in the slot at CFA - 40."""
    table = s390x(WITHOUT, ALLOCATED)
    expected = {
        "eh_frame": (Place(Kind.REGISTER, 15), Place(Kind.MEMORY, 0x8118)),
        "debug_frame": (Place(Kind.REGISTER, 15), Place(Kind.MEMORY, 0x8118)),
        "sframe v2": (Place(Kind.VALUE, 0x8000), Place(Kind.VALUE, 0x80A0)),
        "sframe v3": (Place(Kind.VALUE, 0x8000), Place(Kind.VALUE, 0x80A0)),
        "breakpad": (Place(Kind.VALUE, 0x8000), Place(Kind.MEMORY, 0x8118)),
    }
    for name, places in expected.items():
        reader = FORMATS[name].write(table, tmp_path).reader
        for pc, cfa, place in zip((0x1000, 0x1008), (0x80A0, 0x8140), places, strict=True):
            frame = Frame(MACHINES["s390x"], pc, 1)
            frame.registers[15] = 0x8000
            caller = reader.step(frame)
            assert caller is not None
            assert (caller.cfa, caller.place(15)) == (cfa, place), name
            assert caller.ra == Place(Kind.REGISTER, 14)


def test_bytes_of_sframe_by_hand() -> None:
    """s390x, V2: FP in f0, RA not saved; the CFA is r15 + (20 * 8 + 160)."""
    data = octets(
        """
        dee2 02 05 04 00 00 00  # magic, version, sorted and PCREL, s390x, no fixed offsets, no auxiliary header
        00000001 00000001 00000005 00000000 00000014  # FDEs, FREs, their bytes, and where both are
        00000fe4 00000010 00000000 00000001 00 00 0000  # from 0x1000 on: 0x1c + 0xfe4
        00 07 14 00 21  # at 0: three words of one byte from SP
        """
    )
    frame = Frame(MACHINES["s390x"], 0x1004, 1)
    frame.registers[15] = 0x8000
    caller = SframeSection(MACHINES["s390x"], data, 0).step(frame)
    assert caller == Caller(
        0x8140,
        Place(Kind.REGISTER, 14),
        {11: Place(Kind.REGISTER, 16), 15: Place(Kind.VALUE, 0x80A0)},
        None,
        0,
    )


def test_lines_of_stack_cfi_by_hand() -> None:
    """Breakpad's document: without a rule the caller's SP is `.cfa`."""
    lines = "STACK CFI INIT 1000 10 .cfa: $rsp 8 + .ra: .cfa -8 + ^\nSTACK CFI 1004 $rsp: $rsp 16 +\n"
    for pc, place in ((0x1000, 0x8008), (0x1004, 0x8010)):
        frame = Frame(MACHINES["x86_64"], pc, 1)
        frame.registers[7] = 0x8000
        caller = StackCfiLines(MACHINES["x86_64"], lines).step(frame)
        assert caller is not None
        assert (caller.cfa, caller.ra, caller.place(7)) == (
            0x8008,
            Place(Kind.MEMORY, 0x8000),
            Place(Kind.VALUE, place),
        )


# --- what the law notices ---------------------------------------------------------------------------------------------


def differences_of(name: str, formats: Iterable[str], folder: Path, **changes: Any) -> Iterator[Outcome]:
    """The pairs that differ if an architecture's row is another one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ARCHITECTURES, name, replace(ARCHITECTURES[name], **changes))
        yield from (one for one in outcomes(made_table(name, SEED), folder, PCS, SEED, formats) if one.different)


@pytest.mark.parametrize("field", ["stack_pointer", "return_address", "caller_sp_offset"])
@pytest.mark.parametrize("name", MACHINES)
def test_another_rule_for_sp_or_ra_is_noticed(name: str, field: str, tmp_path: Path) -> None:
    """Each architecture's numbers of SP and RA, and the caller's SP without a rule."""
    machine = MACHINES[name]
    other = 2 if machine.sp != 2 else 3
    wrong = {"stack_pointer": other, "return_address": other, "caller_sp_offset": 8 - machine.bias}[field]
    formats = ("eh_frame", "sframe v2", "breakpad")
    found = {(one.source, one.target) for one in differences_of(name, formats, tmp_path, **{field: wrong})}
    assert {("eh_frame", "breakpad"), ("breakpad", "eh_frame")} & found


@pytest.mark.parametrize(
    "changes", [{"caller_sp_offset": -152}, {"caller_sp_offset": 0}, {"needs_sp_rule": False}], ids=str
)
def test_another_caller_of_s390x_is_noticed_after_sframe(changes: dict[str, int], tmp_path: Path) -> None:
    formats = ("sframe v2", "sframe v3", "eh_frame", "debug_frame", "breakpad")
    found = {(one.source, one.target) for one in differences_of("s390x", formats, tmp_path, **changes)}
    targets = ("eh_frame", "debug_frame") + (("breakpad",) if "caller_sp_offset" in changes else ())
    assert {("sframe v2", target) for target in targets} <= found
    assert {("sframe v3", target) for target in targets} <= found


@pytest.mark.parametrize("name", ["OUTERMOST", "CFA_OFFSET", "UNDEFINED"])
def test_other_words_of_stack_cfi_are_noticed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {"OUTERMOST": "16", "CFA_OFFSET": ".cfa {} -", "UNDEFINED": ".cfa"}[name]
    monkeypatch.setattr(rule_text, name, wrong)
    found = outcomes(made_table("x86_64", SEED), tmp_path, PCS, SEED, ("eh_frame", "breakpad"))
    assert any(one.different for one in found)
