"""What runs inside the namespaces: `python inside.py JOBS` runs each program and loads each library of the file JOBS
(JSON: `programs`, `libraries`), and prints their outcomes as JSON. It needs Python's own library only."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TIMEOUT = 5.0
SHOWN = 1 << 16


def answers(program: str) -> list[list[object]]:
    """What a program says to --version and to --help: its exit status and both outputs."""
    return [_answer(program, option) for option in ("--version", "--help")]


def _answer(program: str, option: str) -> list[object]:
    environment = {"PATH": "/usr/bin:/usr/sbin", "HOME": os.getcwd(), "LANG": "C.UTF-8", "TERM": "dumb"}
    try:
        with subprocess.Popen(
            [program, option],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        ) as process:
            try:
                out, err = process.communicate(timeout=TIMEOUT)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                return ["no end"]
            return [process.returncode, *(text[:SHOWN].decode(errors="backslashreplace") for text in (out, err))]
    except OSError as error:
        return [f"cannot run: {error.strerror}"]


def loads(library: str) -> str:
    """Whether the dynamic linker loads a library with all its symbols bound: "", its error, or the signal."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(int(TIMEOUT))
        silent = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(silent, number)
        try:
            ctypes.CDLL(library, os.RTLD_NOW)
        except OSError as error:
            os.write(write, str(error).encode()[:4000])
        os.kill(os.getpid(), signal.SIGKILL)  # no destructors
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        text = pipe.read().decode(errors="backslashreplace")
    status = os.waitpid(child, 0)[1]
    return text if os.WTERMSIG(status) == signal.SIGKILL else f"signal {os.WTERMSIG(status)}"


def main() -> None:
    """Run all."""
    jobs = json.loads(Path(sys.argv[1]).read_text())
    # Before there are threads.
    loaded = {one: loads(one) for one in jobs["libraries"]}
    with ThreadPoolExecutor(2) as pool:
        answered = dict(zip(jobs["programs"], pool.map(answers, jobs["programs"]), strict=True))
    json.dump({"programs": answered, "libraries": loaded}, sys.stdout)


if __name__ == "__main__":
    main()
