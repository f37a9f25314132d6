"""walk_process on programs that run: gdb's frames, and the program goes on as before, whatever state it was in."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import unwindkit
from unwindkit import DebugFiles, ParseError, Places, WalkEnd
from unwindkit.execution import stopped_process

from ..support.commands import WRONG
from ..support.commands import unwindkit as command
from ..support.oracles import absent
from ..support.programs.executed_programs import built

NO_LINKS = Places(debug=DebugFiles(links=False))
# Two threads wait in calls, one counts. SIGUSR1 is counted, too; with an argument, the first thread ends.
SOURCE = r"""
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline))
volatile long counted, signals;
static void on_signal(int n) { signals++; }
NOINLINE int leaf(int n) { for (;;) pause(); return n + 1; }
NOINLINE int middle(int n) { return leaf(n) * 2; }
static void *counting(void *p) { for (;;) counted++; }
static void *waiting(void *p) { middle(3); return 0; }
int main(int argc, char **argv) {
    pthread_t thread;
    signal(SIGUSR1, on_signal);
    pthread_create(&thread, 0, counting, 0);
    pthread_create(&thread, 0, waiting, 0);
    printf("%p %p\n", (void *)&counted, (void *)&signals);
    fflush(stdout);
    if (argc > 1) pthread_exit(0);
    return middle(1);
}
"""


@pytest.fixture(autouse=True)
def tracing() -> None:
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64", "s390x"):
        absent("running processes are walked on Linux")


@pytest.fixture(scope="module", name="program")
def program_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("live"), SOURCE, "gcc", "-pthread")


class Running:
    """The program, and the two numbers in its memory."""

    def __init__(self, *command: str | Path) -> None:
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.places = [int(text, 16) for text in self.process.stdout.readline().split()]
        self.pid = self.process.pid

    def number(self, index: int) -> int:
        with open(f"/proc/{self.pid}/mem", "rb", buffering=0) as memory:
            return int.from_bytes(os.pread(memory.fileno(), 8, self.places[index]), sys.byteorder)

    def states(self) -> set[str]:
        """The states of the threads: R, S, T for stopped, t for traced."""
        files = Path(f"/proc/{self.pid}/task").glob("*/stat")
        return {file.read_text().rpartition(")")[2].split()[0] for file in files}

    def counts(self) -> bool:
        """Whether the counting thread runs."""
        before = self.number(0)
        return within(lambda: self.number(0) != before)


def within(is_so: Callable[[], bool], seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while not (found := is_so()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return found


@pytest.fixture(name="running")
def running_fixture(program: Path) -> Iterator[Running]:
    found = Running(program)
    within(lambda: found.states() == {"S", "R"})
    yield found
    found.process.kill()
    found.process.communicate()


@pytest.mark.oracle("gdb", "gcc")
def test_frames_are_gdbs_and_the_process_goes_on(running: Running) -> None:
    found = unwindkit.walk_process(running.pid, places=NO_LINKS)
    assert running.states() <= {"S", "R"}
    assert running.counts()
    script = ["-ex", "set backtrace past-main on", "-ex", "thread apply all -q bt -frame-info location-and-address"]
    printed = subprocess.run(["gdb", "-batch", "-nx", *script, "-p", str(running.pid)], capture_output=True, text=True)
    assert "__clone3" in printed.stdout or "clone" in printed.stdout
    names = [[frame.names[0].function for frame in thread.frames] for thread in found.threads]
    assert [thread.end for thread in found.threads] == [WalkEnd.OUTERMOST] * 3
    assert [one for one in names[0] if one in ("leaf", "middle", "main", "_start")] == [
        *("leaf", "middle", "main", "_start"),
    ]
    assert names[1][0] == "counting"
    assert [one for one in names[2] if one in ("leaf", "middle", "waiting")] == ["leaf", "middle", "waiting"]
    for thread in (found.threads[0], found.threads[2]):
        for frame in thread.frames[1:]:
            assert f"{frame.walked.frame.pc:#018x}" in printed.stdout


@pytest.mark.oracle("gcc")
def test_a_stopped_process_stays_stopped(running: Running) -> None:
    os.kill(running.pid, signal.SIGSTOP)
    assert within(lambda: running.states() == {"T"})
    assert len(unwindkit.walk_process(running.pid, places=NO_LINKS).threads) == 3
    assert running.states() == {"T"}
    os.kill(running.pid, signal.SIGCONT)
    assert running.counts()


@pytest.mark.oracle("gcc")
def test_signals_are_not_lost(running: Running) -> None:
    """Each arrives before the next one is sent; some of them while the process is being stopped."""
    for number in range(1, 21):
        os.kill(running.pid, signal.SIGUSR1)
        unwindkit.walk_process(running.pid, places=NO_LINKS, limit=1)
        assert within(lambda: running.number(1) == number), number  # noqa: B023


@pytest.mark.oracle("gcc")
def test_a_first_thread_that_ended(program: Path) -> None:
    running = Running(program, "end")
    try:
        assert within(lambda: "Z" in running.states())
        found = unwindkit.walk_process(running.pid, places=NO_LINKS)
        assert [thread.frames[0].names[0].function for thread in found.threads][:1] == ["counting"]
        assert len(found.threads) == 2
        # The thread that sleeps may not have gone on yet.
        assert within(lambda: running.states() == {"Z", "R", "S"})
    finally:
        running.process.kill()
        running.process.communicate()


@pytest.mark.oracle("gcc")
def test_a_thread_that_does_not_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parent of a vfork waits for its child and takes no signal."""
    source = "#include <unistd.h>\nint main() { puts_(); if (vfork() == 0) { pause(); _exit(0); } return 0; }"
    source = source.replace("puts_();", 'write(1, "0\\n", 2);')
    running = Running(built(tmp_path, source, "gcc"))
    child = running.pid
    try:
        children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
        assert within(lambda: running.states() == {"D"} and bool(children.read_text().split()))
        child = int(children.read_text().split()[0])
        monkeypatch.setattr(stopped_process, "PATIENCE", 0.05)
        with pytest.raises(TimeoutError, match="does not stop"):
            unwindkit.walk_process(running.pid)
        os.kill(child, signal.SIGKILL)
        assert running.process.wait(20) == 0  # nothing holds it
    finally:
        running.process.kill()
        running.process.communicate()


