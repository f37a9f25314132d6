"""ELF symbols as Breakpad's PUBLIC records: one per address."""

from __future__ import annotations

import numpy as np

from ...schemas.breakpad.files import build_lines
from ...schemas.breakpad.records import Public
from ...schemas.text_records import bytes_from, text_from
from ..arrays import starts_of
from ..elf.function_symbols import FunctionSymbols
from ..strings import Strings
from .demangle import demangle_names

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
    names = printable_names(demangle_names(symbols.name))
    address = (symbols.address - np.uint64(load_address)).tolist()
    return build_lines(Public, symbols.m.tolist(), address, [0] * len(address), names)
