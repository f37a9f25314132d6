"""Faults in the input: numbers that a kernel returns, each with its sentence."""

from __future__ import annotations

from ..findings import Worded


class Fault(Worded):
    """A fault in the input, with the sentence that follows the record's path in an error."""

    CUT = 1, "the record ends inside a value"
    LEB_TOO_LARGE = 2, "a LEB128 does not fit 64 bits"
    RESERVED_LENGTH = 3, "a reserved initial length"
    LENGTH_PAST_END = 4, "the length reaches past the section's end"
    ID_PAST_END = 5, "the length does not hold the id"
    AUGMENTATION_PAST_END = 6, "the augmentation data reaches past the record's end"
    UNKNOWN_OPCODE = 7, "the opcode is not defined"
    BLOCK_PAST_END = 8, "an expression reaches past the record's end"
    OFFSET_TOO_LARGE = 9, "an offset is too large for an address"
    REGISTER_TOO_LARGE = 10, "a register number above 65535"
    TOO_MANY_RULES = 11, "more than 256 registers have rules at once"
    NOTHING_REMEMBERED = 12, "DW_CFA_restore_state without a DW_CFA_remember_state"
    MOVES_BACK = 13, "the location moves backwards"
    BAD_OFFSET_SIZE = 14, "3 is not a valid size of stack offsets"
    BAD_OFFSET_COUNT = 15, "this version does not allow this number of data words"
    FRES_DESCEND = 16, "the start address is not above that of the previous FRE"
    MIXED_RA_STATES = 17, "the return address is signed with one scheme and changed with the other"
    NO_ZERO_BYTE = 30, "the string has no terminating zero byte"
    UNDEFINED_FORM = 31, "the form of an operand is not defined"
    UNDEFINED_VERSION = 32, "unknown version"
    NOT_ENDED = 33, "the unit has no terminating opcode 0"

    # Of line number programs.
    NO_OPCODE = 40, "the length of an extended instruction holds no opcode"
    INSTRUCTION_PAST_END = 41, "the length of an extended instruction reaches past the program's end"
    BAD_ADDRESS_SIZE = 42, "an address size of 0 or above 8"
    REGISTER_OVERFLOW = 43, "a register does not fit 32 bits"
    ADDRESS_DESCENDS = 44, "the address decreases within a sequence"
    SEQUENCE_NOT_ENDED = 45, "the program ends inside a sequence"
    UNKNOWN_FORM = 46, "unknown form of a value"
    NO_FORMAT = 47, "entries without a format"
    NO_STANDARD_OPCODE = 48, "needs a standard opcode that opcode_base makes a special one"
    UNREACHABLE = 49, "no instruction leads to its op_index"
    ADDRESS_TOO_LARGE = 50, "an address does not fit the unit's address_size"

    # Of abbreviations and root entries of units.
    NO_ABBREVIATION = 60, "the abbreviation of the root entry is missing"
    TABLES_OVERLAP = 61, "tables of abbreviations overlap"
    TOO_MANY_ATTRIBUTES = 62, "the root entry has more than 256 attributes"

    # Of debugging information entries and the lists of their address ranges.
    NO_ENTRY = 63, "there is no entry"
    TOO_DEEP = 64, "entries nest more than 4,096 deep"
    RANGES_OVERLAP = 65, "lists of address ranges repeat the same bytes too often"
    UNKNOWN_RANGE = 66, "the type of an entry in a range list is not defined"
    NO_ADDRESS = 67, "there is no address of that index in .debug_addr"
    NO_RANGE_LISTS = 68, "the section of range lists is missing"
