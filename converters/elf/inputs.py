"""Where the bytes of an input come from: a path, bytes in memory, or a binary stream.

Strategy: a regular file is mapped, so that only the pages that are read cost anything; everything else is copied once.
"""

from __future__ import annotations

import mmap
import os
import stat
from pathlib import Path
from typing import BinaryIO, TypeAlias

from ...schemas.arguments import check_path, flat_bytes
from ...schemas.section import ParseError

StrPath: TypeAlias = str | os.PathLike[str]
STANDARD_INPUT = "<stdin>"  # what Python calls it
Input: TypeAlias = StrPath | bytes | bytearray | memoryview | BinaryIO


def map_input(source: Input) -> memoryview:
    """All bytes of an input, mapped (`mapping_of`); a stream is read from its current position. Raises OSError, and
    TypeError and ValueError for what is no input."""
    if isinstance(source, str | os.PathLike):
        check_path(source)
        return _map_file(Path(source))
    if isinstance(source, bytes | bytearray | memoryview):
        return _map_bytes(source)
    if not hasattr(source, "read"):
        raise TypeError(f"an input is a path, bytes or a binary stream, not {type(source).__name__}")
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


def is_file(path: Path) -> bool:
    """Whether it is a regular file that can be looked at: a name in a link may be anything."""
    try:
        return path.is_file()
    except OSError:
        return False


def mapping_of(data: memoryview) -> mmap.mmap:
    """The mapping that `map_input` made. Raises ParseError if there is nothing in it."""
    if not len(data):
        raise ParseError("", None, "", "the file is empty")
    assert isinstance(data.obj, mmap.mmap)
    return data.obj


def release(data: memoryview, offset: int, size: int) -> None:
    """Let the system take back the memory of some bytes of a mapped file, which it reads again if they are needed."""
    # Bytes that were given are in a mapping of their own, the only copy.
    if data.readonly and isinstance(data.obj, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        first = -(-offset // mmap.PAGESIZE) * mmap.PAGESIZE
        last = (offset + size) // mmap.PAGESIZE * mmap.PAGESIZE
        if first < last:
            data.obj.madvise(mmap.MADV_DONTNEED, first, last - first)


def _map_file(path: Path) -> memoryview:
    with path.open("rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            return _map_bytes(file.read())  # a pipe has no size
        if about.st_size == 0:
            return _map_bytes(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _map_bytes(data: bytes | bytearray | memoryview) -> memoryview:
    view = flat_bytes(data)
    if not len(view):
        return memoryview(b"")  # nothing cannot be mapped
    mapping = mmap.mmap(-1, len(view))
    mapping[:] = view
    return memoryview(mapping)
