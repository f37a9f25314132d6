"""STACK WIN records: the caller's registers of a 32-bit x86 frame (Breakpad, Interpreting a STACK WIN record).

Strategy: a program string is run with the document's variables; for a record without one, the document's sums are a
program too (as in Breakpad's processor/stackwalker_x86.cc).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...schemas.arguments import check_address, check_callable, checked, each
from ...schemas.breakpad.records import Func, Public, StackWin
from ...schemas.breakpad.values import FrameType
from ...schemas.section import ParseError
from ...schemas.text_records import Record
from ..dwarf.expressions import ReadMemory
from .postfix.evaluate import run_postfix

WORD_SIZE = 4
RESULTS = ("$eip", "$esp", "$ebp", "$ebx", "$esi", "$edi")
# The types that are evaluated; the second is preferred.
EVALUATED = (FrameType.FPO, FrameType.FRAME_DATA)
# Breakpad's own variable: the parameter size of the called function.
CALLEE_PARAMETERS = ".cbCalleeParams"
# The programs of records without one, if %ebp is a general register, and if the function leaves it alone.
WITH_BASE_POINTER = (
    "$eip .raSearchStart ^ = $ebp $esp .cbCalleeParams + .cbSavedRegs + 8 - ^ = $esp .raSearchStart 4 + ="
)
WITHOUT_BASE_POINTER = "$eip .raSearchStart ^ = $ebp $ebp = $esp .raSearchStart 4 + ="


_check_records = each(StackWin)


@checked(address=check_address)
def stack_win_at(records: Iterable[StackWin], address: int) -> StackWin | None:
    """The record for an address, which is relative to the load address.

    FrameTypeFrameData wins over FrameTypeFPO, then the smaller range, then the first record. Other types are ignored.
    """
    listed = list(records)
    _check_records(listed, "records")
    found = [
        record
        for record in listed
        if record.type in EVALUATED and record.rva <= address < record.rva + record.code_size
    ]
    return min(found, key=lambda record: (-record.type, record.code_size), default=None)


@checked(address=check_address)
def parameter_size_at(records: Iterable[Record], address: int) -> int | None:
    """The parameter size of the function at an address, which is relative to the load address; None if no record gives
    it. This is `next_parameter_size` for the frame that called the function.

    A STACK WIN record that covers the address wins, as in Breakpad's and Mozilla's walkers, then a FUNC record, then
    the last PUBLIC record before it, unless a FUNC record starts in between.
    """
    wins: list[StackWin] = []
    function: Func | None = None
    symbol: Public | None = None
    for record in records:
        match record:
            case StackWin():
                wins.append(record)
            case Func() if record.address <= address and (function is None or record.address > function.address):
                function = record
            case Public() if record.address <= address and (symbol is None or record.address > symbol.address):
                symbol = record
    win = stack_win_at(wins, address)
    if win is not None:
        return win.parameter_size
    if function is not None and address < function.address + function.size:
        return function.parameter_size
    if symbol is not None and (function is None or symbol.address > function.address):
        return symbol.parameter_size
    return None


def program_of(record: StackWin) -> str:
    """The record's program string, or the one for its flag."""
    last = record.program_string_or_allocates_base_pointer
    if isinstance(last, str):
        return last
    return WITH_BASE_POINTER if last else WITHOUT_BASE_POINTER


def sizes_of(record: StackWin, next_parameter_size: int) -> dict[str, int]:
    """The variables of a program that are sizes."""
    return {
        ".cbParams": record.parameter_size,
        ".cbSavedRegs": record.saved_register_size,
        ".cbLocals": record.local_size,
        CALLEE_PARAMETERS: next_parameter_size,
    }


# The start of a search for the return address, in bytes from %esp: the frame size of the document. `.raSearch` is
# MSVC's name; Breakpad gives both the same value.
SEARCH_STARTS = (".raSearchStart", ".raSearch")


def frame_size(record: StackWin, next_parameter_size: int) -> int:
    """The bytes between %esp and the return address."""
    return record.local_size + record.saved_register_size + next_parameter_size


@checked(record=StackWin, registers=Mapping, memory=check_callable, next_parameter_size=check_address)
def caller_by_stack_win(
    record: StackWin, registers: Mapping[str, int], memory: ReadMemory, next_parameter_size: int = 0
) -> dict[str, int]:
    """The caller's registers that the record recovers, by name; `$eip` 0 is the end of the stack.

    `registers` are the frame's: `$esp` and `$ebp`, others if a program uses them. `next_parameter_size` is the
    parameter size of the function that this frame called (`parameter_size_at`), 0 in the innermost frame. Raises
    ParseError if the program fails or a register is missing, and whatever `memory` raises.
    """
    for name in ("$esp", "$ebp"):
        if name not in registers:
            raise ParseError("", None, "STACK WIN", f"{name} has no value")
    start = registers["$esp"] + frame_size(record, next_parameter_size)
    names = {**registers, **sizes_of(record, next_parameter_size), **dict.fromkeys(SEARCH_STARTS, start)}
    assigned = run_postfix(program_of(record), names, memory, WORD_SIZE)
    return {name: assigned[name] for name in RESULTS if name in assigned}
