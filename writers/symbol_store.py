"""Symbol stores: folders NAME/ID/NAME.sym, where readers of minidumps look symbol files up.

Strategy: a file appears under its name whole or not at all, and never takes another's place: whoever comes second, in
this process or another, is held against the first.
"""

from __future__ import annotations

import errno
import filecmp
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ..schemas.section import BuildError
from .files import umask

if TYPE_CHECKING:
    from typing import TypeAlias

    Pieces: TypeAlias = Iterable[bytes | memoryview]

# What file systems without hard links say.
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


def place_in_store(store: Path, name: str, identifier: str) -> Path:
    """Where the symbol file of a module is; both were checked to be single names."""
    return store / name / identifier / f"{name}.sym"


def put_into_store(path: Path, pieces: Pieces) -> bool:
    """Write a symbol file to its place in a store; False where it is there already, with the same content.

    Raises OSError, and BuildError where there is one with another content, which stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".unwindkit-")
    try:
        with os.fdopen(handle, "wb") as out:
            out.writelines(pieces)
        Path(name).chmod(0o666 & ~umask())
        if _appears(Path(name), path):
            return True
        if filecmp.cmp(name, path, shallow=False):
            return False
    finally:
        Path(name).unlink(missing_ok=True)
    raise BuildError("", None, "", f"{path} is there already, with another content")


def _appears(temporary: Path, path: Path) -> bool:
    """Give a file its name unless there is one."""
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if path.exists():
            return False
        temporary.rename(path)
    return True
