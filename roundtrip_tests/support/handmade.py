"""Call frame sections assembled from bytes given as hex, and short names for the resulting rows.

Strategy: only lengths and CIE pointers are computed here; all that a test is about is in its hex text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.converters.cfi.read import table_from_cfi
from unwindkit.converters.rules import CfaKind, RaState, RuleKind
from unwindkit.converters.table.model import CfaRule, Function, RegisterRule, Row, UnwindTable
from unwindkit.schemas.cfi import DEBUG_FRAME, EH_FRAME, Dialect
from unwindkit.schemas.section import ByteOrder, FormatError, Section


def octets(text: str) -> bytes:
    """Bytes written as hex; what follows `#` on a line is a comment."""
    return bytes.fromhex(" ".join(line.partition("#")[0] for line in text.splitlines()))


# Version 1, no augmentation, code alignment factor 1, data alignment factor -8, return address in register 16.
PLAIN_CIE = "01 00 01 78 10"
# The same with augmentation "zR" and one byte of data: the encoding is appended.
ENCODED_CIE = "01 7a5200 01 78 10 01"
# How every x86-64 CIE continues: def_cfa r7+8, offset r16 1 (saved at CFA-8).
X86_64_START = "0c 07 08  90 01"


@dataclass(frozen=True, slots=True)
class Fde:
    """An FDE with addresses of eight bytes; `tail` is all that follows the address range, as hex."""

    start: int
    size: int
    tail: str = ""


def entry(body: bytes, byte_order: ByteOrder = "little") -> bytes:
    """A body with its 32-bit length before it."""
    return len(body).to_bytes(4, byte_order) + body


def eh_frame(cie: str, *fdes: Fde, byte_order: ByteOrder = "little") -> bytes:
    """One CIE (`cie` is what follows its id, as hex) and its FDEs, as in `.eh_frame`."""
    data = entry(bytes(4) + octets(cie), byte_order)
    for fde in fdes:
        pointer = len(data) + 4
        header = b"".join(
            value.to_bytes(size, byte_order) for value, size in ((pointer, 4), (fde.start, 8), (fde.size, 8))
        )
        data += entry(header + octets(fde.tail), byte_order)
    return data


def table_of_bytes(
    data: bytes,
    architecture: str = "x86_64",
    address: int = 0,
    byte_order: ByteOrder = "little",
    dialect: Dialect = EH_FRAME,
    address_size: int = 8,
) -> UnwindTable:
    """The table read from the bytes of a section."""
    section = Section.of(dialect.name, data, address, byte_order, address_size)
    return table_from_cfi(section, dialect, ARCHITECTURES[architecture])


def debug_frame_table(data: bytes, architecture: str, byte_order: ByteOrder, address_size: int) -> UnwindTable:
    """Like `table_of_bytes`, for `.debug_frame`."""
    return table_of_bytes(data, architecture, 0, byte_order, DEBUG_FRAME, address_size)


def rows_of(
    instructions: str, cie: str = PLAIN_CIE, size: int = 0x100, architecture: str = "x86_64"
) -> tuple[Row, ...]:
    """The rows of one function at 0x1000 with these instructions."""
    return only(table_of_bytes(eh_frame(cie, Fde(0x1000, size, instructions)), architecture)).rows


def only(table: UnwindTable) -> Function:
    """The one function of a table."""
    (function,) = table
    return function


def sp(offset: int) -> CfaRule:
    """The CFA is x86-64's stack pointer plus an offset."""
    return on(7, offset)


def on(register: int, offset: int) -> CfaRule:
    """The CFA is a register plus an offset."""
    return CfaRule(CfaKind.REGISTER, register, offset)


def at(register: int, offset: int) -> RegisterRule:
    """A register is saved at an offset in bytes from the CFA."""
    return RegisterRule(register, RuleKind.OFFSET, offset)


NO_CFA = CfaRule(CfaKind.NONE)


def row(offset: int, cfa: CfaRule, *registers: RegisterRule, ra_state: RaState = RaState.PLAIN) -> Row:
    """A row with its register rules one by one."""
    return Row(offset, cfa, registers, ra_state)


def place(error: FormatError) -> tuple[str, int | None, str]:
    """Section, offset and record of an error."""
    return error.section, error.offset, error.record


def starts(rows: Iterable[Row]) -> list[int]:
    """The offsets of rows."""
    return [row.offset for row in rows]
