"""The demangler of the C++ runtime (Itanium C++ ABI, `__cxa_demangle`); as a program, in a process with limits.

Strategy: the runtime bounds neither its text nor its time, and ten more characters of a name can double both. Where
that may happen, the operating system bounds them: the program limits its own memory and time. It answers as it goes on,
so that only the answers after a name that ends it are missing. It runs without the package, which takes longer to
import than all names of a file to demangle.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

RUNTIMES = ("libstdc++.so.6", "libc++abi.so.1")
# What the process may use: it needs less than 1 second for 20 MB of names.
MEMORY, SECONDS = 1 << 28, 4
END = b"\n"
PART = 1 << 16


@contextmanager
def open_runtime() -> Iterator[Callable[[bytes], bytes] | None]:
    """The demangler of the first C++ runtime found, None if there is none: a name's text, b"" for one that it cannot
    demangle.

    All names share one output buffer, from malloc(), which the runtime reallocates when a name needs more.
    """
    libraries = []
    for name in RUNTIMES:
        with suppress(OSError):
            libraries.append(ctypes.CDLL(name))
    if not libraries:
        yield None
        return
    demangle, free, buffer = libraries[0]["__cxa_demangle"], ctypes.CDLL(None)["free"], ctypes.c_void_p()
    demangle.restype, demangle.argtypes = ctypes.c_void_p, [ctypes.c_char_p, *[ctypes.c_void_p] * 3]
    free.restype, free.argtypes = None, [ctypes.c_void_p]
    size = ctypes.c_size_t()
    size_address = ctypes.addressof(size)

    def demangle_one(name: bytes) -> bytes:
        found = demangle(name, buffer.value, size_address if buffer.value else None, None)
        if not found:
            return b""
        text = ctypes.string_at(found)
        if not buffer.value:
            size.value = len(text) + 1
        buffer.value = found
        return text

    try:
        yield demangle_one
    finally:
        free(buffer)


def demangle_with_limits(names: Sequence[bytes], expansion: int) -> list[bytes]:
    """The texts of names, demangled by a process with limits; b"" for a name that cannot be demangled, or whose text is
    more than `expansion` times as long. The last ones are missing if the limits were too low, and all if there is no
    process. No name may contain END."""
    if not (sys.executable and os.path.exists(__file__)):
        return []
    import subprocess  # by files with names of C++ only

    # Without site-packages, which take longer to find than all names to demangle.
    command = (sys.executable, "-I", "-S", __file__, str(expansion))
    try:
        ended = subprocess.run(
            command, input=END.join([*names, b""]), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
        )
    except OSError:
        return []
    return ended.stdout.split(END)[:-1]


def main(expansion: int) -> None:
    """Demangle the names of standard input, one each line, to standard output."""
    import resource

    for limit, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, SECONDS),
        (resource.RLIMIT_AS, MEMORY),
    ):
        resource.setrlimit(limit, (value, value))
    names, texts, size = sys.stdin.buffer.read().split(END)[:-1], [], 0
    with open_runtime() as demangle:
        if demangle is None:
            return
        for name in names:
            text = demangle(name)
            texts.append(text if len(text) <= expansion * len(name) and END not in text else b"")
            size += len(texts[-1])
            if size > PART:
                sys.stdout.buffer.write(END.join([*texts, b""]))
                sys.stdout.buffer.flush()
                texts, size = [], 0
    sys.stdout.buffer.write(END.join([*texts, b""]))


if __name__ == "__main__":
    main(int(sys.argv[1]))
