"""Faults and oddities in one source of unwind information, each with a short code.

Strategy: every rule works on columns and returns the addresses, the sizes and the section offsets of what it finds. A
fault means that some reader gets a wrong answer or none; a note costs bytes or leaves code without rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...schemas.cfi import EH_FRAME
from ...schemas.data_classes import dataclass
from ...schemas.pointers import PointerBases
from ...schemas.section import ParseError, Section
from ...schemas.sframe import SFRAME_F
from ...schemas.steps import Step
from ..arrays import distinct_values, furthest_before, group_numbers, run_starts
from ..cfi.eh_frame_hdr import HdrProblem, check_eh_frame_hdr_columns, read_eh_frame_hdr
from ..cfi.read import has_late_rows, table_of_records
from ..cfi.records import Records, read_records
from ..columns import Columns, column_of, columns
from ..elf.image import ElfImage, ElfSection
from ..elf.relocation import LaidOut, lay_out, relocate
from ..findings import Worded
from ..rules import CfaKind, RaState, RuleKind
from ..sframe.read import has_late_fres, table_from_sframe
from ..sframe.section import further_words, sframe_columns
from ..table.model import FunctionFlag, UnwindTable
from .code_frames import is_code
from .read_elf import DIALECTS, TEXTS, table_of_section
from .uncovered_code import uncovered_code

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Offsets = NDArray[np.int64]
    Addresses = NDArray[np.uint64]

NO_OFFSET = -1
# Bytes below SP that the x86-64 psABI reserves for the function; other psABIs of Linux have none.
RED_ZONE = {"x86_64": 128, "x32": 128, "ppc64": 512}


class Code(Worded):
    """A kind of finding: its code on the command line, and what it means."""

    UNREADABLE = 1, "unreadable", "the section cannot be read"
    OVERLAP = 2, "overlap", "the function starts inside an earlier one: readers disagree about the PCs of both"
    EMPTY_FUNCTION = 3, "empty-function", "the function has no bytes: no PC can find its rows"
    LATE_ROW = 4, "late-row", "a row starts at or past the end of the function: no PC can find it"
    UNSORTED = 5, "unsorted", "the section does not promise ascending starts: readers that bisect cannot use it"
    HDR_POINTER = 6, "hdr-pointer", "eh_frame_ptr is not the address of .eh_frame"
    HDR_CUT = 7, "hdr-cut", "rows of the table are missing: the section is too small"
    HDR_UNSORTED = 8, "hdr-unsorted", "the row of the table is not in ascending order: a search misses it"
    HDR_NO_FDE = 9, "hdr-no-fde", "no FDE has the start that the row of the table has"
    HDR_WRONG_FDE = 10, "hdr-wrong-fde", "the row of the table points to an FDE with another start"
    HDR_NO_ROW = 11, "hdr-no-row", "the FDE has no row in the table: a search does not find it"
    DUPLICATE_CIE = 12, "duplicate-cie", "the CIE equals an earlier one"
    UNUSED_CIE = 13, "unused-cie", "no FDE uses the CIE"
    ORPHAN_FDE = 14, "orphan-fde", "the FDE's function is not in the file's code: the link dropped it"
    CFA_UNALIGNED = 15, "cfa-unaligned", "the CFA is SP plus an offset that is not a multiple of a word"
    SLOT_BELOW_SP = 16, "slot-below-sp", "a register is saved below SP, where a signal handler overwrites it"
    RA_STAYS_SIGNED = 17, "ra-stays-signed", "the return address is signed, and plain in no later row"
    UNCOVERED = 18, "uncovered", "executable code without rules"
    FURTHER_OFFSETS = 19, "further-offsets", "an FRE has more offsets than CFA, RA and FP need: no reader uses them"

    @property
    def text(self) -> str:
        """The code on the command line."""
        return self.words[0]

    @property
    def meaning(self) -> str:
        """A clause about one finding."""
        return self.words[1]

    @property
    def is_fault(self) -> bool:
        """Whether a reader gets a wrong answer or none; otherwise it costs bytes, or code lacks rules."""
        return self not in _NOTES


# A function that calls none may leave SP unaligned.
_NOTES = frozenset(
    {
        Code.EMPTY_FUNCTION,
        Code.DUPLICATE_CIE,
        Code.UNUSED_CIE,
        Code.ORPHAN_FDE,
        Code.CFA_UNALIGNED,
        Code.RA_STAYS_SIGNED,
        Code.UNCOVERED,
    }
)
CODES = {code.text: code for code in Code}
_OF_HDR = {
    HdrProblem.WRONG_EH_FRAME: Code.HDR_POINTER,
    HdrProblem.CUT: Code.HDR_CUT,
    HdrProblem.UNSORTED: Code.HDR_UNSORTED,
    HdrProblem.NO_FDE: Code.HDR_NO_FDE,
    HdrProblem.WRONG_FDE: Code.HDR_WRONG_FDE,
    HdrProblem.NO_ROW: Code.HDR_NO_ROW,
}


@columns
class LintFindings(Columns):
    """One record per finding, in order of code and address."""

    code: NDArray[np.uint8] = column_of(Code)
    address: NDArray[np.uint64] = column_of("address", "of the code that it is about; 0 for none")
    size: NDArray[np.uint64] = column_of("bytes", "of that code; of the section, for CIEs and FDEs")
    offset: NDArray[np.int64] = column_of("section offset", "of the record; -1 for none")


@dataclass(frozen=True, slots=True, eq=False)
class LintedSection:
    """A section with its findings; `reason` is why it cannot be read, "" if it can be."""

    name: str
    functions: int
    findings: LintFindings
    reason: str = ""


def lint(image: ElfImage, kind: str | None = None) -> tuple[LintedSection, ...]:
    """The findings in each section of unwind information of a file, or in those named `kind`. Addresses in a
    relocatable file are those that `lay_out` gives."""
    laid = lay_out(image)
    names = (*DIALECTS, ".sframe", *TEXTS) if kind is None else (kind,)
    headers = [one for name in names for one in laid.image.named(name) if not one.is_nobits and one.size]
    if not image.is_elf:
        headers = [laid.image.sections[-1]]
    found = []
    for header in headers:
        try:
            with Step(f"findings in {header.name}") as step:
                found.append(_lint_section(laid, relocate(laid, header)))
                step.count(len(found[-1].findings), "findings")
        except ParseError as error:
            found.append(LintedSection(header.name, 0, _one(Code.UNREADABLE), str(error)))
    # A separate debug file has the section's header without its bytes.
    tables = [one for one in image.named(".eh_frame_hdr") if not one.is_nobits]
    has_hdr = kind is None and image.is_elf and not laid.is_relocatable and len(tables) > 0
    return (*found, _lint_hdr(laid, tables[0])) if has_hdr else tuple(found)


def _one(code: Code) -> LintFindings:
    return LintFindings.defaults(1, code=np.full(1, code, np.uint8), offset=np.full(1, NO_OFFSET, np.int64))


def _lint_section(laid: LaidOut, section: Section) -> LintedSection:
    """All rules for one section. Raises ParseError."""
    image = laid.image
    if section.name in DIALECTS:
        bases = PointerBases(data=image.data_base)
        records = read_records(section, DIALECTS[section.name], image.architecture, bases)
        table = table_of_records(records, image.load_address)
        found = [*_of_table(laid, table), *_of_records(records, laid)]
    elif section.name == ".sframe":
        table = table_from_sframe(section)
        found = [*_of_table(laid, table), *_of_sframe(section, table)]
    else:
        table = table_of_section(image, section)
        found = list(_of_table(laid, table))
    return LintedSection(section.name, len(table), _sorted(found))


def _sorted(found: Sequence[LintFindings]) -> LintFindings:
    joined = LintFindings.concatenate([LintFindings.defaults(0), *found])
    return joined.select(np.lexsort((joined.offset, joined.address, joined.code)))


def _findings(code: Code, address: Addresses, size: Addresses, offset: Offsets) -> LintFindings:
    return LintFindings(np.full(len(address), code, np.uint8), address, size, offset)


def _of_functions(code: Code, table: UnwindTable, which: NDArray[np.int64] | NDArray[np.bool_]) -> LintFindings:
    """One finding per function."""
    functions = table.functions.select(which)
    return _findings(code, functions.start, functions.size, functions.origin.astype(np.int64))


# --- rules for the table of any format ------------------------------------------------------------------------------


def _of_table(laid: LaidOut, table: UnwindTable) -> Iterator[LintFindings]:
    functions = table.functions
    yield _of_functions(Code.EMPTY_FUNCTION, table, functions.size == 0)
    yield _overlaps(table)
    for code, rule in _ROW_RULES:
        runs = distinct_values(group_numbers(np.diff(table.run_rows))[rule(table)])
        is_wrong = np.zeros(len(table.run_rows), np.bool_)
        is_wrong[runs] = True
        yield _of_functions(code, table, is_wrong[functions.run])
    if laid.image.is_elf:
        yield _uncovered(laid.image, table)


def _overlaps(table: UnwindTable) -> LintFindings:
    """Functions that start inside an earlier one, with the number of PCs that both have."""
    functions = table.functions
    order = np.lexsort((functions.start, functions.section))
    order = order[functions.size[order] > 0]
    start, end = functions.start[order], functions.start[order] + functions.size[order]
    section = functions.section[order]
    taken = np.zeros(len(order), np.uint64)
    for one in distinct_values(section):
        taken[section == one] = furthest_before(end[section == one])
    wrong = taken > start
    shared = np.minimum(taken, end)[wrong] - start[wrong]
    return _findings(Code.OVERLAP, start[wrong], shared, functions.origin[order[wrong]].astype(np.int64))


def _has_unaligned_cfa(table: UnwindTable) -> NDArray[np.bool_]:
    """Which rows have a CFA at a distance from SP that is not a multiple of a word, but for the ABI's bias."""
    rows, architecture = table.rows, table.architecture
    is_sp = (rows.cfa_kind == CfaKind.REGISTER) & (rows.cfa_register == _register(architecture.stack_pointer))
    distance = rows.cfa_offset + architecture.caller_sp_offset
    return np.asarray(is_sp & (distance % architecture.address_size != 0), np.bool_)


