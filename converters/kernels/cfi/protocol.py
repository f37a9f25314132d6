"""What kernels of call frame information and their callers agree on."""

from __future__ import annotations

from enum import IntEnum

from ....schemas import cfi


class EntryMark(IntEnum):
    """What an entry without a CIE offset has in its place."""

    IS_CIE = -1
    IS_TERMINATOR = -2
    CIE_OUTSIDE = -3


class Filled(IntEnum):
    """The growing columns of the row kernel, as its `filled` counts them; FULL is the one that had no space."""

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


# The row's values (the schema's `ROW_VALUES`, in that order) follow them.
STATE_SIZE = len(State) + len(cfi.ROW_VALUES)
NO_VALUE = 255  # of an effect that sets no such value
