"""Sentry's symbolic, of the package index: what it makes of ELF files and of symbol files.

Strategy: imported when it is asked, for tests that need it are skipped where it is absent.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any


def opened(path: Path) -> Any:
    """The one object of a file: an ELF file, or a symbol file."""
    (found,) = import_module("symbolic").Archive.open(str(path)).iter_objects()
    return found


def cfi_text(path: Path) -> str:
    """The STACK CFI lines that symbolic writes of a file; of a symbol file, those that it read."""
    text: bytes = opened(path).make_cficache().open_stream().read()
    return text.decode()


def name_at(path: Path, address: int) -> list[tuple[str, int]]:
    """The symbols at an address of a file, and where they begin."""
    return [(place.symbol, place.sym_addr) for place in opened(path).make_symcache().lookup(address)]


def refusal(path: Path) -> str:
    """Why it makes no STACK CFI of a file; "" where it does."""
    try:
        cfi_text(path)
    except import_module("symbolic").SymbolicError as error:
        return str(error)
    return ""
