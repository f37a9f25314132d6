"""Whole jobs on sections: one format or version into another, and several sections into one.

Strategy: an input is an ELF file, which says where its section is, or the bytes of a section, of which the caller does;
the ELF magic tells. Everything goes through the table.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .converters.arch.table import ARCHITECTURES
from .converters.callframe import table_from_cfi
from .converters.elf import ElfImage, open_elf
from .converters.merging import SharedRange, SharedRanges, merge, refuse_mixture
from .converters.overlaps import trimmed
from .converters.reading import DIALECTS, refuse_relocatable, section_of_image, table_of_image
from .converters.refusals import Refusals, RefusedCount, count_reasons
from .converters.sframe import Compact, Encoded, sframe_from_table, table_from_sframe
from .converters.sframe_section import section_version
from .converters.unwind import UnwindTable
from .jobs import sframe_section
from .schemas.section import BuildError, FormatError, ParseError, Section

if TYPE_CHECKING:
    from typing import TypeAlias

    from .writers.elf import Writer

    StrPath: TypeAlias = str | os.PathLike[str]

ELF_MAGIC = b"\x7fELF"
# What `convert` reads: by the name of the section without its dot, or a symbol file.
SOURCES = ("sframe", "eh_frame", "debug_frame", "breakpad")
SHOWN_CONFLICTS = 10
SYMBOLS = "STACK CFI"


@dataclass(frozen=True, slots=True)
class ConvertReport:
    """What `convert` did. Sizes in bytes.

    `functions` with bytes were read from `source`, a section of `source_bytes` and, where it is SFrame, of
    `source_version`; `converted` of them are in the result whole, `partial` but for some rows. `refused` counts by the
    name of the `Reason`. `address` is the result's; `writer` is None where only the section was written.
    """

    file: str
    output: str
    source: str
    source_version: int | None
    source_bytes: int
    version: int
    compact: str
    functions: int
    converted: int
    partial: int
    refused: dict[str, RefusedCount]
    sframe_bytes: int
    fdes: int
    fres: int
    address: int
    writer: str | None


@dataclass(frozen=True, slots=True)
class MergeReport:
    """What `merge_sframe` did. Sizes in bytes.

    `functions` are those of the result; `duplicates` and `conflicts` count ranges that two inputs cover, where they say
    the same and where they do not; `first_conflicts` are the ten at the lowest addresses.
    """

    files: tuple[str, ...]
    output: str
    version: int
    compact: str
    functions: int
    refused: dict[str, RefusedCount]
    duplicates: int
    duplicate_bytes: int
    conflicts: int
    conflict_bytes: int
    first_conflicts: tuple[SharedRange, ...]
    sframe_bytes: int
    fdes: int
    fres: int
    address: int


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A section that was read; `image` is None for one that is a file of its own."""

    section: Section
    table: UnwindTable
    image: ElfImage | None

    @property
    def version(self) -> int | None:
        """Of SFrame that has bytes."""
        return section_version(self.section) if self.section.name == ".sframe" and len(self.section) else None


def convert(
    path: StrPath,
    out_path: StrPath,
    version: int = 2,
    source: str | None = None,
    address: int = 0,
    to_address: int | None = None,
    compact: Compact | None = None,
    section_only: bool = False,
    architecture: str | None = None,
    writer: Writer = "auto",
) -> ConvertReport:
    """Write the unwind information of `path`, an ELF file or a raw section, as SFrame to `out_path`.

    `source`, one of SOURCES, is the section to read (None: sframe). Raw: it is at the virtual address `address`, and
    call frame information needs the `architecture`; the result is a raw section for `to_address` (None: the same).
    An ELF file says both; the result is a copy with the `.sframe` in its place, for which `writer` makes room, with
    `section_only` the section. Raises OSError, ParseError for broken input, BuildError for what cannot be written or
    goes with the other kind of input; `out_path` is then as it was.
    """
    found = read_source(Path(path), source or "sframe", address, architecture)
    table = trimmed(found.table)
    encoded, refusals = sframe_from_table(table, version, compact)
    engine, place = None, found.section.address if to_address is None else to_address
    if found.image is None or section_only:
        _write(out_path, encoded.at(place))
    elif to_address is not None:
        raise BuildError(".sframe", None, "to_address", "is chosen by what writes an ELF file")
    else:
        from .writers.elf import write_section

        written = write_section(Path(path), Path(out_path), sframe_section(encoded), writer)
        engine, place = written.engine, written.address
    return _convert_report(os.fspath(path), os.fspath(out_path), found, table, encoded, refusals, place, engine)


