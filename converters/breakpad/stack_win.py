"""STACK WIN records: the caller's registers of a 32-bit x86 frame (Breakpad, Interpreting a STACK WIN record).

Strategy: a program string is run with the document's variables; a record without one uses the document's sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum

from ...schemas.breakpad import StackWin
from ...schemas.section import ParseError
from ..dwarf.expressions import ReadMemory
from .postfix.evaluate import run_postfix

WORD_SIZE = 4
_MASK = (1 << 8 * WORD_SIZE) - 1
RESULTS = ("$eip", "$esp", "$ebp", "$ebx", "$esi", "$edi")


class FrameType(IntEnum):
    """The record types that are evaluated (StackFrameTypeEnum)."""

    FPO = 0
    FRAME_DATA = 4


def stack_win_at(records: Iterable[StackWin], address: int) -> StackWin | None:
    """The record for an address, which is relative to the load address.

    FrameTypeFrameData wins over FrameTypeFPO, then the smaller range, then the first record. Other types are ignored.
    """
    found = [
        record
        for record in records
        if record.type in tuple(FrameType) and record.rva <= address < record.rva + record.code_size
    ]
    return min(found, key=lambda record: (-record.type, record.code_size), default=None)


def caller_by_stack_win(
    record: StackWin, registers: Mapping[str, int], memory: ReadMemory, next_parameter_size: int = 0
) -> dict[str, int]:
    """The caller's registers that the record recovers, by name; `$eip` 0 is the end of the stack.

    `registers` are the frame's: `$esp` and `$ebp`, others if a program uses them. `next_parameter_size` is the
    parameter size of the function that this frame called, 0 in the innermost frame. Raises ParseError if the program
    fails or a register is missing, and whatever `memory` raises.
    """
    for name in ("$esp", "$ebp"):
        if name not in registers:
            raise ParseError("", None, "STACK WIN", f"{name} has no value")
    esp = registers["$esp"]
    frame_size = record.local_size + record.saved_register_size + next_parameter_size
    last = record.program_string_or_allocates_base_pointer
    if isinstance(last, str):
        names = {
            **registers,
            ".cbParams": record.parameter_size,
            ".cbSavedRegs": record.saved_register_size,
            ".cbLocals": record.local_size,
            ".raSearchStart": esp + frame_size,
            ".raSearch": esp + frame_size,  # MSVC's name; Breakpad gives both the same value
        }
        assigned = run_postfix(last, names, memory, WORD_SIZE)
        return {name: assigned[name] for name in RESULTS if name in assigned}
    ebp = registers["$ebp"]
    if last:
        ebp = memory(esp + next_parameter_size + record.saved_register_size - 8 & _MASK, WORD_SIZE)
    return {
        "$eip": memory(esp + frame_size & _MASK, WORD_SIZE),
        "$esp": esp + frame_size + 4 & _MASK,
        "$ebp": ebp,
    }
