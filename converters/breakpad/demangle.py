"""Names of C++ and Rust symbols as people write them.

Strategy: the C++ runtime's own demangler does C++; what Rust writes is told apart by its shape and left to a library
that knows it, which does C++ too where there is no such runtime. A name that nobody can read stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

# A hash ends a name in Rust's older scheme, which is C++'s otherwise; the newer scheme begins in its own way.
_RUST = re.compile(r"_R[A-Z0-9]|_ZN.*17h[0-9a-f]{16}E")
_MANGLED = ("_Z", "_R")
RUNTIMES = ("libstdc++.so.6", "libc++abi.so.1")


def demangle_names(names: Iterable[str]) -> list[str]:
    """Each name, demangled where it is mangled; versions (`@@GLIBC_2.34`) are no part of names."""
    found = []
    with _cplusplus() as of_cplusplus:
        for name in names:
            if "@" in name:
                name = name.partition("@")[0] or name
            if name.startswith(_MANGLED):
                is_rust = ("17h" in name or name.startswith("_R")) and _RUST.match(name)
                name = (_rust if is_rust else of_cplusplus)(name)
            found.append(name)
    return found


@contextmanager
def _cplusplus() -> Iterator[Callable[[str], str]]:
    """The first C++ runtime that is there (Itanium C++ ABI, __cxa_demangle), with room of its own: the ABI lets names
    have the same one, from malloc(), which the runtime exchanges for more."""
    import ctypes

    libraries = []
    for name in RUNTIMES:
        with suppress(OSError):
            libraries.append(ctypes.CDLL(name))
    if not libraries:
        yield _rust
        return
    demangle, free, room = libraries[0]["__cxa_demangle"], ctypes.CDLL(None)["free"], ctypes.c_void_p()
    demangle.restype, demangle.argtypes = ctypes.c_void_p, [ctypes.c_char_p, *[ctypes.c_void_p] * 3]
    free.restype, free.argtypes = None, [ctypes.c_void_p]
    size = ctypes.c_size_t()
    place = ctypes.addressof(size)

    def readable(name: str) -> str:
        mangled = name.encode("utf-8", "surrogateescape")
        found = demangle(mangled, room.value, place if room.value else None, None)
        if not found:
            return name
        text = ctypes.string_at(found)
        if not room.value:
            size.value = len(text) + 1
        room.value = found
        return text.decode("utf-8", "surrogateescape")

    try:
        yield readable
    finally:
        free(room)


def _rust(name: str) -> str:
    import demangle

    return str(demangle.demangle(name))
