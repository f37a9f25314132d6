"""The table of assembler text with `.cfi_*` directives (to_directives does the reverse).

Strategy: the directives become a `.debug_frame` with an FDE for each distinct function body, which is read as any
other; the functions of the text then refer to the runs of these FDEs.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ...schemas.arguments import check_byte_order, checked, optional, text_argument
from ...schemas.cfi import DEBUG_FRAME
from ...schemas.section import BuildError, ByteOrder, ParseError
from ..arch.table import Architecture, architecture_named
from ..assembler.read import AssembledFrames, assemble_frames
from ..assembler.statements import SOURCE
from ..cfi.read import table_from_cfi
from ..table.model import UnwindTable


@checked(address=optional(int), byte_order=optional(check_byte_order))
def from_directives(
    text: bytes | str, arch: str, address: int | None = None, byte_order: ByteOrder | None = None
) -> UnwindTable:
    """Read assembler text with `.cfi_*` directives for GNU as into a table, without an assembler.

    Directives of data and space determine the addresses; a section with functions must not contain anything else, so
    what a compiler writes has to be assembled first: `read_elf` reads the object. `address` is that of the section with
    the functions; None: the address that `to_directives` wrote into the text, else 0. Functions of several sections are
    relative to their sections, as in a relocatable file. Undefined symbols of personalities have the address 0.

    Raises ParseError, whose record names the line, and BuildError for an unknown architecture.
    """
    architecture = architecture_named(arch, SOURCE)
    if address is not None and not 0 <= address < 1 << 8 * architecture.address_size:
        raise BuildError(SOURCE, None, "address", f"{address:#x} is not an address of {arch}")
    data = text_argument(text)
    return table_from_directives(data, architecture, address, byte_order or architecture.byte_order)


def table_from_directives(
    text: bytes, architecture: Architecture, address: int | None, order: ByteOrder
) -> UnwindTable:
    """As `from_directives`."""
    frames = assemble_frames(text, architecture, address, order)
    try:
        table = table_from_cfi(frames.section, DEBUG_FRAME, architecture)
    except ParseError as error:
        reason = f"the call frame instructions of this function: {error.reason}"
        raise ParseError(SOURCE, None, _line(frames, error), reason) from error
    return replace(table, functions=replace(frames.functions, run=table.functions.run[frames.body]), source=SOURCE)


def _line(frames: AssembledFrames, error: ParseError) -> str:
    """The line of the function whose instructions cannot be interpreted: `.cfi_escape` may contain anything."""
    found = re.match(r"FDE\[(\d+)\]", error.record)
    return f"line {frames.line[int(found[1])]}" if found else error.record
