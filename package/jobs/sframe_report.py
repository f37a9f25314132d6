"""The report of the jobs that add `.sframe` to files, and what these jobs share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..converters.elf.image import ElfImage, covered_bytes
from ..converters.refusals import Refusals, count_reasons
from ..converters.sframe.write import Encoded
from ..converters.table.model import UnwindTable
from ..schemas.sframe import PT_GNU_SFRAME, SECTION_ALIGNMENT, SHT_GNU_SFRAME
from . import StrPath
from .report import Coverage, FileReport, Placement, SframeFigures, coverage, sframe_figures

if TYPE_CHECKING:
    from ..writers.elf.engines.plan import LoadedSection


@dataclass(frozen=True, kw_only=True)
class SframeReport(Placement, SframeFigures, Coverage, FileReport):
    """What `write_sframe` did. Sizes in bytes.

    `covered_bytes` of `code_bytes` (the executable sections) have FREs. `cfi_section`, of `cfi_bytes`, was read.
    `replaced_bytes` are the sizes of the `.sframe` sections that were replaced. `warnings` are sentences about what
    the result has lost: a signature.

    A relocatable file has the `writer` RELOCATABLE and the address 0. For an archive the figures are sums over
    `members` members; `kept` names every other member, with the reason why it is unchanged.
    """

    code_bytes: int
    covered_bytes: int
    cfi_section: str
    cfi_bytes: int
    replaced_bytes: tuple[int, ...] = ()
    warnings: tuple[str, ...] = ()
    members: int = 0
    kept: tuple[str, ...] = ()


def refuse_without_code(image: ElfImage) -> None:
    """ParseError for a separate debug file: it has no code to load a section with."""
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
    """The report, except for what the ELF writer adds to it."""
    covered, code = covered_bytes(image, encoded.range_start, encoded.range_start + encoded.range_size)
    is_written = np.zeros(len(table), np.bool_)
    is_written[encoded.function] = True
    return SframeReport(
        file=image.path,
        output=output,
        functions=len(table),
        refused=count_reasons(refusals),
        code_bytes=code,
        covered_bytes=covered,
        cfi_section=table.source,
        cfi_bytes=sum(image.content_size(section) for section in image.named(table.source)),
        address=address,
        **coverage(is_written, refusals),
        **sframe_figures(encoded),
    )


def sframe_section(encoded: Encoded) -> LoadedSection:
    """An encoded `.sframe` in the form that the ELF writer takes."""
    from ..writers.elf.engines.plan import LoadedSection

    return LoadedSection(".sframe", SHT_GNU_SFRAME, PT_GNU_SFRAME, len(encoded), encoded.at, SECTION_ALIGNMENT)


def signature_warnings(path: StrPath) -> tuple[str, ...]:
    """A sentence for each signature that a modified copy of the file loses."""
    from ..writers.files import signatures_of

    return tuple(
        f"the file is signed ({one}); the signature does not match the result" for one in signatures_of(Path(path))
    )