def read_source(path: Path, source: str | None, address: int, architecture: str | None) -> Source:
    """A section of an ELF file, or a file that is one. `source` is one of SOURCES; None, of an ELF file alone: the call
    frame information that it has. Raises OSError, ParseError, BuildError."""
    if source is not None and source not in SOURCES:
        raise BuildError("", None, "source", f"{source!r} is none of {', '.join(SOURCES)}")
    name = None if source is None else f".{source}"
    with path.open("rb") as file:
        is_elf = file.read(len(ELF_MAGIC)) == ELF_MAGIC
    if is_elf:
        if address or architecture is not None:
            record = "address" if address else "architecture"
            raise BuildError("", None, record, "is said by the ELF file itself: give it for a raw section only")
        if source == "breakpad":
            raise BuildError("", None, "source", "is a symbol file, which the ELF file is not")
        image = open_elf(path)
        refuse_relocatable(image)
        table = table_of_image(image, name)
        return Source(section_of_image(image, name or table.source), table, image)
    if name is None:
        raise BuildError("", None, "source", f"is not said: a raw section is one of {', '.join(SOURCES)}")
    if not 0 <= address < 1 << 64:
        raise ParseError(name, None, "address", f"{address:#x} is no address")
    data = memoryview(path.read_bytes())
    if source == "breakpad":
        from .converters.stack_cfi_reading import from_stack_cfi

        section = Section(SYMBOLS, data, address)
        return Source(section, from_stack_cfi(bytes(data), _known(SYMBOLS, architecture), address), None)
    if name == ".sframe":
        if architecture is not None:
            raise BuildError(name, None, "architecture", "is said by the header: give it for call frame information")
        section = Section(name, data, address)
        return Source(section, table_from_sframe(section), None)
    arch = ARCHITECTURES[_known(name, architecture)]
    section = Section(name, data, address, None, arch.byte_order, arch.address_size)
    return Source(section, table_from_cfi(section, DIALECTS[name], arch), None)


def _known(name: str, architecture: str | None) -> str:
    """The architecture, if it is one. Raises BuildError."""
    if architecture is None or architecture not in ARCHITECTURES:
        said = "is not given" if architecture is None else f"{architecture!r} is not known"
        raise BuildError(name, None, "architecture", f"{said}: one of {', '.join(ARCHITECTURES)}")
    return architecture


def _write(out_path: StrPath, data: bytes) -> None:
    from .writers.files import write_bytes

    write_bytes(Path(out_path), data)


def _convert_report(
    file: str,
    output: str,
    found: Source,
    table: UnwindTable,
    encoded: Encoded,
    refusals: Refusals,
    address: int,
    writer: str | None,
) -> ConvertReport:
    is_said, is_refused = np.zeros(len(table), np.bool_), np.zeros(len(table), np.bool_)
    is_said[encoded.function] = True
    is_refused[refusals.function] = True
    return ConvertReport(
        file=file,
        output=output,
        source=found.section.name,
        source_version=found.version,
        source_bytes=len(found.section),
        version=int(encoded.version),
        compact=encoded.compact,
        functions=int((table.functions.size > 0).sum()),
        converted=int((is_said & ~is_refused).sum()),
        partial=int((is_said & is_refused).sum()),
        refused=count_reasons(refusals),
        sframe_bytes=len(encoded),
        fdes=len(encoded.fdes),
        fres=encoded.num_fres,
        address=address,
        writer=writer,
    )


def merge_sframe(
    paths: Sequence[StrPath | tuple[StrPath, int]],
    out_path: StrPath,
    version: int | None = None,
    address: int = 0,
    compact: Compact | None = None,
) -> MergeReport:
    """Write the `.sframe` of several files as one raw section for the virtual address `address` to `out_path`.

    An input is an ELF file, or a raw section with its virtual address (0 where none is given). `version` None is the
    one that all of them have. Where two say different things of a PC, the one given first holds. Raises OSError,
    ParseError for broken input, BuildError for inputs that do not go together; the error's `file` says which.
    """
    places = [(one[0], one[1]) if isinstance(one, tuple) else (one, 0) for one in paths]
    tables, versions = [], []
    for path, at in places:
        with _naming(path):
            source = read_source(Path(path), "sframe", at, None)
            tables.append(source.table)
            versions.append(source.version)
            refuse_mixture(source.table, tables[0])
    merged = merge(tables)
    version = _common_version(versions) if version is None else version
    encoded, refusals = sframe_from_table(merged.table, version, compact)
    _write(out_path, encoded.at(address))
    return MergeReport(
        files=tuple(os.fspath(path) for path, _ in places),
        output=os.fspath(out_path),
        version=int(encoded.version),
        compact=encoded.compact,
        functions=len(merged.table),
        refused=count_reasons(refusals),
        duplicates=len(merged.duplicates),
        duplicate_bytes=merged.duplicates.bytes,
        conflicts=len(merged.conflicts),
        conflict_bytes=merged.conflicts.bytes,
        first_conflicts=_first(merged.conflicts),
        sframe_bytes=len(encoded),
        fdes=len(encoded.fdes),
        fres=encoded.num_fres,
        address=address,
    )


@contextmanager
def _naming(path: StrPath) -> Iterator[None]:
    """Errors say of which file."""
    try:
        yield
    except FormatError as error:
        error.file = os.fspath(path)
        raise


def _common_version(versions: Iterable[int | None]) -> int:
    """The version of all inputs that have one. Raises BuildError where they differ."""
    found = sorted({version for version in versions if version is not None})
    if len(found) > 1:
        said = " and ".join(map(str, found))
        raise BuildError(".sframe", None, "version", f"the inputs have versions {said}: say which one to write")
    return found[0] if found else 2


def _first(ranges: SharedRanges) -> tuple[SharedRange, ...]:
    return tuple(ranges[index] for index in range(min(SHOWN_CONFLICTS, len(ranges))))
