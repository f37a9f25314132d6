"""Symbol stores as zip archives: every file in one of them, none too large, and a list that tells which."""

from __future__ import annotations

import random
import zipfile
from itertools import pairwise
from pathlib import Path

import pytest
from unwindkit.schemas.section import BuildError
from unwindkit.writers.zip_parts import write_zip_parts

from ..support.commands import DONE, WRONG, unwindkit


@pytest.fixture(name="store")
def _store(tmp_path: Path) -> Path:
    """Files of which some can be compressed and some cannot."""
    draw = random.Random(1)
    for number in range(60):
        path = tmp_path / "store" / f"name{number}" / "ID" / f"name{number}.sym"
        path.parent.mkdir(parents=True)
        size = draw.randrange(1, 9000)
        path.write_bytes(draw.randbytes(size) if number % 2 else b"FUNC 1\n" * size)
    return tmp_path / "store"


def names_of(store: Path) -> list[str]:
    return sorted(str(path.relative_to(store)) for path in store.rglob("*.sym"))


@pytest.mark.parametrize("limit", [12_000, 30_000, 1 << 20])
def test_all_files_are_in_parts_of_limited_size(limit: int, store: Path, tmp_path: Path) -> None:
    parts = write_zip_parts(store, names_of(store), tmp_path / "zip", limit)
    assert all(path.stat().st_size <= limit for path in parts)
    listed = [line.split(" ", 1) for line in (tmp_path / "zip" / "parts.txt").read_text().splitlines()]
    assert [name for _, name in listed] == names_of(store)
    for path in parts:
        with zipfile.ZipFile(path) as archive:
            assert archive.testzip() is None
            assert archive.namelist() == [name for part, name in listed if part == path.name]
            assert all(archive.read(name) == (store / name).read_bytes() for name in archive.namelist())
    sizes = [path.stat().st_size for path in parts]
    assert all(one + other > limit for one, other in pairwise(sizes)), "no two would fit in one"
    assert (len(parts) == 1) == (limit > 1 << 19)


def test_the_same_store_gives_the_same_bytes_and_old_parts_go(store: Path, tmp_path: Path) -> None:
    first = [path.read_bytes() for path in write_zip_parts(store, names_of(store), tmp_path / "zip", 20_000)]
    for path in store.rglob("*.sym"):
        path.touch()
    again = write_zip_parts(store, reversed(names_of(store)), tmp_path / "zip", 20_000)
    assert [path.read_bytes() for path in again] == first
    write_zip_parts(store, names_of(store)[:1], tmp_path / "zip", 20_000)
    assert sorted(path.name for path in (tmp_path / "zip").iterdir()) == ["parts.txt", "symbols-001.zip"]


def test_a_file_that_fits_no_part_is_refused(store: Path, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="does not fit an archive of 4,000 bytes"):
        write_zip_parts(store, names_of(store), tmp_path / "zip", 4000)
    assert not list((tmp_path / "zip").glob(".*"))


def test_the_command_zips_what_it_stored_and_what_an_earlier_run_did(built_program: Path, tmp_path: Path) -> None:
    arguments = ("breakpad", built_program, "--store", tmp_path / "store", "--manifest", tmp_path / "manifest")
    for _ in range(2):
        done = unwindkit(*arguments, "--no-debug-links", "--zip", tmp_path / "zip")
        assert (done.returncode, done.stderr.splitlines()[-1]) == (DONE, f"{tmp_path}/zip: 1 symbol file in 1 archive")
        with zipfile.ZipFile(tmp_path / "zip" / "symbols-001.zip") as archive:
            assert archive.namelist() == names_of(tmp_path / "store")
    done = unwindkit("breakpad", built_program, "--zip", tmp_path / "zip")
    assert (done.returncode, "--zip requires --store" in done.stderr) == (WRONG, True)
