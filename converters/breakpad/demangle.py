"""Demangling of C++ and Rust symbol names.

Strategy: the C++ runtime's own demangler demangles C++. Rust names are recognised by their form and demangled by a
library, which also demangles C++ if there is no C++ runtime. A name that neither can demangle is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

# Rust's legacy scheme is C++'s with a hash at the end of the name; its v0 scheme has a prefix of its own.
_RUST = re.compile(r"_R[A-Z0-9]|_ZN.*17h[0-9a-f]{16}E")
_MANGLED = ("_Z", "_R")
RUNTIMES = ("libstdc++.so.6", "libc++abi.so.1")


def demangle_names(names: Iterable[str]) -> list[str]:
    """Each name without its version (`@@GLIBC_2.34`), demangled if it is mangled."""
    found = []
    with _cplusplus() as demangle_cplusplus:
        for name in names:
            if "@" in name:
                name = name.partition("@")[0] or name
            if name.startswith(_MANGLED):
                is_rust = ("17h" in name or name.startswith("_R")) and _RUST.match(name)
                name = (_demangle_rust if is_rust else demangle_cplusplus)(name)
            found.append(name)
    return found


@contextmanager
def _cplusplus() -> Iterator[Callable[[str], str]]:
    """The demangler of the first C++ runtime found (Itanium C++ ABI, __cxa_demangle).

    All names share one output buffer, from malloc(), which the runtime reallocates when a name needs more.
    """
    import ctypes

    libraries = []
    for name in RUNTIMES:
        with suppress(OSError):
            libraries.append(ctypes.CDLL(name))
    if not libraries:
        yield _demangle_rust
        return
    demangle, free, buffer = libraries[0]["__cxa_demangle"], ctypes.CDLL(None)["free"], ctypes.c_void_p()
    demangle.restype, demangle.argtypes = ctypes.c_void_p, [ctypes.c_char_p, *[ctypes.c_void_p] * 3]
    free.restype, free.argtypes = None, [ctypes.c_void_p]
    size = ctypes.c_size_t()
    size_address = ctypes.addressof(size)

    def demangle_cplusplus(name: str) -> str:
        mangled = name.encode("utf-8", "surrogateescape")
        found = demangle(mangled, buffer.value, size_address if buffer.value else None, None)
        if not found:
            return name
        text = ctypes.string_at(found)
        if not buffer.value:
            size.value = len(text) + 1
        buffer.value = found
        return text.decode("utf-8", "surrogateescape")

    try:
        yield demangle_cplusplus
    finally:
        free(buffer)


def _demangle_rust(name: str) -> str:
    import demangle

    return str(demangle.demangle(name))
