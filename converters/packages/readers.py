"""A package of any kind, recognised by its first bytes, and the files in it.

Strategy: nothing is written to disk, and one file is in memory at a time.
"""

from __future__ import annotations

from enum import Enum

from ...schemas.archive import ARCHIVE_MAGIC, members_of
from ...schemas.packages.rpm import LEAD_MAGIC, RPM, payload_offset
from ...schemas.packages.tar import BLOCK, is_tar
from ...schemas.section import ParseError
from .archives import cpio_members, tar_members, zip_members
from .members import Members, Wanted
from .streams import Unpacked, is_compressed

ZIP_MAGIC = b"PK\x03\x04"
ADB_MAGIC = b"ADB"  # of Alpine's packages in version 3
DEB_FIRST, DEB_DATA = "debian-binary", "data.tar"
# In a folder, packages are taken by their names: other archives may be anybody's data.
PACKAGE_SUFFIXES = (".deb", ".udeb", ".ddeb", ".rpm", ".apk", ".whl")


class Kind(Enum):
    """The kinds of packages. Alpine's are tar archives."""

    DEB = "Debian package"
    RPM = "RPM package"
    TAR = "tar archive"
    ZIP = "zip archive"
    ADB = "Alpine package of version 3"


def kind_of(data: memoryview) -> Kind | None:
    """The kind of a package, by its first bytes; None for any other file."""
    start = bytes(data[:BLOCK])
    if start.startswith(ARCHIVE_MAGIC):
        return Kind.DEB if start[len(ARCHIVE_MAGIC) :].startswith(DEB_FIRST.encode()) else None
    if start.startswith(LEAD_MAGIC):
        return Kind.RPM
    if start.startswith(ZIP_MAGIC):
        return Kind.ZIP
    if start.startswith(ADB_MAGIC):
        return Kind.ADB
    if is_compressed(start):
        try:
            start = Unpacked("", data).read(BLOCK)
        except ParseError:
            return None
    return Kind.TAR if is_tar(start) else None


def package_members(name: str, data: memoryview, wanted: Wanted) -> Members:
    """The wanted files of a package. Raises ParseError for a malformed one, after those that come before."""
    kind = kind_of(data)
    if kind is Kind.DEB:
        yield from tar_members(lambda: Unpacked(DEB_DATA, _data_of_deb(data)), wanted)
    elif kind is Kind.RPM:
        yield from cpio_members(Unpacked(RPM, data[payload_offset(data) :]), wanted)
    elif kind is Kind.ZIP:
        yield from zip_members(data, wanted)
    elif kind is Kind.TAR:
        yield from tar_members(lambda: Unpacked("tar", data), wanted)
    elif kind is Kind.ADB:
        raise ParseError("", 0, "magic", "is an Alpine package of version 3, which is not supported")
    else:
        raise ParseError("", 0, "magic", f"{name} is no package")


def _data_of_deb(data: memoryview) -> memoryview:
    """The files' archive in a Debian package. Raises ParseError."""
    for member in members_of(data):
        if member.name.startswith(DEB_DATA):
            return member.data
    raise ParseError("archive", len(data), "", f"has no {DEB_DATA}")
