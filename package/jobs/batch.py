"""Many files, each independent of the others: one that fails does not stop them.

Strategy: any `concurrent.futures.Executor` can do the work, including a cluster's. If a worker process dies (a
malformed file may crash a library, or use all memory), its pool is lost; each remaining file then gets a process of its
own, so that only the file that kills its worker fails.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from ..converters.threads import use_one_thread
from ..schemas.archive import ARCHIVE_MAGIC
from ..schemas.arguments import check_executor, check_path, checked, optional
from ..schemas.data_classes import dataclass
from ..schemas.elf.headers import MAGIC
from ..schemas.section import FormatError, ParseError
from . import StrPath
from .breakpad import BreakpadReport, store_breakpad
from .file_kinds import first_bytes, is_linked_elf
from .sframe_files import write_sframe
from .sframe_report import SframeReport

Choices: TypeAlias = dict[str, Any]
Report = TypeVar("Report")

# The suffix is required too: some package formats have the same magic.
ARCHIVE_SUFFIX = ".a"


@dataclass(frozen=True, slots=True)
class Failure:
    """A file for which nothing was written, and the reason."""

    file: str
    output: str
    error: str


def files_and_outputs(paths: Iterable[StrPath], output_dir: StrPath) -> list[tuple[Path, Path]]:
    """Pairs of input and output paths: a file keeps its name in `output_dir`, a file in a folder its path there.

    In a folder, every ELF file and every archive `*.a` is taken; symbolic links are not followed. Raises OSError for a
    missing folder, ParseError if two files would have the same output, or one would overwrite itself.
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
            if header.startswith(MAGIC) or is_archive:
                yield path


def _raise(error: OSError) -> None:
    raise error


def linked_files(paths: Iterable[StrPath]) -> list[Path]:
    """The given files, and every linked ELF file in the given folders, each once; symbolic links in folders are not
    followed. Raises OSError."""
    found: dict[Path, Path] = {}
    for path in map(Path, paths):
        for source in sorted(filter(is_linked_elf, _elf_files(path))) if path.is_dir() else [path]:
            found.setdefault(source.resolve(), source)
    return list(found.values())


def worker_processes(jobs: int, files: int) -> AbstractContextManager[Executor | None]:
    """A pool of up to `jobs` processes, with one thread each; None, for this process, if one is enough."""
    import multiprocessing

    if min(jobs, files) < 2:
        return nullcontext()
    # Not forked: the copy of a process with threads may hang.
    return ProcessPoolExecutor(min(jobs, files), multiprocessing.get_context("spawn"), use_one_thread)


@checked(executor=optional(check_executor))
def write_sframe_many(
    pairs: Sequence[tuple[StrPath, StrPath]], executor: Executor | None = None, **choices: Any
) -> Iterator[SframeReport | Failure]:
    """`write_sframe` with the options `choices` for each (input, output); results come in the same order.

    Missing folders are created. With `executor` None the files are converted in this process, one by one.
    """
    return _each(write_sframe, pairs, executor, choices)


@checked(store=check_path, executor=optional(check_executor))
def write_breakpad_many(
    paths: Sequence[StrPath], store: StrPath, executor: Executor | None = None, **choices: Any
) -> Iterator[BreakpadReport | Failure]:
    """`store_breakpad` with the options `choices` for each path; results come in the same order.

    With `executor` None the files are converted in this process, one by one.
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
            return Failure(os.fspath(source), os.fspath(out), "the process that converted it died")


def _one(job: Callable[..., Report], source: StrPath, out: StrPath, choices: Choices) -> Report | Failure:
    try:
        Path(out).parent.mkdir(parents=True, exist_ok=True)
        return job(source, out, **choices)
    except FormatError as error:
        reason = str(error)
    except OSError as error:
        reason = error.strerror or str(error)
    except MemoryError:
        reason = "not enough memory"
    return Failure(os.fspath(source), os.fspath(out), reason)
