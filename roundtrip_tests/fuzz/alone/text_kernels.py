"""Kernels of several formats alone: pieces of text joined and placed, templates, and numbers for equal items."""

from __future__ import annotations

from typing import Any

import numpy as np
from unwindkit.converters.arrays import hash_slots
from unwindkit.converters.kernels.text.protocol import Step

from .cfi_kernels import ROWS, RULES
from .contract import Rule, between, bounds, index, put, rule, slices
from .given import Array, Given, Ran, array, views_of
from .kernel import Kernel, kernel_files

READERS = ("conversions", "debug-line-5", "libraries", "sframe-v2", "frame-dumps")
MOST_TEXT = 1 << 20


def _join(kernels: Any, given: Given) -> Ran:
    size = int(array(given, "size")[array(given, "pieces")].sum())
    parts = []
    # All of it, and less space than that.
    for space in (size, size // 2):
        joined = np.zeros(min(space, MOST_TEXT), np.uint8)
        done = kernels.text.join.join(*views_of(given, "data", "start", "size", "pieces"), joined.data)
        parts += [joined, np.array([done])]
    return Ran(0, (size,), tuple(parts))


def _place(kernels: Any, given: Given) -> Ran:
    """`placed` is of any size: a piece that does not fit is the end."""
    placed = np.zeros(len(array(given, "placed")), np.uint8)
    done = kernels.text.join.place(*views_of(given, "data", "start", "size", "where"), placed.data)
    return Ran(0, (done,), (placed,))


def _find_ends(kernels: Any, given: Given) -> Ran:
    end = np.zeros(len(array(given, "start")), np.int64)
    done = kernels.text.join.find_ends(*views_of(given, "data", "start"), end.data)
    return Ran(0, (done,), (end,))


TEMPLATES = ("word_start", "word_size", "first_step", "step_kind", "step_argument", "step_width", "template")


def _limit_templates(given: Given) -> None:
    """A record has one of the templates; a step names a word or a value of the record, and a value a word."""
    put(given, "template", np.clip(array(given, "template"), 0, len(array(given, "first_step")) - 2))
    values, template = array(given, "values").copy(), array(given, "template")
    first, kind, argument = (array(given, name) for name in ("first_step", "step_kind", "step_argument"))
    for record, one in enumerate(template.tolist()):
        for step in range(int(first[one]), int(first[one + 1])):
            if kind[step] == Step.WORD_OF:
                at = int(argument[step])
                values[record, at] = min(int(values[record, at]), len(array(given, "word_start")) - 1)
    put(given, "values", values)


def _fill(kernels: Any, given: Given) -> Ran:
    arguments = (*views_of(given, "words", *TEMPLATES), array(given, "values").data)
    size = kernels.text.printf.fill(*arguments, np.zeros(0, np.uint8).data)
    out = np.zeros(min(size, MOST_TEXT), np.uint8)
    kernels.text.printf.fill(*arguments, out.data)
    return Ran(0, (size,), (out,))


# --- numbers ----------------------------------------------------------------------------------------------------------

KEYS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, (1 << 29) + 12345], np.uint64)


def _table(count: int) -> tuple[tuple[Any, ...], tuple[Array, Array]]:
    """As `hash_table`, with keys that are always the same."""
    number, first = np.zeros(count, np.int64), np.zeros(count, np.int64)
    arrays = (KEYS, hash_slots(count), np.zeros(count, np.uint64), number, first)
    return tuple(one.data for one in arrays), (number, first)


def _numbered(distinct: Any, found: tuple[Array, Array]) -> Ran:
    return Ran(0, (distinct.count,), found)


def _values(kernels: Any, given: Given) -> Ran:
    columns, found = _table(len(array(given, "values")))
    distinct = kernels.shared.numbering.DistinctValues(*columns)
    distinct.number_all(array(given, "values").data)
    return _numbered(distinct, found)


def _many_values() -> list[Given]:
    """More distinct values than the first slots of the hash table are for: it grows."""
    return [{"values": np.arange(2500, dtype=np.uint64) % np.uint64(2300)}]


def _bytes(kernels: Any, given: Given) -> Ran:
    columns, found = _table(len(array(given, "start")))
    distinct = kernels.shared.numbering.DistinctBytes(*columns)
    distinct.number_all(*views_of(given, "data", "start", "end", "kind"))
    return _numbered(distinct, found)


