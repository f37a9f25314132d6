"""The programs that symbol files are judged on: referees agree about them, and each is what its name says."""

from __future__ import annotations

from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from ..support.programs.symbol_programs import GCC, Variant, built
from ..support.symbol_files.coverage import folded_ranges
from ..support.symbol_files.judge import Subject, consult, judge, normalized, sample
from ..support.symbol_files.producers import write_with_unwindkit
from ..support.symbol_files.readers import read_by_stackwalk, read_by_symbolic
from ..support.symbol_files.records import Frame, Lookup, read_symbol_file
from ..support.symbol_files.referees import load_address

# One of each kind: what is split, moved or compressed, is judged by a plain program of the same code.
NAMES = ("gcc-dwarf4-O2", "gcc-dwarf5-O3", "gcc-split5", "gcc-dwz5-multifile", "gcc-zstd", "gcc-i386-dwarf5")
CHOSEN = [variant for variant in GCC if variant.name in NAMES]
EACH = pytest.mark.parametrize("variant", CHOSEN, ids=lambda variant: variant.name)
NOBODY: Subject = lambda address: ()  # noqa: E731


@pytest.fixture(scope="session", name="folder")
def folder_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("symbol-programs")


def section(path: Path, name: str) -> tuple[int, bytes] | None:
    with path.open("rb") as file:
        found = ELFFile(file).get_section_by_name(name)
        return (found["sh_addr"], found.data()) if found else None


def test_every_name_is_a_variant_and_none_is_there_twice() -> None:
    assert len(CHOSEN) == len(NAMES)
    assert len({variant.name for variant in GCC}) == len(GCC)


@pytest.mark.oracle("sid-llvm", "eu-addr2line", "dwz")
@EACH
def test_referees_agree_about_a_program(variant: Variant, folder: Path, tmp_path: Path) -> None:
    program = built(folder, variant)
    assert section(program.path, ".text") == section(program.plain, ".text")
    answers = consult(program.plain, sample(program.plain, 300, seed=19), tmp_path)
    tally = judge(NOBODY, answers)
    assert tally.sampled > 150
    assert tally.innermost == tally.lost >= 0.97 * tally.sampled
    assert tally.chains >= 0.95 * tally.sampled
    # Three inlines in one another are among them.
    assert max(map(len, answers.second)) >= 4


@pytest.mark.oracle("sid-llvm", "eu-addr2line")
def test_a_referee_is_its_own_equal(folder: Path, tmp_path: Path) -> None:
    program = built(folder, CHOSEN[0])
    answers = consult(program.plain, sample(program.plain, 300, seed=19), tmp_path)
    by_address = dict(zip(answers.addresses, answers.second, strict=True))
    tally = judge(by_address.__getitem__, answers)
    assert tally.innermost_equal >= 0.99 * tally.innermost
    assert any(
        Frame("shapes::innermost(int)", str(folder / CHOSEN[0].name / "shapes.h"), 11) in one for one in answers.first
    )


@pytest.mark.oracle("npm", "symbolic")
def test_programs_read_in_our_symbol_file_what_is_in_it(folder: Path, tmp_path: Path) -> None:
    program = built(folder, CHOSEN[0])
    write_with_unwindkit(program.path, program.debug, tmp_path / "program.sym")
    symbols = read_symbol_file(tmp_path / "program.sym")
    lookup = Lookup(symbols)
    load = load_address(program.path)
    addresses = [one - load for one in sample(program.path, 500, seed=19) if lookup.function(one - load)]
    names = [*(one.name for one in symbols.functions), *symbols.origins.values()]
    expected = [normalized(lookup.frames(one)) for one in addresses]
    assert max(map(len, expected)) >= 4
    by_symbolic = read_by_symbolic(tmp_path / "program.sym", addresses)
    by_stackwalk = read_by_stackwalk(tmp_path / "program.sym", addresses, names, tmp_path / "store")
    assert by_symbolic is not None
    assert by_stackwalk is not None
    assert [normalized(by_symbolic(one)) for one in addresses] == expected
    assert [normalized(by_stackwalk(one)) for one in addresses] == expected


@pytest.mark.oracle("dwz", "sid-llvm")
def test_what_is_moved_or_split_is_not_in_the_program(folder: Path) -> None:
    variants = {variant.name: variant for variant in GCC}
    split, common = built(folder, variants["gcc-split5"]), built(folder, variants["gcc-dwz5-multifile"])
    assert (split.path.parent / "main.dwo").exists()
    whole, skeleton = section(split.plain, ".debug_info"), section(split.path, ".debug_info")
    assert whole is not None
    assert skeleton is not None
    assert len(skeleton[1]) < len(whole[1]) / 10
    link = section(common.path, ".gnu_debugaltlink")
    assert link is not None
    assert link[1].partition(b"\0")[0] == bytes(common.path.parent / "common.dwz")


@pytest.mark.oracle("ld.lld")
def test_code_of_functions_that_are_folded_is_known(folder: Path) -> None:
    variants = {variant.name: variant for variant in GCC}
    program = built(folder, variants["gcc-sections-lld"])
    with program.plain.open("rb") as file:
        symbols = ELFFile(file).get_section_by_name(".symtab")
        values = {symbol.name: symbol["st_value"] for symbol in symbols.iter_symbols()}
    assert values["_Z10folded_onei"] == values["_Z10folded_twoi"]
    folded = folded_ranges(program.plain)
    assert any(start <= values["_Z10folded_onei"] < end for start, end in folded)
    assert not any(start <= values["_Z11partitionedi"] < end for start, end in folded)
