"""The fuzz runner: it finds planted faults, minimises them, is deterministic; and a short run of every target."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from unwindkit.converters.kernels import engine

from ..conftest import engine_in_use
from ..support.handmade import octets
from . import faults, kernels
from .damage import damaged
from .faults import Fault
from .lines import Lines, lines_in
from .mutation import mutate
from .plan import Plan
from .reading_targets import READING_TARGETS
from .run import death_of, run
from .seeds import Place, Seed, elf_places
from .target import Target
from .targets import TARGETS
from .worker import Runner

ROOT = Path(__file__).parents[2]
# Stored by the fuzzer: `--replay` runs them, too.
MENDED = sorted(Path(__file__).with_name("mended").glob("*.json"))
# Of every target, in each run of the suite. The seeds come first.
EXECUTIONS = 60
DAMAGES = 25


def planted(read: Callable[[Seed], Any]) -> Target:
    return Target("planted", lambda: [Seed(b"abcdefgh" * 4, (Place(0, 4),))], {"read": read}, ())


def found_by(read: Callable[[Seed], Any], executions: int = 3000, seconds: float = 60) -> dict[str, Fault]:
    """The faults that a run finds in a reader."""
    (result,) = run([planted(read)], Plan(1, 0, seconds, executions), 1)
    return result.faults


@pytest.fixture(autouse=True)
def _built() -> None:
    with engine_in_use("compiled"):
        pass


def test_another_exception_is_a_fault_and_its_input_is_minimised() -> None:
    def read(seed: Seed) -> None:
        if b"\xff" in seed.data:
            raise KeyError(seed.data)

    (fault,) = found_by(read).values()
    assert fault.key == "KeyError in outside"
    assert fault.seed.data == b"\xff"


def test_the_death_of_the_process_is_a_fault_with_its_input() -> None:
    def read(seed: Seed) -> None:
        if b"\xff" in seed.data:
            os.kill(os.getpid(), signal.SIGKILL)

    fault = found_by(read, seconds=3)["killed by SIGKILL"]
    assert fault.seed.data == b"\xff"


def test_an_exception_is_not_the_death_of_the_process() -> None:
    """When a death is minimised, an input that raises is not one that dies."""

    def read(seed: Seed) -> None:
        if seed.data == b"raises":
            raise KeyError(seed.data)
        os._exit(3)

    assert [death_of(planted(read), Seed(data)) for data in (b"raises", b"dies")] == [None, "exit status 3"]


def test_too_much_time_and_too_much_memory_are_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(seed: Seed) -> None:
        end = time.process_time() + 1.1
        while b"\xff" in seed.data and time.process_time() < end:
            pass

    def large(seed: Seed) -> int:
        return len(b"x" * (400 << 20)) if b"\xff" in seed.data else 0

    monkeypatch.setattr(faults, "MINIMISING", 0.1)
    assert "slow" in found_by(slow, 12)
    assert "large" in found_by(large, 12)


def test_engines_that_differ_are_a_fault() -> None:
    (fault,) = found_by(lambda seed: engine.chosen().name).values()
    assert fault.key == "engines differ in read"


def test_an_exception_on_one_engine_is_a_fault() -> None:
    def read(seed: Seed) -> None:
        if engine.chosen().name == "pure":
            raise KeyError(seed.data)

    (fault,) = found_by(read).values()
    assert fault.key == "KeyError in outside"


def test_a_stored_fault_is_read_again(tmp_path: Path) -> None:
    seed = Seed(b"\xff", (), ".debug_info", "big", 4, "mips", 0x1000, ((".debug_abbrev", b"\1"),), "5")
    fault = Fault("debug-info", "KeyError in read.py read", "a text", seed)
    assert Fault.load(fault.store(tmp_path)) == fault


def test_mutations_depend_on_the_seed_only_and_reach_the_limits_of_fields() -> None:
    seed = Seed(octets("10000000 6162636465666768"), (Place(0, 4),))
    first, second = ([mutate(random.Random(number), seed, [seed]) for number in range(500)] for _ in range(2))
    assert first == second
    values = {int.from_bytes(one.data[:4], "little") for one in first if one.data[4:] == seed.data[4:]}
    assert values >= {0x0F, 0x11, 0, 0xFFFFFFFF, 0x80000000, 0x7FFFFFFF, len(seed.data), 0xFFFFFFF0}


def test_places_move_with_inserted_bytes() -> None:
    seed = Seed(bytes(64), tuple(Place(offset, 2) for offset in range(0, 64, 2)))
    for number in range(300):
        changed = mutate(random.Random(number), seed, [seed])
        assert all(0 <= one.offset <= len(changed.data) - one.size for one in changed.places)


def test_places_of_an_elf_file_are_its_fields() -> None:
    (seed,) = [one for one in TARGETS["elf"].seeds() if one.data[4] == 1]
    places = elf_places(seed.data)
    assert Place(16 + 16, 4) in places  # e_shoff of ELF32
    assert seed.places == places
    assert max(one.offset + one.size for one in places) == len(seed.data)  # the last section header ends the file


def test_lines_that_run_are_noted_once_and_are_those_of_functions() -> None:
    lines = Lines()
    with engine_in_use("pure"), lines.traced():
        TARGETS["sframe-v2"].signature(TARGETS["sframe-v2"].seeds()[0])
    known = lines_in(("converters/sframe", "converters/kernels", "schemas", "package/jobs"))
    assert {line for line in lines.seen if line[0].startswith("converters/sframe")} <= known
    assert any(path == "converters/kernels/sframe/fres.py" for path, _ in lines.seen)
    assert known > lines_in(("converters/sframe/read.py",)) > set()


@pytest.mark.parametrize("name", READING_TARGETS)
def test_every_reader_reads_a_seed(name: str) -> None:
    target = TARGETS[name]

    def is_read(read: str, seed: Seed) -> bool:
        try:
            target.reads[read](seed)
        except target.errors:
            return False
        return True

    seeds = target.seeds()
    assert [read for read in target.reads if not any(is_read(read, seed) for seed in seeds)] == []


@pytest.mark.parametrize("name", READING_TARGETS)
def test_a_short_run_finds_nothing(name: str) -> None:
    (result,) = run([TARGETS[name]], Plan(0, 0, 60, EXECUTIONS), 1)
    assert {key: fault.text for key, fault in result.faults.items()} == {}
    assert result.executions == EXECUTIONS


def test_damages_are_every_truncation_and_every_flipped_bit() -> None:
    seed = Seed(b"\x00\xff\x10", (Place(0, 1), Place(1, 2)))
    found = [one.data for one in damaged(seed)]
    assert found[:4] == [seed.data, b"", b"\x00", b"\x00\xff"]
    value = int.from_bytes(seed.data, "little")
    assert sorted(int.from_bytes(one, "little") ^ value for one in found[4:]) == [1 << bit for bit in range(24)]
    assert [one.places for one in damaged(seed)][1:4] == [(), (Place(0, 1),), (Place(0, 1),)]


def test_a_damage_that_is_treated_differently_is_found() -> None:
    """One bit of one byte, on one engine."""

    data = b"abcdefgh" * 3 + b"abcdmfgh"

    def read(seed: Seed) -> str:
        return engine.chosen().name * (seed.data == data)

    target = Target("planted", lambda: [Seed(b"abcdefgh" * 4)], {"read": read}, ())
    (result,) = run([target], Plan(0, 0, 60, None, is_exhaustive=True), 1)
    (fault,) = result.faults.values()
    assert (fault.key, fault.seed.data, result.executions) == ("engines differ in read", data, 1 + 9 * 32)


@pytest.mark.parametrize("name", READING_TARGETS)
def test_some_damages_of_small_inputs_find_nothing(name: str) -> None:
    """`--exhaustive` runs all of them."""
    (result,) = run([TARGETS[name]], Plan(0, 0, 60, DAMAGES, is_exhaustive=True), 1)
    assert {key: fault.text for key, fault in result.faults.items()} == {}
    assert 0 < result.compared == result.executions <= DAMAGES


def test_the_command_is_deterministic_and_reports_lines(tmp_path: Path) -> None:
    arguments = ["--executions", "200", "--jobs", "1", "--seed", "5", "--faults", tmp_path, "expressions", "postfix"]
    command = [sys.executable, "-m", "roundtrip_tests.fuzz", *map(str, arguments)]
    outputs = [subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    tables = [[line.split()[:2] + line.split()[3:] for line in text.splitlines()[1:-1]] for text in outputs]
    assert tables[0] == tables[1]
    assert [row[0] for row in tables[0]] == ["expressions", "postfix"]
    assert outputs[0].splitlines()[-1].endswith("0 faults")


def test_flags_of_sanitized_kernels_replace_those_of_the_build() -> None:
    script = (ROOT / "setup.py").read_text(encoding="utf-8")
    changed = kernels.with_sanitizers(script)
    assert [
        line for line in changed.splitlines() if "fsanitize" in line and "fno-wrapv" in line and "COMPILE = " in line
    ]
    assert len(changed.splitlines()) == len(script.splitlines())
    assert changed.count("-fsanitize=address,undefined") == 2


def test_bounds_are_checked_in_every_kernel() -> None:
    """And negative indices stay wrong, as they are in the kernels that are built otherwise."""
    for path in sorted((ROOT / "converters" / "kernels").glob("*/*.py")):
        before = path.read_text(encoding="utf-8")
        changed = kernels.with_bounds_checks(before)
        assert (changed != before) == ("# cython:" in before)
        assert "# cython:" not in before or "boundscheck=True" in changed.splitlines()[0]
        assert "# cython:" not in before or "wraparound=False" in changed.splitlines()[0]


def test_the_command_replays_stored_faults(tmp_path: Path) -> None:
    Fault("postfix", "KeyError in evaluate.py run", "once", Seed(b"1 +")).store(tmp_path)
    command = [sys.executable, "-m", "roundtrip_tests.fuzz", "--replay", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "postfix-KeyError-in-evaluate.py-run.json: mended\n"
    (path,) = tmp_path.iterdir()
    assert json.loads(path.read_text())["seed"]["data"] == "31202b"


@pytest.mark.parametrize("path", MENDED, ids=lambda path: path.stem)
def test_what_was_mended_stays_so(path: Path) -> None:
    fault = Fault.load(path)
    runner = Runner(TARGETS[fault.target], Plan(0, 0, 0))
    assert runner.signature(fault.seed)[1] is None
    assert runner.compare(fault.seed) is None
