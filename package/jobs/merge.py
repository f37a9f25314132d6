"""Merge several `.sframe` sections into one (`unwindkit merge`)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from ..converters.refusals import count_reasons
from ..converters.sframe.project import project_sframe
from ..converters.sframe.write import Compact, sframe_from_table
from ..converters.table.merge import SharedRange, SharedRanges, merge, refuse_mixture
from ..schemas.arguments import check_integer, checked, optional
from ..schemas.data_classes import dataclass
from ..schemas.section import BuildError, FormatError
from ..schemas.sframe import SFRAME_VERSION
from ..writers.files import write_bytes
from . import StrPath
from .losses import losses_of_sframe
from .report import Report, SframeFigures, sframe_figures
from .sources import read_source, refuse_objects

SHOWN_CONFLICTS = 10


@dataclass(frozen=True, kw_only=True)
class MergeReport(SframeFigures, Report):
    """What `merge_sframe` did. Sizes in bytes.

    `functions` counts those of the result, a section for the virtual address `address`. `duplicates` and `conflicts`
    count ranges that two inputs cover, with equal and with different rows; `first_conflicts` are the ten at the lowest
    addresses. `warnings` are sentences about what the inputs have and the result lacks.
    """

    files: tuple[str, ...]
    address: int
    duplicates: int
    duplicate_bytes: int
    conflicts: int
    conflict_bytes: int
    first_conflicts: tuple[SharedRange, ...]
    warnings: tuple[str, ...] = ()


@checked(version=optional(check_integer), address=check_integer, compact=optional(str))
def merge_sframe(
    paths: Sequence[StrPath | tuple[StrPath, int]],
    out_path: StrPath,
    version: int | None = None,
    address: int = 0,
    compact: Compact | None = None,
    pcrel: bool = True,
    frame_pointer: bool = False,
) -> MergeReport:
    """Write the `.sframe` of several files as one raw section for the virtual address `address` to `out_path`.

    An input is an ELF file, or a raw section with its virtual address (default 0). `version` None: the version that all
    inputs have. If two inputs cover a PC, the first one's row is kept. `pcrel` and `frame_pointer` as in `to_sframe`.

    Raises OSError, ParseError for malformed input,
    BuildError for inputs that cannot be merged; `file` of the error names the input.
    """
    places = [(one[0], one[1]) if isinstance(one, tuple) else (one, 0) for one in paths]
    tables, versions, warnings = [], [], []
    for path, at in places:
        with _naming(path):
            source = read_source(Path(path), "sframe", at, None)
            refuse_objects(source)
            tables.append(source.table)
            versions.append(source.version)
            warnings += [f"{os.fspath(path)}: {one}" for one in losses_of_sframe(source.section, frame_pointer)]
            refuse_mixture(source.table, tables[0])
    # Version 3 expresses the most.
    merged = merge(tables, partial(project_sframe, version=SFRAME_VERSION.V3))
    version = _common_version(versions) if version is None else version
    encoded, refusals = sframe_from_table(merged.table, version, compact, None, pcrel, frame_pointer)
    write_bytes(Path(out_path), encoded.at(address))
    return MergeReport(
        files=tuple(os.fspath(path) for path, _ in places),
        output=os.fspath(out_path),
        functions=len(merged.table),
        refused=count_reasons(refusals),
        duplicates=len(merged.duplicates),
        duplicate_bytes=merged.duplicates.bytes,
        conflicts=len(merged.conflicts),
        conflict_bytes=merged.conflicts.bytes,
        first_conflicts=_first(merged.conflicts),
        address=address,
        warnings=tuple(warnings),
        **sframe_figures(encoded),
    )


@contextmanager
def _naming(path: StrPath) -> Iterator[None]:
    """Errors name the file."""
    try:
        yield
    except FormatError as error:
        error.file = os.fspath(path)
        raise


def _common_version(versions: Iterable[int | None]) -> int:
    """The version that the inputs have. Raises BuildError if they differ."""
    found = sorted({version for version in versions if version is not None})
    if len(found) > 1:
        several = " and ".join(map(str, found))
        raise BuildError(".sframe", None, "version", f"the inputs have versions {several}: choose the one to write")
    return found[0] if found else 2


def _first(ranges: SharedRanges) -> tuple[SharedRange, ...]:
    return tuple(ranges[index] for index in range(min(SHOWN_CONFLICTS, len(ranges))))
