"""Results as Markdown and as JSON.

Strategy: every table is a heading and rows of text; one function pads them, so that a terminal shows columns too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from unwindkit.converters.sframe.merge_fdes import DEFAULT_MAX_ROWS

from .cases import VARIANTS, Batch, Comparison, Results, SectionSize, Step
from .inputs import Found
from .machine import Machine
from .measure import Measured, Program

_MB = 1_000_000
# A cell without a figure: a peer is absent, or there is nothing to compare with.
_NONE = "-"


@dataclass(frozen=True, slots=True)
class Run:
    """Everything that is written. `load_after`: the average over a minute."""

    machine: Machine
    runs: int
    inputs: tuple[Found, ...]
    peers: tuple[Program, ...]
    results: Results
    load_after: float


def as_json(run: Run) -> str:
    """Everything, with derived figures next to the measured ones."""
    document = asdict(run)
    # Commands and folders mean nothing on other machines; names and versions are kept.
    document["inputs"] = [{"name": f.name, "file": f.path.name, "size": f.size, "sha256": f.sha256} for f in run.inputs]
    document["peers"] = [{"name": peer.name, "version": peer.version} for peer in run.peers]
    for part in (
        "comparisons",
        "pure",
        "writers",
        "printing",
        "stack_cfi",
        "stack_cfi_in_process",
        "symbol_files",
        "start_up",
        "threads",
        "rewriting",
    ):
        for comparison, record in zip(getattr(run.results, part), document["results"][part], strict=True):
            for measured, figures in zip(comparison.measured, record["measured"], strict=True):
                figures |= {"ratio": comparison.ratio(measured), "cpu_ratio": comparison.cpu_ratio(measured)}
    for inside, figures in zip(run.results.in_process, document["results"]["in_process"], strict=True):
        figures |= {"rows_per_second": inside.rows_per_second, "rows_read_per_second": inside.rows_read_per_second}
    return json.dumps(document, indent=2) + "\n"


def as_markdown(run: Run) -> str:
    """The tables, each with a heading; parts that were not measured are left out."""
    results = run.results
    parts = [_preamble(run)]
    if results.comparisons:
        parts.append("## From the file to the section, whole process\n\n" + _comparisons(results.comparisons))
    if results.sizes:
        parts.append("## Size of the section\n\n" + _sizes(results.sizes))
    if results.in_process:
        heading = ("input", "functions", "rows", "read_elf", "million rows a second", "to_sframe", "both: million rows")
        rows = [
            (i.name, f"{i.functions:,}", f"{i.rows:,}", _seconds(i.read_seconds), f"{i.rows_read_per_second / 1e6:.2f}",
             _seconds(i.encode_seconds), f"{i.rows_per_second / 1e6:.2f}")
            for i in results.in_process
        ]  # fmt: skip
        parts.append("## In process: read_elf and to_sframe\n\n" + _table(heading, rows))
    if results.pure:
        parts.append("## Without compiled kernels\n\n" + _comparisons(results.pure))
    if results.printing:
        parts.append("## Rows of every function as text\n\n" + _comparisons(results.printing))
    if results.lines:
        heading = ("input", "rows", "read_lines", "million rows a second", "pyelftools", "times as long")
        rows = [
            (i.name, f"{i.rows:,}", _seconds(i.seconds), f"{i.rows_per_second / 1e6:.2f}",
             _seconds(i.pyelftools_seconds), f"{i.ratio:.0f}")
            for i in results.lines
        ]  # fmt: skip
        parts.append("## Line programs run\n\n" + _table(heading, rows))
    if results.writers:
        parts.append("## From the file to the file with its section\n\n" + _comparisons(results.writers))
    if results.stack_cfi_in_process:
        parts.append("## STACK CFI, in process\n\n" + _comparisons(results.stack_cfi_in_process))
    if results.stack_cfi:
        parts.append("## From the file to its symbol file, whole process\n\n" + _comparisons(results.stack_cfi))
    if results.symbol_files:
        parts.append("## Functions, inlines and lines: symbol files, whole process\n\n" + _symbol_files(results))
    if results.start_up:
        parts.append("## Start\n\n" + _comparisons(results.start_up))
    if results.threads:
        parts.append("## One thread and two\n\n" + _comparisons(results.threads))
    if results.rewriting:
        parts.append("## .eh_frame encoded again\n\n" + _comparisons(results.rewriting))
    if results.batches:
        parts.append("## Many small files, written\n\n" + _batches(results.batches))
    if results.scaling:
        parts.append(f"## Growth: functions of {results.scaling_source}, repeated\n\n" + _growth(results.scaling))
    if results.skipped:
        parts.append("## Skipped\n\n" + "\n".join(f"- {skip.name}: {skip.reason}" for skip in results.skipped))
    return "\n\n".join(parts) + "\n"


def _preamble(run: Run) -> str:
    machine = run.machine
    medians = f"; medians of {run.runs}" if run.results.comparisons or run.results.scaling else ""
    lines = [
        "# Benchmarks",
        "",
        f"- {machine.date}, load {machine.load:.2f} before and {run.load_after:.2f} after{medians}",
        f"- {machine.processor}, {machine.processors} processors, {machine.memory / 1e9:.0f} GB; {machine.system}",
        f"- {machine.python}, numpy {machine.numpy}, unwindkit {machine.unwindkit} with {machine.engine} kernels "
        f"(SHA-256 {machine.unwindkit_sha256[:12]})",
        *(f"- {peer.name}: {peer.version}" for peer in run.peers),
        *(f"- {f.name}: {f.path.name}, {f.size:,} bytes, SHA-256 {f.sha256[:12]}" for f in run.inputs),
    ]
    return "\n".join(lines)


def _sizes(sizes: Sequence[SectionSize]) -> str:
    """Two tables: bytes, and parts of `.eh_frame`."""
    versions = sorted({size.gas.version for size in sizes if size.gas})
    lines = [
        f"- `merge`: at most {DEFAULT_MAX_ROWS} FREs an FDE, the default of `--max-rows`",
        *(f"- as, ld: {version}; V3 of the same functions, put to it as CFI directives" for version in versions),
    ]
    columns = (*(f"V{version} {compact}" for version, compact in VARIANTS.values()), "V3 as, ld")
    in_bytes, in_parts = [], []
    for size in sizes:
        found = [int(getattr(size, name)) for name in VARIANTS]
        refused = by_gas = _NONE
        if size.gas:
            found.append(size.gas.sframe)
            refused, by_gas = f"{size.gas.refused:,}", f"{size.v3_merge / size.gas.sframe:.3f}"
        missing = [_NONE] * (len(columns) - len(found))
        numbers = [f"{number:,}" for number in (size.functions, size.eh_frame, *found)]
        in_bytes.append((size.name, *numbers, *missing, refused))
        in_parts.append((size.name, *(f"{value / size.eh_frame:.3f}" for value in found), *missing, by_gas))
    bytes_table = _table(("input", "functions", ".eh_frame", *columns, "as refused"), in_bytes)
    parts_table = _table(("of .eh_frame", *columns, "V3 merge / as, ld"), in_parts)
    return "\n\n".join(["\n".join(lines), bytes_table, parts_table])


def _comparisons(comparisons: Sequence[Comparison]) -> str:
    heading = (
        "input",
        "program",
        "time",
        "fastest - slowest",
        "user + system",
        "peak memory",
        "first's time / its",
        "CPU",
    )
    rows = [
        (c.name, *_measured(m), f"{c.ratio(m):.2f}", f"{c.cpu_ratio(m):.2f}") for c in comparisons for m in c.measured
    ]
    return _table(heading, rows)


def _symbol_files(results: Results) -> str:
    heading = ("input", "program", "time", "user + system", "a MB of .debug_info", "peak memory", "a byte", "CPU")
    rows = [
        (c.name, m.program, _seconds(m.wall), _seconds(m.user + m.system), f"{c.milliseconds_per_megabyte(m):.0f} ms",
         _megabytes(m.peak), f"{c.bytes_per_byte(m):.2f}", f"{c.cpu_ratio(m):.2f}")
        for c in results.symbol_files for m in c.measured
    ]  # fmt: skip
    return _table(heading, rows)


def _batches(batches: Sequence[Batch]) -> str:
    heading = ("files", "program", "time", "user + system", "peak memory of a process", "files a second")
    rows = [
        (f"{one.files:,}", m.program, _seconds(m.wall), _seconds(m.user + m.system), _megabytes(m.peak),
         f"{one.rate(m):.0f}")
        for one in batches for m in one.measured
    ]  # fmt: skip
    return _table(heading, rows)


def _measured(found: Measured) -> tuple[str, str, str, str, str]:
    spread = f"{found.fastest:.3f} - {found.slowest:.3f} s"
    peak = _megabytes(found.peak) if found.peak > found.floor else f"under {_megabytes(found.floor)}"
    return found.program, _seconds(found.wall), spread, _seconds(found.user + found.system), peak


def _growth(steps: Sequence[Step]) -> str:
    heading = ("functions", ".eh_frame", "whole process", "times", "in process", "times", "peak memory")
    return _table((*heading, "a function"), _growth_rows(steps))


def _growth_rows(steps: Sequence[Step]) -> Iterator[tuple[str, ...]]:
    before: Step | None = None
    for step in steps:
        process, inside = step.process.wall, step.in_process.seconds
        grown = (_NONE, _NONE, _NONE)
        if before:
            added = step.functions - before.functions
            memory = f"{(_beyond_files(step) - _beyond_files(before)) / added:.0f} B" if added else _NONE
            grown = (f"{process / before.process.wall:.1f}", f"{inside / before.in_process.seconds:.1f}", memory)
        times = _seconds(process), grown[0], _seconds(inside), grown[1]
        yield f"{step.functions:,}", f"{step.eh_frame:,}", *times, _megabytes(step.process.peak), grown[2]
        before = step


def _beyond_files(step: Step) -> int:
    """Bytes of peak memory that are neither the mapped input nor the output."""
    return step.process.peak - step.eh_frame - step.sframe


def _table(heading: Sequence[str], rows: Iterator[tuple[str, ...]] | Sequence[tuple[str, ...]]) -> str:
    """A Markdown table, padded; all columns but the names are aligned right."""
    lines = [tuple(heading), *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heading))]
    right = [column > 0 and heading[column] != "program" for column in range(len(heading))]

    def row(cells: Sequence[str]) -> str:
        padded = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(cells, widths, right, strict=True))
        return f"| {' | '.join(padded)} |"

    rule = ("-" * (w - 1) + (":" if r else "-") for w, r in zip(widths, right, strict=True))
    return "\n".join([row(lines[0]), f"| {' | '.join(rule)} |", *map(row, lines[1:])])


def _seconds(value: float) -> str:
    return f"{value:.3f} s"


def _megabytes(value: int) -> str:
    return f"{value / _MB:.0f} MB"
