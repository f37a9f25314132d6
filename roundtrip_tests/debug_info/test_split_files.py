"""Split DWARF, type units and dwz: the functions that compilers put elsewhere are those of the same source unsplit.

Strategy: a program is linked from split objects, and from objects of the same source with everything in the file; code
is equal, so all functions, inlined functions, names, ranges and call sites have to be.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from unwindkit import DebugFiles, read_functions, read_source_map

from ..support.made.debug_entries import NO_LINKS, inlined_calls, named_ranges
from ..support.oracles import run_oracle

pytestmark = pytest.mark.oracle("g++")

SOURCES = {
    "shapes.h": """
namespace shapes {
template <class T> struct Box { T value; __attribute__((always_inline)) T get() const { return value + 1; } };
struct Outer { struct Inner { int deep(int); template <class T> int far(T t) { volatile T q = t; return q; } }; };
inline __attribute__((always_inline)) int nested(int x) { Box<int> box{x}; return box.get() * 3; }
}
""",
    "main.cc": """
#include "shapes.h"
int other(int);
namespace { struct Hidden { int k(int a) { volatile int b = a; return b; } }; }
int shapes::Outer::Inner::deep(int x) {
  struct Local { int m(int z) { volatile int y = z; return y; } } local;
  auto lambda = [](int w) __attribute__((noinline)) { volatile int v = w; return v; };
  return local.m(x) + lambda(x);
}
__attribute__((noinline)) int twice(int n) { int s = 0; for (int i = 0; i < n; i++) s += shapes::nested(i); return s; }
int main(int count, char **) {
  shapes::Outer::Inner inner; Hidden hidden;
  return inner.deep(count) + inner.far<long>(count) + hidden.k(count) + twice(count) + other(count);
}
""",
    "other.cc": """
#include "shapes.h"
static __attribute__((noinline)) int cold(int n) { volatile int x = n; return x; }
int other(int n) { return n > 5 ? cold(shapes::nested(n)) : shapes::nested(n + 1); }
""",
}


def run(folder: Path, *command: str) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]}")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module", name="place")
def _place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the sources."""
    place = tmp_path_factory.mktemp("split")
    for name, text in SOURCES.items():
        (place / name).write_text(text)
    return place


def build(place: Path, *flags: str) -> Path:
    """A program linked from objects compiled with these flags, with the same code whatever the flags; in a folder of
    its own."""
    folder = Path(tempfile.mkdtemp(dir=place))
    for name in ("main", "other"):
        run(folder, "g++", *flags, "-c", str(folder.parent / f"{name}.cc"), "-o", f"{name}.o")
    run(folder, "g++", "main.o", "other.o", "-o", "program")
    return folder / "program"


def contents(program: Path, debug: DebugFiles = NO_LINKS) -> tuple[list[object], list[object]]:
    table = read_functions(program, debug)
    assert len(table.skipped) == 0
    return sorted(named_ranges(table), key=repr), list(inlined_calls(table))


LINKS = DebugFiles()
VERSIONS = pytest.mark.parametrize("version", [4, 5])
LEVELS = pytest.mark.parametrize("level", ["-O0", "-O2"])


@functools.cache
def expected(place: Path, level: str, version: int) -> tuple[list[object], list[object]]:
    found = contents(build(place, level, f"-gdwarf-{version}"))
    assert b"main" in {name for name, *_ in found[0]}
    assert found[1]
    return found


@LEVELS
@VERSIONS
@pytest.mark.parametrize("types", [(), ("-fdebug-types-section",)], ids=["", "type units"])
def test_dwo_files(place: Path, level: str, version: int, types: tuple[str, ...]) -> None:
    program = build(place, level, f"-gdwarf-{version}", "-gsplit-dwarf", *types)
    assert contents(program, LINKS) == expected(place, level, version)
    assert contents(program) == ([], [])


@pytest.mark.parametrize(("level", "version"), [("-O0", 4), ("-O2", 4), ("-O2", 5)])
@pytest.mark.parametrize("types", [(), ("-fdebug-types-section",)], ids=["", "type units"])
@pytest.mark.oracle("sid-llvm")
def test_a_package(place: Path, level: str, version: int, types: tuple[str, ...]) -> None:
    """Not of version 5 at -O0: llvm-dwp 22 does not end with gcc's files, and dwp of binutils crashes on some."""
    program = build(place, level, f"-gdwarf-{version}", "-gsplit-dwarf", *types)
    run_oracle("llvm-dwp-22", "-e", program, "-o", f"{program}.dwp", suite="sid-llvm")
    for one in program.parent.glob("*.dwo"):
        one.unlink()
    assert contents(program, LINKS) == expected(place, level, version)


@VERSIONS
def test_dwo_files_of_64_bit_dwarf(place: Path, version: int) -> None:
    program = build(place, "-O2", f"-gdwarf-{version}", "-gdwarf64", "-gsplit-dwarf")
    with (program.parent / "main.dwo").open("rb") as file:
        assert ELFFile(file).get_section_by_name(".debug_info.dwo").data()[:4] == b"\xff\xff\xff\xff"
    assert contents(program, LINKS) == expected(place, "-O2", version)


