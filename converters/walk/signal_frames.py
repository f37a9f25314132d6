"""The frames that Linux pushes for signals on AArch64 and s390x, where the code that returns from a handler has no call
frame information: it is on the stack, or in a page of an emulator.

Strategy: such code is recognised by its bytes, as in debuggers; the saved registers are at fixed offsets from
SP. On x86-64 the C library describes that code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...schemas.core_files.notes import (
    S390X_FIRST_FLOATING,
    S390X_FLOATING,
    WORD,
    FloatingS390x,
    RegistersAarch64,
    RegistersS390x,
)
from ...schemas.core_files.signal_frames import (
    RtSignalFrameS390x,
    SignalFrameAarch64,
    SignalFrameS390x,
    SigregsS390x,
)
from ...schemas.wire import offset_of
from ..arch.table import Architecture, unwind_registers
from .caller import ADDRESS_MASK, Caller, Frame

SOURCE = "signal frame"


class SignalFrame(NamedTuple):
    """The `code` at the PC, and where registers are saved: offsets from SP, by DWARF number."""

    code: bytes
    pc: int
    registers: dict[int, int]


def _aarch64() -> SignalFrame:
    registers = offset_of(SignalFrameAarch64, "registers")
    saved = {number: registers + WORD * number for number in range(32)}
    # mov x8, #__NR_rt_sigreturn; svc #0
    return SignalFrame(bytes.fromhex("681180d2 010000d4"), registers + offset_of(RegistersAarch64, "pc"), saved)


def _s390x(code: str, frame: type) -> SignalFrame:
    registers = offset_of(frame, "sigregs") + offset_of(SigregsS390x, "registers")
    general = registers + offset_of(RegistersS390x, "gprs")
    floating = offset_of(frame, "sigregs") + offset_of(SigregsS390x, "floating") + offset_of(FloatingS390x, "fprs")
    saved = {number: general + WORD * number for number in range(16)}
    saved |= {S390X_FIRST_FLOATING + at: floating + WORD * n for at, n in enumerate(S390X_FLOATING)}
    return SignalFrame(bytes.fromhex(code), registers + offset_of(RegistersS390x, "psw_addr"), saved)


# s390x: svc __NR_sigreturn and svc __NR_rt_sigreturn.
SIGNAL_FRAMES = {
    "aarch64": (_aarch64(),),
    "s390x": (_s390x("0a77", SignalFrameS390x), _s390x("0aad", RtSignalFrameS390x)),
}


def interrupted_frame(
    architecture: Architecture, frame: Frame, bytes_at: Callable[[int, int], bytes], read: Callable[[int, int], int]
) -> Caller | None:
    """The frame that a signal interrupted, if the code at the PC returns from a handler; else None."""
    stack_register = unwind_registers(architecture).sp if architecture.name in SIGNAL_FRAMES else -1
    stack_pointer = frame.registers.get(stack_register)
    for known in SIGNAL_FRAMES.get(architecture.name, ()):
        try:
            if stack_pointer is None or bytes_at(frame.pc, len(known.code)) != known.code:
                continue
            registers = {number: read(stack_pointer + offset, WORD) for number, offset in known.registers.items()}
            pc = read(stack_pointer + known.pc, WORD)
        except LookupError:
            continue
        # As for any frame, the CFA is defined by the caller's SP.
        cfa = (registers[stack_register] - architecture.caller_sp_offset) & ADDRESS_MASK
        return Caller(cfa, Frame(pc, registers), is_signal_frame=True, source=SOURCE)
    return None
