"""What the kernels of SFrame and their callers agree on."""

from __future__ import annotations

from enum import IntEnum


class PaddingCode(IntEnum):
    """The instruction sets whose padding between functions is known."""

    X86_64 = 1
    AARCH64 = 2
    S390X = 3
