"""What kernels of line number programs and their callers agree on."""

from __future__ import annotations

from enum import IntEnum


class UnitField(IntEnum):
    """What kernels take of a unit of `.debug_line`: section offsets, sizes in bytes, and the header's fields."""

    HEADER = 0  # where the tables of directories and files start
    PROGRAM = 1
    END = 2
    OPCODE_LENGTHS = 3
    HAS_FORMATS = 4
    OFFSET_SIZE = 5
    ADDRESS_SIZE = 6
    MINIMUM_INSTRUCTION_LENGTH = 7
    MAXIMUM_OPERATIONS = 8
    DEFAULT_IS_STMT = 9
    LINE_BASE = 10
    LINE_RANGE = 11
    OPCODE_BASE = 12


class Event(IntEnum):
    """What a kernel gives for each line number instruction that it ran, in 64 bits each.

    ADVANCE is by how much the address went on, in bytes, or the operation pointer where instructions hold several; LINE
    and ADDRESS are the registers after it; VIEW counts rows at one address, without this one; WORD is for callers.
    """

    OFFSET = 0
    OPCODE = 1
    OPERAND = 2
    ADVANCE = 3
    ADDRESS = 4
    OP_INDEX = 5
    LINE_ADVANCE = 6
    LINE = 7
    FILE = 8
    VIEW = 9
    BEGIN = 10
    END = 11
    IS_STMT = 12
    IS_EXTENDED = 13
    WORD = 14
