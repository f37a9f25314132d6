"""Functions of two files paired by name, for a comparison of two builds whose addresses differ.

Strategy: both functions of a pair get the same new address, and then the tables are compared as any two tables are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.data_classes import dataclass
from ..arrays import starts_of, values_at
from ..elf.function_symbols import FunctionSymbols
from ..table.lookup import NOTHING
from ..table.model import UnwindTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

BLOCK = 16  # pairs are at multiples of this


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """The paired functions, in the order of `name`. `tables` have only these, each pair at the same address; `address`
    u64, that of each pair in the tables; `original`: the addresses in each file; `unpaired`: for each file the indices
    of its other functions."""

    tables: tuple[UnwindTable, UnwindTable]
    name: tuple[str, ...]
    address: NDArray[np.uint64]
    original: tuple[NDArray[np.uint64], NDArray[np.uint64]]
    unpaired: tuple[NDArray[np.int64], NDArray[np.int64]]


def pair_by_symbol(tables: Sequence[UnwindTable], symbols: Sequence[FunctionSymbols]) -> Pairs:
    """Pair the functions of two tables that start at a symbol of the same name. Functions of one name are paired in
    order of address if both files have the same number of them, and otherwise not at all. Addresses of personality and
    LSDA are dropped: they differ between builds."""
    named = [_by_name(table, names) for table, names in zip(tables, symbols, strict=True)]
    found = [
        (name, one, other)
        for name, indices in named[0].items()
        if len(others := named[1].get(name, [])) == len(indices)
        for one, other in zip(indices, others, strict=True)
    ]
    chosen = [np.array([pair[side] for pair in found], np.int64) for side in (1, 2)]
    sizes = [table.functions.size[which] for table, which in zip(tables, chosen, strict=True)]
    blocks = (np.maximum(*sizes) // np.uint64(BLOCK) + np.uint64(1)).astype(np.int64)
    address = (starts_of(blocks)[:-1] * BLOCK).astype(np.uint64)
    moved = tuple(_at(table.select(which), address) for table, which in zip(tables, chosen, strict=True))
    original = tuple(table.functions.start[which] for table, which in zip(tables, chosen, strict=True))
    unpaired = tuple(np.setdiff1d(np.arange(len(table)), which) for table, which in zip(tables, chosen, strict=True))
    return Pairs(
        (moved[0], moved[1]),
        tuple(name for name, _, _ in found),
        address,
        (original[0], original[1]),
        (unpaired[0], unpaired[1]),
    )


def _by_name(table: UnwindTable, symbols: FunctionSymbols) -> dict[str, list[int]]:
    """The functions at symbols, by name, in order of address."""
    order = np.argsort(table.functions.start, kind="stable")
    start = table.functions.start[order]
    place = np.searchsorted(symbols.address, start)
    is_named = values_at(symbols.address, place, 0) == start
    place = np.where(is_named & (place < len(symbols.address)), place, NOTHING)
    found: dict[str, list[int]] = {}
    for function, symbol in zip(order.tolist(), place.tolist(), strict=True):
        if symbol != NOTHING:
            found.setdefault(symbols.name[symbol], []).append(function)
    return found


def _at(table: UnwindTable, address: NDArray[np.uint64]) -> UnwindTable:
    """The table with its functions at new addresses, and no addresses of personality and LSDA."""
    functions = table.functions
    nowhere = np.zeros_like(functions.lsda)
    functions = replace(functions, start=address, personality=nowhere, lsda=nowhere)
    return replace(table, functions=functions, code=())
