"""GNU `ar` archives: read, and written with other contents of the members.

Strategy: member headers are copied, except for the size, so order, names, dates, owners and modes stay. The members'
symbols do not change, so in the symbol table (`/`, `/SYM64/`) only the offsets do; the long names (`//`) stay as they
are. Other kinds of archive are refused.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from ..schemas.section import BuildError, ParseError

ARCHIVE_MAGIC, THIN_MAGIC = b"!<arch>\n", b"!<thin>\n"
# ar.h: ar_name, ar_date, ar_uid, ar_gid, ar_mode, ar_size, ar_fmag.
MEMBER = struct.Struct("16s12s6s6s8s10s2s")
SIZE_FIELD = slice(48, 58)
END_MARK = b"`\n"
SYMBOLS, SYMBOLS64, LONG_NAMES = "/", "/SYM64/", "//"
BSD_NAMES = ("#1/", "__.SYMDEF")
MAX_NAME = 4096  # PATH_MAX; without a limit, each of many members could have a name as long as the table


@dataclass(frozen=True, slots=True)
class Member:
    """A member: its name, the bytes of its header, its contents, and the file offset of its header.

    The archive's own tables are members, too, with `is_table`.
    """

    name: str
    header: bytes
    data: bytes
    offset: int
    is_table: bool = False


def is_archive(data: bytes | memoryview) -> bool:
    """Whether a file is an archive of any kind, by its first bytes."""
    return bytes(data[: len(ARCHIVE_MAGIC)]) in (ARCHIVE_MAGIC, THIN_MAGIC)


def parse_archive(data: bytes) -> tuple[Member, ...]:
    """The members in order, tables included. Raises ParseError with the offset in the file, BuildError for a kind of
    archive that is not supported."""
    if data.startswith(THIN_MAGIC):
        reason = "is a thin archive: its members are separate files; use them instead"
        raise BuildError("", None, "magic", reason)
    if not data.startswith(ARCHIVE_MAGIC):
        raise ParseError("archive", 0, "magic", f"{data[:8].hex()} is not the magic number of an archive")
    members: list[Member] = []
    offset, long_names = len(ARCHIVE_MAGIC), b""
    while offset < len(data):
        name, header, text = _member_at(data, offset)
        is_table = name in (SYMBOLS, SYMBOLS64, LONG_NAMES)
        if name == LONG_NAMES:
            long_names = text
        if not is_table:
            name = _full_name(name, long_names, offset)
        members.append(Member(name, header, text, offset, is_table))
        offset += len(header) + len(text)
        # Members start at even offsets; the last one may lack its padding.
        offset += offset % 2
    return tuple(members)


def _member_at(data: bytes, offset: int) -> tuple[str, bytes, bytes]:
    """The name as stored, the header and the contents of a member."""
    header = data[offset : offset + MEMBER.size]
    if len(header) < MEMBER.size:
        _refuse(offset, "header", f"{len(header)} bytes do not hold a header of {MEMBER.size}")
    name, *_, size, mark = MEMBER.unpack(header)
    if mark != END_MARK:
        _refuse(offset + MEMBER.size - 2, "ar_fmag", f"{mark.hex()} is not {END_MARK.hex()}")
    stored = name.decode(errors="replace").rstrip(" ")
    if stored.startswith(BSD_NAMES):
        raise BuildError("archive", offset, "ar_name", f"{stored!r} is a name of BSD archives, which are not supported")
    if not size.rstrip(b" ").isdigit():
        _refuse(offset + SIZE_FIELD.start, "ar_size", f"{size!r} is not a decimal number")
    start, end = offset + MEMBER.size, offset + MEMBER.size + int(size)
    if end > len(data):
        _refuse(offset + SIZE_FIELD.start, "ar_size", f"the member reaches to {end:#x} in a file of {len(data):#x}")
    return stored, header, data[start:end]


def _full_name(stored: str, long_names: bytes, offset: int) -> str:
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


def build_archive(members: Sequence[Member], contents: Sequence[bytes]) -> bytes:
    """The archive with these contents, one for each member; those of tables are adjusted.

    Raises ParseError for a symbol table whose offsets are not those of members, BuildError for an offset or size that
    does not fit its field.
    """
    new_offset, offset = {}, len(ARCHIVE_MAGIC)
    for member, content in zip(members, contents, strict=True):
        if not member.is_table:
            new_offset[member.offset] = offset
        offset += MEMBER.size + len(content)
        offset += offset % 2
    out = bytearray(ARCHIVE_MAGIC)
    for member, content in zip(members, contents, strict=True):
        if member.is_table and member.name != LONG_NAMES:
            content = _with_offsets(member, new_offset)
        size = f"{len(content):<10}".encode()
        if len(size) > SIZE_FIELD.stop - SIZE_FIELD.start:
            raise BuildError("archive", None, "ar_size", f"member {member.name} is too large: {len(content)} bytes")
        out += member.header[: SIZE_FIELD.start] + size + member.header[SIZE_FIELD.stop :] + content
        out += b"\n" * (len(out) % 2)
    return bytes(out)


def _with_offsets(table: Member, new_offset: dict[int, int]) -> bytes:
    """A symbol table with new offsets: a count, the offset of each symbol's member, big-endian, and the names."""
    word, limit = (8, 1 << 64) if table.name == SYMBOLS64 else (4, 1 << 32)
    start = table.offset + MEMBER.size
    count = int.from_bytes(table.data[:word], "big")
    if len(table.data) < word or word * (count + 1) > len(table.data):
        _refuse(start, "symbol table", f"{len(table.data)} bytes do not hold {count} offsets")
    letter = "Q" if word == 8 else "I"
    offsets = []
    for number, old in enumerate(struct.unpack_from(f">{count}{letter}", table.data, word)):
        if old not in new_offset:
            _refuse(start + word * (number + 1), f"symbol[{number}]", f"{old:#x} is not the offset of a member")
        offsets.append(new_offset[old])
    if max(offsets, default=0) >= limit:
        raise BuildError("archive", None, "symbol table", "an offset does not fit 32 bits")
    return table.data[:word] + struct.pack(f">{count}{letter}", *offsets) + table.data[word * (count + 1) :]


def _refuse(offset: int, record: str, reason: str) -> NoReturn:
    raise ParseError("archive", offset, record, reason)
