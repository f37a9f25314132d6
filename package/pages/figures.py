"""The figures of a report, from columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import numpy as np

from ..converters.arrays import distinct_values, furthest_before
from ..converters.elf.image import ElfImage, ElfSection, covered_bytes
from ..converters.files.code_frames import expressed_ranges, ranges_of
from ..converters.files.uncovered_code import uncovered_code
from ..converters.refusals import Reason, Refusals
from ..converters.sframe.write import WRITTEN, Compact, functions_of_table, sframe_from_functions
from ..converters.table.model import UnwindTable
from ..schemas.section import BuildError
from .model import CodeFigures, SframeCost, SharedRuns, SourceFigures

if TYPE_CHECKING:
    from ..converters.files.code_frames import Ranges

# Pictures of code are about this version of SFrame, which `unwindkit sframe` writes by default.
SHOWN_VERSION = int(WRITTEN[0])


def source_figures(image: ElfImage, name: str, size: int, table: UnwindTable) -> SourceFigures:
    """The figures of a section that was read."""
    covered = covered_bytes(image, *ranges_of(table))[0] if image.is_elf else 0
    distinct = int(np.count_nonzero(np.bincount(table.functions.run)))
    return SourceFigures(name, size, len(table), row_count(table), distinct, covered)


def row_count(table: UnwindTable) -> int:
    """The rows of all functions."""
    return int(np.diff(table.run_rows)[table.functions.run].sum())


def shared_runs(table: UnwindTable) -> tuple[SharedRuns, ...]:
    """How many row runs one function has, two, up to four, up to eight, ..."""
    uses = np.bincount(table.functions.run)
    uses = uses[uses > 0]
    power = np.ceil(np.log2(uses)).astype(np.int64)
    found = []
    for one in distinct_values(power).tolist():
        here = uses[power == one]
        found.append(SharedRuns((1 << one) // 2 + 1 if one else 1, 1 << one, len(here), int(here.sum())))
    return tuple(found)


def sframe_costs(table: UnwindTable) -> tuple[tuple[SframeCost, ...], dict[int, Refusals]]:
    """What the `.sframe` of each version and compaction would take, and what the versions refuse."""
    costs, refused = list[SframeCost](), dict[int, Refusals]()
    for version in map(int, WRITTEN):
        try:
            functions = functions_of_table(table, version)
        except BuildError as error:
            return tuple(SframeCost(number, "", fault=error.reason) for number in WRITTEN), {}
        for compact in get_args(Compact):
            try:
                encoded, refused[version] = sframe_from_functions(functions, compact)
            except BuildError as error:
                costs.append(SframeCost(version, compact, fault=error.reason))
                continue
            costs.append(SframeCost(version, compact, len(encoded), len(encoded.fdes), encoded.num_fres))
    return tuple(costs), refused


def code_figures(
    image: ElfImage, table: UnwindTable, frames: UnwindTable, refusals: dict[int, Refusals]
) -> tuple[CodeFigures, ...]:
    """Each executable section by what is known of its bytes. `frames` is what SFrame was made from."""
    if not image.is_elf:
        return ()
    bare = uncovered_code(image, table)
    # Without SFrame for the machine, nothing is refused.
    refused = refusals.get(SHOWN_VERSION, Refusals.empty(0))
    expressed = expressed_ranges(frames, refused)
    found: dict[str, CodeFigures] = {}
    for section in image.sections:
        if section.is_code and section.size:
            one = _of_section(section, ranges_of(table), expressed, refused, bare)
            found[section.name] = _sum(found[section.name], one) if section.name in found else one
    return tuple(found.values())


def _of_section(
    section: ElfSection, covered: Ranges, expressed: Ranges, refused: Refusals, bare: Ranges
) -> CodeFigures:
    """A PC of two functions may be refused for one of them: it is expressed; one of several reasons counts for the
    first."""
    so_far, reasons = expressed, dict[str, int]()
    known = _bytes_in(section, so_far)
    for reason in map(Reason, distinct_values(refused.reason).tolist()):
        here = refused.select(refused.reason == reason)
        so_far = np.concatenate([so_far[0], here.start]), np.concatenate([so_far[1], here.end])
        before, known = known, _bytes_in(section, so_far)
        if known > before:
            reasons[reason.name] = known - before
    has_rows, has_none = _bytes_in(section, covered), _bytes_in(section, bare)
    padding = section.size - has_rows - has_none
    return CodeFigures(section.name, section.size, has_rows - sum(reasons.values()), reasons, padding, has_none)


def _bytes_in(section: ElfSection, ranges: Ranges) -> int:
    """The bytes of a section that are in some of the ranges."""
    start, end = (np.clip(one, section.address, section.end_address) for one in ranges)
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    begin = np.maximum(start, furthest_before(end))
    return int(np.where(end > begin, end - begin, np.uint64(0)).sum())


def _sum(first: CodeFigures, second: CodeFigures) -> CodeFigures:
    """Two sections of one name, as in relocatable files."""
    names = dict.fromkeys((*first.refused, *second.refused))
    return CodeFigures(
        first.name,
        first.size + second.size,
        first.expressed + second.expressed,
        {name: first.refused.get(name, 0) + second.refused.get(name, 0) for name in names},
        first.padding + second.padding,
        first.bare + second.bare,
    )
