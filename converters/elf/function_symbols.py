"""The functions of symbol tables: one per address.

Strategy: symbols stay in columns until one name per address is chosen; a chosen name becomes a string when it is asked
for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, overload

import numpy as np

from ...schemas.data_classes import dataclass
from ...schemas.elf.numbers import STB_LOCAL
from ...schemas.steps import Step
from ...schemas.text_records import bytes_from, text_from
from ..arrays import run_starts
from ..strings import NO_STRINGS, Strings
from .image import ElfImage, ElfSection
from .symbols import defined_functions, name_ranges, strings_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

TOP = np.uint64((1 << 64) - 1)
MAX_NAME_OFFSET = np.uint64(0xFFFFFFFF)
# Of a constructor or destructor: complete, base, ... (Itanium C++ ABI 5.1.4.3).
_VARIANT = re.compile(rb"([CD])[0-9](?=[EI])")


@dataclass(frozen=True, slots=True, eq=False)
class SymbolNames(Sequence[str]):
    """Names as text; `strings` are their bytes, UTF-8. Two sequences are equal if their names are."""

    strings: Strings

    @classmethod
    def of(cls, names: Sequence[str]) -> SymbolNames:
        """The names of a sequence. Raises ValueError for surrogates that no bytes decode to."""
        return names if isinstance(names, SymbolNames) else cls(Strings.of(map(bytes_from, names)))

    def __len__(self) -> int:
        return len(self.strings)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> SymbolNames: ...

    def __getitem__(self, index: int | slice) -> str | SymbolNames:
        if isinstance(index, slice):
            return SymbolNames(self.strings[index])
        return text_from(self.strings[index])

    def __iter__(self) -> Iterator[str]:
        return map(text_from, self.strings)

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True, eq=False)
class FunctionSymbols:
    """Functions of a symbol table: `address` u64 ascending, absolute; `size` u64 in bytes, up to the next symbol at
    most, 0 if it is unknown; `m`: it has several names; `name`, mangled; `has_others`: other functions have the same
    code, and not only other variants of one constructor or destructor."""

    address: NDArray[np.uint64]
    size: NDArray[np.uint64]
    m: NDArray[np.bool_]
    name: Sequence[str]
    has_others: NDArray[np.bool_]

    @classmethod
    def empty(cls) -> FunctionSymbols:
        """No symbols."""
        return cls(
            np.zeros(0, np.uint64),
            np.zeros(0, np.uint64),
            np.zeros(0, np.bool_),
            SymbolNames(NO_STRINGS),
            np.zeros(0, np.bool_),
        )

    def select(self, which: NDArray[np.bool_]) -> FunctionSymbols:
        """The symbols where `which` is true."""
        names = SymbolNames(SymbolNames.of(self.name).strings.select(which))
        return FunctionSymbols(self.address[which], self.size[which], self.m[which], names, self.has_others[which])


def function_symbols(image: ElfImage, pcs: NDArray[np.uint64] | None = None) -> FunctionSymbols:
    """The functions of `.symtab`, or of `.dynsym` without one; with `pcs`, the last one at or before each of these.
    Raises ParseError for a malformed table.

    The `.symtab` in a `.gnu_debugdata` lacks the functions of `.dynsym`: there it is both.
    """
    with Step(f"symbols of {image.path}") as step:
        found = _read_symbols(image, pcs)
        step.count(len(found.name), "functions")
    return found


def _read_symbols(image: ElfImage, pcs: NDArray[np.uint64] | None) -> FunctionSymbols:
    for headers in _table_choices(image):
        tables = [(*defined_functions(image, header), strings_of(image, header)) for header in headers]
        begins = [0, *accumulate(len(strings) for _, _, strings in tables)]
        shifted = [_with_names_from(symbols, begin) for (symbols, _, _), begin in zip(tables, begins, strict=False)]
        symbols, strings = np.concatenate(shifted), b"".join(strings for _, _, strings in tables)
        if len(symbols) and strings:
            address = np.concatenate([address for _, address, _ in tables])
            return _choose_names(symbols, address, strings, headers[0].name, pcs)
    return FunctionSymbols.empty()


def _table_choices(image: ElfImage) -> Iterator[list[ElfSection]]:
    """The symbol tables to read together, the best choice first."""
    static, dynamic = (
        [one for one in image.sections if one.type == kind and not one.is_nobits]
        for kind in ("SHT_SYMTAB", "SHT_DYNSYM")
    )
    for header in static:
        part = image.part_of(header)
        yield [header] if part is None or part.is_whole else [header, *dynamic]
    yield from ([header] for header in dynamic)


def _with_names_from(symbols: NDArray[np.void], begin: int) -> NDArray[np.void]:
    """Symbols whose names are in a string table that starts at `begin` of a longer one."""
    moved = symbols.copy()
    moved["name"] = np.minimum(symbols["name"].astype(np.uint64) + np.uint64(begin), MAX_NAME_OFFSET)
    return moved


def _choose_names(
    symbols: NDArray[np.void], address: NDArray[np.uint64], strings: bytes, table: str, pcs: NDArray[np.uint64] | None
) -> FunctionSymbols:
    """One name per address: preferably global, without leading underscores (in C libraries a name with them is often
    the weak one), and short. Raises ParseError, about `table`.
    """
    pool = np.frombuffer(strings, np.uint8)
    start, size = name_ranges(symbols, strings, table)
    underscores = sum((pool[np.minimum(start + at, len(pool) - 1)] == ord("_")).astype(np.int64) for at in range(2))
    is_local = symbols["info"] >> 4 == STB_LOCAL
    order = np.lexsort((start, size, underscores, is_local, address))
    order = order[size[order] > 0]
    sorted_address = address[order]
    first = np.flatnonzero(run_starts(sorted_address))
    begin, end = start[order], start[order] + size[order]

    def names(which: NDArray[np.int64]) -> list[bytes]:
        return [strings[a:b] for a, b in zip(begin[which].tolist(), end[which].tolist(), strict=True)]

    found, count = sorted_address[first], np.diff(np.append(first, len(order)))
    largest = np.maximum.reduceat(symbols["size"][order].astype(np.uint64), first) if len(first) else found
    size = np.minimum(largest, np.append(found[1:], TOP)[: len(found)] - found)
    if pcs is not None:
        is_asked = _before(found, pcs)
        found, size, first, count = found[is_asked], size[is_asked], first[is_asked], count[is_asked]
    has_several, has_others = np.zeros(len(first), np.bool_), np.zeros(len(first), np.bool_)
    for index in np.flatnonzero(count > 1).tolist():
        distinct = set(names(np.arange(first[index], first[index] + count[index])))
        has_several[index] = len(distinct) > 1
        has_others[index] = len({_VARIANT.sub(rb"\1", name) for name in distinct}) > 1
    chosen = SymbolNames(Strings.within(pool, begin[first], (end - begin)[first]))
    return FunctionSymbols(found, size, has_several, chosen, has_others)


def _before(address: NDArray[np.uint64], pcs: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which of the ascending addresses is the last at or before one of the PCs."""
    count = np.searchsorted(address, pcs, side="right")
    which = np.zeros(len(address) + 1, np.bool_)
    which[count] = True
    return which[1:]
