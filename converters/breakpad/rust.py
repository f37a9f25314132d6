"""Names of Rust's two mangling schemes: v0 (RFC 2603), and the legacy one, which is C++'s nested names with escapes for
other characters, and a hash at the end.

Strategy: of a file that is written in Rust nearly all names are such ones, so a kernel demangles the usual forms, a
part of the names at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..kernels import engine, views
from ..strings import Strings
from .kernel_texts import texts_by

if TYPE_CHECKING:
    from .kernel_texts import I64, U8


def demangle_rust(names: Strings, expansion: int, is_legacy: bool) -> Strings:
    """The text of each name, of ASCII characters and in one of the schemes: at most `expansion` times as long, without
    bytes for a name of any other form."""
    kernel, scheme = engine.breakpad.rust_names, np.full(len(names), is_legacy, np.uint8)

    def demangle(data: U8, start: I64, out: U8, text_start: I64, first: int) -> tuple[int, int]:
        named = kernel.Names(*views(data, out))
        return kernel.demangle(named, *views(start, scheme, text_start), first, expansion), named.size

    return texts_by(demangle, names, expansion)