def test_no_such_process_and_one_that_cannot_be_traced() -> None:
    ended = subprocess.Popen(["/bin/true"])
    ended.wait()
    with pytest.raises(ProcessLookupError):
        unwindkit.walk_process(ended.pid)
    with pytest.raises(ProcessLookupError):
        unwindkit.walk_process((1 << 31) - 1)
    with pytest.raises(PermissionError, match="not permitted"):
        unwindkit.walk_process(os.getpid())  # itself
    done = command("walk", "--pid", str(ended.pid))
    assert (done.returncode, done.stderr) == (WRONG, f"unwindkit: process {ended.pid}: No such process\n")
    for wrong in (("--pid", "0"), (), ("core", "--pid", "1")):
        assert command("walk", *wrong).returncode == WRONG


@pytest.mark.oracle("gcc")
def test_a_process_that_is_traced_already(running: Running) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.ptrace(stopped_process._SEIZE, running.pid, None, None) == 0
    with pytest.raises(PermissionError) as caught:
        unwindkit.walk_process(running.pid)
    assert caught.value.errno == errno.EPERM
    assert running.counts()


@pytest.mark.oracle("gcc")
def test_the_command(running: Running) -> None:
    done = command("walk", "--pid", str(running.pid), "--json", "--no-debug-links")
    assert (done.returncode, done.stderr) == (0, "")
    printed = json.loads(done.stdout)
    assert printed["architecture"] == platform.machine()
    assert printed["threads"][0]["pid"] == running.pid
    assert {thread["end"] for thread in printed["threads"]} == {"OUTERMOST"}


def test_a_process_of_another_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(ParseError, match="not supported here"):
        unwindkit.walk_process(os.getpid())
