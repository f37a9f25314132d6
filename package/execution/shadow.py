"""The chain of calls of a thread, kept from its calls and returns and never from tables.

Strategy: a call pushes the registers at the callee's first instruction; the return to its return address pops them.
What leaves in another way (longjmp, exceptions, switches of stacks) makes the chain unknown: it is set aside until a
branch arrives where one of its functions continues.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ..converters.kernels import views
from ..schemas.data_classes import dataclass
from .control import Control
from .loaded_files import Function, Spot, Stated
from .machines import Machine

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A stack that starts this many bytes below the current one is another one, or was made with alloca.
FAR_BELOW = 2048
MAX_ASIDE = 10_000  # chains; of a program with more stacks the oldest are forgotten
NO_LIMIT = (1 << 64) - 1
# The registers of a stopped thread; a Stop may be in memory that the next stop overwrites.
Registers: TypeAlias = "NDArray[np.uint64]"
Stop: TypeAlias = Registers


def kept(now: Stop) -> Registers:
    """The registers of a stop, to be kept."""
    return views(np.array(now, np.uint64))[0]


@dataclass(slots=True, eq=False)
class Wrong:
    """What a source states at a spot and does not hold there, in words, and how often."""

    spot: Spot
    stated: Stated
    text: str
    count: int = 1


@dataclass(slots=True, eq=False)
class Call:
    """A call that has not returned. `cfa` and `return_address` are those of the callee, `entry` has the registers at
    its first instruction; for the frame of a signal, those that it interrupted. `caller`: the function of the call.
    `limit`: the stack pointer is at most this in the callee. `wrong`: by spot and source.
    """

    cfa: int
    return_address: int
    entry: Registers
    caller: Function | None
    limit: int
    wrong: dict[tuple[int, int], Wrong] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Stacks:
    """The chains of a process that were set aside, by the return address and CFA of their innermost call."""

    by_end: dict[tuple[int, int], list[Call]] = field(default_factory=dict)

    def put(self, calls: list[Call]) -> None:
        """Set a chain aside."""
        if calls:
            self.by_end[calls[-1].return_address, calls[-1].cfa] = calls
            if len(self.by_end) > MAX_ASIDE:
                del self.by_end[next(iter(self.by_end))]


class Shadow:
    """The calls of one thread. `ended` collects calls that ended, `left` those that ended in another way than by their
    return; `transfers` counts the chains that were set aside."""

    def __init__(self, machine: Machine, stacks: Stacks) -> None:
        self.machine, self.stacks = machine, stacks
        self.calls: list[Call] = []
        self.ended: list[Call] = []
        self.left: list[Call] = []
        self.switches = 0
        # The chain of this thread that was set aside last, and the function that was left.
        self._last: list[Call] = []
        self._function: Function | None = None

    def transfer(self, before: Registers, source: Spot, now: Stop, target: Spot) -> None:
        """Follow an instruction at `source` that is not of the kind OTHER."""
        machine = self.machine
        pc, sp = now[machine.program_counter], now[machine.stack_pointer]
        match source.instruction.control:
            case Control.CALL:
                self._call(before[machine.program_counter] + source.instruction.size, source, now)
            case Control.RETURN | Control.JUMP:
                self._branch(before, pc, sp, target)
            case Control.NEW_STACK if before[machine.stack_pointer] - sp > FAR_BELOW:
                self.set_aside(source.function)
            case Control.SYSTEM_CALL if before[machine.system_calls.number] == machine.system_calls.sigreturn:
                self._end_of_signal(pc, sp)
            case Control.SYSTEM_CALL if sp != before[machine.stack_pointer]:
                self.set_aside(source.function)  # a new process with a stack of its own

    def _call(self, following: int, source: Spot, now: Stop) -> None:
        machine = self.machine
        if now[machine.program_counter] == following:
            return  # how position-independent code gets its address
        cfa = now[machine.stack_pointer] + machine.cfa_offset
        self.calls.append(Call(cfa, following, kept(now), source.function, cfa))

    def _branch(self, before: Registers, pc: int, sp: int, target: Spot) -> None:
        """Follow a branch to an address in memory or a register: perhaps a return."""
        calls, difference = self.calls, self.machine.architecture.caller_sp_offset
        if calls and calls[-1].return_address == pc and calls[-1].cfa + difference <= sp <= calls[-1].limit + FAR_BELOW:
            self.ended.append(calls.pop())
        elif calls and self.machine.link is None and sp == calls[-1].cfa and before[self.machine.stack_pointer] < sp:
            # The return address was replaced: a return trampoline.
            self.left.append(calls.pop())
        elif not calls or (pc, sp - difference) in self.stacks.by_end:
            self._resume(pc, sp, target)

    def _end_of_signal(self, pc: int, sp: int) -> None:
        """A handler returned to what its signal interrupted."""
        for index in reversed(range(len(self.calls))):
            call = self.calls[index]
            if call.limit == NO_LIMIT and call.return_address == pc and call.cfa == sp:
                self.ended += self.calls[index:]
                del self.calls[index:]
                return

    def interrupt(self, before: Registers, now: Stop, return_address: int, function: Function | None) -> None:
        """A signal handler was entered: the interrupted registers, and those at its first instruction."""
        machine = self.machine
        cfa = before[machine.stack_pointer] - machine.architecture.caller_sp_offset
        self.calls.append(Call(cfa, before[machine.program_counter], before, function, NO_LIMIT))
        cfa = now[machine.stack_pointer] + machine.cfa_offset
        self.calls.append(Call(cfa, return_address, kept(now), None, cfa))

    def set_aside(self, function: Function | None) -> None:
        """The stack pointer left the current frame, which is of `function`, in an unknown way."""
        self.switches += 1
        self.stacks.put(self.calls)
        self._last, self._function = self.calls, function
        self.calls = []

    def _resume(self, pc: int, sp: int, target: Spot) -> None:
        """Continue a chain that was set aside, if a branch leads where one of its functions continues."""
        end = pc, sp - self.machine.architecture.caller_sp_offset
        chain = self.stacks.by_end.get(end)
        kept = len(chain) - 1 if chain is not None else None
        if chain is None and self._last:
            chain, kept = self._last, self._continued(pc, sp, target)
        if chain is None or kept is None:
            return
        if self.calls:
            self.set_aside(target.function)
        self.left += chain[kept:]
        self.stacks.by_end.pop((chain[-1].return_address, chain[-1].cfa), None)
        self._last, self.calls = [], chain[:kept]

    def _continued(self, pc: int, sp: int, target: Spot) -> int | None:
        """How many calls of the last chain go on: it returned to a caller, or jumped into one (longjmp, exceptions)."""
        chain, difference = self._last, self.machine.architecture.caller_sp_offset
        current = self._function
        for index in reversed(range(len(chain))):
            call = chain[index]
            if call.return_address == pc and call.cfa + difference == sp:
                return index
            if current is not None and current == target.function and sp < call.cfa:
                return index + 1
            current = call.caller
        return None
