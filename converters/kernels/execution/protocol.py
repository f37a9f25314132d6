"""What the kernels of execution and their callers agree on."""

from __future__ import annotations

from enum import IntEnum

# <sys/ptrace.h>
PTRACE_SINGLESTEP, PTRACE_GETREGS = 9, 12


class Outcome(IntEnum):
    """What a stop of a thread is: the rows hold there, or what the caller has to do."""

    FINE = 0
    # The stack pointer is above the frame.
    LEFT = 1
    # A row does not hold, or has to be looked at closely; it was in force at the last stop of this frame, or was not.
    WRONG = 2
    WRONG_AT_ENTRY = 3
    # The spot is not known, the last instruction was one that a shadow stack must know, or the caller wants to see it.
    NOT_LOOKED_AT = 4
    # Another kind of stop, or of another thread; nothing stopped, because a signal arrived or nothing is left.
    OTHER_STOP = 5
    NO_STOP = 6
    # The steps that were asked for are made.
    ENOUGH = 7
