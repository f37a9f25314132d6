"""The state of a process that is walked: threads with their registers, mapped files, and memory.

Strategy: a core file, a minidump and a stopped process give the same state. Memory is what was dumped, completed by the
files that were mapped, or that of the living process.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from dataclasses import field

from ...schemas.core_files.notes import MappedFile, Thread
from ...schemas.data_classes import dataclass
from ...schemas.section import ByteOrder
from ..arch.table import Architecture


@dataclass(slots=True)
class Memory:
    """Bytes by address: disjoint ranges, of which those added first win. `living(address, size)` reads a process that
    still exists, which has its own copy of everything: as many bytes as there are, none outside its memory."""

    byte_order: ByteOrder
    living: Callable[[int, int], bytes] | None = None
    starts: list[int] = field(default_factory=list)
    pieces: dict[int, memoryview] = field(default_factory=dict)

    def add(self, address: int, data: memoryview) -> None:
        """Add bytes where there are none yet."""
        if self.living is not None:
            return
        end = address + len(data)
        at = bisect_right(self.starts, address) - 1
        if at >= 0:
            address = max(address, self.starts[at] + len(self.pieces[self.starts[at]]))
        begin = end - len(data)
        inside = self.starts[bisect_left(self.starts, address) : bisect_left(self.starts, end)]
        for start in [*inside, end]:
            if start > address:
                insort(self.starts, address)
                self.pieces[address] = data[address - begin : start - begin]
            if start < end:
                address = start + len(self.pieces[start])

    def bytes_at(self, address: int, size: int) -> bytes:
        """Bytes that may be in several ranges. Raises LookupError if one is in none."""
        found = b""
        while len(found) < size:
            part = self.upto(address + len(found), size - len(found))
            if not part:
                raise LookupError(f"no memory at {address + len(found):#x}")
            found += part
        return found

    def read(self, address: int, size: int) -> int:
        """An unsigned number. Raises LookupError."""
        return int.from_bytes(self.bytes_at(address, size), self.byte_order)

    def upto(self, address: int, size: int) -> bytes:
        """As many bytes as there are, at most `size`."""
        if self.living is not None:
            return self.living(address, size)
        at = bisect_right(self.starts, address) - 1
        if at < 0:
            return b""
        start = self.starts[at]
        return bytes(self.pieces[start][address - start : address - start + size])


@dataclass(frozen=True, slots=True)
class LoadedModule:
    """A loaded file, whose first byte is at `start`, with its build id, or else the identifier that symbol stores have
    for it; both are empty if it has none."""

    path: str
    start: int
    size: int
    build_id: bytes
    identifier: str


@dataclass(frozen=True, slots=True)
class ProcessState:
    """A process. `modules`: its loaded files, where they are listed; otherwise they are found by what is `mapped`.
    `signature_bits`: the bits of a signed return address that are not part of it, None if they are not
    known. `vdso`, `entry`: the addresses of the vDSO and of the program's first instruction, None if not known."""

    architecture: Architecture
    threads: tuple[Thread, ...]
    mapped: tuple[MappedFile, ...]
    memory: Memory
    vdso: int | None = None
    entry: int | None = None
    signature_bits: int | None = None
    modules: tuple[LoadedModule, ...] = ()
