"""Whole jobs that write Breakpad symbol files: to a path, to a stream, into a symbol store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from ..converters.elf.image import open_elf
from ..converters.files.symbol_file import SymbolFile, symbol_file
from ..converters.refusals import count_reasons
from . import StrPath
from .report import FileReport


@dataclass(frozen=True, kw_only=True)
class BreakpadReport(FileReport):
    """What `write_breakpad` did.

    `name` and `id` are the module's. `functions` have call frame information in the sections that `source` names;
    `refused` are ranges of them without STACK CFI. `publics` counts PUBLIC records; `outside`, what was left out
    because it lies outside every PT_LOAD. `size` is the symbol file's in bytes. `is_new`: it was not in the store
    before.
    """

    name: str
    id: str
    source: str
    publics: int
    outside: int
    size: int
    is_new: bool = True

    @property
    def is_whole(self) -> bool:
        """Whether the file has call frame information, all of which could be said."""
        return self.functions > 0 and not self.refused


def write_breakpad(path: StrPath, out: StrPath | BinaryIO, cfi_only: bool = False) -> BreakpadReport:
    """Write the Breakpad symbol file of `path`, a linked ELF file, to `out`; without PUBLIC records if `cfi_only`.

    Raises OSError, and ParseError for broken input; a path is then as it was, and nothing is written to a stream. A
    file without call frame information is no error: the report says so (`functions` is 0).
    """
    found = symbol_file(open_elf(path), cfi_only)
    counted = _Counted(found)
    if isinstance(out, str | os.PathLike):
        from ..writers.files import write_pieces

        write_pieces(Path(out), counted)
        return _report(path, os.fspath(out), counted)
    out.writelines(counted)
    return _report(path, "", counted)


def store_breakpad(path: StrPath, store: StrPath, cfi_only: bool = False) -> BreakpadReport:
    """As `write_breakpad`, into a symbol store: STORE/NAME/ID/NAME.sym, as its readers look files up.

    A file that is there with the same content stays, and is no error. Raises BuildError for one with another content.
    """
    from ..writers.symbol_store import place_in_store, put_into_store

    found = symbol_file(open_elf(path), cfi_only)
    counted, place = _Counted(found), place_in_store(Path(store), found.module.name, found.module.id)
    is_new = put_into_store(place, counted)
    return replace(_report(path, os.fspath(place), counted), is_new=is_new)


class _Counted:
    """The pieces of a symbol file, and how many bytes they were."""

    def __init__(self, found: SymbolFile) -> None:
        self.found = found
        self.size = 0

    def __iter__(self) -> Iterator[bytes | memoryview]:
        for piece in self.found.pieces():
            self.size += len(piece)
            yield piece


def _report(path: StrPath, output: str, counted: _Counted) -> BreakpadReport:
    found = counted.found
    return BreakpadReport(
        file=os.fspath(path),
        output=output,
        name=found.module.name,
        id=found.module.id,
        functions=found.functions,
        source=found.source,
        refused={} if found.refusals is None else count_reasons(found.refusals),
        publics=found.public_count,
        outside=found.outside,
        size=counted.size,
    )
