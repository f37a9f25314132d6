"""Hypothesis strategies for sections, tables and files (extra `testing`).

Those for single records are in `unwindkit.schemas.strategies`.
"""

from .call_frames import CallFrames, call_frames
from .elf_files import ElfSection, ElfWithFrames, build_elf, elf_files
from .expressions import DwarfExpression, expressions
from .features import Feature
from .line_tables import line_tables
from .unwind_tables import unwind_tables

__all__ = [
    "CallFrames",
    "DwarfExpression",
    "ElfSection",
    "ElfWithFrames",
    "Feature",
    "build_elf",
    "call_frames",
    "elf_files",
    "expressions",
    "line_tables",
    "unwind_tables",
]
