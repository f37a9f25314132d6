"""The report of the jobs that add `.sframe` to files, and what these jobs share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from ..converters.elf.image import ElfImage
from ..converters.elf.relocation import LaidOut
from ..converters.files.code_frames import CodeFrames, ranges_of, section_sizes
from ..converters.files.read_elf import ALL
from ..converters.refusals import Refusals, count_reasons
from ..converters.sframe.write import Compact, Encoded
from ..schemas.data_classes import dataclass
from ..schemas.section import BuildError
from ..schemas.sframe import PT_GNU_SFRAME, SECTION_ALIGNMENT, SHT_GNU_SFRAME
from . import StrPath
from .code_coverage import CodeCoverage, code_coverage
from .report import Coverage, FileReport, Placement, SframeFigures, coverage, debug_file_of, sframe_figures

if TYPE_CHECKING:
    from ..converters.files.code_frames import Ranges
    from ..writers.elf.engines.plan import LoadedSection


FrameSource = Literal["all", "eh_frame", "debug_frame"]


@dataclass(frozen=True, slots=True)
class Choices:
    """The arguments of `to_sframe`, and the section to read, or ALL."""

    version: int
    compact: Compact | None
    max_rows: int | None
    section: str
    pcrel: bool = True
    frame_pointer: bool = False


def section_of(source: FrameSource) -> str:
    """The section of a source. Raises BuildError if it is unknown."""
    if source not in get_args(FrameSource):
        raise BuildError("", None, "source", f"{source!r} is not one of {', '.join(get_args(FrameSource))}")
    return ALL if source == ALL else f".{source}"


@dataclass(frozen=True, kw_only=True)
class SframeReport(Placement, SframeFigures, CodeCoverage, Coverage, FileReport):
    """What `write_sframe` did. Sizes in bytes.

    `cfi_section` names the sections that the functions are from, `cfi_sizes` has the size of each, uncompressed, and
    `cfi_bytes` their sum. `replaced_bytes` are the sizes of the `.sframe` sections that were replaced. `warnings` are
    sentences about what the result has lost: a signature.

    A relocatable file has the `writer` RELOCATABLE and the address 0. For an archive the figures are sums over
    `members` members; `kept` names every other member, with the reason why it is unchanged.
    """

    cfi_section: str
    cfi_bytes: int
    cfi_sizes: dict[str, int]
    replaced_bytes: tuple[int, ...] = ()
    warnings: tuple[str, ...] = ()
    members: int = 0
    kept: tuple[str, ...] = ()


def refuse_without_code(image: ElfImage) -> None:
    """ParseError for a separate debug file: it has no code to load a section with."""
    found = image.named(".eh_frame")
    if found and found[0].is_nobits:
        image.contents(found[0])


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """What a section was made from, without the rows: `sections`, `read` and `outside` as of `CodeFrames`; the ranges
    `described` by its functions; and the number of `functions`, with those of the PLT."""

    sections: tuple[str, ...]
    read: tuple[str, ...]
    outside: int
    described: Ranges
    functions: int


def source_of(frames: CodeFrames, functions: int) -> Source:
    """The source of a section with that many functions."""
    return Source(frames.sections, frames.read, frames.outside, ranges_of(frames.table), functions)


@dataclass(frozen=True, slots=True, eq=False)
class Converted:
    """The `.sframe` made from the call frame information of a file."""

    laid: LaidOut
    source: Source
    encoded: Encoded
    refusals: Refusals


def report_of(converted: Converted, output: str, address: int) -> SframeReport:
    """The report, except for what the ELF writer adds to it."""
    encoded, source = converted.encoded, converted.source
    is_written = np.zeros(source.functions, np.bool_)
    is_written[encoded.function] = True
    sizes = section_sizes(converted.laid.image, source.sections)
    written = encoded.range_start, encoded.range_start + encoded.range_size
    return SframeReport(
        file=converted.laid.image.path,
        **debug_file_of(converted.laid.image),
        output=output,
        functions=source.functions,
        refused=count_reasons(converted.refusals),
        outside_code=source.outside,
        cfi_section=" and ".join(sizes),
        cfi_bytes=sum(sizes.values()),
        cfi_sizes=sizes,
        address=address,
        **code_coverage(converted.laid, source.read, source.described, written),
        **coverage(is_written, converted.refusals),
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
