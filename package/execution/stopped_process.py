"""The state of a running process on Linux, which is stopped for as long as it is read (ptrace(2)).

Strategy: the kernel gives registers as in the notes of core files, so that one layout serves both. Only the thread that
seized a process may read and release it; when that thread ends, the kernel releases what it still holds.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..converters.elf.image import ElfImage, open_elf
from ..converters.elf.process_state import Memory, ProcessState
from ..schemas.core_files.notes import (
    AT,
    LAYOUTS,
    NT,
    CoreLayout,
    MappedFile,
    Thread,
    parse_auxv,
    parse_fpregset,
    parse_pac_mask,
    parse_registers,
)
from ..schemas.elf.notes import Note
from ..schemas.section import ParseError
from .process_maps import read_mappings

# <linux/ptrace.h>, <linux/wait.h>
_DETACH, _GETREGSET, _SEIZE, _INTERRUPT = 17, 0x4204, 0x4206, 0x4207
_EVENT_STOP = 128
_WALL = 0x40000000
# A thread in an uninterruptible system call does not stop before that ends.
PATIENCE = 5.0
_PAUSE = 0.001
_MAX_REGSET = 1 << 12
_ADDRESS_LIMIT = 1 << 63

_ptrace = ctypes.CDLL(None, use_errno=True).ptrace
_ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
_ptrace.restype = ctypes.c_long


class _Vector(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))


@contextmanager
def stopped_process(number: int) -> Iterator[ProcessState]:
    """The state of a process, all threads of which are stopped inside the context and run on after it. A process that
    was stopped before stays so; signals that arrive are not lost.

    Raises OSError if there is no such process, if it cannot be traced, or if a thread does not stop, and ParseError for
    a process of another machine. To be used in one thread, which ends soon.
    """
    source = living_thread(number)
    image = _program(source, number)
    layout = LAYOUTS.get(str(image.machine))
    if layout is None or image.address_size != 8 or image.architecture.name != platform.machine():
        raise ParseError("", None, "e_machine", f"processes of {image.architecture.name} are not supported here")
    stops: dict[int, int] = {}
    try:
        _stop(number, stops)
        with _memory(source) as memory:
            yield _state(source, image, layout, Memory(image.byte_order, memory), list(stops))
    finally:
        for thread, signal in stops.items():
            _ptrace(_DETACH, thread, 0, signal)


def living_thread(number: int) -> int:
    """A thread of a process, by which its files are found: the first one may have ended. Raises OSError."""
    found = next((one for one in _threads(number) if not _is_zombie(number, one)), None)
    if found is None:
        raise _error(errno.ESRCH, number)
    return found


def _program(thread: int, number: int) -> ElfImage:
    """The file of the program. Raises OSError that names the process."""
    try:
        return open_elf(f"/proc/{thread}/exe")
    except PermissionError:
        raise _not_permitted(number) from None
    except FileNotFoundError:
        raise OSError(errno.ESRCH, "the process has ended or is the kernel's", f"process {number}") from None


def _error(code: int, number: int) -> OSError:
    return OSError(code, os.strerror(code), f"process {number}")


def _not_permitted(number: int) -> OSError:
    reason = "tracing it is not permitted (another user's, traced already, or kernel.yama.ptrace_scope)"
    return OSError(errno.EPERM, reason, f"process {number}")


# --- stops ------------------------------------------------------------------------------------------------------------


def _stop(number: int, stops: dict[int, int]) -> None:
    """Stop all threads; `stops` gets the signal that each is about to receive. Raises OSError."""
    while new := [one for one in _threads(number) if one not in stops]:
        seized = [one for one in new if _seize(one, number)]
        if not seized:
            break
        deadline = time.monotonic() + PATIENCE
        for thread in seized:
            _wait(thread, number, stops, deadline)
    if not stops:
        raise _error(errno.ESRCH, number)


def _threads(number: int) -> list[int]:
    try:
        return sorted(int(entry.name) for entry in Path(f"/proc/{number}/task").iterdir())
    except OSError:
        return []


def _seize(thread: int, number: int) -> bool:
    """Interrupt a thread; False if it has ended. Raises PermissionError."""
    if _ptrace(_SEIZE, thread, 0, 0) < 0:
        if ctypes.get_errno() == errno.ESRCH or _is_zombie(number, thread):
            return False
        raise _not_permitted(number)
    _ptrace(_INTERRUPT, thread, 0, 0)
    return True


def _is_zombie(number: int, thread: int) -> bool:
    """Whether it has ended: the first thread of a process may do so before the others."""
    try:
        status = Path(f"/proc/{number}/task/{thread}/stat").read_text(errors="replace")
    except OSError:
        return True
    return status.rpartition(")")[2].split()[0] in "ZX"


def _wait(thread: int, number: int, stops: dict[int, int], deadline: float) -> None:
    """Wait until a thread stops or ends. Raises TimeoutError."""
    while True:
        try:
            found, status = os.waitpid(thread, _WALL | os.WNOHANG)
        except ChildProcessError:
            return
        if found:
            break
        if time.monotonic() > deadline:
            reason = f"thread {thread} does not stop: it is in a system call that cannot be interrupted"
            raise TimeoutError(errno.ETIMEDOUT, reason, f"process {number}")
        time.sleep(_PAUSE)
    if os.WIFSTOPPED(status):
        # A stop for a signal, unlike that of the interruption, takes the signal away: it is given back at the end.
        stops[thread] = 0 if status >> 16 == _EVENT_STOP else os.WSTOPSIG(status)


# --- state ------------------------------------------------------------------------------------------------------------


@contextmanager
def _memory(number: int) -> Iterator[Callable[[int, int], bytes]]:
    """What reads the memory of a process, as `Memory.living`."""
    file = os.open(f"/proc/{number}/mem", os.O_RDONLY)

    def read(address: int, size: int) -> bytes:
        try:
            return os.pread(file, size, address) if 0 <= address < _ADDRESS_LIMIT else b""
        except OSError:
            return b""

    try:
        yield read
    finally:
        os.close(file)


def _state(number: int, image: ElfImage, layout: CoreLayout, memory: Memory, threads: list[int]) -> ProcessState:
    order = image.byte_order
    auxv = parse_auxv(_note(NT.AUXV, Path(f"/proc/{number}/auxv").read_bytes()), order)
    masks = _register_set(threads[0], NT.ARM_PAC_MASK)
    return ProcessState(
        image.architecture,
        tuple(_thread(one, layout, memory) for one in threads),
        tuple(
            MappedFile(one.start, one.end, one.offset, one.path)
            for one in read_mappings(number)
            if one.path.startswith("/")
        ),
        memory,
        auxv.get(AT.SYSINFO_EHDR),
        auxv.get(AT.ENTRY),
        parse_pac_mask(_note(NT.ARM_PAC_MASK, masks), order) if masks else None,
    )


def _thread(number: int, layout: CoreLayout, memory: Memory) -> Thread:
    general = _note(NT.PRSTATUS, _register_set(number, NT.PRSTATUS))
    found = parse_registers(general, layout, memory.byte_order, number)
    floating = _note(NT.FPREGSET, _register_set(number, NT.FPREGSET))
    found.registers.update(parse_fpregset(floating, layout, memory.byte_order))
    return found


def _register_set(thread: int, kind: NT) -> bytes:
    """Registers of a stopped thread, as in the note of that type; none if the machine does not have them."""
    buffer = ctypes.create_string_buffer(_MAX_REGSET)
    vector = _Vector(ctypes.addressof(buffer), _MAX_REGSET)
    if _ptrace(_GETREGSET, thread, int(kind), ctypes.addressof(vector)) < 0:
        return b""
    return buffer.raw[: vector.size]


def _note(kind: NT, data: bytes) -> Note:
    return Note(kind, b"", memoryview(data), 0)
