"""Names of Rust's two mangling schemes: v0 (RFC 2603), and the legacy one, which is C++'s nested names with escapes for
other characters, and a hash at the end.

Strategy: of a file that is written in Rust nearly all names are such ones, so a kernel demangles the usual forms, a
part of the names at a time.
"""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np

from ..arrays import starts_of
from ..kernels import engine, views

_V0, _LEGACY = re.compile(r"_R[A-Z]"), re.compile(r"_ZN.*17h[0-9a-f]{16}E", re.DOTALL)
# Bytes of text that a kernel writes at a time, unless one name needs more.
SPACE = 1 << 18


def demangle_rust(names: list[str], expansion: int) -> list[str]:
    """The text of each name, at most `expansion` times as long; "" for a name of any other form."""
    is_legacy = np.array([_LEGACY.fullmatch(name) is not None for name in names], np.bool_)
    usual = [
        name if name.isascii() and (is_one or _V0.match(name)) else ""
        for name, is_one in zip(names, is_legacy.tolist(), strict=True)
    ]
    start = starts_of(np.array([len(name) for name in usual], np.int64))
    data = np.frombuffer("".join(usual).encode() or b"\0", np.uint8)
    out = np.empty(max(SPACE, expansion * int(np.diff(start).max(initial=0))), np.uint8)
    text, done, found = np.zeros(len(start), np.int64), 0, [""] * len(names)
    kernel = engine.breakpad.rust_names
    while done < len(names):
        named = kernel.Names(*views(data, out))
        first = done
        done = kernel.demangle(named, *views(start, is_legacy.astype(np.uint8), text), first, expansion)
        written, ends = out[: named.size].tobytes().decode(), [0, *text[first + 1 : done + 1].tolist()]
        found[first:done] = [written[begin:end] for begin, end in pairwise(ends)]
    return found
