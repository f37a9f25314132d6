"""The kinds of rules in a row, and the limits of a row (DWARF5 6.4.1).

Strategy: plain integers, shared by the table and by the kernels that fill it.
"""

from __future__ import annotations

from enum import IntEnum


class CfaKind(IntEnum):
    """The kind of a row's CFA rule."""

    NONE = 0
    REGISTER = 1  # register + offset
    EXPRESSION = 2


class RuleKind(IntEnum):
    """The kind of a register rule: how to recover the caller's value of a register."""

    UNSPECIFIED = 0  # no rule; the ABI's default applies
    UNDEFINED = 1
    SAME_VALUE = 2
    OFFSET = 3  # saved at CFA + N
    VAL_OFFSET = 4  # the value is CFA + N
    REGISTER = 5
    EXPRESSION = 6  # saved at the address that the expression computes
    VAL_EXPRESSION = 7
    ARCHITECTURAL = 8


class RaState(IntEnum):
    """Whether the return address is signed (AArch64)."""

    PLAIN = 0
    SIGNED = 1
    SIGNED_WITH_PC = 3


# A signal trampoline of ppc64 has about a hundred rules; no ABI has higher register numbers.
MAX_LIVE_RULES = 256
MAX_REGISTER = 0xFFFF

# Greater offsets and advances cannot be addresses; sums of smaller ones do not overflow 64 bits.
MAX_OFFSET = 1 << 61
