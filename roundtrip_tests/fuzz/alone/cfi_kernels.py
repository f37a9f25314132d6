"""Kernels of call frame information alone: entries, instructions, rows, and their text."""

from __future__ import annotations

from typing import Any

import numpy as np
from unwindkit.converters import rules as table_rules
from unwindkit.converters.cfi.records import MAX_FACTOR
from unwindkit.converters.kernels.cfi.protocol import STATE_SIZE, Filled, RunStatus
from unwindkit.schemas import cfi

from .contract import Rule, between, bounds, index, one_of, put, rule, slices, within
from .given import Array, Given, Ran, array, number, views_of
from .kernel import Kernel, kernel_files
from .readers import reader_of, reader_rules, reader_values

READERS = ("eh-frame", "debug-frame", "frame-dumps", "libraries")
CIES = (
    "code_factor",
    "data_factor",
    "address_encoding",
    "lsda_encoding",
    "is_augmented",
    "address_size",
    "segment_size",
)
STREAMS = ("start", "end", "location", "cie")
# The columns of rows and rules grow at most so often.
GROWTHS = 8


def _cie_names(prefix: str) -> tuple[str, ...]:
    return tuple(f"{prefix}.{name}" for name in CIES)


def _cie_rules(prefix: str) -> tuple[Rule, ...]:
    """Sizes of addresses are those of records that were parsed, and factors are limited; a segment selector is at most
    8 bytes."""
    return (
        one_of(f"{prefix}.address_size", 1, 2, 4, 8),
        between(f"{prefix}.segment_size", 0, 8),
        between(f"{prefix}.code_factor", -MAX_FACTOR, MAX_FACTOR),
        between(f"{prefix}.data_factor", -MAX_FACTOR, MAX_FACTOR),
    )


def _cies(kernels: Any, given: Given, prefix: str) -> Any:
    return kernels.cfi.records.Cies(*views_of(given, *_cie_names(prefix)))


def _streams(kernels: Any, given: Given, prefix: str = "streams") -> Any:
    return kernels.cfi.records.Streams(*views_of(given, *(f"{prefix}.{name}" for name in STREAMS)))


def _stream_rules(data: str, cie: str, prefix: str = "streams") -> tuple[Rule, ...]:
    """Streams are parts of the section, each of a CIE."""
    return bounds(f"{prefix}.start", f"{prefix}.end", data), index(f"{prefix}.cie", f"{cie}.code_factor")


def _scan(kernels: Any, given: Given) -> Ran:
    reader, space = reader_of(kernels, given), len(array(given, "reader.data")) // 4 + 1
    how = (number(given, f"dialect.{name}") for name in ("id_size", "relative", "cie_id32", "cie_id64"))
    columns = [np.zeros(space, np.int64) for _ in range(4)]
    entries = kernels.cfi.entries.Entries(*(one.data for one in columns))
    count = kernels.cfi.entries.scan(reader, kernels.cfi.entries.Dialect(*how), entries)
    return Ran(reader.fault, (count, reader.offset), tuple(columns))


def _read_functions(kernels: Any, given: Given) -> Ran:
    reader, count = reader_of(kernels, given), len(array(given, "body"))
    start, size, segment, lsda = (np.zeros(count, np.uint64) for _ in range(4))
    has_lsda, data, instructions = np.zeros(count, np.uint8), np.zeros(count, np.int64), np.zeros(count, np.int64)
    columns = (start, size, segment, lsda, has_lsda, data, instructions)
    to_fill = kernels.cfi.entries.Functions(*(one.data for one in columns))
    places = views_of(given, "body", "end", "cie")
    done = kernels.cfi.entries.read_functions(reader, _cies(kernels, given, "cies"), *places, to_fill)
    return Ran(reader.fault, (done, reader.offset), columns)


def _values(kernels: Any, given: Given) -> Ran:
    reader, value = reader_of(kernels, given), np.zeros(len(array(given, "value")), np.uint64)
    arguments = (number(given, name) for name in ("offset", "form", "address_size"))
    end = kernels.cfi.entries.values(reader, *arguments, value.data)
    return Ran(reader.fault, (end,), (value,))


