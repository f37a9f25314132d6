"""Single steps of the threads and processes of a program on x86-64, by ptrace(2).

Strategy: every stop of every thread passes through one loop. A new thread or process may stop before the event that
announces it; it then waits for that. The threads of a program belong to the thread that traces them, and only their
stops are waited for: other children of this process are the caller's.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..converters.kernels import engine, views
from ..converters.kernels.execution.protocol import PTRACE_GETREGS, PTRACE_SINGLESTEP, Outcome
from ..schemas.core_files.signal_frames import SignalFrameX86_64
from ..schemas.data_classes import dataclass
from ..schemas.wire import offset_of
from .checker import CheckedThread, Tally
from .loaded_files import AddressSpace, Library
from .machines import X86_64
from .process_maps import read_mappings
from .shadow import Registers, Stacks, Stop, kept
from .stepping import Limits

if TYPE_CHECKING:
    from ..converters.kernels.execution.frames import InnermostCall

# <sys/ptrace.h>
_CONT, _DETACH = 7, 17
_GETEVENTMSG, _SEIZE, _INTERRUPT, _LISTEN = 0x4201, 0x4206, 0x4207, 0x4208
_FORK, _VFORK, _CLONE, _EXEC, _STOP = 1, 2, 3, 4, 128  # PTRACE_EVENT_...
_EXITKILL = 1 << 20
_EVENTS = 1 << _FORK | 1 << _VFORK | 1 << _CLONE | 1 << _EXEC
_STEPPED = signal.SIGTRAP << 8 | 0x7F  # the wait status of a single step
_STOPPING = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
_WALL, _WNOTHREAD = 0x40000000, 0x20000000  # <linux/wait.h>
_WAIT = _WALL | _WNOTHREAD
_REPORT_EVERY = 4096

_USER_REGS = 27  # integers of 64 bits in struct user_regs_struct
_RDI, _RDX = X86_64.columns[5], X86_64.columns[1]
_RIP, _SP = X86_64.program_counter, X86_64.stack_pointer
# The kernel puts them above the return address of a handler, which gets the ucontext in RDX.
_UCONTEXT, _INTERRUPTED_RIP = offset_of(SignalFrameX86_64, "ucontext"), offset_of(SignalFrameX86_64, "rip")

_libc = ctypes.CDLL(None)
_ptrace = _libc.ptrace
_ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
_ptrace.restype = ctypes.c_long
# Of the functions that the kernel calls: a function of ctypes is stored as its address.
_WAITPID_AT, _PTRACE_AT = (ctypes.c_size_t.from_buffer(one).value for one in (_libc.waitpid, _libc.ptrace))
# For the two requests of each step, which do not block: without conversions, and without releasing Python's lock.
_ptrace_step = ctypes.PyDLL(None).ptrace
_ptrace_step.restype = ctypes.c_long


class Process:
    """A process: its memory, and the chains of calls that its threads set aside."""

    def __init__(self, number: int, library: Library) -> None:
        self.number = number
        self._memory = os.open(f"/proc/{number}/mem", os.O_RDONLY)
        self.space = AddressSpace(library, self._read, lambda: read_mappings(number))
        self.stacks = Stacks()

    def _read(self, address: int, size: int) -> bytes:
        try:
            return os.pread(self._memory, size, address)
        except (OSError, OverflowError):
            return b""

    def close(self) -> None:
        os.close(self._memory)


@dataclass(slots=True, eq=False)
class _Thread:
    """A traced thread. `signal` is the one that was delivered at its last stop, 0 for none; `interrupted` has the
    registers at that stop."""

    process: Process
    checked: CheckedThread
    signal: int = 0
    interrupted: Registers = field(default_factory=lambda: np.zeros(0, np.uint64))


class Tracer:
    """Programs run step by step. `progress` is called every few thousand steps."""

    def __init__(self, library: Library, limits: Limits, progress: Callable[[Tally], None]) -> None:
        self.known_files, self.limits, self._progress = library, limits, progress
        self.tally = Tally()
        self.exit_status: int | None = None
        self._threads: dict[int, _Thread] = {}
        self._early: set[int] = set()  # new threads that stopped before they were announced
        self._processes: dict[int, Process] = {}
        buffer, status = np.zeros(_USER_REGS, np.uint64), np.zeros(1, np.int32)
        (self._registers,), self._buffer = views(buffer), ctypes.c_void_p(buffer.ctypes.data)
        self._stepping = engine.execution.steps.Steps(
            _WAITPID_AT,
            _PTRACE_AT,
            *views(status, buffer),
            _WAIT,
            _STEPPED,
            status.ctypes.data,
            buffer.ctypes.data,
        )
        # Of each thread in _threads, for the kernel.
        self._calls: dict[int, InnermostCall] = {}
        self._root = 0
        self._program: subprocess.Popen[bytes] | None = None
        self._is_free = False
        self._is_over = False

    # --- start and end ----------------------------------------------------------------------------------------

    def launch(self, command: Sequence[str]) -> None:
        """Start a program under control. Raises OSError if that is not possible."""
        if not self.limits.burst:
            _stay_on_this_cpu()
        # The shell stops until it is traced, and then becomes the program.
        stopping = ["/bin/sh", "-c", 'kill -STOP $$; exec "$@"', "sh", *command]
        self._program = subprocess.Popen(stopping)
        self._root = self._program.pid
        os.waitpid(self._root, os.WUNTRACED)
        self._seize(self._root, _EXITKILL)
        os.kill(self._root, signal.SIGCONT)

    def attach(self, number: int) -> None:
        """Take control of a running process. Raises OSError."""
        self._root = number
        process = self._process(number)
        for entry in Path(f"/proc/{number}/task").iterdir():
            self._seize(int(entry.name), 0)
            self._add(int(entry.name), process)
            _ptrace(_INTERRUPT, int(entry.name), 0, 0)

    def _seize(self, number: int, options: int) -> None:
        if _ptrace(_SEIZE, number, 0, _EVENTS | options) < 0:
            raise PermissionError(1, "the process cannot be traced", str(number))

    def run(self) -> Tally:
        """Step until all threads ended, or a limit is reached."""
        limits = self.limits
        timer = threading.Timer(limits.seconds or 0.0, self.stop)
        if limits.seconds is not None:
            timer.start()
        while (self._threads or self._early or self.exit_status is None) and not self._is_over:
            self._steps(self._next_count())
            self._progress(self.tally)
            if limits.steps is not None and self.tally.steps >= limits.steps:
                break
            if limits.burst:
                self._run_freely(limits.pause)
        timer.cancel()
        self._end()
        return self.tally

    def _next_count(self) -> int:
        """How many steps to make before limits are looked at again."""
        count = self.limits.burst or _REPORT_EVERY
        return count if self.limits.steps is None else min(count, self.limits.steps - self.tally.steps)

    def stop(self) -> None:
        """End the run soon, also if the program waits for something. For other threads."""
        self._is_over = True
        with suppress(ProcessLookupError):
            os.kill(self._root, signal.SIGKILL if self._program is not None else signal.SIGSTOP)

    def _end(self) -> None:
        """Kill what was launched; let go of a process that was attached to."""
        for thread in self._threads.values():
            thread.checked.finish()
        if self._program is None:
            self._let_go()
        else:
            self._kill()
            self._program.returncode = self.exit_status or 0  # it was waited for here
            if self._is_over:
                self.exit_status = None  # that of `stop`
        for process in self._processes.values():
            process.close()
        self._threads.clear()

    def _let_go(self) -> None:
        for number in self._threads:
            _ptrace(_INTERRUPT, number, 0, 0)
            with suppress(ChildProcessError):
                status = os.waitpid(number, _WAIT)[1]
                passed = status >> 8 if os.WIFSTOPPED(status) and status != _STEPPED else 0
                _ptrace(_DETACH, number, 0, passed if passed < 1 << 8 and passed != signal.SIGSTOP else 0)
        if self._is_over:
            with suppress(ProcessLookupError):
                os.kill(self._root, signal.SIGCONT)  # `stop` may have been too late

    def _kill(self) -> None:
        """Kill all processes, and wait for each thread: the first thread of a process ends after the others."""
        for number in self._processes:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        with suppress(ChildProcessError):
            while True:
                number, status = os.waitpid(-1, _WAIT)
                if os.WIFSTOPPED(status):
                    with suppress(ProcessLookupError):
                        os.kill(number, signal.SIGKILL)

    # --- stops ------------------------------------------------------------------------------------------------

    def _steps(self, count: int) -> None:
        """Handle stops until there were `count` single steps more, or all threads ended."""
        stepping, threads, tally = self._stepping, self._threads, self.tally
        end = tally.steps + count
        while tally.steps < end and not self._is_over and (self.exit_status is None or threads):
            outcome = stepping.run(self._calls, end - tally.steps)
            tally.steps += stepping.made
            number, status = stepping.number, stepping.status
            if outcome == Outcome.NO_STOP:
                try:
                    number, status = os.waitpid(-1, _WAIT | os.WNOHANG)
                except ChildProcessError:
                    self.exit_status = self.exit_status or 0
                    return
            if outcome == Outcome.OTHER_STOP or (number and outcome == Outcome.NO_STOP):
                self._waited(number, status)
            elif outcome not in (Outcome.ENOUGH, Outcome.NO_STOP):
                self._step(number, threads[number], outcome)

    def _waited(self, number: int, status: int) -> None:
        """Handle a stop whose registers were not read."""
        thread = self._threads.get(number)
        if status != _STEPPED or thread is None:
            self._other_stop(number, status, thread)
        elif _ptrace_step(PTRACE_GETREGS, number, 0, self._buffer) == 0:
            self._step(number, thread, Outcome.NOT_LOOKED_AT)

    def _step(self, number: int, thread: _Thread, outcome: int) -> None:
        """Handle the stop after a step that needs more than the kernel does, and go on."""
        registers, checked = self._registers, thread.checked
        if outcome != Outcome.NOT_LOOKED_AT:
            checked.follow_up(checked.space.state(registers[_RIP]), outcome, registers)
        elif thread.signal:
            self._after_signal(thread, registers)
        else:
            checked.step(registers)
        self.tally.steps += 1
        _ptrace_step(PTRACE_SINGLESTEP, number, 0, 0)

    def _after_signal(self, thread: _Thread, registers: Stop) -> None:
        """The stop after a signal was delivered: perhaps at the first instruction of a handler."""
        number, thread.signal = thread.signal, 0
        sp, checked = registers[_SP], thread.checked
        checked.call.is_watched = 0
        if registers[_RDI] != number or registers[_RDX] != sp + _UCONTEXT:
            checked.step(registers)
            return
        read = thread.process.space.read
        return_address = int.from_bytes(read(sp, 8), "little")
        # A system call that is restarted is interrupted before it.
        pc = int.from_bytes(read(sp + _INTERRUPTED_RIP, 8), "little")
        thread.interrupted[_RIP] = pc
        checked.interrupt(thread.interrupted, registers, return_address)

    def _other_stop(self, number: int, status: int, thread: _Thread | None) -> None:
        event, stopped_by = status >> 16, status >> 8 & 0xFF
        if os.WIFEXITED(status) or os.WIFSIGNALED(status):
            self._ended(number, status)
        elif event in (_FORK, _VFORK, _CLONE) and thread is not None:
            self._announce(number, thread)
        elif event == _EXEC:
            self._executed(number)
        elif event == _STOP and stopped_by in _STOPPING:
            _ptrace(_LISTEN, number, 0, 0)
        elif number == self._root and thread is None:
            _ptrace(_CONT, number, 0, 0)  # still the shell
        elif thread is None:
            self._early.add(number)
        elif event == _STOP:
            self._go_on(number)
        else:
            if not self._is_free and _ptrace_step(PTRACE_GETREGS, number, 0, self._buffer) == 0:
                thread.signal, thread.interrupted = stopped_by, kept(self._registers)
                thread.checked.call.is_watched = 1
            self._go_on(number, stopped_by)

    def _go_on(self, number: int, stopped_by: int = 0) -> None:
        _ptrace(_CONT if self._is_free else PTRACE_SINGLESTEP, number, 0, stopped_by)

    def _ended(self, number: int, status: int) -> None:
        if number == self._root:
            self.exit_status = os.waitstatus_to_exitcode(status)
        self._calls.pop(number, None)
        thread = self._threads.pop(number, None)
        if thread is not None:
            thread.checked.finish()
            process = thread.process
            if all(other.process is not process for other in self._threads.values()):
                process.close()
                self._processes.pop(process.number, None)

    def _announce(self, number: int, parent: _Thread) -> None:
        """A new thread or process was made."""
        message = ctypes.c_ulong()
        _ptrace(_GETEVENTMSG, number, 0, ctypes.byref(message))
        child = message.value
        leader = _leader(child)
        if leader == parent.process.number:
            self._add(child, parent.process)
        elif leader is not None:
            # The calls of a copy; a child with a stack of its own leaves their frames at its first instruction.
            calls = [replace(one, wrong={}) for one in parent.checked.shadow.calls]
            made = self._add(child, self._process(leader))
            made.checked.follow(parent.checked, calls)
        self._go_on(number)
        if child in self._early:
            self._early.remove(child)
            self._go_on(child)

    def _executed(self, number: int) -> None:
        """A process has a new program; its other threads are gone."""
        for other, thread in list(self._threads.items()):
            if thread.process.number == number:
                thread.checked.finish()
                del self._threads[other], self._calls[other]
        if number in self._processes:
            self._processes.pop(number).close()
        self._add(number, self._process(number))
        self._go_on(number)

    def _process(self, number: int) -> Process:
        if number not in self._processes:
            self._processes[number] = Process(number, self.known_files)
        return self._processes[number]

    def _add(self, number: int, process: Process) -> _Thread:
        checked = CheckedThread(process.space, process.stacks, self.tally, _unknown)
        self._threads[number], self._calls[number] = _Thread(process, checked), checked.call
        return self._threads[number]

    # --- sampling ---------------------------------------------------------------------------------------------

    def _run_freely(self, seconds: float) -> None:
        """Let all threads run, then stop them again; the calls that they were in are not known any more."""
        self._is_free = True
        for thread in self._threads.values():
            thread.checked.finish()
            thread.checked.forget_position()
        end = time.monotonic() + seconds
        while time.monotonic() < end and self._threads:
            number, status = os.waitpid(-1, _WAIT | os.WNOHANG)
            stopped = self._threads.get(number)
            if number == 0:
                time.sleep(0.001)
            elif status == _STEPPED and stopped is not None:
                _ptrace(_CONT, number, 0, 0)
            else:
                self._other_stop(number, status, stopped)
        self._is_free = False
        for number in self._threads:
            _ptrace(_INTERRUPT, number, 0, 0)


def _stay_on_this_cpu() -> None:
    """Keep this thread, and the processes that it starts, on one CPU: they take turns, and to wake another CPU for each
    takes longer than a step."""
    with suppress(OSError):
        os.sched_setaffinity(0, {_libc.sched_getcpu()})


def _unknown(_: int) -> None:
    """Registers that no stop has."""


def _leader(thread: int) -> int | None:
    """The process of a thread; None if it is gone."""
    try:
        status = Path(f"/proc/{thread}/status").read_text(errors="replace")
    except OSError:
        return None
    return int(status.partition("\nTgid:")[2].split(maxsplit=1)[0])
