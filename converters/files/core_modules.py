"""The modules of a process: their ELF files, where they are loaded, and their unwind tables.

Strategy: NT_FILE lists what was mapped. A core file without it (qemu-user's) has the dynamic linker's list of loaded
libraries in its memory; for that the program itself has to be given. A file is used if its build id is that in memory.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import field
from pathlib import Path

from ...schemas.data_classes import dataclass
from ...schemas.elf.numbers import DT
from ...schemas.section import FormatError
from ..elf.debug_files import BY_LINKS, DebugFiles, with_debug_file
from ..elf.identity import build_id, build_ids_in, by_build_id
from ..elf.image import ElfImage, ElfLayout, elf_of_bytes, layout_of, open_elf
from ..elf.inputs import StrPath, is_file
from ..elf.process_state import LoadedModule, ProcessState
from ..elf.relocation import lay_out, relocate
from ..table.lookup import RowIndex
from ..table.model import UnwindTable, concatenate
from .read_elf import STACK_CFI, table_of_section

VDSO = "[vdso]"
SECTIONS = {name.removeprefix("."): name for name in (".eh_frame", ".debug_frame", ".sframe")}
AUTO, BREAKPAD = "auto", "breakpad"
SOURCES = (AUTO, *SECTIONS, BREAKPAD)
# What is read of memory: a file's first page with its build id; a vDSO.
PAGE, VDSO_SIZE = 1 << 12, 1 << 16
MAX_MODULES, MAX_PATH = 1 << 12, 1 << 12
WORD = 8


@dataclass(frozen=True, slots=True)
class Places:
    """Where files are looked up: the program `exe`, None for the path in the core file; `roots`, folders that paths in
    the core file are relative to; `debug`, separate debug files; `stores`, of symbol files."""

    exe: StrPath | None = None
    roots: Sequence[StrPath] = ("/",)
    debug: DebugFiles = BY_LINKS
    stores: Sequence[StrPath] = ()


@dataclass(slots=True, eq=False)
class Module:
    """A loaded file: addresses in the process are `bias` higher than in the file. `image` is None if the file was not
    found or is another one; `notes` has the reason. Without it, addresses are those of its symbol file, `symbols`,
    which is looked up by `identifier`."""

    path: str
    start: int
    end: int
    bias: int = 0
    image: ElfImage | None = None
    identifier: str = ""
    notes: list[str] = field(default_factory=list)
    symbols: ElfImage | None = None
    indices: dict[str, RowIndex | None] = field(default_factory=dict)

    def index(self, source: str, places: Places) -> RowIndex | None:
        """The table of one source; None if the module does not have it, or if it is malformed."""
        if source not in self.indices:
            table = self._read(source, places)
            self.indices[source] = None if table is None else RowIndex(table)
        return self.indices[source]

    def _read(self, source: str, places: Places) -> UnwindTable | None:
        try:
            if source == BREAKPAD:
                symbols = self.symbol_file(places)
                if symbols is None:
                    return None
                return table_of_section(symbols, symbols.contents(symbols.named(STACK_CFI)[0]))
            if self.image is None:
                return None
            laid = lay_out(self.image)
            found = [one for one in self.image.named(SECTIONS[source]) if not one.is_nobits]
            tables = [table_of_section(self.image, relocate(laid, one)) for one in found]
            return concatenate(tables) if tables else None
        except (FormatError, OSError) as error:
            self.notes.append(f"{source} cannot be read: {error}")
            return None

    def symbol_file(self, places: Places) -> ElfImage | None:
        """The module's file in a symbol store. Raises OSError and ParseError."""
        if self.symbols is None and places.stores:
            from ..breakpad.module import module_of  # most walks need no symbol files
            from .inputs import Raw, open_image

            names, identifier, load_address = [Path(self.path).name], self.identifier, 0
            if self.image is not None:
                module, _ = module_of(self.image)
                names, load_address = [module.name, *names], self.image.load_address
                identifier = identifier or module.id
            paths = [Path(store, name, identifier, f"{name}.sym") for store in places.stores for name in names]
            found = next(filter(is_file, paths), None)
            self.symbols = None if found is None else open_image(found, Raw(address=load_address))
        return self.symbols


def modules_of(state: ProcessState, places: Places) -> list[Module]:
    """The modules, ascending by address. What memory the core file lacks is added to it from their files."""
    if state.modules:
        found = [_listed(one, places) for one in state.modules]
    else:
        found = list(_mapped(state, places)) if state.mapped else list(_linked(state, places))
    for module in found:
        if module.image is not None:
            for one in layout_of(module.image).of_type("PT_LOAD"):
                data = module.image.data[one.file_offset : one.file_offset + one.file_size]
                state.memory.add((module.bias + one.address) % (1 << 64), data)
    return sorted([*found, *_vdso(state)], key=lambda module: module.start)


def _vdso(state: ProcessState) -> Iterator[Module]:
    """The vDSO, whose only file is memory."""
    if state.vdso is None or state.modules:  # a list of modules has it
        return
    data = state.memory.upto(state.vdso, VDSO_SIZE)
    module = Module(VDSO, state.vdso, state.vdso + len(data))
    try:
        module.image = elf_of_bytes(VDSO, data)
        module.bias = state.vdso - module.image.load_address
    except FormatError as error:
        module.notes.append(str(error))
    if data:
        yield module


# --- minidumps --------------------------------------------------------------------------------------------------------


