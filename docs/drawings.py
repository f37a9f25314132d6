"""Drawings of records for the manual, made from their declarations: bytes in rows of four, bits in rows of eight.

Strategy: fields of a fixed size are cells in proportion to it; a row has its offset if all before it are fixed. Any
other field has a row of its own between slashes, with its kind. Text, so that a code host and a terminal show it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import NamedTuple

from unwindkit.schemas import wire

CELL = 16  # characters of a byte, with the line at its left
BIT = 9  # of a bit
BYTES_OF_ROW, BITS_OF_BYTE = 4, 8


class Cell(NamedTuple):
    """A part of a row: its text, and how many bytes or bits it has."""

    text: str
    count: int


def drawing(record: type, describe: Callable[[object], str]) -> str:
    """The drawing of a record, "" for one of a single field. `describe` names a kind."""
    declared = [field for field in dataclasses.fields(record) if "kind" in field.metadata]
    kinds = [field.metadata["kind"] for field in declared]
    if len(declared) < 2 or not all(isinstance(kind, wire.Kind) for kind in kinds):  # type: ignore[arg-type]
        return ""
    if all(isinstance(kind, wire.BitField) for kind in kinds):
        bits = [Cell(field.name, field.metadata["kind"].width) for field in declared]
        head = "".join(f"{bit:^{BIT}}" for bit in range(BITS_OF_BYTE - 1, -1, -1)).rstrip()
        return "\n".join([f" {head}", *boxes(bits, BIT, ""), edge([], bits, BIT, "")]) + "\n"
    return "\n".join(byte_rows(list(rows_of(declared, describe)))) + "\n"


def rows_of(declared: list[dataclasses.Field[object]], describe: Callable[[object], str]) -> Iterator[list[Cell] | str]:
    """Rows of cells, and between them the text of each field without a fixed size."""
    row: list[Cell] = []
    for field in declared:
        kind = field.metadata["kind"]
        size = size_of(kind)
        if isinstance(kind, wire.Given):
            continue
        while size:
            here = min(size, BYTES_OF_ROW - sum(cell.count for cell in row))
            row.append(Cell(field.name, here))
            size -= here
            if sum(cell.count for cell in row) == BYTES_OF_ROW:
                yield row
                row = []
        if not size_of(kind):
            if row:
                yield row
            row = []
            yield f"{field.name}: {describe(kind)}"
    if row:
        yield row


def size_of(kind: object) -> int:
    """The bytes of a kind with a fixed size, else 0."""
    return kind.size if isinstance(kind, wire.Integer) else 1 if isinstance(kind, wire.Bits) else 0


def byte_rows(rows: list[list[Cell] | str]) -> Iterator[str]:
    """The lines of all rows: the offset of each at its left, while it is known."""
    width = CELL * BYTES_OF_ROW + 1
    before: list[Cell] = []
    offset: int | None = 0
    for row in rows:
        if isinstance(row, str):
            yield edge(before, [Cell("", BYTES_OF_ROW)], CELL, " " * 4)
            yield f"    /{row:^{width - 2}}/"
            before, offset = [Cell("", BYTES_OF_ROW)], None
            continue
        label = "    " if offset is None else f"{offset:>3} "
        yield edge(before, row, CELL, " " * 4)
        yield from (line if number else label + line[4:] for number, line in enumerate(boxes(row, CELL, " " * 4, "")))
        before = row
        offset = None if offset is None else offset + sum(cell.count for cell in row)
    yield edge(before, [], CELL, " " * 4)


def edge(above: list[Cell], below: list[Cell], width: int, margin: str) -> str:
    """The line between two rows, with a corner where a cell of either begins or ends."""
    line = [" "] * (width * max(sum(cell.count for cell in row) for row in (above, below)) + 1)
    for row in (above, below):
        at = 0
        for cell in row:
            line[at + 1 : at + width * cell.count] = ["-"] * (width * cell.count - 1)
            at += width * cell.count
    for row in (above, below):
        at = 0
        for cell in row:
            line[at] = line[at + width * cell.count] = "+"
            at += width * cell.count
    return margin + "".join(line)


def boxes(row: list[Cell], width: int, margin: str, top: str | None = None) -> Iterator[str]:
    """The lines of one row of cells, without the edge below it; with the one above it unless `top` is given."""
    if top is None:
        yield edge([], row, width, margin)
    texts = [wrapped(cell.text, width * cell.count - 1) for cell in row]
    for parts in zip_longest(*texts, fillvalue=""):
        cells = (f"{part:^{width * cell.count - 1}}" for part, cell in zip(parts, row, strict=True))
        yield f"{margin}|{'|'.join(cells)}|"


def wrapped(name: str, width: int) -> list[str]:
    """A name in lines of a width, broken after underscores."""
    lines = [""]
    for part in re.findall(r"[^_]*_+|[^_]+", name):
        if len(lines[-1]) + len(part) > width and lines[-1]:
            lines.append("")
        lines[-1] += part
    return lines
