"""Whole jobs on sections: one format or version into another, and several sections into one.

Strategy: an input is an ELF file, which says where its section is, or the bytes of a section, of which the caller does;
the ELF magic tells. Everything goes through the table.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..converters.refusals import Refusals, RefusedCount, count_reasons
from ..converters.sframe.write import Compact, Encoded, sframe_from_table
from ..converters.table.cut import trimmed
from ..converters.table.model import UnwindTable
from ..schemas.section import BuildError
from ..writers.files import write_bytes
from . import StrPath
from .sframe_report import sframe_section
from .sources import Source, read_source

if TYPE_CHECKING:
    from ..writers.elf.add import Writer


@dataclass(frozen=True, slots=True)
class ConvertReport:
    """What `convert` did. Sizes in bytes.

    `functions` with bytes were read from `source`, a section of `source_bytes` and, where it is SFrame, of
    `source_version`; `converted` of them are in the result whole, `partial` but for some rows. `refused` counts by the
    name of the `Reason`. `address` is the result's; `writer` is None where only the section was written.
    """

    file: str
    output: str
    source: str
    source_version: int | None
    source_bytes: int
    version: int
    compact: str
    functions: int
    converted: int
    partial: int
    refused: dict[str, RefusedCount]
    sframe_bytes: int
    fdes: int
    fres: int
    address: int
    writer: str | None


def convert(
    path: StrPath,
    out_path: StrPath,
    version: int = 2,
    source: str | None = None,
    address: int = 0,
    to_address: int | None = None,
    compact: Compact | None = None,
    section_only: bool = False,
    architecture: str | None = None,
    writer: Writer = "auto",
) -> ConvertReport:
    """Write the unwind information of `path`, an ELF file or a raw section, as SFrame to `out_path`.

    `source`, one of SOURCES, is the section to read (None: sframe). Raw: it is at the virtual address `address`, and
    call frame information needs the `architecture`; the result is a raw section for `to_address` (None: the same).
    An ELF file says both; the result is a copy with the `.sframe` in its place, for which `writer` makes room, with
    `section_only` the section. Raises OSError, ParseError for broken input, BuildError for what cannot be written or
    goes with the other kind of input; `out_path` is then as it was.
    """
    found = read_source(Path(path), source or "sframe", address, architecture)
    table = trimmed(found.table)
    encoded, refusals = sframe_from_table(table, version, compact)
    engine, place = None, found.section.address if to_address is None else to_address
    if found.image is None or section_only:
        write_bytes(Path(out_path), encoded.at(place))
    elif to_address is not None:
        raise BuildError(".sframe", None, "to_address", "is chosen by what writes an ELF file")
    else:
        from ..writers.elf.add import write_section

        written = write_section(Path(path), Path(out_path), sframe_section(encoded), writer)
        engine, place = written.engine, written.address
    return _report(os.fspath(path), os.fspath(out_path), found, table, encoded, refusals, place, engine)


def _report(
    file: str,
    output: str,
    found: Source,
    table: UnwindTable,
    encoded: Encoded,
    refusals: Refusals,
    address: int,
    writer: str | None,
) -> ConvertReport:
    is_said, is_refused = np.zeros(len(table), np.bool_), np.zeros(len(table), np.bool_)
    is_said[encoded.function] = True
    is_refused[refusals.function] = True
    return ConvertReport(
        file=file,
        output=output,
        source=found.section.name,
        source_version=found.version,
        source_bytes=len(found.section),
        version=int(encoded.version),
        compact=encoded.compact,
        functions=int((table.functions.size > 0).sum()),
        converted=int((is_said & ~is_refused).sum()),
        partial=int((is_said & is_refused).sum()),
        refused=count_reasons(refusals),
        sframe_bytes=len(encoded),
        fdes=len(encoded.fdes),
        fres=encoded.num_fres,
        address=address,
        writer=writer,
    )
