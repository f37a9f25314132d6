"""The law of one step: a format and what it is converted to give the same caller for frames of random registers.

Strategy: each format is written by the product and read by a reader of this folder. What a target cannot express is in
the product's refusals; everything else must be equal, as far as both formats define it: SFrame gives CFA, RA, SP and
FP, STACK CFI the registers that Breakpad names and no signatures, call frame information everything.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from unwindkit import Refusals, UnwindTable

from .formats import FORMATS, Format, Written, machine_of
from .frames import Caller, Frame, Kind, Place, Reader
from .machines import Machine

OUTSIDE = 32  # one PC in so many is at the end of a row, where another row or nothing may be
MAX_DIFFERENCES = 5


@dataclass(slots=True)
class Outcome:
    """What became of the frames of one pair of formats. `contradictory`: there is no rule for SP, and readers that keep
    its value then have another SP than the ABI's definition of the CFA gives; `refused`: the target lacks the row and
    the product refused it; `outside`: neither has a row."""

    source: str
    target: str
    equal: int = 0
    refused: int = 0
    outside: int = 0
    contradictory: int = 0
    different: int = 0
    differences: list[str] = field(default_factory=list)

    def differ(self, pc: int, what: str) -> None:
        """Count a difference, and keep the first ones."""
        self.different += 1
        if len(self.differences) < MAX_DIFFERENCES:
            self.differences.append(f"{self.source} to {self.target} at {pc:#x}: {what}")


def outcomes(
    table: UnwindTable, folder: Path, count: int, seed: int, wanted: Iterable[str] = FORMATS
) -> Iterator[Outcome]:
    """Convert a table to every format, and what each format kept to every other and itself."""
    machine = machine_of(table)
    formats = [FORMATS[name] for name in wanted if FORMATS[name].suits(machine)]
    for source in formats:
        written = source.write(table, folder)
        read = replace(source.read(written.data, table), load_address=table.load_address)
        for target in formats:
            yield compare(source, written, target, target.write(read, folder), machine, count, seed)


def compare(
    source: Format, before: Written, target: Format, after: Written, machine: Machine, count: int, seed: int
) -> Outcome:
    """The outcome for frames at `count` PCs of rows of the source."""
    draw = random.Random(f"{seed} {machine.name} {source.name} {target.name}")
    outcome = Outcome(source.name, target.name)
    spots, refused = before.reader.spots(), Ranges(after.refusals)
    for index in range(count if spots else 0):
        start, end = draw.choice(spots)
        pc = end if index % OUTSIDE == 0 else draw.randrange(start, end)
        frame = Frame(machine, pc, draw.getrandbits(64))
        first = before.reader.step(frame)
        has_no_rule = first is not None and machine.sp not in first.places
        if first is not None and (target.is_sframe or has_no_rule):
            legal = in_abi_frame(before.reader, frame, first, machine)
            if legal is not None:
                frame, first = legal
            elif has_no_rule:
                outcome.contradictory += 1
                continue
        second = after.reader.step(frame)
        if first is None or second is None:
            if first is None and second is None:
                outcome.outside += 1
            elif first is not None and pc in refused:
                outcome.refused += 1
            else:
                outcome.differ(pc, "only one of them has a row")
        elif found := different(source, first, target, second, frame, machine):
            outcome.differ(pc, found)
        else:
            outcome.equal += 1
    return outcome


def in_abi_frame(reader: Reader, frame: Frame, caller: Caller, machine: Machine) -> tuple[Frame, Caller] | None:
    """The frame made one of the ABI, where the CFA is the caller's SP + `bias`, if functions save SP: with the caller's
    SP where the source's rule tells that it is; and its caller. None if the rules contradict the ABI."""
    place = caller.place(machine.sp)
    if not machine.saves_sp or caller.cfa is None or place is None:
        return frame, caller
    changed = Frame(machine, frame.pc, frame.origin)
    value = caller.cfa - machine.bias & frame.mask
    changed.put(place, value)
    again = reader.step(changed)
    if again is None or again.cfa != caller.cfa or changed.value(place) != value:
        return None
    return changed, again


class Ranges:
    """The refused ranges, to be asked for a PC."""

    def __init__(self, refusals: Refusals) -> None:
        self.ends: list[int] = []
        self.starts: list[int] = []
        for start, end in sorted(zip(refusals.start.tolist(), refusals.end.tolist(), strict=True)):
            if self.ends and start <= self.ends[-1]:
                self.ends[-1] = max(self.ends[-1], end)
            else:
                self.starts.append(start)
                self.ends.append(end)

    def __contains__(self, pc: int) -> bool:
        place = bisect_right(self.starts, pc) - 1
        return place >= 0 and pc < self.ends[place]


def different(
    source: Format, first: Caller, target: Format, second: Caller, frame: Frame, machine: Machine
) -> str | None:
    """The first register whose caller's value the two formats do not agree on."""
    if (first.ra is None) != (second.ra is None):
        return f"RA {_shown(first.ra, frame)} and {_shown(second.ra, frame)}"
    if first.ra is None and (source.is_sframe or target.is_sframe):
        return None  # SFrame keeps nothing else of an outermost frame
    if first.cfa != second.cfa:
        return f"CFA {first.cfa} and {second.cfa}"
    # Another column than the ABI's is needed only if that register has a rule of its own.
    needs_none = first.return_column is None and not first.is_ra_named
    if needs_none and second.return_column not in (None, machine.ra):
        return f"RA in column {second.return_column}"
    if first.is_signed != second.is_signed and None not in (first.is_signed, second.is_signed):
        return "only one return address is signed"
    if first.ra is not None and second.ra is not None and frame.value(first.ra) != frame.value(second.ra):
        return f"RA {_shown(first.ra, frame)} and {_shown(second.ra, frame)}"
    for register in sorted(_defined(source, first, target, second, machine)):
        here, there = first.place(register), second.place(register)
        if here is None and target.is_stack_cfi and there == Place(Kind.REGISTER, register) and register != machine.sp:
            continue  # a lost register has a rule there only if one has to be withdrawn
        if _shown(here, frame) != _shown(there, frame):
            return f"register {register} {_shown(here, frame)} and {_shown(there, frame)}"
    return None


def _shown(place: Place | None, frame: Frame) -> str:
    return "lost" if place is None else hex(frame.value(place))


def _defined(source: Format, first: Caller, target: Format, second: Caller, machine: Machine) -> set[int]:
    """The registers that both formats give."""
    if source.is_sframe or target.is_sframe:
        return {machine.sp, machine.fp}
    found = first.places.keys() | second.places.keys() | {machine.sp, machine.fp}
    if source.is_stack_cfi or target.is_stack_cfi:
        # The return address column is `.ra` there.
        return found & machine.names.keys() - {first.return_column, second.return_column}
    return found
