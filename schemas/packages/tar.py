"""tar archives: headers of 512 bytes (POSIX ustar), with GNU's long names and POSIX's extended headers (pax).

Strategy: one header at a time. The standard library's reader takes a malformed header in the middle for the end of the
archive, and reads an extended header of any size into memory; here the first is an error, and the second has a limit.
"""

from __future__ import annotations

import struct
from typing import NoReturn

from ..data_classes import dataclass
from ..section import ParseError
from .numbers import text_number

TAR = "tar"
BLOCK = 512
# name, mode, uid, gid, size, mtime, chksum, typeflag, linkname, magic and version, uname, gname, devmajor, devminor,
# prefix.
HEADER = struct.Struct("100s8s8s8s12s12s8s1s100s8s32s32s8s8s155s12x")
SIZE_AT, MTIME_AT, CHECKSUM_AT, CHECKSUM_SIZE, MAGIC_AT = 124, 136, 148, 8, 257
MAGIC = b"ustar"
# POSIX; GNU tar has spaces, and no prefix.
POSIX_MAGIC = b"ustar\0"
FILES, HARD_LINK, SYMBOLIC_LINK, FOLDER = (b"0", b"\0", b"7"), b"1", b"2", b"5"
LONG_NAME, LONG_LINK, EXTENDED, GLOBAL, SPARSE = b"L", b"K", b"x", b"g", b"S"
ABOUT_NEXT = (LONG_NAME, LONG_LINK, EXTENDED, GLOBAL)
# Of the contents of a header that is about the next one: names are shorter, and so are all attributes together.
MAX_EXTENDED = 1 << 20
BASE_256 = 0x80
SPARSE_PREFIX = "GNU.sparse."


@dataclass(frozen=True, slots=True)
class TarHeader:
    """A header: the kind is a typeflag, sizes are in bytes, `mtime` is in seconds."""

    name: str
    kind: bytes
    size: int
    mode: int
    mtime: int
    link: str


def is_tar(start: bytes | memoryview) -> bool:
    """Whether a file is a tar archive, by its first block. Archives without a magic number are not recognised."""
    return bytes(start[MAGIC_AT : MAGIC_AT + len(MAGIC)]) == MAGIC


def padded(size: int) -> int:
    """The size of contents with their padding."""
    return -(-size // BLOCK) * BLOCK


def parse_header(block: bytes, offset: int) -> TarHeader | None:
    """The header in a block at `offset` of the archive; None for zeros, which end it. Raises ParseError."""
    if len(block) < BLOCK:
        _refuse(offset, "header", f"{len(block)} bytes do not hold a header of {BLOCK}")
    if not any(block):
        return None
    name, mode, _, _, size, mtime, checksum, kind, link, magic, *_, prefix = HEADER.unpack(block)
    stated = text_number(checksum.strip(b" \0"), 8, TAR, offset + CHECKSUM_AT, "chksum")
    end = CHECKSUM_AT + CHECKSUM_SIZE
    found = sum(block[:CHECKSUM_AT]) + CHECKSUM_SIZE * ord(" ") + sum(block[end:])
    if stated != found:
        _refuse(offset + CHECKSUM_AT, "chksum", f"is {stated}, that of the header is {found}")
    whole = name.partition(b"\0")[0]
    before = prefix.partition(b"\0")[0] if magic.startswith(POSIX_MAGIC) else b""
    return TarHeader(
        _text(before + b"/" + whole if before else whole),
        kind,
        _number(size, offset + SIZE_AT, "size"),
        _number(mode, offset, "mode"),
        _number(mtime, offset + MTIME_AT, "mtime"),
        _text(link.partition(b"\0")[0]),
    )


def _number(field: bytes, offset: int, record: str) -> int:
    """Octal digits, or GNU's numbers in base 256 for large ones."""
    if field[0] & BASE_256:
        return int.from_bytes(bytes([field[0] & ~BASE_256]) + field[1:], "big")
    return text_number(field.partition(b"\0")[0].strip(b" "), 8, TAR, offset, record)


def parse_extended(data: bytes, offset: int) -> dict[str, bytes]:
    """The attributes in an extended header: records "LENGTH KEY=VALUE\\n". Raises ParseError."""
    found, at = {}, 0
    while at < len(data):
        space = data.find(b" ", at, at + 20)
        length = _decimal(data[at : max(at, space)], offset + at)
        if not space - at + 2 < length <= len(data) - at or data[at + length - 1 : at + length] != b"\n":
            _refuse(offset + at, "extended header", "a record's length does not lead to its end")
        key, equals, value = data[space + 1 : at + length - 1].partition(b"=")
        if not equals:
            _refuse(offset + at, "extended header", "a record has no value")
        found[key.decode(errors="replace")] = value
        at += length
    return found


def _decimal(digits: bytes, offset: int) -> int:
    """A decimal number. Raises ParseError."""
    if not digits.isdigit():
        _refuse(offset, "extended header", f"{digits!r} is not a decimal number")
    return int(digits)


def with_extended(header: TarHeader, attributes: dict[str, bytes], offset: int) -> TarHeader:
    """The header with what an extended header says instead. Raises ParseError."""
    size = attributes.get("size")
    kind = SPARSE if any(name.startswith(SPARSE_PREFIX) for name in attributes) else header.kind
    return TarHeader(
        _text(attributes["path"]) if "path" in attributes else header.name,
        kind,
        header.size if size is None else _decimal(size, offset),
        header.mode,
        header.mtime,
        _text(attributes["linkpath"]) if "linkpath" in attributes else header.link,
    )


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _refuse(offset: int, record: str, reason: str) -> NoReturn:
    raise ParseError(TAR, offset, record, reason)
