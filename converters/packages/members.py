"""What readers of packages share: a file inside one, and the limits on what is unpacked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeAlias

from ...schemas.data_classes import dataclass
from ...schemas.section import ParseError

CHUNK = 1 << 20
START_SIZE = 64  # what `is_wanted` sees of a file: enough to tell its kind
MAX_PATH = 4096  # PATH_MAX
# A package may unpack to this many bytes, and this many times its own size more.
LEAST_UNPACKED, MAX_UNPACKED = 1 << 30, 1000
DEFAULT_LIMIT = 1 << 30


@dataclass(frozen=True, slots=True)
class Member:
    """A regular file of a package. `path` is relative, with its `..` and `.` resolved; `mode` are the permission bits,
    `mtime` is in seconds."""

    path: str
    data: bytes
    mode: int
    mtime: int


@dataclass(frozen=True, slots=True)
class Unread:
    """A file of a package that was not read, and why."""

    path: str
    reason: str


# Tells by path and first bytes whether a file is to be read.
IsWanted: TypeAlias = Callable[[str, bytes], bool]
Members: TypeAlias = Iterator[Member | Unread]


class Stream(Protocol):
    """Bytes that are read once, in order."""

    position: int

    def read(self, size: int) -> bytes:
        """The next `size` bytes, fewer at the end. Raises ParseError."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which files of packages are read: those for which `is_wanted` is true, of up to `limit` bytes."""

    is_wanted: IsWanted
    limit: int = DEFAULT_LIMIT

    def read(self, stream: Stream, archive: str, path: str, size: int, mode: int, mtime: int) -> Member | Unread | None:
        """The file of `size` bytes at the current position, which is at its end then; None if it is not wanted.
        Raises ParseError."""
        end = stream.position + size
        found = self.read_start(stream, path, size, mode, mtime)
        skip(stream, end - stream.position, archive)
        return found

    def read_start(self, stream: Stream, path: str, size: int, mode: int, mtime: int) -> Member | Unread | None:
        """As `read`; of a file that is not read, only the start is taken from the stream."""
        clean = clean_path(path)
        start = stream.read(min(size, START_SIZE))
        if clean is None:
            return Unread(path[:MAX_PATH], "its path leads out of the package") if self.is_wanted(path, start) else None
        if not self.is_wanted(clean, start):
            return None
        if size > self.limit:
            return Unread(clean, too_large(size, self.limit))
        pieces, left = [start], size - len(start)
        while left and (piece := stream.read(min(left, CHUNK))):
            pieces.append(piece)
            left -= len(piece)
        return (
            Unread(clean, f"is truncated: {left} bytes are missing")
            if left
            else Member(clean, b"".join(pieces), mode, mtime)
        )


def too_large(size: int, limit: int) -> str:
    """The sentence about a file that is larger than the limit."""
    return f"has {size:,} bytes, the limit for a file in a package is {limit:,} (--member-limit)"


def skip(stream: Stream, size: int, archive: str) -> None:
    """Read past `size` bytes. Raises ParseError at the end of the stream."""
    while size > 0:
        piece = stream.read(min(size, CHUNK))
        if not piece:
            raise ParseError(archive, stream.position, "", f"is truncated: {size} bytes are missing")
        size -= len(piece)


def clean_path(path: str) -> str | None:
    """The path relative to the root of the package; None if it leads out of it, or is no path of a file."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts or ".." in parts or "\0" in path or len(path) > MAX_PATH:
        return None
    return "/".join(parts)
