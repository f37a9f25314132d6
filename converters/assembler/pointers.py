"""Personality and LSDA pointers as directives: their encodings, and the symbols that they refer to.

Strategy: a PC-relative pointer is a symbol at a distance from the text's base, so it moves with the text; others are
numbers. A personality keeps its encoding if GNU as accepts it; the table has no encoding of an LSDA to keep.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...schemas.data_classes import dataclass
from ...schemas.pointers import APPLICATION_MASK, DW_EH_PE, FORMAT_MASK
from ..arch.table import assembler_of
from ..kernels.calls import pointer_sizes
from ..table.model import FunctionColumns, FunctionFlag, UnwindTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The largest distance from the base to the end of the last function. The rest of the 2 GiB that a 4-byte offset can
# span is for `.eh_frame` itself.
REACH = 0x7000_0000
_OFFSET4 = 1 << 31
LSDA, PERSONALITY = "lsda", "personality"  # as in .cfi_lsda and .cfi_personality


@dataclass(frozen=True, slots=True, eq=False)
class Pointers:
    """The pointers of one kind, by function: `encoding` u8, DW_EH_PE as written (omit if it has none); `address` u64.

    If `is_relocatable`, the addresses are offsets in sections of a relocatable file.
    """

    kind: str
    encoding: NDArray[np.uint8]
    address: NDArray[np.uint64]
    is_relocatable: bool

    def are_numbers(self) -> NDArray[np.bool_]:
        """Which pointers are written as numbers, not as a distance from a symbol."""
        is_absolute: NDArray[np.bool_] = self.encoding & APPLICATION_MASK == DW_EH_PE.absptr
        return is_absolute & (not self.is_relocatable)

    def are_null(self) -> NDArray[np.bool_]:
        """Which pointers are 0, which readers take for no pointer."""
        is_null: NDArray[np.bool_] = (self.encoding != DW_EH_PE.omit) & self.are_numbers() & (self.address == 0)
        return is_null

    def are_far(self) -> NDArray[np.bool_]:
        """Which pointers are section offsets beyond what a section of a relocatable file may have."""
        is_far: NDArray[np.bool_] = (self.encoding != DW_EH_PE.omit) & (self.address > REACH)
        return is_far & self.is_relocatable


@dataclass(frozen=True, slots=True)
class PointerTexts:
    """`lines` are the distinct directives, the first one empty; `of_function` i64 has the index of each function's;
    `definitions` is the text that defines their symbols."""

    lines: list[bytes]
    of_function: NDArray[np.int64]
    definitions: bytes


def lsdas(table: UnwindTable) -> Pointers:
    """The LSDA pointers, as wide as an address, so that they reach every address."""
    functions = table.functions
    takes_pcrel = assembler_of(table.architecture).pc_relative
    has_one = (functions.flags & FunctionFlag.HAS_LSDA) > 0
    encoding = np.where(has_one, np.uint8(DW_EH_PE.pcrel if takes_pcrel else DW_EH_PE.absptr), np.uint8(DW_EH_PE.omit))
    return Pointers(LSDA, encoding, functions.lsda, bool(functions.section.any()))


def personalities(table: UnwindTable, base: int) -> Pointers:
    """The personality pointers. An encoding that as does not accept, or that cannot hold the value, becomes absptr."""
    functions = table.functions
    encoding, address = functions.personality_encoding, functions.personality
    size = pointer_sizes()[encoding & FORMAT_MASK].astype(np.int64)
    size[size == 0] = table.address_size
    application = encoding & APPLICATION_MASK
    is_signed = (encoding & DW_EH_PE.signed) > 0
    low, high = _range_of_places(functions, base)
    distance = signed(address - np.uint64(base), table.address_size)
    is_near = is_signed & (distance >= low) & (distance < high)
    limit = np.where(is_signed, _OFFSET4, 0).astype(np.uint64)
    is_small = address + limit < np.uint64(2 * _OFFSET4)
    fits = (size == table.address_size) | ((size == 4) & np.where(application == DW_EH_PE.pcrel, is_near, is_small))
    takes = application == DW_EH_PE.absptr
    if assembler_of(table.architecture).pc_relative:
        takes |= application == DW_EH_PE.pcrel
    plain = DW_EH_PE.absptr | encoding & DW_EH_PE.indirect
    written = np.where((encoding == DW_EH_PE.omit) | (takes & fits), encoding, plain).astype(np.uint8)
    return Pointers(PERSONALITY, written, address, bool(functions.section.any()))


def _range_of_places(functions: FunctionColumns, base: int) -> tuple[int, int]:
    """The distances from the base that a 4-byte offset can span, from an `.eh_frame` after the last function."""
    place = functions.start - np.uint64(base)
    end = int((place + functions.size)[~is_far(functions, base)].max(initial=0))
    return end - REACH, end + _OFFSET4


def is_far(functions: FunctionColumns, base: int) -> NDArray[np.bool_]:
    """Which functions are further than REACH from the base."""
    place, reach = functions.start - np.uint64(base), np.uint64(REACH)
    is_outside: NDArray[np.bool_] = (place > reach) | (functions.size > reach - np.minimum(place, reach))
    return is_outside


def signed(values: NDArray[np.uint64], address_size: int) -> NDArray[np.int64]:
    """Differences of addresses as signed numbers of the address size."""
    unused = np.uint64(64 - 8 * address_size)
    return (values << unused).view(np.int64) >> unused.astype(np.int64)


def pointer_texts(table: UnwindTable, pointers: Pointers, order: NDArray[np.int64], base: int) -> PointerTexts:
    """The directives of the functions `order`; the result's `of_function` is in that order."""
    anchor = POINTED_LABEL if pointers.is_relocatable else label(0, base)
    is_number, encoding = pointers.are_numbers()[order], pointers.encoding[order]
    origin = np.where(is_number, 0, base).astype(np.uint64)
    value = signed(pointers.address[order] - origin, table.address_size)
    shown = np.flatnonzero(encoding != DW_EH_PE.omit)
    columns = (encoding, is_number, value)
    keys, number = np.unique(
        np.stack([column[shown].astype(np.int64) for column in columns], axis=1), axis=0, return_inverse=True
    )
    lines, definitions = [b""], []
    for index, (form, is_plain, distance) in enumerate(keys.tolist()):
        symbol, visible = f"{anchor}_{pointers.kind}{index}", ""
        if pointers.kind == PERSONALITY and not is_plain:
            # ld merges CIEs whose personalities are the same local symbol, even with different offsets.
            symbol = symbol.removeprefix(".L")
            visible = f"\t.globl {symbol}\n\t.hidden {symbol}\n"
        lines.append(f"\t.cfi_{pointers.kind} {form:#x}, {symbol}\n".encode())
        target = f"{distance:#x}" if is_plain else f"{anchor}{distance:+#x}"
        definitions.append(f"{visible}\t.set {symbol}, {target}\n")
    of_function = np.zeros(len(order), np.int64)
    of_function[shown] = number.reshape(-1) + 1
    return PointerTexts(lines, of_function, "".join(definitions).encode())


POINTED_LABEL = ".Lunwound_pointed"


def pointed_section(texts: list[PointerTexts], pointers: tuple[Pointers, ...]) -> bytes:
    """The one section that all pointers of a relocatable file refer to: the table does not have their sections."""
    if not pointers[0].is_relocatable or not any(one.definitions for one in texts):
        return b""
    end = max(int(one.address[one.address <= REACH].max(initial=0)) for one in pointers) + 1
    return f'\t.section .unwound.pointed, "a", %nobits\n{POINTED_LABEL}:\n\t.skip {end}\n'.encode()


def label(section: int, base: int) -> str:
    """The symbol of a section's first byte; `section` is its index in a relocatable file, else 0."""
    return f".Lunwound{section or ''}_{base:x}"
