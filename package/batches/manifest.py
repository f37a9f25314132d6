"""The manifest of a batch: one JSON line for each file that was done, by which an interrupted batch goes on.

Strategy: a line is added after the result is in place, so that no file is listed whose result is not there. The last
line may be torn by a kill; it is cut off. A file counts as done if its content, the options and the version are those
of the line, and the result is still what it was.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BufferedRandom
from pathlib import Path
from typing import Any

from .. import __version__
from ..converters.elf.identity import build_id, by_build_id
from ..converters.elf.image import open_elf
from ..schemas.section import FormatError, ParseError
from .source_files import SourceFile
from .sources import TEMPORARY

# The file is synced after this many lines, and at the end.
SYNC_EVERY = 64
CHUNK = 1 << 20


class Manifest:
    """What was done, by key. `folder` is that of the results."""

    def __init__(self, file: BufferedRandom, path: Path, folder: Path) -> None:
        self._file, self._folder, self._unsynced = file, folder, 0
        self._done: dict[str, dict[str, Any]] = {}
        self._read(path)

    def _read(self, path: Path) -> None:
        end = 0
        for number, line in enumerate(self._file, 1):
            if not line.endswith(b"\n"):
                break
            end += len(line)
            record = _record_of(line)
            if record is None:
                raise ParseError("", None, f"line {number}", f"{path} is no manifest, or is damaged")
            if "key" in record:
                self._done[record["key"]] = record
        self._file.truncate(end)
        self._file.seek(end)

    def report_of(self, key: str) -> dict[str, Any] | None:
        """The report on a file that is done; None for one that is not. A result that is not what it was is removed."""
        record = self._done.get(key)
        if record is None:
            return None
        if [one for one in record["outputs"].items() if not self._is_there(*one)]:
            return None
        report: dict[str, Any] = record["report"]
        return report

    def _is_there(self, place: str, sha256: str) -> bool:
        """Whether a result is what it was. One that is not is removed."""
        path = self._folder / place
        if not path.is_file():
            return False
        if file_hash(path) == sha256:
            return True
        path.unlink()
        return False

    def add(self, key: str, outputs: Iterable[str], report: dict[str, Any]) -> None:
        """Add a file whose results are at the paths `outputs`."""
        hashes = {os.path.relpath(one, self._folder): file_hash(Path(one)) for one in outputs}
        self._append({"key": key, "outputs": hashes, "report": report})

    def add_failure(self, failure: dict[str, Any]) -> None:
        """Add a file that failed; it is tried again by the next run."""
        self._append({"failure": failure})

    def _append(self, record: dict[str, Any]) -> None:
        self._file.write(json.dumps(record, separators=(",", ":")).encode() + b"\n")
        self._file.flush()
        self._unsynced += 1
        if self._unsynced >= SYNC_EVERY:
            self.sync()

    def sync(self) -> None:
        """Wait until all lines are on disk."""
        os.fsync(self._file.fileno())
        self._unsynced = 0


def _record_of(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    if not isinstance(record, dict):
        return None
    if "failure" in record:
        return record
    fields = {"key": str, "outputs": dict, "report": dict}
    if not all(isinstance(record.get(name), kind) for name, kind in fields.items()):
        return None
    # A path that leads out of the folder could remove any file.
    is_inside = all(not os.path.isabs(one) and ".." not in Path(one).parts for one in record["outputs"])
    return record if is_inside else None


@contextmanager
def open_manifest(path: Path, folder: Path) -> Iterator[Manifest]:
    """The manifest at `path`, made if it does not exist. Raises OSError, and ParseError if it is damaged or another run
    uses it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    with os.fdopen(handle, "r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ParseError("", None, "manifest", f"{path} is in use by another run") from None
        manifest = Manifest(file, path, folder)
        try:
            yield manifest
        finally:
            manifest.sync()


@contextmanager
def output_folder(folder: Path, is_resumed: bool) -> Iterator[None]:
    """Mark a folder as in use. If `is_resumed`, and no other run uses it, temporary files of killed runs are removed.
    Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if is_resumed and _locks(handle, fcntl.LOCK_EX | fcntl.LOCK_NB):
            for path in folder.rglob(f"{TEMPORARY}*"):
                path.unlink()
        _locks(handle, fcntl.LOCK_SH)
        yield
    finally:
        os.close(handle)


def _locks(handle: int, kind: int) -> bool:
    """Lock a folder; whether that was possible. Some file systems have no locks."""
    try:
        fcntl.flock(handle, kind)
    except OSError:
        return False
    return True


def file_hash(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def options_key(command: str, choices: dict[str, Any]) -> str:
    """What a command and its options are called in keys."""
    return repr((__version__, command, sorted(choices.items())))


def key_of(source: SourceFile, options: str, debug_folders: tuple[str | os.PathLike[str], ...]) -> str:
    """The key of a file: the hash of its content, its place, the options, and its debug files. Raises OSError."""
    total = hashlib.sha256()
    for part in (options, source.place, *_debug_key(source, debug_folders)):
        total.update(part.encode("utf-8", "surrogateescape") + b"\0")
    if source.data is None:
        total.update(file_hash(Path(source.name)).encode())
    else:
        total.update(hashlib.sha256(source.data).hexdigest().encode())
    return total.hexdigest()


def _debug_key(source: SourceFile, folders: tuple[str | os.PathLike[str], ...]) -> Iterator[str]:
    """The contents of the debug files in the batch; of one in a folder, size and time, which are known at once."""
    if source.debug:
        yield from (hashlib.sha256(one.data).hexdigest() for one in source.debug)
        return
    if not folders:
        return
    try:
        identifier = build_id(open_elf(source.as_input()))
    except FormatError:
        return
    for folder in folders if len(identifier) > 1 else ():
        path = by_build_id(folder, identifier)
        if path.is_file():
            about = path.stat()
            yield f"{path} {about.st_size} {about.st_mtime_ns}"