def _decode(kernels: Any, given: Given) -> Ran:
    reader, count = reader_of(kernels, given), len(array(given, "streams.start"))
    space = int((array(given, "streams.end") - array(given, "streams.start")).sum())
    last, opcode, pc = np.zeros(count, np.int64), np.zeros(space, np.uint8), np.zeros(space, np.uint64)
    others = [np.zeros(space, np.int64) for _ in range(4)]
    columns: tuple[Array, ...] = (opcode, *others, pc)
    table = array(given, "instructions.table").data
    found = kernels.cfi.decoder.Instructions(table, *(one.data for one in columns))
    cies, streams = _cies(kernels, given, "cies"), _streams(kernels, given)
    done = kernels.cfi.decoder.decode(reader, cies, streams, last.data, found)
    return Ran(reader.fault, (done, reader.offset), (last, *columns))


class _Columns:
    """Rows, rules and expressions to be filled, which grow as in `RowBuilder`, but begin small."""

    def __init__(self) -> None:
        self.capacity = {Filled.ROWS: 8, Filled.RULES: 16, Filled.EXPRESSIONS: 2, Filled.REMEMBERED: 1}
        self.arrays: dict[Filled, list[Array]] = {}
        self.filled = np.zeros(len(Filled), np.int64)
        for which in self.capacity:
            self.arrays[which] = self._of(which)

    def _of(self, which: Filled) -> list[Array]:
        size = self.capacity[which]
        match which:
            case Filled.ROWS:
                kinds = (np.uint64, np.uint8, np.uint16, np.int64, np.uint8, np.int64, np.uint16)
                return [*(np.zeros(size, kind) for kind in kinds), np.zeros((size, len(cfi.ROW_VALUES)), np.int64)]
            case Filled.RULES:
                return [np.zeros(size, kind) for kind in (np.uint16, np.uint8, np.int64)]
            case Filled.EXPRESSIONS:
                return [np.zeros(size, np.int64) for _ in range(2)]
            case _:
                return [np.zeros((size, STATE_SIZE), np.int64)]

    def grow(self) -> None:
        """Double the columns that are full."""
        which = Filled(self.filled[Filled.FULL])
        self.capacity[which] *= 2
        larger = self._of(which)
        for new, old in zip(larger, self.arrays[which], strict=True):
            new[: len(old)] = old
        self.arrays[which] = larger

    def give(self, kernels: Any, kernel: Any) -> None:
        """Give the kernel the columns."""
        views = {which: [one.data for one in arrays] for which, arrays in self.arrays.items()}
        rows, rules = kernels.shared.rows.NewRows(*views[Filled.ROWS][:-1]), kernels.shared.rows.NewRules
        expressions = kernels.cfi.row_state.NewExpressions(*views[Filled.EXPRESSIONS])
        others = views[Filled.ROWS][-1], *views[Filled.REMEMBERED]
        kernel.set_columns(rows, rules(*views[Filled.RULES]), expressions, *others)


def _interpret(kernels: Any, given: Given) -> Ran:
    """As `RowBuilder`: the streams are first run as the initial instructions of CIEs, then as those of FDEs."""
    reader, columns = reader_of(kernels, given, "self.reader"), _Columns()
    live, values = np.zeros((table_rules.MAX_LIVE_RULES + 1, 3), np.int64), np.zeros(len(cfi.ROW_VALUES), np.int64)
    tables = views_of(given, "self.table", "self.value_of")
    cies, keeps_empty = _cies(kernels, given, "self.cies"), number(given, "self.keeps_empty")
    kernel = kernels.cfi.interpreter.Interpreter(
        reader, cies, keeps_empty, *tables, *(one.data for one in (live, values, columns.filled))
    )
    count, runs = len(array(given, "self.cies.code_factor")), len(array(given, "streams.start"))
    initial, final = np.zeros((count, STATE_SIZE), np.int64), np.zeros((count, STATE_SIZE), np.int64)
    which = np.arange(count) % max(1, runs)
    start, end = array(given, "streams.start")[which], array(given, "streams.end")[which]
    own = (start, end, np.zeros(count, np.uint64), np.arange(count))
    of_cies = kernels.cfi.records.Streams(*(one.data for one in own))
    last, is_absolute = np.zeros(max(count, runs), np.int64), np.zeros(max(count, runs), np.uint8)
    done = 0
    for streams, states in ((of_cies, (initial, final)), (_streams(kernels, given), (final, initial[:0]))):
        done, growths = 0, 0
        total = count if streams is of_cies else runs
        while done < total and not reader.fault and growths < GROWTHS:
            columns.give(kernels, kernel)
            arrays = (*states, last, is_absolute)
            done = kernel.interpret(done, streams, *(one.data for one in arrays))
            if done < total and not reader.fault:
                columns.grow()
                growths += 1
        if reader.fault or done < total:
            break
        if streams is of_cies:
            columns.filled[Filled.ROWS] = 0
    filled = (one for group in columns.arrays.values() for one in group)
    return Ran(reader.fault, (done, reader.offset, *columns.filled.tolist()), (last, is_absolute, final, *filled))


