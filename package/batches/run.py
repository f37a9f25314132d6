"""A batch: the job of a command for every file of its sources, with a manifest of what is done.

Strategy: the job is a function of bytes and options, and any `concurrent.futures.Executor` does it. Whatever the order
in which workers end, results come in the order of the files.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

from ..converters.elf.debug_files import BY_LINKS, DebugFiles
from ..converters.refusals import RefusedCount
from ..converters.sframe.write import Compact
from ..jobs import StrPath
from ..jobs.breakpad import BreakpadReport
from ..jobs.code_coverage import UnreadSection
from ..jobs.export import ExportReport, export_choices, write_columns
from ..jobs.sframe_report import SframeReport
from ..schemas.arguments import check_executor, check_path, checked, each, optional
from ..schemas.data_classes import dataclass
from .convert import convert_to_sframe, convert_to_shards, convert_to_symbols
from .debug_index import DebugIndex
from .limits import Limits
from .manifest import Manifest, key_of, open_manifest, options_key, output_folder
from .mapped import Known, map_job
from .source_files import Failure, Kept, SourceFile
from .sources import (
    Sources,
    files_of,
    find_sources,
    is_elf_or_archive,
    is_linked,
    refuse_overwriting,
    with_own_places,
)

Report: TypeAlias = SframeReport | BreakpadReport | ExportReport | Kept
Kind = TypeVar("Kind", SframeReport, BreakpadReport, ExportReport)


class Command(NamedTuple):
    """What a command does with each file, and the class of the reports."""

    job: Callable[..., Report]
    report: type[Report]


COMMANDS = {
    "sframe": Command(convert_to_sframe, SframeReport),
    "breakpad": Command(convert_to_symbols, BreakpadReport),
    "export": Command(convert_to_shards, ExportReport),
}


@dataclass(frozen=True, slots=True)
class Batch:
    """What to do with the files of `sources`: `command` is one of COMMANDS, `folder` the output folder or the store,
    None to replace the files themselves; `choices` are the options of the command's job, and `manifest` is the path of
    the manifest."""

    command: str
    sources: Sources
    folder: Path | None
    choices: dict[str, Any]
    limits: Limits = Limits()
    manifest: Path | None = None

    @property
    def is_tree(self) -> bool:
        """Whether results keep the places of their files."""
        return self.command != "breakpad"

    def output_of(self, source: SourceFile) -> Path:
        """Where the job puts the result of a file, or the folder below which it does."""
        if self.folder is None:
            return Path(source.name)
        return self.folder / source.place if self.command == "sframe" else self.folder


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one file. `is_skipped`: an earlier run did it."""

    report: Report | Failure
    is_skipped: bool


@checked(
    paths=each(check_path),
    output_dir=check_path,
    executor=optional(check_executor),
    manifest=optional(check_path),
)
def write_sframe_tree(
    paths: Sequence[StrPath],
    output_dir: StrPath,
    executor: Executor | None = None,
    manifest: StrPath | None = None,
    **choices: Any,
) -> Iterator[SframeReport | Failure]:
    """`write_sframe` with the options `choices` for every file of `paths`: files, folders, packages and images of
    containers. Results keep their places in `output_dir`; reports come in the order of the files.

    With `executor` None the files are converted in this process, one by one. `manifest` is the file by which an
    interrupted call goes on. Raises OSError, and ParseError if files would overwrite each other or the manifest is
    damaged.
    """
    sources = find_sources(paths, is_elf_or_archive, output=output_dir)
    refuse_overwriting(sources.files, Path(output_dir))
    batch = Batch("sframe", sources, Path(output_dir), _all(choices), manifest=_path(manifest))
    return _reports(run_batch(batch, executor), SframeReport)


@checked(paths=each(check_path), store=check_path, executor=optional(check_executor), manifest=optional(check_path))
def write_symbol_store(
    paths: Sequence[StrPath],
    store: StrPath,
    executor: Executor | None = None,
    manifest: StrPath | None = None,
    **choices: Any,
) -> Iterator[BreakpadReport | Failure]:
    """`store_breakpad` with the options `choices` for every linked file of `paths`, as in `write_sframe_tree`; debug
    files among them are used for their files."""
    sources = find_sources(paths, is_linked, output=store)
    batch = Batch("breakpad", sources, Path(store), _all(choices), manifest=_path(manifest))
    return _reports(run_batch(batch, executor), BreakpadReport)


