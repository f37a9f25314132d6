"""Inputs of every kind as ELF images: ELF files, members of archives, raw sections, symbol files.

Strategy: this is the one way in for commands that read. A raw section or a symbol file becomes an image with exactly
one section, so that everything that works on files works on it. ELF, archives, SFrame and symbol files are known by
their first bytes; for all other sections the caller gives the kind and the architecture.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from ...schemas.archive import Member, is_archive, is_thin, members_of
from ...schemas.data_classes import dataclass
from ...schemas.lookup_tables import ARANGES
from ...schemas.macros import MACRO_SECTIONS
from ...schemas.section import BuildError, FormatError, ParseError, Section
from ...schemas.sframe import SFRAME_MAGIC
from ..arch.table import ARCHITECTURES, NAMES, Architecture, find_architecture
from ..elf.compression import LEAST_INFLATED
from ..elf.debug_files import DebugFiles, refuse_debug_file, with_debug_file
from ..elf.image import RAW_SECTION, SYMBOL_FILE, ElfImage, ElfSection, elf_of_mapping
from ..elf.inputs import Input, input_name, map_input
from .read_elf import DIRECTIVES, STACK_CFI

ELF = "elf"
ELF_MAGIC = b"\x7fELF"
SFRAME, SFRAME_KIND = ".sframe", "sframe"
SFRAME_MAGICS = (SFRAME_MAGIC.to_bytes(2, "little"), SFRAME_MAGIC.to_bytes(2, "big"))
# The first words of symbol files, and of the part of one that is about unwinding.
SYMBOL_FILE_STARTS = (b"MODULE ", b"STACK CFI ", b"STACK WIN ")
BREAKPAD = "breakpad"
_NAMES = (
    *(SFRAME, ".eh_frame", ".debug_frame", ".eh_frame_hdr", ".debug_line", ARANGES, ".debug_pubnames"),
    *(".debug_gnu_pubnames", ".debug_pubtypes", ".debug_gnu_pubtypes", *MACRO_SECTIONS),
)
# What raw inputs can be, and the name of the image's section.
KINDS = {name.removeprefix("."): name for name in _NAMES} | {BREAKPAD: STACK_CFI, DIRECTIVES: DIRECTIVES}

_TEXTS = {BREAKPAD: "a symbol file", DIRECTIVES: "assembler text"}

TABLE_KINDS = (SFRAME_KIND, "eh_frame", "debug_frame", BREAKPAD, DIRECTIVES)  # those from which a table is read


@dataclass(frozen=True, slots=True)
class Raw:
    """What a caller knows about an input. `kind`, one of KINDS: of a raw section, or the section of an ELF file that is
    read (None: recognise the input, read all sections). `address`: the virtual address of a raw section, the load
    address of a symbol file. `architecture`: the name, where the bytes do not tell. An input that is not recognised is
    an `otherwise`: a kind, or ELF, which then is an error; None: the kind is missing, one of TABLE_KINDS.
    """

    kind: str | None = None
    address: int = 0
    architecture: str | None = None
    otherwise: str | None = ELF


NOT_RAW = Raw()


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One image of an input: the input itself, or a `member` of an archive (else None; its name may be empty). `file`
    names both, as in readelf: `libc.a(printf.o)`, or `libc.a[printf.o]` of a thin archive. `image` is None for a member
    that is not an ELF file.
    """

    image: ElfImage | None
    member: str | None = None
    file: str = ""


def open_image(source: Input, raw: Raw = NOT_RAW) -> ElfImage:
    """The image of an input that is not an archive. Raises OSError, ParseError for malformed input, and BuildError if
    something has to be given or must not be given."""
    _check(raw)
    return _image(input_name(source), map_input(source), raw)


