"""Symbol stores: directories NAME/ID/NAME.sym, where minidump processors look up symbol files.

Strategy: a file appears under its name complete or not at all, and never replaces another: a second writer, in this
process or another, compares its file with the existing one.
"""

from __future__ import annotations

import errno
import filecmp
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ..schemas.section import BuildError
from .files import temporary_beside, umask

if TYPE_CHECKING:
    from typing import TypeAlias

    Pieces: TypeAlias = Iterable[bytes | memoryview]

# The errors of file systems without hard links.
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


def place_in_store(store: Path, name: str, identifier: str) -> Path:
    """The path of a module's symbol file; the caller has checked that `name` and `identifier` are single names."""
    return store / name / identifier / f"{name}.sym"


def put_into_store(path: Path, pieces: Pieces) -> bool:
    """Write a symbol file to its path in a store; False if it already exists with the same content.

    Raises OSError, and BuildError if it exists with different content, which is kept.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with temporary_beside(path) as temporary:
        with temporary.open("wb") as out:
            out.writelines(pieces)
        temporary.chmod(0o666 & ~umask())
        if _publish(temporary, path):
            return True
        if filecmp.cmp(temporary, path, shallow=False):
            return False
    raise BuildError("", None, "", f"{path} already exists with different content")


def _publish(temporary: Path, path: Path) -> bool:
    """Rename a file unless the name exists; whether it was renamed."""
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