# --- rows to instructions ---------------------------------------------------------------------------------------------

ROWS = ("offset", "cfa_kind", "cfa_register", "cfa_offset", "ra_state", "first_rule", "rule_count")
RULES = ("register", "kind", "value")
ROW_NAMES = tuple(f"self.rows.{name}" for name in ROWS)
RULE_NAMES = tuple(f"self.rules.{name}" for name in RULES)
TABLES = ("self.table", "self.choices", "self.rule_effects", "self.value_effects")
EXPRESSIONS = ("self.expressions.data", "self.expressions.start", "self.expressions.size")
WRITTEN = ("first", "last", "initial", "code_factor", "data_factor")


def _limit_rows(given: Given) -> None:
    """Offsets and values are those of tables: below MAX_OFFSET. A rule or a CFA by an expression has its index."""
    most, expressions = table_rules.MAX_OFFSET, len(array(given, "self.expressions.start"))
    put(given, "self.rows.offset", np.minimum(array(given, "self.rows.offset"), np.uint64(most)))
    for kinds, values, by in (
        ("self.rows.cfa_kind", "self.rows.cfa_offset", (table_rules.CfaKind.EXPRESSION,)),
        (
            "self.rules.kind",
            "self.rules.value",
            (table_rules.RuleKind.EXPRESSION, table_rules.RuleKind.VAL_EXPRESSION),
        ),
    ):
        is_expression = np.isin(array(given, kinds), by)
        if is_expression.any() and not expressions:
            put(given, kinds, np.where(is_expression, 1, array(given, kinds)))
            is_expression = np.isin(array(given, kinds), by)
        found = np.clip(array(given, values), -most, most)
        put(given, values, np.where(is_expression, np.clip(found, 0, max(0, expressions - 1)), found))


def _limit_streams(given: Given) -> None:
    """A stream is a run of rows on a row, or on none (-1); each has a factor other than 0."""
    rows = len(array(given, "self.rows.offset"))
    first = np.clip(array(given, "first"), 0, rows)
    put(given, "first", first)
    put(given, "last", np.clip(array(given, "last"), first, rows))
    put(given, "initial", np.clip(array(given, "initial"), -1, rows - 1))
    for name in ("code_factor", "data_factor"):
        found = np.clip(array(given, name), -(1 << 31), 1 << 31)
        put(given, name, np.where(found == 0, 1, found))


def _limit_previous(given: Given) -> None:
    """The row before that has the same content is an earlier one of the run, or there is none (-1)."""
    previous, rows = array(given, "self.brackets.previous"), np.arange(len(array(given, "self.rows.offset")))
    start = np.zeros(len(rows), np.int64)
    for first, last in zip(array(given, "first").tolist(), array(given, "last").tolist(), strict=True):
        start[first:last] = np.maximum(start[first:last], first)
    put(given, "self.brackets.previous", np.where((previous >= start) & (previous < rows), previous, -1))


def _write_rows(kernels: Any, given: Given) -> Ran:
    count, streams = len(array(given, "self.rows.offset")), len(array(given, "first"))
    work = [np.zeros(count, np.int64) for _ in range(5)]
    brackets = kernels.cfi.row_writer.Brackets(array(given, "self.brackets.previous").data, *(one.data for one in work))
    nothing = np.zeros(0, np.uint8)
    kernel = kernels.cfi.row_writer.RowWriter(
        number(given, "self.big"),
        number(given, "self.address_size"),
        kernels.shared.rows.Rows(*views_of(given, *ROW_NAMES)),
        kernels.shared.rows.Rules(*views_of(given, *RULE_NAMES)),
        kernels.cfi.instruction_writer.Expressions(*views_of(given, *EXPRESSIONS)),
        brackets,
        *views_of(given, *TABLES, "self.values"),
        nothing.data,
    )
    end, arguments = np.zeros(streams, np.int64), views_of(given, *WRITTEN)
    size = kernel.write(*arguments, nothing.data, end.data)
    out = np.zeros(min(size, 1 << 16), np.uint8)
    again = kernel.write(*arguments, out.data, end.data)
    return Ran(int((end < 0).any()), (size, again), (end, out, *work[:2]))


