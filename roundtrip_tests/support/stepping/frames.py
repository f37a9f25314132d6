"""A frame of random registers and memory, and the registers of its caller: what the readers of all formats return.

Strategy: no product code. Registers and memory are functions of their number or address, so that a frame has all of
them; a place tells where a value is found, so that a frame can be made one of the ABI.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Protocol

from .machines import Machine

_MASK = (1 << 64) - 1


def _mixed(value: int) -> int:
    """splitmix64: a random word of a number."""
    value = value * 0x9E3779B97F4A7C15 + 0x9E3779B97F4A7C15 & _MASK
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & _MASK
    return value ^ value >> 31


class _Registers(dict[int, int]):
    """Values by DWARF number; every number has one."""

    def __init__(self, seed: int, mask: int) -> None:
        super().__init__()
        self.seed, self.mask = seed, mask

    def __missing__(self, number: int) -> int:
        value = self[number] = _mixed(self.seed ^ _mixed(number)) & self.mask
        return value


class Frame:
    """A frame at `pc`. `origin`: the seed of its registers and memory."""

    def __init__(self, machine: Machine, pc: int, seed: int) -> None:
        self.pc = pc
        self.mask = (1 << 8 * machine.word) - 1
        self.origin = seed
        self.registers = _Registers(seed, self.mask)
        self.memory: dict[int, int] = {}
        self.seed = _mixed(seed)
        if machine.pc is not None:
            self.registers[machine.pc] = pc

    def word(self, address: int) -> int:
        """The word in memory at an address."""
        address &= self.mask
        if address not in self.memory:
            self.memory[address] = _mixed(self.seed ^ address) & self.mask
        return self.memory[address]

    def value(self, place: Place) -> int:
        """The value at a place."""
        if place.kind is Kind.REGISTER:
            return self.registers[place.at]
        return self.word(place.at) if place.kind is Kind.MEMORY else place.at & self.mask

    def put(self, place: Place, value: int) -> None:
        """Change the value of a register or of a word in memory."""
        if place.kind is Kind.REGISTER:
            self.registers[place.at] = value & self.mask
        elif place.kind is Kind.MEMORY:
            self.memory[place.at & self.mask] = value & self.mask


class Kind(Enum):
    """Where a value is."""

    VALUE = "known"
    REGISTER = "in a register of the frame"
    MEMORY = "in memory"


class Place(NamedTuple):
    """A value, the number of a register, or an address in memory."""

    kind: Kind
    at: int


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller's registers as places, by DWARF number; without one a register keeps its value; None: it is lost.

    `cfa` is None where the format does not give it, `ra` in an outermost frame. `return_column` is the register whose
    rule gave `ra` (None: the format has no such column). `is_signed`: the return address is signed (None: the format
    does not tell). `is_ra_named`: the register of the return address has a rule of its own in this function.
    """

    cfa: int | None
    ra: Place | None
    places: dict[int, Place | None] = field(default_factory=dict)
    return_column: int | None = None
    is_signed: int | None = None
    is_ra_named: bool = False

    def place(self, register: int) -> Place | None:
        """Where the caller's value of a register is."""
        return self.places.get(register, Place(Kind.REGISTER, register))


class Reader(Protocol):
    """A section, read independently of the product."""

    def step(self, frame: Frame) -> Caller | None:
        """The caller of a frame; None if the section has nothing for its PC."""

    def spots(self) -> list[tuple[int, int]]:
        """The address range of every row."""
