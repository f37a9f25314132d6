"""`.sframe` added to a file, removed from it, or written alone: the jobs of `unwindkit sframe` and `remove`."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..converters.elf.admission import is_object, refuse_relocatable
from ..converters.elf.debug_files import BY_LINKS, DebugFiles, refuse_debug_file, with_debug_file
from ..converters.elf.image import ElfImage, open_elf
from ..converters.elf.relocation import LaidOut, lay_out
from ..converters.files.code_frames import code_frames
from ..converters.plt import with_uncovered_plt
from ..converters.sframe.fres import abi_of
from ..converters.sframe.write import Compact, SframeFunctions, functions_of_table, sframe_from_functions
from ..schemas.arguments import checked, optional
from ..schemas.section import BuildError
from ..schemas.sframe import PT_GNU_SFRAME
from ..writers.files import write_pieces
from . import StrPath
from .file_kinds import is_linker_input
from .losses import losses_of_replaced
from .sframe_report import (
    Choices,
    Converted,
    FrameSource,
    SframeReport,
    Source,
    refuse_without_code,
    report_of,
    section_of,
    sframe_section,
    signature_warnings,
    source_of,
)

if TYPE_CHECKING:
    from ..writers.elf.add import Writer
    from ..writers.elf.engines.plan import LoadedSection
    from ..writers.elf.remove import RemoveReport


@checked(compact=optional(str), debug=DebugFiles)
def write_sframe(
    path: StrPath,
    out_path: StrPath,
    version: int = 2,
    compact: Compact | None = None,
    max_rows: int | None = None,
    writer: Writer = "auto",
    preserve_dates: bool = False,
    source: FrameSource = "all",
    debug: DebugFiles = BY_LINKS,
    pcrel: bool = True,
    frame_pointer: bool = False,
) -> SframeReport:
    """Write a copy of `path` with an `.sframe` made from its call frame information to `out_path`, which may be `path`.

    `source` chooses the section; "all": `.eh_frame` where it has a function, `.debug_frame` elsewhere. An existing
    `.sframe` is replaced. `writer` selects the engine that makes space for the section; with `preserve_dates` the
    result keeps the times of `path`. `debug` chooses the separate debug file; `pcrel` and `frame_pointer` are as in
    `to_sframe`. A relocatable file, and each in an archive, gets the section's relocations too.

    Raises OSError, ParseError for malformed input, BuildError if the section cannot be added; `out_path` is then
    unchanged.
    """
    choices = Choices(version, compact, max_rows, section_of(source), pcrel, frame_pointer)
    if is_linker_input(Path(path)):
        from .sframe_objects import write_object_sframe

        refuse_debug_file(debug)
        return write_object_sframe(Path(path), Path(out_path), choices, writer, preserve_dates)
    report, section = _report_and_section(path, out_path, choices, debug)
    from ..writers.elf.add import write_section

    warnings = (*signature_warnings(path), *report.warnings)
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


def _report_and_section(
    path: StrPath, out_path: StrPath, choices: Choices, debug: DebugFiles
) -> tuple[SframeReport, LoadedSection]:
    """The table is freed on return: lief needs the memory."""
    image = with_debug_file(open_elf(path), debug)
    abi_of(image.architecture)
    refuse_without_code(image)
    converted = _convert(image, choices)
    report = report_of(converted, os.fspath(out_path), 0)
    losses = losses_of_replaced(image, choices.frame_pointer)
    return replace(report, warnings=losses), sframe_section(converted.encoded)


def _convert(image: ElfImage, choices: Choices) -> Converted:
    laid = lay_out(image)
    source, found = _read(laid, choices)
    arguments = choices.compact, choices.max_rows, choices.pcrel, choices.frame_pointer
    return Converted(laid, source, *sframe_from_functions(found, *arguments))


def _read(laid: LaidOut, choices: Choices) -> tuple[Source, SframeFunctions]:
    """The table is freed on return: encoding needs the memory."""
    frames = code_frames(laid, choices.section)
    table = with_uncovered_plt(laid.image, frames.table)
    return source_of(frames, len(table)), functions_of_table(table, choices.version)


@checked(address=int, compact=optional(str), debug=DebugFiles)
def write_sframe_section(
    path: StrPath,
    out_path: StrPath,
    address: int = 0,
    version: int = 2,
    compact: Compact | None = None,
    max_rows: int | None = None,
    source: FrameSource = "all",
    debug: DebugFiles = BY_LINKS,
    pcrel: bool = True,
    frame_pointer: bool = False,
) -> SframeReport:
    """Write only the bytes of the section, for the virtual address `address`, to which its starts are relative."""
    image = open_elf(path)
    abi_of(image.architecture)
    if is_object(image):
        reason = "is a relocatable file: without relocations the section has no addresses"
        raise BuildError("", None, "e_type", reason)
    refuse_relocatable(image)
    image = with_debug_file(image, debug)
    converted = _convert(image, Choices(version, compact, max_rows, section_of(source), pcrel, frame_pointer))
    write_pieces(Path(out_path), converted.encoded.pieces_at(address))
    return report_of(converted, os.fspath(out_path), address)


def remove_sframe(path: StrPath, out_path: StrPath, preserve_dates: bool = False) -> RemoveReport:
    """Write a copy of `path` without `.sframe` sections and PT_GNU_SFRAME to `out_path`, which may be `path`.

    Raises OSError, ParseError if there are none or the file is malformed, BuildError if the result is not correct.
    """
    if is_linker_input(Path(path)):
        from .sframe_objects import remove_object_sframe

        return remove_object_sframe(Path(path), Path(out_path), preserve_dates)
    from ..writers.elf.remove import remove_sections

    return remove_sections(Path(path), Path(out_path), ".sframe", PT_GNU_SFRAME, preserve_dates)
