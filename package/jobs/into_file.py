"""The ELF file that a converted section is written into, and what of the table belongs there."""

from __future__ import annotations

from pathlib import Path

from ..converters.elf.admission import refuse_relocatable
from ..converters.elf.debug_files import DebugFiles
from ..converters.elf.identity import build_id
from ..converters.elf.image import ElfImage, open_elf
from ..converters.files.code_frames import is_code
from ..converters.files.inputs import BREAKPAD, SFRAME_KIND, recognised_kind
from ..converters.files.read_elf import table_of_image
from ..converters.table.cut import overlay
from ..converters.table.model import UnwindTable
from ..schemas.data_classes import dataclass
from ..schemas.section import BuildError
from .file_kinds import is_elf
from .sources import Source, read_source


@dataclass(frozen=True, slots=True, eq=False)
class TableForFile:
    """The table to write; the number of its functions that are `kept` from the file's own section, which come first;
    and the number of functions left out because they are `outside` the executable sections."""

    table: UnwindTable
    kept: int
    outside: int


def table_for(image: ElfImage, table: UnwindTable, name: str, keep: bool) -> TableForFile:
    """The functions of a table that belong into the section `name` of a linked file.

    With `keep` the file's own functions of that section win at each PC. Raises ParseError for a relocatable or
    malformed file, BuildError for a table of another architecture or without any function of the file.
    """
    refuse_relocatable(image)
    architecture = image.architecture
    if (table.architecture.name, table.byte_order) != (architecture.name, image.byte_order):
        reason = f"is {table.architecture.name}, {table.byte_order}-endian, but {image.path} is {architecture.name}"
        raise BuildError(table.source, None, "architecture", f"{reason}, {image.byte_order}-endian")
    inside = is_code(image, table.functions.start)
    outside = int((~inside).sum())
    if outside and outside == len(table):
        reason = f"none is in an executable section of {image.path}: the addresses are wrong"
        raise BuildError(table.source, None, "functions", reason)
    chosen = table.select(inside) if outside else table
    if not keep or not image.named(name):
        return TableForFile(chosen, 0, outside)
    own = table_of_image(image, name)
    return TableForFile(overlay(own, chosen), len(own), outside)


def read_source_for(
    into: Path,
    path: Path,
    source: str | None,
    address: int,
    architecture: str | None,
    debug: DebugFiles,
    otherwise: str | None = None,
) -> Source:
    """As `read_source`, for a result that is a copy of the ELF file `into`: the architecture of raw call frame
    information and symbol files, and the load address of the latter, are that file's unless they are given.

    Raises BuildError if the two files are known to be of different builds.
    """
    image = open_elf(into)
    if is_elf(path):
        found = read_source(path, source, address, architecture, debug, otherwise)
        ids = [build_id(one) for one in (found.image, image) if one is not None]
        _refuse_other_build("build id", [one.hex() for one in ids if one])
        return found
    from ..converters.breakpad.module import module_of
    from ..converters.breakpad.records import FIRST_LINE, module_record

    with path.open("rb") as file:
        first_line = memoryview(file.readline(FIRST_LINE))
    kind = source or recognised_kind(first_line) or otherwise
    if kind == BREAKPAD:
        address = address or image.load_address
        record = module_record(first_line)
        if record is not None:
            _refuse_other_build("MODULE", [record.id.upper(), module_of(image)[0].id])
    if kind != SFRAME_KIND and architecture is None:
        architecture = image.architecture.name
    return read_source(path, kind, address, architecture, debug)


def _refuse_other_build(record: str, ids: list[str]) -> None:
    if len(set(ids)) > 1:
        reason = f"is {ids[0]}, that of the file to copy {ids[1]}: they are of different builds"
        raise BuildError("", None, record, reason)
