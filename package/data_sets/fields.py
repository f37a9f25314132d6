"""The data sets by name, and their columns.

Strategy: columns of the table, of refusals and of line rows are those classes' own. What only data sets have is
declared here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..converters.columns import Columns, column_of, columns
from ..converters.line.table import LineRowColumns
from ..converters.refusals import Refusals
from ..converters.table.model import RUN, FunctionColumns, RowColumns, RuleColumns
from ..schemas.pointers import DW_EH_PE
from .model import Fields, TextColumn

if TYPE_CHECKING:
    from numpy.typing import NDArray


@columns
class ModuleColumns(Columns):
    """The sizes of a module and of its unwind information; one record per module."""

    size: NDArray[np.uint64] = column_of("bytes", "of the file")
    address_size: NDArray[np.uint8] = column_of("bytes")
    code_bytes: NDArray[np.uint64] = column_of("bytes", "of its executable sections")
    covered_bytes: NDArray[np.uint64] = column_of("bytes", "of them in a function with call frame information")
    eh_frame_bytes: NDArray[np.uint64] = column_of("bytes", "of `.eh_frame`")
    eh_frame_hdr_bytes: NDArray[np.uint64] = column_of("bytes", "of `.eh_frame_hdr`")
    debug_frame_bytes: NDArray[np.uint64] = column_of("bytes", "of `.debug_frame`, uncompressed")
    sframe_bytes: NDArray[np.uint64] = column_of("bytes", "of the `.sframe` that it has")
    functions: NDArray[np.uint64] = column_of("records", "of `functions`")
    rows: NDArray[np.uint64] = column_of("records", "of `rows`")
    refused_bytes: NDArray[np.uint64] = column_of("bytes", "of code that SFrame cannot express")
    new_sframe_fdes: NDArray[np.uint64] = column_of("FDEs", "of the `.sframe` made from the call frame information")
    new_sframe_fres: NDArray[np.uint64] = column_of("FREs", "stored in it")
    new_sframe_bytes: NDArray[np.uint64] = column_of("bytes", "of it")


@columns
class FunctionNumber(Columns):
    """The key of functions."""

    function: NDArray[np.int64] = column_of("index", "of the function in the module, from 0")


@columns
class RunNumber(Columns):
    """The key of rows."""

    run: NDArray[np.uint32] = column_of(RUN.unit, RUN.meaning)


@columns
class RuleSet(Columns):
    """The key of rules."""

    first_rule: NDArray[np.int64] = column_of("index", "as of the `rows` with these rules")


@columns
class ExpressionNumber(Columns):
    """The key of expressions."""

    expression: NDArray[np.int64] = column_of("index", "that rules have as their value")


@columns
class CieFields(Columns):
    """CIEs."""

    offset: NDArray[np.int64] = column_of("section offset", "of the length")
    bytes: NDArray[np.int64] = column_of("bytes", "with the length")
    version: NDArray[np.uint8] = column_of()
    code_alignment_factor: NDArray[np.int64] = column_of("bytes")
    data_alignment_factor: NDArray[np.int64] = column_of("bytes")
    return_address_register: NDArray[np.uint32] = column_of("DWARF register")
    address_encoding: NDArray[np.uint8] = column_of(DW_EH_PE, "of the addresses in FDEs")
    lsda_encoding: NDArray[np.uint8] = column_of(DW_EH_PE, "`omit` if FDEs have no LSDA")
    personality_encoding: NDArray[np.uint8] = column_of(DW_EH_PE, "`omit` if it has none")
    personality: NDArray[np.uint64] = column_of("address", "as of `functions`")


@columns
class FdeFields(Columns):
    """FDEs."""

    offset: NDArray[np.int64] = column_of("section offset", "of the length; `origin` of the function")
    bytes: NDArray[np.int64] = column_of("bytes", "with the length")
    cie: NDArray[np.int64] = column_of("section offset", "of its CIE")
    instruction_bytes: NDArray[np.int64] = column_of("bytes", "of its instructions, with padding")
    start: NDArray[np.uint64] = column_of("address", "of the first byte of code")
    size: NDArray[np.uint64] = column_of("bytes", "of code")


@columns
class SframeFdeFields(Columns):
    """The FDEs of the `.sframe` that is made from the call frame information."""

    function: NDArray[np.int64] = column_of("index", "of the function, the first of several")
    start: NDArray[np.uint64] = column_of("address", "of the first byte of code")
    size: NDArray[np.uint64] = column_of("bytes", "of code")
    fre_offset: NDArray[np.uint64] = column_of("bytes", "from the FRE sub-section: FDEs with the same one share FREs")
    fre_bytes: NDArray[np.uint64] = column_of("bytes", "of its FREs; in version 3 with the attributes")
    fres: NDArray[np.uint64] = column_of("FREs")


@columns
class CodeRange(Columns):
    """Ranges of code."""

    start: NDArray[np.uint64] = column_of("address", "of the first byte")
    end: NDArray[np.uint64] = column_of("address", "after the last byte")


@columns
class SequenceNumber(Columns):
    """The sequence of a row of line information."""

    sequence: NDArray[np.int64] = column_of("index", "of the sequence in the module")


_SOURCE = TextColumn("source", "the name of the section")
_PLACE = TextColumn("code_section", "the name of the section that it is in")
_NAME = TextColumn("name", "of the symbol that covers the start, as the symbol table has it")
DATA_SETS = {
    "modules": Fields(
        "one record per module",
        (
            TextColumn("package", "the package or image that the file is in"),
            TextColumn("sha256", "of the file"),
            TextColumn("build_id", "in hexadecimal"),
            TextColumn("type", "ET_EXEC, ET_DYN or ET_REL"),
            TextColumn("architecture", "by its name in unwindkit"),
            TextColumn("byte_order", "`little` or `big`"),
            TextColumn("sframe_abi", "`SFRAME_ABI`; null if SFrame has none for the architecture"),
        ),
        (ModuleColumns,),
    ),
    "functions": Fields(
        "one record per function with call frame information, and per PLT section with known stubs but without it",
        (_NAME, TextColumn("source", "the section that it is from; null for a PLT section")),
        (FunctionNumber, FunctionColumns),
    ),
    "rows": Fields("the rows of each run; functions with equal rows have the same run", (), (RunNumber, RowColumns)),
    "rules": Fields("the register rules of rows; rows with equal rules have the same ones", (), (RuleSet, RuleColumns)),
    "expressions": Fields(
        "the DWARF expressions of rules",
        (TextColumn("text", "the operations, as readelf prints them"), TextColumn("bytes", "in hexadecimal")),
        (ExpressionNumber,),
    ),
    "cies": Fields("the CIEs that FDEs refer to", (_SOURCE, TextColumn("augmentation", "the string")), (CieFields,)),
    "fdes": Fields("the FDEs, and what they cost", (_SOURCE,), (FdeFields,)),
    "sframe_fdes": Fields(
        "the FDEs of the `.sframe` that would replace them, and what they cost", (), (SframeFdeFields,)
    ),
    "refusals": Fields("the ranges of code that SFrame cannot express", (), (Refusals,)),
    "uncovered": Fields(
        "the ranges of code without call frame information, except for padding", (_PLACE, _NAME), (CodeRange,)
    ),
    "lines": Fields(
        "the rows of line information",
        (TextColumn("path", "of the source file"),),
        (SequenceNumber, LineRowColumns),
    ),
}
