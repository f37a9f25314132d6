"""Kernels of symbol files alone: lines found and written, STACK CFI, function records, inlined functions, names."""

from __future__ import annotations

from typing import Any

import numpy as np
from unwindkit.converters.kernels.breakpad.protocol import TextRow

from .contract import between, bounds, index, one_of, put, rule, slices, starts
from .given import Given, Ran, array, number, views_of
from .kernel import Kernel, kernel_files
from .readers import TOP

TEXTS = ("stack-cfi", "symbol-files", "stack-win", "libraries")
WRITERS = ("conversions", "elf-written", "elf-debug-info", "libraries")
# Bytes of text that a test writes: callers allocate what was counted.
MOST_TEXT = 1 << 20


def _scan(kernels: Any, given: Given) -> Ran:
    data, shorter = array(given, "data"), array(given, "shorter")
    capacity = min(data.tobytes().count(b"\n") + 1, len(data) // len(shorter) + 1)
    line, begin, rest, end = (np.zeros(capacity, np.int64) for _ in range(4))
    kind, width = np.zeros(capacity, np.uint8), max(1, int(array(given, "numbers").max(initial=0)))
    columns = (line, begin, kind, np.zeros((capacity, width), np.uint64), rest, end)
    arguments = views_of(given, "data", "longer", "shorter", "numbers")
    count = kernels.breakpad.symbol_lines.scan(*arguments, *(one.data for one in columns))
    return Ran(0, (count, int((kind == 2).sum())), columns)


def _records(kernels: Any, given: Given) -> Ran:
    data = array(given, "data")
    capacity = data.tobytes().count(b"\n") + 1
    values = np.zeros((capacity, len(array(given, "bases"))), np.uint64)
    others, filled = np.zeros((capacity, 2), np.int64), np.zeros(2, np.int64)
    columns = (values, np.zeros(capacity, np.int64), others, filled)
    kernels.breakpad.symbol_lines.records(*views_of(given, "data", "head", "bases"), *(one.data for one in columns))
    return Ran(0, tuple(filled.tolist()), columns)


def _numbers(kernels: Any, given: Given) -> Ran:
    begin, end = array(given, "begin"), array(given, "end")
    values = np.zeros(int((end - begin).sum()) + len(begin), np.uint64)
    count = np.zeros(len(begin), np.int64)
    arguments = (*views_of(given, "data", "begin", "end"), number(given, "decimals"))
    size = kernels.breakpad.symbol_lines.numbers(*arguments, values.data, count.data)
    return Ran(0, (size, int((count > 0).sum())), (values[:size], count))


def _write_lines(kernels: Any, given: Given) -> Ran:
    write, arguments = kernels.breakpad.symbol_lines.write, views_of(given, "pool", "before", "bases", "values")
    size = write(*arguments, np.zeros(0, np.uint8).data)
    out = np.zeros(size, np.uint8)
    write(*arguments, out.data)
    return Ran(0, (size,), (out,))


# --- STACK CFI --------------------------------------------------------------------------------------------------------

STEPS = ("step_start", "step_length", "step_kind")
FUNCTIONS = ("address", "size", "job")
ROWS = ("row_offset", "row_step")


def _limit_rows(given: Given) -> None:
    """Rows of a function are inside it and ascend; its addresses do not leave 64 bits."""
    first, offset = array(given, "job_first"), np.minimum(array(given, "row_offset"), np.uint64(1 << 62))
    for begin, end in zip(first[:-1].tolist(), first[1:].tolist(), strict=True):
        offset[begin:end] = np.sort(offset[begin:end])
    put(given, "row_offset", offset)
    last, job = np.zeros(len(first), np.uint64), array(given, "job")
    for one, (begin, end) in enumerate(zip(first[:-1].tolist(), first[1:].tolist(), strict=True)):
        last[one] = offset[end - 1] if end > begin else 0
    address = np.minimum(array(given, "address"), np.uint64(TOP) - last[job])
    put(given, "address", address)
    put(given, "size", np.clip(array(given, "size"), last[job], np.uint64(TOP) - address))


def _stack_cfi(kernels: Any, given: Given) -> Ran:
    lines = kernels.breakpad.stack_cfi.lines
    arguments = views_of(given, "words", *STEPS, "heads", *FUNCTIONS, "job_first", *ROWS)
    size = lines(*arguments, np.zeros(0, np.uint8).data)
    out = np.zeros(min(size, MOST_TEXT), np.uint8)
    lines(*arguments, out.data)
    return Ran(0, (size,), (out,))


# --- function records -------------------------------------------------------------------------------------------------

FUNC = tuple(f"functions.{name}" for name in ("address", "size", "m", "name"))
INLINE = tuple(f"inlines.{name}" for name in ("level", "call_line", "call_file", "origin"))
RANGES = tuple(f"inlines.{name}" for name in ("start", "size"))
LINES = tuple(f"lines.{name}" for name in ("address", "size", "number", "file"))
FIRST = ("functions.first_inline", "functions.first_line", "inlines.first_range")


def _limit_functions(given: Given) -> None:
    """FUNC records ascend and are disjoint, and so are line records; `first_line` is as `_kernel_records` has it."""
    for names in (("functions.address", "functions.size"), ("lines.address", "lines.size")):
        address = np.sort(array(given, names[0]))
        put(given, names[0], address)
        room = np.diff(np.append(address, np.uint64(TOP)))
        put(given, names[1], np.minimum(array(given, names[1]).astype(np.uint64), room))
    address, lines = array(given, "functions.address"), array(given, "lines.address")
    put(given, "functions.first_line", np.maximum(np.searchsorted(lines, address, side="right") - 1, 0))


def _function_records(kernels: Any, given: Given) -> Ran:
    """As `lay_out_functions` and `FunctionText.fill`."""
    kernel = kernels.breakpad.function_lines
    functions = kernel.Functions(*views_of(given, *FUNC, "functions.first_inline", "functions.first_line"))
    ranges = ("inlines.first_range", *RANGES)
    inlines = kernel.Inlines(*views_of(given, *INLINE, *ranges))
    lines, numbers = kernel.Lines(*views_of(given, *LINES, "lines.path_of")), np.full(len(array(given, "number")), -1)
    count = kernel.number_files(functions, inlines, lines, numbers.data)
    out, first, last = np.zeros(0, np.uint8), 0, len(array(given, "functions.address"))
    size = 0
    for _ in ("count", "fill"):
        text = kernels.text.writer.TextWriter(*views_of(given, "text.words", "text.start"), out.data)
        lines = kernel.Lines(*views_of(given, *LINES, "lines.path_of"))
        arguments = (numbers.data, array(given, "bases").data, first, last, number(given, "origin"))
        kernel.write(functions, inlines, lines, *arguments, text)
        size = text.at
        out = np.zeros(min(size, MOST_TEXT), np.uint8) if not len(out) else out
    return Ran(0, (count, size), (numbers, out))


# --- inlined functions ------------------------------------------------------------------------------------------------

PARTS = ("start", "end", "function", "level", "item", "parent")


def _preorder(kernels: Any, given: Given) -> Ran:
    count = len(array(given, "parent"))
    size, following, rank = np.ones(count, np.int64), np.zeros(count + 1, np.int64), np.zeros(count, np.int64)
    kernels.breakpad.inline_order.preorder(array(given, "parent").data, size.data, following.data, rank.data)
    return Ran(0, (int(size.max(initial=0)),), (rank,))


def _mark_faults(kernels: Any, given: Given) -> Ran:
    """The order is as `_faults` makes it."""
    level, faulty = array(given, "level"), np.zeros(len(array(given, "faulty")), np.uint8)
    order = np.argsort(array(given, "start"), kind="stable")
    last_of = np.full(int(level.max(initial=0)) + 1, -1, np.int64)
    arguments = (order.data, *views_of(given, *PARTS), last_of.data, faulty.data)
    kernels.breakpad.inline_order.mark_faults(*arguments)
    return Ran(0, (int(faulty.sum()),), (faulty,))


def _limit_parents(given: Given) -> None:
    """A parent comes before what it contains; -1 for none."""
    parent = array(given, "parent")
    put(given, "parent", np.clip(parent, -1, np.arange(len(parent)) - 1))


# --- names ------------------------------------------------------------------------------------------------------------


def _itanium(kernels: Any, given: Given) -> Ran:
    start, data = array(given, "start"), array(given, "text.tree.data")
    longest = int(np.diff(start).max(initial=0))
    capacity, expansion = 4 * longest + 16, number(given, "expansion")
    left, right, extra, substitutions = (np.zeros(capacity, np.int32) for _ in range(4))
    arrays = (np.zeros(capacity, np.uint8), left, right, extra)
    trees, texts = kernels.breakpad.cplusplus_tree, kernels.breakpad.cplusplus_text
    nodes = trees.Nodes(*(one.data for one in arrays))
    words = views_of(given, "text.tree.pairs", "text.tree.builtins")
    tree = trees.Tree(data.data, *words, nodes, substitutions.data, number(given, "text.tree.is_whole"))
    out, where = np.zeros(max(64, expansion * longest), np.uint8), np.zeros(len(start), np.int64)
    text = texts.Text(tree, *views_of(given, "text.words", "text.word_start"), out.data)
    done = texts.demangle(text, start.data, where.data, 0, expansion)
    return Ran(0, (done, text.size), (out[: text.size], where))


def _rust(kernels: Any, given: Given) -> Ran:
    start, expansion = array(given, "start"), number(given, "expansion")
    longest = int(np.diff(start).max(initial=0))
    out, where = np.zeros(max(64, expansion * longest), np.uint8), np.zeros(len(start), np.int64)
    named = kernels.breakpad.rust_names.Names(array(given, "names.data").data, out.data)
    arguments = (*views_of(given, "start", "is_legacy"), where.data, 0, expansion)
    done = kernels.breakpad.rust_names.demangle(named, *arguments)
    return Ran(0, (done, named.size), (out[: named.size], where))


def _limit_rust(given: Given) -> None:
    """Each name has at least the two characters that tell its scheme, or three."""
    data, start = (
        array(given, "names.data"),
        np.sort(np.clip(array(given, "start"), 0, len(array(given, "names.data")))),
    )
    start[0], start[-1] = 0, len(data)
    kept = [0]
    for one in start[1:-1].tolist():
        if one - kept[-1] >= 3 and len(data) - one >= 3:
            kept.append(one)
    found = np.array([*kept, len(data)], np.int64)
    put(given, "start", found)
    put(given, "is_legacy", np.resize(array(given, "is_legacy"), len(found) - 1))


BREAKPAD_KERNELS = (
    Kernel(
        "kernel-symbol-lines",
        "breakpad.symbol_lines.scan",
        TEXTS,
        _scan,
        kernel_files("breakpad/symbol_lines"),
        data=("data",),
        values=("numbers",),
        fixed=("longer", "shorter"),
        rules=(between("numbers", 0, 12),),
    ),
    Kernel(
        "kernel-line-records",
        "breakpad.symbol_lines.records",
        TEXTS,
        _records,
        kernel_files("breakpad/symbol_lines"),
        data=("data",),
        fixed=("head", "bases"),
    ),
    Kernel(
        "kernel-line-numbers",
        "breakpad.symbol_lines.numbers",
        TEXTS,
        _numbers,
        kernel_files("breakpad/symbol_lines"),
        data=("data",),
        values=("begin", "end"),
        fixed=("decimals",),
        groups=(("begin", "end"),),
        rules=(bounds("begin", "end", "data"),),
    ),
    Kernel(
        "kernel-line-text",
        "breakpad.symbol_lines.write",
        WRITERS,
        _write_lines,
        kernel_files("breakpad/symbol_lines"),
        data=("pool",),
        values=("before", "values"),
        fixed=("bases",),
        groups=(("values",),),
        rules=(
            rule(
                ("before", "#before", "#values", "#pool"),
                ("before", "#before"),
                lambda given: put(
                    given,
                    "before",
                    np.sort(
                        np.clip(
                            np.resize(array(given, "before"), len(array(given, "values")) + 1),
                            0,
                            len(array(given, "pool")),
                        )
                    ),
                ),
            ),
        ),
    ),
    Kernel(
        "kernel-stack-cfi",
        "breakpad.stack_cfi.lines",
        WRITERS,
        _stack_cfi,
        kernel_files("breakpad/stack_cfi"),
        data=("words",),
        values=(*STEPS, *FUNCTIONS, "job_first", *ROWS),
        fixed=("heads",),
        groups=(STEPS, FUNCTIONS, ROWS),
        rules=(
            rule(
                ("#words",),
                ("words", "#words"),
                lambda given: put(
                    given,
                    "words",
                    np.append(
                        array(given, "words"),
                        np.full(
                            max(0, int(array(given, "heads").reshape(-1, 2).sum(1).max()) - len(array(given, "words"))),
                            32,
                        ),
                    ),
                ),
            ),
            slices("step_start", "step_length", "words"),
            between("step_kind", 0, max(TextRow)),
            index("row_step", "step_kind"),
            starts("job_first", "row_step"),
            rule(
                ("job", "#job_first"),
                ("job",),
                lambda given: put(
                    given, "job", np.clip(array(given, "job"), 0, max(0, len(array(given, "job_first")) - 2))
                ),
            ),
            rule((*ROWS, *FUNCTIONS, "job_first"), ("row_offset", "size", "address"), _limit_rows),
        ),
    ),
    Kernel(
        "kernel-function-records",
        "breakpad.function_lines.write",
        (*WRITERS, "symbol-files"),
        _function_records,
        kernel_files("breakpad/function_lines", "text/writer"),
        values=(*FUNC, *INLINE, *RANGES, *LINES, *FIRST, "lines.path_of", "origin"),
        fixed=("number", "bases", "text.words", "text.start"),
        groups=((*FUNC, "functions.first_line"), INLINE, RANGES, LINES),
        rules=(
            between("origin", 0, TOP),
            between("functions.m", 0, 1),
            rule(
                ("functions.name",),
                ("functions.name",),
                lambda given: put(
                    given,
                    "functions.name",
                    np.clip(array(given, "functions.name"), 3, len(array(given, "text.start")) - 2),
                ),
            ),
            starts("functions.first_inline", "inlines.level", per="functions.address"),
            starts("inlines.first_range", "inlines.start", per="inlines.level"),
            index("lines.path_of", "number"),
            index("lines.file", "lines.path_of"),
            index("inlines.call_file", "lines.path_of"),
            between("inlines.origin", 0, 1 << 40),
            rule((*FUNC, *LINES, "functions.first_line"), (*FUNC, *LINES, "functions.first_line"), _limit_functions),
        ),
    ),
    Kernel(
        "kernel-inline-preorder",
        "breakpad.inline_order.preorder",
        (*WRITERS, "symbol-files"),
        _preorder,
        kernel_files("breakpad/inline_order"),
        values=("parent",),
        groups=(("parent",),),
        rules=(rule(("parent",), ("parent",), _limit_parents),),
    ),
    Kernel(
        "kernel-inline-faults",
        "breakpad.inline_order.mark_faults",
        (*WRITERS, "symbol-files"),
        _mark_faults,
        kernel_files("breakpad/inline_order"),
        values=PARTS,
        fixed=("faulty",),
        groups=(PARTS,),
        rules=(between("level", 0, 4096), index("function", "faulty")),
        chosen=lambda given: len(array(given, "faulty")) > 0,
    ),
    Kernel(
        "kernel-itanium-names",
        "breakpad.cplusplus_text.demangle",
        ("cplusplus-names",),
        _itanium,
        kernel_files("breakpad/cplusplus_text", "breakpad/cplusplus_tree"),
        data=("text.tree.data",),
        values=("start", "text.tree.is_whole"),
        fixed=("text.tree.pairs", "text.tree.builtins", "text.words", "text.word_start", "expansion"),
        rules=(starts("start", "text.tree.data"), between("text.tree.is_whole", 0, 1)),
    ),
    Kernel(
        "kernel-rust-names",
        "breakpad.rust_names.demangle",
        ("rust-names",),
        _rust,
        kernel_files("breakpad/rust_names"),
        data=("names.data",),
        values=("start", "is_legacy"),
        fixed=("expansion",),
        rules=(
            one_of("is_legacy", 0, 1),
            rule(("start", "#start", "#names.data"), ("start", "is_legacy"), _limit_rust),
        ),
    ),
)
