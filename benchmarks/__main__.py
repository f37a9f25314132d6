"""The command: finds inputs and peers, measures, prints the tables and writes them as Markdown and JSON."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from . import commands, stack_cfi, symbol_files
from .cases import SCALES, Results, compare, printing, pure_fallback, scaling, section_size, writing
from .crates import REWRITE, crate_program
from .debug_inputs import large_inputs
from .in_process import convert_in_process
from .inputs import INPUTS, LINES_INPUT, SIZE_INPUTS, Found, find
from .line_rows import run_lines
from .machine import describe_machine, package_digest
from .measure import ROOT, Program, RunError, Skipped
from .peers import READELF, all_peers, on_input
from .plots import picture
from .report import Run, as_json, as_markdown

PURE, SCALING, SIZES, WRITERS, PRINTING = "pure", "scaling", "sizes", "writers", "printing"
STACK_CFI, LINES, SYMBOL_FILES = "stack-cfi", "lines", "symbol-files"
START, THREADS, REWRITING, BATCH = "start", "threads", "rewriting", "batch"
COMMANDS = (START, THREADS, REWRITING, BATCH)
BATCH_FOLDER = Path("/usr/bin")
PARTS_INPUT = "libLLVM"  # of PURE, WRITERS and PRINTING
SCALING_INPUTS = ("libLLVM", "libstdc++", "libc")  # the first that exists
STACK_CFI_INPUTS = ("libLLVM", "libxul")
QUICK_INPUT = "libc"
NAMES = (
    *(wanted.name for wanted in INPUTS),
    PURE,
    SCALING,
    SIZES,
    WRITERS,
    PRINTING,
    STACK_CFI,
    LINES,
    SYMBOL_FILES,
    *COMMANDS,
)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_INPUT} against readelf alone (-n 3)")
    parser.add_argument("--only", action="append", choices=NAMES, metavar="NAME", help=f"one of {', '.join(NAMES)}")
    parser.add_argument("-n", type=int, dest="runs", metavar="RUNS", help="runs that count, of each (default 5)")
    parser.add_argument("--fetch", action="store_true", help="let apt-get download inputs that are not here")
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks" / "results", metavar="DIR")
    options = parser.parse_args()
    if options.quick and options.only:
        parser.error("--quick is one case already")
    if options.runs is not None and options.runs < 1:
        parser.error("-n counts from 1")
    options.runs = options.runs or (3 if options.quick else 5)
    options.only = [QUICK_INPUT] if options.quick else options.only or list(NAMES)
    return options


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _measure_input(found: Found, peers: list[Program], runs: int, results: Results) -> Results:
    """The results with one more input. A program that refuses it is skipped; the others still run."""
    _say(f"{found.name}: against {', '.join(peer.name for peer in peers) or 'no peer'}")
    comparison, skipped = compare(found, peers, runs)
    results = replace(results, skipped=(*results.skipped, *skipped))
    if comparison is None:
        return results
    return replace(
        results,
        comparisons=(*results.comparisons, comparison),
        in_process=(*results.in_process, convert_in_process(found.name, str(found.path), runs)),
    )


def _measure_pure(found: Found, runs: int, results: Results) -> Results:
    _say(f"{PURE}: {found.name} without compiled kernels")
    comparison, skipped = pure_fallback(found, runs)
    pure = () if comparison is None else (comparison,)
    inside = [convert_in_process(found.name, str(found.path), runs)]
    inside.append(convert_in_process(f"{found.name}, uncompiled", str(found.path), 1, pure=True))
    known = {one.name for one in results.in_process}
    added = (one for one in inside if one.name not in known)
    in_process = (*results.in_process, *added)
    return replace(results, pure=pure, in_process=in_process, skipped=(*results.skipped, *skipped))


def _measure_printing(found: Found, peers: list[Program], runs: int, results: Results) -> Results:
    _say(f"{PRINTING}: {found.name} as text")
    comparison, skipped = printing(found, peers, runs)
    printed = () if comparison is None else (comparison,)
    return replace(results, printing=printed, skipped=(*results.skipped, *skipped))


def _measure_stack_cfi(found: Found, peers: list[Program], runs: int, results: Results) -> Results:
    _say(f"{STACK_CFI}: {found.name}")
    by_name = {peer.name: peer for peer in peers}
    inside, no_inside = stack_cfi.in_process(found, by_name.get(stack_cfi.SYMBOLIC), runs)
    whole, no_whole = stack_cfi.whole_process(found, by_name.get(stack_cfi.DUMP_SYMS), runs)
    return replace(
        results,
        stack_cfi=(*results.stack_cfi, *([whole] if whole else [])),
        stack_cfi_in_process=(*results.stack_cfi_in_process, *([inside] if inside else [])),
        skipped=(*results.skipped, *no_inside, *no_whole),
    )


def _measure_symbol_files(runs: int, results: Results) -> tuple[Results, list[Program]]:
    programs, missing = symbol_files.peers()
    results = replace(results, skipped=(*results.skipped, *missing))
    inputs = [one for one in large_inputs() if one.name in symbol_files.INPUTS]
    absent = set(symbol_files.INPUTS) - {one.name for one in inputs}
    for one in inputs:
        _say(f"{SYMBOL_FILES}: {one.name}")
        found, skipped = symbol_files.measure(one, programs, runs)
        results = replace(
            results,
            symbol_files=(*results.symbol_files, *([found] if found else [])),
            skipped=(*results.skipped, *skipped),
        )
    not_fetched = (Skipped(name, "not fetched (.ci/oracles --large fetches it)") for name in sorted(absent))
    return replace(results, skipped=(*results.skipped, *not_fetched)), programs


def _measure_commands(
    only: Sequence[str], inputs: dict[str, Found], peers: list[Program], options: argparse.Namespace, results: Results
) -> Results:
    """The parts of commands.py."""
    skipped: list[Skipped] = []
    if START in only:
        _say(START)
        found, missing = commands.start_up(options.runs)
        results, skipped = replace(results, start_up=tuple(found)), [*skipped, *missing]
    gimli = crate_program(REWRITE, options.fetch) if REWRITING in only else None
    skipped += [gimli] if isinstance(gimli, Skipped) else []
    gimli = gimli if isinstance(gimli, Program) else None
    readelfs = [peer for peer in peers if peer.name == READELF]
    for one in (inputs[name] for name in STACK_CFI_INPUTS if name in inputs):
        if THREADS in only:
            _say(f"{THREADS}: {one.name}")
            found, missing = commands.threads(one, on_input(readelfs, one)[0], options.runs)
            results, skipped = replace(results, threads=(*results.threads, *found)), [*skipped, *missing]
        if REWRITING in only:
            _say(f"{REWRITING}: {one.name}")
            found, missing = commands.rewriting(one, gimli, options.runs)
            results, skipped = replace(results, rewriting=(*results.rewriting, *found)), [*skipped, *missing]
    if BATCH in only:
        _say(f"{BATCH}: {BATCH_FOLDER}")
        rates, missing = commands.batch(BATCH_FOLDER, options.runs)
        results, skipped = replace(results, batches=(rates,) if rates else ()), [*skipped, *missing]
    return replace(results, skipped=(*results.skipped, *skipped))


def _measure_lines(found: Found, runs: int, results: Results) -> Results:
    _say(f"{LINES}: {found.name}")
    return replace(results, lines=(run_lines(found.name, str(found.path), runs),))


def _measure_writers(found: Found, runs: int, results: Results) -> Results:
    _say(f"{WRITERS}: {found.name} with its section")
    comparison, skipped = writing(found, runs)
    writers = () if comparison is None else (comparison,)
    return replace(results, writers=writers, skipped=(*results.skipped, *skipped))


def _measure_scaling(source: Found, runs: int, results: Results) -> Results:
    _say(f"{SCALING}: {', '.join(f'{count:,}' for count in SCALES)} functions of {source.name}")
    try:
        steps = scaling(source, SCALES, runs)
    except (subprocess.CalledProcessError, RunError) as error:
        return replace(results, skipped=(*results.skipped, Skipped(SCALING, str(error))))
    return replace(results, scaling=steps, scaling_source=source.name)


def _measure_sizes(inputs: Iterable[Found], results: Results) -> Results:
    for found in inputs:
        _say(f"{SIZES}: {found.name}")
        size, skipped = section_size(found)
        results = replace(results, sizes=(*results.sizes, size), skipped=(*results.skipped, *skipped))
    return results


def _find_inputs(only: Sequence[str], fetch: bool) -> tuple[dict[str, Found], list[Skipped]]:
    """The inputs that the chosen parts need, and why some are missing."""
    needed = set(only)
    if not {PURE, WRITERS, PRINTING}.isdisjoint(only):
        needed.add(PARTS_INPUT)
    if not {STACK_CFI, THREADS, REWRITING}.isdisjoint(only):
        needed.update(STACK_CFI_INPUTS)
    if SCALING in only:
        needed.update(SCALING_INPUTS)
    found = [find(wanted, fetch) for wanted in (*INPUTS, *SIZE_INPUTS) if wanted.name in needed or SIZES in only]
    found += [find(LINES_INPUT, fetch)] if LINES in only else []
    inputs = {item.name: item for item in found if isinstance(item, Found)}
    return inputs, [item for item in found if isinstance(item, Skipped)]


def _measure(only: Sequence[str], inputs: dict[str, Found], peers: list[Program], runs: int) -> Results:
    results = Results()
    for name, found in inputs.items():
        if name in only:
            results = _measure_input(found, peers, runs, results)
    if PURE in only and PARTS_INPUT in inputs:
        results = _measure_pure(inputs[PARTS_INPUT], runs, results)
    if WRITERS in only and PARTS_INPUT in inputs:
        results = _measure_writers(inputs[PARTS_INPUT], runs, results)
    if PRINTING in only and PARTS_INPUT in inputs:
        results = _measure_printing(inputs[PARTS_INPUT], peers, runs, results)
    source = next((inputs[name] for name in SCALING_INPUTS if name in inputs), None)
    if SCALING in only and source:
        results = _measure_scaling(source, runs, results)
    if SIZES in only:
        results = _measure_sizes((found for name, found in inputs.items() if name != LINES_INPUT.name), results)
    if LINES in only and LINES_INPUT.name in inputs:
        results = _measure_lines(inputs[LINES_INPUT.name], runs, results)
    return results


def main() -> None:
    """Measure the chosen parts; tables on standard output, progress on standard error."""
    options = _options()
    machine = describe_machine()
    inputs, missing = _find_inputs(options.only, options.fetch)
    is_compared = not {PRINTING, THREADS, *(wanted.name for wanted in INPUTS)}.isdisjoint(options.only)
    peers, absent = all_peers(options.quick, options.fetch) if is_compared else ([], [])
    only = [*options.only, SIZES] if options.quick else options.only
    results = _measure(only, inputs, peers, options.runs)
    if STACK_CFI in only:
        others, not_there = stack_cfi.peers()
        for name in STACK_CFI_INPUTS:
            if name in inputs:
                results = _measure_stack_cfi(inputs[name], others, options.runs, results)
        peers, absent = [*peers, *others], [*absent, *not_there]
    results = _measure_commands(only, inputs, peers, options, results)
    if SYMBOL_FILES in only:
        results, others = _measure_symbol_files(options.runs, results)
        peers = [*peers, *others]
    results = replace(results, skipped=(*missing, *absent, *results.skipped))
    if package_digest() != machine.unwindkit_sha256:
        sys.exit("benchmarks: the installed unwindkit changed while it was measured: the figures are of no one build")
    load = round(os.getloadavg()[0], 2)
    run = Run(machine, options.runs, tuple(inputs.values()), tuple(peers), results, load)
    options.output.mkdir(parents=True, exist_ok=True)
    text = as_markdown(run)
    (options.output / "results.md").write_text(text, encoding="utf-8")
    (options.output / "results.json").write_text(as_json(run), encoding="utf-8")
    print(text, end="")
    if drawn := picture(text):
        (options.output / "results.svg").write_text(drawn, encoding="utf-8")
    _say(f"written: {options.output}/results.md, results.json{', results.svg' if drawn else ''}")


if __name__ == "__main__":
    main()