ROW_NAMES = tuple(f"rows.{name}" for name in ROWS)
RULE_NAMES = tuple(f"rules.{name}" for name in RULES)


def _rules(kernels: Any, given: Given) -> Ran:
    count, rows = len(array(given, "rules.kind")), len(array(given, "rows.offset"))
    columns, found = _table(rows)
    known, numbers = np.full(count + 1, -1, np.int32), np.zeros(count + 1, np.int64)
    distinct = kernels.shared.numbering.DistinctRules(*columns)
    arguments = (
        kernels.shared.rows.Rows(*views_of(given, *ROW_NAMES)),
        kernels.shared.rows.Rules(*views_of(given, *RULE_NAMES)),
    )
    distinct.number_all(*arguments, known.data, numbers.data)
    return _numbered(distinct, found)


def _contents(kernels: Any, given: Given) -> Ran:
    columns, found = _table(len(array(given, "others")))
    distinct = kernels.shared.numbering.DistinctContents(*columns)
    distinct.number_all(kernels.shared.rows.Rows(*views_of(given, *ROW_NAMES)), array(given, "others").data)
    return _numbered(distinct, found)


PIECE_RULES: tuple[Rule, ...] = (slices("start", "size", "data"), index("pieces", "start"))

TEXT_KERNELS = (
    Kernel(
        "kernel-join",
        "text.join.join",
        READERS,
        _join,
        kernel_files("text/join"),
        data=("data",),
        values=("start", "size", "pieces"),
        groups=(("start", "size"), ("pieces",)),
        rules=PIECE_RULES,
        chosen=lambda given: len(array(given, "start")) > 0,
    ),
    Kernel(
        "kernel-place",
        "text.join.place",
        ("symbol-files", *READERS),
        _place,
        kernel_files("text/join"),
        data=("data", "placed"),
        values=("start", "size", "where"),
        groups=(("start", "size", "where"),),
    ),
    Kernel(
        "kernel-ends",
        "text.join.find_ends",
        READERS,
        _find_ends,
        kernel_files("text/join"),
        data=("data",),
        values=("start",),
        groups=(("start",),),
        rules=(
            rule(
                ("start",), ("start",), lambda given: put(given, "start", np.sort(np.maximum(array(given, "start"), 0)))
            ),
        ),
    ),
    Kernel(
        "kernel-templates",
        "text.printf.fill",
        ("frame-dumps", "debug-line-5", "macros", "sframe-v2"),
        _fill,
        kernel_files("text/printf"),
        data=("words",),
        values=("word_start", "word_size", "template", "values"),
        fixed=("first_step", "step_kind", "step_argument", "step_width"),
        groups=(("template", "values"),),
        rules=(
            slices("word_start", "word_size", "words"),
            rule(("template", "values", "#word_start"), ("template", "values"), _limit_templates),
        ),
    ),
    Kernel(
        "kernel-distinct-values",
        "shared.numbering.DistinctValues.number_all",
        READERS,
        _values,
        kernel_files("shared/numbering"),
        values=("values",),
        groups=(("values",),),
        made=_many_values,
    ),
    Kernel(
        "kernel-distinct-bytes",
        "shared.numbering.DistinctBytes.number_all",
        READERS,
        _bytes,
        kernel_files("shared/numbering"),
        data=("data",),
        values=("start", "end", "kind"),
        groups=(("start", "end", "kind"),),
        rules=(bounds("start", "end", "data"),),
    ),
    Kernel(
        "kernel-distinct-rules",
        "shared.numbering.DistinctRules.number_all",
        READERS,
        _rules,
        kernel_files("shared/numbering"),
        values=(*ROW_NAMES, *RULE_NAMES),
        groups=(ROW_NAMES, RULE_NAMES),
        rules=(slices("rows.first_rule", "rows.rule_count", "rules.kind"),),
    ),
    Kernel(
        "kernel-distinct-contents",
        "shared.numbering.DistinctContents.number_all",
        READERS,
        _contents,
        kernel_files("shared/numbering"),
        values=(*ROW_NAMES, "others"),
        groups=((*ROW_NAMES, "others"),),
        rules=(between("rows.cfa_kind", 0, 2),),
    ),
)
