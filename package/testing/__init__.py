"""Hypothesis strategies for sections, tables and files (extra `testing`).

Those for single records are in `unwindkit.schemas.strategies`.
"""

from ..corpus.elf import ElfSection, build_elf
from ..corpus.frames.call_frames import CallFrames
from ..corpus.frames.expressions import DwarfExpression
from ..corpus.frames.features import Feature
from ..corpus.frames.files import ElfWithFrames
from .call_frames import call_frames
from .elf_files import elf_files
from .expressions import expressions
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
