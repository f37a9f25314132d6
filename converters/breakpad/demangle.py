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
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.text_records import bytes_from, text_from
from ..kernels import engine
from ..limits import raised
from ..strings import Strings, concatenate
from .itanium import demangle_itanium
from .name_forms import MAX_DIRECT, MAX_MANGLED, OTHERS, NameForm, forms_of, is_rust, may_expand
from .rust import demangle_rust

if TYPE_CHECKING:
    from numpy.typing import NDArray

    I64 = NDArray[np.int64]

NOTHING = -1

# What the library calls the schemes of these names.
_SCHEMES = ("itanium", "rust", "d", "swift")

# The most characters of a demangled name for each one of the mangled name. Of 67,000 names of libstdc++, libLLVM and
# libxul the longest has 4,272, and the highest ratio is 16.7; of 12,829 names of librados2 8,275 and 38.3.
MAX_EXPANSION = 64
# All names of a file together: their ratio is 1.7 in these libraries.
MAX_MEAN_EXPANSION, LEAST_EXPANSION = 8, 1 << 20
# For this many names the library takes as long as a process takes to start. The runtime demangles more names.
_MANY = 32
# Characters that separate names, and unnamed types.
_UNSENDABLE = re.compile(r"[\n\0]|U[lt]")
_BYTES = ("utf-8", "surrogateescape")


def demangle_names(names: Iterable[str]) -> list[str]:
    """Each name without its version (`@@GLIBC_2.34`), demangled if it is mangled: as `demangle`."""
    return list(map(text_from, demangle_symbols(Strings.of(map(bytes_from, names)))))


def demangle_symbols(names: Strings) -> Strings:
    """As `demangle_names`, of names as bytes."""
    joined = names.join(np.arange(len(names)))
    if b"@" in joined:
        names = Strings.of(name.partition(b"@")[0] or name for name in names)
    return demangle_strings(names)


def demangle_strings(names: Strings) -> Strings:
    """Names of UTF-8, each demangled if it is mangled.

    A name remains mangled that would exceed MAX_EXPANSION, or with which all names would exceed MAX_MEAN_EXPANSION.
    """
    form = forms_of(names)
    place, parts = np.full(len(names), NOTHING), [names]
    # Uncompiled, the kernel of C++ names is slower than the runtime and the library.
    cplusplus = () if engine.chosen().name == "pure" else (NameForm.USUAL, NameForm.LONG)
    for one in (*cplusplus, NameForm.RUST_LEGACY, NameForm.RUST_V0):
        which = np.flatnonzero(form == one)
        if not len(which):
            continue
        some = names.select(which)
        if one in cplusplus:
            texts = demangle_itanium(some, raised(MAX_EXPANSION), one == NameForm.LONG)
        else:
            texts = demangle_rust(some, raised(MAX_EXPANSION), one == NameForm.RUST_LEGACY)
        _place(place, parts, which, texts)
    others = np.flatnonzero((form != NameForm.PLAIN) & (place < 0))
    if len(others):
        texts = Strings.of(map(bytes_from, _demangle_others(list(map(text_from, names.select(others))))))
        _place(place, parts, others, texts)
    return _within_limits(names, concatenate(parts), place)


def _place(place: I64, parts: list[Strings], which: I64, texts: Strings) -> None:
    """Add the texts of the names `which` to `parts`; `place` is where each is among all. An empty one is none."""
    has_text = texts.size > 0
    place[which[has_text]] = sum(map(len, parts)) + np.flatnonzero(has_text)
    parts.append(texts)


def _within_limits(names: Strings, texts: Strings, place: I64) -> Strings:
    """The texts at the places of names; a name itself if it has none, or one that is too long."""
    which = np.flatnonzero(place >= 0)
    before, after = names.size[which], texts.size[place[which]]
    least, mean, most = raised(LEAST_EXPANSION), raised(MAX_MEAN_EXPANSION), raised(MAX_EXPANSION)
    allowance = least + np.cumsum(mean * before - after) + after
    is_short = (after <= most * before) & (after <= allowance)
    if not is_short.all():
        left = least
        for number, (size, longer) in enumerate(zip(before.tolist(), after.tolist(), strict=True)):
            left += mean * size
            is_short[number] = longer <= min(most * size, left)
            left -= longer if is_short[number] else size
    index = np.arange(len(names))
    index[which[is_short]] = place[which[is_short]]
    return texts.select(index)


def _demangle_others(names: list[str]) -> Iterator[str]:
    """Mangled names that no kernel has demangled."""
    from .cplusplus import open_runtime  # it starts a process at times; most programs have no such names

    is_cplusplus = [not (name.startswith(OTHERS) or is_rust(name)) for name in names]
    is_direct = [is_one and not may_expand(name) for name, is_one in zip(names, is_cplusplus, strict=True)]
    limited = _with_limits(
        [name for name, is_one, is_two in zip(names, is_cplusplus, is_direct, strict=True) if is_one and not is_two]
    )
    with open_runtime() as runtime:
        for name, is_one in zip(names, is_direct, strict=True):
            if is_one and runtime is not None:
                # The runtime of GCC 12 cannot demangle all conversion operators of its own library.
                yield runtime(name.encode(*_BYTES)).decode(*_BYTES) or _demangle_bounded(name)
            else:
                yield limited.get(name) or _demangle_bounded(name)


def _with_limits(names: list[str]) -> dict[str, str]:
    """The texts of those names that a process with limits demangles, if they are many."""
    sent = [name for name in names if len(name) <= MAX_DIRECT and not _UNSENDABLE.search(name)]
    if len(sent) < _MANY:
        return {}
    from .cplusplus import demangle_with_limits

    answers = demangle_with_limits([name.encode(*_BYTES) for name in sent], raised(MAX_EXPANSION))
    return {name: text.decode(*_BYTES) for name, text in zip(sent, answers, strict=False) if text}


def _demangle_bounded(name: str) -> str:
    """A name demangled by the library; itself, if the result would exceed MAX_EXPANSION or is nested too deeply."""
    import demangle

    # A power of two: the library caches its names by their limits.
    limits = demangle.Limits(max_output=raised(MAX_EXPANSION) << len(name).bit_length(), max_input=MAX_MANGLED)
    return str(demangle.demangle(name, language=_SCHEMES, style="gnu", limits=limits))
