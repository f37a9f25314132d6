"""Names of C++ and Rust symbols as people write them.

Strategy: the C++ runtime's own demangler does C++; what Rust writes is told apart by its shape and left to a library
that knows it, which does C++ too where there is no such runtime. A name that nobody can read stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache

# A hash ends a name in Rust's older scheme, which is C++'s otherwise; the newer scheme begins in its own way.
_RUST = re.compile(r"_R[A-Z0-9]|_ZN.*17h[0-9a-f]{16}E")
_MANGLED = ("_Z", "_R")


def demangled(names: Iterable[str]) -> list[str]:
    """Each name, demangled where it is mangled; versions (`@@GLIBC_2.34`) are no part of names."""
    of_cplusplus, of_rust = _cplusplus(), _rust
    found = []
    for name in names:
        if "@" in name:
            name = name.partition("@")[0] or name
        if name.startswith(_MANGLED):
            is_rust = ("17h" in name or name.startswith("_R")) and _RUST.match(name)
            name = (of_rust if is_rust else of_cplusplus)(name)
        found.append(name)
    return found


@cache
def _cplusplus() -> Callable[[str], str]:
    import cxxfilt

    def readable(name: str) -> str:
        try:
            return str(cxxfilt.demangle(name))
        except (cxxfilt.InvalidName, UnicodeError):
            return name

    try:
        cxxfilt.demangle("_Z1fv")
    except cxxfilt.LibraryNotFound:
        return _rust
    return readable


def _rust(name: str) -> str:
    import demangle

    return str(demangle.demangle(name))
