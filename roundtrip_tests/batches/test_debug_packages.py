"""Debug packages: each binary of a batch gets the debug file with its build id, wherever in the batch that is."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from unwindkit import write_breakpad
from unwindkit.converters.elf.identity import build_id
from unwindkit.converters.elf.image import open_elf

from ..support.binutils import gcc
from ..support.commands import DONE, unwindkit
from ..support.packages import deb, rpm, tarball

pytestmark = pytest.mark.oracle("dwz")

SOURCE = """
struct point { int x, y; };
static __attribute__((noinline)) int twice(struct point p) { return 2 * p.x + p.y; }
int NAME(int n) { struct point p = {n, n}; return twice(p); }
int main(int count, char **values) { return NAME(count) + values[0][0]; }
"""


@dataclass(frozen=True, slots=True)
class Built:
    """Programs as a distribution has them: a tree with the stripped ones, one with their debug files, which share a
    file of dwz, and the functions and lines of the programs before they were stripped."""

    programs: Path
    debug: Path
    records: dict[str, list[bytes]]


@pytest.fixture(scope="module", name="built")
def _built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    return build_programs(tmp_path_factory.mktemp("built"))


def build_programs(folder: Path) -> Built:
    """Make the programs in a folder."""
    programs, debug = folder / "programs" / "usr" / "bin", folder / "debug" / "usr" / "lib" / "debug"
    programs.mkdir(parents=True)
    records = {}
    made = []
    for name in ("one", "two"):
        (folder / f"{name}.c").write_text(SOURCE.replace("NAME", name))
        gcc(folder, "-g", "-O1", "-Wl,--build-id=sha1", f"{name}.c", "-o", folder / name)
        write_breakpad(folder / name, folder / f"{name}.sym")
        records[name] = functions_of((folder / f"{name}.sym").read_bytes())
        identifier = build_id(open_elf(folder / name)).hex()
        place = debug / ".build-id" / identifier[:2] / f"{identifier[2:]}.debug"
        place.parent.mkdir(parents=True)
        run("objcopy", "--only-keep-debug", folder / name, place)
        run("strip", folder / name, "-o", programs / name)
        made.append(place)
    shared = debug / ".dwz" / "x86_64-linux-gnu" / "x.debug"
    shared.parent.mkdir(parents=True)
    run("dwz", "-m", shared, "-M", "/usr/lib/debug/.dwz/x86_64-linux-gnu/x.debug", *made)
    return Built(folder / "programs", folder / "debug", records)


def run(*command_line: str | Path) -> None:
    subprocess.run(command_line, check=True, capture_output=True)


def functions_of(text: bytes) -> list[bytes]:
    """FUNC records and line records."""
    lines = text.splitlines()
    return [line for line in lines if line.startswith(b"FUNC ") or line[:1] in b"0123456789abcdef"]


def as_folders(programs: Path, debug: Path, out: Path) -> list[Path]:
    return [programs, debug]


def as_one_folder(programs: Path, debug: Path, out: Path) -> list[Path]:
    for tree in (programs, debug):
        shutil.copytree(tree, out / "root", dirs_exist_ok=True)
    return [out / "root"]


def as_debs(programs: Path, debug: Path, out: Path) -> list[Path]:
    return [deb(programs, out / "x.deb"), deb(debug, out / "x-dbgsym.deb")]


def as_debs_in_other_order(programs: Path, debug: Path, out: Path) -> list[Path]:
    return as_debs(programs, debug, out)[::-1]


def as_rpms_with_named_debug_files(programs: Path, debug: Path, out: Path) -> list[Path]:
    """As in Fedora: debug files are named after their programs, and links have the build ids."""
    tree = out / "debug"
    shutil.copytree(debug, tree)
    folder = tree / "usr" / "lib" / "debug"
    (folder / "usr" / "bin").mkdir(parents=True)
    for number, path in enumerate(sorted((folder / ".build-id").rglob("*.debug"))):
        target = folder / "usr" / "bin" / f"name{number}.debug"
        path.rename(target)
        path.symlink_to(f"../../usr/bin/{target.name}")
    return [rpm(programs, out / "x.rpm"), rpm(tree, out / "x-debuginfo.rpm")]


def as_package_and_folder(programs: Path, debug: Path, out: Path) -> list[Path]:
    return [tarball(programs, out / "x.tar.zst"), debug]


FORMS = (
    *(as_folders, as_one_folder, as_debs, as_debs_in_other_order),
    *(as_rpms_with_named_debug_files, as_package_and_folder),
)


@pytest.mark.parametrize("form", FORMS)
def test_functions_and_lines_are_those_of_the_debug_files(
    form: Callable[[Path, Path, Path], list[Path]], built: Built, tmp_path: Path
) -> None:
    sources = form(built.programs, built.debug, tmp_path)
    done = unwindkit("breakpad", *sources, "--store", tmp_path / "store", "-j", "2")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (DONE, "2 files: 2 done, 0 failed")
    found = {path.stem: functions_of(path.read_bytes()) for path in (tmp_path / "store").rglob("*.sym")}
    assert found == built.records
    assert all(any(b" twice" in line for line in lines) for lines in found.values()), "names are in dwz's file"


def test_without_links_debug_files_are_neither_used_nor_converted(built: Built, tmp_path: Path) -> None:
    done = unwindkit("breakpad", built.programs, built.debug, "--store", tmp_path / "store", "--no-debug-links")
    assert done.stderr.splitlines()[-1] == "2 files: 2 done, 0 failed"
    found = {path.stem: functions_of(path.read_bytes()) for path in (tmp_path / "store").rglob("*.sym")}
    assert found == {"one": [], "two": []}


def test_a_debug_file_that_comes_later_is_noticed(built: Built, tmp_path: Path) -> None:
    package = deb(built.programs, tmp_path / "x.deb")
    arguments = ("--manifest", tmp_path / "manifest", "--output-dir", tmp_path / "out")
    for sources, skipped in (([package], False), ([package], True), ([package, built.debug], False)):
        done = unwindkit("sframe", *sources, *arguments)
        assert done.returncode == DONE
        assert ("by an earlier run" in done.stderr) == skipped
