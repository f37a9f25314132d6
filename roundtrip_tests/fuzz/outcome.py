"""What a reader did with an input: a comparable form of its result, or its error.

Strategy: `digest` is equal for equal results of the two engines. `signature` is coarse: numbers in an error do not
matter, nor does the exact size of a result. An input with a new signature is one that a reader treats in a new way.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from unwindkit import FormatError

_NUMBER = re.compile(r"0x[0-9a-f]+|\d+")
_QUOTED = re.compile(r"b?'(?:[^'\\]|\\.)*'|b?\"(?:[^\"\\]|\\.)*\"")
# The text of an error that counts: further on, some quote the input.
SIGNIFICANT = 120


def error_signature(error: Exception) -> str:
    """The error without its numbers and without what it quotes."""
    if not isinstance(error, FormatError):
        text = str(error)
    elif error.section.startswith("."):
        text = f"{error.section} {error.record}: {error.reason}"
    else:
        text = error.reason  # the places in texts quote them
    return _NUMBER.sub("#", _QUOTED.sub("'...'", text))[:SIGNIFICANT]


def result_signature(result: object) -> str:
    """The number of items of a result, as a power of two, for each part that has a length."""
    parts = result if isinstance(result, (tuple, list)) and len(result) < 8 else (result,)
    sizes = [len(part).bit_length() if hasattr(part, "__len__") else type(part).__name__ for part in parts]
    return f"read {sizes}"


def digest(value: object) -> str:
    """A hash of what a value consists of."""
    found = hashlib.blake2b(digest_size=16)
    for piece in _pieces(value, 0):
        found.update(piece)
    return found.hexdigest()


def _pieces(value: Any, depth: int) -> Iterable[bytes]:
    """The bytes that a value consists of, with the kinds of its parts between."""
    assert depth < 40, "a result that contains itself"
    match value:
        case bytes() | bytearray() | memoryview():
            yield b"bytes" + len(value).to_bytes(8, "little") + bytes(value)
        case np.ndarray():
            yield f"{value.dtype.str}{value.shape}".encode() + value.tobytes()
        case FormatError():
            yield b"error" + str(value).encode(errors="surrogatepass")
        case int() | float() | complex() | str() | None | np.generic():
            yield repr(value).encode(errors="surrogatepass")
        case Mapping():
            for key, item in value.items():
                yield from _pieces(key, depth + 1)
                yield from _pieces(item, depth + 1)
        case _ if dataclasses.is_dataclass(value):
            yield type(value).__name__.encode()
            for field in dataclasses.fields(value):
                yield from _pieces(getattr(value, field.name), depth + 1)
        case tuple() | list():
            yield b"sequence" + len(value).to_bytes(8, "little")
            for item in value:
                yield from _pieces(item, depth + 1)
        case _:
            yield type(value).__name__.encode()
