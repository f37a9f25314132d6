"""Convert unwind information from one format or version to another (`unwindkit convert`).

Strategy: the input, an ELF file, a raw section or a symbol file, is read into a table, and the target format is encoded
from the table. Only `.sframe` and `.eh_frame` can be written into a copy of an ELF file: the input, or another one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast, get_args, overload

import numpy as np

from ..converters.elf.debug_files import BY_LINKS, DebugFiles
from ..converters.elf.image import open_elf
from ..converters.elf.inputs import Input, input_name
from ..converters.elf.relocation import lay_out
from ..converters.files.code_frames import expressed_ranges, ranges_of
from ..converters.files.inputs import Raw, refuse_description
from ..converters.files.read_elf import ALL, DIALECTS
from ..converters.refusals import Refusals, count_reasons
from ..converters.table.cut import trim
from ..converters.table.model import UnwindTable
from ..schemas.arguments import check_integer, checked, optional
from ..schemas.data_classes import dataclass
from ..schemas.section import BuildError
from ..schemas.sframe import SFRAME_VERSION
from ..writers.files import write_bytes
from . import StrPath
from .code_coverage import NO_CODE, CodeCoverage, CodeFigures, code_coverage
from .file_kinds import is_archive_file, is_linker_input
from .into_file import TableForFile, read_source_for, table_for
from .local_files import local_file
from .losses import losses_of_sframe
from .report import (
    Coverage,
    FileReport,
    LineTarget,
    Placement,
    SframeFigures,
    Target,
    coverage,
    debug_file_of,
    has_rest,
    sframe_figures,
)
from .sources import SOURCES, Source, read_source, refuse_objects

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..converters.files.code_frames import Ranges
    from ..converters.sframe.write import Compact
    from ..writers.elf.add import Writer
    from .line_conversion import LineReport
    from .sframe_report import Choices

WRITTEN_INTO_ELF = ("sframe", "eh_frame")
SECTIONS = (".sframe", *DIALECTS)


@dataclass(frozen=True, kw_only=True)
class ConvertReport(Placement, CodeCoverage, Coverage, FileReport):
    """What `convert` did. Sizes in bytes.

    `warnings` are sentences about what the source has and the result lacks or assumes.

    `functions` were read from the sections that `source` names, of `source_bytes` together and `source_sizes` each; an
    `.sframe` is of `source_version`. A raw section and a symbol file have no code: `code_bytes` is 0. `written` is
    the size of the section or text written. `address` and `header_address`, that of the `.eh_frame_hdr`, are None if
    the result has none. `sframe` is None for other targets. `into` is the ELF file of which the result is a copy, None
    for a section or text; `kept` of the functions are its own.

    For an archive the figures are sums over its `members`; `unchanged` names every other member, with the reason.
    """

    source: str
    source_version: int | None
    source_bytes: int
    source_sizes: dict[str, int]
    to: Target
    written: int
    header_address: int | None = None
    sframe: SframeFigures | None = None
    into: str | None = None
    kept: int = 0
    members: int = 0
    unchanged: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


# What it has in common with the report of `write_sframe`.
_COMMON = {
    *(one.name for group in (FileReport, Coverage, CodeCoverage, Placement) for one in fields(group)),
    *("members", "warnings"),
}


@dataclass(frozen=True, slots=True, eq=False)
class _Request:
    """One conversion: the source and the arguments of `convert`."""

    path: Path
    out_path: Path
    found: Source
    to: Target
    to_address: int | None
    into: Path | None
    keep: bool
    writer: Writer
    version: int
    compact: Compact | None
    pcrel: bool
    frame_pointer: bool

    @property
    def section_address(self) -> int:
        """The virtual address of a section written alone."""
        return self.found.section.address if self.to_address is None else self.to_address


@overload
def convert(
    path: Input,
    out_path: StrPath,
    to: Target,
    *,
    source: str | None = ...,
    address: int = ...,
    architecture: str | None = ...,
    to_address: int | None = ...,
    section_only: bool = ...,
    into: StrPath | None = ...,
    keep: bool = ...,
    writer: Writer = ...,
    version: int | None = ...,
    compact: Compact | None = ...,
    debug: DebugFiles = ...,
    pcrel: bool = ...,
    frame_pointer: bool = ...,
) -> ConvertReport: ...


@overload
def convert(
    path: Input,
    out_path: StrPath,
    to: LineTarget,
    *,
    source: str | None = ...,
    address: int = ...,
    architecture: str | None = ...,
    section_only: bool = ...,
    version: int | None = ...,
    keep_size: bool = ...,
    debug: DebugFiles = ...,
) -> LineReport: ...


@checked(debug=DebugFiles, version=optional(check_integer), compact=optional(str))
def convert(
    path: Input,
    out_path: StrPath,
    to: Target | LineTarget,
    *,
    source: str | None = None,
    address: int = 0,
    architecture: str | None = None,
    to_address: int | None = None,
    section_only: bool = False,
    into: StrPath | None = None,
    keep: bool = False,
    writer: Writer = "auto",
    version: int | None = None,
    compact: Compact | None = None,
    pcrel: bool = True,
    frame_pointer: bool = False,
    keep_size: bool = False,
    debug: DebugFiles = BY_LINKS,
) -> ConvertReport | LineReport:
    """Write the unwind or line information of `path`, an ELF file, a raw section or a symbol file, in another format.

    `source` is one of `SOURCES`; None: the `.sframe` if that is written, else "all" call frame information of an ELF
    file: `.eh_frame` where it has a function, `.debug_frame` elsewhere; `debug` chooses its separate debug file. A raw
    section is at the virtual address `address`; all but SFrame need the `architecture`.

    `to`: "sframe" in `version` (None: 2) and `compact` mode, `pcrel` and `frame_pointer` as in `to_sframe`, or
    "eh_frame": for an ELF file a copy of it with that section (and its `.eh_frame_hdr`), for which `writer` makes
    space; for a raw section, or with `section_only`, the section for the virtual address `to_address` (None: that of
    the input). "debug_frame": a section. "directives": source for GNU as. "breakpad": STACK CFI lines, relative to the
    load address.

    `into` is the ELF file to copy instead of `path`, which then may be raw or a symbol file: its architecture and, for
    a symbol file, its load address are those of `into`. With `keep` the functions of an existing section of that name
    stay, and only PCs that they do not cover are added.

    Line information has a `LineReport`: "debug_line" with units of DWARF `version` (None: as they are), padded to their
    old sizes if `keep_size`; "debug_aranges"; "breakpad-lines": FILE, FUNC and line records. `source` is "debug_line"
    or "breakpad", for a raw section or a symbol file. From an ELF file, the first two are in a copy of it, unless
    `section_only`.

    Raises OSError, ParseError for malformed input, BuildError for what cannot be written; `out_path` is then unchanged.
    """
    if to in get_args(LineTarget):
        given = {"to_address": to_address, "into": into, "keep": keep or None, "compact": compact}
        given |= {"pcrel": None if pcrel else False, "frame_pointer": frame_pointer or None}
        for name in (name for name, value in given.items() if value is not None):
            raise BuildError("", None, name, f"does not apply to {to}")
        from .line_conversion import convert_lines

        with local_file(path) as file:
            lines = convert_lines(
                file,
                Path(out_path),
                cast(LineTarget, to),
                source=source,
                address=address,
                architecture=architecture,
                section_only=section_only,
                version=version,
                keep_size=keep_size,
                debug=debug,
            )
            return replace(lines, file=input_name(path))
    if to not in get_args(Target):
        known = ", ".join((*get_args(Target), *get_args(LineTarget)))
        raise BuildError("", None, "to", f"{to!r} is not one of {known}")
    to = cast(Target, to)
    if keep_size:
        raise BuildError("", None, "keep_size", "applies to debug_line only")
    if to != "sframe" and not (version is None and compact is None):
        raise BuildError("", None, "version" if compact is None else "compact", "applies to SFrame only")
    if to != "sframe" and (frame_pointer or not pcrel):
        raise BuildError("", None, "frame_pointer" if pcrel else "pcrel", "applies to SFrame only")
    with local_file(path) as file:
        if into is None and not section_only and _is_for_linker(file, to):
            _refuse_unused(to, file, to_address, section_only, keep=False)
            refuse_description(Raw(source if source != ALL else None, address, architecture))
            from .sframe_report import Choices

            chosen = ALL if source == ALL else f".{source or to}"
            choices = Choices(_version(version), compact, None, chosen, pcrel, frame_pointer)
            report = _in_objects(file, Path(out_path), choices, writer)
        else:
            found, target = _read(file, to, source, Raw(None, address, architecture), section_only, into, debug)
            _refuse_unused(to, target, to_address, section_only, keep)
            options = _version(version), compact, pcrel, frame_pointer
            request = _Request(file, Path(out_path), found, to, to_address, target, keep, writer, *options)
            report = _WRITERS.get(to, _to_bytes)(request)
            report = replace(report, into=input_name(path)) if target == file else report
        return replace(report, file=input_name(path))


def _read(
    path: Path,
    to: Target,
    source: str | None,
    raw: Raw,
    section_only: bool,
    into: StrPath | None,
    debug: DebugFiles,
) -> tuple[Source, Path | None]:
    """The source, and the ELF file to copy, None for a section or text."""
    otherwise = "sframe" if to == "sframe" else None
    if into is None:
        found = read_source(path, source, raw.address, raw.architecture, debug, otherwise)
        is_copied = to in WRITTEN_INTO_ELF and found.image is not None and not section_only
        target = path if is_copied else None
    else:
        target = Path(into)
        found = read_source_for(target, path, source, raw.address, raw.architecture, debug, otherwise)
    if to != "directives":
        refuse_objects(found)
    return found, target


def _version(version: int | None) -> int:
    """The version of SFrame that is written."""
    return int(SFRAME_VERSION.V2) if version is None else version


def _is_for_linker(path: Path, to: Target) -> bool:
    """Whether the result is a relocatable file or an archive. Raises BuildError for what archives cannot have."""
    if to != "sframe" and is_archive_file(path):
        reason = f"{to} is written for one file, not for an archive: extract its members first"
        raise BuildError("", None, "to", reason)
    return to == "sframe" and is_linker_input(path)


def _in_objects(path: Path, out_path: Path, choices: Choices, writer: Writer) -> ConvertReport:
    """A new `.sframe`, with relocations, in a relocatable file or in those of an archive."""
    from .sframe_objects import write_object_sframe

    if choices.section not in (ALL, *SECTIONS):
        raise BuildError("", None, "source", f"{choices.section[1:]!r} is not one of {', '.join(SOURCES)}")
    done = write_object_sframe(path, out_path, choices, writer, preserve_dates=False)
    common = {one.name: getattr(done, one.name) for one in fields(done) if one.name in _COMMON}
    return ConvertReport(
        **(common | {"address": None}),
        source=done.cfi_section,
        source_version=None,
        source_bytes=done.cfi_bytes,
        source_sizes=done.cfi_sizes,
        to="sframe",
        written=done.sframe_bytes,
        sframe=SframeFigures(**{one.name: getattr(done, one.name) for one in fields(SframeFigures)}),
        unchanged=done.kept,
    )


def _refuse_unused(to: Target, into: Path | None, to_address: int | None, section_only: bool, keep: bool) -> None:
    """Raise BuildError for an argument that does not apply to the result."""
    if into is None:
        if keep:
            raise BuildError(f".{to}", None, "keep", "applies to a copy of an ELF file")
        return
    if to not in WRITTEN_INTO_ELF:
        raise BuildError("", None, "into", f"{to} is not written into ELF files")
    if section_only:
        raise BuildError(f".{to}", None, "section_only", "excludes a copy of an ELF file")
    if to_address is not None:
        raise BuildError(f".{to}", None, "to_address", "applies to a section written alone")


def _to_sframe(request: _Request) -> ConvertReport:
    from ..converters.sframe.write import sframe_from_table

    given = TableForFile(request.found.table, 0, 0)
    if request.into is not None:
        given = table_for(open_elf(request.into), given.table, ".sframe", request.keep)
    given = replace(given, table=trim(given.table))
    table = given.table
    encoded, refusals = sframe_from_table(
        table, request.version, request.compact, None, request.pcrel, request.frame_pointer
    )
    is_written = np.zeros(len(table), np.bool_)
    is_written[encoded.function] = True
    written = encoded.range_start, encoded.range_start + encoded.range_size
    report = _report(request, given, is_written, refusals, len(encoded), written)
    report = replace(report, address=request.section_address, sframe=SframeFigures(**sframe_figures(encoded)))
    if request.into is None:
        write_bytes(request.out_path, encoded.at(request.section_address))
        return report
    from ..writers.elf.add import write_section
    from .sframe_report import sframe_section

    placed = write_section(request.into, request.out_path, sframe_section(encoded), request.writer)
    return replace(
        report,
        into=os.fspath(request.into),
        kept=given.kept,
        address=placed.address,
        writer=placed.engine,
        moved=placed.moved,
        passed_over=placed.passed_over,
    )


def _to_eh_frame(request: _Request) -> ConvertReport:
    from ..converters.cfi.write import to_eh_frame
    from .eh_frame_files import write_frames_of

    table = request.found.table
    if request.into is None:
        data, refusals = to_eh_frame(table, request.section_address)
        write_bytes(request.out_path, data)
        given, ranges = TableForFile(table, 0, 0), expressed_ranges(table, refusals)
        report = _report(request, given, has_rest(table, refusals), refusals, len(data), ranges)
        return replace(report, address=request.section_address)
    given = table_for(open_elf(request.into), table, ".eh_frame", request.keep)
    refusals, size, written = write_frames_of(given.table, request.into, request.out_path, request.writer)
    ranges = expressed_ranges(given.table, refusals)
    return replace(
        _report(request, given, has_rest(given.table, refusals), refusals, size, ranges),
        address=written.address,
        header_address=written.header_address,
        writer=written.engine,
        moved=written.moved,
        passed_over=written.passed_over,
        into=os.fspath(request.into),
        kept=given.kept,
    )


def _encoder(to: Target) -> Callable[[UnwindTable], tuple[bytes, Refusals]]:
    """The function for a target whose bytes do not depend on an address. Only that format's modules are imported."""
    if to == "debug_frame":
        from ..converters.cfi.write import to_debug_frame

        return to_debug_frame
    if to == "directives":
        from ..converters.assembler.write import to_directives

        return to_directives
    from ..converters.breakpad.stack_cfi.write import to_stack_cfi

    return to_stack_cfi


