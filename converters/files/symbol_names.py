"""The names of code by the symbols of a file, for callers that need no debugging information.

Strategy: of a table of many symbols, only those at the addresses that are asked for become names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.data_classes import dataclass
from ..arrays import values_at
from ..elf.function_symbols import FunctionSymbols, function_symbols
from ..elf.image import ElfImage
from ..table.lookup import NOTHING

if TYPE_CHECKING:
    from numpy.typing import NDArray

    I64 = NDArray[np.int64]
    U64 = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class SourceFrame:
    """A function at an address, and the position in it: of the address, or of the call of the inlined frame before. The
    name and file are "" and the line is 0 if they are unknown."""

    function: str
    file: str
    line: int
    is_inlined: bool


def frames_of_symbols(image: ElfImage, pcs: U64) -> list[tuple[SourceFrame, ...]]:
    """The frame at each address, by symbols alone. Raises ParseError."""
    symbols = symbols_of_code(image, pcs)
    names = ["", *demangle_some(symbols.name)]
    return [(SourceFrame(names[index + 1], "", 0, False),) for index in symbols_at(symbols, pcs).tolist()]


def symbols_of_code(image: ElfImage, pcs: U64 | None = None) -> FunctionSymbols:
    """As `function_symbols`; those without a size extend to the end of their section, unless another one follows."""
    return _end_in_sections(function_symbols(image, pcs), *executable(image))


def _end_in_sections(symbols: FunctionSymbols, start: U64, end: U64) -> FunctionSymbols:
    """Symbols without a size extend to the end of their section, unless another one follows."""
    limit = values_at(end, np.searchsorted(start, symbols.address, side="right") - 1, 0)
    room = np.where(limit > symbols.address, limit - symbols.address, np.uint64(0))
    return replace(symbols, size=np.where(symbols.size > 0, symbols.size, room))


def symbols_at(symbols: FunctionSymbols, pc: U64) -> I64:
    """The symbol whose code each address is in; -1 for none."""
    place = np.searchsorted(symbols.address, pc, side="right") - 1
    inside = pc - values_at(symbols.address, place, 0) < values_at(symbols.size, place, 0)
    return np.where(inside, place, NOTHING)


def demangle_some(names: Sequence[str]) -> list[str]:
    """The names, demangled if they are mangled."""
    from ..breakpad.demangle import demangle_names  # most programs have no such names
    from ..breakpad.name_forms import MANGLED

    mangled = [name for name in names if name.startswith(MANGLED)]
    if not mangled:
        return list(names)
    demangled = dict(zip(mangled, demangle_names(mangled), strict=True))
    return [demangled.get(name, name) for name in names]


def executable(image: ElfImage) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Start and end of the executable sections, ascending and disjoint."""
    found = sorted((one.address, one.end_address) for one in image.sections if one.is_code and one.size)
    start, end = np.array(found, np.uint64).reshape(-1, 2).T
    reach = np.maximum.accumulate(end)
    begin = np.maximum(start, np.concatenate([np.zeros(1, np.uint64), reach])[:-1])
    return begin[begin < end], end[begin < end]
