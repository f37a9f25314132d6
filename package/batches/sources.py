"""The files of a batch: those that are given, those in folders, and those in packages.

Strategy: arguments are sorted into files and packages at once, so that mistakes are found before any work. Packages are
read one after the other while the batch runs; only the files that are waiting for a worker are in memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeAlias

from ..converters.elf.inputs import map_input
from ..converters.packages.images import LAYOUT, image_members, is_layout, layout_of_folder, layout_of_tar
from ..converters.packages.members import DEFAULT_LIMIT, Members, Unread, Wanted
from ..converters.packages.readers import PACKAGE_SUFFIXES, kind_of, package_members
from ..jobs import StrPath
from ..jobs.file_kinds import ARCHIVE_SUFFIX, HEADER_SIZE, is_relocatable
from ..schemas.archive import ARCHIVE_MAGIC
from ..schemas.data_classes import dataclass
from ..schemas.elf.headers import MAGIC
from ..schemas.section import FormatError, ParseError
from .source_files import Failure, SourceFile

IN_PACKAGE = "!/"
# Debug files are read with the files that they belong to; they are not converted themselves.
# The beginning of the names of our temporary files, which a run that was killed may have left.
TEMPORARY = ".unwindkit-"
DEBUG_PLACES = ("/usr/lib/debug/", "/.build-id/", "/.dwz/")

IsWanted: TypeAlias = Callable[[str, bytes], bool]


def is_elf_or_archive(path: str, start: bytes) -> bool:
    """Whether a file of a folder or package is ELF, or an archive of object files."""
    # The suffix is required too: some package formats have the same magic.
    return start.startswith(MAGIC) or (start.startswith(ARCHIVE_MAGIC) and path.endswith(ARCHIVE_SUFFIX))


def is_linked(_: str, start: bytes) -> bool:
    """Whether a file of a folder or package is ELF and not relocatable."""
    return start.startswith(MAGIC) and not is_relocatable(start)


def is_debug_place(path: str) -> bool:
    """Whether a path is one where only separate debug files are."""
    return any(place in f"/{path}" for place in DEBUG_PLACES)


@dataclass(frozen=True, slots=True)
class Sources:
    """What a batch reads: `files`, and `packages`, which are paths of packages and images of containers. `wanted` tells
    which files of packages are converted, by path and first bytes; those larger than `limit` bytes fail. `debug` are
    the debug files in the given `folders`; files that are `excluded` were left out, and are in packages."""

    files: tuple[SourceFile, ...]
    packages: tuple[Path, ...]
    wanted: IsWanted
    limit: int = DEFAULT_LIMIT
    debug: tuple[Path, ...] = ()
    folders: tuple[Path, ...] = ()
    excluded: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.files) + len(self.packages)


def find_sources(
    paths: Iterable[StrPath],
    wanted: IsWanted,
    limit: int = DEFAULT_LIMIT,
    output: StrPath | None = None,
    excluded: Sequence[str] = (),
) -> Sources:
    """Sort the given paths; of a folder, take every file that `wanted` accepts, every package by its suffix, and every
    image of a container. Symbolic links in folders are not followed, and the folder of results, `output`, is left
    out; so is, in folders and packages, what `is_excluded`. Each file is taken once. Raises OSError for a missing
    folder."""
    files: dict[str, SourceFile] = {}
    packages: dict[str, Path] = {}
    debug: list[Path] = []
    paths, results = list(paths), None if output is None else os.path.realpath(output)
    for path in map(Path, paths):
        for one in _in_folder(path, wanted, results) if path.is_dir() else [path]:
            real = os.path.realpath(one)
            if one.is_dir() or _is_package(one):
                packages.setdefault(real, one)
            elif one is not path and is_debug_place(real):
                debug.append(one)
            elif real not in files:
                place = one.relative_to(path).as_posix() if one is not path else one.name
                if one is path or not is_excluded(place, excluded):
                    files[real] = SourceFile(os.fspath(one), place)
    folders = tuple(path for path in map(Path, paths) if path.is_dir())
    found = tuple(files.values()), tuple(packages.values())
    return Sources(*found, wanted, limit, tuple(debug), folders, tuple(excluded))


def is_excluded(place: str, patterns: Sequence[str]) -> bool:
    """Whether the path of a file in its folder or package matches a shell pattern; one without a slash is for the name
    of the file."""
    name = place.rpartition("/")[2]
    return any(fnmatchcase(place if "/" in one else name, one.removeprefix("/")) for one in patterns)


def with_links(files: Sequence[SourceFile]) -> tuple[SourceFile, ...]:
    """The files, those that are hard links of each other as one. Raises OSError."""
    groups: dict[tuple[int, int], list[SourceFile]] = {}
    for one in files:
        about = os.stat(one.name)
        groups.setdefault((about.st_dev, about.st_ino), []).append(one)
    return tuple(replace(first, links=tuple(one.name for one in rest)) for first, *rest in groups.values())


def _in_folder(folder: Path, wanted: IsWanted, results: str | None) -> list[Path]:
    """The files, packages and images to take, sorted. Raises OSError for a folder that cannot be read; a file that
    cannot is taken, and fails by name."""
    found, todo = [], [os.fspath(folder)]
    while todo:
        with os.scandir(todo.pop()) as entries:
            listed = list(entries)
        if any(one.name == LAYOUT for one in listed) and is_layout(Path(listed[0].path).parent):
            found.append(Path(listed[0].path).parent)
            continue
        todo += [
            one.path
            for one in listed
            if one.is_dir(follow_symlinks=False) and not (results and _is_same(one.path, results))
        ]
        files = (one.path for one in listed if one.is_file(follow_symlinks=False))
        found += [Path(path) for path in files if _is_taken(path, wanted)]
    return sorted(found)


def _is_same(path: str, other: str) -> bool:
    """Whether a folder that is no link is another one, given without links."""
    return os.path.basename(path) == os.path.basename(other) and os.path.realpath(path) == other


def _is_taken(path: str, wanted: IsWanted) -> bool:
    """Whether a file of a folder is taken. Of all files of a system few are: no objects are made for the others."""
    name = os.path.basename(path)
    if name.startswith(TEMPORARY):
        return False
    if os.path.splitext(name)[1] in PACKAGE_SUFFIXES:
        return True
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError:
        return True
    try:
        start = os.read(handle, HEADER_SIZE)
    finally:
        os.close(handle)
    # A file of dwz is not linked.
    return wanted(name, start) or (start.startswith(MAGIC) and is_debug_place(os.path.realpath(path)))


def _is_package(path: Path) -> bool:
    """Whether a file is a package, by its first bytes; what cannot be read is a file, and fails as one."""
    try:
        return path.is_file() and kind_of(map_input(path)) is not None
    except OSError:
        return False


def members_of_package(path: Path, wanted: Wanted) -> Members:
    """The wanted files of a package or image. Raises OSError, ParseError."""
    if path.is_dir():
        yield from image_members(layout_of_folder(path), wanted)
        return
    data = map_input(path)
    layout = layout_of_tar(data)
    if layout is not None:
        yield from image_members(layout, wanted)
    else:
        yield from package_members(os.fspath(path), data, wanted)


def files_of(sources: Sources, at_end: Callable[[], None] = lambda: None) -> Iterator[SourceFile | Failure]:
    """The files of a batch in order: those given and in folders, then those in packages; a file or package that cannot
    be read is a Failure. `at_end` is called after each file and package."""
    for one in sources.files:
        yield one
        at_end()
    for path in sources.packages:
        yield from _files_of_package(path, sources)
        at_end()


def with_own_places(files: Iterable[SourceFile | Failure]) -> Iterator[SourceFile | Failure]:
    """The same, with a Failure for each file whose result would overwrite that of an earlier one."""
    places: set[str] = set()
    for one in files:
        if isinstance(one, SourceFile) and one.place in places:
            reason = "another file has the same place in the output"
            yield Failure(one.name, one.place, f"{reason}: {one.place}", reason)
            continue
        if isinstance(one, SourceFile):
            places.add(one.place)
        yield one


def _files_of_package(path: Path, sources: Sources) -> Iterator[SourceFile | Failure]:
    package = os.fspath(path)

    def wanted(name: str, start: bytes) -> bool:
        return sources.wanted(name, start) and not is_debug_place(name)

    seen = set()
    try:
        for one in members_of_package(path, Wanted(wanted, sources.limit)):
            if is_excluded(one.path, sources.excluded):
                continue
            name = f"{package}{IN_PACKAGE}{one.path}"
            if isinstance(one, Unread):
                yield Failure(name, "", one.reason, one.reason)
            elif one.path in seen:
                yield Failure(name, "", "is twice in the package", "is twice in the package")
            else:
                seen.add(one.path)
                yield SourceFile(name, f"{path.name}/{one.path}", one.data, one.mode, one.mtime)
    except FormatError as error:
        yield Failure(package, "", str(error), error.reason)
    except OSError as error:
        yield Failure(package, "", error.strerror or str(error), error.strerror or str(error))


def refuse_overwriting(files: Sequence[SourceFile], output_dir: Path) -> None:
    """Raise ParseError if two files would have the same output, or one would overwrite itself."""
    places: dict[str, str] = {}
    for one in files:
        out = output_dir / one.place
        if one.place in places:
            raise ParseError("", None, "", f"{places[one.place]} and {one.name} would both become {out}")
        if out.exists() and Path(one.name).exists() and out.samefile(one.name):
            raise ParseError("", None, "", f"{one.name} would be written over itself")
        places[one.place] = one.name
