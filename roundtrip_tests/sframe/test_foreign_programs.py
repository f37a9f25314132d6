"""AArch64 and s390x programs with a written SFrame section: readelf's rows and runs under qemu confirm it.

Strategy: they run as before, readelf finds the CFI's rows in them, and each row describes the real frame when the
program gets there.

`shadow_stack` judges what a run finds; these tests also check that it would notice wrong rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from unwindkit import write_sframe
from unwindkit.converters.sframe.write import Compact

from ..support.judges.referee import compare
from ..support.judges.shadow_stack import Program, RowAt, Step, Verdict, judge
from ..support.oracles import absent
from ..support.programs import foreign
from ..support.programs.foreign import BUILDS, EXPECTED_OUTPUT, Build
from ..support.texts.readelf_text import SframeRows, SframeText, frame_rows, sframe_rows

pytestmark = pytest.mark.oracle

# Shared FREs cannot be read by libsframe on a host of the other byte order, hence not by readelf.
COMPACT: dict[str, Compact] = {"aarch64": "share", "s390x": "none"}


@dataclass(frozen=True, slots=True)
class Written:
    """`output` is `program` with an SFrame section, and `rows` is what readelf reads from that."""

    build: Build
    program: Path
    output: Path
    rows: SframeRows


def written(one: Build, folder: Path) -> Written:
    if (reason := foreign.absence(one.machine)) is not None:
        absent(reason)
    program = foreign.build(folder, one)
    output = program.with_name("written")
    write_sframe(program, output, compact=COMPACT[one.machine.name])
    return Written(one, program, output, sframe_rows(output))


@pytest.fixture(scope="module", name="folder")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("foreign")


@pytest.fixture(scope="module", params=BUILDS, ids=str, name="one")
def _one(request: pytest.FixtureRequest, folder: Path) -> Written:
    return written(request.param, folder)


def test_programs_run_as_before(one: Written) -> None:
    machine = one.build.machine
    assert foreign.run(machine, one.program) == (0, EXPECTED_OUTPUT)
    assert foreign.run(machine, one.output) == (0, EXPECTED_OUTPUT)


def test_rows_agree_with_readelf_at_every_pc(one: Written) -> None:
    # No call frame information covers the PLT: its rows come from its bytes, and are judged by execution.
    plt = Program(one.program).plt
    found = compare(frame_rows(one.program), one.rows, [(plt.start, plt.stop)])
    assert not found.differences, "\n".join(map(str, found.differences[:10]))
    # _start has no caller, and stack checks keep the CFA in another register for a while.
    assert found.rows - 8 <= found.rows_compared < found.rows
    assert found.bytes_ambiguous == 0


def test_rows_are_where_execution_finds_the_frames(one: Written) -> None:
    machine, program = one.build.machine, Program(one.output)
    loaded = foreign.bias(machine, one.output, program)
    steps = foreign.steps(machine, one.output, program, loaded)
    found = judge(machine, program, loaded, steps, RowAt(one.rows))
    assert not found.faults, "\n".join(map(str, found.faults[:10]))
    assert found.unattributed == 0
    assert found.checked > (150_000 if one.build.whole else 3_500)
    if not one.build.whole:
        assert len(found.steps) > 0.7 * len(one.rows.pc), "most rows are reached"
    is_signed = any("branch-protection" in flag for flag in one.build.flags)
    assert (found.signatures > 2_000) == is_signed, "qemu signs return addresses"


# --- what the judgement must notice ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Recorded:
    """A run of a written program."""

    written: Written
    program: Program
    bias: int
    steps: tuple[Step, ...]

    def judged(self, rows: SframeRows) -> Verdict:
        return judge(self.written.build.machine, self.program, self.bias, self.steps, RowAt(rows))


# Some components of their rows: the CFA's base, then FP and RA unsaved, in a slot, or in a register.
RECORDED = {
    "aarch64-O1-pac-ret-leaf": {"sp u u", "sp u u[s]", "sp u c[s]", "fp c c[s]"},
    "aarch64-O0-pac-ret-b-key": {"sp u u", "sp u u[s]", "sp c c[s]", "fp c c[s]"},
    "s390x-O0": {"sp u u", "fp c c", "fp r u", "fp r r"},
    "s390x-O1-packed-stack": {"sp u u", "sp c c", "sp u c", "sp r u", "sp u r", "fp c c"},
}
SIGNING = pytest.mark.parametrize("run", ["aarch64-O1-pac-ret-leaf", "aarch64-O0-pac-ret-b-key"], indirect=True)


@pytest.fixture(scope="module", params=RECORDED, name="run")
def _run(request: pytest.FixtureRequest, folder: Path) -> Recorded:
    build = next(build for build in BUILDS if str(build) == request.param)
    one = written(build, folder)
    program = Program(one.output)
    loaded = foreign.bias(build.machine, one.output, program)
    return Recorded(one, program, loaded, tuple(foreign.steps(build.machine, one.output, program, loaded)))


def changed(rows: SframeRows, change: Callable[[SframeText], SframeText]) -> SframeRows:
    return replace(rows, texts=tuple(map(change, rows.texts)))


def shifted(place: str, by: int) -> str:
    """`sp+16`, `c-48` or `r17` with another number; `u` as it is."""
    if place[0] == "r":
        return f"r{int(place[1:]) + by}"
    sign = max(place.find("+"), place.find("-"))
    return place if sign < 0 else f"{place[:sign]}{int(place[sign:]) + by:+}"


def ra_shifted(text: SframeText, by: int) -> str:
    rule, mark, _ = text.ra.partition("[s]")
    return shifted(rule, by) + mark


def steps_with(rows: SframeRows, verdict: Verdict, holds: Callable[[SframeText], bool]) -> int:
    return sum(count for row, count in verdict.steps.items() if holds(rows.texts[rows.text[row]]))


def noticed(verdict: Verdict, what: str) -> int:
    return sum(fault.what == what for fault in verdict.faults)


def test_rows_of_every_kind_are_reached(run: Recorded) -> None:
    rows = run.written.rows
    reached = [rows.texts[rows.text[row]] for row in run.judged(rows).steps]
    kinds = {f"{text.cfa[:2]} {text.fp[0]} {text.ra[0]}{'[s]' * ('[s]' in text.ra)}" for text in reached}
    assert kinds >= RECORDED[str(run.written.build)]


def test_a_wrong_cfa_offset_is_noticed_at_every_step(run: Recorded) -> None:
    verdict = run.judged(changed(run.written.rows, lambda text: replace(text, cfa=shifted(text.cfa, 8))))
    assert noticed(verdict, "CFA") == verdict.checked > 3_500


def test_a_wrong_cfa_base_is_noticed(run: Recorded) -> None:
    other = {"sp": "fp", "fp": "sp"}
    rows = run.written.rows
    verdict = run.judged(changed(rows, lambda text: replace(text, cfa=other[text.cfa[:2]] + text.cfa[2:])))
    # Often either is right: FP is a copy of SP in most frames.
    assert noticed(verdict, "CFA") > 500
    assert {fault.row.cfa[:2] for fault in verdict.faults} == {"sp", "fp"}


def test_a_wrong_ra_slot_or_register_is_noticed_at_every_step(run: Recorded) -> None:
    rows = run.written.rows
    verdict = run.judged(changed(rows, lambda text: replace(text, ra=ra_shifted(text, 4))))
    moved = steps_with(rows, verdict, lambda text: text.ra[0] in "cr")
    assert noticed(verdict, "RA") == len(verdict.faults) == moved > 1_000


def test_a_wrong_fp_slot_or_register_is_noticed_at_every_step(run: Recorded) -> None:
    rows = run.written.rows
    verdict = run.judged(changed(rows, lambda text: replace(text, fp=shifted(text.fp, 1))))
    moved = steps_with(rows, verdict, lambda text: text.fp[0] in "cr")
    assert noticed(verdict, "FP") == len(verdict.faults) == moved > 200


def test_registers_said_to_be_unsaved_are_noticed(run: Recorded) -> None:
    rows = run.written.rows
    verdict = run.judged(changed(rows, lambda text: SframeText(text.cfa, "u", "u" + text.ra[-3:] * ("[s]" in text.ra))))
    # Until the registers are reused, they still hold the values.
    assert noticed(verdict, "RA") > 1_000
    assert noticed(verdict, "FP") > 200


@SIGNING
def test_a_wrong_signing_state_is_noticed_at_every_step(run: Recorded) -> None:
    rows = run.written.rows
    unsigned = run.judged(changed(rows, lambda text: replace(text, ra=text.ra.removesuffix("[s]"))))
    signed = run.judged(changed(rows, lambda text: replace(text, ra=text.ra.removesuffix("[s]") + "[s]")))
    with_key = steps_with(rows, unsigned, lambda text: "[s]" in text.ra)
    assert noticed(unsigned, "key") == len(unsigned.faults) == with_key > 3_000
    assert noticed(signed, "key") == len(signed.faults) == signed.checked - with_key > 500


@SIGNING
def test_a_wrong_key_is_noticed_at_every_step(run: Recorded) -> None:
    rows = run.written.rows
    swapped = tuple("" if "B" in attribute else "B" for attribute in rows.attributes)
    verdict = run.judged(replace(rows, attributes=swapped))
    with_key = steps_with(rows, verdict, lambda text: "[s]" in text.ra)
    assert noticed(verdict, "key") == len(verdict.faults) == with_key > 3_000


def test_one_wrong_row_is_noticed_at_its_steps_alone(run: Recorded) -> None:
    rows = run.written.rows
    reached = sorted(run.judged(rows).steps)
    for row in reached[:: len(reached) // 5]:
        wrong = replace(rows.texts[rows.text[row]], cfa="sp+8888")
        text = np.where(np.arange(len(rows.text)) == row, len(rows.texts), rows.text)
        verdict = run.judged(replace(rows, texts=(*rows.texts, wrong), text=text))
        assert noticed(verdict, "CFA") == verdict.steps[row] > 0
        assert {fault.row for fault in verdict.faults} == {wrong}
