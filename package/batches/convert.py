"""One job of a batch: the bytes of a file in, its result and a report out. Nothing else has an effect on the result."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..converters.elf.debug_files import DebugFiles
from ..jobs import StrPath
from ..jobs.breakpad import BreakpadReport, store_breakpad
from ..jobs.export import ExportReport, export_as
from ..jobs.sframe_check import check_sframe, why_without_sframe
from ..jobs.sframe_files import write_sframe
from ..jobs.sframe_report import SframeReport
from ..writers.files import link_again
from .limits import Limits, limited
from .source_files import Kept, SourceFile
from .sources import IN_PACKAGE


def convert_to_sframe(
    file: SourceFile,
    out: StrPath,
    /,
    limits: Limits,
    where_possible: bool = False,
    is_checked: bool = False,
    **choices: Any,
) -> SframeReport | Kept:
    """Write a copy of a file with an `.sframe` to `out`; the choices are those of `write_sframe`. If `is_checked`, it
    is compared with the call frame information; `where_possible`, a file that can have no `.sframe` is kept.

    Other names of a file that is replaced become names of the new one.
    """
    given = _with_debug(choices, file)
    with limited(limits), file.as_path() as path:
        if where_possible and (reason := why_without_sframe(path, given["debug"])):
            return Kept(file.name, reason)
        report = write_sframe(path, out, **given)
        if is_checked:
            check_sframe(Path(out), given["debug"])
    for link in file.links if os.fspath(out) == file.name else ():
        link_again(Path(out), Path(link))
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
