"""One job of a batch: the bytes of a file in, its result and a report out. Nothing else has an effect on the result."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from ..converters.elf.debug_files import DebugFiles
from ..jobs import StrPath
from ..jobs.breakpad import BreakpadReport, store_breakpad
from ..jobs.export import ExportReport, export_as
from ..jobs.sframe_files import write_sframe
from ..jobs.sframe_report import SframeReport
from .limits import Limits, limited
from .source_files import SourceFile
from .sources import IN_PACKAGE


def convert_to_sframe(file: SourceFile, out: StrPath, /, limits: Limits, **choices: Any) -> SframeReport:
    """Write a copy of a file with an `.sframe` to `out`; the choices are those of `write_sframe`."""
    with limited(limits), file.as_path() as path:
        report = write_sframe(path, out, **_with_debug(choices, file))
    return replace(report, file=file.name)


def convert_to_symbols(file: SourceFile, out: StrPath, /, limits: Limits, **choices: Any) -> BreakpadReport:
    """Put the symbol file of a file into the store `out`; the choices are those of `store_breakpad`."""
    with limited(limits):
        return store_breakpad(file.as_input(), out, **_with_debug(choices, file))


def convert_to_shards(file: SourceFile, out: StrPath, /, limits: Limits, **choices: Any) -> ExportReport:
    """Write the shards of a file below `out`; the choices are those of `export_as`."""
    package = None if file.data is None else file.name.partition(IN_PACKAGE)[0]
    with limited(limits):
        return export_as(file.as_input(), Path(out), file.place, package=package, **_with_debug(choices, file))


def _with_debug(choices: dict[str, Any], source: SourceFile) -> dict[str, Any]:
    debug: DebugFiles = choices["debug"]
    return {**choices, "debug": replace(debug, given=source.debug)} if source.debug else choices
