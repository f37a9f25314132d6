"""Unwind information from one format or version into another: the job of `unwindkit convert`.

Strategy: the input, an ELF file or the bytes of a section, becomes the table; the target makes its own bytes of that.
Only `.sframe` and `.eh_frame` can be put into a copy of an ELF file.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from ..converters.assembler.write import to_directives
from ..converters.breakpad.stack_cfi.write import to_stack_cfi
from ..converters.cfi.write import to_debug_frame, to_eh_frame
from ..converters.refusals import Refusals, count_reasons
from ..converters.sframe.write import Compact, sframe_from_table
from ..converters.table.cut import trim
from ..converters.table.model import UnwindTable
from ..schemas.section import BuildError
from ..writers.files import write_bytes
from . import StrPath
from .eh_frame_files import write_eh_frame
from .report import Coverage, FileReport, Placement, SframeFigures, coverage, sframe_figures
from .sframe_report import sframe_section
from .sources import Source, read_source

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..writers.elf.add import Writer

Target = Literal["sframe", "eh_frame", "debug_frame", "directives", "breakpad"]


@dataclass(frozen=True, kw_only=True)
class ConvertReport(Placement, Coverage, FileReport):
    """What `convert` did. Sizes in bytes.

    `functions` were read from `source`, a section of `source_bytes` and, where it is SFrame, of `source_version`;
    `written` are the bytes of the result's section, or of the text. `address` and `header_address`, that of the
    `.eh_frame_hdr`, are None where the result has none. `sframe` is None for other targets.
    """

    source: str
    source_version: int | None
    source_bytes: int
    to: Target
    written: int
    header_address: int | None = None
    sframe: SframeFigures | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Job:
    """One conversion: what was read, and what was asked for."""

    path: Path
    out_path: Path
    found: Source
    to: Target
    to_address: int | None
    into_elf: bool
    writer: Writer
    version: int
    compact: Compact | None

    @property
    def section_address(self) -> int:
        """Where a section written alone is meant to be."""
        return self.found.section.address if self.to_address is None else self.to_address


def convert(
    path: StrPath,
    out_path: StrPath,
    to: Target,
    *,
    source: str | None = None,
    address: int = 0,
    architecture: str | None = None,
    to_address: int | None = None,
    section_only: bool = False,
    writer: Writer = "auto",
    version: int | None = None,
    compact: Compact | None = None,
) -> ConvertReport:
    """Write the unwind information of `path`, an ELF file, a raw section or a symbol file, in another format.

    `source` is one of `SOURCES`; None: the `.sframe` if that is written, else the call frame information that an ELF
    file has. A raw section is at the virtual address `address`; all but SFrame need the `architecture`.

    `to`: "sframe" in `version` (None: 2) and `compact` mode, or "eh_frame": for an ELF file a copy of it with that
    section (and its `.eh_frame_hdr`), for which `writer` makes space; for a raw section, or with `section_only`, the
    section for the virtual address `to_address` (None: that of the input). "debug_frame": a section. "directives":
    source for GNU as. "breakpad": STACK CFI lines, relative to the load address.

    Raises OSError, ParseError for broken input, BuildError for what cannot be written; `out_path` is then unchanged.
    """
    if to not in get_args(Target):
        raise BuildError("", None, "to", f"{to!r} is not one of {', '.join(get_args(Target))}")
    if to != "sframe" and not (version is None and compact is None):
        raise BuildError("", None, "version" if compact is None else "compact", "applies to SFrame only")
    if to == "sframe" and source is None:
        source = "sframe"
    found = read_source(Path(path), source, address, architecture)
    into_elf = to in ("sframe", "eh_frame") and found.image is not None and not section_only
    if into_elf and to_address is not None:
        raise BuildError(f".{to}", None, "to_address", "is chosen by what writes an ELF file")
    job = _Job(Path(path), Path(out_path), found, to, to_address, into_elf, writer, version or 2, compact)
    if to == "sframe":
        return _to_sframe(job)
    return _to_eh_frame(job) if to == "eh_frame" else _to_bytes(job)


def _to_sframe(job: _Job) -> ConvertReport:
    table = trim(job.found.table)
    encoded, refusals = sframe_from_table(table, job.version, job.compact)
    is_written = np.zeros(len(table), np.bool_)
    is_written[encoded.function] = True
    functions = int((table.functions.size > 0).sum())
    report = _report(job, functions, is_written, refusals, len(encoded))
    report = replace(report, address=job.section_address, sframe=SframeFigures(**sframe_figures(encoded)))
    if not job.into_elf:
        write_bytes(job.out_path, encoded.at(job.section_address))
        return report
    from ..writers.elf.add import write_section

    written = write_section(job.path, job.out_path, sframe_section(encoded), job.writer)
    return replace(
        report,
        address=written.address,
        writer=written.engine,
        moved=written.moved,
        passed_over=written.passed_over,
    )


def _to_eh_frame(job: _Job) -> ConvertReport:
    table = job.found.table
    if not job.into_elf:
        data, refusals = to_eh_frame(table, job.section_address)
        write_bytes(job.out_path, data)
        report = _report(job, len(table), _has_rest(table, refusals), refusals, len(data))
        return replace(report, address=job.section_address)
    refusals, size, written = write_eh_frame(job.path, job.out_path, job.found, job.writer)
    return replace(
        _report(job, len(table), _has_rest(table, refusals), refusals, size),
        address=written.address,
        header_address=written.header_address,
        writer=written.engine,
        moved=written.moved,
        passed_over=written.passed_over,
    )


# Targets that depend on no address.
_ENCODERS: dict[str, Callable[[UnwindTable], tuple[bytes, Refusals]]] = {
    "debug_frame": to_debug_frame,
    "directives": to_directives,
    "breakpad": to_stack_cfi,
}


def _to_bytes(job: _Job) -> ConvertReport:
    table = job.found.table
    data, refusals = _ENCODERS[job.to](table)
    write_bytes(job.out_path, data)
    return _report(job, len(table), _has_rest(table, refusals), refusals, len(data))


def _has_rest(table: UnwindTable, refusals: Refusals) -> NDArray[np.bool_]:
    """Whether any of each function is left after its refusals."""
    size = (refusals.end - refusals.start).astype(np.float64)
    refused = np.bincount(refusals.function, weights=size, minlength=len(table))
    is_refused = np.bincount(refusals.function, minlength=len(table)) > 0
    return ~is_refused | (refused < table.functions.size)


def _report(
    job: _Job, functions: int, is_written: NDArray[np.bool_], refusals: Refusals, written: int
) -> ConvertReport:
    """All but where the section is."""
    return ConvertReport(
        file=os.fspath(job.path),
        output=os.fspath(job.out_path),
        source=job.found.section.name,
        source_version=job.found.version,
        source_bytes=len(job.found.section),
        to=job.to,
        functions=functions,
        refused=count_reasons(refusals),
        written=written,
        address=None,
        **coverage(is_written, refusals),
    )
