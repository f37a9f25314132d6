"""ELF symbols as Breakpad's PUBLIC records: one per address."""

from __future__ import annotations

import numpy as np

from ...schemas.breakpad.files import build_lines
from ...schemas.breakpad.records import Public
from ..elf.function_symbols import FunctionSymbols
from .demangle import demangle_names

# Characters that a line of text cannot hold.
_UNPRINTABLE = str.maketrans("\0\r\n", "???")


def replace_unprintable(names: list[str]) -> list[str]:
    """The names, with `?` for each character that a line cannot hold."""
    joined = " ".join(names)
    has_any = any(chr(one) in joined for one in _UNPRINTABLE)
    return [name.translate(_UNPRINTABLE) for name in names] if has_any else names


def public_lines(symbols: FunctionSymbols, load_address: int) -> bytes:
    """PUBLIC records with demangled names; `?` replaces each character that a line cannot hold."""
    names = replace_unprintable(demangle_names(symbols.name))
    address = (symbols.address - np.uint64(load_address)).tolist()
    return build_lines(Public, symbols.m.tolist(), address, [0] * len(address), names)
