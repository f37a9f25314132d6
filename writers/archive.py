"""GNU `ar` archives: read, and written with other contents of the members.

Strategy: member headers are copied, except for the size, so order, names, dates, owners and modes stay. The members'
symbols do not change, so in the symbol table (`/`, `/SYM64/`) only the offsets do; the long names (`//`) stay as they
are. Other kinds of archive are refused.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NoReturn

from ..schemas.archive import ARCHIVE_MAGIC, LONG_NAMES, MEMBER, SIZE_FIELD, SYMBOLS64, Member, is_thin, members_of
from ..schemas.section import BuildError, ParseError


def parse_archive(data: bytes) -> tuple[Member, ...]:
    """The members in order, tables included. Raises ParseError with the offset in the file, BuildError for a kind of
    archive that cannot be written."""
    if is_thin(data):
        reason = "is a thin archive: its members are separate files; use them instead"
        raise BuildError("", None, "magic", reason)
    members: list[Member] = []
    for member in members_of(data):
        if member.is_bsd:
            reason = f"{member.stored!r} is a name of BSD archives, which are not supported"
            raise BuildError("archive", member.offset, "ar_name", reason)
        members.append(member)
    return tuple(members)


def build_archive(members: Sequence[Member], contents: Sequence[bytes | memoryview]) -> bytes:
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
    names = bytes(table.data[word * (count + 1) :])
    return bytes(table.data[:word]) + struct.pack(f">{count}{letter}", *offsets) + names


def _refuse(offset: int, record: str, reason: str) -> NoReturn:
    raise ParseError("archive", offset, record, reason)
