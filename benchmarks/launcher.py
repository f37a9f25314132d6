"""Starts one program and prints what it used, as JSON: `python -I -S launcher.py CPU_SECONDS PROGRAM ARGUMENT...`.

Strategy: Linux shows a child's peak memory no lower than its parent's was at the fork, so the parent has to be small:
a process that imports next to nothing, started anew for each run. The program's output is discarded.
"""

import os
import resource
import sys
import time


def peak_of_this_process() -> int:
    """Bytes: VmHWM of /proc/self/status; getrusage would include the memory of this process's own parent."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))


def main(limit: int, command: list[str]) -> None:
    """Run the command to its end; after `limit` seconds of processor time it gets SIGXCPU."""
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
    silence = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
    start = time.perf_counter()
    child = os.posix_spawn(command[0], command, os.environ, file_actions=[silence])
    _, status, used = os.wait4(child, 0)
    wall = time.perf_counter() - start
    figures = {
        "wall": wall,
        "user": used.ru_utime,
        "system": used.ru_stime,
        "peak": used.ru_maxrss * 1024,
        "floor": peak_of_this_process(),
        "exit_code": os.waitstatus_to_exitcode(status),
    }
    # Only names and plain numbers: this is JSON without the json module, whose import would cost memory.
    print("{" + ", ".join(f'"{name}": {value}' for name, value in figures.items()) + "}")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
