"""Single steps of a program for AArch64 or s390x under qemu-user, by its gdb stub.

Strategy: gdb's remote protocol (gdb manual, E) over a socket in a folder of its own; registers come with packet `g`,
memory with `m`. What is mapped is read from the emulator's own mappings, which are at a fixed distance (`-B`).
The emulator clears the exclusive monitor of AArch64 at each stop: a sequence that needs it runs without one.
"""

from __future__ import annotations

import errno
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ..converters.kernels import views
from ..schemas.section import order_code
from .checker import CheckedThread, Tally
from .fixed_size_control import MAX_EXCLUSIVE, exclusive_exits
from .loaded_files import AddressSpace, Library, Mapping
from .machines import AARCH64
from .process_maps import read_mappings
from .shadow import Stacks, Stop
from .stepping import Limits

_PROGRAMS = {"aarch64": "qemu-aarch64", "s390x": "qemu-s390x"}
# Where qemu's packages for foreign architectures expect libraries, by Debian's name for the machine.
_ROOTS = {"aarch64": "/usr/aarch64-linux-gnu", "s390x": "/usr/s390x-linux-gnu"}
_GUEST_BASE = 1 << 44
_GUEST_END = 1 << 43
_START_SECONDS = 10.0
_REPORT_EVERY = 4096


class Connection:
    """A connection to a gdb stub. Raises OSError if that closes it."""

    def __init__(self, path: Path) -> None:
        end = time.monotonic() + _START_SECONDS
        self._socket = socket.socket(socket.AF_UNIX)
        while True:
            try:
                self._socket.connect(os.fspath(path))
                break
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.01)
        self._input = b""

    def ask(self, packet: bytes) -> bytes:
        """Send a packet; the reply."""
        self._socket.sendall(b"+$%s#%02x" % (packet, sum(packet) & 0xFF))
        while (found := self._packet()) is None:
            received = self._socket.recv(1 << 16)
            if not received:
                raise ConnectionResetError(errno.ECONNRESET, "the emulator ended")
            self._input += received
        return found

    def _packet(self) -> bytes | None:
        """The next packet of the input; None if it is not complete."""
        start = self._input.find(b"$")
        end = self._input.find(b"#", start)
        if start < 0 or end < 0 or len(self._input) < end + 3:
            return None
        found, self._input = self._input[start + 1 : end], self._input[end + 3 :]
        return found

    def close(self) -> None:
        self._socket.close()


class Emulator:
    """A program under qemu-user; threads share one row of steps, and only the first is checked."""

    def __init__(self, library: Library, limits: Limits, progress: Callable[[Tally], None]) -> None:
        self.known_files, self.limits, self._progress = library, limits, progress
        self.machine = library.machine
        self.tally = Tally()
        self.exit_status: int | None = None
        self._is_over = False
        self._exits: dict[int, tuple[int, ...]] = {}
        self._order = self.machine.architecture.byte_order
        self._registers = struct.Struct(f"{order_code(self._order)}{self.machine.register_count}Q")

    def launch(self, command: Sequence[str]) -> None:
        """Start a program under the emulator, stopped. Raises OSError without one."""
        name = _PROGRAMS[self.machine.architecture.name]
        emulator = shutil.which(name) or shutil.which(f"{name}-static")
        if emulator is None:
            raise FileNotFoundError(errno.ENOENT, "the emulator is not installed (Debian: qemu-user)", name)
        self._folder = tempfile.TemporaryDirectory(prefix="unwindkit-")
        path = Path(self._folder.name, "gdb")
        root = os.environ.get("QEMU_LD_PREFIX", _ROOTS[self.machine.architecture.name])
        options = ["-B", f"{_GUEST_BASE:#x}", "-L", root, "-g", os.fspath(path)]
        self._process = subprocess.Popen([emulator, *options, *command])
        self._gdb = Connection(path)
        # Until the description of the target was read, the stub has only the registers of packet `g`.
        self._gdb.ask(b"qXfer:features:read:target.xml:0,fff")
        self._gdb.ask(b"?")

    def attach(self, number: int) -> None:
        """Processes that run already cannot be emulated."""
        raise OSError(errno.ENOSYS, "only processes of this machine can be attached to", str(number))

    def run(self) -> Tally:
        """Step until the program ends or a limit is reached."""
        space = AddressSpace(self.known_files, self._read, self._mappings)
        checked = CheckedThread(space, Stacks(), self.tally, self._other_register)
        end = time.monotonic() + (self.limits.seconds or float("inf"))
        try:
            while self.tally.steps != self.limits.steps and time.monotonic() < end and not self._is_over:
                registers = self._stop()
                checked.step(registers)
                self.tally.steps += 1
                if self.tally.steps % _REPORT_EVERY == 0:
                    self._progress(self.tally)
                if not self._step(registers[self.machine.program_counter]):
                    break
        finally:
            checked.finish()
            self._end()
        return self.tally

    def stop(self) -> None:
        """End the run soon. For other threads."""
        self._is_over = True

    def _end(self) -> None:
        self._gdb.close()
        if self.exit_status is None:
            self._process.kill()
        self._process.wait()
        self._folder.cleanup()

    def _stop(self) -> Stop:
        values = self._registers.unpack_from(bytes.fromhex(self._gdb.ask(b"g").decode()))
        return views(np.array(values, np.uint64))[0]

    def _step(self, pc: int) -> bool:
        """Execute one instruction, or an exclusive sequence; whether the program goes on. Signals are passed to it."""
        exits = self._exits_at(pc)
        for one in exits:
            self._gdb.ask(b"Z0,%x,4" % one)
        reply = self._gdb.ask(b"c" if exits else b"s")
        for one in exits:
            self._gdb.ask(b"z0,%x,4" % one)
        while reply[:1] in (b"T", b"S") and reply[1:3] != b"05":
            reply = self._gdb.ask(b"S" + reply[1:3])
        if reply[:1] in (b"W", b"X"):
            code = int(reply[1:3], 16)
            self.exit_status = code if reply[:1] == b"W" else -code
            return False
        return True

    def _exits_at(self, pc: int) -> tuple[int, ...]:
        """The ends of the exclusive sequence at a PC; none if there is none."""
        if self.machine is not AARCH64:
            return ()
        if pc not in self._exits:
            self._exits[pc] = exclusive_exits(self._read(pc, 4 * MAX_EXCLUSIVE), pc)
        return self._exits[pc]

    def _read(self, address: int, size: int) -> bytes:
        reply = self._gdb.ask(b"m%x,%x" % (address, size))
        return b"" if reply[:1] == b"E" else bytes.fromhex(reply.decode())

    def _other_register(self, number: int) -> int | None:
        """Registers outside packet `g` are read one by one."""
        place = self.machine.other_registers.get(number)
        if place is None:
            return None
        reply = self._gdb.ask(b"p%x" % place)
        return None if reply[:1] in (b"", b"E") else int.from_bytes(bytes.fromhex(reply.decode()), self._order)

    def _mappings(self) -> list[Mapping]:
        found = []
        for one in read_mappings(self._process.pid):
            start, end = one.start - _GUEST_BASE, one.end - _GUEST_BASE
            if start >= 0 and end <= _GUEST_END:
                found.append(Mapping(start, end, one.offset, one.path, one.is_executable))
        return found
