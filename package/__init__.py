"""unwindkit: unwind information of finished binaries, read into one table, written in any format.

Strategy: the public names, each brought in when first asked for, so that a program pays for what it uses.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .converters.assembler.write import directives_of, to_directives
    from .converters.breakpad.line_records import from_line_records, to_line_records
    from .converters.breakpad.stack_cfi.read import from_stack_cfi
    from .converters.breakpad.stack_cfi.write import to_stack_cfi
    from .converters.cfi.write import to_debug_frame, to_eh_frame, to_eh_frame_hdr
    from .converters.files.read_elf import read_elf
    from .converters.line.lookup import LineAt, LinesAt, lines
    from .converters.line.read import read_lines
    from .converters.line.table import LineTable
    from .converters.line.write import to_debug_line
    from .converters.lookup_tables.from_lines import to_debug_aranges
    from .converters.refusals import Reason, Refusal, Refusals
    from .converters.sframe.lookup import FresAt, find_fres
    from .converters.sframe.project import project
    from .converters.sframe.read import from_sframe
    from .converters.sframe.write import to_sframe
    from .converters.table.by_pc import RulesByPc, by_pc
    from .converters.table.lookup import RowsAt, find_rows
    from .converters.table.model import Function, FunctionFlag, Row, UnwindTable
    from .jobs.batch import write_breakpad_many, write_sframe_many
    from .jobs.breakpad import store_breakpad, write_breakpad
    from .jobs.convert import convert
    from .jobs.edit import edit_frames
    from .jobs.info import info
    from .jobs.merge import merge_sframe
    from .jobs.sframe_files import remove_sframe, write_sframe
    from .schemas.section import BuildError, FormatError, ParseError

_HOMES = {
    "BuildError": "schemas.section",
    "FormatError": "schemas.section",
    "FresAt": "converters.sframe.lookup",
    "Function": "converters.table.model",
    "FunctionFlag": "converters.table.model",
    "LineAt": "converters.line.lookup",
    "LineTable": "converters.line.table",
    "LinesAt": "converters.line.lookup",
    "ParseError": "schemas.section",
    "Reason": "converters.refusals",
    "Refusal": "converters.refusals",
    "Refusals": "converters.refusals",
    "Row": "converters.table.model",
    "RowsAt": "converters.table.lookup",
    "RulesByPc": "converters.table.by_pc",
    "UnwindTable": "converters.table.model",
    "by_pc": "converters.table.by_pc",
    "convert": "jobs.convert",
    "edit_frames": "jobs.edit",
    "directives_of": "converters.assembler.write",
    "find_fres": "converters.sframe.lookup",
    "find_rows": "converters.table.lookup",
    "from_line_records": "converters.breakpad.line_records",
    "from_sframe": "converters.sframe.read",
    "from_stack_cfi": "converters.breakpad.stack_cfi.read",
    "info": "jobs.info",
    "lines": "converters.line.lookup",
    "merge_sframe": "jobs.merge",
    "project": "converters.sframe.project",
    "read_elf": "converters.files.read_elf",
    "read_lines": "converters.line.read",
    "remove_sframe": "jobs.sframe_files",
    "store_breakpad": "jobs.breakpad",
    "to_debug_aranges": "converters.lookup_tables.from_lines",
    "to_debug_frame": "converters.cfi.write",
    "to_debug_line": "converters.line.write",
    "to_directives": "converters.assembler.write",
    "to_eh_frame": "converters.cfi.write",
    "to_eh_frame_hdr": "converters.cfi.write",
    "to_line_records": "converters.breakpad.line_records",
    "to_sframe": "converters.sframe.write",
    "to_stack_cfi": "converters.breakpad.stack_cfi.write",
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
