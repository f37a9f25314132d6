"""The command in processes that are forked from one that has loaded it already.

Strategy: Python, NumPy and the package take a quarter of a second to load, and the tests run the command hundreds of
times. So one process per session loads them and waits; for each run it forks, and the child takes over the arguments,
environment, folder and output of that run and goes on as `python -m unwindkit` does. The engine, and all else
that depends on the run, is chosen after the fork. Tests of how the command starts, of what it does not load, and of
the effect of limits and signals run `python -m unwindkit` itself.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import pkgutil
import runpy
import socket
import subprocess
import sys
import tempfile
from contextlib import suppress
from typing import NoReturn

WARNINGS = {"PYTHONWARNINGS": "error"}
MAX_REQUEST = 1 << 17
COMMAND = "unwindkit"


class LoadedCommand:
    """The waiting process, and the connection to it."""

    def __init__(self) -> None:
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.process = subprocess.Popen(
            [sys.executable, "-P", __file__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env=os.environ | WARNINGS,
            stdin=subprocess.DEVNULL,
        )
        theirs.close()
        atexit.register(self.close)

    def close(self) -> None:
        """Let the process end."""
        self.channel.close()
        self.process.wait()

    def run(self, arguments: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """Run the command once, in this process's current folder."""
        request = json.dumps([arguments, environment, os.getcwd()]).encode()
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            socket.send_fds(self.channel, [request], [out.fileno(), err.fileno()])
            status = int(self.channel.recv(MAX_REQUEST))
            out.seek(0)
            err.seek(0)
            said = [file.read().decode(errors="surrogateescape") for file in (out, err)]
        return subprocess.CompletedProcess(arguments, os.waitstatus_to_exitcode(status), *said)


@functools.cache
def loaded_command() -> LoadedCommand:
    """The waiting process of this session."""
    return LoadedCommand()


def wait_for_a_run(channel: socket.socket) -> list[str] | None:
    """Fork for each run; returns its arguments in the child, with all else set up, and None when there are no more."""
    while True:
        request, descriptors, _, _ = socket.recv_fds(channel, MAX_REQUEST, 2)
        if not request:
            return None
        child = os.fork()
        if child == 0:
            arguments, environment, folder = json.loads(request)
            os.environ.clear()
            os.environ.update(environment)
            os.chdir(folder)
            for number, descriptor in enumerate(descriptors, 1):
                os.dup2(descriptor, number)
                os.close(descriptor)
            return list(arguments)
        for descriptor in descriptors:
            os.close(descriptor)
        channel.send(str(os.waitpid(child, 0)[1]).encode())


def load_all() -> None:
    """Import everything that a run may need, including lief."""
    import unwindkit

    for module in pkgutil.walk_packages(unwindkit.__path__, f"{COMMAND}."):
        if not module.name.endswith(("__main__", "strategies")):
            importlib.import_module(module.name)
    with suppress(ImportError):  # not every Python has it
        importlib.import_module("lief")


def run_and_end(arguments: list[str]) -> NoReturn:
    """Act as `python -m unwindkit`, but skip the interpreter's finalization, which takes longer than most runs."""
    sys.argv = [COMMAND, *arguments]
    code: object = None
    try:
        runpy.run_module(COMMAND, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else code is not None)


def main() -> None:
    """The main function of the waiting process."""
    load_all()
    gc.freeze()  # so that a child copies less
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        arguments = wait_for_a_run(channel)
    if arguments is not None:
        run_and_end(arguments)
    os._exit(0)


if __name__ == "__main__":
    main()
