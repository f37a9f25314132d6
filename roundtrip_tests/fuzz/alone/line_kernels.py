"""Kernels of line number programs alone: the machine, its dump, tables of paths, and the encoder."""

from __future__ import annotations

from typing import Any

import numpy as np
from unwindkit.converters.kernels.line.protocol import Event, UnitField

from .contract import between, put, rule, starts, within
from .given import Given, Ran, array, number, views_of
from .kernel import Kernel, kernel_files
from .readers import reader_of, reader_rules, reader_values

READERS = ("debug-line-2", "debug-line-3", "debug-line-4", "debug-line-5", "libraries")
DATA = "machine.reader.data"
TABLES = ("machine.standard", "machine.extended")
# Instructions that the dump gets at once.
CHUNK = 16
MOST_TEXT = 1 << 20


def _limit_units(unit: str, data: str) -> Any:
    """A unit's header is before its program, both in the section; what divides is not 0 (`read_line_headers`)."""

    def repair(given: Given) -> None:
        size, fields = len(array(given, data)), array(given, unit).copy()
        for name, low, high in (
            (UnitField.OPCODE_BASE, 1, 255),
            (UnitField.LINE_RANGE, 1, 255),
            (UnitField.MAXIMUM_OPERATIONS, 1, 255),
            (UnitField.MINIMUM_INSTRUCTION_LENGTH, 0, 255),
            (UnitField.LINE_BASE, -128, 127),
            (UnitField.ADDRESS_SIZE, 0, 255),
            (UnitField.DEFAULT_IS_STMT, 0, 255),
            (UnitField.HAS_FORMATS, 0, 1),
        ):
            fields[:, name] = np.clip(fields[:, name], low, high)
        offset_size = fields[:, UnitField.OFFSET_SIZE]
        fields[:, UnitField.OFFSET_SIZE] = np.where((offset_size == 4) | (offset_size == 8), offset_size, 4)
        lengths = fields[:, UnitField.OPCODE_BASE] - 1
        at = np.clip(fields[:, UnitField.OPCODE_LENGTHS], 0, np.maximum(size - lengths, 0))
        fields[:, UnitField.OPCODE_BASE] = np.minimum(lengths, size - at) + 1
        fields[:, UnitField.OPCODE_LENGTHS] = at
        before = at + fields[:, UnitField.OPCODE_BASE] - 1
        for name in (UnitField.HEADER, UnitField.PROGRAM, UnitField.END):
            before = np.clip(fields[:, name], before, size)
            fields[:, name] = before
        put(given, unit, fields)

    return rule((unit, f"#{data}"), (unit,), repair)


def _machine(kernels: Any, given: Given) -> tuple[Any, Any]:
    reader = reader_of(kernels, given, "machine.reader")
    return reader, kernels.line.machine.Machine(reader, *views_of(given, *TABLES))


def _run(kernels: Any, given: Given) -> Ran:
    """As `run_programs`."""
    reader, machine = _machine(kernels, given)
    done, counts, columns = 0, (0, 0, 0), []
    kinds = (np.uint64, np.uint8, np.uint32, np.uint32, np.uint32, np.uint32, np.uint32, np.uint8)
    for _ in ("count", "fill"):
        columns = [np.zeros(counts[0], kind) for kind in kinds]
        columns += [np.zeros(counts[1], kind) for kind in (np.uint32, np.int64)]
        columns += [np.zeros(counts[2], kind) for kind in (np.int64, np.int64)]
        rows = kernels.line.machine.Rows(*(one.data for one in columns))
        done = kernels.line.machine.run(machine, array(given, "unit").data, rows)
        counts = rows.row, rows.sequence, rows.defined
        if reader.fault:
            break
    return Ran(reader.fault, (done, reader.offset, *counts), tuple(columns))


def _decode(kernels: Any, given: Given) -> Ran:
    """As `events_of`, each unit in turn."""
    reader, machine = _machine(kernels, given)
    parts, count, units = [], 0, array(given, "unit")
    for unit in range(len(units)):
        machine.enter(units.data, unit)
        while reader.offset < machine.end and not reader.fault:
            effects, values = np.zeros(CHUNK, np.uint8), np.zeros((CHUNK, len(Event)), np.uint64)
            ran = kernels.line.decoder.decode(machine, effects.data, values.data)
            parts += [effects[:ran].astype(np.uint64), values[:ran].reshape(-1)]
            count += ran
        if reader.fault:
            break
    return Ran(reader.fault, (count, reader.offset), (np.concatenate([np.zeros(0, np.uint64), *parts]),))


OLD = ("tables.old_count", "tables.old_content", "tables.old_form")


def _tables(kernels: Any, given: Given) -> Ran:
    """As `read_path_values`."""
    reader, units = reader_of(kernels, given), len(array(given, "unit"))
    formats = values = tables = done = 0
    columns: tuple[Any, ...] = ()
    for _ in ("count", "fill"):
        sizes = (*[(tables, np.int64)] * 3, *[(formats, np.uint64)] * 2, (values, np.uint64), (values, np.int64))
        columns = tuple(np.zeros(size, kind) for size, kind in sizes)
        chosen = np.zeros(256, np.uint8)
        storages = array(given, "tables.storages").data
        arguments = (storages, chosen.data, *views_of(given, *OLD), *(one.data for one in columns))
        filled = kernels.line.path_tables.Tables(*arguments)
        done = kernels.line.path_tables.read(reader, array(given, "unit").data, filled)
        if reader.fault:
            break
        formats, values, tables = filled.formats, filled.values, 2 * units + 1
    return Ran(reader.fault, (done, reader.offset, formats, values), columns)


