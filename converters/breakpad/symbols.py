"""The unwind information of a symbol file: STACK WIN records, and STACK CFI records at the PCs that they do not cover.

Strategy: this is the order in which Breakpad's and Mozilla's stack walkers use them. STACK WIN records are for x86.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...schemas.data_classes import dataclass
from ..refusals import RefusedRecords
from ..table.cut import overlay
from ..table.model import UnwindTable
from .stack_cfi.read import from_stack_cfi
from .stack_win_read import ARCHITECTURE, PREFIX, from_stack_win

if TYPE_CHECKING:
    from ..arch.table import Architecture


@dataclass(frozen=True, slots=True, eq=False)
class SymbolFrames:
    """The `table` of a symbol file, and the STACK WIN records `refused`."""

    table: UnwindTable
    refused: RefusedRecords


def read_symbols(data: bytes, architecture: Architecture, load_address: int = 0) -> SymbolFrames:
    """The frames of a symbol file, or of the part of one that is about unwinding. Raises as `from_stack_cfi`."""
    rules = from_stack_cfi(data, architecture.name, load_address)
    if architecture is not ARCHITECTURE or not (data.startswith(PREFIX) or b"\n" + PREFIX in data):
        return SymbolFrames(rules, RefusedRecords.defaults(0))
    table, refused = from_stack_win(data, load_address)
    return SymbolFrames(overlay(table, rules) if len(rules) else table, refused)