def _has_slot_below_sp(table: UnwindTable) -> NDArray[np.bool_]:
    """Which rows have a register saved below SP and below the red zone."""
    rows, rules, architecture = table.rows, table.rules, table.architecture
    is_sp = (rows.cfa_kind == CfaKind.REGISTER) & (rows.cfa_register == _register(architecture.stack_pointer))
    # The least offset of each slice of rules; rows share slices.
    value = np.append(np.where(rules.kind == RuleKind.OFFSET, rules.value, 0), 0)
    count = rows.rule_count.astype(np.int64)
    least = np.zeros(len(rows), np.int64)
    where = np.flatnonzero(is_sp & (count > 0))
    # In order of slices: reduceat also reduces what is between two of them.
    where = where[np.argsort(rows.first_rule[where], kind="stable")]
    bounds = np.stack([rows.first_rule[where], rows.first_rule[where] + count[where]], axis=1).reshape(-1)
    if len(where):
        least[where] = np.minimum.reduceat(value, bounds)[::2]
    return np.asarray(is_sp & (-least > rows.cfa_offset + RED_ZONE.get(architecture.name, 0)), np.bool_)


def _register(number: int | None) -> int:
    return NO_OFFSET if number is None else number


def _stays_signed(table: UnwindTable) -> NDArray[np.bool_]:
    """Which rows are the first of their run with a signed return address, and have no plain one after them."""
    is_plain = table.rows.ra_state == RaState.PLAIN
    run = group_numbers(np.diff(table.run_rows))
    rows = np.arange(len(run))
    last_plain = np.full(len(table.run_rows), NO_OFFSET, np.int64)
    last_plain[run[is_plain]] = rows[is_plain]  # the last assignment wins
    signed = rows[~is_plain]
    signed = signed[run_starts(run[signed])]
    found = np.zeros(len(run), np.bool_)
    found[signed[last_plain[run[signed]] < signed]] = True
    return found


