"""Manifests: a batch that was interrupted, at any moment, ends with the results of one that was not.

Strategy: the result of an undisturbed run is what every other history has to lead to, byte for byte.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from ..support.commands import DIFFERENT, DONE, WRONG, unwindkit
from ..support.packages import wheel
from ..support.tiny_elf import CFI, CODE, Content, tiny_elf

FILES = 24
KILLS = 6


@pytest.fixture(scope="module", name="tree")
def _tree(built_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    tree = tmp_path_factory.mktemp("tree")
    for number in range(FILES):
        (tree / str(number % 3)).mkdir(exist_ok=True)
        shutil.copy(built_program, tree / str(number % 3) / f"program{number}")
    inside = tree / "inside"
    inside.mkdir()
    shutil.copy(built_program, inside / "in-package")
    wheel(inside, tree / "x.whl")
    shutil.rmtree(inside)
    return tree


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class Command(NamedTuple):
    """The option for the folder of results, and what the summary says of files."""

    option: str
    verb: str


COMMANDS = {
    "sframe": Command("--output-dir", "written"),
    "breakpad": Command("--store", "done"),
    "export": Command("-o", "exported"),
}
NAMES = [pytest.param(name, marks=[pytest.mark.oracle("pyarrow")] * (name == "export")) for name in COMMANDS]


def command(name: str, tree: Path, folder: Path) -> tuple[str | Path, ...]:
    """The command, with a manifest beside the folder."""
    return (name, tree, COMMANDS[name].option, folder, "--manifest", folder.with_name("manifest"), "--no-debug-links")


@pytest.mark.parametrize("name", ["sframe", "breakpad"])
def test_what_is_done_is_skipped_and_what_is_changed_is_done_again(name: str, tree: Path, tmp_path: Path) -> None:
    first = unwindkit(*command(name, tree, tmp_path / "out"))
    verb = COMMANDS[name].verb
    files = f"{FILES + 1} files: {FILES + 1} {verb}"
    assert (first.returncode, first.stderr.splitlines()[-1]) == (DONE, f"{files}, 0 failed")
    whole = contents(tmp_path / "out")
    assert len(whole) == FILES + 1
    again = unwindkit(*command(name, tree, tmp_path / "out"))
    assert again.stderr.splitlines()[-1] == f"{files} ({FILES + 1} by an earlier run), 0 failed"
    assert str(tmp_path / "out") not in again.stderr, "no message about what is done"
    removed, changed, cut = sorted(path for path in (tmp_path / "out").rglob("*program1*") if path.is_file())[-3:]
    removed.unlink()
    changed.write_bytes(changed.read_bytes()[:-1] + b"?")
    cut.write_bytes(cut.read_bytes()[:-1])
    assert contents(tmp_path / "out") != whole
    third = unwindkit(*command(name, tree, tmp_path / "out"))
    assert third.returncode == DONE
    assert contents(tmp_path / "out") == whole


def test_other_options_and_other_content_are_done_again(tree: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(tree, tmp_path / "copy"))
    out = tmp_path / "out"
    assert unwindkit(*command("sframe", copy, out)).returncode == DONE
    version2 = contents(out)
    done = unwindkit(*command("sframe", copy, out), "--sframe-version", "3")
    assert f"{FILES + 1} written, 0 failed" in done.stderr
    assert all(version2[name] != data for name, data in contents(out).items())
    changed = copy / "0" / "program0"
    changed.write_bytes(changed.read_bytes() + b"x")
    done = unwindkit(*command("sframe", copy, out), "--sframe-version", "3")
    assert f"({FILES} by an earlier run)" in done.stderr


def test_gates_and_reports_include_what_is_skipped(tree: Path, tmp_path: Path) -> None:
    arguments = (*command("sframe", tree, tmp_path / "out"), "--min-coverage", "90")
    reports = [tmp_path / "one.json", tmp_path / "two.json"]
    for report in reports:
        assert unwindkit(*arguments, "--report", report).returncode == DIFFERENT
    assert reports[0].read_text() == reports[1].read_text()
    assert len(json.loads(reports[0].read_text())) == FILES + 1


def test_failures_are_tried_again(tree: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_bytes(tiny_elf(CODE, Content(".eh_frame", CFI.data[:-1])))
    arguments = ("sframe", broken, *command("sframe", tree / "0" / "program0", tmp_path / "out")[1:])
    for again in ("", " (1 by an earlier run)"):
        done = unwindkit(*arguments)
        assert (done.returncode, done.stderr.splitlines()[-1]) == (WRONG, f"2 files: 1 written{again}, 1 failed")
    lines = [json.loads(line) for line in (tmp_path / "manifest").read_text().splitlines()]
    assert [sorted(one) for one in lines] == [["failure"], ["key", "outputs", "report"], ["failure"]]


def test_a_torn_last_line_is_cut_off_and_other_damage_is_an_error(tree: Path, tmp_path: Path) -> None:
    arguments = command("sframe", tree, tmp_path / "out")
    assert unwindkit(*arguments).returncode == DONE
    manifest = tmp_path / "manifest"
    whole = manifest.read_bytes()
    lines = whole.splitlines(keepends=True)
    for cut in (1, len(lines[-1]) // 2, len(lines[-1]) - 1):
        manifest.write_bytes(whole[:-cut])
        assert f"({FILES} by an earlier run)" in unwindkit(*arguments).stderr
        assert sorted(manifest.read_bytes().splitlines()) == sorted(whole.splitlines())
    manifest.write_bytes(whole + b"{" * 5000)
    assert f"({FILES + 1} by an earlier run)" in unwindkit(*arguments).stderr
    assert manifest.read_bytes() == whole
    for line in (b"{}\n", b"[1]\n", b"no JSON\n", lines[0].replace(b'"outputs":{"', b'"outputs":{"../')):
        manifest.write_bytes(lines[0] + line + lines[1])
        done = unwindkit(*arguments)
        assert done.returncode == WRONG
        assert f"line 2: {manifest} is no manifest, or is damaged" in done.stderr


def test_two_runs_do_not_use_one_manifest(tree: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "manifest"
    with manifest.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = unwindkit(*command("sframe", tree, tmp_path / "out"))
        assert done.returncode == WRONG
        assert f"manifest: {manifest} is in use by another run" in done.stderr
    assert unwindkit(*command("sframe", tree, tmp_path / "out")).returncode == DONE


def test_temporary_files_are_removed_unless_another_run_may_write_them(tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    left = out / "deep" / ".unwindkit-left"
    left.parent.mkdir(parents=True)
    left.write_text("half")
    handle = os.open(out, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_SH)
    assert unwindkit(*command("sframe", tree, out)).returncode == DONE
    assert left.exists()
    os.close(handle)
    assert unwindkit(*command("sframe", tree, out)).returncode == DONE
    assert not left.exists()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("whole_group", [True, False])
def test_killed_runs_and_one_that_ends_give_what_an_undisturbed_run_gives(
    name: str, whole_group: bool, tree: Path, tmp_path: Path
) -> None:
    started = time.monotonic()
    done = subprocess.run(line_of(name, tree, tmp_path / "alone" / "out"), capture_output=True, check=True)
    seconds = time.monotonic() - started
    out = tmp_path / "killed" / "out"
    moments = random.Random(name)
    for _ in range(KILLS):
        running = subprocess.Popen(line_of(name, tree, out), stderr=subprocess.DEVNULL, start_new_session=True)
        time.sleep(seconds * moments.uniform(0.3, 0.95))
        kill = os.killpg if whole_group else os.kill
        kill(running.pid, signal.SIGKILL)
        running.wait()
    subprocess.run(line_of(name, tree, out), capture_output=True, check=True)
    assert contents(out) == contents(tmp_path / "alone" / "out")
    assert done.stderr.count(b"\n") > FILES


def line_of(name: str, tree: Path, out: Path) -> list[str]:
    out.parent.mkdir(exist_ok=True)
    return [sys.executable, "-m", "unwindkit", *map(str, command(name, tree, out)), "-j", "2"]


def test_a_file_that_takes_too_long_or_too_much_memory_fails_by_name(tree: Path, tmp_path: Path) -> None:
    program = tree / "0" / "program0"
    done = unwindkit("sframe", program, "--output-dir", tmp_path / "out", "--time-limit", "0.000001")
    assert f"unwindkit: {program}: took longer than --time-limit\n" in done.stderr
    done = unwindkit("sframe", program, "--output-dir", tmp_path / "out", "--memory-limit", "1M")
    assert (done.returncode, contents(tmp_path)) == (WRONG, {})
    assert f"unwindkit: {program}: not enough memory\n" in done.stderr
    limits = ("--time-limit", "60", "--memory-limit", "2G")
    assert unwindkit("sframe", program, "--output-dir", tmp_path / "out", *limits).returncode == DONE
    for option, value in {"--time-limit": "0", "--memory-limit": "x", "--member-limit": "1T"}.items():
        done = unwindkit("sframe", program, "--output-dir", tmp_path / "out", option, value)
        assert (done.returncode, f"argument {option}: '{value}' is not a" in done.stderr) == (WRONG, True)


def test_results_inside_the_folder_of_the_sources_are_not_sources(built_program: Path, tmp_path: Path) -> None:
    for command, option in (("sframe", "--output-dir"), ("breakpad", "--store")):
        folder = tmp_path / command
        folder.mkdir()
        shutil.copy(built_program, folder / "program")
        for _ in range(2):
            done = unwindkit(command, folder, option, folder / "out")
            assert done.stderr.splitlines()[-1].startswith("1 file:"), done.stderr
            assert done.returncode == DONE, done.stderr
