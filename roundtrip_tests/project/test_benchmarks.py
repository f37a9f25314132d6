"""The benchmarks run and report what they could not measure. No figure is judged here: a busy machine would fail."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import unwindkit

from benchmarks.commands import batch
from benchmarks.inputs import INPUTS, Input, find
from benchmarks.measure import Program, RunError, Skipped, run_once
from benchmarks.peers import all_peers, on_input
from benchmarks.plots import Bar, bars, picture
from benchmarks.scaling import Body, repeated_elf, within_reach

from ..support.oracles import run_oracle
from ..support.real_files import REAL_FILES

ROOT = Path(__file__).parents[2]
SOURCE = Path(REAL_FILES[0])
LIBC = next(wanted for wanted in INPUTS if wanted.name == "libc")


@pytest.fixture(scope="module", name="nowhere")
def _nowhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder."""
    return tmp_path_factory.mktemp("nowhere")


@pytest.fixture(scope="module", name="quick_run")
def _quick_run(tmp_path_factory: pytest.TempPathFactory, nowhere: Path) -> tuple[str, dict]:
    """The Markdown and the JSON of one quick run without other programs."""
    output = tmp_path_factory.mktemp("results")
    command = [sys.executable, "-m", "benchmarks", "--quick", "-n", "1", "--output", output]
    environment = os.environ | {"UNWINDKIT_ORACLES": str(nowhere), "PATH": str(nowhere)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    text = (output / "results.md").read_text()
    assert done.stdout == text
    return text, json.loads((output / "results.json").read_text())


def tables_of(text: str) -> list[list[list[str]]]:
    """The cells of each Markdown table."""
    blocks = re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE)
    return [[re.split(r" +\| +", line.strip("| ")) for line in block.splitlines()] for block in blocks]


def test_a_quick_run_writes_tables_and_the_same_figures_as_json(quick_run: tuple[str, dict]) -> None:
    text, found = quick_run
    for table in tables_of(text):
        assert len({len(row) for row in table}) == 1, table
    assert len(tables_of(text)) == 4
    (comparison,) = found["results"]["comparisons"]
    (size,) = found["results"]["sizes"]
    (inside,) = found["results"]["in_process"]
    assert [comparison["name"], size["name"], inside["name"]] == ["libc"] * 3
    assert comparison["measured"][0]["program"] == "unwindkit"
    assert comparison["measured"][0]["ratio"] == 1
    assert all(m["runs"] == 1 and m["wall"] > 0 and m["peak"] > 0 for m in comparison["measured"])
    for version in ("v2", "v3"):
        assert size["eh_frame"] > size[f"{version}_merge"] < size[f"{version}_share"] < size[f"{version}_none"]
    (parts,) = (
        dict(zip(table[0], table[2], strict=True)) for table in tables_of(text) if table[0][0] == "of .eh_frame"
    )
    assert parts["V2 merge"] == f"{size['v2_merge'] / size['eh_frame']:.3f}"
    assert inside["rows"] >= inside["functions"] > 0
    assert f"{inside['rows']:,}" in text


def test_absent_peers_are_skipped_with_a_reason(quick_run: tuple[str, dict]) -> None:
    text, found = quick_run
    skipped = {skip["name"]: skip["reason"] for skip in found["results"]["skipped"]}
    assert skipped.keys() == {"readelf 2.47", "readelf (system)", "as and ld 2.47 on libc"}
    assert "no x86_64-linux-gnu-as with its loader" in skipped["as and ld 2.47 on libc"]
    (size,) = found["results"]["sizes"]
    assert size["gas"] is None
    assert "UNWINDKIT_ORACLES" in skipped["readelf 2.47"]
    assert skipped["readelf (system)"] == "no readelf on PATH"
    assert all(f"- {name}: {reason}\n" in text for name, reason in skipped.items())
    assert [m["program"] for m in found["results"]["comparisons"][0]["measured"]] == ["unwindkit"]


@pytest.mark.oracle
def test_readelf_of_the_oracles_is_a_peer() -> None:
    programs, skipped = all_peers(quick=True)
    assert ([peer.name for peer in programs], skipped) == (["readelf 2.47"], [])
    programs, skipped = on_input(programs, find(LIBC, fetch=False))
    assert (run_once(programs[0]).peak > 0, skipped) == (True, [])


def test_an_absent_input_is_not_fetched_unasked() -> None:
    found = find(Input("nothing", ("usr/lib/no-such-file",), "no-such-package"), fetch=False)
    assert found == Skipped("nothing", "not on this machine; package no-such-package is fetched with --fetch")