def _listed(one: LoadedModule, places: Places) -> Module:
    """A module of a list."""
    from ..breakpad.module import AGE, guid_of, module_of  # for minidumps only

    identifier = one.identifier or (guid_of(one.build_id) + AGE if one.build_id else "")
    module = Module(one.path, one.start, one.start + one.size, one.start, identifier=identifier)
    module.image = _find(module, places, None, one.build_id)
    if module.image is not None:
        own = module_of(module.image)[0].id
        if identifier and own != identifier:
            module.notes.append(f"{module.image.path} has the identifier {own}, not {identifier}: not used")
            module.image = None
        else:
            module.bias = one.start - module.image.load_address
    return module


# --- NT_FILE ----------------------------------------------------------------------------------------------------------


def _mapped(state: ProcessState, places: Places) -> Iterator[Module]:
    """The modules of NT_FILE: of each path its ranges together."""
    by_path: dict[str, Module] = {}
    first_offset: dict[str, tuple[int, int]] = {}
    for one in state.mapped:
        module = by_path.setdefault(one.path, Module(one.path, one.start, one.end))
        module.start, module.end = min(module.start, one.start), max(module.end, one.end)
        first_offset[one.path] = min(first_offset.get(one.path, (one.offset, one.start)), (one.offset, one.start))
    for path, module in by_path.items():
        offset, start = first_offset[path]
        is_program = state.entry is not None and module.start <= state.entry < module.end
        identifier = _build_id_at(state, start) if offset == 0 else b""
        module.image = _find(module, places, places.exe if is_program else None, identifier)
        if module.image is not None:
            module.bias = _bias(layout_of(module.image), offset, start)
            yield module
        elif identifier or is_program:  # other mapped files are no modules
            yield module


def _build_id_at(state: ProcessState, start: int) -> bytes:
    """The build id in the first page of a module; empty if it is not in memory."""
    page = state.memory.upto(start, PAGE)
    # Notes follow each other: the search begins at each that can be the build id's.
    at = page.find(b"GNU\0")
    while at >= 12:
        found = build_ids_in(memoryview(page)[at - 12 : at + 64], state.memory.byte_order)
        if found and 2 <= len(found[0]) <= 32:
            return found[0]
        at = page.find(b"GNU\0", at + 1)
    return b""


def _bias(layout: ElfLayout, offset: int, start: int) -> int:
    """How much higher a file is loaded, whose byte at `offset` is at `start`."""
    for one in layout.of_type("PT_LOAD"):
        if one.file_offset - one.file_offset % PAGE <= offset < one.file_offset + max(one.file_size, 1):
            return start - (one.address + offset - one.file_offset)
    return start - offset


def _find(module: Module, places: Places, given: StrPath | None, identifier: bytes) -> ElfImage | None:
    """The module's file: the given one, or that of its path in a root, or by build id in a debug folder."""
    for path in _candidates(module.path, places, given, identifier):
        try:
            image = open_elf(path)
            if identifier and (other := build_id(image)) and other != identifier:
                module.notes.append(f"{path} has the build id {other.hex()}, not {identifier.hex()}: not used")
                continue
            joined = with_debug_file(image, places.debug)
        except (OSError, FormatError) as error:
            if path == given:
                raise
            module.notes.append(f"{path} cannot be read: {error}")
            continue
        return joined
    if not module.notes:
        module.notes.append("not found")
    return None


def _candidates(name: str, places: Places, given: StrPath | None, identifier: bytes) -> Iterator[StrPath]:
    if given is not None:
        yield given
        return
    for root in places.roots:
        path = Path(f"{os.fspath(root)}/{name}")
        if is_file(path):
            yield path
    for folder in places.debug.folders if len(identifier) > 1 else ():
        path = by_build_id(folder, identifier)
        for one in (path.with_suffix(""), path):
            if is_file(one):
                yield one


# --- the dynamic linker's list ----------------------------------------------------------------------------------------


def _linked(state: ProcessState, places: Places) -> Iterator[Module]:
    """The program, and the libraries in the dynamic linker's list (glibc, elf/link.h: r_debug, link_map)."""
    if places.exe is None or state.entry is None:
        return
    module = Module(os.fspath(places.exe), 0, 0)
    module.image = _find(module, places, places.exe, b"")
    if module.image is None:
        return
    layout = layout_of(module.image)
    yield _placed(module, layout, state.entry - layout.entry)
    try:
        entry = _first_link(state, layout, module.bias)
        for _ in range(MAX_MODULES if entry else 0):
            bias, name_at, entry = (state.memory.read(entry + at, WORD) for at in (0, WORD, 3 * WORD))
            name = state.memory.upto(name_at, MAX_PATH).partition(b"\0")[0].decode("utf-8", "surrogateescape")
            if "/" in name:
                library = Module(name, 0, 0)
                library.image = _find(library, places, None, b"")
                if library.image is not None:
                    yield _placed(library, layout_of(library.image), bias)
            if not entry:
                break
    except LookupError:
        return


def _first_link(state: ProcessState, layout: ElfLayout, bias: int) -> int:
    """The address of the first link_map, 0 if there is none. Raises LookupError."""
    for one in layout.of_type("PT_DYNAMIC"):
        for at in range(0, min(one.memory_size, PAGE), 2 * WORD):
            tag, value = (state.memory.read(bias + one.address + at + more, WORD) for more in (0, WORD))
            if tag == DT.DEBUG and value:
                return state.memory.read(value + WORD, WORD)
    return 0


def _placed(module: Module, layout: ElfLayout, bias: int) -> Module:
    """The module with the addresses of its segments."""
    loads = layout.of_type("PT_LOAD")
    module.bias = bias
    module.start = bias + min((one.address for one in loads), default=0)
    module.end = bias + max((one.address + one.memory_size for one in loads), default=0)
    return module
