"""What an instruction does to the chain of calls."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

MAX_INSTRUCTION = 15  # bytes, of any instruction (x86-64)


class Control(IntEnum):
    """The kinds of instructions that a shadow stack must know."""

    OTHER = 0
    CALL = 1
    RETURN = 2  # or any branch that returns where its machine has no instruction for that
    JUMP = 3  # to an address in a register or in memory
    SYSTEM_CALL = 4
    NEW_STACK = 5  # the stack pointer gets a value that does not depend on the old one


class Instruction(NamedTuple):
    """`size` in bytes: of a call, whose return address follows it, and of a system call; else 0."""

    control: Control
    size: int


OTHER = Instruction(Control.OTHER, 0)
