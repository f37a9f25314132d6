"""Where the bytes of an input come from: a path, bytes in memory, or a binary stream.

Strategy: a regular file is mapped, so that only the pages that are read cost anything; everything else is copied once.
"""

from __future__ import annotations

import mmap
import os
import stat
from pathlib import Path
from typing import BinaryIO, TypeAlias

from ...schemas.section import ParseError

StrPath: TypeAlias = str | os.PathLike[str]
STANDARD_INPUT = "<stdin>"  # what Python calls it
Input: TypeAlias = StrPath | bytes | bytearray | memoryview | BinaryIO


def map_input(source: Input) -> mmap.mmap:
    """All bytes of an input; a stream is read from its current position. Raises OSError, and ParseError for an empty
    input."""
    if isinstance(source, str | os.PathLike):
        return _map_file(Path(source))
    if isinstance(source, bytes | bytearray | memoryview):
        return _map_bytes(source)
    return _map_bytes(source.read())


def input_name(source: Input) -> str:
    """The path of an input, or the name of the stream's file; "" if it has none, "-" for standard input."""
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    if isinstance(source, bytes | bytearray | memoryview):
        return ""
    name = getattr(source, "name", "")
    if name == STANDARD_INPUT:
        return "-"
    return name if isinstance(name, str) else ""


def _map_file(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            return _map_bytes(file.read())  # a pipe has no size
        if about.st_size == 0:
            return _map_bytes(b"")
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _map_bytes(data: bytes | bytearray | memoryview) -> mmap.mmap:
    view = memoryview(data).cast("B")
    if not len(view):
        raise ParseError("", None, "", "the file is empty")
    mapping = mmap.mmap(-1, len(view))
    mapping[:] = view
    return mapping
