"""Symbols of the linker as Breakpad's PUBLIC records: one an address.

Strategy: tables stay columns until names are chosen; strings are made of the chosen ones alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from elftools.elf.enums import ENUM_ST_INFO_BIND

from ...schemas.breakpad import Public
from ...schemas.breakpad_files import build_lines
from ..elf.image import ElfImage
from ..elf.symbols import defined_functions, strings_of
from .demangle import demangle_names

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Of several names for one address the one that people know: seen by others, without underscores in front (in C
# libraries such a name is often the weak one), short.
_UNPRINTABLE = str.maketrans("\0\r\n", "???")


@dataclass(frozen=True, slots=True, eq=False)
class PublicSymbols:
    """Functions of a symbol table: `address` u64 ascending, absolute; `m`: it has several names; `name` as linked."""

    address: NDArray[np.uint64]
    m: NDArray[np.bool_]
    name: list[str]

    @classmethod
    def none(cls) -> PublicSymbols:
        """No symbol."""
        return cls(np.zeros(0, np.uint64), np.zeros(0, np.bool_), [])

    def chosen(self, which: NDArray[np.bool_]) -> PublicSymbols:
        """Some of them."""
        names = [name for name, is_wanted in zip(self.name, which.tolist(), strict=True) if is_wanted]
        return PublicSymbols(self.address[which], self.m[which], names)


def public_symbols(image: ElfImage) -> PublicSymbols:
    """The functions of `.symtab`, or of `.dynsym` where there is none. Raises ParseError for broken tables."""
    for kind in ("SHT_SYMTAB", "SHT_DYNSYM"):
        for header in image.sections:
            if header.type == kind and not header.is_nobits:
                symbols, address = defined_functions(image, header)
                strings = strings_of(image, header)
                if len(symbols) and strings:
                    return _chosen(symbols, address, strings)
    return PublicSymbols.none()


def _chosen(symbols: NDArray[np.void], address: NDArray[np.uint64], strings: bytes) -> PublicSymbols:
    """One name for each address."""
    pool = np.frombuffer(strings, np.uint8)
    # A name may run to the end of the table, or be said to begin behind it.
    ends = np.append(np.flatnonzero(pool == 0), len(pool))
    start = np.minimum(symbols["name"].astype(np.int64), len(pool))
    size = ends[np.searchsorted(ends, start)] - start
    underscores = sum((pool[np.minimum(start + at, len(pool) - 1)] == ord("_")).astype(np.int64) for at in range(2))
    is_local = symbols["info"] >> 4 == ENUM_ST_INFO_BIND["STB_LOCAL"]
    order = np.lexsort((start, size, underscores, is_local, address))
    order = order[size[order] > 0]
    sorted_address = address[order]
    is_first = np.append(True, sorted_address[1:] != sorted_address[:-1])[: len(order)]
    first = np.flatnonzero(is_first)
    begin, end = start[order], start[order] + size[order]

    def names(which: NDArray[np.int64]) -> list[bytes]:
        return [strings[a:b] for a, b in zip(begin[which].tolist(), end[which].tolist(), strict=True)]

    several = np.zeros(len(first), np.bool_)
    count = np.diff(np.append(first, len(order)))
    for index in np.flatnonzero(count > 1).tolist():
        several[index] = len(set(names(np.arange(first[index], first[index] + count[index])))) > 1
    chosen = [name.decode("utf-8", "surrogateescape") for name in names(first)]
    return PublicSymbols(sorted_address[first], several, chosen)


def _printable(names: list[str]) -> list[str]:
    together = " ".join(names)
    is_odd = any(chr(one) in together for one in _UNPRINTABLE)
    return [name.translate(_UNPRINTABLE) for name in names] if is_odd else names


def public_lines(symbols: PublicSymbols, load_address: int) -> bytes:
    """PUBLIC records, with demangled names; a character that no line can hold becomes `?`."""
    names = _printable(demangle_names(symbols.name))
    address = (symbols.address - np.uint64(load_address)).tolist()
    return build_lines(Public, symbols.m.tolist(), address, [0] * len(address), names)
