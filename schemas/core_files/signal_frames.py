"""What Linux pushes on the stack for a signal (arch/*/kernel/signal.c), up to the registers that it interrupted.

Strategy: one record for each machine and kind of frame, from the stack pointer at the handler's first instruction on
(x86-64), or at the code that the handler returns to.
"""

from __future__ import annotations

from ..wire import U8, U16, U32, U64, Nested, Repeated, record, wire
from .notes import FloatingS390x, RegistersAarch64, RegistersS390x


@record
class UcontextHeader:
    """struct ucontext up to the registers, where these come before uc_sigmask."""

    uc_flags: int = wire(U64, "flags")
    uc_link: int = wire(U64, "0")
    uc_stack: tuple[int, ...] = wire(Repeated(U64, 3), "stack_t")


@record
class SignalFrameX86_64:
    """struct rt_sigframe up to rip. Its ucontext is the handler's third argument."""

    pretcode: int = wire(U64, "return address of the handler")
    ucontext: UcontextHeader = wire(Nested(UcontextHeader), "uc_flags, uc_link, uc_stack")
    general: tuple[int, ...] = wire(Repeated(U64, 16), "r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp")
    rip: int = wire(U64, "program counter")


@record
class SignalFrameAarch64:
    """struct rt_sigframe up to PC."""

    siginfo: tuple[int, ...] = wire(Repeated(U64, 16), "siginfo_t")
    ucontext: UcontextHeader = wire(Nested(UcontextHeader), "uc_flags, uc_link, uc_stack")
    uc_sigmask: tuple[int, ...] = wire(Repeated(U64, 16), "blocked signals")
    padding: int = wire(U64, "to 16 bytes")
    fault_address: int = wire(U64, "of the signal")
    registers: RegistersAarch64 = wire(Nested(RegistersAarch64), "x0 to x30, SP, PC")


@record
class SigregsS390x:
    """_sigregs."""

    registers: RegistersS390x = wire(Nested(RegistersS390x), "PSW, r0 to r15")
    acrs: tuple[int, ...] = wire(Repeated(U32, 16), "a0 to a15")
    floating: FloatingS390x = wire(Nested(FloatingS390x), "FPC, f0 to f15")


@record
class SignalFrameS390x:
    """struct sigframe up to its registers."""

    callee_used_stack: tuple[int, ...] = wire(Repeated(U64, 20), "for the handler")
    oldmask: int = wire(U64, "blocked signals")
    sregs: int = wire(U64, "address of the registers")
    sigregs: SigregsS390x = wire(Nested(SigregsS390x), "the registers")


@record
class RtSignalFrameS390x:
    """struct rt_sigframe up to its registers."""

    callee_used_stack: tuple[int, ...] = wire(Repeated(U64, 20), "for the handler")
    svc_insn: int = wire(U16, "the instruction that ends the handler")
    padding: tuple[int, ...] = wire(Repeated(U8, 6), "to 8 bytes")
    siginfo: tuple[int, ...] = wire(Repeated(U64, 16), "siginfo_t")
    ucontext: UcontextHeader = wire(Nested(UcontextHeader), "uc_flags, uc_link, uc_stack")
    sigregs: SigregsS390x = wire(Nested(SigregsS390x), "the registers")
