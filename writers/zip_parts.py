"""A symbol store as zip archives of limited size, as symbol servers take them, with a list of what is in which.

Strategy: files are added in the order of their paths, with one date, so that the same store gives the same bytes. A
file is compressed once more to learn its size only where it may not fit.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path

from ..schemas.section import BuildError

MAX_PART = 2 << 30
LIST = "parts.txt"
LEVEL = 6
DATE = (1980, 1, 1, 0, 0, 0)  # the earliest of the format
CHUNK = 1 << 20
# Of a file's two headers in an archive, and of the archive's end, without names.
HEADERS, END = 30 + 46 + 3 * 28, 22 + 76


def write_zip_parts(store: Path, names: Iterable[str], folder: Path, max_size: int = MAX_PART) -> tuple[Path, ...]:
    """Write the files `names` of a store into `folder`/symbols-001.zip and so on, of at most `max_size` bytes each, and
    the list parts.txt with a line "PART NAME" for each file; parts of an earlier call are removed.

    Raises OSError, and BuildError for a file that does not fit an archive of that size.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob("symbols-*.zip"), folder / LIST):
        old.unlink(missing_ok=True)
    parts: list[Path] = []
    lines: list[str] = []
    left = sorted(set(names))
    while left:
        path = folder / f"symbols-{len(parts) + 1:03}.zip"
        temporary = folder / f".unwindkit-{os.getpid()}.zip"
        try:
            count = _write_part(store, left, temporary, max_size)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        parts.append(path)
        lines += [f"{path.name} {name}" for name in left[:count]]
        left = left[count:]
    temporary = folder / f".unwindkit-{os.getpid()}.txt"
    temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", errors="surrogateescape")
    temporary.replace(folder / LIST)
    return tuple(parts)


def _write_part(store: Path, names: list[str], path: Path, max_size: int) -> int:
    """Write as many files as fit; returns their number."""
    listed = END
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL) as archive:
        for number, name in enumerate(names):
            file = store / name
            overhead = HEADERS + 2 * len(os.fsencode(name))
            free = max_size - archive.start_dir - listed - overhead
            size = file.stat().st_size
            if size + size // 1000 + 64 > free and _compressed_size(file) > free:
                if not number:
                    raise BuildError("", None, name, f"does not fit an archive of {max_size:,} bytes")
                return number
            about = zipfile.ZipInfo(name, DATE)
            about.compress_type, about.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            about.file_size = size
            with file.open("rb") as source, archive.open(about, "w") as out:
                while chunk := source.read(CHUNK):
                    out.write(chunk)
            listed += overhead
    return len(names)


def _compressed_size(file: Path) -> int:
    engine, size = zlib.compressobj(LEVEL, zlib.DEFLATED, -15), 0
    with file.open("rb") as source:
        while chunk := source.read(CHUNK):
            size += len(engine.compress(chunk))
    return size + len(engine.flush())
