"""unwindkit: unwind information of finished binaries, read into one table, written in any format.

Strategy: the public names, each brought in when first asked for, so that a program pays for what it uses.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .converters.by_pc import RulesByPc, by_pc
    from .converters.callframe_encoding import to_debug_frame, to_eh_frame, to_eh_frame_hdr
    from .converters.directives import directives_of, to_directives
    from .converters.line_encoding import to_debug_line
    from .converters.line_lookup import LineAt, LinesAt, lines
    from .converters.line_reading import read_lines
    from .converters.line_records import from_line_records, to_debug_aranges, to_line_records
    from .converters.line_table import LineTable
    from .converters.lookup import RowsAt, find_rows
    from .converters.reading import read_elf
    from .converters.refusals import Reason, Refusal, Refusals
    from .converters.sframe import from_sframe, project, to_sframe
    from .converters.sframe_lookup import FresAt, find_fres
    from .converters.stack_cfi import to_stack_cfi
    from .converters.stack_cfi_reading import from_stack_cfi
    from .converters.unwind import Function, FunctionFlag, Row, UnwindTable
    from .jobs.batch import write_breakpad_many, write_sframe_many
    from .jobs.breakpad import store_breakpad, write_breakpad
    from .jobs.convert import convert
    from .jobs.edit import edit_frames
    from .jobs.eh_frame_files import convert_frames
    from .jobs.info import info
    from .jobs.merge import merge_sframe
    from .jobs.sframe_files import remove_sframe, write_sframe
    from .schemas.section import BuildError, FormatError, ParseError

_HOMES = {
    "BuildError": "schemas.section",
    "FormatError": "schemas.section",
    "FresAt": "converters.sframe_lookup",
    "Function": "converters.unwind",
    "FunctionFlag": "converters.unwind",
    "LineAt": "converters.line_lookup",
    "LineTable": "converters.line_table",
    "LinesAt": "converters.line_lookup",
    "ParseError": "schemas.section",
    "Reason": "converters.refusals",
    "Refusal": "converters.refusals",
    "Refusals": "converters.refusals",
    "Row": "converters.unwind",
    "RowsAt": "converters.lookup",
    "RulesByPc": "converters.by_pc",
    "UnwindTable": "converters.unwind",
    "by_pc": "converters.by_pc",
    "convert": "jobs.convert",
    "convert_frames": "jobs.eh_frame_files",
    "edit_frames": "jobs.edit",
    "directives_of": "converters.directives",
    "find_fres": "converters.sframe_lookup",
    "find_rows": "converters.lookup",
    "from_line_records": "converters.line_records",
    "from_sframe": "converters.sframe",
    "from_stack_cfi": "converters.stack_cfi_reading",
    "info": "jobs.info",
    "lines": "converters.line_lookup",
    "merge_sframe": "jobs.merge",
    "project": "converters.sframe",
    "read_elf": "converters.reading",
    "read_lines": "converters.line_reading",
    "remove_sframe": "jobs.sframe_files",
    "store_breakpad": "jobs.breakpad",
    "to_debug_aranges": "converters.line_records",
    "to_debug_frame": "converters.callframe_encoding",
    "to_debug_line": "converters.line_encoding",
    "to_directives": "converters.directives",
    "to_eh_frame": "converters.callframe_encoding",
    "to_eh_frame_hdr": "converters.callframe_encoding",
    "to_line_records": "converters.line_records",
    "to_sframe": "converters.sframe",
    "to_stack_cfi": "converters.stack_cfi",
    "write_breakpad": "jobs.breakpad",
    "write_breakpad_many": "jobs.batch",
    "write_sframe": "jobs.sframe_files",
    "write_sframe_many": "jobs.batch",
}

__all__ = [
    "BuildError",
    "FormatError",
    "FresAt",
    "Function",
    "FunctionFlag",
    "LineAt",
    "LineTable",
    "LinesAt",
    "ParseError",
    "Reason",
    "Refusal",
    "Refusals",
    "Row",
    "RowsAt",
    "RulesByPc",
    "UnwindTable",
    "by_pc",
    "convert",
    "convert_frames",
    "directives_of",
    "edit_frames",
    "find_fres",
    "find_rows",
    "from_line_records",
    "from_sframe",
    "from_stack_cfi",
    "info",
    "lines",
    "merge_sframe",
    "project",
    "read_elf",
    "read_lines",
    "remove_sframe",
    "store_breakpad",
    "to_debug_aranges",
    "to_debug_frame",
    "to_debug_line",
    "to_directives",
    "to_eh_frame",
    "to_eh_frame_hdr",
    "to_line_records",
    "to_sframe",
    "to_stack_cfi",
    "write_breakpad",
    "write_breakpad_many",
    "write_sframe",
    "write_sframe_many",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value
