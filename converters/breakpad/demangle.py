"""Demangling of C++, Rust, D and Swift symbol names.

Strategy: kernels demangle the usual names of C++ and Rust, and the C++ runtime's own demangler most others of C++. A
library demangles the rest, names of D and Swift, and also C++ if there is no C++ runtime. A name that none of them can
demangle is kept. The kernel writes C++ as the runtime or the library would, whichever is chosen for that name, so both
engines find the same text.

The runtime has no limit, and ten more characters can double what it writes. Names in which substitutions may multiply,
or that may be nested deeply, go to a process with limits if they are many, else to the library, which stops at a limit
before the text exists.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ..kernels import engine
from .itanium import demangle_itanium
from .rust import demangle_rust

# Rust's legacy scheme is C++'s with a hash at the end of the name; its v0 scheme has a prefix of its own.
_RUST = re.compile(r"_R[A-Z0-9]|_ZN.*17h[0-9a-f]{16}E")
# D's names, and Swift's since version 4.2.
_OTHERS = ("_D", "$s", "_$s", "$S", "_$S")
MANGLED = ("_Z", "_R", *_OTHERS)
# What the library calls the schemes of these names.
_SCHEMES = ("itanium", "rust", "d", "swift")

# The most characters of a demangled name for each one of the mangled name. Of 67,000 names of libstdc++, libLLVM and
# libxul the longest has 4,272, and the highest ratio is 16.7; of 12,829 names of librados2 8,275 and 38.3.
MAX_EXPANSION = 64
# All names of a file together: their ratio is 1.7 in these libraries.
MAX_MEAN_EXPANSION, LEAST_EXPANSION = 8, 1 << 20
# Longer names remain mangled; the longest of these libraries has 545 characters.
MAX_MANGLED = 1 << 14
# A substitution or template parameter repeats at most all that is before it, and so doubles a name at most; a pack
# expansion repeats its pattern for each argument. A name with few of them is safe in the runtime, unless it is long:
# then it may be nested too deeply for the stack, and libstdc++ refuses it.
_REPEATS = re.compile(r"S[0-9A-Z]*_|T[0-9A-Z]*_")
_PACKS = ("Dp", "sp")
_PACK_DOUBLINGS, _MAX_DOUBLINGS = 4, 8
_MAX_DIRECT = 1024
# For this many names the library takes as long as a process takes to start. The runtime demangles more names.
_MANY = 32
# Characters that separate names, and unnamed types: the runtime of gcc 12 does not number them among substitutions.
_UNSENDABLE = re.compile(r"[\n\0]|U[lt]")
_BYTES = ("utf-8", "surrogateescape")


def demangle_names(names: Iterable[str]) -> list[str]:
    """Each name without its version (`@@GLIBC_2.34`), demangled if it is mangled.

    A name remains mangled that would exceed MAX_EXPANSION, or with which all names would exceed MAX_MEAN_EXPANSION.
    """
    found = [name.partition("@")[0] or name if "@" in name else name for name in names]
    which = [index for index, name in enumerate(found) if name.startswith(MANGLED) and len(name) <= MAX_MANGLED]
    allowance = LEAST_EXPANSION
    for index, text in zip(which, _demangle([found[index] for index in which]), strict=True):
        name = found[index]
        allowance += MAX_MEAN_EXPANSION * len(name)
        if len(text) <= min(MAX_EXPANSION * len(name), allowance):
            name = found[index] = text
        allowance -= len(name)
    return found


def _demangle(names: list[str]) -> Iterator[str]:
    """Mangled names, demangled."""
    usual = _usual(names)
    others = _demangle_others([name for name in names if name not in usual])
    return (usual.get(name) or next(others) for name in names)


def _demangle_others(names: list[str]) -> Iterator[str]:
    """Mangled names that are not of C++'s usual forms, demangled."""
    from .cplusplus import open_runtime  # it starts a process at times; most programs have no such names

    is_other = [name.startswith(_OTHERS) for name in names]
    is_rust = list(map(_is_rust, names))
    is_cplusplus = [not (is_one or is_two) for is_one, is_two in zip(is_rust, is_other, strict=True)]
    is_direct = [is_one and not _may_expand(name) for name, is_one in zip(names, is_cplusplus, strict=True)]
    limited = _with_limits(
        [name for name, is_one, is_two in zip(names, is_cplusplus, is_direct, strict=True) if is_one and not is_two]
    )
    rust = iter(demangle_rust([name for name, is_one in zip(names, is_rust, strict=True) if is_one], MAX_EXPANSION))
    with open_runtime() as runtime:
        for name, is_of_rust, is_one in zip(names, is_rust, is_direct, strict=True):
            if is_of_rust:
                yield next(rust) or _demangle_bounded(name)
            elif is_one and runtime is not None:
                # The runtime of GCC 12 cannot demangle all conversion operators of its own library.
                yield runtime(name.encode(*_BYTES)).decode(*_BYTES) or _demangle_bounded(name)
            else:
                yield limited.get(name) or _demangle_bounded(name)


def _is_rust(name: str) -> bool:
    """Whether a name has the form of one of Rust's schemes."""
    return ("17h" in name or name.startswith("_R")) and _RUST.match(name) is not None


def _usual(names: list[str]) -> dict[str, str]:
    """The texts of C++ names of the usual forms, as the C++ runtime or the library writes them."""
    # Uncompiled, the kernel is slower than both.
    if engine.chosen().name == "pure":
        return {}
    chosen = [name for name in names if name.startswith("_Z") and name.isascii() and not _is_rust(name)]
    text = "".join(chosen)
    if "\0" in text or "\n" in text:
        chosen = [name for name in chosen if "\0" not in name and "\n" not in name]
    by_runtime = [name for name in chosen if len(name) <= _MAX_DIRECT and "Ul" not in name and "Ut" not in name]
    by_library = [
        name for name in chosen if len(name) > _MAX_DIRECT or (("Ul" in name or "Ut" in name) and _may_expand(name))
    ]
    found: dict[str, str] = {}
    for some, is_whole in ((by_runtime, False), (by_library, True)):
        texts = demangle_itanium(some, MAX_EXPANSION, is_whole)
        found.update((name, text) for name, text in zip(some, texts, strict=True) if text)
    return found


def _may_expand(name: str) -> bool:
    """Whether the C++ runtime could make a mangled name very long, or recurse deeply."""
    if len(name) > _MAX_DIRECT:
        return True
    # Each repetition ends with an underscore.
    packs = _PACK_DOUBLINGS * sum(map(name.count, _PACKS))
    return name.count("_") + packs > _MAX_DOUBLINGS and len(_REPEATS.findall(name)) + packs > _MAX_DOUBLINGS


def _with_limits(names: list[str]) -> dict[str, str]:
    """The texts of those names that a process with limits demangles, if they are many."""
    sent = [name for name in names if len(name) <= _MAX_DIRECT and not _UNSENDABLE.search(name)]
    if len(sent) < _MANY:
        return {}
    from .cplusplus import demangle_with_limits

    answers = demangle_with_limits([name.encode(*_BYTES) for name in sent], MAX_EXPANSION)
    return {name: text.decode(*_BYTES) for name, text in zip(sent, answers, strict=False) if text}


def _demangle_bounded(name: str) -> str:
    """A name demangled by the library; itself, if the result would exceed MAX_EXPANSION or is nested too deeply."""
    import demangle

    # A power of two: the library caches its names by their limits.
    limits = demangle.Limits(max_output=MAX_EXPANSION << len(name).bit_length(), max_input=MAX_MANGLED)
    return str(demangle.demangle(name, language=_SCHEMES, style="gnu", limits=limits))
