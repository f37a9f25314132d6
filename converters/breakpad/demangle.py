"""Demangling of C++ and Rust symbol names.

Strategy: the C++ runtime's own demangler demangles C++. Rust names are recognised by their form and demangled by a
library, which also demangles C++ if there is no C++ runtime. A name that neither can demangle is kept.

The runtime has no limit, and ten more characters can double what it writes. A name in which substitutions may multiply
goes to the library instead, which stops at a limit before the text exists. So does one that may be nested deeply.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

# Rust's legacy scheme is C++'s with a hash at the end of the name; its v0 scheme has a prefix of its own.
_RUST = re.compile(r"_R[A-Z0-9]|_ZN.*17h[0-9a-f]{16}E")
MANGLED = ("_Z", "_R")
# What the library calls the schemes of these names.
_SCHEMES = ("itanium", "rust")
RUNTIMES = ("libstdc++.so.6", "libc++abi.so.1")

# The most characters of a demangled name for each one of the mangled name. Of 67,000 names of libstdc++, libLLVM and
# libxul the longest has 4,272, and the highest ratio is 16.7.
MAX_EXPANSION = 32
# All names of a file together: their ratio is 1.7 in these libraries.
MAX_MEAN_EXPANSION, LEAST_EXPANSION = 8, 1 << 20
# Longer names remain mangled; the longest of these libraries has 545 characters.
MAX_MANGLED = 1 << 14
# A substitution or template parameter repeats at most all that is before it, and so doubles a name at most; a pack
# expansion repeats its pattern for each argument. A name with few of them is safe in the runtime, unless it is long:
# then it may be nested too deeply for the stack.
_REPEATS = re.compile(r"S[0-9A-Z]*_|T[0-9A-Z]*_")
_PACKS = ("Dp", "sp")
_PACK_DOUBLINGS, _MAX_DOUBLINGS = 4, 8
_MAX_DIRECT = 1024


def demangle_names(names: Iterable[str]) -> list[str]:
    """Each name without its version (`@@GLIBC_2.34`), demangled if it is mangled.

    A name remains mangled that would exceed MAX_EXPANSION, or with which all names would exceed MAX_MEAN_EXPANSION.
    """
    found = []
    allowance = LEAST_EXPANSION
    with _cplusplus() as demangle_cplusplus:
        for name in names:
            if "@" in name:
                name = name.partition("@")[0] or name
            if name.startswith(MANGLED) and len(name) <= MAX_MANGLED:
                is_rust = ("17h" in name or name.startswith("_R")) and _RUST.match(name)
                text = (_demangle_bounded if is_rust or _may_expand(name) else demangle_cplusplus)(name)
                allowance += MAX_MEAN_EXPANSION * len(name)
                if len(text) <= min(MAX_EXPANSION * len(name), allowance):
                    name = text
                allowance -= len(name)
            found.append(name)
    return found


def _may_expand(name: str) -> bool:
    """Whether the C++ runtime could make a mangled name very long, or recurse deeply."""
    doublings = len(_REPEATS.findall(name)) + _PACK_DOUBLINGS * sum(map(name.count, _PACKS))
    return doublings > _MAX_DOUBLINGS or len(name) > _MAX_DIRECT


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
        yield _demangle_bounded
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


def _demangle_bounded(name: str) -> str:
    """A name demangled by the library; itself, if the result would exceed MAX_EXPANSION or is nested too deeply."""
    import demangle

    # A power of two: the library caches its names by their limits.
    limits = demangle.Limits(max_output=MAX_EXPANSION << len(name).bit_length(), max_input=MAX_MANGLED)
    return str(demangle.demangle(name, language=_SCHEMES, style="gnu", limits=limits))