# --- text -------------------------------------------------------------------------------------------------------------

HEADINGS = (
    "word",
    "offset",
    "length",
    "entry_id",
    "cie_offset",
    "start",
    "end",
    "digits",
    "id_digits",
    "data",
    "data_size",
)
HEADING_NAMES = tuple(f"headings.{name}" for name in HEADINGS)
TEXTS = ("text", "end", "gap", "gap_pc", "last_gap")
TEXT_NAMES = tuple(f"texts.{name}" for name in TEXTS)


def _write_runs(kernels: Any, given: Given) -> Ran:
    """As `_run_texts` of the dump; each expression has the same text."""
    kernel, count = kernels.cfi.frame_text, len(array(given, "self.streams.start"))
    size = int((array(given, "self.streams.end") - array(given, "self.streams.start")).sum())
    gap, gap_pc, is_absolute = np.zeros(size, np.int64), np.zeros(size, np.uint64), np.zeros(count, np.uint8)
    end, last_gap, text = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(16, np.uint8)
    reader, output = reader_of(kernels, given, "self.reader"), kernel.Output(text.data)
    one = [np.zeros(1, kind) for kind in (np.uint8, np.int64, np.int64, np.int64, np.int64, np.uint64)]
    table = array(given, "self.table")
    writer = kernel.RunWriter(
        reader,
        _cies(kernels, given, "self.cies"),
        _streams(kernels, given, "self.streams"),
        kernels.cfi.decoder.Instructions(table.data, *(each.data for each in one)),
        kernel.Words(*views_of(given, "self.words.text", "self.words.start")),
        output,
        *views_of(given, "self.table", "self.forms", "self.register_word"),
        *(each.data for each in (end, gap, gap_pc, last_gap, is_absolute)),
    )
    word, starts = np.frombuffer(b"DW_OP_nop", np.uint8).copy(), np.array([0, 9], np.int64)
    while (status := writer.write()) not in (RunStatus.DONE, RunStatus.FAULT):
        if status == RunStatus.BLOCK:
            writer.give_block(kernel.Words(word.data, starts.data))
        else:
            larger = np.zeros(2 * len(text) + 64, np.uint8)
            larger[: output.at] = text[: output.at]
            text = larger
            output.write_to(text.data)
    # What is written over gaps is left as it was.
    return Ran(reader.fault, (output.at, writer.stream), (end, last_gap, is_absolute))


def _limit_headings(given: Given) -> None:
    """The numbers of an FDE (its word is -1) have digits."""
    is_fde = array(given, "headings.word") < 0
    for name in ("headings.digits", "headings.id_digits"):
        found = np.clip(array(given, name), 0, 16)
        put(given, name, np.where(is_fde, np.maximum(found, 2), found))


def _limit_texts(given: Given) -> None:
    """Texts of runs follow one another; in each are gaps of the digits that the entries with that run have."""
    size, runs = len(array(given, "texts.text")), len(array(given, "texts.end")) - 1
    ends = np.sort(np.clip(array(given, "texts.end"), 0, size))
    put(given, "texts.end", ends)
    put(given, "texts.last_gap", np.sort(np.clip(array(given, "texts.last_gap"), 0, len(array(given, "texts.gap_pc")))))
    run, digits = np.clip(array(given, "run"), -1, runs - 1), np.clip(array(given, "headings.digits"), 0, 16)
    gap, last = array(given, "texts.gap").copy(), array(given, "texts.last_gap")
    for entry, one in enumerate(run.tolist()):
        if one >= 0:
            digits[entry] = max(2, digits[entry])
            has_gaps = last[one + 1] > last[one]
            run[entry] = -1 if has_gaps and ends[one + 1] - ends[one] < digits[entry] else one
    put(given, "run", run)
    for one in range(runs):
        most = int(digits[run == one].max(initial=0))
        part = slice(int(last[one]), int(last[one + 1]))
        gap[part] = np.clip(gap[part], ends[one], max(int(ends[one]), int(ends[one + 1]) - most))
    put(given, "headings.digits", digits)
    put(given, "texts.gap", gap)


