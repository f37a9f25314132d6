"""The command in processes that are forked from one in which it is loaded already.

Strategy: Python, NumPy and the package take a quarter of a second to load, and the tests run the command hundreds of
times. So one process, a session, loads them and waits; for each run it forks, and the child takes over the arguments,
environment, folder and output of that run and goes on as `python -m unwindkit` does. Which engine is used, and all
else that a run decides, is decided behind the fork. Tests of how the command starts, of what it does not load, and of
what limits and signals do to it run `python -m unwindkit` itself.
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
from typing import NoReturn

WARNINGS = {"PYTHONWARNINGS": "error"}
MAX_REQUEST = 1 << 17
COMMAND = "unwindkit"


class LoadedCommand:
    """The waiting process, and the way to it."""

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
        """Run the command once, in the folder that this process is in."""
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
    """The one of this session."""
    return LoadedCommand()


def wait_for_a_run(channel: socket.socket) -> list[str] | None:
    """Fork for each run; in the child its arguments, with all else set up, and None when there are no more."""
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
    """Import whatever a run may need, lief with it."""
    import unwindkit

    for module in pkgutil.walk_packages(unwindkit.__path__, f"{COMMAND}."):
        if not module.name.endswith(("__main__", "strategies")):
            importlib.import_module(module.name)
    importlib.import_module("lief")


def run_and_end(arguments: list[str]) -> NoReturn:
    """What `python -m unwindkit` does; but the interpreter is not taken apart, which takes longer than most runs."""
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
    """What the waiting process does."""
    load_all()
    gc.freeze()  # so that a child copies less
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        arguments = wait_for_a_run(channel)
    if arguments is not None:
        run_and_end(arguments)
    os._exit(0)


if __name__ == "__main__":
    main()
