"""Inputs that are not files, as files: for jobs that write a copy of what they read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..converters.elf.inputs import Input, map_input


@contextmanager
def local_file(source: Input) -> Iterator[Path]:
    """The path of an input; bytes and a stream are put into a temporary file for the time being."""
    if isinstance(source, str | os.PathLike):
        yield Path(source)
        return
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="unwindkit-") as folder:
        path = Path(folder, "input")
        path.write_bytes(map_input(source))
        yield path
