"""A seeded sample of `python -m roundtrip_tests.samples`, of the tests in binutils' sources; and what is a fault."""

from __future__ import annotations

import random
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from ..support.oracles import gas_archive, oracle_root
from ..support.tiny_elf import tiny_elf
from .collect import DIRECTIVES, Found, Sample, collect, kind_of
from .commands import commands_for, entry_of
from .judge import judged
from .measured import MEMORY, Outcome, prepare

SAMPLE = 8


def outcomes(samples: list[Sample], pattern: str = "") -> list[tuple[Sample, Outcome, str]]:
    """As of the tool, with one process."""
    with ProcessPoolExecutor(1, get_context("spawn"), prepare, (Path(sys.executable),)) as pool:
        found = [pool.submit(judged, pattern, one) for one in samples]
        return [(one, *pair) for one, of_one in zip(samples, found, strict=True) for pair in of_one.result()]


@pytest.mark.oracle("forky")
def test_every_command_on_files_of_binutils_tests(tmp_path: Path) -> None:
    source = next(oracle_root().glob(gas_archive("2.47")))
    samples = collect([source], tmp_path, with_llvm=False)
    chosen = random.Random(0).sample([one for one in samples if one.kind != DIRECTIVES], SAMPLE)
    chosen += random.Random(0).sample([one for one in samples if one.kind == DIRECTIVES], SAMPLE)
    done = outcomes(chosen)
    assert [(one.origin, outcome.command, fault) for one, outcome, fault in done if fault] == []
    assert {outcome.status for _, outcome, _ in done} >= {0, 2}


def test_every_command_is_given_a_small_file(tmp_path: Path) -> None:
    """One that is truncated in its section headers, and one that is whole."""
    samples = []
    for name, data in (("whole", tiny_elf()), ("cut", tiny_elf()[:-70])):
        (tmp_path / name).write_bytes(data)
        samples.append(Sample("here", name, "elf", tmp_path / name))
    done = outcomes(samples)
    assert [(one.origin, outcome.command, fault) for one, outcome, fault in done if fault] == []
    assert len(done) == 2 * len(list(commands_for("elf", bytes(tiny_elf()[:32]))))
    assert {outcome.status for one, outcome, _ in done if one.origin == "cut"} == {2}
    assert {outcome.status for one, outcome, _ in done if one.origin == "whole"} >= {0, 2}


@pytest.mark.parametrize(
    ("outcome", "fault"),
    [
        (Outcome(("info",), 0, 2.0, MEMORY + 1000, ""), ""),
        (Outcome(("info",), 1, 0.1, 0, "unwindkit: x\n"), "exit status 1: ['unwindkit: x']"),
        (Outcome(("check",), 1, 0.1, 0, ""), ""),
        (Outcome(("info",), -11, 0.1, 0, ""), "exit status -11: []"),
        (
            Outcome(("info",), 2, 0.1, 0, "Traceback (most recent call last):\nKeyError\n"),
            "exit status 2: ['KeyError']",
        ),
        (Outcome(("info",), 0, 2.01, 0, ""), "2.0 s"),
        (Outcome(("info",), 0, 0.1, MEMORY + 1001, ""), "150 MiB, 10 times the size beside 150 MiB"),
    ],
)
def test_what_is_a_fault_for_a_file_of_100_bytes(outcome: Outcome, fault: str) -> None:
    assert outcome.fault(100) == fault


@pytest.mark.parametrize(
    ("origin", "data", "kind"),
    [
        ("a", b"\x7fELF", "elf"),
        ("a.a", b"!<thin>\n", "archive"),
        ("a.dmp", b"MDMP", "minidump"),
        ("a.sym", b"MODULE Linux", "sym"),
        ("a", b"text\0", "other"),
        ("a.s", b"f: .cfi_startproc", "directives"),
        ("a.c", b"f: .cfi_startproc", None),
        ("a.s", b"nop", None),
    ],
)
def test_kinds_of_files(origin: str, data: bytes, kind: str | None) -> None:
    assert kind_of(Found(origin, data)) == kind


def test_the_entry_point() -> None:
    assert entry_of(b"\x7fELF\x02\x02".ljust(24, b"\0") + (0x1234).to_bytes(8, "big")) == 0x1234
    assert entry_of(b"\x7fELF\x01\x01".ljust(24, b"\0") + (0x1234).to_bytes(8, "little")) == 0x1234
    assert entry_of(b"\x7fELF\x03\x01".ljust(40, b"\0")) == 0
    assert entry_of(b"!<arch>\n") == 0
