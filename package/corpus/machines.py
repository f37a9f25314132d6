"""The machines that sections are drawn for."""

from __future__ import annotations

from ..converters.arch.table import ARCHITECTURES
from ..schemas.section import ByteOrder

# Every architecture in its usual byte order, and those that run in both.
MACHINES: tuple[tuple[str, ByteOrder], ...] = (
    *((one.name, one.byte_order) for one in ARCHITECTURES.values()),
    ("arm", "big"),
    ("mips", "little"),
    ("mips64", "little"),
    ("ppc64", "big"),
)
