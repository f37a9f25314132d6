"""ELF symbols as Breakpad's PUBLIC records: one per address."""

from __future__ import annotations

import numpy as np

from ...schemas.breakpad.files import build_lines
from ...schemas.breakpad.records import Public
from ...schemas.text_records import bytes_from, text_from
from ..arrays import starts_of
from ..bulk_text import Pool, add_hexadecimal
from ..elf.function_symbols import FunctionSymbols, SymbolNames
from ..strings import Strings
from .demangle import demangle_symbols

# Characters that a line of text cannot hold.
_UNPRINTABLE = b"\0\r\n"


def printable(names: Strings) -> Strings:
    """The names, with `?` for each character that a line cannot hold; in one buffer."""
    data = np.frombuffer(names.join(np.arange(len(names))), np.uint8)
    wrong = np.flatnonzero(data <= max(_UNPRINTABLE))
    wrong = wrong[np.isin(data[wrong], np.frombuffer(_UNPRINTABLE, np.uint8))]
    if len(wrong):
        data = data.copy()
        data[wrong] = ord("?")
    return Strings.within(data, starts_of(names.size)[:-1], names.size)


def printable_names(names: list[str]) -> list[str]:
    """The names, with `?` for each character that a line cannot hold."""
    return list(map(text_from, printable(Strings.of(map(bytes_from, names)))))


def public_lines(symbols: FunctionSymbols, load_address: int) -> bytes:
    """PUBLIC records with demangled names; `?` replaces each character that a line cannot hold."""
    names = printable(demangle_symbols(SymbolNames.of(symbols.name).strings))
    # What comes before and after the address: the record of a symbol without name at address 0 has both.
    parts = [build_lines(Public, [m], [0], [0], [""]).rstrip(b"\n").partition(b" 0") for m in (False, True)]
    pool = Pool([*(head + b" " for head, _, _ in parts), parts[0][2], b"\n"])
    pieces = np.empty((len(names), 5), np.int64)
    pieces[:, 0] = symbols.m
    pieces[:, 1] = add_hexadecimal(pool, symbols.address - np.uint64(load_address))
    pieces[:, 2] = len(parts)
    pieces[:, 3] = pool.add_strings(names) + np.arange(len(names))
    pieces[:, 4] = len(parts) + 1
    return pool.join(pieces.reshape(-1))
