"""The inputs of `convert` and `merge`: a section of an ELF file, a raw section, or a symbol file."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path

from ..converters.elf.admission import refuse_relocatable, section_of_image
from ..converters.elf.debug_files import BY_LINKS, DebugFiles, with_debug_file
from ..converters.elf.image import ElfImage
from ..converters.elf.relocation import lay_out
from ..converters.files.code_frames import code_frames, section_sizes
from ..converters.files.inputs import TABLE_KINDS, Raw, open_image
from ..converters.files.read_elf import ALL, STACK_CFI, in_sections, table_of_image
from ..converters.refusals import RefusedRecords
from ..converters.table.model import UnwindTable
from ..schemas.data_classes import dataclass
from ..schemas.section import BuildError, Section

# Section names without the dot, symbol files, and all call frame information of an ELF file.
SOURCES = (*TABLE_KINDS, ALL)


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """What was read: a `section`, the first if several are joined; `sizes` has the size in bytes of each, by name.
    `image` is None for a raw section; `read` and `outside` as in CodeFrames. The `table` of a relocatable file has the
    addresses of `lay_out`. `refused` are records that the table lacks, and `warnings` sentences about what else it
    lacks or assumes."""

    section: Section
    table: UnwindTable
    sizes: dict[str, int]
    image: ElfImage | None = None
    read: tuple[str, ...] = ()
    outside: int = 0
    refused: RefusedRecords = field(default_factory=lambda: RefusedRecords.defaults(0))
    warnings: tuple[str, ...] = ()

    @property
    def table_in_sections(self) -> UnwindTable:
        """The table with the addresses of a relocatable file relative to its sections."""
        return self.table if self.image is None else in_sections(lay_out(self.image), self.table)

    @property
    def version(self) -> int | None:
        """The SFrame version; None for other sections and for an empty one."""
        if self.section.name != ".sframe" or not len(self.section):
            return None
        from ..converters.sframe.section import section_version

        return section_version(self.section)


def read_source(
    path: Path,
    source: str | None,
    address: int,
    architecture: str | None,
    debug: DebugFiles = BY_LINKS,
    otherwise: str | None = None,
) -> Source:
    """Read an ELF file, a raw section, a symbol file or assembler text. `source` is one of SOURCES. None: that section
    of an ELF file, and that kind of an input that is not recognised, is the `otherwise`; if that is None, too, ALL call
    frame information of an ELF file. `debug` chooses its debug file. Raises OSError, ParseError, BuildError."""
    if source is not None and source not in SOURCES:
        raise BuildError("", None, "source", f"{source!r} is not one of {', '.join(SOURCES)}")
    kind = None if source == ALL else source
    image = with_debug_file(open_image(path, Raw(kind, address, architecture, otherwise)), debug)
    if not image.is_elf:
        section = image.contents(image.sections[-1])
        if section.name == STACK_CFI:
            return _of_symbols(image, section)
        return Source(section, table_of_image(image), {section.name: len(section)})
    name = source or otherwise or ALL
    frames = code_frames(lay_out(image), name if name == ALL else f".{name}")
    sizes = section_sizes(image, frames.sections)
    if image.type == "ET_REL":
        section = image.contents(image.named(frames.sections[0])[0])
    else:
        section = section_of_image(image, frames.sections[0])
    return Source(section, frames.table, sizes, image, frames.read, frames.outside)


def _of_symbols(image: ElfImage, section: Section) -> Source:
    """The STACK records of a symbol file."""
    from ..converters.breakpad.records import stack_size
    from ..converters.breakpad.symbols import read_symbols

    symbols = read_symbols(bytes(image.data), image.architecture, image.load_address)
    sizes = {section.name: stack_size(image.data)}
    return Source(section, symbols.table, sizes, refused=symbols.refused)


def refuse_objects(source: Source) -> None:
    """Raise ParseError if it was read from a relocatable file: its functions have no addresses."""
    if source.image is not None:
        refuse_relocatable(source.image)
