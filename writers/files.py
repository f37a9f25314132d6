"""Plain files, written so that nobody sees half of one."""

from __future__ import annotations

import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO


def write_bytes(path: Path, data: bytes) -> None:
    """Make `data` the content of `path`: a temporary file beside it is renamed; on failure `path` is as it was.

    Links are followed. Raises OSError.
    """
    target = path.resolve()
    mode = target.stat().st_mode & 0o7777 if target.exists() else 0o666 & ~_umask()
    name = target.with_name(f".unwindkit-{os.getpid()}-{time.monotonic_ns():x}")
    file = name.open("xb")
    try:
        with file:
            file.write(data)
            if target.exists():
                # Else a crash could leave the new name with neither content; a new file costs no one anything.
                file.flush()
                os.fsync(file.fileno())
        name.chmod(mode)
        name.replace(target)
    finally:
        name.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def rewriting(out_path: Path) -> Iterator[Path]:
    """A temporary file to write, beside where `out_path` leads: renamed to there unless the body raises.

    Links in `out_path` are followed. Raises OSError.
    """
    target = out_path.resolve()
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".unwindkit-")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        _sync(temporary)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    _sync(target.parent)


def take_owner_and_mode(source: BufferedReader, out: BinaryIO) -> None:
    """Give `out` the owner and mode of `source`; without set-id bits where the owner cannot be kept."""
    status = os.fstat(source.fileno())
    mode = stat.S_IMODE(status.st_mode)
    try:
        os.fchown(out.fileno(), status.st_uid, status.st_gid)
    except PermissionError:
        mode &= ~(stat.S_ISUID | stat.S_ISGID)  # set-id for another owner would be another program
    os.fchmod(out.fileno(), mode)


def _sync(path: Path) -> None:
    """Wait until a file, or a folder's entries, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
