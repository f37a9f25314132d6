"""The files that are mapped in a process, and what their tables claim at a PC.

Strategy: a file is read once, whatever the number of processes that map it; what is known of a PC is kept for each
process. A mapping gives the difference between addresses in memory and in the file.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

from ..converters.breakpad.module import module_of
from ..converters.breakpad.symbols import read_symbols
from ..converters.elf.image import ElfImage, elf_of_bytes, open_elf
from ..converters.files.read_elf import DIALECTS, STACK_CFI, table_of_image
from ..converters.kernels import engine
from ..converters.table.model import UnwindTable
from ..schemas.data_classes import dataclass
from ..schemas.section import FormatError
from .claims import SFRAME, Claim, ClaimSource, summary_of
from .control import MAX_INSTRUCTION, Control, Instruction
from .machines import Machine

if TYPE_CHECKING:
    from ..converters.kernels.execution.frames import SpotState, Summary

Function: TypeAlias = tuple[int, int]  # a file, by identity, and the index of the function in its first source
EH_FRAME = ".eh_frame"
SECTIONS = (*DIALECTS, SFRAME)
# Go's functions preserve no register, whatever the psABI says, and its linker has rows in `.debug_frame` only.
_GO = (".gopclntab", ".data.rel.ro.gopclntab")
VDSO = "[vdso]"


@dataclass(frozen=True, slots=True)
class Mapping:
    """A range of memory. `offset`: that of its first byte in the file `path`; "" for memory without a file."""

    start: int
    end: int
    offset: int
    path: str
    is_executable: bool


@dataclass(frozen=True, slots=True)
class Stated:
    """What one source states at a PC: the indices of the function and the row, and the row's claim, None if it has
    none that can be checked."""

    source: ClaimSource
    place: tuple[int, int]
    claim: Claim | None


@dataclass(slots=True, eq=False)
class Spot:
    """One PC. `address` is that in the file; `code` the bytes from there on; `stated` has an element for each source
    with a row there, and `state` what these claim together, for the kernels, and how often the PC was reached."""

    file: LoadedFile
    address: int
    instruction: Instruction
    code: bytes
    stated: tuple[Stated, ...]
    function: Function | None
    state: SpotState = field(init=False)

    @property
    def checked(self) -> int:
        """How often the PC was reached in a frame whose caller is known."""
        return self.state.checked

    @property
    def steps(self) -> int:
        """How often the PC was reached."""
        return self.state.checked + self.state.unchecked


class LoadedFile:
    """An ELF file and its sources of unwind information; `image` is None for memory that is none.

    `faults`: the sections that cannot be read, with the reason. `extra`: tables of other origin by name, for all
    addresses of the file.
    """

    def __init__(
        self, path: str, image: ElfImage | None, machine: Machine, extra: dict[str, UnwindTable] | None = None
    ) -> None:
        self.path, self.image, self.machine = path, image, machine
        self.faults: dict[str, str] = {}
        self.sources = [] if image is None else list(self._sources(image))
        self.sources += [self._source(name, table) for name, table in (extra or {}).items()]
        self.spots: dict[int, Spot] = {}
        self._interned: dict[tuple[tuple[ClaimSource, tuple[int, int]], ...], tuple[tuple[Stated, ...], Summary]] = {}

    def _sources(self, image: ElfImage) -> Iterator[ClaimSource]:
        for name in SECTIONS:
            if any(not one.is_nobits for one in image.named(name)):
                try:
                    yield self._source(name, table_of_image(image, name))
                except FormatError as error:
                    self.faults[name] = str(error)

    def _source(self, name: str, table: UnwindTable) -> ClaimSource:
        is_go = self.image is not None and any(self.image.named(one) for one in _GO)
        return ClaimSource(name, table, self.machine, not is_go or name == EH_FRAME)

    def bias(self, mapping: Mapping) -> int:
        """The number to subtract from addresses in a mapping of the file to get those in the file."""
        for one in self.image.sections if self.image is not None else ():
            start = mapping.start + one.file_offset - mapping.offset
            if one.is_code and not one.is_nobits and mapping.start <= start < mapping.end:
                return start - one.address
        return mapping.start - mapping.offset

    def spot(self, address: int, code: bytes) -> Spot:
        """The spot at an address in the file, with the bytes of its instruction and of those after it: none if they
        cannot be read, because the process is gone."""
        found = self.spots.get(address)
        if found is None or (code and not (found.code and code.startswith(found.code))):
            stated, summary = self._at(address)
            function = (id(self), stated[0].place[0]) if stated else None
            instruction = self.machine.decode(code)
            is_transfer = instruction.control is not Control.OTHER
            found = Spot(self, address, instruction, code, stated, function)
            found.state = engine.execution.frames.SpotState(found, summary, is_transfer)
            self.spots[address] = found
        return found

    def _at(self, address: int) -> tuple[tuple[Stated, ...], Summary]:
        """What the sources state at an address: the same objects where the same rows are in force."""
        stated = tuple(self._stated(address))
        key = tuple((one.source, one.place) for one in stated)
        if key not in self._interned:
            claims = (one.claim for one in stated if one.claim is not None)
            self._interned[key] = stated, summary_of(claims, self.machine)
        return self._interned[key]

    def _stated(self, address: int) -> Iterator[Stated]:
        for source in self.sources:
            place = source.row_at(address)
            if place is not None:
                yield Stated(source, place, source.claim(place))


class Library:
    """The files that programs load, each read once. `symbol_files`: the contents of symbol files, by the module id."""

    def __init__(self, machine: Machine, symbol_files: dict[str, bytes]) -> None:
        self.machine, self._symbol_files = machine, symbol_files
        self.files: dict[str, LoadedFile] = {}
        self.notes: list[str] = []

    def file(self, mapping: Mapping, read: Callable[[int, int], bytes]) -> LoadedFile:
        """The file of a mapping; `read` reads the process' memory, for the vDSO."""
        if mapping.path not in self.files:
            image = None
            try:
                if mapping.path == VDSO:
                    image = elf_of_bytes(VDSO, read(mapping.start, mapping.end - mapping.start))
                elif mapping.path.startswith("/"):
                    image = open_elf(mapping.path)
            except (FormatError, OSError) as error:
                self.notes.append(f"{mapping.path}: {error}")
            self.files[mapping.path] = LoadedFile(mapping.path, image, self.machine, self._symbols_of(image))
        return self.files[mapping.path]

    def _symbols_of(self, image: ElfImage | None) -> dict[str, UnwindTable]:
        """The table of the symbol file that is for a file."""
        if image is None or not self._symbol_files or image.architecture.breakpad_module is None:
            return {}
        text = self._symbol_files.get(module_of(image)[0].id)
        return {} if text is None else {STACK_CFI: read_symbols(text, image.architecture, image.load_address).table}