def _to_bytes(request: _Request) -> ConvertReport:
    table, written = request.found.table, request.found.table_in_sections
    data, refusals = _encoder(request.to)(written)
    write_bytes(request.out_path, data)
    # The refused ranges at the addresses of the table.
    base = (table.functions.start - written.functions.start)[refusals.function]
    refusals = replace(refusals, start=refusals.start + base, end=refusals.end + base)
    ranges = expressed_ranges(trim(table) if request.to == "breakpad" else table, refusals)
    return _report(request, TableForFile(table, 0, 0), has_rest(table, refusals), refusals, len(data), ranges)


_WRITERS: dict[Target, Callable[[_Request], ConvertReport]] = {"sframe": _to_sframe, "eh_frame": _to_eh_frame}


def _report(
    request: _Request,
    given: TableForFile,
    is_written: NDArray[np.bool_],
    refusals: Refusals,
    written: int,
    ranges: Ranges,
) -> ConvertReport:
    """The report without the placement of the section. `ranges` are those that the result has of the `given` table."""
    found = request.found
    return ConvertReport(
        file=os.fspath(request.path),
        **debug_file_of(request.found.image),
        output=os.fspath(request.out_path),
        source=" and ".join(found.sizes),
        source_version=found.version,
        source_bytes=sum(found.sizes.values()),
        source_sizes=found.sizes,
        to=request.to,
        functions=int((given.table.functions.size > 0).sum()) if request.to == "sframe" else len(given.table),
        refused=count_reasons(refusals) | count_reasons(found.refused),
        warnings=_warnings(request),
        written=written,
        address=None,
        outside_code=found.outside + given.outside,
        **_code_coverage(request, given, ranges),
        **coverage(is_written, refusals),
    )


def _warnings(request: _Request) -> tuple[str, ...]:
    """What the source has and the result lacks or assumes."""
    found = request.found
    if found.section.name != ".sframe":
        return found.warnings
    return (*found.warnings, *losses_of_sframe(found.section, request.frame_pointer))


def _code_coverage(request: _Request, given: TableForFile, ranges: Ranges) -> CodeFigures:
    """The fields of CodeCoverage for the code of the ELF file that is copied, or else of the one that is read."""
    found, into = request.found, request.into
    if into is not None and into != request.path:
        return code_coverage(lay_out(open_elf(into)), tuple(DIALECTS), ranges_of(given.table), ranges)
    if found.image is None:
        return NO_CODE
    return code_coverage(lay_out(found.image), found.read, ranges_of(found.table), ranges)
