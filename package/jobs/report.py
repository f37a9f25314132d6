"""The fields that reports have in common.

Strategy: a report is flat, as in its JSON, and inherits the groups of fields that apply to it. No slots: Python cannot
combine slotted classes.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Literal, TypedDict

import numpy as np

from ..converters.refusals import Refusals, RefusedCount
from ..schemas.data_classes import dataclass

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..converters.elf.image import ElfImage
    from ..converters.sframe.write import Encoded
    from ..converters.table.model import UnwindTable

# What `convert` writes.
Target = Literal["sframe", "eh_frame", "debug_frame", "directives", "breakpad"]
LineTarget = Literal["debug_line", "debug_aranges", "breakpad-lines"]


@dataclass(frozen=True, kw_only=True)
class Report:
    """The fields of every report: the `output` written; the number of `functions` read; `refused`, the PC ranges that
    the result leaves out, by the name of the `Reason`. All sizes are in bytes."""

    output: str
    functions: int
    refused: dict[str, RefusedCount]


@dataclass(frozen=True, kw_only=True)
class Input:
    """The `file` that was read, and the `debug_file` that was joined with it, or "". `debug_notes` are sentences about
    debug files that were found, but not used."""

    file: str
    debug_file: str = ""
    debug_notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FileReport(Report, Input):
    """The report on one file. The file is the first field, and so it is in JSON."""


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """The number of functions that are in the result with all rows (`converted`), and with only some (`partial`)."""

    converted: int
    partial: int


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Where the section is now. `writer` is how space was made for it in an ELF file, None if only the section was
    written; `passed_over` has the reason why each preferred way was not used, by its name; `moved` are other sections
    whose address has changed (`WriteReport`)."""

    address: int | None
    writer: str | None = None
    moved: tuple[str, ...] = ()
    passed_over: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SframeFigures:
    """The `.sframe` written: its version, `compact` mode, size, and numbers of FDEs and FREs."""

    version: int
    compact: str
    sframe_bytes: int
    fdes: int
    fres: int


class _DebugFile(TypedDict):
    debug_file: str
    debug_notes: tuple[str, ...]


class _Figures(TypedDict):
    version: int
    compact: str
    sframe_bytes: int
    fdes: int
    fres: int


class _Coverage(TypedDict):
    converted: int
    partial: int


def debug_file_of(image: ElfImage | None) -> _DebugFile:
    """The fields of Input about the debug file."""
    return {"debug_file": image.debug_file if image else "", "debug_notes": image.notes if image else ()}


def sframe_figures(encoded: Encoded) -> _Figures:
    """The fields of SframeFigures."""
    return {
        "version": int(encoded.version),
        "compact": encoded.compact,
        "sframe_bytes": len(encoded),
        "fdes": len(encoded.fdes),
        "fres": encoded.num_fres,
    }


def coverage(is_written: NDArray[np.bool_], refusals: Refusals) -> _Coverage:
    """The fields of Coverage; `is_written` has, for each function, whether any of it is in the result."""
    is_refused = np.zeros(len(is_written), np.bool_)
    is_refused[refusals.function] = True
    return {"converted": int((is_written & ~is_refused).sum()), "partial": int((is_written & is_refused).sum())}


def has_rest(table: UnwindTable, refusals: Refusals) -> NDArray[np.bool_]:
    """Which functions are not refused completely."""
    size = (refusals.end - refusals.start).astype(np.float64)
    refused = np.bincount(refusals.function, weights=size, minlength=len(table))
    is_refused = np.bincount(refusals.function, minlength=len(table)) > 0
    return ~is_refused | (refused < table.functions.size)
