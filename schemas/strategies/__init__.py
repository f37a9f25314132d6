"""Hypothesis strategies for every declared record and for whole sections (extra `testing`).

`records(cls)` draws any record of the binary formats; the other names are whole sections and their parts. Breakpad
symbol files, whose records are text, have their own `records` in `strategies.breakpad`.
"""

from .breakpad import spellings, symbol_files
from .cfi import cfi_entries, cies, eh_frame_hdrs, fde_formats, fdes, instructions
from .declarations import blocks, lebs, pointer_encodings, records, values_of
from .line import (
    LINE_STRINGS,
    extended_instructions,
    line_headers,
    line_programs,
    line_units,
    valid_line_units,
    valid_programs,
)
from .sframe import sframe_sections, valid_sframe_sections
from .tables import address_range_sets, macro_headers, macro_units, name_sets, opcode_operands

__all__ = [
    "LINE_STRINGS",
    "address_range_sets",
    "blocks",
    "cfi_entries",
    "cies",
    "eh_frame_hdrs",
    "extended_instructions",
    "fde_formats",
    "fdes",
    "instructions",
    "lebs",
    "line_headers",
    "line_programs",
    "line_units",
    "macro_headers",
    "macro_units",
    "name_sets",
    "opcode_operands",
    "pointer_encodings",
    "records",
    "sframe_sections",
    "spellings",
    "symbol_files",
    "valid_line_units",
    "valid_programs",
    "valid_sframe_sections",
    "values_of",
]
