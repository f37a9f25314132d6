"""The unwind information of a file, section by section: the job of `unwindkit info`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..converters.elf.debug_files import BY_LINKS, DebugFiles
from ..converters.elf.image import SYMBOL_FILE, ElfImage, ElfSection, covered_bytes
from ..converters.elf.inputs import Input, input_name
from ..converters.elf.relocation import LaidOut, lay_out, relocate
from ..converters.files.inputs import KINDS, Part, Raw, open_parts
from ..converters.files.read_elf import DIALECTS, TEXTS, table_of_section
from ..converters.sframe.section import section_version
from ..converters.table.model import FunctionFlag, UnwindTable
from ..schemas.arguments import checked
from ..schemas.data_classes import dataclass
from ..schemas.section import ParseError, Section


@dataclass(frozen=True, slots=True)
class SectionInfo:
    """One section of unwind information. `fault` is the reason why it could not be read; the counts are then None.

    `size` is that of the content; a compressed section has `stored_size` bytes in the file, any other None.
    `file` is the debug file that a section is from, "" for the file itself.
    `rows` counts the rows of all functions, `distinct_runs` the row runs that they share; `covered_bytes` counts bytes
    of executable sections. `opaque` functions have an unknown augmentation, and no rules. `disagreements` are
    sentences about how an `.eh_frame_hdr` contradicts the `.eh_frame`; None for other sections, and if an `.eh_frame`
    cannot be read.
    """

    name: str
    address: int
    size: int
    version: int | None = None
    functions: int | None = None
    rows: int | None = None
    distinct_runs: int | None = None
    covered_bytes: int | None = None
    opaque: int | None = None
    fault: str | None = None
    disagreements: tuple[str, ...] | None = None
    stored_size: int | None = None
    file: str = ""


@dataclass(frozen=True, slots=True)
class FileInfo:
    """The unwind information of a file and of its `debug_file`, "" if there is none; `debug_notes` are sentences about
    debug files that were found, but not used.

    `type` is ET_..., "raw section", "symbol file" or "archive". An archive has no `sections` but `members`, with the
    member's name in `file`; `architecture` and `byte_order` are then those that members have. `records` counts the
    records of a symbol file by their first words, `module` is the name in its MODULE record. `fault` is the reason why
    a member could not be read.
    """

    file: str
    type: str
    architecture: str
    byte_order: str
    code_bytes: int
    sections: tuple[SectionInfo, ...] = ()
    members: tuple[FileInfo, ...] = ()
    records: dict[str, int] | None = None
    module: str | None = None
    fault: str | None = None
    debug_file: str = ""
    debug_notes: tuple[str, ...] = ()


# .eh_frame_hdr is read after .eh_frame, with which it is compared.
UNWIND_SECTIONS = (".eh_frame", ".eh_frame_hdr", ".debug_frame", ".sframe")
ARCHIVE = "archive"


@checked(debug=DebugFiles)
def info(
    path: Input,
    *,
    source: str | None = None,
    address: int = 0,
    architecture: str | None = None,
    debug: DebugFiles = BY_LINKS,
) -> FileInfo:
    """List the unwind information of an ELF file and its debug file (`debug`), an archive, a raw section or a symbol
    file; malformed sections and members with their fault.

    `source` is the kind of a raw section, at the virtual address `address`, or the section of an ELF file to list;
    `architecture` has to be given for all raw sections but SFrame. Raises as `read_elf`, and BuildError if something is
    missing or must not be given.
    """
    found: list[FileInfo] = []
    for part in open_parts(path, Raw(source, address, architecture), debug):
        if part.member is None:
            return _image_info(_known(part.image), part.file, source)
        found.append(_member_info(part, source))
    return FileInfo(
        file=input_name(path),
        type=ARCHIVE,
        architecture=", ".join(dict.fromkeys(one.architecture for one in found if one.architecture)),
        byte_order=", ".join(dict.fromkeys(one.byte_order for one in found if one.byte_order)),
        code_bytes=sum(one.code_bytes for one in found),
        members=tuple(found),
    )


def _known(image: ElfImage | None) -> ElfImage:
    assert image is not None  # only members of archives have none
    return image


def _member_info(part: Part, source: str | None) -> FileInfo:
    fault = "not an ELF file"
    if part.image is not None:
        try:
            return _image_info(part.image, part.file, source)
        except ParseError as error:
            fault = str(error)
    return FileInfo(part.file, "", "", "", 0, fault=fault)


def _image_info(image: ElfImage, file: str, source: str | None) -> FileInfo:
    architecture = image.architecture
    names = UNWIND_SECTIONS if source is None else (KINDS[source],)
    headers = [header for name in names for header in image.named(name)]
    if not image.is_elf:
        headers = list(image.sections[1:])
    # A relocatable file has all sections at 0, and they are listed so; its functions are read with distinct addresses.
    laid = lay_out(image)
    frames: list[tuple[Section, UnwindTable]] = []
    found = tuple(_section_info(laid, header, frames) for header in headers)
    empty = np.zeros(0, np.uint64)
    code = covered_bytes(image, empty, empty)[1]
    about = FileInfo(file, str(image.type), architecture.name, image.byte_order, code, found)
    about = replace(about, debug_file=image.debug_file, debug_notes=image.notes)
    if image.type != SYMBOL_FILE:
        return about
    from ..converters.breakpad.records import count_records, module_record, stack_size

    module = module_record(image.data)
    found = tuple(replace(section, size=stack_size(image.data)) for section in found)
    return replace(
        about, sections=found, records=count_records(bytes(image.data)), module=None if module is None else module.name
    )


def _section_info(laid: LaidOut, header: ElfSection, frames: list[tuple[Section, UnwindTable]]) -> SectionInfo:
    """Describe one section. `frames` are the `.eh_frame` sections so far with their tables; another one is appended."""
    image = laid.image
    part = image.part_of(header)
    about = SectionInfo(header.name, header.address, header.size, file="" if part is None else part.path)
    try:
        if header.is_compressed:
            about = replace(about, size=image.content_size(header), stored_size=header.size)
        section = relocate(laid, image.sections[header.index])
        if header.name == ".eh_frame_hdr":
            return _section_info_hdr(about, section, image, frames)
        if header.name == ".sframe" and len(section):
            about = replace(about, version=section_version(section))
        if header.name not in (*DIALECTS, ".sframe", *TEXTS):
            return about
        table = table_of_section(image, section)
    except ParseError as error:
        return replace(about, fault=str(error))
    if header.name == ".eh_frame":
        frames.append((section, table))
    functions = table.functions
    return replace(
        about,
        functions=len(table),
        rows=int(np.diff(table.run_rows)[functions.run].sum()),
        distinct_runs=int(np.count_nonzero(np.bincount(functions.run))),
        covered_bytes=covered_bytes(image, functions.start, functions.start + functions.size)[0],
        opaque=int((functions.flags & FunctionFlag.UNKNOWN_AUGMENTATION > 0).sum()),
    )


def _section_info_hdr(
    about: SectionInfo, section: Section, image: ElfImage, frames: list[tuple[Section, UnwindTable]]
) -> SectionInfo:
    from ..converters.cfi.eh_frame_hdr import check_eh_frame_hdr_columns, read_eh_frame_hdr

    header = read_eh_frame_hdr(section)
    about = replace(about, version=header.version, functions=header.fde_count)
    if len(frames) < len(image.named(".eh_frame")):
        return about
    return replace(about, disagreements=check_eh_frame_hdr_columns(section, header, frames).sentences())
