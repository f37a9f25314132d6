"""Faults in a source of unwind information, and two sources held against each other: the job of `unwindkit check`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, overload

import numpy as np

from ..converters.arch.table import breakpad_names
from ..converters.arrays import distinct_values, values_at
from ..converters.elf.debug_files import BY_LINKS, DebugFiles, with_debug_file
from ..converters.elf.image import ElfImage
from ..converters.files.code_names import CodeNames
from ..converters.files.find import row_rules
from ..converters.files.inputs import Raw, naming_file, open_image
from ..converters.files.lint import CODES, LintedSection, lint
from ..converters.files.pair_by_symbol import Pairs, pair_by_symbol
from ..converters.files.read_elf import ALL, STACK_CFI
from ..converters.plt import with_uncovered_plt
from ..converters.refusals import Reason, Refusals, RefusedCount
from ..converters.table.lookup import NOTHING
from ..converters.table.model import UnwindTable
from ..converters.threads import in_background
from ..converters.walk.compare import (
    EVERYTHING,
    NO_REASON,
    ComparedRanges,
    Comparison,
    Relation,
    Scope,
    common_scope,
    compare,
    sframe_scope,
    stack_cfi_scope,
)
from ..schemas.arguments import checked, each
from ..schemas.data_classes import dataclass
from ..schemas.section import BuildError
from ..schemas.sframe import SFRAME_VERSION
from . import StrPath
from .file_kinds import is_elf
from .sources import Source, read_source

SFRAME, EH_FRAME, DEBUG_FRAME, BREAKPAD = "sframe", "eh_frame", "debug_frame", "breakpad"
NOWHERE = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class RangeCount:
    """PC ranges: their number, the bytes in them, and the functions that have some."""

    ranges: int
    bytes: int
    functions: int


@dataclass(frozen=True, slots=True)
class RowDifference:
    """A PC range in which two sources do not have the same rules; `relation` is DIFFERENT, ONLY_FIRST or ONLY_SECOND.

    `name` is that of the code at `start`; with functions paired by symbol, `start` and `end` are addresses in the first
    file. The rules are by register, as `find` prints them, None where the source has none.
    """

    relation: str
    start: int
    end: int
    name: str
    first: dict[str, str] | None
    second: dict[str, str] | None


class RowDifferences(Sequence[RowDifference]):
    """The PC ranges in which two sources do not have the same rules, in order of addresses. A small file can have a
    million of them (repetition blocks), so each is made when it is asked for."""

    def __init__(self, count: int, make: Callable[[int], RowDifference]) -> None:
        self._indices, self._make = range(count), make

    def __len__(self) -> int:
        return len(self._indices)

    @overload
    def __getitem__(self, index: int) -> RowDifference: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[RowDifference, ...]: ...
    def __getitem__(self, index: int | slice) -> RowDifference | tuple[RowDifference, ...]:
        """One of them, or several."""
        chosen = self._indices[index]
        return self._make(chosen) if isinstance(chosen, int) else tuple(map(self._make, chosen))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(one == another for one, another in zip(self, other, strict=True))


@dataclass(frozen=True, slots=True)
class CheckedPair:
    """Two sources compared at every PC. `equal`, `different`, `only_first` and `only_second` count ranges;
    `inexpressible` counts, by reason, those that one source lacks because its format cannot express them.
    `complements`: the second source is for code that the first lacks, so that ranges of only one are no difference.
    `unpaired`, if functions were paired by symbol: how many functions of each file have no counterpart.
    """

    first: str
    second: str
    equal: RangeCount
    different: RangeCount
    only_first: RangeCount
    only_second: RangeCount
    inexpressible: dict[str, RefusedCount]
    differences: Sequence[RowDifference] = field(repr=False)
    complements: bool = False
    unpaired: tuple[int, int] | None = None

    @property
    def is_equal(self) -> bool:
        """Whether there is no difference."""
        missing = 0 if self.complements else self.only_first.ranges + self.only_second.ranges
        return not (self.different.ranges or missing or any(self.unpaired or ()))


@dataclass(frozen=True, slots=True, eq=False)
class CheckReport:
    """The findings of `lint` by section, without those of ignored codes; the comparisons; and names for addresses."""

    file: str
    sections: tuple[LintedSection, ...]
    pairs: tuple[CheckedPair, ...]
    names: CodeNames

    @property
    def has_faults(self) -> bool:
        """Whether a section has a fault, or two sources differ."""
        codes = np.concatenate([np.zeros(0, np.uint8), *(one.findings.code for one in self.sections)])
        faults = any(code.is_fault for code in CODES.values() if (codes == code).any())
        return faults or not all(pair.is_equal for pair in self.pairs)

    @property
    def has_notes(self) -> bool:
        """Whether a section has any finding."""
        return any(len(one.findings) for one in self.sections)


@checked(ignore=each(str), debug=DebugFiles)
def check(
    first: StrPath,
    second: StrPath | None = None,
    *,
    source: str | None = None,
    second_source: str | None = None,
    address: int = 0,
    architecture: str | None = None,
    by_symbol: bool = False,
    ignore: Iterable[str] = (),
    debug: DebugFiles = BY_LINKS,
) -> CheckReport:
    """List the faults in the unwind information of a file, and compare two sources at every PC.

    Without a `second` file, `second_source` is a section of the first; without both, a file's call frame information is
    compared with its `.sframe`, and its `.eh_frame` with its `.debug_frame`. `source` and `second_source` are sections
    without the dot, "all" for all call frame information (the default for ELF files), or "breakpad"; `address` and
    `architecture` are for raw sections and symbol files. `by_symbol`: compare functions of the same name, whatever
    their addresses. `ignore`: codes of findings to leave out. Raises OSError, ParseError for a malformed file (a
    malformed section of the first is a finding), BuildError for an unknown code or source and for files of different
    architectures.
    """
    ignored = set(ignore)
    for unknown in sorted(ignored - CODES.keys()):
        raise BuildError("", None, "ignore", f"{unknown!r} is not one of {', '.join(CODES)}")
    kind = None if source == ALL else source
    given = _Given(address, architecture, debug, by_symbol)
    with naming_file(str(first)):
        described = given.of(Path(first), Path(second or first))
        image = with_debug_file(open_image(Path(first), Raw(kind, *described, None)), debug)
    wanted = _wanted(image, first, second, source, second_source)
    # The lint runs in a second thread while the sources are compared.
    with in_background(lambda: lint(image, _section_of(kind)), len(image.data) if wanted else 0) as linted:
        pairs = tuple(_compare(Path(first), *pair, given) for pair in wanted)
        with naming_file(str(first)):
            sections = tuple(_without(one, ignored) for one in linted())
    return CheckReport(str(first), sections, pairs, CodeNames(image))


@dataclass(frozen=True, slots=True)
class _Given:
    """What the caller chose for both files; `address` and `architecture` for those that are not ELF."""

    address: int
    architecture: str | None
    debug: DebugFiles
    by_symbol: bool

    def of(self, path: Path, other: Path) -> tuple[int, str | None]:
        """The address and the architecture of one of two files. Raises OSError."""
        return (0, None) if is_elf(path) and not is_elf(other) else (self.address, self.architecture)


def _section_of(kind: str | None) -> str | None:
    """The name of a section in an image."""
    if kind is None:
        return None
    return STACK_CFI if kind == BREAKPAD else f".{kind}"


def _without(section: LintedSection, ignored: set[str]) -> LintedSection:
    codes = [CODES[text] for text in ignored]
    return replace(section, findings=section.findings.select(~np.isin(section.findings.code, codes)))


def _wanted(
    image: ElfImage, first: StrPath, second: StrPath | None, source: str | None, second_source: str | None
) -> list[tuple[str | None, Path, str | None, bool]]:
    """The comparisons to make: the source of the first file, the second file and its source, and whether the second
    complements the first."""
    if second is not None:
        return [(source, Path(second), second_source, False)]
    if second_source is not None:
        return [(source, Path(first), second_source, False)]
    if source is not None or not image.is_elf:
        return []
    has = {name for name in (EH_FRAME, DEBUG_FRAME, SFRAME) if any(_has_rows(image, name))}
    found: list[tuple[str | None, Path, str | None, bool]] = []
    if SFRAME in has and has & {EH_FRAME, DEBUG_FRAME}:
        found.append((ALL, Path(first), SFRAME, False))
    if {EH_FRAME, DEBUG_FRAME} <= has:
        found.append((EH_FRAME, Path(first), DEBUG_FRAME, True))
    return found


def _has_rows(image: ElfImage, name: str) -> Iterable[bool]:
    return (not one.is_nobits and one.size > 0 for one in image.named(f".{name}"))


def _compare(
    path: Path, source: str | None, other: Path, other_source: str | None, complements: bool, given: _Given
) -> CheckedPair:
    with naming_file(str(path)):
        first = read_source(path, source, *given.of(path, other), given.debug)
    with naming_file(str(other)):
        second = read_source(other, other_source, *given.of(other, path), given.debug)
        if first.table.architecture.name != second.table.architecture.name:
            names = f"{second.table.architecture.name}, and {path} for {first.table.architecture.name}"
            raise BuildError("", None, "e_machine", f"is for {names}")
    labels = f"{path}: {_title(first)}", (f"{other}: " if other != path else "") + _title(second)
    first, second = _with_plt(first, second), _with_plt(second, first)
    if given.by_symbol:
        return _compare_by_symbol(first, second, labels)
    tables = first.table_in_sections, second.table_in_sections
    refused = _refused(first, second, tables[0]), _refused(second, first, tables[1])
    found = compare(*tables, _scope(first, second), *refused)
    code = CodeNames(first.image or second.image)
    return _pair(labels, tables, found, lambda address: (address, code.text(address)), complements)


def _with_plt(source: Source, other: Source) -> Source:
    """The call frame information of a file that is compared with an `.sframe`, which may have rows for a PLT that the
    call frame information does not cover: they are held against the rows that its stubs need."""
    if source.image is None or source.version is not None or other.version is None:
        return source
    extended, covered = with_uncovered_plt(source.image, source.table), other.table.functions
    is_wanted = np.ones(len(extended), np.bool_)
    for index in range(len(source.table), len(extended)):
        start, size = extended.functions.start[index], extended.functions.size[index]
        is_wanted[index] = bool(((covered.start < start + size) & (covered.start + covered.size > start)).any())
    return source if len(extended) == len(source.table) else replace(source, table=extended.select(is_wanted))


def _compare_by_symbol(first: Source, second: Source, labels: tuple[str, str]) -> CheckedPair:
    """Compare functions of the same name. What a format cannot express is refused in the first's own addresses, so
    ranges of one source alone get no reason."""
    from ..converters.elf.function_symbols import function_symbols

    sources = (first, second)
    for one in sources:
        if one.image is None or one.image.type == "ET_REL":
            raise BuildError("", None, "by_symbol", "needs two linked ELF files with symbols")
    paired = pair_by_symbol(
        [one.table for one in sources], [function_symbols(one.image) for one in sources if one.image]
    )
    refused = _refused(first, second, paired.tables[0], paired), _refused(second, first, paired.tables[1], paired)
    found = compare(*paired.tables, _scope(first, second), *refused)
    report = _pair(labels, paired.tables, found, lambda address: _in_pair(paired, address))
    return replace(report, unpaired=(len(paired.unpaired[0]), len(paired.unpaired[1])))


def _in_pair(paired: Pairs, address: int) -> tuple[int, str]:
    """The address in the first file, and the name."""
    index = int(np.searchsorted(paired.address, np.uint64(address), side="right")) - 1
    offset = address - int(paired.address[index])
    name = paired.name[index] + (f"+{offset:#x}" if offset else "")
    return int(paired.original[0][index]) + offset, name


def _title(source: Source) -> str:
    """The section or sections."""
    version = source.version
    return " and ".join(source.sizes) + (f" version {version}" if version is not None else "")


def _scope(first: Source, second: Source) -> Scope:
    """What both formats describe."""
    return common_scope(*(_scope_of(one) for one in (first, second)))


def _scope_of(source: Source) -> Scope:
    architecture = source.table.architecture
    if source.section.name == STACK_CFI:
        return stack_cfi_scope(breakpad_names(architecture), architecture)
    if source.version is not None:
        return sframe_scope(architecture, source.version >= SFRAME_VERSION.V3)
    return EVERYTHING


def _refused(source: Source, target: Source, table: UnwindTable, paired: Pairs | None = None) -> Refusals | None:
    """What the target's format cannot express of the source, at the addresses of `table`, which has the same
    functions."""
    given = table if paired is not None else source.table
    if target.version is not None:
        from ..converters.sframe.write import to_sframe

        version = max(target.version, SFRAME_VERSION.V2)
        near = int(given.functions.start.min()) if len(given) else 0
        refused = to_sframe(given, version=version, section_address=near)[1]
    elif target.section.name == STACK_CFI:
        from ..converters.breakpad.stack_cfi.write import to_stack_cfi

        refused = to_stack_cfi(given)[1]
    else:
        return None
    moved = table.functions.start[refused.function] - given.functions.start[refused.function]
    return replace(refused, start=refused.start + moved, end=refused.end + moved)


def _pair(
    labels: tuple[str, str],
    tables: tuple[UnwindTable, UnwindTable],
    found: Comparison,
    place: Callable[[int], tuple[int, str]],
    complements: bool = False,
) -> CheckedPair:
    """The report of one comparison."""
    has_reason = found.ranges.reason != NO_REASON
    equal, different, only_first, only_second = (
        _count(found.ranges.select((found.ranges.relation == relation) & ~has_reason), table)
        for relation, table in zip(Relation, (tables[0], tables[0], *tables), strict=True)
    )
    inexpressible = {}
    for reason in Reason:
        here = found.ranges.select(found.ranges.reason == reason)
        if len(here):
            inexpressible[reason.name] = RefusedCount(len(here), int((here.end - here.start).sum()))
    wanted = (Relation.DIFFERENT,) if complements else (Relation.DIFFERENT, Relation.ONLY_FIRST, Relation.ONLY_SECOND)
    listed = found.ranges.select(np.isin(found.ranges.relation, wanted) & ~has_reason)
    return CheckedPair(
        labels[0],
        labels[1],
        equal,
        different,
        only_first,
        only_second,
        inexpressible,
        RowDifferences(len(listed), lambda index: _difference(tables[0], found, listed.record(index), place)),
        complements,
    )


def _count(ranges: ComparedRanges, table: UnwindTable) -> RangeCount:
    functions, found = table.functions, 0
    for section in distinct_values(ranges.section):
        there, here = functions.section == section, ranges.section == section
        start, end = functions.start[there], functions.start[there] + functions.size[there]
        # Ranges are disjoint and ascending: the first that ends after a function's start is in the function, or none.
        place = np.searchsorted(ranges.end[here], start, side="right")
        found += int((values_at(ranges.start[here], place, NOWHERE) < end).sum())
    return RangeCount(len(ranges), int((ranges.end - ranges.start).sum()), found)


def _difference(
    table: UnwindTable, found: Comparison, one: dict[str, Any], place: Callable[[int], tuple[int, str]]
) -> RowDifference:
    start, name = place(one["start"])
    rules = [
        None if number == NOTHING else row_rules(table.architecture, sets[number].row)
        for number, sets in ((one["first"], found.first_sets), (one["second"], found.second_sets))
    ]
    end = start + one["end"] - one["start"]
    return RowDifference(Relation(one["relation"]).name, start, end, name, *rules)