def _entries(kernels: Any, given: Given) -> Ran:
    reader, shape = reader_of(kernels, given), (len(array(given, "place")), len(array(given, "storage")))
    found, start = np.zeros(shape, np.uint64), np.zeros(shape, np.int64)
    arguments = (*views_of(given, "place", "storage"), found.data, start.data)
    done = kernels.line.path_tables.entries(reader, *arguments)
    return Ran(reader.fault, (done, reader.offset), (found, start))


# --- the encoder ------------------------------------------------------------------------------------------------------

ROWS = ("address", "op_index", "file", "line", "column", "isa", "discriminator", "flags")


def _limit_fields(given: Given) -> None:
    """What divides is not 0 (`unit_fields`); the others are what a header can hold."""
    fields = array(given, "unit").copy()
    for name, low, high in (
        (UnitField.OPCODE_BASE, 0, 255),
        (UnitField.LINE_RANGE, 1, 255),
        (UnitField.MAXIMUM_OPERATIONS, 1, 255),
        (UnitField.MINIMUM_INSTRUCTION_LENGTH, 1, 255),
        (UnitField.LINE_BASE, -128, 127),
        (UnitField.DEFAULT_IS_STMT, 0, 1),
    ):
        fields[:, name] = np.clip(fields[:, name], low, high)
    size = fields[:, UnitField.ADDRESS_SIZE]
    fields[:, UnitField.ADDRESS_SIZE] = np.where(np.isin(size, (1, 2, 4, 8)), size, 8)
    put(given, "unit", fields)


def _limit_sequences(given: Given) -> None:
    """Each sequence is of one unit."""
    count = len(array(given, "first_row")) - 1
    put(given, "sequences", np.clip(np.resize(array(given, "sequences"), count), 0, max(0, count - 1)))


def _programs(kernels: Any, given: Given) -> Ran:
    """As `_programs` of the writer."""
    out, end, done, fault, size = np.zeros(0, np.uint8), np.zeros(len(array(given, "unit")), np.int64), 0, 0, 0
    names = ("unit", "sequence_first", "sequences", "first_row", *ROWS)
    for _ in ("count", "fill"):
        writer = kernels.shared.writes.Writer(number(given, "encoder.writer.big"), out.data)
        encoder = kernels.line.encoder.Encoder(writer, number(given, "encoder.fixed_only"))
        done = kernels.line.encoder.programs(encoder, *views_of(given, *names), end.data)
        fault, size = encoder.fault, writer.at
        if fault:
            break
        out = np.zeros(min(size, MOST_TEXT), np.uint8) if not len(out) else out
    return Ran(fault, (done, size), (out, end))


LINE_KERNELS = (
    Kernel(
        "kernel-line-machine",
        "line.machine.run",
        READERS,
        _run,
        kernel_files("line/machine", "shared/reads"),
        data=(DATA,),
        values=(*reader_values("machine.reader"), "unit"),
        fixed=("machine.reader.sizes", *TABLES),
        groups=(("unit",),),
        rules=(*reader_rules("machine.reader"), _limit_units("unit", DATA)),
    ),
    Kernel(
        "kernel-line-dump",
        "line.machine.run",
        READERS,
        _decode,
        kernel_files("line/decoder", "line/machine", "shared/reads"),
        data=(DATA,),
        values=(*reader_values("machine.reader"), "unit"),
        fixed=("machine.reader.sizes", *TABLES),
        groups=(("unit",),),
        rules=(*reader_rules("machine.reader"), _limit_units("unit", DATA)),
    ),
    Kernel(
        "kernel-line-paths",
        "line.path_tables.read",
        READERS,
        _tables,
        kernel_files("line/path_tables", "shared/values", "shared/reads"),
        data=("reader.data",),
        values=(*reader_values(), "unit"),
        fixed=("reader.sizes", "tables.storages", *OLD),
        groups=(("unit",),),
        rules=(*reader_rules(), _limit_units("unit", "reader.data")),
    ),
    Kernel(
        "kernel-line-files",
        "line.path_tables.entries",
        READERS,
        _entries,
        kernel_files("line/path_tables", "shared/values", "shared/reads"),
        data=("reader.data",),
        values=(*reader_values(), "place"),
        fixed=("reader.sizes", "storage"),
        groups=(("place",),),
        rules=(*reader_rules(), within("place", "reader.data")),
    ),
    Kernel(
        "kernel-line-encoder",
        "line.encoder.programs",
        READERS,
        _programs,
        kernel_files("line/encoder", "shared/writes"),
        values=("unit", "sequence_first", "sequences", "first_row", *ROWS, "encoder.writer.big", "encoder.fixed_only"),
        groups=(ROWS, ("first_row",), ("unit",)),
        rules=(
            between("encoder.writer.big", 0, 1),
            between("encoder.fixed_only", 0, 1),
            rule(("unit",), ("unit",), _limit_fields),
            starts("first_row", "address"),
            rule(("#first_row", "first_row", "sequences"), ("sequences", "#sequences"), _limit_sequences),
            starts("sequence_first", "sequences", per="unit"),
        ),
    ),
)
