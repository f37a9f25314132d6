"""Failures while a file is written in place: no space, no permission, a kill. The old file is intact each time.

Strategy: a small tmpfs in a separate mount namespace is full, or read-only; without such namespaces, a limit of the
file size, or a folder's mode. The kills come at seeded random times, half of them measured from the start and half
from the creation of the temporary file.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from ..support.commands import DONE, WRONG, unwindkit
from ..support.programs.elf_programs import DEBUG, Built, headers, run

SFRAME = (sys.executable, "-m", "unwindkit", "sframe", "--in-place")
MEGABYTE = 1 << 20


def has_namespaces() -> bool:
    """Whether we may mount in a new namespace."""
    return shutil.which("unshare") is not None and run("unshare", "-rm", "true")[0] == 0


def in_tmpfs(folder: Path, size: int, program: Path, script: str) -> list[str]:
    """Lines that a shell script prints, in a namespace with a tmpfs of `size` bytes at `folder`; $F is a copy of the
    program in it, and `sframe` runs the command on it and prints its messages and exit status."""
    start = f'set -e; mount -t tmpfs -o size={size} tmpfs "$D"; F="$D/program"; cp "$P" "$F"; cd "$D"'
    function = 'sframe() { set +e; "$@" "$F" 2>&1; echo "status $?"; set -e; }'
    command = ["unshare", "-rm", "bash", "-c", f"{start}; {function}; {script}", "bash", *SFRAME]
    status, text = run(*command, D=str(folder), P=str(program))
    assert status == 0, text
    return text.splitlines()


@pytest.fixture(name="program")
def _program(built: Built, tmp_path: Path) -> Path:
    """A program with a megabyte appended, alone in its folder."""
    path = tmp_path / "folder" / "program"
    path.parent.mkdir()
    path.write_bytes(built(DEBUG).read_bytes() + random.Random(1).randbytes(MEGABYTE))
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("room", [0, 4096, MEGABYTE // 2, MEGABYTE])
def test_full_disk_leaves_the_old_file(room: int, program: Path, tmp_path: Path) -> None:
    """`room` bytes, in whole pages, are free besides the file; its copy needs more."""
    if not has_namespaces():
        pytest.skip("no mount namespaces here: the next test limits the size of files")
    disk = tmp_path / "disk"
    disk.mkdir()
    used = -(-program.stat().st_size // 4096) * 4096
    script = 'sframe "$@"; cmp "$F" "$P" && echo same; ls -A'
    lines = in_tmpfs(disk, used + room, program, script)
    assert lines == [f"unwindkit: {disk}/program: No space left on device", f"status {WRONG}", "same", "program"]


@pytest.mark.parametrize("limit", [0, 4096, MEGABYTE // 2, MEGABYTE + 4096])
def test_file_that_may_not_become_as_long_leaves_the_old_one(limit: int, program: Path) -> None:
    before = program.read_bytes()
    # Python ignores SIGXFSZ.
    done = unwindkit(
        "sframe",
        "--in-place",
        program,
        before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert (done.returncode, done.stderr) == (WRONG, f"unwindkit: {program}: File too large\n")
    assert program.read_bytes() == before
    assert os.listdir(program.parent) == ["program"]


def test_enough_room_is_enough(program: Path, tmp_path: Path) -> None:
    """What the two tests above lack: with space for a copy the file is written."""
    if not has_namespaces():
        pytest.skip("no mount namespaces here")
    disk = tmp_path / "disk"
    disk.mkdir()
    lines = in_tmpfs(disk, 3 * MEGABYTE, program, 'sframe "$@"; cmp -s "$F" "$P" || echo other; ls -A')
    assert lines[-3:] == [f"status {DONE}", "other", "program"]


def test_read_only_folder_leaves_the_old_file(program: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if has_namespaces():
        script = 'mount -o remount,ro "$D"; sframe "$@"; cmp "$F" "$P" && echo same; ls -A'
        first, *lines = in_tmpfs(disk, 4 * MEGABYTE, program, script)
        assert first.startswith(f"unwindkit: {disk}/")
        assert first.endswith(": Read-only file system")
        assert lines == [f"status {WRONG}", "same", "program"]
    elif os.geteuid() != 0:
        before = program.read_bytes()
        program.parent.chmod(0o555)
        done = unwindkit("sframe", "--in-place", program)
        program.parent.chmod(0o755)
        assert (done.returncode, done.stdout) == (WRONG, "")
        assert done.stderr.endswith(": Permission denied\n")
        assert program.read_bytes() == before
        assert os.listdir(program.parent) == ["program"]
    else:
        pytest.skip("no mount namespaces here, and all folders are root's to write")


# --- kill -9 ----------------------------------------------------------------------------------------------------

KILLS = 20


def temporaries(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name.startswith(".unwindkit-")]


def started(program: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*SFRAME, program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def wait_for_temporary(process: subprocess.Popen[bytes], folder: Path) -> bool:
    """Wait until it writes; return whether it did before it ended."""
    while not temporaries(folder):
        if process.poll() is not None:
            return False
        time.sleep(0.0005)
    return True


def durations(program: Path) -> tuple[float, float]:
    """Seconds that a whole run takes, and seconds from its first write to its end."""
    start = time.monotonic()
    process = started(program)
    wait_for_temporary(process, program.parent)
    middle = time.monotonic()
    assert process.wait() == DONE
    return time.monotonic() - start, time.monotonic() - middle


def kills(program: Path, whole: float, writing: float) -> Iterator[bool]:
    """Start runs and kill each; yield whether it was still running. The caller inspects and removes what a run left
    before the next."""
    chance = random.Random(20261121)
    for number in range(KILLS):
        process = started(program)
        if number % 2 == 0:
            time.sleep(chance.uniform(0, whole))
        elif wait_for_temporary(process, program.parent):
            time.sleep(chance.uniform(0, writing))
        process.kill()
        yield process.wait() == -signal.SIGKILL


def test_killed_at_any_moment_it_leaves_the_old_file_or_the_new_one(built: Built, tmp_path: Path) -> None:
    program, folder = tmp_path / "folder" / "program", tmp_path / "folder"
    folder.mkdir()
    # Appended bytes take their time to be copied and compared.
    old = built(DEBUG).read_bytes() + random.Random(2).randbytes(32 * MEGABYTE)
    program.touch()
    program.chmod(0o755)
    measured = []
    for _ in range(3):
        program.write_bytes(old)
        measured.append(durations(program))
    # The shortest: measured on a busy machine, most kills would come after the end.
    whole, writing = map(min, zip(*measured, strict=True))
    new = program.read_bytes()
    assert ".sframe" in dict(headers(program)[1])
    assert run(program, "operand")[0] == 3

    program.write_bytes(old)
    killed = left = 0
    for was_there in kills(program, whole, writing):
        found = program.read_bytes()
        assert found in (old, new)
        names = temporaries(folder)
        assert sorted(os.listdir(folder)) == sorted(["program", *names])
        assert len(names) <= 1
        assert program.stat().st_mode & 0o7777 == 0o755
        killed, left = killed + was_there, left + len(names)
        for name in names:
            (folder / name).unlink()
        if found != old:
            program.write_bytes(old)
    assert killed >= KILLS / 2, "most moments are within the run"
    assert left >= 3, "some are within the writing"


@pytest.mark.parametrize(
    "command",
    [
        ("sframe", "--section"),
        ("breakpad", "-o"),
    ],
    ids=" ".join,
)
def test_what_is_no_file_is_written_to_and_stays(command: tuple[str, str], built_program: Path, tmp_path: Path) -> None:
    """A pipe replaces /dev/null, which a rename by root would break for everyone."""
    program = built_program
    expected, pipe = tmp_path / "expected", tmp_path / "pipe"
    name, option = command
    assert unwindkit(name, program, option, expected).returncode == 0
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    done = unwindkit(name, program, option, pipe)
    reader.join()
    assert (done.returncode, read) == (0, [expected.read_bytes()])
    assert pipe.is_fifo()
    assert unwindkit(name, program, option, "/dev/null").returncode == 0
    assert Path("/dev/null").is_char_device()
