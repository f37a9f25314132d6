"""Files, written so that a half-written one is never visible."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import BufferedRandom, BufferedReader, BufferedWriter
from pathlib import Path
from typing import BinaryIO

from ..schemas.arguments import check_path
from ..schemas.steps import note

CHUNK = 1 << 24


def write_bytes(path: Path, data: bytes) -> None:
    """Make `data` the content of `path`, as `write_pieces`."""
    write_pieces(path, (data,))


def write_pieces(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Make `pieces` the content of `path`, by renaming a temporary file; on failure `path` is unchanged.

    Links are followed. A pipe or device (`/dev/null`) is written to directly. Raises OSError.
    """
    check_path(path)
    if _is_special(path):
        with path.open("wb") as special:
            special.writelines(pieces)
        return
    target = path.resolve()
    mode = target.stat().st_mode & 0o7777 if target.exists() else 0o666 & ~umask()
    with temporary_beside(target) as name:
        with name.open("wb") as file:
            file.writelines(pieces)
            if target.exists():
                # Otherwise a crash could leave neither the old nor the new content; a new file has no old one to lose.
                file.flush()
                os.fsync(file.fileno())
        name.chmod(mode)
        name.replace(target)
    note(f"written: {path}")


@contextmanager
def temporary_beside(target: Path) -> Iterator[Path]:
    """A new file in the folder of `target`, for this user only. It is removed at the end unless it has been renamed.
    Raises OSError."""
    name = target.with_name(f".unwindkit-{os.getpid()}-{time.monotonic_ns():x}")
    try:
        # Here: a signal may come as soon as the file is there.
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        yield name
    finally:
        name.unlink(missing_ok=True)


def _is_special(path: Path) -> bool:
    """Whether the path exists and is neither file nor directory: renaming a file to it would replace the device."""
    return path.exists() and not path.is_file() and not path.is_dir()


def umask() -> int:
    """The permission bits that new files of this process lack."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def rewriting(out_path: Path) -> Iterator[Path]:
    """A temporary file in the directory of `out_path`, renamed to it unless the body raises.

    Links in `out_path` are followed. Raises OSError.
    """
    check_path(out_path)
    target = out_path.resolve()
    with ExitStack() as stack:
        try:
            temporary = stack.enter_context(temporary_beside(target))
        except OSError as error:
            error.filename = os.fspath(out_path)  # the user does not know the temporary file
            raise
        yield temporary
        _sync(temporary)
        temporary.replace(target)
    _sync(target.parent)
    note(f"written: {out_path}")


def link_again(path: Path, other: Path) -> None:
    """Make `other`, which exists, a name of the file `path` (a hard link). Raises OSError."""
    name = other.with_name(f".unwindkit-{os.getpid()}-{time.monotonic_ns():x}")
    try:
        name.hardlink_to(path)
        name.replace(other)
    finally:
        name.unlink(missing_ok=True)


def write_as(path: Path, out_path: Path, data: bytes, preserve_dates: bool) -> None:
    """Make `data` the content of `out_path`, with the owner and mode of `path`, and its times if `preserve_dates`.

    The two paths may be equal; on failure `out_path` is unchanged. Raises OSError.
    """
    with path.open("rb") as source, rewriting(out_path) as temporary:
        with temporary.open("wb") as out:
            out.write(data)
            take_owner_and_mode(source, out)
        take_attributes(source, temporary, preserve_dates)


def take_owner_and_mode(source: BufferedReader, out: BinaryIO) -> None:
    """Give `out` the owner and mode of `source`; without set-id bits if the owner cannot be kept."""
    status = os.fstat(source.fileno())
    mode = stat.S_IMODE(status.st_mode)
    try:
        os.fchown(out.fileno(), status.st_uid, status.st_gid)
    except PermissionError:
        mode &= ~(stat.S_ISUID | stat.S_ISGID)  # set-id would grant the rights of another user
    os.fchmod(out.fileno(), mode)


def take_attributes(source: BufferedReader, out_path: Path, preserve_dates: bool) -> None:
    """Give a file that is complete the extended attributes of `source`: file capabilities, ACLs, a user's own; its
    access and modification times if `preserve_dates`. As set-id bits, those that this user may not set are left out;
    so are signatures, which the new content makes invalid."""
    # Every write to a file removes its capabilities.
    with suppress(OSError):  # a file system without attributes
        for name in os.listxattr(source.fileno()):
            if name not in SIGNING_ATTRIBUTES:
                with suppress(OSError):
                    os.setxattr(out_path, name, os.getxattr(source.fileno(), name))
    status = os.fstat(source.fileno())
    if preserve_dates:
        os.utime(out_path, ns=(status.st_atime_ns, status.st_mtime_ns))


# The end of a file signed by Linux's sign-file, or by evmctl with an appended IMA signature.
APPENDED_SIGNATURE = b"~Module signature appended~\n"
SIGNING_ATTRIBUTES = ("security.ima", "security.evm")


def signatures_of(path: Path) -> Iterator[str]:
    """The kinds of signatures of a file's bytes; they become invalid in a changed copy."""
    with path.open("rb") as file:
        if size_of(file) >= len(APPENDED_SIGNATURE):
            file.seek(-len(APPENDED_SIGNATURE), os.SEEK_END)
            if file.read() == APPENDED_SIGNATURE:
                yield "appended to the file"
        for name in SIGNING_ATTRIBUTES:
            with suppress(OSError):  # the file does not have it, or the file system has no attributes
                os.getxattr(file.fileno(), name)
                yield name


def _sync(path: Path) -> None:
    """Wait until a file, or a directory's entries, are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def size_of(file: BufferedReader) -> int:
    """The size of an open file in bytes."""
    return os.fstat(file.fileno()).st_size


def copy_range(source: BufferedReader, out: BufferedWriter | BufferedRandom, offset: int, size: int) -> None:
    """Copy `size` bytes at `offset` in `source` to the current position of `out`, which advances by `size`.

    Holes of `source` are not written: the caller must write, or extend the file, past the copied range.
    """
    start = out.seek(0, os.SEEK_CUR)  # flushes the buffer
    end = offset + size
    for data_start, data_end in _data_ranges(source.fileno(), offset, end):
        place = start + data_start - offset
        while data_start < data_end:
            step = _copy_some(source.fileno(), out.fileno(), data_start, place, min(CHUNK, data_end - data_start))
            data_start, place = data_start + step, place + step
    out.seek(start + size)


def _data_ranges(handle: int, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The ranges between two offsets where a file has data."""
    while start < end:
        try:
            start = os.lseek(handle, start, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole
                return
            raise
        hole = os.lseek(handle, start, os.SEEK_HOLE)
        if start < end:
            yield start, min(hole, end)
        start = hole


def _copy_some(source: int, out: int, offset: int, place: int, size: int) -> int:
    """Copy up to `size` bytes and return how many; the file system may share the blocks instead."""
    try:
        if copied := os.copy_file_range(source, out, size, offset, place):
            return copied
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
    data = os.pread(source, size, offset)
    if not data:
        raise OSError(errno.EIO, "the file has become shorter")
    return os.pwrite(out, data, place)
