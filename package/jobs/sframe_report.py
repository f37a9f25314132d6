"""What jobs that write `.sframe` into files report, and what they share."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..converters.elf.image import ElfImage, covered_bytes
from ..converters.refusals import Refusals, RefusedCount, count_reasons
from ..converters.sframe.write import Encoded
from ..converters.table.model import UnwindTable
from ..schemas.sframe import PT_GNU_SFRAME, SECTION_ALIGNMENT, SHT_GNU_SFRAME
from . import StrPath

if TYPE_CHECKING:
    from ..writers.elf.engines.plan import LoadedSection


@dataclass(frozen=True, slots=True)
class SframeReport:
    """What `write_sframe` did. Sizes in bytes.

    `functions` were read; `converted` of them are in the result whole, `partial` but for some rows. `refused`
    counts by the name of the `Reason`. `covered_bytes` of `code_bytes` (the executable sections) have FREs.
    `writer` says how room was made in the file, `passed_over` why not otherwise; `moved` are sections that have
    another address now (`WriteReport`). Where only the section was written `writer` is None and `address`
    as asked for. `warnings` are sentences on what the result no longer is: signed.

    A relocatable file has the `writer` RELOCATABLE and no address. Of an archive all figures are sums over `members`
    members; `kept` names each other one, with the reason why it stays as it is.
    """

    file: str
    output: str
    version: int
    compact: str
    functions: int
    converted: int
    partial: int
    refused: dict[str, RefusedCount]
    code_bytes: int
    covered_bytes: int
    cfi_section: str
    cfi_bytes: int
    sframe_bytes: int
    fdes: int
    fres: int
    address: int
    writer: str | None
    replaced_bytes: tuple[int, ...] = ()
    moved: tuple[str, ...] = ()
    passed_over: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    members: int = 0
    kept: tuple[str, ...] = ()


def refuse_without_code(image: ElfImage) -> None:
    """A file that holds debugging information alone has nothing to load a section beside."""
    found = image.named(".eh_frame")
    if found and found[0].is_nobits:
        image.contents(found[0])


def report_of(
    image: ElfImage,
    table: UnwindTable,
    encoded: Encoded,
    refusals: Refusals,
    output: str,
    address: int,
) -> SframeReport:
    """The figures; what concerns the writing is still to come."""
    covered, code = covered_bytes(image, encoded.range_start, encoded.range_start + encoded.range_size)
    is_said, is_refused = np.zeros(len(table), np.bool_), np.zeros(len(table), np.bool_)
    is_said[encoded.function] = True
    is_refused[refusals.function] = True
    return SframeReport(
        file=image.path,
        output=output,
        version=int(encoded.version),
        compact=encoded.compact,
        functions=len(table),
        converted=int((is_said & ~is_refused).sum()),
        partial=int((is_said & is_refused).sum()),
        refused=count_reasons(refusals),
        code_bytes=code,
        covered_bytes=covered,
        cfi_section=table.source,
        cfi_bytes=sum(section.size for section in image.named(table.source)),
        sframe_bytes=len(encoded),
        fdes=len(encoded.fdes),
        fres=encoded.num_fres,
        address=address,
        writer=None,
    )


def sframe_section(encoded: Encoded) -> LoadedSection:
    """An encoded `.sframe` as what is put into an ELF file."""
    from ..writers.elf.engines.plan import LoadedSection

    return LoadedSection(".sframe", SHT_GNU_SFRAME, PT_GNU_SFRAME, len(encoded), encoded.at, SECTION_ALIGNMENT)


def signature_warnings(path: StrPath) -> tuple[str, ...]:
    """A sentence for each signature that a changed copy of a file loses."""
    from ..writers.files import signatures_of

    return tuple(f"it is signed ({one}); the signature is not the result's" for one in signatures_of(Path(path)))
