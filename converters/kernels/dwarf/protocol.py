"""What kernels of debugging information entries and their callers agree on."""

from __future__ import annotations

from enum import IntEnum


class Role(IntEnum):
    """What an entry is for, by its abbreviation: the tag, and whether it has an attribute for code."""

    OTHER = 0
    FUNCTION = 1
    INLINED = 2
    SCOPE = 3  # its name qualifies those of the entries that it contains
    DECLARATION = 4  # a function without code
