"""Read `.eh_frame` and `.debug_frame` into the table (DWARF5 6.4; LSB Core, .eh_frame).

Strategy: FDEs with equal instructions and equal CIEs become one run, which is interpreted once. Rows at or past the end
of a function are cut afterwards: such functions get a shorter run with the same rules.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.arguments import check_byte_order, checked, optional
from ...schemas.cfi import DEBUG_FRAME, EH_FRAME, Dialect
from ...schemas.pointers import NO_BASES, PointerBases
from ...schemas.section import BuildError, ByteOrder, Section
from ...schemas.steps import Step
from ..arch.table import Architecture, architecture_named
from ..arrays import starts_of_ends
from ..distinct import intern
from ..table.model import UnwindTable
from ..table.runs import cut_runs, has_rows_past
from .interpreter import InstructionRanges, RowBuilder, separate_absolute
from .records import Records, read_records

if TYPE_CHECKING:
    from numpy.typing import NDArray


@checked(section_address=int, byte_order=optional(check_byte_order))
def from_eh_frame(
    data: bytes | memoryview, section_address: int, arch: str, byte_order: ByteOrder | None = None
) -> UnwindTable:
    """Read the bytes of an `.eh_frame` section at the virtual address `section_address` into a table.

    `byte_order` None is the default of the architecture. Raises ParseError for a malformed section, as `read_elf`, and
    BuildError for an unknown architecture.
    """
    return _table_of_bytes(data, section_address, arch, byte_order, EH_FRAME)


@checked(byte_order=optional(check_byte_order))
def from_debug_frame(data: bytes | memoryview, arch: str, byte_order: ByteOrder | None = None) -> UnwindTable:
    """Read the bytes of a `.debug_frame` section, which has absolute addresses. Raises as `from_eh_frame`."""
    return _table_of_bytes(data, 0, arch, byte_order, DEBUG_FRAME)


def _table_of_bytes(
    data: bytes | memoryview, address: int, arch: str, byte_order: ByteOrder | None, dialect: Dialect
) -> UnwindTable:
    architecture = architecture_named(arch, dialect.name)
    order = byte_order or architecture.byte_order
    if not 0 <= address < 1 << 8 * architecture.address_size:
        raise BuildError(dialect.name, None, "section_address", f"{address:#x} is not an address of {arch}")
    section = Section(dialect.name, memoryview(data), address, None, order, architecture.address_size)
    return table_from_cfi(section, dialect, architecture)


def table_from_cfi(
    section: Section,
    dialect: Dialect,
    architecture: Architecture,
    load_address: int = 0,
    bases: PointerBases = NO_BASES,
) -> UnwindTable:
    """Read all functions of an `.eh_frame` or `.debug_frame` section. Raises ParseError.

    An entry that violates the specification is an error: a wrong length or pointer, an unknown opcode or version,
    DW_CFA_restore_state without a state to restore. Functions of a CIE with an unknown augmentation get their addresses
    and one row without rules. `bases` are for encoded addresses.
    """
    return table_of_records(read_records(section, dialect, architecture, bases, keeps_entries=False), load_address)


def table_of_records(records: Records, load_address: int = 0) -> UnwindTable:
    """Interpret the instructions of records into a table. Raises ParseError."""
    section, functions = records.section, records.functions
    with Step(f"rows of {section.name}") as step:
        run, run_rows, builder = _interpret(records)
        run, run_rows, repeated = cut_runs(section, run, functions.size, run_rows, builder.rows().offset)
        builder.repeat_rows(repeated)
        step.count(len(run_rows) - 1, "distinct runs")
        step.count(len(builder.rows()), "rows in them")
    return UnwindTable(
        architecture=records.architecture,
        byte_order=section.byte_order,
        functions=replace(functions, run=run),
        run_rows=run_rows,
        rows=builder.rows(),
        rules=builder.rules(),
        expressions=builder.expressions(),
        load_address=load_address,
        source=section.name,
    )


def has_late_rows(records: Records) -> NDArray[np.bool_]:
    """Which functions have a row at or past their end, which `table_of_records` leaves out. Raises ParseError."""
    run, run_rows, builder = _interpret(records)
    return has_rows_past(run, records.functions.size, run_rows, builder.rows().offset)


def _interpret(records: Records) -> tuple[NDArray[np.uint32], NDArray[np.int64], RowBuilder]:
    """The run of each function, `run_rows`, and the rows of all runs, also those past the end of a function."""
    section, architecture, bases = records.section, records.architecture, records.bases
    fdes, cies, cie = records.fdes, records.cies, records.cie
    functions, instructions = records.functions, records.instructions
    run, first = intern(np.frombuffer(section.data, np.uint8), instructions, fdes.end, cies.columns.kind[cie])

    def streams(which: NDArray[np.int64]) -> InstructionRanges:
        return InstructionRanges(instructions[which], fdes.end[which], functions.start[which], cie[which], which)

    builder = RowBuilder(section, cies.columns, architecture.instruction_effects, bases)
    last_row, is_absolute = builder.interpret(streams(first))
    run_rows = starts_of_ends(last_row)
    run, own = separate_absolute(run, first, is_absolute)
    if len(own):
        run_rows = np.concatenate([run_rows, builder.interpret(streams(own))[0]])
    return run, run_rows, builder
