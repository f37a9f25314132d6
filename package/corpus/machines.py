"""The machines that sections are drawn for."""

from __future__ import annotations

from functools import cache

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


@cache
def machines_without(names: frozenset[str]) -> tuple[tuple[str, ByteOrder], ...]:
    """Those whose architecture is not one of these names."""
    return tuple(one for one in MACHINES if one[0] not in names)
