"""Arguments of public functions that no format defines: bytes, text, paths and addresses of callers.

Strategy: they are checked where they enter, before anything is read. A value of a wrong type raises TypeError, one that
cannot be meant raises ValueError; FormatError is for what a file or a table contains.
"""

from __future__ import annotations

import os

ADDRESS_LIMIT = 1 << 64


def flat_bytes(data: bytes | bytearray | memoryview) -> memoryview:
    """A view of bytes in memory. Raises TypeError for what is not bytes, and ValueError unless the bytes are
    contiguous, in one dimension, and items of one byte."""
    view = memoryview(data)
    if view.ndim != 1 or view.itemsize != 1 or not view.c_contiguous:
        shape = f"{view.ndim} dimensions, items of {view.itemsize} bytes and strides of {view.strides}"
        raise ValueError(f"bytes must be contiguous and in one dimension, not of {shape}")
    return view if view.format == "B" else view.cast("B")


def check_address(address: int, name: str) -> int:
    """The address. Raises TypeError for what is not an integer, and ValueError for one outside 64 bits."""
    if not isinstance(address, int):
        raise TypeError(f"{name} must be an integer, not {type(address).__name__}")
    if not 0 <= address < ADDRESS_LIMIT:
        raise ValueError(f"{name} is {address:#x}, which is not a 64-bit address")
    return address


def encoded_text(text: str) -> bytes:
    """Text in UTF-8; a lone surrogate that stands for a byte (PEP 383) becomes that byte. Raises ValueError for any
    other lone surrogate."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        place = error.start
    raise ValueError(f"character {place} of {text[:40]!r} is a lone surrogate, which has no encoding")


def text_argument(text: bytes | str) -> bytes:
    """The bytes of a text format. Raises as `flat_bytes` and `encoded_text`."""
    if isinstance(text, str):
        return encoded_text(text)
    return text if isinstance(text, bytes) else bytes(flat_bytes(text))


def check_path(path: str | os.PathLike[str]) -> None:
    """Raise TypeError for what is not a path of text, and ValueError for one that no file can have."""
    text = os.fspath(path)
    if not isinstance(text, str):
        raise TypeError(f"a path must be text, not {type(text).__name__}")
    if b"\0" in encoded_text(text):
        raise ValueError(f"the path {text[:40]!r} has a NUL")
