"""Plain files, written so that nobody sees half of one."""

from __future__ import annotations

import os
import time
from pathlib import Path


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
