"""The inputs of `convert` and `merge`: a section of an ELF file, a raw section, or a symbol file."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from ..converters.arch.table import NAMES, Architecture, find_architecture
from ..converters.cfi.read import table_from_cfi
from ..converters.elf.admission import refuse_relocatable, section_of_image
from ..converters.elf.debug_files import BY_LINKS, DebugFiles, refuse_debug_file, with_debug_file
from ..converters.elf.image import ElfImage, open_elf
from ..converters.elf.relocation import lay_out
from ..converters.files.code_frames import code_frames, section_sizes
from ..converters.files.inputs import symbol_file_architecture
from ..converters.files.read_elf import ALL, DIALECTS, DIRECTIVES
from ..converters.refusals import RefusedRecords
from ..converters.sframe.read import table_from_sframe
from ..converters.sframe.section import section_version
from ..converters.table.model import UnwindTable
from ..schemas.section import BuildError, ParseError, Section
from .file_kinds import is_elf
from .losses import losses_of_symbols

# Section names without the dot, symbol files, and all call frame information of an ELF file.
SOURCES = ("sframe", "eh_frame", "debug_frame", "breakpad", DIRECTIVES, ALL)
SYMBOLS = "STACK CFI"
_TEXTS = {"breakpad": "a symbol file", DIRECTIVES: "assembler text"}


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """What was read: a `section`, the first if several are joined; `sizes` has the size in bytes of each, by name.
    `image` is None for a raw section; `read` and `outside` as in CodeFrames. `refused` are records that the table
    lacks, and `warnings` sentences about what else it lacks or assumes."""

    section: Section
    table: UnwindTable
    sizes: dict[str, int]
    image: ElfImage | None = None
    read: tuple[str, ...] = ()
    outside: int = 0
    refused: RefusedRecords = field(default_factory=lambda: RefusedRecords.defaults(0))
    warnings: tuple[str, ...] = ()

    @property
    def version(self) -> int | None:
        """The SFrame version; None for other sections and for an empty one."""
        return section_version(self.section) if self.section.name == ".sframe" and len(self.section) else None


def read_source(
    path: Path, source: str | None, address: int, architecture: str | None, debug: DebugFiles = BY_LINKS
) -> Source:
    """Read a section of an ELF file, a raw section or a symbol file. `source` is one of SOURCES; None for an ELF file:
    ALL call frame information. `debug` chooses its debug file. Raises OSError, ParseError, BuildError."""
    if source is not None and source not in SOURCES:
        raise BuildError("", None, "source", f"{source!r} is not one of {', '.join(SOURCES)}")
    name = source if source in (None, ALL) else f".{source}"
    if is_elf(path):
        if address or architecture is not None:
            record = "address" if address else "architecture"
            raise BuildError("", None, record, "is known from the ELF file: it can be given for a raw section only")
        if source in _TEXTS:
            raise BuildError("", None, "source", f"{source} is {_TEXTS[source]}, but the input is an ELF file")
        image = with_debug_file(open_elf(path), debug)
        refuse_relocatable(image)
        frames = code_frames(lay_out(image), name or ALL)
        sizes = section_sizes(image, frames.sections)
        section = section_of_image(image, frames.sections[0])
        return Source(section, frames.table, sizes, image, frames.read, frames.outside)
    refuse_debug_file(debug)
    if name in (None, ALL):
        raise BuildError("", None, "source", f"is missing: a raw section is one of {', '.join(SOURCES[:-1])}")
    if not 0 <= address < 1 << 64:
        raise ParseError(name, None, "address", f"{address:#x} is not a 64-bit address")
    data = memoryview(path.read_bytes())
    if source == "breakpad":
        from ..converters.breakpad.symbols import read_symbols

        symbols = read_symbols(bytes(data), symbol_file_architecture(data, architecture), address)
        found = _raw(Section(SYMBOLS, data, address), symbols.table)
        return replace(found, refused=symbols.refused, warnings=losses_of_symbols(symbols))
    if source == DIRECTIVES:
        from ..converters.files.directives import table_from_directives

        arch = _known(DIRECTIVES, architecture)
        section = Section(DIRECTIVES, data, address, None, arch.byte_order, arch.address_size)
        return _raw(section, table_from_directives(bytes(data), arch, address or None, arch.byte_order))
    if name == ".sframe":
        if architecture is not None:
            raise BuildError(
                name,
                None,
                "architecture",
                "is known from the SFrame header: it can be given for call frame information only",
            )
        section = Section(name, data, address)
        return _raw(section, table_from_sframe(section))
    arch = _known(name, architecture)
    section = Section(name, data, address, None, arch.byte_order, arch.address_size)
    return _raw(section, table_from_cfi(section, DIALECTS[name], arch))


def _raw(section: Section, table: UnwindTable) -> Source:
    return Source(section, table, {section.name: len(section)})


def _known(name: str, architecture: str | None) -> Architecture:
    """The architecture of that name. Raises BuildError if it is missing or unknown."""
    found = None if architecture is None else find_architecture(architecture)
    if found is None:
        problem = "is missing" if architecture is None else f"{architecture!r} is unknown"
        raise BuildError(name, None, "architecture", f"{problem}: it is one of {NAMES}")
    return found
