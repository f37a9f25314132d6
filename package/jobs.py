"""Whole jobs: from a file to a file, with a report. A command of the command line is one call from here.

Strategy: converters and writers do not know each other; here they meet.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .converters.elf import ElfImage, ElfSection, covered_bytes, open_elf
from .converters.plt import with_uncovered_plt
from .converters.reading import (
    is_object,
    refuse_relocatable,
    supported_architecture,
    table_of_image,
    table_of_section,
)
from .converters.refusals import Refusals, RefusedCount, count_reasons
from .converters.relocation import LaidOut, laid_out, relocated
from .converters.sframe import Compact, Encoded, sframe_from_table
from .converters.sframe_section import section_version
from .converters.unwind import FunctionFlag, UnwindTable
from .schemas.section import BuildError, ParseError, Section
from .schemas.sframe import PT_GNU_SFRAME, SECTION_ALIGNMENT, SHT_GNU_SFRAME

if TYPE_CHECKING:
    from .writers.elf import Writer
    from .writers.elf_plan import LoadedSection
    from .writers.elf_remove import RemoveReport


@dataclass(frozen=True, slots=True)
class SframeReport:
    """What `write_sframe` did. Sizes in bytes.

    `functions` were read; `converted` of them are in the result whole, `partial` but for some rows. `refused`
    counts by the name of the `Reason`. `covered_bytes` of `code_bytes` (the executable sections) have FREs.
    `writer` says how room was made in the file, `passed_over` why not otherwise; `moved` are sections that have
    another address now (`writers.elf.WriteReport`). Where only the section was written `writer` is None and `address`
    as asked for. `warnings` are sentences on what the result no longer is: signed.

    A relocatable file has the `writer` RELOCATABLE and no address. Of an archive all figures are sums over `members`
    members; `kept` names each other one, with the reason why it stays as it is.
    """

    file: str
    output: str
    version: int
    compact: str
    functions: int
    converted: int
    partial: int
    refused: dict[str, RefusedCount]
    code_bytes: int
    covered_bytes: int
    cfi_section: str
    cfi_bytes: int
    sframe_bytes: int
    fdes: int
    fres: int
    address: int
    writer: str | None
    replaced_bytes: tuple[int, ...] = ()
    moved: tuple[str, ...] = ()
    passed_over: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    members: int = 0
    kept: tuple[str, ...] = ()


def write_sframe(
    path: str | os.PathLike[str],
    out_path: str | os.PathLike[str],
    version: int = 2,
    compact: Compact | None = None,
    max_rows: int | None = None,
    writer: Writer = "auto",
    preserve_dates: bool = False,
) -> SframeReport:
    """Write `path` with an `.sframe` made from its call frame information to `out_path`; the two may be one file.

    An `.sframe` that is there is replaced. `writer` chooses what makes room (`writers.elf`); the result has the times
    of `path` if `preserve_dates`. A relocatable file, and each in an archive, gets relocations with it. Raises OSError,
    ParseError for broken input, BuildError where the file cannot be given the section; `out_path` is then as it was.
    """
    if _is_to_be_linked(path):
        from .objects import write_object_sframe

        return write_object_sframe(Path(path), Path(out_path), version, compact, max_rows, writer, preserve_dates)
    report, section = _converted(path, out_path, version, compact, max_rows)
    from .writers.elf import write_section

    warnings = signature_warnings(path)
    written = write_section(Path(path), Path(out_path), section, writer, preserve_dates)
    return replace(
        report,
        address=written.address,
        writer=written.engine,
        replaced_bytes=written.replaced,
        moved=written.moved,
        passed_over=written.passed_over,
        warnings=warnings,
    )


def _is_to_be_linked(path: str | os.PathLike[str]) -> bool:
    """Whether the file is relocatable, or an archive, by its first bytes."""
    from .writers.archive import is_archive
    from .writers.elf_object import is_relocatable

    with Path(path).open("rb") as file:
        head = file.read(64)
    return is_archive(head) or is_relocatable(head)


def signature_warnings(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """A sentence for each signature that a changed copy of a file loses."""
    from .writers.files import signatures_of

    return tuple(f"it is signed ({one}); the signature is not the result's" for one in signatures_of(Path(path)))


def _converted(
    path: str | os.PathLike[str],
    out_path: str | os.PathLike[str],
    version: int,
    compact: Compact | None,
    max_rows: int | None,
) -> tuple[SframeReport, LoadedSection]:
    """The section, and what is to be said of it; the table is given up, as lief needs the memory."""
    image = open_elf(path)
    supported_architecture(image)
    refuse_without_code(image)
    table = with_uncovered_plt(image, table_of_image(image))
    encoded, refusals = sframe_from_table(table, version, compact, max_rows)
    return report_of(image, table, encoded, refusals, os.fspath(out_path), 0), sframe_section(encoded)


def sframe_section(encoded: Encoded) -> LoadedSection:
    """An encoded `.sframe` as what is put into an ELF file."""
    from .writers.elf_plan import LoadedSection

    return LoadedSection(".sframe", SHT_GNU_SFRAME, PT_GNU_SFRAME, len(encoded), encoded.at, SECTION_ALIGNMENT)


def write_sframe_section(
    path: str | os.PathLike[str],
    out_path: str | os.PathLike[str],
    address: int = 0,
    version: int = 2,
    compact: Compact | None = None,
    max_rows: int | None = None,
) -> SframeReport:
    """Write the bytes of the section alone, for the virtual address `address`, from which its starts count."""
    image = open_elf(path)
    supported_architecture(image)
    if is_object(image):
        reason = "is a relocatable file: without its relocations the section says nothing of any address"
        raise BuildError("", None, "e_type", reason)
    refuse_relocatable(image)
    table = with_uncovered_plt(image, table_of_image(image))
    encoded, refusals = sframe_from_table(table, version, compact, max_rows)
    data = encoded.at(address)
    from .writers.files import write_bytes

    write_bytes(Path(out_path), data)
    return report_of(image, table, encoded, refusals, os.fspath(out_path), address)


def refuse_without_code(image: ElfImage) -> None:
    """A file that holds debugging information alone has nothing to load a section beside."""
    found = image.named(".eh_frame")
    if found and found[0].is_nobits:
        image.contents(found[0])


def report_of(
    image: ElfImage,
    table: UnwindTable,
    encoded: Encoded,
    refusals: Refusals,
    output: str,
    address: int,
) -> SframeReport:
    """The figures; what concerns the writing is still to come."""
    covered, code = covered_bytes(image, encoded.range_start, encoded.range_start + encoded.range_size)
    is_said, is_refused = np.zeros(len(table), np.bool_), np.zeros(len(table), np.bool_)
    is_said[encoded.function] = True
    is_refused[refusals.function] = True
    return SframeReport(
        file=image.path,
        output=output,
        version=int(encoded.version),
        compact=encoded.compact,
        functions=len(table),
        converted=int((is_said & ~is_refused).sum()),
        partial=int((is_said & is_refused).sum()),
        refused=count_reasons(refusals),
        code_bytes=code,
        covered_bytes=covered,
        cfi_section=table.source,
        cfi_bytes=sum(section.size for section in image.named(table.source)),
        sframe_bytes=len(encoded),
        fdes=len(encoded.fdes),
        fres=encoded.num_fres,
        address=address,
        writer=None,
    )


def remove_sframe(
    path: str | os.PathLike[str], out_path: str | os.PathLike[str], preserve_dates: bool = False
) -> RemoveReport:
    """Write `path` without its `.sframe` sections and PT_GNU_SFRAME to `out_path`; the two may be one file.

    Raises OSError, ParseError where there is none or the file is broken, BuildError.
    """
    if _is_to_be_linked(path):
        from .objects import remove_object_sframe

        return remove_object_sframe(Path(path), Path(out_path), preserve_dates)
    from .writers.elf_remove import remove_sections

    return remove_sections(Path(path), Path(out_path), ".sframe", PT_GNU_SFRAME, preserve_dates)


@dataclass(frozen=True, slots=True)
class SectionInfo:
    """One section of unwind information. `fault` says why it could not be read; counts are then None.

    `rows` counts those of every function, `distinct_runs` the row runs that they share; `covered_bytes` is
    of the executable sections. `opaque` functions have an augmentation that is not known, and no rules.
    `disagreements` are sentences on what of an `.eh_frame_hdr` and `.eh_frame` do not agree; None where that was not
    looked at: in other sections, and where an `.eh_frame` has a fault.
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