@LEVELS
@VERSIONS
def test_type_units(place: Path, level: str, version: int) -> None:
    program = build(place, level, f"-gdwarf-{version}", "-fdebug-types-section")
    assert contents(program) == expected(place, level, version)


@LEVELS
@pytest.mark.parametrize(("version", "options"), [(4, ()), (5, ()), (5, ("--dwarf-5",))])
@pytest.mark.oracle("dwz")
def test_entries_of_a_supplementary_file(place: Path, level: str, version: int, options: tuple[str, ...]) -> None:
    program = build(place, level, f"-gdwarf-{version}")
    whole = contents(program)
    shutil.copy(program, program.with_name("second"))
    run(program.parent, "dwz", *options, "-m", "common", "-M", "common", "program", "second")
    with program.open("rb") as file:
        assert ELFFile(file).has_section(".debug_sup" if options else ".gnu_debugaltlink")
    assert contents(program, NO_LINKS) != whole
    assert contents(program, LINKS) == whole


@VERSIONS
def test_a_dwo_file_is_looked_up_beside_the_program_and_in_folders(place: Path, tmp_path: Path, version: int) -> None:
    program = build(place, "-O2", f"-gdwarf-{version}", "-gsplit-dwarf")
    found = contents(program, LINKS)
    moved = tmp_path / "moved"
    program.parent.rename(moved)
    assert contents(moved / "program", LINKS) == found
    (tmp_path / "dwo").mkdir()
    for one in moved.glob("*.dwo"):
        one.rename(tmp_path / "dwo" / one.name)
    assert contents(moved / "program", DebugFiles(folders=(tmp_path / "dwo",))) == found


@VERSIONS
def test_a_missing_dwo_file_is_counted_in_a_note(place: Path, version: int) -> None:
    program = build(place, "-O2", f"-gdwarf-{version}", "-gsplit-dwarf")
    (program.parent / "other.dwo").unlink()
    found = read_source_map(program, LINKS)
    (note,) = found.notes
    assert note == "other.dwo has no split unit of this file, or was not found (1 of 2 split units are missing)"
    names = {name for name, *_ in named_ranges(found.functions)}
    assert b"main" in names
    assert b"_Z5otheri" not in names


@VERSIONS
@pytest.mark.parametrize("name", ["other.dwo", "main.dwo"])
def test_a_malformed_dwo_file_is_left_out_with_a_note(place: Path, version: int, name: str) -> None:
    program = build(place, "-O2", f"-gdwarf-{version}", "-gsplit-dwarf")
    path = program.parent / name
    data = bytearray(path.read_bytes())
    with path.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".debug_info.dwo")
        data[section["sh_offset"] : section["sh_offset"] + 4] = b"\xf1\xff\xff\xff"
    path.write_bytes(data)
    found = read_source_map(program, LINKS)
    first, second = found.notes
    assert f"{path} cannot be read (" in first
    assert first.endswith("): not used")
    assert "(1 of 2 split units are missing)" in second
    names = {one for one, *_ in named_ranges(found.functions)}
    assert (b"_Z5otheri" in names, b"main" in names) == (name == "main.dwo", name == "other.dwo")


@pytest.mark.oracle("sid-llvm")
def test_a_malformed_package_is_left_out_with_a_note(place: Path) -> None:
    program = build(place, "-O2", "-gdwarf-4", "-gsplit-dwarf")
    run_oracle("llvm-dwp-22", *sorted(program.parent.glob("*.dwo")), "-o", f"{program}.dwp", suite="sid-llvm")
    package = Path(f"{program}.dwp")
    with package.open("rb") as file:
        offset = ELFFile(file).get_section_by_name(".debug_cu_index")["sh_offset"]
    package.write_bytes(package.read_bytes()[:offset] + b"\x09" + package.read_bytes()[offset + 1 :])
    found = read_source_map(program, LINKS)
    (note,) = found.notes
    assert f"{package} cannot be read (" in note
    assert {b"main", b"_Z5otheri"} <= {one for one, *_ in named_ranges(found.functions)}


@VERSIONS
def test_a_dwo_file_of_another_build_is_not_used(place: Path, version: int) -> None:
    program = build(place, "-O2", f"-gdwarf-{version}", "-gsplit-dwarf")
    shutil.copy(program.parent / "main.dwo", program.parent / "other.dwo")
    found = read_source_map(program, LINKS)
    assert ["(1 of 2 split units are missing)" in note for note in found.notes] == [True]
    assert b"_Z5otheri" not in {name for name, *_ in named_ranges(found.functions)}


@VERSIONS
@pytest.mark.parametrize("compression", ["zlib", "zlib-gnu", "zstd"])
def test_compressed_sections_and_a_debug_file(place: Path, tmp_path: Path, version: int, compression: str) -> None:
    program = build(place, "-O2", f"-gdwarf-{version}")
    whole = contents(program)
    debug, compressed = tmp_path / "program.debug", f"--compress-debug-sections={compression}"
    run(tmp_path, "objcopy", "--only-keep-debug", compressed, str(program), str(debug))
    run(tmp_path, "strip", str(program))
    assert contents(program) == ([], [])
    assert contents(program, DebugFiles(debug)) == whole
