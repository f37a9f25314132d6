"""Hypothesis strategies for sections, tables and files (extra `testing`).

Those for single records are in `unwindkit.schemas.strategies`.
"""

from ..corpus.case import Case, Fault
from ..corpus.elf import ElfSection, build_elf
from ..corpus.frames.call_frames import CallFrames
from ..corpus.frames.expressions import DwarfExpression
from ..corpus.frames.features import Feature
from ..corpus.frames.files import ElfWithFrames
from ..corpus.write import file_bytes
from .call_frames import call_frames
from .corpus_cases import corpus_cases
from .elf_files import elf_files
from .expressions import expressions
from .line_tables import line_tables
from .unwind_tables import unwind_tables

__all__ = [
    "CallFrames",
    "Case",
    "DwarfExpression",
    "ElfSection",
    "ElfWithFrames",
    "Fault",
    "Feature",
    "build_elf",
    "call_frames",
    "corpus_cases",
    "elf_files",
    "expressions",
    "file_bytes",
    "line_tables",
    "unwind_tables",
]
