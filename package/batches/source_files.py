"""A file of a batch: a path, or bytes from a package, with what belongs to it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

from ..converters.elf.identity import GivenDebugFile
from ..converters.elf.inputs import Input, StrPath
from ..schemas.data_classes import dataclass


@dataclass(frozen=True, slots=True)
class Failure:
    """A file for which nothing was written, and the reason. `kind` is the reason without what is particular to the
    file, by which failures are counted."""

    file: str
    output: str
    error: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Kept:
    """A file that stays as it is, because there is nothing to do, and the reason."""

    file: str
    reason: str


class _NamedBytes(BytesIO):
    """Bytes as a stream with a name."""

    def __init__(self, data: bytes, name: str) -> None:
        super().__init__(data)
        self.name = name


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to convert. `name` is its path, or PACKAGE!/path; `place` is where its result goes, relative to the output
    folder. Its bytes are `data`, or, if that is None, those of the file `name`. `mode` and `mtime` are those in the
    package; `debug` are its debug file and supplementary file, as far as the same batch has them. `links` are other
    names of the same file (hard links)."""

    name: str
    place: str
    data: bytes | None = None
    mode: int = 0o644
    mtime: int = 0
    debug: tuple[GivenDebugFile, ...] = ()
    links: tuple[str, ...] = ()

    def as_input(self) -> Input:
        """The file as the library's functions read it."""
        if self.data is None:
            return self.name
        # Modules without a SONAME are called after the file.
        return _NamedBytes(self.data, self.name)

    @contextmanager
    def as_path(self) -> Iterator[Path]:
        """A path with the file's bytes, mode and time, in memory if they are from a package."""
        if self.data is None:
            yield Path(self.name)
            return
        handle = os.memfd_create("unwindkit")
        try:
            with os.fdopen(handle, "wb", closefd=False) as file:
                file.write(self.data)
            os.fchmod(handle, self.mode)
            os.utime(handle, (self.mtime, self.mtime))
            yield Path(f"/proc/self/fd/{handle}")
        finally:
            os.close(handle)


def name_of(source: StrPath | SourceFile) -> str:
    """How messages call an input of a batch."""
    return source.name if isinstance(source, SourceFile) else os.fspath(source)
