"""Files as a page with pictures and a table of functions: the job of `unwindkit report`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from ..converters.elf.debug_files import BY_LINKS, DebugFiles
from ..converters.elf.inputs import Input
from ..converters.files.inputs import TABLE_KINDS, Raw
from ..schemas.arguments import checked, each
from ..schemas.section import BuildError
from .frame import page
from .function_columns import embedded_columns
from .model import ReportedFile
from .read import read_file
from .style import STYLE
from .summary import summary

SCRIPT = "functions.js"


@checked(paths=each(object), debug=DebugFiles)
def report(
    paths: Sequence[Input],
    *,
    source: str | None = None,
    address: int = 0,
    architecture: str | None = None,
    debug: DebugFiles = BY_LINKS,
) -> str:
    """The report on files, side by side, as an HTML page that needs nothing else.

    A file is an ELF file, a raw section or a symbol file; `source` is the kind of raw sections, at the virtual address
    `address`, or the section of ELF files to read; `architecture` has to be given for all raw sections but SFrame.
    Malformed sections are part of the report. Raises OSError, ParseError for a malformed file and for one without
    unwind information, and BuildError if something is missing or must not be given.
    """
    if source is not None and source not in TABLE_KINDS:
        raise BuildError("", None, "source", f"{source!r} is not one of {', '.join(TABLE_KINDS)}")
    raw = Raw(source, address, architecture)
    found = [read_file(path, raw, debug) for path in paths]
    if not found:
        raise BuildError("", None, "paths", "are missing: a report is about at least one file")
    return report_page(found)


def report_page(found: list[ReportedFile]) -> str:
    """The page."""
    title = f"Unwind information: {', '.join(one.file for one in found)}"
    script = files(__package__).joinpath(SCRIPT).read_text(encoding="utf-8")
    data = (f'<script class=columns type="text/plain">{embedded_columns(one)}</script>' for one in found)
    return page(title, "\n".join([*summary(title, found), *data]), STYLE, script)
