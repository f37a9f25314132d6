"""`ar` archives: the members of a file, with GNU's and BSD's ways to store names (ar.h; System V, GNU and BSD `ar`).

Strategy: members are found one after the other, and only when they are asked for; contents are views of the file. A
thin archive has the headers only: its members are files beside it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NoReturn

from .data_classes import dataclass
from .section import ParseError

ARCHIVE_MAGIC, THIN_MAGIC = b"!<arch>\n", b"!<thin>\n"
# ar.h: ar_name, ar_date, ar_uid, ar_gid, ar_mode, ar_size, ar_fmag.
MEMBER = struct.Struct("16s12s6s6s8s10s2s")
SIZE_FIELD = slice(48, 58)
END_MARK = b"`\n"
SYMBOLS, SYMBOLS64, LONG_NAMES = "/", "/SYM64/", "//"
# BSD: the size of a name that is the first bytes of the contents, and the names of symbol tables.
BSD_NAME_SIZE, BSD_SYMBOLS = "#1/", "__.SYMDEF"
MAX_NAME = 4096  # PATH_MAX; without a limit, each of many members could have a name as long as the table


@dataclass(frozen=True, slots=True)
class Member:
    """A member: its name, the name as stored in the header, the bytes of its header, its contents, and the file offset
    of its header.

    The archive's own tables are members, too, with `is_table`. `is_bsd`: the name, or the table, is as in BSD.
    """

    name: str
    stored: str
    header: bytes
    data: memoryview
    offset: int
    is_table: bool
    is_bsd: bool


def is_archive(data: bytes | memoryview) -> bool:
    """Whether a file is an archive of any kind, by its first bytes."""
    return bytes(data[: len(ARCHIVE_MAGIC)]) in (ARCHIVE_MAGIC, THIN_MAGIC)


def is_thin(data: bytes | memoryview) -> bool:
    """Whether an archive has no contents of members but its own tables, by its first bytes."""
    return bytes(data[: len(THIN_MAGIC)]) == THIN_MAGIC


def members_of(data: bytes | memoryview) -> Iterator[Member]:
    """The members in order, tables included. Raises ParseError with the offset in the file."""
    view = memoryview(data)
    if not is_archive(view):
        raise ParseError("archive", 0, "magic", f"{bytes(view[:8]).hex()} is not the magic number of an archive")
    offset, long_names, thin = len(ARCHIVE_MAGIC), b"", is_thin(view)
    while offset < len(view):
        stored, header, size = _header_at(view, offset)
        is_table = stored in (SYMBOLS, SYMBOLS64, LONG_NAMES)
        start = offset + MEMBER.size
        end = start if thin and not is_table else start + size
        if end > len(view):
            reason = f"the member reaches to {end:#x} in a file of {len(view):#x}"
            _refuse(offset + SIZE_FIELD.start, "ar_size", reason)
        contents = view[start:end]
        if stored == LONG_NAMES:
            long_names = bytes(contents)
        if is_table:
            yield Member(stored, stored, header, contents, offset, is_table=True, is_bsd=False)
        else:
            yield _named(stored, header, contents, offset, long_names)
        # Members start at even offsets; the last one may lack its padding.
        offset = end + end % 2


def _header_at(data: memoryview, offset: int) -> tuple[str, bytes, int]:
    """The name as stored, the header, and the size of the contents."""
    header = bytes(data[offset : offset + MEMBER.size])
    if len(header) < MEMBER.size:
        _refuse(offset, "header", f"{len(header)} bytes do not hold a header of {MEMBER.size}")
    name, *_, size, mark = MEMBER.unpack(header)
    if mark != END_MARK:
        _refuse(offset + MEMBER.size - 2, "ar_fmag", f"{mark.hex()} is not {END_MARK.hex()}")
    if not size.rstrip(b" ").isdigit():
        _refuse(offset + SIZE_FIELD.start, "ar_size", f"{size!r} is not a decimal number")
    return name.decode(errors="replace").rstrip(" "), header, int(size)


def _named(stored: str, header: bytes, contents: memoryview, offset: int, long_names: bytes) -> Member:
    """A member with its whole name."""
    name, is_bsd = stored, stored.startswith((BSD_NAME_SIZE, BSD_SYMBOLS))
    if stored.startswith(BSD_NAME_SIZE):
        size = stored[len(BSD_NAME_SIZE) :]
        if not (size.isascii() and size.isdigit()) or int(size) > min(len(contents), MAX_NAME):
            _refuse(offset, "ar_name", f"{stored!r} is not the size of a name in a member of {len(contents):#x} bytes")
        name = bytes(contents[: int(size)]).rstrip(b"\0").decode(errors="replace")
        contents = contents[int(size) :]
    elif not is_bsd:
        name = _gnu_name(stored, long_names, offset)
    return Member(name, stored, header, contents, offset, is_bsd and name.startswith(BSD_SYMBOLS), is_bsd)


def _gnu_name(stored: str, long_names: bytes, offset: int) -> str:
    """A member's name: `name/`, or `/N` for an offset in the long names, where the name ends in `/` and a newline."""
    if not stored.startswith("/"):
        return stored.removesuffix("/")
    place = stored[1:]
    if not (place.isascii() and place.isdigit()) or int(place) >= len(long_names):
        _refuse(offset, "ar_name", f"{stored!r} is not an offset in the {len(long_names):#x} bytes of long names")
    end = long_names.find(b"\n", int(place), int(place) + MAX_NAME)
    if end < 0:
        _refuse(offset, "ar_name", f"the long name at {int(place):#x} does not end within {MAX_NAME} bytes")
    return long_names[int(place) : end].decode(errors="replace").removesuffix("/")


def _refuse(offset: int, record: str, reason: str) -> NoReturn:
    raise ParseError("archive", offset, record, reason)