_ROW_RULES: tuple[tuple[Code, Callable[[UnwindTable], NDArray[np.bool_]]], ...] = (
    (Code.CFA_UNALIGNED, _has_unaligned_cfa),
    (Code.SLOT_BELOW_SP, _has_slot_below_sp),
    (Code.RA_STAYS_SIGNED, _stays_signed),
)


def _uncovered(image: ElfImage, table: UnwindTable) -> LintFindings:
    """The ranges of executable sections without a function, except for padding between functions."""
    start, end = uncovered_code(image, table)
    return _findings(Code.UNCOVERED, start, end - start, np.full(len(start), NO_OFFSET, np.int64))


# --- rules for records ----------------------------------------------------------------------------------------------


def _of_records(records: Records, laid: LaidOut) -> Iterator[LintFindings]:
    """Rules for `.eh_frame` and `.debug_frame`."""
    functions, entries = records.functions, records.entries
    late = has_late_rows(records)
    yield _findings(Code.LATE_ROW, functions.start[late], functions.size[late], records.fdes.offset[late])
    if laid.image.is_elf and not laid.is_relocatable:
        outside = ~is_code(laid.image, functions.start)
        fdes = records.fdes.select(outside)
        size = (fdes.end - fdes.offset).astype(np.uint64)
        yield _findings(Code.ORPHAN_FDE, functions.start[outside], size, fdes.offset)
    cies = entries.select(entries.is_cie)
    size = (cies.end - cies.offset).astype(np.uint64)
    nowhere = np.zeros(len(cies), np.uint64)
    unused = ~np.isin(cies.offset, records.cie_offset)
    duplicate = np.isin(cies.offset, records.cie_offset[_equal_to_earlier(records)])
    for code, which in ((Code.UNUSED_CIE, unused), (Code.DUPLICATE_CIE, duplicate)):
        yield _findings(code, nowhere[which], size[which], cies.offset[which])


