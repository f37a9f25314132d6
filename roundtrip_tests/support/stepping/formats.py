"""The formats of the one-step law: how the product writes and reads each, and which reader of this folder judges it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from unwindkit import (
    Refusals,
    UnwindTable,
    from_debug_frame,
    from_directives,
    from_eh_frame,
    from_sframe,
    from_stack_cfi,
    to_debug_frame,
    to_directives,
    to_eh_frame,
    to_sframe,
    to_stack_cfi,
)

from ..made.assembled_directives import assembled_section, target_of
from .call_frames import CallFrames
from .frames import Reader
from .machines import MACHINES, Machine
from .sframe_sections import SframeSection
from .stack_cfi_lines import StackCfiLines

ADDRESS = 0x1000_0000  # of sections that are written here


@dataclass(frozen=True, slots=True)
class Written:
    """A table in one format: its bytes, the ranges that they lack, and an independent reader of them."""

    data: bytes
    refusals: Refusals
    reader: Reader


@dataclass(frozen=True, slots=True)
class Format:
    """`write` may put temporary files into the folder; `read` is the product's reader, which gets the table that was
    written for its architecture and load address. `names`: only SP, FP and RA are in the format, ("sframe"), or only
    registers that Breakpad names ("stack_cfi")."""

    name: str
    write: Callable[[UnwindTable, Path], Written]
    read: Callable[[bytes, UnwindTable], UnwindTable]
    is_sframe: bool = False
    is_stack_cfi: bool = False

    def suits(self, machine: Machine) -> bool:
        """Whether the format is defined for a machine."""
        if self.is_sframe:
            return machine.name in ("x86_64", "aarch64", "aarch64_be", "s390x")
        return bool(machine.names) or not self.is_stack_cfi


def machine_of(table: UnwindTable) -> Machine:
    """The machine of a table, by name."""
    return MACHINES[table.architecture.name]


def _eh_frame(table: UnwindTable, folder: Path) -> Written:
    data, refusals = to_eh_frame(table, ADDRESS)
    return Written(data, refusals, CallFrames(machine_of(table), data, ADDRESS, table.byte_order, is_eh=True))


def _debug_frame(table: UnwindTable, folder: Path) -> Written:
    data, refusals = to_debug_frame(table)
    return Written(data, refusals, CallFrames(machine_of(table), data, 0, table.byte_order, is_eh=False))


def _sframe(version: int) -> Callable[[UnwindTable, Path], Written]:
    def write(table: UnwindTable, folder: Path) -> Written:
        data, refusals = to_sframe(table, version, ADDRESS)
        return Written(data, refusals, SframeSection(machine_of(table), data, ADDRESS))

    return write


def _stack_cfi(table: UnwindTable, folder: Path) -> Written:
    data, refusals = to_stack_cfi(table)
    return Written(data, refusals, StackCfiLines(machine_of(table), data.decode(), table.load_address))


def _directives(table: UnwindTable, folder: Path) -> Written:
    """Judged by what an assembler makes of them."""
    text, refusals = to_directives(table)
    data, address, origin = assembled_section(folder, text, target_of(table)) if text else (b"", 0, 0)
    reader = CallFrames(machine_of(table), data, address, table.byte_order, is_eh=True, origin=origin)
    return Written(text, refusals, reader)


FORMATS = {
    one.name: one
    for one in (
        Format("eh_frame", _eh_frame, lambda data, like: from_eh_frame(data, ADDRESS, *_kind(like))),
        Format("debug_frame", _debug_frame, lambda data, like: from_debug_frame(data, *_kind(like))),
        Format(
            "directives",
            _directives,
            lambda data, like: from_directives(data, like.architecture.name, None, like.byte_order),
        ),
        Format("sframe v2", _sframe(2), lambda data, _: from_sframe(data, ADDRESS), is_sframe=True),
        Format("sframe v3", _sframe(3), lambda data, _: from_sframe(data, ADDRESS), is_sframe=True),
        Format(
            "breakpad",
            _stack_cfi,
            lambda data, like: from_stack_cfi(data, like.architecture.name, like.load_address),
            is_stack_cfi=True,
        ),
    )
}


def _kind(table: UnwindTable) -> tuple[str, str]:
    return table.architecture.name, table.byte_order