def test_a_program_that_fails_or_takes_too_long_is_an_error() -> None:
    with pytest.raises(RunError, match="ended with 3: why"):
        run_once(Program("fails", (sys.executable, "-c", "import sys; print('why', file=sys.stderr); sys.exit(3)")))
    with pytest.raises(RunError, match="does not start"):
        run_once(Program("absent", ("/no/such/program",)))
    with pytest.raises(RunError, match="more than 1 s"):
        run_once(Program("endless", (sys.executable, "-c", "while True: pass")), limit=1)


def test_the_launcher_counts_the_memory_of_the_program_alone() -> None:
    ballast = bytearray(200_000_000)  # of this process, which must not show in the child's figure
    ballast[::4096] = b"x" * len(ballast[::4096])
    assert run_once(Program("small", (sys.executable, "-S", "-c", "pass"))).peak < 50_000_000
    large = run_once(Program("large", (sys.executable, "-S", "-c", "bytearray(b'x' * 100_000_000)")))
    assert 200_000_000 < large.peak < 250_000_000


def shape(function: unwindkit.Function) -> tuple[int, tuple[unwindkit.Row, ...]]:
    return function.size, function.rows


@pytest.mark.parametrize("count", [1, 50, 1500], ids=str)
def test_a_repeated_input_has_the_functions_asked_for(count: int, tmp_path: Path) -> None:
    path = tmp_path / "repeated.elf"
    path.write_bytes(repeated_elf(SOURCE, count))
    functions = list(unwindkit.read_elf(path))
    assert len(functions) == count
    assert all(a.start + a.size <= b.start for a, b in itertools.pairwise(functions))
    assert {shape(function) for function in functions} <= {shape(f) for f in unwindkit.read_elf(SOURCE)}
    assert unwindkit.info(path).code_bytes >= functions[-1].start + functions[-1].size - functions[0].start


def test_many_functions_are_in_reach_of_32_bit_offsets() -> None:
    """10^7 of 161 bytes, aligned to 176, are (1.6 GiB); together with others of 200 bytes they would have 1.92 GB."""
    small, middle, large = Body(0, 161, b""), Body(0, 200, b""), Body(0, 1024, b"")
    assert within_reach([large, small, middle], 10_000_000) == [small]
    assert within_reach([large, small, middle], 1_000_000) == [large, small, middle]


@pytest.mark.oracle
def test_readelf_sees_as_many_functions_in_a_repeated_input(tmp_path: Path) -> None:
    path = tmp_path / "repeated.elf"
    path.write_bytes(repeated_elf(SOURCE, 1500))
    said = run_oracle("readelf", "-wNF", path)
    starts = [int(start, 16) for start in re.findall(r" FDE cie=\S+ pc=([0-9a-f]+)\.\.", said)]
    assert starts == [function.start for function in unwindkit.read_elf(path)]


def test_the_start_is_compared_with_that_of_python(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "benchmarks",
        "--only",
        "start",
        "--only",
        "rewriting",
        "-n",
        "1",
        "--output",
        tmp_path,
    ]
    environment = os.environ | {"UNWINDKIT_ORACLES": str(tmp_path), "PATH": str(tmp_path)}
    subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True)
    found = json.loads((tmp_path / "results.json").read_text())
    measured = [[one["program"] for one in part["measured"]] for part in found["results"]["start_up"]]
    assert measured == [
        ["--version", "python -c pass"],
        ["sframe /bin/bash --section", "python -c 'import numpy'"],
    ]
    assert {"name": "gimli_rewrite", "reason": "not built (--fetch builds it with cargo)"} in found["results"][
        "skipped"
    ]


def test_a_batch_of_small_files(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a").write_bytes(Path("/bin/true").read_bytes())
    (folder / "b").write_text("no ELF file")
    found, skipped = batch(folder, 1)
    assert found is not None
    assert (found.files, [one.program for one in found.measured], skipped) == (
        1,
        ["unwindkit -j2", "unwindkit -j1"],
        [],
    )
    assert found.rate(found.measured[0]) == 1 / found.measured[0].wall
    assert batch(tmp_path / "in" / "..", 1)[0] is None


TABLES = """
### Threads
| input | program      |   time | first's time / its |  CPU |
| ----- | ------------ | -----: | -----------------: | ---: |
| libc  | unwindkit    | 1.00 s |               1.00 | 1.00 |
| libc  | readelf 2.47 | 2.00 s |               0.50 | 0.40 |

| input | functions |
| ----- | --------: |
| libc  |     3,713 |
"""


def test_the_picture_has_a_bar_for_each_peer() -> None:
    assert bars(TABLES) == [Bar("Threads", "libc, readelf 2.47", 0.4)]
    assert picture(TABLES).count("<rect") == 1
    assert picture("no tables") == ""


def test_the_picture_of_the_manual_shows_its_tables() -> None:
    """`python docs/fields.py` draws it again."""
    drawn = (ROOT / "docs" / "benchmarks.svg").read_text(encoding="utf-8")
    assert drawn == picture((ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8"))
    assert drawn.count("<rect") > 20
