"""What a report knows of one file: figures for people, and the columns of its functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..converters.files.code_names import CodeNames
from ..converters.files.lint import LintedSection
from ..converters.refusals import RefusedCount
from ..converters.table.model import UnwindTable
from ..schemas.data_classes import dataclass

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ..converters.files.code_frames import Ranges


@dataclass(frozen=True, slots=True)
class SourceFigures:
    """A section of unwind information. `fault` is why it could not be read, "" if it could; the counts are then 0."""

    name: str
    size: int
    functions: int = 0
    rows: int = 0
    distinct_runs: int = 0
    covered_bytes: int = 0
    fault: str = ""


@dataclass(frozen=True, slots=True)
class CodeFigures:
    """The bytes of an executable section, each in one of these: `expressed` has rows that SFrame has too, `refused` has
    rows that it lacks, by the name of the reason; `padding` between functions; `bare` has no rows."""

    name: str
    size: int
    expressed: int
    refused: dict[str, int]
    padding: int
    bare: int


@dataclass(frozen=True, slots=True)
class SframeCost:
    """What an `.sframe` of all functions would take; `fault` is why there can be none, "" if there can."""

    version: int
    compact: str
    size: int = 0
    fdes: int = 0
    fres: int = 0
    fault: str = ""


@dataclass(frozen=True, slots=True)
class SharedRuns:
    """The row runs that `least` up to `most` functions have: their number, and the number of these functions."""

    least: int
    most: int
    runs: int
    functions: int


@dataclass(frozen=True, slots=True, eq=False)
class ReportedFunctions:
    """One element for each function of `table`, whose addresses are those of `lay_out`: `sources` has a bit for each
    name of `source_names`, set if that covers its first byte; `refused` has by SFrame version a bit for each `Reason`
    by its number. In a relocatable file, `section` has the index in `section_names`, and `address` is relative to that
    section; in others both are empty. `symbol` is the symbol's name as in the file, with an offset
    if it does not start there, "" for none; `name` the same demangled."""

    table: UnwindTable
    source_names: tuple[str, ...]
    sources: NDArray[np.int64]
    refused: dict[int, NDArray[np.int64]]
    section_names: tuple[str, ...]
    section: NDArray[np.int64]
    address: NDArray[np.uint64]
    symbol: list[str]
    name: list[str]


@dataclass(frozen=True, slots=True, eq=False)
class ReportedFile:
    """A file. `frames_bytes` is the size of the call frame information, with which sizes are compared; `code` is empty
    for a raw section; `refused` counts by SFrame version and reason; `bare` are ranges of code without rows."""

    file: str
    type: str
    architecture: str
    byte_order: str
    debug_file: str
    debug_notes: tuple[str, ...]
    code_bytes: int
    covered_bytes: int
    sources: tuple[SourceFigures, ...]
    frames_bytes: int
    code: tuple[CodeFigures, ...]
    costs: tuple[SframeCost, ...]
    refused: dict[int, dict[str, RefusedCount]]
    shared: tuple[SharedRuns, ...]
    rows: int
    bare: Ranges
    lint: tuple[LintedSection, ...]
    names: CodeNames
    functions: ReportedFunctions