def _equal_to_earlier(records: Records) -> NDArray[np.bool_]:
    """Which CIEs in use have the fields of an earlier one, and the same resolved personality."""
    seen: set[tuple[int, ...]] = set()
    found = np.zeros(len(records.cie_offset), np.bool_)
    cies = records.cies.columns
    values = (cies.kind, cies.flags, cies.personality_encoding, cies.personality)
    for index, key in enumerate(zip(*(column.tolist() for column in values), strict=True)):
        found[index] = key in seen and not key[1] & FunctionFlag.UNKNOWN_AUGMENTATION
        seen.add(key)
    return found


def _of_sframe(section: Section, table: UnwindTable) -> Iterator[LintFindings]:
    """Rules for `.sframe`."""
    found = sframe_columns(section)
    late = has_late_fres(found)
    yield _of_functions(Code.LATE_ROW, table, late)
    if further_words(found):
        yield _one(Code.FURTHER_OFFSETS)
    if not found.header["flags"] & SFRAME_F.FDE_SORTED and len(found) > 1:
        yield _one(Code.UNSORTED)


def _lint_hdr(laid: LaidOut, header: ElfSection) -> LintedSection:
    """`.eh_frame_hdr` against the file's `.eh_frame`."""
    image = laid.image
    try:
        section = relocate(laid, header)
        columns_ = read_eh_frame_hdr(section)
        frames = [relocate(laid, one) for one in image.named(EH_FRAME.name) if not one.is_nobits]
        checked = check_eh_frame_hdr_columns(section, columns_, [(one, table_of_section(image, one)) for one in frames])
    except ParseError as error:
        return LintedSection(header.name, 0, _one(Code.UNREADABLE), str(error))
    code = np.array([_OF_HDR[HdrProblem(one)] for one in checked.problem.tolist()], np.uint8)
    zeros = np.zeros(len(code), np.uint64)
    offset = np.full(len(code), NO_OFFSET, np.int64)
    return LintedSection(
        header.name, columns_.fde_count or 0, _sorted([LintFindings(code, checked.address, zeros, offset)])
    )
