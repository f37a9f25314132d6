"""What kernels and their callers agree on, as numbers that C can hand back."""

from __future__ import annotations

from enum import IntEnum


class Fault(IntEnum):
    """What may be wrong in the input, with the sentence that follows the record's path in an error."""

    sentence: str

    def __new__(cls, value: int, sentence: str) -> Fault:
        """An integer that carries its sentence."""
        fault = int.__new__(cls, value)
        fault._value_ = value
        fault.sentence = sentence
        return fault

    @classmethod
    def of(cls, number: int) -> Fault:
        """The member with that number."""
        return next(member for member in cls if member == number)

    CUT = 1, "the record ends inside a value"
    LEB_TOO_LARGE = 2, "a LEB128 does not fit 64 bits"
    RESERVED_LENGTH = 3, "a reserved initial length"
    LENGTH_PAST_END = 4, "the length reaches past the section's end"
    NO_ROOM_FOR_ID = 5, "the length does not hold the id"
    AUGMENTATION_PAST_END = 6, "the augmentation data reaches past the record's end"
    UNKNOWN_OPCODE = 7, "the opcode is not defined"
    BLOCK_PAST_END = 8, "an expression reaches past the record's end"
    OFFSET_TOO_LARGE = 9, "an offset is too large for an address"
    REGISTER_TOO_LARGE = 10, "a register number above 65535"
    TOO_MANY_RULES = 11, "more than 256 registers have rules at once"
    NOTHING_REMEMBERED = 12, "DW_CFA_restore_state without a DW_CFA_remember_state"
    MOVES_BACK = 13, "the location moves back"
    BAD_OFFSET_SIZE = 14, "3 is no size of stack offsets"
    BAD_OFFSET_COUNT = 15, "not a number of data words that this version has"
    FRES_DESCEND = 16, "the start address is not above that of the FRE before"
    MIXED_RA_STATES = 17, "a return address signed in one way is changed in the other"


class EntryMark(IntEnum):
    """What stands for the CIE's offset in an entry that has none."""

    IS_CIE = -1
    IS_TERMINATOR = -2
    CIE_OUTSIDE = -3


class TextRow(IntEnum):
    """What a row is in text that says changes: nothing that can be said, nothing new, a change, a new beginning."""

    SKIPPED = 0
    SAME = 1
    DELTA = 2
    INIT = 3


class LineKind(IntEnum):
    """What a line of a symbol file is: with the longer of two heads, the shorter, or with numbers to be looked at."""

    LONGER = 0
    SHORTER = 1
    ODD = 2


class Filled(IntEnum):
    """The growing columns of the row kernel, as its `filled` counts them; FULL says which had no room."""

    ROWS = 0
    RULES = 1
    EXPRESSIONS = 2
    REMEMBERED = 3
    FULL = 4


class State(IntEnum):
    """A state that the row kernel has saved: for DW_CFA_remember_state, and as what FDEs of a CIE start from."""

    CFA_KIND = 0
    CFA_REGISTER = 1
    CFA_OFFSET = 2
    CFA_EXPRESSION = 3
    RA_STATE = 4
    FIRST_RULE = 5
    RULE_COUNT = 6
    ARGS_SIZE = 7


STATE_SIZE = len(State)
