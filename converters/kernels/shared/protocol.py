"""What kernels of several formats and their callers agree on."""

from __future__ import annotations

from enum import IntEnum


class Storage(IntEnum):
    """How a value of a form is stored, as kernels take it: up to 16 it is the bytes that it takes; BLOCK + n is a
    length of n bytes and as many bytes, BLOCK such a length as ULEB128."""

    ULEB = 32
    SLEB = 33
    STRING = 34
    SECTION_OFFSET = 35
    # Only in root entries of units: the sizes are the unit's, DW_FORM_indirect is followed by the form, and the value
    # of DW_FORM_implicit_const is in the abbreviation.
    ADDRESS = 36
    REF_ADDR = 37
    INDIRECT = 38
    IMPLICIT_CONST = 39
    BLOCK = 64
    UNKNOWN = 255
