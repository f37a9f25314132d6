"""Sentry's symbolic, from the package index: how it reads ELF files and symbol files.

Strategy: imported on first use, so that tests that need it are skipped where it is missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any


def opened(path: Path) -> Any:
    """The one object of a file: an ELF file, or a symbol file."""
    (found,) = import_module("symbolic").Archive.open(str(path)).iter_objects()
    return found


def cfi_text(path: Path) -> str:
    """The STACK CFI lines that symbolic writes for a file; for a symbol file, those that it read."""
    text: bytes = opened(path).make_cficache().open_stream().read()
    return text.decode()


def names_at(path: Path, addresses: Iterable[int]) -> dict[int, tuple[str, int]]:
    """The symbol at each address of a file, and where it begins."""
    names = opened(path).make_symcache()
    found = {address: names.lookup(address)[0] for address in addresses}
    return {address: (place.symbol, place.sym_addr) for address, place in found.items()}


def refusal(path: Path) -> str:
    """Why it makes no STACK CFI for a file; "" if it does."""
    try:
        cfi_text(path)
    except import_module("symbolic").SymbolicError as error:
        return str(error)
    return ""
