"""cpio archives in the "new" format (`newc`, and `crc`, which adds a sum): the payload of RPM packages.

Headers are text: a magic number and 13 fields of 8 hexadecimal digits, then the name. Names with their header, and
contents, are padded to 4 bytes.
"""

from __future__ import annotations

from ..data_classes import dataclass
from ..section import ParseError
from .numbers import text_number

CPIO = "cpio"
MAGICS = (b"070701", b"070702")
LARGE_MAGIC = b"07070X"  # RPM's own, for files of more than 4 GiB: the rest is in the package's header
FIELDS = (
    *("ino", "mode", "uid", "gid", "nlink", "mtime", "filesize", "devmajor", "devminor", "rdevmajor", "rdevminor"),
    *("namesize", "check"),
)
DIGITS = 8
HEADER_SIZE = len(MAGICS[0]) + DIGITS * len(FIELDS)
TRAILER = "TRAILER!!!"
MAX_NAME = 1 << 16


@dataclass(frozen=True, slots=True)
class CpioHeader:
    """A header. `inode` is that of hard links to one file, with the device; of these, only the last has the contents.
    `name_size` includes the zero byte at the end."""

    inode: tuple[int, int, int]
    mode: int
    links: int
    mtime: int
    size: int
    name_size: int


def padding(size: int) -> int:
    """The number of bytes after `size` up to the next multiple of 4."""
    return -size % 4


def parse_header(data: bytes, offset: int) -> CpioHeader:
    """The header at `offset` of the archive. Raises ParseError."""
    magic = data[: len(MAGICS[0])]
    if magic == LARGE_MAGIC:
        raise ParseError(CPIO, offset, "magic", "files of more than 4 GiB are not supported")
    if len(data) < HEADER_SIZE or magic not in MAGICS:
        raise ParseError(CPIO, offset, "magic", f"{magic!r} is not the magic number of a header")
    values = {}
    for number, name in enumerate(FIELDS):
        at = len(magic) + DIGITS * number
        values[name] = text_number(data[at : at + DIGITS], 16, CPIO, offset + at, name)
    if not 0 < values["namesize"] <= MAX_NAME:
        raise ParseError(CPIO, offset, "namesize", f"is {values['namesize']}, the limit is {MAX_NAME}")
    inode = values["ino"], values["devmajor"], values["devminor"]
    return CpioHeader(inode, values["mode"], values["nlink"], values["mtime"], values["filesize"], values["namesize"])
