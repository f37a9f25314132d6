"""The archives inside packages: tar, cpio and zip, each read once, in order.

Strategy: a hard link is a file with the contents of another. In cpio, the last of several links has them. In tar, the
first has; its links are read in a second pass, which few packages need.
"""

from __future__ import annotations

import stat
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import BytesIO
from typing import IO

from ...schemas.data_classes import dataclass
from ...schemas.packages import cpio, tar
from ...schemas.section import ParseError
from ..limits import exceeded, raised
from .members import CHUNK, LEAST_UNPACKED, MAX_UNPACKED, Member, Members, Stream, Unread, Wanted, clean_path, skip

UNIX = 3  # the system of a zip entry whose attributes have a mode
ENCRYPTED = 1


@dataclass(frozen=True, slots=True)
class TarEntry:
    """A header of a tar archive with what earlier headers say about it; the stream is at its contents."""

    header: tar.TarHeader
    stream: Stream


def tar_entries(stream: Stream) -> Iterator[TarEntry]:
    """The entries of a tar archive; the caller reads at most the contents of each. Raises ParseError."""
    attributes: dict[str, bytes] = {}
    common: dict[str, bytes] = {}
    while block := stream.read(tar.BLOCK):
        offset = stream.position - len(block)
        header = tar.parse_header(block, offset)
        if header is None:
            return
        if header.kind in tar.ABOUT_NEXT:
            about = _about_next(stream, header, offset)
            (common if header.kind == tar.GLOBAL else attributes).update(about)
            continue
        header = tar.with_extended(header, {**common, **attributes}, offset)
        attributes = {}
        # The size of links and folders is that of a file which is not here.
        size = header.size if header.kind not in (tar.HARD_LINK, tar.SYMBOLIC_LINK, tar.FOLDER) else 0
        end = stream.position + tar.padded(size)
        yield TarEntry(replace(header, size=size), stream)
        skip(stream, end - stream.position, tar.TAR)


def _about_next(stream: Stream, header: tar.TarHeader, offset: int) -> dict[str, bytes]:
    """The attributes that a header of its own gives to the next entry, or to all that follow. Raises ParseError."""
    if header.size > tar.MAX_EXTENDED:
        reason = f"is {header.size}, the limit for an extended header is {tar.MAX_EXTENDED}"
        raise ParseError(tar.TAR, offset + tar.SIZE_AT, "size", reason)
    data = stream.read(header.size)
    if len(data) < header.size:
        raise ParseError(tar.TAR, offset, "extended header", "is truncated")
    skip(stream, tar.padded(header.size) - header.size, tar.TAR)
    if header.kind in (tar.LONG_NAME, tar.LONG_LINK):
        return {"path" if header.kind == tar.LONG_NAME else "linkpath": data.partition(b"\0")[0]}
    return tar.parse_extended(data, offset)


def tar_members(open_stream: Callable[[], Stream], wanted: Wanted) -> Members:
    """The files of a tar archive, which is opened a second time for hard links. Raises ParseError."""
    links: dict[str, list[str]] = {}
    found: set[str] = set()
    for entry in tar_entries(open_stream()):
        header = entry.header
        if header.kind == tar.HARD_LINK:
            target, name = clean_path(header.link), clean_path(header.name)
            if target in found and name is not None:
                links.setdefault(target, []).append(name)
        elif (one := _file_of(entry, wanted)) is not None:
            if isinstance(one, Member):
                found.add(one.path)
            yield one
    if links:
        here = Wanted(lambda path, _: path in links, wanted.limit)
        for entry in tar_entries(open_stream()):
            one = _file_of(entry, here)
            if isinstance(one, Member):
                yield from (replace(one, path=name) for name in links.pop(one.path))


def _file_of(entry: TarEntry, wanted: Wanted) -> Member | Unread | None:
    """The file of an entry; None if it is none that is wanted."""
    header = entry.header
    if header.kind == tar.SPARSE:
        return Unread(header.name, "is stored as a sparse file, which is not supported")
    if header.kind not in tar.FILES or header.name.endswith("/"):
        return None
    mode = stat.S_IMODE(header.mode)
    return wanted.read(entry.stream, tar.TAR, header.name, header.size, mode, header.mtime)


def cpio_members(stream: Stream, wanted: Wanted) -> Members:
    """The files of a cpio archive. Raises ParseError."""
    links: dict[tuple[int, int, int], list[str]] = {}
    while True:
        offset = stream.position
        header = cpio.parse_header(stream.read(cpio.HEADER_SIZE), offset)
        name = stream.read(header.name_size)
        if len(name) < header.name_size:
            raise ParseError(cpio.CPIO, offset, "name", "is truncated")
        skip(stream, cpio.padding(cpio.HEADER_SIZE + header.name_size), cpio.CPIO)
        path = name.partition(b"\0")[0].decode("utf-8", "surrogateescape")
        if path == cpio.TRAILER:
            return
        if not stat.S_ISREG(header.mode):
            skip(stream, header.size, cpio.CPIO)
        elif header.links > 1 and not header.size:
            links.setdefault(header.inode, []).append(path)
        else:
            mode = stat.S_IMODE(header.mode)
            one = wanted.read(stream, cpio.CPIO, path, header.size, mode, header.mtime)
            if one is not None:
                yield one
            others = [clean_path(other) for other in links.pop(header.inode, [])]
            if isinstance(one, Member):
                yield from (replace(one, path=other) for other in others if other is not None)
        skip(stream, cpio.padding(header.size), cpio.CPIO)


def zip_members(data: memoryview, wanted: Wanted) -> Members:
    """The files of a zip archive, such as a wheel. Raises ParseError."""
    try:
        # A copy of what is mapped: zipfile reads from files.
        archive = zipfile.ZipFile(BytesIO(data))
        entries = archive.infolist()
    except (zipfile.BadZipFile, ValueError, EOFError, OSError, NotImplementedError) as error:
        raise ParseError("zip", None, "", f"malformed: {error}") from error
    left = raised(LEAST_UNPACKED + MAX_UNPACKED * len(data))
    for entry in entries:
        mode = entry.external_attr >> 16 if entry.create_system == UNIX else 0o644
        if entry.is_dir() or stat.S_ISLNK(mode):
            continue
        if entry.flag_bits & ENCRYPTED:
            yield Unread(entry.filename, "is encrypted")
            continue
        try:
            with archive.open(entry) as file:
                stream = _ZipStream(file)
                mtime = int(time.mktime((*entry.date_time, 0, 0, -1)))
                found = wanted.read_start(stream, entry.filename, entry.file_size, stat.S_IMODE(mode), mtime)
        except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, OSError, OverflowError) as error:
            yield Unread(entry.filename, f"the compressed data is malformed: {error}")
            continue
        except NotImplementedError:
            yield Unread(entry.filename, "the compression method is not supported")
            continue
        left -= stream.position
        if left < 0:
            raise ParseError("zip", None, "", exceeded("unpacks to too many bytes for its size"))
        if found is not None:
            yield found


class _ZipStream:
    """A file of a zip archive as a stream."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.position = file, 0

    def read(self, size: int) -> bytes:
        """The next `size` bytes, fewer at the end."""
        pieces = []
        while size > 0 and (piece := self._file.read(min(size, CHUNK))):
            pieces.append(piece)
            size -= len(piece)
            self.position += len(piece)
        return b"".join(pieces)
