"""What kernels of debugging information entries and their callers agree on."""

from __future__ import annotations

from enum import IntEnum


class Role(IntEnum):
    """What an entry is for, by the tag in its abbreviation."""

    OTHER = 0
    FUNCTION = 1
    INLINED = 2
    SCOPE = 3  # its name qualifies those of the entries that it contains