def _trim_texts(given: Given) -> Given:
    """Without the space that is left after texts and gaps."""
    size, gaps = int(array(given, "texts.end")[-1]), int(array(given, "texts.last_gap")[-1])
    cut = {name: array(given, name)[:gaps] for name in ("texts.gap", "texts.gap_pc")}
    return {**given, **cut, "texts.text": array(given, "texts.text")[:size]}


def _write_entries(kernels: Any, given: Given) -> Ran:
    kernel = kernels.cfi.frame_text
    words = kernel.Words(*views_of(given, "headings.words.text", "headings.words.start"))
    headings = kernel.Headings(words, *views_of(given, "headings.section", *HEADING_NAMES))
    texts = kernel.RunTexts(*views_of(given, *TEXT_NAMES))
    out, run, done, parts = np.zeros(64, np.uint8), array(given, "run"), 0, []
    output = kernel.Output(out.data)
    while done < len(run):
        done = kernel.write_entries(headings, texts, run.data, done, output)
        if output.at:
            parts.append(out[: output.at].copy())
            output.at = 0
        else:
            out = np.zeros(2 * len(out), np.uint8)
            output.write_to(out.data)
    text = np.concatenate([np.zeros(0, np.uint8), *parts])
    return Ran(0, (len(text),), (text,))


CODE = kernel_files("cfi/records", "cfi/operands", "shared/reads")

