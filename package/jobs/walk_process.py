"""The backtraces of a running process: the job of `unwindkit walk --pid`."""

from __future__ import annotations

import errno
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from ..converters.files.core_modules import AUTO, SOURCES, Places
from ..converters.files.walk_core import ANYWHERE, CoreTraces, WalkedProcess, name_frames, walk_threads
from ..converters.walk.backtrace import MAX_FRAMES, check_limit
from ..schemas.arguments import check_integer, checked, one_of

PID_LIMIT = 1 << 31  # pid_t


def _check_pid(value: int, name: str) -> None:
    check_integer(value, name)
    if not 0 < value < PID_LIMIT:
        raise ValueError(f"{name} is {value}, which is not the number of a process")


@checked(pid=_check_pid, source=one_of(*SOURCES), places=Places, limit=check_limit)
def walk_process(
    pid: int, source: str = AUTO, places: Places = ANYWHERE, *, lines: bool = False, limit: int = MAX_FRAMES
) -> CoreTraces:
    """The backtraces of all threads of a running process of this machine (Linux), as those of `walk_core`.

    All its threads are stopped while they are walked, not while names are looked up; then it runs on. Raises OSError if
    there is no such process, it cannot be traced or does not stop, and ParseError for a process of another machine.
    """
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), f"process {pid}")
    from ..execution.stopped_process import living_thread

    # Its files are in its own root folder.
    inside = f"/proc/{living_thread(pid)}/root"
    roots = [inside if os.fspath(one) == "/" else one for one in places.roots]
    with ThreadPoolExecutor(1) as pool:  # only the thread that stops the process can read and release it
        walked = pool.submit(_walk_stopped, pid, source, replace(places, roots=roots), limit).result()
    return name_frames(walked, lines=lines)


def _walk_stopped(pid: int, source: str, places: Places, limit: int) -> WalkedProcess:
    from ..execution.stopped_process import stopped_process

    with stopped_process(pid) as state:
        return walk_threads(state, source, places, limit)
