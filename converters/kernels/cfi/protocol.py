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


class Shown(IntEnum):
    """How a line shows an operand: WITH_SIGN is decimal with a sign in any case; BLOCK, the text of an expression."""

    NOTHING = 0
    REGISTER = 1
    DECIMAL = 2
    UNSIGNED = 3
    WITH_SIGN = 4
    BLOCK = 5


class Form(IntEnum):
    """The line of an instruction: the word before the first operand, how it is `Shown`, the word after it, and the same
    of the second operand. Word 0 is empty."""

    BEFORE = 0
    FIRST = 1
    AFTER_FIRST = 2
    SECOND = 3
    AFTER_SECOND = 4


class RunStatus(IntEnum):
    """Why the text of runs ends: it is complete; or the kernel waits for more space, or for an expression's text."""

    DONE = 0
    FAULT = 1
    FULL = 2
    BLOCK = 3


class HeadingWord(IntEnum):
    """The words around the numbers in the heading of an FDE, and before augmentation data."""

    AFTER_NUMBER = 0
    BEFORE_CIE = 1
    BEFORE_PC = 2
    BEFORE_END = 3
    AFTER_HEADING = 4
    BEFORE_DATA = 5


HEADING_WORDS = (b" ", b" FDE cie=", b" pc=", b"..", b"\n", b"  Augmentation data:    ")
# readelf breaks lines of augmentation data that do not fit 80 columns.
DATA_BYTES_AFTER_HEADING = (80 - len(HEADING_WORDS[HeadingWord.BEFORE_DATA])) // 3
DATA_BYTES_PER_LINE = 80 // 3
