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
    NO_ZERO_BYTE = 30, "no zero byte ends the text"
    UNDEFINED_FORM = 31, "the form of an operand is not defined"
    UNDEFINED_VERSION = 32, "the version is none that is defined"
    NOT_ENDED = 33, "no opcode of 0 ends the unit"

    # Of line number programs.
    NO_OPCODE = 40, "the length of an extended instruction holds no opcode"
    INSTRUCTION_PAST_END = 41, "the length of an extended instruction reaches past the program's end"
    BAD_ADDRESS_SIZE = 42, "an address of no byte, or of more than 8"
    REGISTER_OVERFLOW = 43, "a register does not fit 32 bits"
    ADDRESS_DESCENDS = 44, "the address goes down within a sequence"
    SEQUENCE_NOT_ENDED = 45, "the program ends inside a sequence"
    UNKNOWN_FORM = 46, "the form of a value is not known"
    NO_FORMAT = 47, "entries without a format"
    NO_STANDARD_OPCODE = 48, "needs a standard opcode that opcode_base makes a special one"
    UNREACHABLE = 49, "no instruction leads to its op_index"
    ADDRESS_TOO_LARGE = 50, "an address does not fit the unit's address_size"


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


class UnitField(IntEnum):
    """What kernels are told of a unit of `.debug_line`: section offsets, sizes in bytes, and the header's fields."""

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


class Storage(IntEnum):
    """How a value of a form is stored, as kernels take it: up to 16 it is the bytes that it takes; BLOCK + n is a
    length of n bytes and as many bytes, BLOCK such a length as ULEB128."""

    ULEB = 32
    SLEB = 33
    STRING = 34
    SECTION_OFFSET = 35
    BLOCK = 64
    UNKNOWN = 255


class Event(IntEnum):
    """What a kernel says of each line number instruction that it ran, in 64 bits each.

    ADVANCE is by how much the address went on, in bytes, or the operation pointer where instructions hold several; LINE
    and ADDRESS are the registers behind it; VIEW counts rows of one address, this one not; WORD is left to callers.
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


class Step(IntEnum):
    """A piece of a template: a word, the word that a value names, or a value as a number."""

    WORD = 0
    WORD_OF = 1
    UNSIGNED = 2
    SIGNED = 3
    HEXADECIMAL = 4  # with 0x, but for 0
    DIGITS = 5  # hexadecimal digits, zeros in front of them