def open_parts(source: Input, raw: Raw = NOT_RAW, debug: DebugFiles | None = None) -> Iterator[Part]:
    """The image of an input, or those of an archive's members, in order; that of a linked file is joined with the file
    that `debug` chooses.

    Raises as `open_image`; `file` of the error names the member.
    """
    _check(raw)
    name, data = input_name(source), map_input(source)
    if not is_archive(data):
        image = _image(name, data, raw)
        yield Part(image if debug is None else with_debug_file(image, debug), file=name)
        return
    refuse_description(raw)
    if debug is not None:
        refuse_debug_file(debug)
    for member, file, contents in _contents(name, data):
        one = None
        if contents[:4] == ELF_MAGIC:
            with naming_file(file):
                # The members of an archive together have the bound of one file.
                one = elf_of_mapping(member, contents, min(LEAST_INFLATED, LEAST_INFLATED * len(contents) // len(data)))
        yield Part(one, member, file)


@contextmanager
def naming_file(name: str) -> Iterator[None]:
    """Errors name the file, unless they name one already."""
    try:
        yield
    except FormatError as error:
        error.file = error.file or name
        raise


def _contents(archive: str, data: memoryview) -> Iterator[tuple[str, str, memoryview]]:
    """The name of each member, the name together with the archive's, and the bytes."""
    thin, paths = is_thin(data[:8]), set[str]()
    for member in members_of(data):
        if member.is_table:
            continue
        if thin:
            path = _thin_path(archive, member)
            if path in paths:
                # A header of 60 bytes would read a whole file again.
                raise ParseError("archive", member.offset, "ar_name", f"{member.name} is the file of an earlier member")
            paths.add(path)
            yield member.name, f"{archive}[{member.name}]", map_input(path)
        else:
            yield member.name, f"{archive}({member.name})", map_input(member.data)


def _thin_path(archive: str, member: Member) -> str:
    """The path of a member of a thin archive, which is relative to the archive's folder."""
    if not archive:
        raise BuildError("", None, "magic", "is a thin archive without a path: its members are separate files")
    path = os.path.join(os.path.dirname(archive), member.name)
    # A device or a pipe may have no end.
    if "\0" in path or (os.path.exists(path) and not os.path.isfile(path)):
        raise ParseError("archive", member.offset, "ar_name", f"{member.name!r} is not a regular file")
    return path


def _check(raw: Raw) -> None:
    if raw.kind is not None and raw.kind not in KINDS:
        raise BuildError("", None, "source", f"{raw.kind!r} is not one of {', '.join(KINDS)}")
    if not 0 <= raw.address < 1 << 64:
        name = KINDS.get(raw.kind or raw.otherwise or "", "")
        raise ParseError(name, None, "address", f"{raw.address:#x} is not a 64-bit address")


def _image(name: str, data: memoryview, raw: Raw) -> ElfImage:
    if data[:4] == ELF_MAGIC:
        refuse_description(raw)
        return elf_of_mapping(name, data)
    kind = raw.kind or (ELF if is_archive(data) else recognised_kind(data) or raw.otherwise)
    if kind is None or (kind == ELF and (raw.architecture is not None or raw.address)):
        kinds = ", ".join(KINDS if kind == ELF else TABLE_KINDS)
        raise BuildError("", None, "source", f"is missing: a raw section is one of {kinds}")
    if kind == ELF:
        return elf_of_mapping(name, data)  # raises the error that names the kind of file
    return raw_image(name, data, Raw(kind, raw.address, raw.architecture))


def recognised_kind(data: memoryview) -> str | None:
    """The kind of a raw input whose first bytes tell it."""
    if data[:2] in SFRAME_MAGICS:
        return SFRAME_KIND
    return BREAKPAD if bytes(data[:10]).startswith(SYMBOL_FILE_STARTS) else None


def refuse_description(raw: Raw) -> None:
    """Raise BuildError for what ELF files and archives tell themselves."""
    if raw.address or raw.architecture is not None:
        record = "address" if raw.address else "architecture"
        raise BuildError("", None, record, "is known from the ELF file: it can be given for a raw section only")
    if raw.kind in _TEXTS:
        raise BuildError("", None, "source", f"{raw.kind} is {_TEXTS[raw.kind]}, but the input is an ELF file")


def raw_image(name: str, data: memoryview, raw: Raw) -> ElfImage:
    """The image of a raw section or a symbol file, whose kind is given. Raises ParseError and BuildError."""
    assert raw.kind is not None
    section_name, is_symbols = KINDS[raw.kind], raw.kind == BREAKPAD
    architecture = _architecture(section_name, data, raw)
    header = ElfSection(section_name, "SHT_PROGBITS", 0, 0 if is_symbols else raw.address, 0, len(data), index=1)
    return ElfImage(
        path=name,
        type=SYMBOL_FILE if is_symbols else RAW_SECTION,
        machine=architecture.machine,
        address_size=architecture.address_size,
        byte_order=architecture.byte_order,
        loaded=((raw.address, 0),) if is_symbols else (),
        sections=(ElfSection("", "SHT_NULL", 0, 0, 0, 0, index=0), header),
        data=data,
    )


def _architecture(section: str, data: memoryview, raw: Raw) -> Architecture:
    if section == STACK_CFI:
        return symbol_file_architecture(data, raw.architecture)
    if section != SFRAME:
        return named_architecture(section, raw.architecture)
    if raw.architecture is not None:
        reason = "is known from the SFrame header: it can be given for call frame information only"
        raise BuildError(section, None, "architecture", reason)
    from ..sframe.section import section_architecture  # not needed for most inputs

    return section_architecture(Section(section, data, raw.address))


def named_architecture(section: str, name: str | None) -> Architecture:
    """The architecture of that name. Raises BuildError if it is missing or unknown."""
    found = None if name is None else find_architecture(name)
    if found is None:
        problem = "is missing" if name is None else f"{name!r} is unknown"
        raise BuildError(section, None, "architecture", f"{problem}: it is one of {NAMES}")
    return found


def symbol_file_architecture(data: memoryview, name: str | None) -> Architecture:
    """The architecture called `name`, or that of the MODULE record. Raises ParseError for a malformed record, and
    BuildError if there is neither, or if they contradict each other."""
    from ..breakpad.records import module_record

    module = module_record(data)
    if module is None:
        return named_architecture(STACK_CFI, name)
    known = [one for one in ARCHITECTURES.values() if one.breakpad_module == module.architecture]
    if name is not None and named_architecture(STACK_CFI, name) not in known:
        reason = f"is {module.architecture!r} in MODULE, which is not {name}"
        raise BuildError(STACK_CFI, None, "architecture", reason)
    if not known:
        raise BuildError(STACK_CFI, None, "architecture", f"{module.architecture!r} in MODULE is not supported")
    return known[0] if name is None else ARCHITECTURES[name]
