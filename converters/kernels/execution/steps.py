# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Single steps of all threads of a program by ptrace(2), as long as nothing unusual happens.

Strategy: wait, read the registers, look at the stop, go on. Whatever needs more is for the caller, who handles the stop
and calls again. The functions of the C library are called by their addresses.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from .protocol import PTRACE_GETREGS, PTRACE_SINGLESTEP, Outcome

if not cython.compiled:
    from ctypes import CFUNCTYPE, c_int, c_long, c_void_p

    from ..array_types import I32, U64
    from .frames import InnermostCall, SpotState

    Pointer = int
    Wait = CFUNCTYPE(c_int, c_int, c_void_p, c_int)
    Ptrace = CFUNCTYPE(c_long, c_long, c_long, c_void_p, c_void_p)

FINE = cython.declare(cython.int, int(Outcome.FINE))
NOT_LOOKED_AT = cython.declare(cython.int, int(Outcome.NOT_LOOKED_AT))
OTHER_STOP = cython.declare(cython.int, int(Outcome.OTHER_STOP))
NO_STOP = cython.declare(cython.int, int(Outcome.NO_STOP))
ENOUGH = cython.declare(cython.int, int(Outcome.ENOUGH))

SINGLESTEP = cython.declare(cython.longlong, PTRACE_SINGLESTEP)
GETREGS = cython.declare(cython.longlong, PTRACE_GETREGS)


@cython.final
@cython.cclass
class Steps:
    """The loop of a thread that traces others. `number` and `status` are what it waited for last; `made` counts the
    stops of the last `run` that needed no caller."""

    def __init__(
        self,
        waitpid: cython.ulonglong,
        ptrace: cython.ulonglong,
        status: I32,
        registers: U64,
        options: cython.int,
        stepped: cython.int,
        status_address: cython.ulonglong,
        registers_address: cython.ulonglong,
    ) -> None:
        """`waitpid` and `ptrace` are addresses of functions; `options` are those of waitpid, `stepped` is the status
        of a thread after a step. `status`, of one element, and `registers` are arrays at the given addresses."""
        if cython.compiled:
            self.waitpid = cython.cast(Wait, waitpid)
            self.ptrace = cython.cast(Ptrace, ptrace)
        else:
            self.waitpid = Wait(waitpid)
            self.ptrace = Ptrace(ptrace)
        self.status_buffer = status
        self.registers = registers
        self.options = options
        self.stepped = stepped
        self.status_at = cython.cast(Pointer, status_address)
        self.registers_at = cython.cast(Pointer, registers_address)
        self.nothing = cython.cast(Pointer, 0)
        self.number = self.status = 0
        self.made = 0

    def run(self, calls: dict[int, InnermostCall], count: cython.longlong) -> cython.int:
        """Go on until there were `count` steps, or the caller is needed: the outcome of the last stop. `calls` has the
        InnermostCall of each thread. After a step `registers` are those of the thread `number`, which does not run."""
        call: InnermostCall
        state: SpotState
        pc: object
        outcome: cython.int
        current: cython.longlong = -1
        self.made = 0
        while self.made < count:
            with cython.nogil:
                self.number = self.waitpid(-1, self.status_at, self.options)
            if self.number < 0:
                return NO_STOP
            self.status = self.status_buffer[0]
            if self.status != self.stepped:
                return OTHER_STOP
            if self.number != current:
                if self.number not in calls:
                    return OTHER_STOP
                current = self.number
                call = calls[current]
            if self.ptrace(GETREGS, self.number, self.nothing, self.registers_at) != 0:
                continue  # it was killed: its end is the next stop
            pc = self.registers[call.pc]
            if call.is_watched or call.last.is_transfer or pc not in call.spots:
                return NOT_LOOKED_AT
            state = call.spots[pc]
            outcome = call.stop(state, self.registers)
            if outcome != FINE:
                return outcome
            call.go_on(state, self.registers)
            self.made += 1
            self.ptrace(SINGLESTEP, self.number, self.nothing, self.nothing)
        return ENOUGH
