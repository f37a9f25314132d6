"""Names and lines of real files, in symbol files of several programs, held against addr2line and llvm-symbolizer.

Strategy: `python -m roundtrip_tests.symbol_files [FILE[:DEBUG] ...]`; without files, the large ones that
`.ci/oracles --large` fetches. `--programs`: the programs of symbol_programs.py, built for the run. Prints how many
answers are equal, by what kind others differ, and what is wrong in the symbol file by itself.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from benchmarks.debug_inputs import DebugInput, large_inputs

from .support.oracles import OracleError
from .support.programs.symbol_programs import VARIANTS, DebugProgram, built
from .support.symbol_files.coverage import FunctionRange, dwarf_functions, folded_ranges, lost_functions
from .support.symbol_files.judge import Subject, consult, judge, normalized, report, sample
from .support.symbol_files.lint import lint
from .support.symbol_files.producers import PRODUCERS, subject_of, symcache_of
from .support.symbol_files.readers import read_by_stackwalk, read_by_symbolic
from .support.symbol_files.records import Lookup, SymbolFile, SymbolFileError, read_symbol_file
from .support.symbol_files.referees import load_address

SYMCACHE = "symcache"


def subjects(
    one: DebugInput,
    producer: str,
    addresses: Sequence[int],
    functions: list[FunctionRange],
    folder: Path,
    is_read: bool,
) -> Iterator[tuple[str, Subject]]:
    """What answers for a file: symbolic's symcache; or a symbol file, by both ways to nest its INLINE records, and if
    `is_read`, by other programs."""
    if producer == SYMCACHE:
        yield SYMCACHE, symcache_of(one.path, one.debug, addresses)
        return
    output = folder / f"{producer}.sym"
    PRODUCERS[producer](one.path, one.debug, output)
    symbols = read_symbol_file(output)
    faults = Counter(found.fault for found in lint(symbols))
    said = ", ".join(f"{count:,} {fault.name}" for fault, count in faults.most_common())
    lost = list(lost_functions(functions, symbols, load_address(one.path)))
    sys.stdout.write(f"{one.name}, {producer}: lint: {said or 'clean'}; of {len(functions):,} functions ")
    sys.stdout.write(f"{len(lost):,} are lost{''.join(f', {each.name} at {each.start:#x}' for each in lost[:3])}\n")
    for by_order, how in ((False, "by depth"), (True, "by order")):
        yield f"{producer} {how}", subject_of(symbols, one.path, by_order)
    if is_read:
        yield from readers(f"{one.name}, {producer}", symbols, output, addresses, load_address(one.path))


def readers(
    who: str, symbols: SymbolFile, output: Path, addresses: Sequence[int], load: int
) -> Iterator[tuple[str, Subject]]:
    """What other programs answer that read a symbol file; how many answers are those of our own reader is printed."""
    lookup, relative = Lookup(symbols), [address - load for address in addresses]
    names = [*(one.name for one in symbols.functions), *symbols.origins.values()]
    found = {
        "symbolic": read_by_symbolic(output, relative),
        "minidump_stackwalk": read_by_stackwalk(output, relative, names, output.with_suffix("")),
    }
    for program, subject in found.items():
        if subject is None:
            sys.stdout.write(f"{who}: {program} does not know the architecture\n")
            continue
        # Where there is no FUNC, programs differ in which PUBLIC they take.
        inside = [address for address in relative if lookup.function(address) is not None]
        equal = sum(normalized(subject(address)) == normalized(lookup.frames(address)) for address in inside)
        sys.stdout.write(f"{who}: of {len(inside):,} addresses {program} reads {equal:,} as they are in the file\n")
        answers = {address: subject(address - load) for address in addresses}
        yield f"{program} reads it", answers.__getitem__


def run(one: DebugInput, plain: Path, folded: list[tuple[int, int]], options: argparse.Namespace) -> bool:
    """Report on one file; whether every answer of every subject was the agreed one. The referees read `plain`; nothing
    is asked about `folded` ranges."""
    is_equal = True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        drawn = sample(plain, options.count, options.seed)
        chosen = [address for address in drawn if not any(start <= address < end for start, end in folded)]
        answers = consult(plain, chosen, folder)
        functions = dwarf_functions(folder / plain.name, folder)
        for producer in options.by or ["unwindkit"]:
            try:
                for who, subject in subjects(one, producer, answers.addresses, functions, folder, options.readers):
                    tally = judge(subject, answers)
                    is_equal &= not tally.kinds
                    sys.stdout.write(report(f"{one.name}, {who}", tally))
                    sys.stdout.flush()
            except (OracleError, SymbolFileError) as error:
                sys.stdout.write(f"{one.name}, {producer}: {error}\n")
                is_equal = False
    return is_equal


def programs(names: list[str], folder: Path) -> Iterator[DebugProgram]:
    """The compiled programs of some names, or all; those that cannot be built here are named."""
    for variant in VARIANTS:
        if not names or variant.name in names:
            try:
                yield built(folder, variant)
            except pytest.skip.Exception as error:
                sys.stdout.write(f"{variant.name}: {error}\n")


def inputs_of(words: list[str]) -> list[DebugInput]:
    """The files that a command line names: FILE, FILE:DEBUG or the name of a large file."""
    large = {one.name: one for one in large_inputs()}
    return [large.get(word) or _named(*word.partition(":")) for word in words]


def _named(path: str, _: str, debug: str) -> DebugInput:
    return DebugInput(Path(path).name, Path(path), Path(debug) if debug else None)


def main() -> int:
    """Run it; the exit status is 1 if an answer differs."""
    parser = argparse.ArgumentParser(prog="python -m roundtrip_tests.symbol_files", description=__doc__)
    parser.add_argument("--count", type=int, default=5_000, help="addresses drawn of each file (default 5,000)")
    parser.add_argument("--seed", type=int, default=19)
    parser.add_argument(
        "--by", action="append", choices=[*PRODUCERS, SYMCACHE], help="who makes the symbol file (default unwindkit)"
    )
    parser.add_argument(
        "file", nargs="*", help="FILE or FILE:DEBUG, or the name of a large file (default: all of these)"
    )
    parser.add_argument("--programs", action="store_true", help="FILE names compiled programs (default: all of these)")
    parser.add_argument(
        "--readers", action="store_true", help="also judge what symbolic and minidump_stackwalk read in the symbol file"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.programs:
            made = programs(options.file, Path(folder))
            chosen = ((DebugInput(one.name, one.path, one.debug), one.plain, folded_ranges(one.plain)) for one in made)
        else:
            found = inputs_of(options.file) if options.file else large_inputs()
            chosen = ((one, one.source, list[tuple[int, int]]()) for one in found)
        results = [run(one, plain, folded, options) for one, plain, folded in chosen]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