class AddressSpace:
    """The memory of one process: its mappings, and the spots that were reached. `read` gives bytes at an address,
    fewer if they are not all there; `mappings` lists the current ones."""

    def __init__(
        self, library: Library, read: Callable[[int, int], bytes], mappings: Callable[[], list[Mapping]]
    ) -> None:
        self.known_files, self.read, self._list = library, read, mappings
        # By PC, the same object for all threads.
        self.spots: dict[int, SpotState] = {}
        self._mappings: list[Mapping] = []
        # Of each mapping that was looked at, by its start: its file, and the difference between addresses.
        self._files: dict[int, tuple[LoadedFile, int]] = {}

    def forget(self) -> None:
        """Mappings have changed."""
        self.spots.clear()
        self._files.clear()
        self._mappings = []

    def has_code(self, start: int, end: int) -> bool:
        """Whether code of a file was mapped in a range when the mappings were listed last."""
        return any(one.is_executable and one.start < end and start < one.end for one in self._mappings)

    def _mapping_at(self, address: int) -> Mapping:
        """The mapping that contains an address; without one, as memory without a file."""
        for is_fresh in (False, True):
            if is_fresh:
                self._mappings = sorted(self._list(), key=lambda one: one.start)
                self._files.clear()
            index = bisect_right(self._mappings, address, key=lambda one: one.start) - 1
            if index >= 0 and address < self._mappings[index].end:
                return self._mappings[index]
        return Mapping(address, address + MAX_INSTRUCTION, 0, "", True)

    def _file_at(self, pc: int) -> tuple[LoadedFile, int]:
        """The file at a PC, and the number to subtract to get an address in the file."""
        mapping = self._mapping_at(pc)
        if mapping.start not in self._files:
            file = self.known_files.file(mapping, self.read)
            self._files[mapping.start] = file, file.bias(mapping)
        return self._files[mapping.start]

    def state(self, pc: int) -> SpotState:
        """The state of the spot at a PC."""
        known = self.spots.get(pc)
        if known is not None:
            return known
        file, bias = self._file_at(pc)
        found = file.spot(pc - bias, self.read(pc, MAX_INSTRUCTION)).state
        if file.image is not None:
            # Code elsewhere may be written again and again.
            self.spots[pc] = found
        return found
