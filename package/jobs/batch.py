"""Many files, each on its own: what fails, fails alone.

Strategy: any `concurrent.futures.Executor` does the work, so a cluster's own serves as well. Where a worker process
dies (a broken file may kill a library, or take all memory) its pool is lost: what was not done is then done one file
and one process at a time, so that only the file that kills its worker fails.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from ..schemas.section import FormatError, ParseError
from ..writers.archive import ARCHIVE_MAGIC
from . import StrPath
from .breakpad import BreakpadReport, store_breakpad
from .file_kinds import ELF_MAGIC, first_bytes, is_linked_elf
from .sframe_files import write_sframe
from .sframe_report import SframeReport

Choices: TypeAlias = dict[str, Any]
Report = TypeVar("Report")

# By its name, too: packages are archives of that format.
ARCHIVE_SUFFIX = ".a"


@dataclass(frozen=True, slots=True)
class Failure:
    """A file of many for which nothing was written, and the sentence that says why."""

    file: str
    output: str
    error: str


def files_and_outputs(paths: Iterable[StrPath], output_dir: StrPath) -> list[tuple[Path, Path]]:
    """What to read and what to write: files by their names, those of a folder by their paths in it.

    Of a folder every ELF file and every archive `*.a` is taken, symbolic links are not followed. Raises OSError for a
    path that is not there, ParseError where two files would become one, or one would be written over itself.
    """
    sources: dict[Path, Path] = {}
    for path in map(Path, paths):
        found = sorted(_elf_files(path)) if path.is_dir() else [path]
        for source in found:
            out = Path(output_dir) / (source.relative_to(path) if path.is_dir() else source.name)
            if out in sources and sources[out].resolve() == source.resolve():
                continue  # the same folder or file, given twice
            if out in sources:
                raise ParseError("", None, "", f"{sources[out]} and {source} would both become {out}")
            if out.exists() and source.exists() and out.samefile(source):
                raise ParseError("", None, "", f"{source} would be written over itself")
            sources[out] = source
    return [(source, out) for out, source in sources.items()]


def _elf_files(folder: Path) -> Iterator[Path]:
    for root, _, names in os.walk(folder, onerror=_raise):
        for path in (Path(root, name) for name in names):
            if path.is_symlink() or not path.is_file():
                continue
            header = first_bytes(path)
            is_archive = header.startswith(ARCHIVE_MAGIC) and path.suffix == ARCHIVE_SUFFIX
            if header.startswith(ELF_MAGIC) or is_archive:
                yield path


def _raise(error: OSError) -> None:
    raise error


def linked_files(paths: Iterable[StrPath]) -> list[Path]:
    """Files, and of folders every ELF file that is linked, each once; symbolic links in them are not followed. Raises
    OSError."""
    found: dict[Path, Path] = {}
    for path in map(Path, paths):
        for source in sorted(filter(is_linked_elf, _elf_files(path))) if path.is_dir() else [path]:
            found.setdefault(source.resolve(), source)
    return list(found.values())


def worker_processes(jobs: int, files: int) -> AbstractContextManager[Executor | None]:
    """So many processes; None, which is this one, for one job or one file."""
    import multiprocessing

    if min(jobs, files) < 2:
        return nullcontext()
    # Not forked: a copy of a process with threads may hang.
    return ProcessPoolExecutor(min(jobs, files), multiprocessing.get_context("spawn"))


def write_sframe_many(
    pairs: Sequence[tuple[StrPath, StrPath]], executor: Executor | None = None, **choices: Any
) -> Iterator[SframeReport | Failure]:
    """`write_sframe` with its `choices` for each pair of input and output; outcomes come in the order of the pairs.

    Folders are made as they are needed. `executor` None does it here, file by file.
    """
    return _each(write_sframe, pairs, executor, choices)


def write_breakpad_many(
    paths: Sequence[StrPath], store: StrPath, executor: Executor | None = None, **choices: Any
) -> Iterator[BreakpadReport | Failure]:
    """`store_breakpad` with its `choices` for each path; outcomes come in the order of the paths.

    `executor` None does it here, file by file.
    """
    return _each(store_breakpad, [(path, store) for path in paths], executor, choices)


def _each(
    job: Callable[..., Report], pairs: Sequence[tuple[StrPath, StrPath]], executor: Executor | None, choices: Choices
) -> Iterator[Report | Failure]:
    if executor is None:
        yield from (_one(job, source, out, choices) for source, out in pairs)
        return
    futures = [executor.submit(_one, job, source, out, choices) for source, out in pairs]
    for (source, out), future in zip(pairs, futures, strict=True):
        yield _outcome(job, source, out, choices, future)


def _outcome(
    job: Callable[..., Report], source: StrPath, out: StrPath, choices: Choices, future: Future[Report | Failure]
) -> Report | Failure:
    try:
        return future.result()
    except BrokenProcessPool:
        pass
    with worker_processes(2, 2) as alone:
        assert alone is not None
        try:
            return alone.submit(_one, job, source, out, choices).result()
        except BrokenProcessPool:
            return Failure(os.fspath(source), os.fspath(out), "the process that read it died")


def _one(job: Callable[..., Report], source: StrPath, out: StrPath, choices: Choices) -> Report | Failure:
    try:
        Path(out).parent.mkdir(parents=True, exist_ok=True)
        return job(source, out, **choices)
    except FormatError as error:
        reason = str(error)
    except OSError as error:
        reason = error.strerror or str(error)
    except MemoryError:
        reason = "there is not enough memory for it"
    return Failure(os.fspath(source), os.fspath(out), reason)