@checked(
    paths=each(check_path),
    out_dir=check_path,
    executor=optional(check_executor),
    manifest=optional(check_path),
    only=each(str),
    compact=optional(str),
    debug=DebugFiles,
)
def export_tree(
    paths: Sequence[StrPath],
    out_dir: StrPath,
    executor: Executor | None = None,
    manifest: StrPath | None = None,
    only: Collection[str] = (),
    version: int = 2,
    compact: Compact | None = None,
    debug: DebugFiles = BY_LINKS,
) -> Iterator[ExportReport | Failure]:
    """`export_file` for every linked file of `paths`, as in `write_sframe_tree`: the shards of a file are named after
    its place in its folder or package."""
    sources = find_sources(paths, is_linked, output=out_dir)
    choices = {"choices": export_choices(only, version, compact), "debug": debug}
    batch = export_batch(sources, Path(out_dir), choices, Limits(), _path(manifest))
    return _reports(run_batch(batch, executor), ExportReport)


def export_batch(
    sources: Sources, folder: Path, choices: dict[str, Any], limits: Limits, manifest: Path | None = None
) -> Batch:
    """The batch of an export, for which the folder is prepared. Raises OSError, ParseError, ImportError."""
    refuse_overwriting(sources.files, folder)
    write_columns(folder, choices["choices"].only)
    return Batch("export", sources, folder, choices, limits, manifest)


def _reports(outcomes: Iterator[Outcome], kind: type[Kind]) -> Iterator[Kind | Failure]:
    """The reports of a batch, whose command makes those of one kind."""
    for one in outcomes:
        assert isinstance(one.report, kind | Failure)
        yield one.report


def _path(manifest: StrPath | None) -> Path | None:
    return None if manifest is None else Path(manifest)


def _all(choices: dict[str, Any]) -> dict[str, Any]:
    """The choices, with the one that the batch needs itself."""
    return {"debug": BY_LINKS, **choices}


def run_batch(batch: Batch, executor: Executor | None, at_end: Callable[[], None] = lambda: None) -> Iterator[Outcome]:
    """Do a batch. With `executor` None it is done in this process. `at_end` is called after each file and package of
    the sources has been read. Raises OSError and ParseError for a folder or manifest that cannot be used."""
    with ExitStack() as stack:
        manifest = None
        # A file that is replaced once more is the same, so that no manifest is needed to go on.
        for folder in batch.sources.folders if batch.folder is None else (batch.folder,):
            stack.enter_context(output_folder(folder, batch.folder is None or batch.manifest is not None))
        if batch.manifest is not None and batch.folder is not None:
            manifest = stack.enter_context(open_manifest(batch.manifest, batch.folder))
        debug = batch.choices["debug"]
        index = DebugIndex(batch.sources if debug.links else Sources((), (), batch.sources.wanted))
        keys: deque[str | None] = deque()
        job = COMMANDS[batch.command].job
        choices = {**batch.choices, "limits": batch.limits}
        for found in map_job(job, _pairs(batch, manifest, index, keys, at_end), executor, choices):
            key = keys.popleft()
            if isinstance(found, Outcome):
                yield found
                continue
            report: Report | Failure = found
            if manifest and isinstance(report, Failure):
                manifest.add_failure(asdict(report))
            elif manifest and key is not None and not isinstance(report, Kept):
                outputs = report.shards if isinstance(report, ExportReport) else (report.output,)
                manifest.add(key, outputs, asdict(report))
            yield Outcome(report, is_skipped=False)


def _pairs(
    batch: Batch,
    manifest: Manifest | None,
    index: DebugIndex,
    keys: deque[str | None],
    at_end: Callable[[], None],
) -> Iterator[tuple[SourceFile, Path] | Known]:
    """The files with their outputs, and the results that are known already; the key of each is added to `keys`."""
    options = options_key(batch.command, batch.choices)
    debug = batch.choices["debug"]
    folders = debug.folders if debug.links else ()
    files = files_of(batch.sources, at_end)
    for one in with_own_places(files) if batch.is_tree and batch.folder is not None else files:
        if isinstance(one, Failure):
            keys.append(None)
            yield Known(one)
            continue
        source = replace(one, debug=index.debug_of(one))
        key = None if manifest is None else _key(source, options, folders)
        done = None if manifest is None or key is None else manifest.report_of(key)
        keys.append(key)
        if done is not None:
            yield Known(Outcome(_report_from(batch, done), is_skipped=True))
        else:
            yield source, batch.output_of(source)


def _key(source: SourceFile, options: str, folders: tuple[str | os.PathLike[str], ...]) -> str | None:
    try:
        return key_of(source, options, folders)
    except OSError:
        return None  # the job reports it


def _report_from(batch: Batch, found: dict[str, Any]) -> Report:
    """The report that was made into JSON."""
    kind = COMMANDS[batch.command].report
    values = {one.name: found[one.name] for one in fields(kind) if one.name in found}
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    for name, part in (("refused", RefusedCount), ("unread", UnreadSection)):
        if name in values:
            values[name] = {reason: part(**one) for reason, one in values[name].items()}
    return kind(**values)
