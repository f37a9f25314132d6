"""The kernel that looks at stops: what it finds by itself, what it leaves to its caller, and when it reads memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pytest
from unwindkit.converters.kernels import engine, views
from unwindkit.converters.kernels.execution.protocol import Outcome

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from unwindkit.converters.kernels.execution.frames import InnermostCall, SpotState, Summary

pytestmark = pytest.mark.usefixtures("kernels")

PC, SP, FP, OTHER = range(4)  # the columns of a stop
CFA, ENTRY_FP, ENTRY_OTHER = 0x8010, 0x1122334455667788, 7
MASK = (1 << 64) - 1


def column_of(*values: int) -> NDArray[np.uint64]:
    return views(np.array(values, np.uint64))[0]


def summary_of(
    tests: list[tuple[int, int, int, int]],
    kept: tuple[int, ...] = (),
    saved: tuple[tuple[int, int], ...] = (),
    is_complete: bool = True,
) -> Summary:
    """FP, if it is saved, is at CFA - 16 + its offset."""
    arrays = views(
        np.array(tests, np.int64).reshape(-1, 4),
        np.array(kept, np.int64),
        np.array(saved, np.int64).reshape(-1, 2),
    )
    return engine.execution.frames.Summary(arrays[0], arrays[1], -16, 16, arrays[2], is_complete)


def state_of(summary: Summary, is_transfer: bool = False) -> SpotState:
    return engine.execution.frames.SpotState("spot", summary, is_transfer)


@dataclass
class Memory:
    """16 bytes below the CFA, and the addresses that were read."""

    data: bytes = bytes(8) + ENTRY_FP.to_bytes(8, "little")
    read: list[tuple[int, int]] = field(default_factory=list)

    def __call__(self, address: int, size: int) -> bytes:
        self.read.append((address, size))
        return self.data


def call_of(memory: Memory, is_big: bool = False) -> InnermostCall:
    """A thread in a call with the CFA, the entry's registers, and SP <= CFA."""
    nowhere = engine.execution.frames.SpotState(None, summary_of([], is_complete=False), False)
    call = engine.execution.frames.InnermostCall(nowhere, {}, memory, column_of(0, 0, 0), PC, SP, 8, MASK, is_big)
    call.enter(CFA, CFA, column_of(0, CFA - 8, ENTRY_FP, ENTRY_OTHER))
    return call


def test_a_stop_outside_known_calls_is_counted_only() -> None:
    call, state = call_of(Memory()), state_of(summary_of([(SP, 0, 0, 0)]))
    call.leave()
    assert call.stop(state, column_of(0, 1, 2, 3)) == Outcome.FINE
    assert (state.checked, state.unchecked) == (0, 1)


def test_a_stack_pointer_above_the_frame() -> None:
    call, state = call_of(Memory()), state_of(summary_of([(SP, 8, 0, 0)]))
    assert call.stop(state, column_of(0, CFA + 1, 0, 0)) == Outcome.LEFT
    assert (state.checked, state.unchecked) == (0, 1)
    assert call.stop(state_of(summary_of([(SP, 0, 0, 0)])), column_of(0, CFA, 0, 0)) == Outcome.FINE


@pytest.mark.parametrize(
    ("sp", "fp", "outcome"),
    [
        (CFA - 8, ENTRY_FP, Outcome.FINE),
        (CFA - 16, ENTRY_FP, Outcome.WRONG_AT_ENTRY),
        (CFA, ENTRY_FP, Outcome.WRONG_AT_ENTRY),
        (CFA - 8, ENTRY_FP + 1, Outcome.WRONG_AT_ENTRY),
    ],
)
def test_registers_are_compared(sp: int, fp: int, outcome: Outcome) -> None:
    """By both of two claims: CFA = SP + 8 with OTHER kept, and CFA = SP + 8 with FP kept."""
    state = state_of(summary_of([(SP, 8, 0, 1), (SP, 8, 1, 2)], (OTHER, FP)))
    call = call_of(Memory())
    assert call.stop(state, column_of(0, sp, fp, ENTRY_OTHER)) == outcome
    assert state.checked == 1
    assert call.stop(state, column_of(0, sp, fp, ENTRY_OTHER)) == (outcome and Outcome.WRONG)


def test_a_negative_offset_wraps() -> None:
    state = state_of(summary_of([(OTHER, -1, 0, 0)]))
    assert call_of(Memory()).stop(state, column_of(0, 0, 0, CFA + 1)) == Outcome.FINE


def test_a_cfa_that_an_expression_computes_is_left_to_the_caller_each_time() -> None:
    call, state = call_of(Memory()), state_of(summary_of([(-1, 0, 0, 0)]))
    registers = column_of(0, CFA - 8, 0, 0)
    outcomes = [call.stop(state, registers) for _ in range(3)]
    assert outcomes == [Outcome.WRONG_AT_ENTRY, Outcome.WRONG, Outcome.WRONG]


def test_what_a_summary_lacks_is_left_to_the_caller_once() -> None:
    call, state = call_of(Memory()), state_of(summary_of([(SP, 8, 0, 0)], is_complete=False))
    registers = column_of(0, CFA - 8, 0, 0)
    assert [call.stop(state, registers) for _ in range(2)] == [Outcome.WRONG_AT_ENTRY, Outcome.FINE]


@pytest.mark.parametrize("is_big", [False, True])
def test_memory_is_read_when_a_row_comes_into_force(is_big: bool) -> None:
    memory = Memory(bytes(8) + ENTRY_FP.to_bytes(8, "big" if is_big else "little"))
    call, registers = call_of(memory, is_big), column_of(0, CFA - 8, 0, 0)
    first, second = (state_of(summary_of([(SP, 8, 0, 0)], saved=((FP, 8),))) for _ in range(2))
    assert [call.stop(state, registers) for state in (first, first, second, first)] == [Outcome.FINE] * 4
    assert memory.read == [(CFA - 16, 16)] * 3
    # A call has returned, which may have changed what is saved: the same row is looked at anew.
    memory.data = bytes(16)
    call.enter(CFA, CFA, column_of(0, CFA - 8, ENTRY_FP, ENTRY_OTHER))
    assert call.stop(first, registers) == Outcome.WRONG_AT_ENTRY
    assert len(memory.read) == 4


@pytest.mark.parametrize("data", [b"", bytes(15)])
def test_memory_that_is_not_there(data: bytes) -> None:
    state = state_of(summary_of([(SP, 8, 0, 0)], saved=((FP, 8),)))
    assert call_of(Memory(data)).stop(state, column_of(0, CFA - 8, 0, 0)) == Outcome.WRONG_AT_ENTRY


def test_registers_before_a_transfer_are_kept() -> None:
    call, registers = call_of(Memory()), column_of(1, 2, 3, 4)
    call.go_on(state_of(summary_of([])), registers)
    assert list(call.before) == [0, 0, 0]
    call.go_on(state_of(summary_of([]), is_transfer=True), registers)
    assert list(call.before) == [1, 2, 3]
    assert call.last.spot == "spot"
