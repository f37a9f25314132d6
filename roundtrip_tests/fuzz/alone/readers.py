"""The kernels' reader of bytes, as other kernels are given it."""

from __future__ import annotations

from typing import Any

from .contract import Rule, between
from .given import Given, array, number

SIGNED_MAX = (1 << 63) - 1
TOP = (1 << 64) - 1


def reader_values(prefix: str = "reader") -> tuple[str, ...]:
    """The numbers that may be any, beside `data`."""
    return f"{prefix}.big", f"{prefix}.address", f"{prefix}.bases"


def reader_rules(prefix: str = "reader") -> tuple[Rule, ...]:
    """What callers guarantee: the sizes of formats are the schema's, which is why `sizes` is fixed."""
    return between(f"{prefix}.big", 0, 1), between(f"{prefix}.address", 0, TOP)


def reader_of(kernels: Any, given: Given, prefix: str = "reader") -> Any:
    """A reader at the start of its bytes; `bases` is a copy, because kernels change it."""
    arrays = array(given, f"{prefix}.data"), array(given, f"{prefix}.sizes"), array(given, f"{prefix}.bases").copy()
    big, address = number(given, f"{prefix}.big"), number(given, f"{prefix}.address")
    return kernels.shared.reads.Reader(big, address, *(one.data for one in arrays))
