"""Breakpad symbol files, written to a path, a stream or a symbol store: the jobs of `unwindkit breakpad`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from ..converters.breakpad.source_paths import PathMap
from ..converters.elf.debug_files import BY_LINKS, DebugFiles, with_debug_file
from ..converters.elf.image import ElfImage, open_elf
from ..converters.elf.inputs import Input, input_name
from ..converters.elf.relocation import lay_out
from ..converters.files.code_frames import section_sizes
from ..converters.files.symbol_file import SymbolChoices, symbol_file
from ..converters.refusals import count_reasons, is_lossless
from ..schemas.arguments import check_path, checked, each
from ..schemas.data_classes import dataclass
from . import StrPath
from .code_coverage import CodeCoverage, code_coverage
from .report import FileReport, debug_file_of


@dataclass(frozen=True, kw_only=True)
class BreakpadReport(CodeCoverage, FileReport):
    """What `write_breakpad` did.

    `name` and `id` are those of the module. `functions` have call frame information in the sections that `source`
    names, whose sizes are `source_sizes`; `refused` are ranges of them without STACK CFI. `funcs`, `inlines`, `lines`
    and `publics` count FUNC, INLINE, line and PUBLIC records; `skipped_units`, units of `.debug_info` left out because
    they are malformed; `outside`, symbols and functions left out because they are outside every PT_LOAD. `size` of the
    symbol file is in bytes. `is_new`: the store did not have it yet.
    """

    name: str
    id: str
    source: str
    source_sizes: dict[str, int]
    funcs: int
    inlines: int
    lines: int
    skipped_units: int
    publics: int
    outside: int
    size: int
    is_new: bool = True

    @property
    def is_whole(self) -> bool:
        """Whether the file has call frame information, and nothing of it is lost (`Reason.is_loss`)."""
        return self.functions > 0 and is_lossless(self.refused)


@checked(debug=DebugFiles, path_maps=each(PathMap))
def write_breakpad(
    path: Input,
    out: StrPath | BinaryIO,
    cfi_only: bool = False,
    debug: DebugFiles = BY_LINKS,
    *,
    inlines: bool = True,
    lines: bool = True,
    path_maps: Sequence[PathMap] = (),
) -> BreakpadReport:
    """Write the Breakpad symbol file of `path`, a linked ELF file, to `out`; with `cfi_only` only MODULE, INFO and
    STACK CFI records, otherwise with INLINE and line records if `inlines` and `lines`. `debug` chooses the separate
    debug file, for functions, lines, names and call frame information; `path_maps` change the names of source files.

    Raises OSError, and ParseError for malformed input; a path is then unchanged, and nothing is written to a stream. A
    file without call frame information is not an error: `functions` is 0 in the report.
    """
    choices = SymbolChoices(cfi_only, inlines, lines, tuple(path_maps))
    counted = _Counted(with_debug_file(open_elf(path), debug), choices, debug)
    if isinstance(out, str | os.PathLike):
        from ..writers.files import write_pieces

        write_pieces(Path(out), counted)
        return _report(path, os.fspath(out), counted)
    if not hasattr(out, "writelines"):
        raise TypeError(f"an output is a path or a binary stream, not {type(out).__name__}")
    out.writelines(counted)
    return _report(path, "", counted)


@checked(store=check_path, debug=DebugFiles, path_maps=each(PathMap))
def store_breakpad(
    path: Input,
    store: StrPath,
    cfi_only: bool = False,
    debug: DebugFiles = BY_LINKS,
    *,
    inlines: bool = True,
    lines: bool = True,
    path_maps: Sequence[PathMap] = (),
) -> BreakpadReport:
    """As `write_breakpad`, into a symbol store: STORE/NAME/ID/NAME.sym, where readers look for it.

    An existing file with the same content is kept. Raises BuildError if the content is different.
    """
    from ..writers.symbol_store import place_in_store, put_into_store

    choices = SymbolChoices(cfi_only, inlines, lines, tuple(path_maps))
    counted = _Counted(with_debug_file(open_elf(path), debug), choices, debug)
    place = place_in_store(Path(store), counted.found.module.name, counted.found.module.id)
    is_new = put_into_store(place, counted)
    return replace(_report(path, os.fspath(place), counted), is_new=is_new)


class _Counted:
    """The pieces of a file's symbol file; `size` is the sum of their bytes, once they have been iterated."""

    def __init__(self, image: ElfImage, choices: SymbolChoices, debug: DebugFiles) -> None:
        self.found = symbol_file(image, choices, debug)
        self.image = replace(image, notes=(*image.notes, *self.found.notes))
        self.size = 0

    def __iter__(self) -> Iterator[bytes | memoryview]:
        for piece in self.found.chunks():
            self.size += len(piece)
            yield piece


def _report(path: Input, output: str, counted: _Counted) -> BreakpadReport:
    found, unwinding = counted.found, counted.found.unwinding
    text = found.functions
    sizes = section_sizes(counted.image, unwinding.sections)
    return BreakpadReport(
        file=input_name(path),
        **debug_file_of(counted.image),
        output=output,
        name=found.module.name,
        id=found.module.id,
        functions=found.unwinding.functions,
        source=" and ".join(sizes),
        source_sizes=sizes,
        refused={} if found.refusals is None else count_reasons(found.refusals),
        funcs=0 if text is None else len(text.starts),
        inlines=0 if text is None else text.inline_count,
        lines=0 if text is None else text.line_count,
        skipped_units=found.skipped_units,
        publics=found.public_count,
        outside=found.outside,
        size=counted.size,
        **code_coverage(lay_out(counted.image), unwinding.read, unwinding.described, unwinding.written),
    )
