"""The backtraces of all threads of a process, by the unwind tables of the files that were loaded.

Strategy: the module at a frame's PC gives the table: that of one kind, or the first that has a row. Names come last,
for all frames of a module together.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict

import numpy as np

from ...schemas.arguments import checked, one_of
from ...schemas.data_classes import dataclass
from ...schemas.elf.headers import MAGIC
from ...schemas.section import FormatError
from ..arch.table import Architecture
from ..elf.core_file import core_file
from ..elf.image import elf_of_mapping
from ..elf.inputs import Input, input_name, map_input
from ..elf.process_state import ProcessState
from ..walk.backtrace import MAX_FRAMES, Backtrace, WalkedFrame, check_limit, walk_frames
from ..walk.caller import ADDRESS_MASK, SIGNATURE_BITS, Abi, Caller, Frame, WalkEnd, caller_by_index
from .core_modules import AUTO, BREAKPAD, SECTIONS, SOURCES, Module, Places, modules_of
from .symbol_names import SourceFrame, frames_of_symbols

ANYWHERE = Places()
# A source without a row for the PC is not the end while there is another one.
_NEXT = (WalkEnd.NO_FUNCTION, WalkEnd.NO_ROW, WalkEnd.NO_CFA)


@dataclass(frozen=True, slots=True)
class CoreFrame:
    """A frame; `module` is the path of the file at its PC, "" if there is none, and `address` the PC in that file.
    `names` are the function at the PC and what is inlined there, innermost first."""

    walked: WalkedFrame
    module: str = ""
    address: int = 0
    names: tuple[SourceFrame, ...] = ()


@dataclass(frozen=True, slots=True)
class ThreadTrace:
    """The frames of a thread, youngest first, and why there are no more."""

    pid: int
    frames: tuple[CoreFrame, ...]
    end: WalkEnd
    sentence: str


@dataclass(frozen=True, slots=True)
class CoreTraces:
    """The backtraces of a core file. `notes` are sentences about files that were not found or not used."""

    architecture: Architecture
    threads: tuple[ThreadTrace, ...]
    notes: tuple[str, ...] = ()


@checked(source=one_of(*SOURCES), places=Places, limit=check_limit)
def walk_core(
    path: Input, source: str = AUTO, places: Places = ANYWHERE, *, lines: bool = False, limit: int = MAX_FRAMES
) -> CoreTraces:
    """The backtraces of all threads of a core file of x86-64, AArch64 or s390x; `places`, where files are looked up.

    `source` is what callers are found by: eh_frame, debug_frame, sframe, breakpad, or auto for the first of these that
    has a row. With `lines`, names are from debugging information, with inlined functions, files and lines; otherwise
    from symbol tables. Raises OSError, and ParseError for a malformed core file.
    """
    return name_frames(walk_threads(_state_of(input_name(path), map_input(path)), source, places, limit), lines=lines)


def _state_of(name: str, data: memoryview) -> ProcessState:
    """The process of a core file or a minidump. Raises ParseError."""
    if bytes(data[: len(MAGIC)]) != MAGIC:
        from ..walk.minidump import is_minidump, minidump_state

        if is_minidump(data):
            return minidump_state(data)
    return core_file(elf_of_mapping(name, data))


@dataclass(frozen=True, slots=True, eq=False)
class WalkedProcess:
    """The backtraces of the threads of a process, by PID, without names; `walker` has its modules."""

    walker: Walker
    traces: tuple[tuple[int, Backtrace], ...]


def walk_threads(state: ProcessState, source: str, places: Places, limit: int = MAX_FRAMES) -> WalkedProcess:
    """Walk all threads of a process, as `walk_core`."""
    walker = Walker(state, modules_of(state, places), source, places)
    traces = [(one.pid, walk_frames(Frame(one.pc, one.registers), walker.caller, limit)) for one in state.threads]
    return WalkedProcess(walker, tuple(traces))


def name_frames(walked: WalkedProcess, *, lines: bool) -> CoreTraces:
    """The backtraces with the names of their frames, which need the process no more."""
    walker = walked.walker
    named = _Names(walker, [trace for _, trace in walked.traces], lines)
    threads = tuple(
        ThreadTrace(pid, tuple(map(named.frame, trace.frames)), trace.end, trace.sentence)
        for pid, trace in walked.traces
    )
    notes = tuple(f"{module.path}: {note}" for module in walker.modules for note in module.notes)
    return CoreTraces(walker.state.architecture, threads, notes)


class Walker:
    """The modules, and which source to use."""

    def __init__(self, state: ProcessState, modules: list[Module], source: str, places: Places) -> None:
        self.state, self.modules, self.places = state, modules, places
        self.starts = [module.start for module in modules]
        stores = (BREAKPAD,) if places.stores else ()
        self.sources = (*SECTIONS, *stores) if source == AUTO else (source,)

    def module_at(self, pc: int) -> Module | None:
        at = bisect_right(self.starts, pc) - 1
        return self.modules[at] if at >= 0 and pc < self.modules[at].end else None

    def caller(self, frame: Frame) -> Caller:
        """The caller of a frame, as `walk_frames` needs it."""
        module = self.module_at(frame.lookup_pc)
        sources = () if module is None else self.sources
        reason = f"{frame.pc:#x} is in no module" if module is None else f"no table of {' or '.join(sources)}"
        result = Caller(end=WalkEnd.NO_FUNCTION, detail=reason)
        for source in sources:
            found = self._by(module, source, frame)
            if found is not None:
                result = found
                if found.end not in _NEXT:
                    return found
        from ..walk.signal_frames import interrupted_frame

        memory = self.state.memory
        return interrupted_frame(self.state.architecture, frame, memory.bytes_at, memory.read) or result

    def _by(self, module: Module | None, source: str, frame: Frame) -> Caller | None:
        index = None if module is None else module.index(source, self.places)
        if module is None or index is None:
            return None
        architecture = index.table.architecture
        fp = architecture.frame_pointer
        # SFrame does not describe other registers, which the function may have changed.
        kept = (fp,) if source == "sframe" and fp is not None else architecture.callee_saved
        bits = SIGNATURE_BITS if self.state.signature_bits is None else self.state.signature_bits
        abi = Abi(architecture, index.table.byte_order, kept, bits)
        return caller_by_index(abi, index, frame, self.state.memory.read, module.bias)


class _Names:
    """The names of all frames, looked up once per module."""

    def __init__(self, walker: Walker, traces: list[Backtrace], lines: bool) -> None:
        self.walker = walker
        self.found: dict[int, tuple[SourceFrame, ...]] = {}
        asked: dict[int, set[int]] = defaultdict(set)
        for pc in {_named_pc(one) for trace in traces for one in trace.frames}:
            if (module := walker.module_at(pc)) is not None:
                asked[walker.modules.index(module)].add(pc)
        for index, pcs in asked.items():
            self.found |= _names_in(walker, walker.modules[index], sorted(pcs), lines)

    def frame(self, walked: WalkedFrame) -> CoreFrame:
        pc = _named_pc(walked)
        module = self.walker.module_at(pc)
        if module is None:
            return CoreFrame(walked)
        address = (walked.frame.pc - module.bias) & ADDRESS_MASK
        return CoreFrame(walked, module.path, address, self.found.get(pc, ()))


def _named_pc(walked: WalkedFrame) -> int:
    """The address whose name is the frame's. A signal frame was not called: its PC is the start of its function."""
    return walked.frame.pc if walked.is_signal_frame else walked.frame.lookup_pc


def _names_in(walker: Walker, module: Module, pcs: list[int], lines: bool) -> dict[int, tuple[SourceFrame, ...]]:
    """The functions at some PCs of one module; none if they cannot be read."""
    debug = walker.places.debug
    addresses = np.array([(pc - module.bias) & ADDRESS_MASK for pc in pcs], np.uint64)
    try:
        is_by_symbol_file = module.image is None or walker.sources == (BREAKPAD,)
        image = module.symbol_file(walker.places) if is_by_symbol_file else module.image
        if image is None:
            return {}
        if lines or is_by_symbol_file:
            from .symbolize import find_frames, read_joined, read_symbols  # takes longer to import than to find symbols

            symbols = read_symbols(image) if is_by_symbol_file else read_joined(image, debug)
            return dict(zip(pcs, find_frames(symbols, addresses), strict=True))
        return dict(zip(pcs, frames_of_symbols(image, addresses), strict=True))
    except (FormatError, OSError) as error:
        module.notes.append(f"names cannot be read: {error}")
        return {}