@dataclass(frozen=True, slots=True)
class FileInfo:
    """What unwind information a file has."""

    file: str
    type: str
    architecture: str
    byte_order: str
    code_bytes: int
    sections: tuple[SectionInfo, ...]


UNWIND_SECTIONS = (".eh_frame", ".eh_frame_hdr", ".debug_frame", ".sframe")


def describe(path: str | os.PathLike[str]) -> FileInfo:
    """What unwind information an ELF file has. A broken section is described by its fault. Raises as `read_elf`."""
    image = open_elf(path)
    architecture = supported_architecture(image)
    headers = [header for name in UNWIND_SECTIONS for header in image.named(name)]
    readable = (header for header in headers if header.file_offset + header.size <= len(image.data))
    if sum(header.size for header in readable if not header.is_nobits) > len(image.data):
        # A thousand headers that name the same megabyte would be a thousand megabytes to read.
        raise ParseError("", None, "section headers", "the sections of unwind information are larger than the file")
    # Of a relocatable file, which has all its sections at 0 and is shown so, functions are read as if laid out.
    laid = laid_out(image)
    frames: list[tuple[Section, UnwindTable]] = []
    found = tuple(_describe(laid, header, frames) for header in headers)
    empty = np.zeros(0, np.uint64)
    code = covered_bytes(image, empty, empty)[1]
    return FileInfo(image.path, str(image.type), architecture.name, image.byte_order, code, found)


def _describe(laid: LaidOut, header: ElfSection, frames: list[tuple[Section, UnwindTable]]) -> SectionInfo:
    """One section; `frames`, the `.eh_frame` sections before it with their tables, gets it too if it is one."""
    image = laid.image
    about = SectionInfo(header.name, header.address, header.size)
    try:
        section = relocated(laid, image.sections[header.index])
        if header.name == ".eh_frame_hdr":
            return _describe_hdr(about, section, image, frames)
        if header.name == ".sframe" and len(section):
            about = replace(about, version=section_version(section))
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
        distinct_runs=len(np.unique(functions.run)),
        covered_bytes=covered_bytes(image, functions.start, functions.start + functions.size)[0],
        opaque=int((functions.flags & FunctionFlag.UNKNOWN_AUGMENTATION > 0).sum()),
    )


def _describe_hdr(
    about: SectionInfo, section: Section, image: ElfImage, frames: list[tuple[Section, UnwindTable]]
) -> SectionInfo:
    from .converters.eh_frame_hdr import check_eh_frame_hdr
    from .schemas import engine
    from .schemas.eh_frame_hdr import EhFrameHdrHead

    head, _ = engine.parse(EhFrameHdrHead, section, 0, len(section))
    count = None if head.fde_count is None else int(head.fde_count)
    about = replace(about, version=head.version, functions=count)
    if len(frames) < len(image.named(".eh_frame")):
        return about
    return replace(about, disagreements=check_eh_frame_hdr(section, frames).sentences())