CFI_KERNELS = (
    Kernel(
        "kernel-cfi-scan",
        "cfi.entries.scan",
        READERS,
        _scan,
        kernel_files("cfi/entries", "shared/reads"),
        data=("reader.data",),
        values=reader_values(),
        fixed=("reader.sizes", *(f"dialect.{name}" for name in ("id_size", "relative", "cie_id32", "cie_id64"))),
        rules=reader_rules(),
    ),
    Kernel(
        "kernel-cfi-functions",
        "cfi.entries.read_functions",
        READERS,
        _read_functions,
        kernel_files("cfi/entries", "shared/reads"),
        data=("reader.data",),
        values=(*reader_values(), *_cie_names("cies"), "body", "end", "cie"),
        fixed=("reader.sizes",),
        groups=(("body", "end", "cie"), _cie_names("cies")),
        rules=(
            *reader_rules(),
            *_cie_rules("cies"),
            bounds("body", "end", "reader.data"),
            index("cie", "cies.code_factor"),
        ),
    ),
    Kernel(
        "kernel-cfi-decode",
        "cfi.decoder.decode",
        ("frame-dumps",),
        _decode,
        (*CODE, *kernel_files("cfi/decoder")),
        data=("reader.data",),
        values=(*reader_values(), *_cie_names("cies"), *(f"streams.{name}" for name in STREAMS)),
        fixed=("reader.sizes", "instructions.table"),
        groups=(tuple(f"streams.{name}" for name in STREAMS), _cie_names("cies")),
        rules=(*reader_rules(), *_cie_rules("cies"), *_stream_rules("reader.data", "cies")),
    ),
    Kernel(
        "kernel-cfi-rows",
        "cfi.interpreter.Interpreter.interpret",
        READERS,
        _interpret,
        (*CODE, *kernel_files("cfi/interpreter", "cfi/row_state")),
        data=("self.reader.data",),
        values=(
            *reader_values("self.reader"),
            *_cie_names("self.cies"),
            *(f"streams.{name}" for name in STREAMS),
            "self.keeps_empty",
        ),
        fixed=("self.reader.sizes", "self.table", "self.value_of"),
        groups=(tuple(f"streams.{name}" for name in STREAMS), _cie_names("self.cies")),
        rules=(
            *reader_rules("self.reader"),
            *_cie_rules("self.cies"),
            *_stream_rules("self.reader.data", "self.cies"),
            between("self.keeps_empty", 0, 1),
        ),
        chosen=lambda given: len(array(given, "streams.start")) > 0,
    ),
    Kernel(
        "kernel-cfi-row-writer",
        "cfi.row_writer.RowWriter.write",
        ("conversions", "elf-written", "libraries"),
        _write_rows,
        kernel_files("cfi/row_writer", "cfi/instruction_writer", "shared/writes"),
        data=("self.expressions.data",),
        values=(
            *ROW_NAMES,
            *RULE_NAMES,
            *EXPRESSIONS[1:],
            "self.brackets.previous",
            "self.values",
            *WRITTEN,
            "self.big",
        ),
        fixed=(*TABLES, "self.address_size"),
        groups=((*ROW_NAMES, "self.brackets.previous", "self.values"), WRITTEN),
        rules=(
            between("self.big", 0, 1),
            between("self.rows.cfa_kind", 0, max(table_rules.CfaKind)),
            between("self.rows.ra_state", 0, max(table_rules.RaState)),
            between("self.rules.kind", 0, 8),
            slices("self.rows.first_rule", "self.rows.rule_count", "self.rules.kind"),
            slices("self.expressions.start", "self.expressions.size", "self.expressions.data"),
            rule(
                (*ROW_NAMES, *RULE_NAMES, "#self.expressions.start"),
                (
                    "self.rows.offset",
                    "self.rows.cfa_kind",
                    "self.rows.cfa_offset",
                    "self.rules.kind",
                    "self.rules.value",
                ),
                _limit_rows,
            ),
            rule((*WRITTEN, "#self.rows.offset"), WRITTEN, _limit_streams),
            rule(
                (*WRITTEN, "#self.rows.offset", "self.brackets.previous"), ["self.brackets.previous"], _limit_previous
            ),
        ),
    ),
    Kernel(
        "kernel-cfi-run-text",
        "cfi.frame_text.RunWriter.write",
        ("frame-dumps",),
        _write_runs,
        (*CODE, *kernel_files("cfi/frame_text", "cfi/decoder")),
        data=("self.reader.data",),
        values=(*reader_values("self.reader"), *_cie_names("self.cies"), *(f"self.streams.{name}" for name in STREAMS)),
        fixed=(
            "self.reader.sizes",
            "self.table",
            "self.forms",
            "self.register_word",
            "self.words.text",
            "self.words.start",
        ),
        groups=(tuple(f"self.streams.{name}" for name in STREAMS), _cie_names("self.cies")),
        rules=(
            *reader_rules("self.reader"),
            *_cie_rules("self.cies"),
            *_stream_rules("self.reader.data", "self.cies", "self.streams"),
        ),
    ),
    Kernel(
        "kernel-cfi-entry-text",
        "cfi.frame_text.write_entries",
        ("frame-dumps",),
        _write_entries,
        kernel_files("cfi/frame_text"),
        data=("headings.section", "texts.text"),
        values=(*HEADING_NAMES, *TEXT_NAMES[1:], "run"),
        fixed=("headings.words.text", "headings.words.start"),
        groups=((*HEADING_NAMES, "run"),),
        rules=(
            rule(
                ("headings.word", "#headings.words.start"),
                ("headings.word",),
                lambda given: put(
                    given,
                    "headings.word",
                    np.clip(array(given, "headings.word"), -1, len(array(given, "headings.words.start")) - 2),
                ),
            ),
            rule(
                ("headings.word", "headings.digits", "headings.id_digits"),
                ("headings.digits", "headings.id_digits"),
                _limit_headings,
            ),
            slices("headings.data", "headings.data_size", "headings.section"),
            rule(
                (*TEXT_NAMES, "#texts.text", "run", "headings.digits"),
                ("texts.end", "texts.last_gap", "texts.gap", "run", "headings.digits"),
                _limit_texts,
            ),
        ),
        trim=_trim_texts,
    ),
    Kernel(
        "kernel-cfi-values",
        "cfi.entries.values",
        ("eh-frame-hdr", "libraries"),
        _values,
        kernel_files("cfi/entries", "shared/reads"),
        data=("reader.data",),
        values=(*reader_values(), "offset", "form", "address_size"),
        fixed=("reader.sizes",),
        groups=(("value",),),
        rules=(
            *reader_rules(),
            within("offset", "reader.data"),
            one_of("form", 0, 1, 2, 3, 4, 8, 9, 10, 11, 12),
            one_of("address_size", 4, 8),
        ),
    ),
)
