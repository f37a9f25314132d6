"""The functions of a file as a page has them: columns in JSON, compressed, which `functions.js` reads.

Strategy: rows are stored once for each distinct run, the text of a row once for each distinct one; ascending numbers
as differences. Addresses are two numbers, since those of JavaScript are exact up to 2**53.
"""

from __future__ import annotations

import base64
import json
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from ..converters.arrays import ranges, renumbered, starts_of
from ..converters.distinct import intern, number_distinct
from ..converters.files.find import row_rules
from ..converters.refusals import Reason
from ..converters.table.model import UnwindTable
from .frame import printable
from .model import ReportedFile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

LEVEL = 9
EXACT = 1 << 53  # the first number that JavaScript may round
LOW = np.uint64(0xFFFFFFFF)


def embedded_columns(found: ReportedFile) -> str:
    """The columns of a file, as text of base64."""
    text = json.dumps(_columns(found), separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode("ascii"), LEVEL)).decode("ascii")


def _columns(found: ReportedFile) -> dict[str, Any]:
    functions, about = found.functions.table.functions, found.functions
    used, run = renumbered(functions.run.astype(np.int64))
    rows, texts = _rows(about.table, used)
    refused = {f"v{version}": _reasons(bits) for version, bits in about.refused.items()}
    return {
        "file": printable(found.file),
        "sections": [printable(name) for name in about.section_names],
        "sources": [printable(name) for name in about.source_names],
        "refused": {name: sentences for name, (sentences, _) in refused.items()},
        "rows": texts,
        "runs": rows,
        "functions": {
            "high": _differences((about.address >> np.uint64(32)).astype(np.int64)),
            "low": _differences((about.address & LOW).astype(np.int64)),
            "size": [size if size < EXACT else f"{size}" for size in functions.size.tolist()],
            "section": about.section.tolist(),
            "symbol": [printable(name) for name in about.symbol],
            "name": [printable(name) for name in about.name],
            "run": run.tolist(),
            "sources": about.sources.tolist(),
            **{name: numbers for name, (_, numbers) in refused.items()},
        },
    }


def _rows(table: UnwindTable, used: Numbers) -> tuple[dict[str, list[int]], list[str]]:
    """The rows of the runs that are `used`: their number, their offsets, each as the difference from the row before in
    its run, and the number of their text; and the texts."""
    first, count = table.run_rows[used], np.diff(table.run_rows)[used]
    rows = ranges(first, count)
    number, example = _distinct_rows(table)
    kept, text = renumbered(number[rows])
    offset = table.rows.offset[rows].astype(np.int64)
    before = np.append(0, offset[:-1]) if len(offset) else offset
    before[starts_of(count)[:-1][count > 0]] = 0
    runs = {"count": count.tolist(), "offset": (offset - before).tolist(), "row": text.tolist()}
    return runs, [row_text(table, row) for row in example[kept].tolist()]


def row_text(table: UnwindTable, row: int) -> str:
    """The rules of a row, as `find` prints them."""
    rules = row_rules(table.architecture, table.row(row))
    return " ".join(f"{name}={rule}" for name, rule in rules.items()) or "no rules"


def _distinct_rows(table: UnwindTable) -> tuple[Numbers, Numbers]:
    """A number for each row, equal for rows with equal rules, and the first row of each number."""
    rows, rules = table.rows, table.rules
    slices, first = number_distinct(rows.first_rule, rows.rule_count)
    layout = [("register", "<u2"), ("kind", "u1"), ("value", "<i8")]
    packed = np.zeros(len(rules), layout)
    packed["register"], packed["kind"], packed["value"] = rules.register, rules.kind, rules.value
    start = rows.first_rule[first] * packed.itemsize
    end = start + rows.rule_count[first].astype(np.int64) * packed.itemsize
    content = intern(packed.view(np.uint8), start, end, np.zeros(len(first), np.int64))[0]
    return number_distinct(
        rows.cfa_kind, rows.cfa_register, rows.cfa_offset, rows.ra_state, content[slices].astype(np.int64)
    )


def _reasons(bits: Numbers) -> tuple[list[str], list[int]]:
    """The sentences of each set of reasons, "" for none, and the number of each function's set."""
    every = np.append(0, bits)
    number, first = number_distinct(every)
    sentences = ["; ".join(one.sentence for one in Reason if bits >> one & 1) for bits in every[first].tolist()]
    return sentences, number[1:].tolist()


def _differences(values: Numbers) -> list[int]:
    """The first value, and the difference of each other one from the one before."""
    found: list[int] = np.diff(values, prepend=0).tolist()
    return found
