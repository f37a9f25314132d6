"""Kernels alone: real calls keep the contracts, changed ones too; planted faults are found; a short run of each."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from unwindkit.converters.kernels import engine

from ...conftest import engine_in_use
from ..faults import Fault
from ..plan import Plan
from ..run import run
from ..worker import Runner
from .contract import Rule, between, bounds, index, one_of, rule, slices, starts, within
from .given import Given, Ran, array, decode, encode, number
from .kernel import Kernel
from .kernels import KERNELS
from .worker import Batch, lost_errors

# Of every kernel, in each run of the suite. Real calls come first.
EXECUTIONS = 150
NAMES = [one.name for one in KERNELS]


@pytest.fixture(autouse=True)
def _built() -> None:
    with engine_in_use("compiled"):
        pass


def planted(run_: Callable[[Any, Given], Ran], *rules: Rule) -> Kernel:
    def made() -> list[Given]:
        return [{"data": np.zeros(32, np.uint8), "place": np.arange(4), "size": 3}]

    return Kernel("planted", "", (), run_, (), data=("data",), values=("place", "size"), rules=rules, made=made)


def found_by(kernel: Kernel, executions: int = 3000, seconds: float = 60) -> dict[str, Fault]:
    (result,) = run([kernel.target()], Plan(1, 0, seconds, executions), 1)
    return result.faults


def by_name(name: str) -> Kernel:
    return next(one for one in KERNELS if one.name == name)


@pytest.mark.parametrize("name", NAMES)
def test_callers_guarantee_what_the_rules_say(name: str) -> None:
    """In the calls that were recorded; a rule that is stricter would hide inputs."""
    kernel = by_name(name)
    assert kernel.seeds()
    assert [kernel.breaks(given) for given in kernel.seeds()] == [[]] * len(kernel.seeds())


@pytest.mark.parametrize("name", NAMES)
def test_a_short_run_finds_nothing(name: str) -> None:
    (result,) = run([by_name(name).target()], Plan(0, 0, 60, EXECUTIONS), 1)
    assert {key: fault.text for key, fault in result.faults.items()} == {}
    assert result.executions == EXECUTIONS


def test_every_kernel_is_run_alone() -> None:
    """Every file that is compiled is the code of a target; the rest are called by others of these."""
    folders = [folder for folder in engine._kernels() if folder]
    compiled = {
        f"converters/kernels/{folder}/{kernel}.py"
        for folder in folders
        for kernel in engine._kernels()[folder]
        if not kernel.startswith("_") and kernel != "protocol"
    }
    # Records of columns, which hold no loop.
    assert compiled - {path for one in KERNELS for path in one.code} == {"converters/kernels/shared/rows.py"}


def test_mutations_depend_on_the_seed_only_and_keep_the_contract() -> None:
    kernel = by_name("kernel-cfi-functions")
    given, other = kernel.seeds()[-1], kernel.seeds()[-2]

    def inputs() -> Iterator[Given]:
        return (one for _, one in zip(range(300), Batch(given, other, 5).inputs(kernel), strict=False))

    assert [encode(one) for one in inputs()] == [encode(one) for one in inputs()]
    assert all(kernel.breaks(one) == [] for one in inputs())
    assert len({encode(one) for one in inputs()}) > 200


def test_rules_leave_what_is_right_and_change_what_is_wrong() -> None:
    given: Given = {
        "data": np.zeros(8, np.uint8),
        "first": np.array([0, 9, -1]),
        "second": np.array([8, 3, 2]),
        "one": 7,
    }

    def after(one: Rule) -> list[list[int]]:
        found = dict(given)
        one.repair(found)
        return [array(found, name).tolist() for name in ("first", "second")] + [[number(found, "one")]]

    assert after(between("first", 0, 5)) == [[0, 5, 0], [8, 3, 2], [7]]
    assert after(between("one", 0, 5)) == [[0, 9, -1], [8, 3, 2], [1]]
    assert after(one_of("second", 3, 8)) == [[0, 9, -1], [8, 3, 3], [7]]
    assert after(index("first", "data", least=-1)) == [[0, 7, -1], [8, 3, 2], [7]]
    assert after(within("first", "data")) == [[0, 8, 0], [8, 3, 2], [7]]
    assert after(bounds("first", "second", "data")) == [[0, 8, 0], [8, 8, 2], [7]]
    assert after(slices("first", "second", "data")) == [[0, 8, 0], [8, 0, 2], [7]]
    assert after(starts("first", "data")) == [[0, 0, 8], [8, 3, 2], [7]]


def test_a_rule_that_claims_too_much_is_seen() -> None:
    kernel = by_name("kernel-cfi-decode")
    strict = replace(kernel, rules=(*kernel.rules, between("streams.end", 0, 1)))
    assert any(strict.breaks(given) == ["streams.end"] for given in kernel.seeds())


def test_an_exception_is_a_fault_with_its_arguments() -> None:
    def fails(kernels: Any, given: Given) -> Ran:
        if (array(given, "data") == 0xFF).any():
            raise IndexError
        return Ran(0, ())

    (fault,) = found_by(planted(fails)).values()
    assert fault.key == "IndexError in outside"
    assert (array(decode(fault.seed.data), "data") == 0xFF).any()


def test_an_error_that_cannot_be_raised_is_a_fault() -> None:
    class Loses:
        def __del__(self) -> None:
            raise IndexError("lost")

    def loses(kernels: Any, given: Given) -> Ran:
        if (array(given, "data") == 0xFF).any():
            Loses()
        return Ran(0, ())

    (fault,) = found_by(planted(loses)).values()
    assert fault.key == "IndexError"
    with lost_errors() as lost:
        Loses()
    assert len(lost) == 1
    assert sys.unraisablehook is not None


def test_engines_that_differ_are_a_fault() -> None:
    (fault,) = found_by(planted(lambda kernels, given: Ran(int(kernels.name == "pure"), ()))).values()
    assert fault.key == "engines differ"


def test_the_death_of_the_process_is_a_fault_with_the_input_that_it_died_of() -> None:
    """The parent makes it again from the batch."""

    def dies(kernels: Any, given: Given) -> Ran:
        if array(given, "place").max(initial=0) > 100:
            os._exit(3)
        return Ran(0, (int(array(given, "place")[0]),))

    limited = rule(("place",), ("place",), lambda given: given.update(place=np.minimum(array(given, "place"), 200)))
    fault = found_by(planted(dies, limited), seconds=3)["exit status 3"]
    assert 100 < array(decode(fault.seed.data), "place").max() <= 200


def test_a_stored_input_is_read_again() -> None:
    for kernel in KERNELS:
        for given in kernel.seeds()[:1]:
            again = decode(encode(given))
            assert list(again) == list(given)
            assert kernel.run(engine.load("compiled"), again).is_same(kernel.run(engine.load("pure"), given))


def test_a_fault_of_a_kernel_runs_again_as_one_of_a_reader() -> None:
    """`--replay` and the mended faults need no other code for kernels."""
    target = by_name("kernel-ends").target()
    seed = target.seeds()[0]
    runner = Runner(target, Plan(0, 0, 0))
    assert runner.signature(seed)[1] is None
    assert runner.compare(seed) is None


def test_random_numbers_of_a_batch_are_its_own() -> None:
    kernel = by_name("kernel-ends")
    batch = Batch(kernel.seeds()[0], kernel.seeds()[0], 1)
    random.seed(1)
    first = [encode(one) for _, one in zip(range(20), batch.inputs(kernel), strict=False)]
    random.seed(2)
    assert first == [encode(one) for _, one in zip(range(20), batch.inputs(kernel), strict=False)]
