"""Kernels of execution alone: claims held at stops, and the loop of single steps.

Strategy: no process runs. Registers, memory and claims are made by hand, because recording them takes a traced program;
`waitpid` and `ptrace` are functions of this module that stop a thread as often as there are registers for it.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from unwindkit.converters.kernels.execution.protocol import PTRACE_GETREGS

from .contract import Rule, between, one_of, put, rule
from .given import Array, Given, Ran, array, number, views_of
from .kernel import Kernel, kernel_files

REGISTERS = 8
PC, SP = 0, 1
STEPPED = 0x57F


def made() -> list[Given]:
    """Stops of a thread at two spots, on machines of both sizes and byte orders."""
    found: list[Given] = []
    for word, is_big in ((8, 0), (8, 1), (4, 0)):
        stops = np.arange(6 * REGISTERS, dtype=np.uint64).reshape(6, REGISTERS) * np.uint64(8)
        stops[:, PC] = [0x10, 0x20, 0x10, 0x20, 0x20, 0x10]
        stops[:, SP] = 0x1000
        tests = np.array([[SP, 16, 0, 2], [2, 0, 2, 3], [-1, 0, 0, 0]], np.int64)
        found.append(
            {
                "word_size": word,
                "is_big": is_big,
                "is_complete": 1,
                "saved_offset": -16,
                "cfa": 0x1010,
                "limit": 0x2000,
                "stops": stops,
                "entry": np.arange(REGISTERS, dtype=np.uint64) * np.uint64(8),
                "tests": tests,
                "kept": np.array([3, 4, 5], np.int64),
                "saved": np.array([[6, 0], [7, word]], np.int64),
                "memory": np.frombuffer(bytes(range(32)), np.uint8).copy(),
                "is_transfer": np.array([0, 1], np.uint8),
                "count": 4,
            }
        )
    return found


def _limit_saved(given: Given) -> None:
    """Saved words are inside the bytes that are read; columns are those of registers."""
    saved, word = array(given, "saved").copy(), number(given, "word_size")
    saved[:, 0] = np.clip(saved[:, 0], 0, REGISTERS - 1)
    saved[:, 1] = np.clip(saved[:, 1], 0, 64)
    put(given, "saved", saved)
    assert word in (4, 8)


def _limit_tests(given: Given) -> None:
    """A test names a register, or -1, and a part of `kept`."""
    tests, count = array(given, "tests").copy(), len(array(given, "kept"))
    tests[:, 0] = np.clip(tests[:, 0], -1, REGISTERS - 1)
    tests[:, 2] = np.clip(tests[:, 2], 0, count)
    tests[:, 3] = np.clip(tests[:, 3], tests[:, 2], count)
    put(given, "tests", tests)
    put(given, "kept", np.clip(array(given, "kept"), 0, REGISTERS - 1))


RULES: tuple[Rule, ...] = (
    one_of("word_size", 4, 8),
    between("is_big", 0, 1),
    between("is_complete", 0, 1),
    between("saved_offset", -(1 << 62), 1 << 62),
    between("cfa", 0, (1 << 64) - 1),
    between("limit", 0, (1 << 64) - 1),
    between("count", 0, 16),
    rule(("saved", "word_size"), ("saved",), _limit_saved),
    rule(("tests", "kept"), ("tests", "kept"), _limit_tests),
)


def _states(kernels: Any, given: Given) -> tuple[Any, Any, dict[int, Any]]:
    """A call in which the thread is, whose spots are known, and the states of spots."""
    frames = kernels.execution.frames
    saved, word = array(given, "saved"), number(given, "word_size")
    size = int(saved[:, 1].max(initial=-word)) + word
    memory = array(given, "memory").tobytes()
    summary = frames.Summary(
        *views_of(given, "tests", "kept"), number(given, "saved_offset"), size, saved.data, number(given, "is_complete")
    )
    nothing = np.zeros((0, 4), np.int64), np.zeros(0, np.int64)
    nowhere = frames.Summary(nothing[0].data, nothing[1].data, 0, 0, nothing[0].data, 0)
    transfers = array(given, "is_transfer").tolist()
    spots = {0x10 * (one + 1): frames.SpotState(None, summary, transfer) for one, transfer in enumerate(transfers)}
    before = np.zeros(REGISTERS, np.uint64)
    mask = (1 << 8 * word) - 1
    call = frames.InnermostCall(
        frames.SpotState(None, nowhere, 0),
        spots,
        lambda address, count: memory[address % 8 :][:count],
        before.data,
        PC,
        SP,
        word,
        mask,
        number(given, "is_big"),
    )
    call.enter(number(given, "cfa"), number(given, "limit"), array(given, "entry").data)
    return call, before, spots


def _counts(spots: dict[int, Any]) -> Array:
    return np.array([(one.checked, one.unchecked) for one in spots.values()], np.int64)


def _stops(kernels: Any, given: Given) -> Ran:
    """As `CheckedThread.step`, without a transfer of the shadow stack."""
    call, before, spots = _states(kernels, given)
    outcomes = []
    states = list(spots.values())
    for index, registers in enumerate(array(given, "stops")):
        stop = registers.copy()
        state = states[int(stop[PC]) % len(states)]
        outcomes.append(call.stop(state, stop.data))
        call.go_on(state, stop.data)
        if index == 3:
            call.leave()
    return Ran(0, tuple(outcomes), (before, _counts(spots)))


WAIT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
PTRACE = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)


def _steps(kernels: Any, given: Given) -> Ran:
    """The loop of `Steps`, on stops that are there already; after the last, nothing stops."""
    call, _, spots = _states(kernels, given)
    stops = iter(array(given, "stops"))
    current = [np.zeros(REGISTERS, np.uint64)]
    status, registers = np.zeros(1, np.int32), np.zeros(REGISTERS, np.uint64)

    def wait(_number: int, where: int, _options: int) -> int:
        following = next(stops, None)
        if following is None:
            return -1
        current[0] = following
        ctypes.c_int.from_address(where).value = STEPPED if following[2] % 7 else 0x137F
        return 1 + int(following[3] % 64 == 63)

    def ptrace(request: int, _number: int, _address: int | None, where: int | None) -> int:
        if request == PTRACE_GETREGS and where is not None:
            ctypes.memmove(where, current[0].tobytes(), 8 * REGISTERS)
        return 0

    functions = WAIT(wait), PTRACE(ptrace)
    places = (ctypes.cast(one, ctypes.c_void_p).value for one in functions)
    loop = kernels.execution.steps.Steps(
        *places, status.data, registers.data, 0, STEPPED, status.ctypes.data, registers.ctypes.data
    )
    outcome = loop.run({1: call}, number(given, "count"))
    return Ran(outcome, (loop.made,), (registers, _counts(spots)))


VALUES = (
    *("word_size", "is_big", "is_complete", "saved_offset", "cfa", "limit", "stops", "entry", "tests", "kept"),
    *("saved", "is_transfer", "count"),
)

EXECUTION_KERNELS = (
    Kernel(
        "kernel-stops",
        "execution.frames.InnermostCall.stop",
        (),
        _stops,
        kernel_files("execution/frames"),
        data=("memory",),
        values=VALUES,
        groups=(("tests",), ("saved",), ("kept",), ("stops",)),
        rules=RULES,
        made=made,
    ),
    Kernel(
        "kernel-steps",
        "execution.steps.Steps.run",
        (),
        _steps,
        kernel_files("execution/steps", "execution/frames"),
        data=("memory",),
        values=VALUES,
        groups=(("tests",), ("saved",), ("kept",), ("stops",)),
        rules=RULES,
        made=made,
    ),
)
