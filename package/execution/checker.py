"""One thread, step by step: every claim of the rows in force held against its shadow chain of calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, cast

import numpy as np

from ..converters.arch.registers import register_text
from ..converters.kernels import engine, views
from ..converters.kernels.execution.protocol import Outcome
from ..converters.walk.caller import Abi, Frame, WalkEnd, caller_by_row
from ..schemas.data_classes import dataclass
from .claims import NO_COLUMN, Claim
from .control import Control
from .loaded_files import AddressSpace, Spot, Stated
from .shadow import Call, Registers, Shadow, Stacks, Stop, Wrong

if TYPE_CHECKING:
    from ..converters.kernels.execution.frames import SpotState

ReadRegister = Callable[[int], int | None]


@dataclass(slots=True, eq=False)
class Tally:
    """What all threads saw: steps; checks of spots in frames whose caller is known; wrong claims by spot and source,
    and those in frames that did not return, which are unclear; chains of calls that were set aside."""

    steps: int = 0
    checked: int = 0
    wrong: dict[tuple[int, int], Wrong] = field(default_factory=dict)
    unclear: dict[tuple[int, int], Wrong] = field(default_factory=dict)
    switches: int = 0


def _merge(into: dict[tuple[int, int], Wrong], found: dict[tuple[int, int], Wrong]) -> None:
    for key, one in found.items():
        if key in into:
            into[key].count += one.count
        else:
            into[key] = one


class CheckedThread:
    """One thread. `other_register` reads registers that are not in a stop, by DWARF number; None for unknown ones."""

    def __init__(
        self,
        space: AddressSpace,
        stacks: Stacks,
        tally: Tally,
        other_register: ReadRegister,
    ) -> None:
        self.machine = space.known_files.machine
        self.space, self.tally, self._other_register = space, tally, other_register
        self.shadow = Shadow(self.machine, stacks)
        self._pc = self.machine.program_counter
        architecture = self.machine.architecture
        self._mask = (1 << 8 * architecture.address_size) - 1
        frames = engine.execution.frames
        nothing = views(np.zeros((0, 4), np.int64), np.zeros(0, np.int64))
        summary = frames.Summary(*nothing, 0, 0, nothing[0], False)
        self.call = frames.InnermostCall(
            frames.SpotState(None, summary, False),
            space.spots,
            space.read,
            views(np.zeros(self.machine.register_count, np.uint64))[0],
            self._pc,
            self.machine.stack_pointer,
            architecture.register_size,
            self._mask,
            architecture.byte_order == "big",
        )

    @property
    def spot(self) -> Spot | None:
        """That of the instruction before the next stop, None if it is not known."""
        return cast("Spot | None", self.call.last.spot)

    def step(self, registers: Stop) -> None:
        """The registers before the next instruction of this thread."""
        state = self.space.state(registers[self._pc])
        if self.call.last.is_transfer:
            self._transfer(registers, cast("Spot", state.spot))
        self.follow_up(state, self.call.stop(state, registers), registers)

    def follow_up(self, state: SpotState, outcome: int, registers: Stop) -> None:
        """What a stop needs after the kernel saw it: by its `Outcome`."""
        if outcome == Outcome.LEFT:
            self.shadow.set_aside(None if self.spot is None else self.spot.function)
            self._take_innermost()
        elif outcome != Outcome.FINE:
            self._check_all(cast("Spot", state.spot), outcome == Outcome.WRONG_AT_ENTRY, registers)
        self.call.go_on(state, registers)

    def _take_innermost(self) -> None:
        """Tell the kernel which call is the innermost one. It reads memory anew, which may have changed."""
        if not self.shadow.calls:
            self.call.leave()
            return
        innermost = self.shadow.calls[-1]
        self.call.enter(innermost.cfa & _ALL, innermost.limit & _ALL, innermost.entry)

    def _check_all(self, spot: Spot, is_entered: bool, registers: Stop) -> None:
        """Hold each claim; those about memory only if their row was not in force before (`is_entered`)."""
        for one in spot.stated:
            if one.claim is not None:
                self._check(one, one.claim, spot, is_entered, registers)

    def _transfer(self, registers: Stop, spot: Spot) -> None:
        shadow, last, before = self.shadow, self.spot, self.call.before
        assert last is not None
        shadow.transfer(before, last, registers, spot)
        if shadow.ended or shadow.left:
            self.collect()
        self._take_innermost()
        if last.instruction.control is Control.SYSTEM_CALL:
            self._forget_unmapped(before)

    def _forget_unmapped(self, before: Registers) -> None:
        """Forget the spots of a process whose code may have changed."""
        calls = self.machine.system_calls
        number = before[calls.number]
        start, size = (before[column] for column in calls.arguments)
        if number in (calls.mmap, calls.munmap) and self.space.has_code(start, start + size):
            self.space.forget()

    def interrupt(self, before: Registers, registers: Stop, return_address: int) -> None:
        """A signal handler was entered with these registers; `before` has those that the signal interrupted."""
        function = None if self.spot is None else self.spot.function
        self.shadow.interrupt(before, registers, return_address, function)
        self._take_innermost()
        self.forget_position()
        self.step(registers)

    def forget_position(self) -> None:
        """The next step is not after the last one."""
        self.call.last = self.call.nowhere

    def follow(self, parent: CheckedThread, calls: list[Call]) -> None:
        """Begin as a copy of a thread that has just made this process, with these `calls`."""
        self.shadow.calls = calls
        self.call.last = parent.call.last
        self.call.before[:] = parent.call.before
        self._take_innermost()

    def finish(self) -> None:
        """The thread ended: judge the calls that did not return."""
        self.shadow.ended += self.shadow.calls
        self.shadow.calls = []
        self._take_innermost()
        self.collect()
        self.tally.switches += self.shadow.switches
        self.shadow.switches = 0

    def collect(self) -> None:
        """Add the calls that ended to the tally."""
        for ended, into in ((self.shadow.ended, self.tally.wrong), (self.shadow.left, self.tally.unclear)):
            for call in ended:
                if call.wrong:
                    _merge(into, call.wrong)
            ended.clear()

    def _check(self, stated: Stated, claim: Claim, spot: Spot, is_entered: bool, registers: Stop) -> None:
        call = self.shadow.calls[-1]
        if claim.cfa_column != NO_COLUMN:
            cfa = registers[claim.cfa_column] + claim.cfa_offset & self._mask
            if cfa != call.cfa:
                self._note(stated, spot, call, "CFA", cfa, call.cfa)
                return
        for column in claim.kept_columns:
            if registers[column] != call.entry[column]:
                self._note(stated, spot, call, self._name(column), registers[column], call.entry[column])
                return
        signed = claim.signed_column
        if signed is not None and registers[signed] & self.machine.address_mask != call.return_address:
            self._note(stated, spot, call, "return address", registers[signed], call.return_address)
            return
        if is_entered:
            self._check_memory(stated, claim, spot, call, registers)
        if claim.needs_walk:
            self._check_walk(stated, claim, spot, call, registers)

    def _check_memory(self, stated: Stated, claim: Claim, spot: Spot, call: Call, registers: Stop) -> None:
        for column, offset in claim.saved:
            value = self._word(call.cfa + offset)
            if value != call.entry[column]:
                self._note_memory(stated, spot, call, self._name(column), value, call.entry[column], registers)
                return
        # Where a call pushes the return address, the CFA tells that place, too.
        is_pushed = self.machine.link is None and claim.return_offset == -self.machine.cfa_offset
        if claim.return_offset is not None and not is_pushed:
            value = self._word(call.cfa + claim.return_offset)
            if value is None or value & (self.machine.address_mask if claim.is_signed else _ALL) != call.return_address:
                self._note_memory(stated, spot, call, "return address", value, call.return_address, registers)

    def _known(self, registers: Stop) -> dict[int, int]:
        """The values of all registers, by DWARF number."""
        known = {number: registers[column] for number, column in self.machine.columns.items()}
        others = {number: self._other_register(number) for number in self.machine.other_registers}
        return known | {number: value for number, value in others.items() if value is not None}

    def _check_walk(self, stated: Stated, claim: Claim, spot: Spot, call: Call, registers: Stop) -> None:
        columns = self.machine.columns
        abi = Abi(self.machine.architecture, self.machine.architecture.byte_order, ())
        frame = Frame(registers[self._pc], self._known(registers))
        caller = caller_by_row(abi, claim.row, claim.return_column, frame, self._number)
        if caller.cfa != call.cfa:
            self._note_memory(stated, spot, call, "CFA", caller.cfa, call.cfa, registers)
        elif caller.frame is None:
            if caller.end is not WalkEnd.OUTERMOST:
                self._note_memory(stated, spot, call, "return address", None, call.return_address, registers)
        elif caller.frame.pc != call.return_address:
            self._note(stated, spot, call, "return address", caller.frame.pc, call.return_address)
        else:
            for number in claim.computed:
                value, true = caller.frame.registers.get(number), call.entry[columns[number]]
                # A rule may name a register that no stop has.
                if value is not None and value != true:
                    self._note(stated, spot, call, self._name(columns[number]), value, true)
                    return

    def _number(self, address: int, size: int) -> int:
        """The number in memory at an address. Raises LookupError where there is none."""
        data = self.space.read(address, size)
        if len(data) < size:
            raise LookupError(address)
        return int.from_bytes(data, self.machine.architecture.byte_order)

    def _word(self, address: int) -> int | None:
        """The saved register in memory at an address; None if there is none."""
        try:
            return self._number(address & self._mask, self.machine.architecture.register_size)
        except LookupError:
            return None

    def _name(self, column: int) -> str:
        number = next(number for number, one in self.machine.columns.items() if one == column)
        return register_text(self.machine.architecture.machine, number)

    def _note_memory(
        self, stated: Stated, spot: Spot, call: Call, what: str, value: int | None, true: int, registers: Stop
    ) -> None:
        """Note a `value` from memory. A process may be killed after its stop was reported: all its memory is gone then,
        even the code that it was about to run, and nothing is wrong."""
        if value is not None or self.space.read(registers[self._pc], 1):
            self._note(stated, spot, call, what, value, true)

    def _note(self, stated: Stated, spot: Spot, call: Call, what: str, value: int | None, true: int) -> None:
        key = id(spot), id(stated.source)
        if key in call.wrong:
            call.wrong[key].count += 1
        else:
            found = "not known" if value is None else f"{value:#x}"
            call.wrong[key] = Wrong(spot, stated, f"{what} {found}, true: {true:#x}")


_ALL = (1 << 64) - 1
