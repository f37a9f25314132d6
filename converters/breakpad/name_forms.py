"""The form of mangled names, which decides who demangles them: a kernel, the C++ runtime, or a library.

Strategy: of a large file these are millions of characters, so patterns are searched for in all names at once.
"""

from __future__ import annotations

import re
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.text_records import text_from
from ..arrays import starts_of
from ..strings import Strings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    U8 = NDArray[np.uint8]
    I64 = NDArray[np.int64]
    Mask = NDArray[np.bool_]

# Rust's legacy scheme is C++'s with a hash at the end of the name; its v0 scheme has a prefix of its own.
_RUST = re.compile(r"_R[A-Z0-9]|_ZN.*17h[0-9a-f]{16}E")
# A path's tags (RFC 2603), with which a v0 name begins: C programs have other names that begin with _R.
_PATHS = (b"C", b"M", b"X", b"Y", b"N", b"I", b"B")
_NESTED, _HASH, _HASH_DIGITS = "_ZN", b"17h", 16
# Kernels and the runtime take ASCII; a zero byte or a line end separates names.
LETTERS = 128
# D's names, and Swift's since version 4.2.
OTHERS = ("_D", "$s", "_$s", "$S", "_$S")
CPLUSPLUS, RUST_V0 = "_Z", "_R"
MANGLED = (CPLUSPLUS, RUST_V0, *OTHERS)
# Longer names remain mangled; the longest of libstdc++, libLLVM and libxul has 545 characters.
MAX_MANGLED = 1 << 14
# A substitution or template parameter repeats at most all that is before it, and so doubles a name at most; a pack
# expansion repeats its pattern for each argument. A name with few of them is safe in the runtime, unless it is long:
# then it may be nested too deeply for the stack, and libstdc++ refuses it.
_REPEATS = re.compile(r"S[0-9A-Z]*_|T[0-9A-Z]*_")
_PACKS = ("Dp", "sp")
_PACK_DOUBLINGS, _MAX_DOUBLINGS = 4, 8
MAX_DIRECT = 1024


class NameForm(IntEnum):
    """`USUAL` names are C++'s, as the runtime writes them; `LONG` ones, as the library does. `OTHER` ones no kernel
    demangles."""

    PLAIN = 0
    USUAL = 1
    LONG = 2
    RUST_LEGACY = 3
    RUST_V0 = 4
    OTHER = 5


def is_rust(name: str) -> bool:
    """Whether a name has the form of one of Rust's schemes."""
    return ("17h" in name or name.startswith(RUST_V0)) and _RUST.match(name) is not None


def may_expand(name: str) -> bool:
    """Whether the C++ runtime could make a mangled name very long, or recurse deeply."""
    if len(name) > MAX_DIRECT:
        return True
    # Each repetition ends with an underscore.
    packs = _PACK_DOUBLINGS * sum(map(name.count, _PACKS))
    return name.count("_") + packs > _MAX_DOUBLINGS and len(_REPEATS.findall(name)) + packs > _MAX_DOUBLINGS


def forms_of(names: Strings) -> NDArray[np.uint8]:
    """The `NameForm` of each name, u8."""
    data, start = np.frombuffer(names.join(np.arange(len(names))), np.uint8), starts_of(names.size)
    form = np.full(len(names), NameForm.PLAIN, np.uint8)
    for prefix in OTHERS:
        form[_begin(data, start, prefix.encode())] = NameForm.OTHER
    for tag in _PATHS:
        form[_begin(data, start, RUST_V0.encode() + tag)] = NameForm.RUST_V0
    is_cplusplus = _begin(data, start, CPLUSPLUS.encode())
    form[is_cplusplus] = np.where(names.size[is_cplusplus] <= MAX_DIRECT, NameForm.USUAL, NameForm.LONG)
    has_hash = np.flatnonzero(is_cplusplus & _have(data, start, _HASH))
    is_legacy = _end_in_hash(data, start[has_hash], start[has_hash + 1])
    form[has_hash[is_legacy]] = NameForm.RUST_LEGACY
    doubtful = has_hash[~is_legacy]
    form[doubtful[[is_rust(text_from(name)) for name in names.select(doubtful)]]] = NameForm.OTHER
    # The runtime of gcc 12 does not number unnamed types among substitutions.
    is_unnamed = _have(data, start, b"Ul") | _have(data, start, b"Ut")
    unnamed = np.flatnonzero(is_unnamed & (form == NameForm.USUAL))
    form[unnamed] = NameForm.OTHER
    form[unnamed[[may_expand(text_from(name)) for name in names.select(unnamed)]]] = NameForm.LONG
    unreadable = _owners(start, np.flatnonzero((data >= LETTERS) | (data == 0) | (data == ord("\n"))))
    form[unreadable[form[unreadable] != NameForm.PLAIN]] = NameForm.OTHER
    form[names.size > MAX_MANGLED] = NameForm.PLAIN
    return form


def _begin(data: U8, start: I64, prefix: bytes) -> Mask:
    """Which of the strings, one after the other in `data`, begin with a prefix."""
    found: Mask = np.diff(start) >= len(prefix)
    for index, one in enumerate(prefix):
        found[found] = data[start[:-1][found] + index] == one
    return found


def _have(data: U8, start: I64, pattern: bytes) -> Mask:
    """Which of the strings have a pattern in them."""
    place = np.flatnonzero(data[: max(0, len(data) - len(pattern) + 1)] == pattern[0])
    for index, one in enumerate(pattern[1:], 1):
        place = place[data[place + index] == one]
    owner = _owners(start, place)
    found = np.zeros(len(start) - 1, np.bool_)
    found[owner[place + len(pattern) <= start[owner + 1]]] = True
    return found


def _owners(start: I64, place: I64) -> I64:
    """The string that each place of the data is in."""
    return np.searchsorted(start, place, side="right") - 1


def _end_in_hash(data: U8, start: I64, end: I64) -> Mask:
    """Which of the strings are nested names that end with a hash, as Rust's legacy ones do."""
    size = len(_HASH) + _HASH_DIGITS + 1
    found: Mask = end - start >= len(_NESTED) + size
    last = data[end[found, None] - np.arange(size, 0, -1)]
    is_one = (last[:, : len(_HASH)] == np.frombuffer(_HASH, np.uint8)).all(axis=1) & (last[:, -1] == ord("E"))
    is_one &= np.isin(last[:, len(_HASH) : -1], np.frombuffer(b"0123456789abcdef", np.uint8)).all(axis=1)
    is_one &= data[start[found] + len(CPLUSPLUS)] == ord(_NESTED[-1])
    found[found] = is_one
    return found
