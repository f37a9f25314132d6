"""One step of unwinding by STACK CFI lines.

Strategy: no product code. Rules and the postfix language are from Breakpad's document: the caller's SP is `.cfa` where
no rule is in force, another register without a rule keeps its value. A `.ra` of 0 ends Breakpad's walk.
"""

from __future__ import annotations

from bisect import bisect_right

from ..texts.stack_cfi_text import ranges, value_of
from .frames import Caller, Frame, Kind, Place
from .machines import Machine


class StackCfiLines:
    """The lines of a text whose addresses are relative to `load_address`."""

    def __init__(self, machine: Machine, text: str, load_address: int = 0) -> None:
        self.machine, self.load_address = machine, load_address
        self.numbers = {name: number for number, name in machine.names.items()}
        self.ranges = sorted(ranges(text), key=lambda one: one.start)
        self.starts = [one.start for one in self.ranges]

    def spots(self) -> list[tuple[int, int]]:
        """The address range of every row."""
        found = []
        for one in self.ranges:
            ends = [*(start for start, _ in one.rows[1:]), one.end]
            found += [
                (start + self.load_address, end + self.load_address)
                for (start, _), end in zip(one.rows, ends, strict=True)
            ]
        return found

    def step(self, frame: Frame) -> Caller | None:
        """The caller of a frame; None if no range covers its PC."""
        pc = frame.pc - self.load_address
        index = bisect_right(self.starts, pc) - 1
        if index < 0 or pc >= self.ranges[index].end:
            return None
        rules = self.ranges[index].at(pc)
        cfa = value_of(rules[".cfa"], frame.mask, _Named(frame, self.numbers), frame.word)
        named = _Named(frame, self.numbers, cfa)
        places = {
            self.numbers[name]: self._place(frame, rule, named)
            for name, rule in rules.items()
            if name not in (".cfa", ".ra")
        }
        places.setdefault(self.machine.sp, Place(Kind.VALUE, cfa))
        ra = None if rules[".ra"] == "0" else self._place(frame, rules[".ra"], named)
        name = self.machine.names.get(self.machine.ra)
        is_named = any(name in row for _, row in self.ranges[index].rows)
        return Caller(cfa, ra, places, is_ra_named=is_named)

    def _place(self, frame: Frame, rule: str, named: _Named) -> Place | None:
        if rule == ".undef":
            return None
        if rule in self.numbers:
            return Place(Kind.REGISTER, self.numbers[rule])
        is_memory = rule.endswith(" ^")
        at = value_of(rule.removesuffix(" ^"), frame.mask, named, frame.word)
        return Place(Kind.MEMORY if is_memory else Kind.VALUE, at)


class _Named(dict[str, int]):
    """The registers of a frame by name, and `.cfa` if it is known."""

    def __init__(self, frame: Frame, numbers: dict[str, int], cfa: int | None = None) -> None:
        super().__init__({} if cfa is None else {".cfa": cfa})
        self.frame, self.numbers = frame, numbers

    def __contains__(self, name: object) -> bool:
        return name in self.numbers or super().__contains__(name)

    def __missing__(self, name: str) -> int:
        return self.frame.registers[self.numbers[name]]
