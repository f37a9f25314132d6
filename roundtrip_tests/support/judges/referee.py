"""The referee's judgement: which rows SFrame V2 and V3 can encode, and how they encode them, at every PC.

Strategy: no product code. `sayable` translates a row of readelf's into SFrame's notation or returns None if the version
cannot encode it; `compare` cuts the address space at every PC where either side changes and examines each piece.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..architectures import Architecture
from ..texts.readelf_text import U64, FrameRows, Index, RowText, SframeRows, SframeText, _Columns

I32 = range(-(1 << 31), 1 << 31)

# --- what SFrame can encode -------------------------------------------------------------------------------


def sayable(row: RowText, architecture: Architecture, version: int = 2) -> SframeText | None:
    """The row in the notation of `readelf --sframe`; None if this version of SFrame cannot encode it."""
    return _sayable_in_v3(row, architecture) if version >= 3 else _sayable_in_v2(row, architecture)


def _sayable_in_v2(row: RowText, architecture: Architecture) -> SframeText | None:
    cfa = re.fullmatch(r"(\w+)\+?(-?\d+)", row.cfa)
    base = {architecture.sp[1]: "sp", architecture.fp[1]: "fp"}.get(cfa[1]) if cfa else None
    if cfa is None or base is None or int(cfa[2]) not in I32 or int(cfa[2]) % architecture.cfa_multiple:
        return None
    fp = _sayable_slot(row.fp, architecture)
    if architecture.ra_fixed is not None:
        ra = "f" if row.ra == f"c{architecture.ra_fixed:+}" else None
    else:
        rule, mark, _ = row.ra.partition("[s]")
        ra = _sayable_slot(rule, architecture)
        # An RA word of 0 is padding: "not saved".
        ra = None if ra is None or rule == "c+0" else ra + mark
    if fp is None or ra is None or not re.fullmatch(f"u|{architecture.sp_rule}", row.sp):
        return None
    if architecture.fp_needs_ra and fp != "u" and ra.startswith("u"):
        return None
    return SframeText(f"{base}{int(cfa[2]):+}", fp, ra)


def _sayable_slot(rule: str, architecture: Architecture) -> str | None:
    if rule in ("u", "s"):
        return "u"
    if match := re.fullmatch(r"c([+-]\d+)", rule):
        offset = int(match[1])
        return f"c{offset:+}" if offset in I32 and offset % architecture.slot_multiple == 0 else None
    match = re.fullmatch(r"(r\d+)(?: \(\w+\))?", rule)
    return match[1] if match and architecture.in_registers else None


class Form(NamedTuple):
    """Base + offset, or the memory there: the meaning of a pair of words of a flexible FDE. The base is a DWARF
    register; None: the CFA."""

    base: int | None
    offset: int
    deref: bool

    def text(self, architecture: Architecture) -> str | None:
        """As in readelf, which hides `deref` of a CFA-relative place: always in memory, or None."""
        if self.offset not in I32 or (self.base is None and not self.deref):
            return None
        base = {None: "c", architecture.sp[0]: "sp", architecture.fp[0]: "fp"}.get(self.base, f"r{self.base}")
        place = f"{base}{self.offset:+}"
        return f"({place})" if self.deref and self.base is not None else place


# Names in -wF of a CFA's register where it is not a letter and the DWARF number.
_AMD64_NAMES = {"rax": 0, "rdx": 1, "rcx": 2, "rbx": 3, "rsi": 4, "rdi": 5, "rbp": 6, "rsp": 7, "rip": 16}
_EXPRESSION = re.compile(r"(exp|vexp)\((.*)\)")
_BASE = re.compile(r"breg(?:x (\d+)(?: \(\w+\))?|(\d+)) (-?\d+)")


def _sayable_in_v3(row: RowText, architecture: Architecture) -> SframeText | None:
    rule, mark, rest = row.ra.partition("[s]")
    if " in column " in row.ra:
        return None
    if rule.startswith("undefined"):
        return SframeText("", "", "undefined")
    cfa, cfa_form = "", _cfa_form(row.cfa, architecture)
    if cfa_form is not None and cfa_form.offset % architecture.cfa_multiple == 0:
        cfa = cfa_form.text(architecture) or ""
    fp, ra = (_slot_in_v3(slot, architecture) for slot in (row.fp, rule))
    if architecture.ra_fixed is not None:
        # A register that holds its own value is no place: the RA is in its usual place, or not encoded.
        ra = {f"c{architecture.ra_fixed:+}": "f", "u": None}.get(ra or "u", ra)
    sp_is_said = re.fullmatch(f"u|{architecture.sp_rule}", row.sp) is not None
    if architecture.ra_fixed is not None or not architecture.in_registers:
        # In a signal frame the SP is in the slot that the CFA, which is the SP, is read from.
        sp_is_said |= cfa.startswith("(") and _slot_in_v3(row.sp, architecture) == cfa
    if not cfa or fp is None or ra is None or rest or not sp_is_said:
        return None
    return SframeText(cfa, fp, ra + mark)


def _cfa_form(cfa: str, architecture: Architecture) -> Form | None:
    if match := re.fullmatch(r"([a-z]+)(\d*)\+?(-?\d+)", cfa):
        names = _AMD64_NAMES | {architecture.sp[1]: architecture.sp[0]}
        base = int(match[2]) if match[2] else names.get(match[1])
        return None if base is None else Form(base, int(match[3]), deref=False)
    expression = _EXPRESSION.fullmatch(cfa)
    form = _form_of(expression[2]) if expression else None
    # An expression for the CFA has no CFA to be relative to.
    return None if form is None or form.base is None else form


def _slot_in_v3(rule: str, architecture: Architecture) -> str | None:
    if rule in ("u", "s"):
        return "u"
    form = None
    if match := re.fullmatch(r"c([+-]\d+)", rule):
        form = Form(None, int(match[1]), deref=True)
    elif match := re.fullmatch(r"r(\d+)(?: \(\w+\))?", rule):
        form = Form(int(match[1]), 0, deref=False)
    elif (match := _EXPRESSION.fullmatch(rule)) and (form := _form_of(match[2])) and match[1] == "exp":
        # The value is in memory at the result of the expression: nothing is read twice.
        form = None if form.deref else form._replace(deref=True)
    return form and form.text(architecture)


def _form_of(operations: str) -> Form | None:
    """A base, any constants to add, a dereference at the end."""
    form = Form(None, 0, deref=False)
    for i, operation in enumerate(operations.split("; ")):
        name, _, operand = operation.partition(" ")
        if form.deref:
            return None
        if i == 0 and (match := _BASE.fullmatch(operation)):
            form = Form(int(match[1] or match[2]), int(match[3]), deref=False)
        elif name == "plus_uconst":
            form = form._replace(offset=form.offset + int(operand))
        elif operation == "deref":
            form = form._replace(deref=True)
        else:
            return None
    return form


# --- comparison -------------------------------------------------------------------------------------------


class Kind(enum.Enum):
    MISSING = "a sayable row is not there"
    WRONG = "another content than the CFI's"
    KEY = "another key that signs return addresses than the CFI's"
    FRAME = "another kind of frame than the CFI's"
    UNSAYABLE = "covered, though the CFI's row cannot be said"
    OUTSIDE = "covered, but no function is here"
    OVERLAP = "covered by several FDEs"
    AMBIGUOUS_MASK = "PC % block and (PC - start) % block differ"
    HEADER = "the header is wrong for this file"


@dataclass(frozen=True, slots=True)
class Difference:
    """Between the addresses `start` and `end` neither side changes."""

    kind: Kind
    start: int
    end: int
    expected: str
    found: str

    def __str__(self) -> str:
        place = f"{self.start:#x}..{self.end:#x}"
        return f"{place}: {self.kind.value}: expected {self.expected!r}, found {self.found!r}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Rows are the CFI's, inside their functions. Bytes are counted by their CFI: `bytes_ambiguous` are in several
    functions that disagree, and are not judged; `bytes_excepted` cannot be encoded and are in excepted ranges."""

    differences: tuple[Difference, ...]
    functions: int
    rows: int
    rows_compared: int
    bytes_compared: int
    bytes_unsayable: int
    bytes_excepted: int
    bytes_ambiguous: int


@dataclass(frozen=True, slots=True)
class _Pieces:
    """Address ranges with a number each, and the index of the function; neither sorted nor disjoint."""

    start: U64
    end: U64
    number: Index
    function: Index


_NOTHING, _UNSAYABLE, _AMBIGUOUS = -1, -2, -3


def compare(frame: FrameRows, sframe: SframeRows, excepted: Sequence[tuple[int, int]] = ()) -> Comparison:
    """Compare an SFrame section with the CFI at every PC. `excepted`: address ranges (a lazy PLT) in which covering
    rows that cannot be encoded, or no CFI at all, is no difference; other rows are compared there too."""
    cfi, fres = _pieces(*_row_columns(frame)), _sframe_pieces(sframe)
    allowed = np.array(excepted, np.uint64).reshape(-1, 2)
    bounds = np.unique(np.concatenate([cfi.start, cfi.end, fres.start, fres.end, allowed.ravel()]))
    row, row_last, _ = _paint(bounds, cfi)
    found, _, fres_here = _paint(bounds, fres)
    nothing = np.zeros(len(allowed), np.int64)
    excused = _paint(bounds, _Pieces(allowed[:, 0], allowed[:, 1], nothing, nothing))[2] > 0

    numbers = {text: i for i, text in enumerate(sframe.texts)}
    says = [sayable(text, frame.architecture, sframe.header.version) for text in frame.texts]
    expected_of = np.array([_UNSAYABLE if s is None else numbers.setdefault(s, len(numbers)) for s in says], np.int64)
    expected = np.append(expected_of, _NOTHING)[row]
    expected[row != row_last] = _AMBIGUOUS
    places = {
        Kind.MISSING: (expected >= 0) & (found == _NOTHING),
        Kind.WRONG: (expected >= 0) & (found >= 0) & (found != expected),
        Kind.UNSAYABLE: (expected == _UNSAYABLE) & (found >= 0) & ~excused,
        Kind.OUTSIDE: (expected == _NOTHING) & (found >= 0) & ~excused,
        Kind.OVERLAP: fres_here > 1,
    }
    expected_texts = [str(text or f"nothing ({frame.texts[i]})") for i, text in enumerate(says)] + ["nothing"]
    found_texts = [*map(str, sframe.texts), "nothing"]
    differences = [
        Difference(kind, int(bounds[first]), int(bounds[last]), expected_texts[row[first]], found_texts[found[first]])
        for kind, where in places.items()
        for first, last in _runs(where, row, found)
    ]
    differences += _mark_differences(frame, sframe, bounds, cfi, fres, (expected >= 0) & (found >= 0))
    size = np.diff(bounds, append=bounds[-1:])
    return Comparison(
        (*_header_differences(frame, sframe), *differences),
        functions=len(frame.start),
        rows=len(cfi.start),
        rows_compared=int(np.count_nonzero(expected_of[cfi.number] >= 0)),
        bytes_compared=int(size[expected >= 0].sum()),
        bytes_unsayable=int(size[expected == _UNSAYABLE].sum()),
        bytes_excepted=int(size[(expected == _UNSAYABLE) & excused].sum()),
        bytes_ambiguous=int(size[expected == _AMBIGUOUS].sum()),
    )


def _mark_differences(
    frame: FrameRows, sframe: SframeRows, bounds: U64, cfi: _Pieces, fres: _Pieces, where: npt.NDArray[np.bool_]
) -> list[Difference]:
    """Where both sides have a row, but functions with different marks. Functions with and without the mark at one
    PC are not judged. Before version 3 there is no mark of signal frames."""
    marks = [(Kind.KEY, "B", frame.has_b_key, ("key A", "key B"))]
    if sframe.header.version >= 3:
        marks.append((Kind.FRAME, "S", frame.is_signal_frame, ("an ordinary frame", "a signal frame")))
    differences = []
    for kind, mark, is_marked, names in marks:
        shown = np.array([mark in attributes for attributes in sframe.attributes], np.bool_)
        expected, highest, _ = _paint(bounds, replace(cfi, number=is_marked[cfi.function].astype(np.int64)))
        found = _paint(bounds, replace(fres, number=shown[fres.function].astype(np.int64)))[0]
        differences += [
            Difference(
                kind, int(bounds[first]), int(bounds[last]), names[int(expected[first])], names[int(found[first])]
            )
            for first, last in _runs(where & (expected == highest) & (expected != found), expected)
        ]
    return differences


def _row_columns(rows: FrameRows | SframeRows) -> tuple[U64, U64, Index, U64, Index]:
    return rows.start, rows.end, rows.first_row, rows.pc, rows.text


def _pieces(start: U64, end: U64, first_row: Index, pc: U64, text: Index) -> _Pieces:
    """Each row up to the next one, cut to its function; rows in force nowhere are left out."""
    function = np.repeat(np.arange(len(start)), np.diff(first_row))
    row_end = end[function]
    inner = function[:-1] == function[1:]
    row_end[:-1][inner] = np.minimum(row_end[:-1][inner], pc[1:][inner])
    row_start = np.maximum(pc, start[function])
    keep = row_start < row_end
    return _Pieces(row_start[keep], row_end[keep], text[keep], function[keep])


def _sframe_pieces(sframe: SframeRows) -> _Pieces:
    """PCMASK functions are unrolled, block by block from their start."""
    start, end, first_row, pc, text = _row_columns(sframe)
    masked = sframe.repetition_block > 0
    plain = _pieces(start, np.where(masked, start, end), first_row, pc, text)
    blocks, owners = _Columns[None](), list[int]()
    for i in np.flatnonzero(masked):
        rows, stop, size = slice(first_row[i], first_row[i + 1]), int(end[i]), int(sframe.repetition_block[i])
        for address in range(int(start[i]), stop, size):
            block_pc = (int(offset) + address for offset in pc[rows])
            blocks.add_function(address, min(address + size, stop), block_pc, text[rows])
            owners.append(int(i))
    repeated = _pieces(*blocks.arrays())
    return _Pieces(
        np.concatenate([plain.start, repeated.start]),
        np.concatenate([plain.end, repeated.end]),
        np.concatenate([plain.number, repeated.number]),
        np.concatenate([plain.function, np.array(owners, np.int64)[repeated.function]]),
    )


def _paint(bounds: U64, pieces: _Pieces) -> tuple[Index, Index, Index]:
    """For the range from each bound to the next: the lowest and highest number there (-1: none), and their count."""
    first, last = np.searchsorted(bounds, pieces.start), np.searchsorted(bounds, pieces.end)
    count = last - first
    where = np.arange(count.sum()) + np.repeat(first - (np.cumsum(count) - count), count)
    number = np.repeat(pieces.number, count)
    highest = np.full(len(bounds), _NOTHING, np.int64)
    np.maximum.at(highest, where, number)
    lowest = highest.copy()
    np.minimum.at(lowest, where, number)
    return lowest, highest, np.bincount(where, minlength=len(bounds))


def _runs(where: npt.NDArray[np.bool_], *same: Index) -> list[tuple[int, int]]:
    """Runs of neighbours in `where` that agree in every column of `same`: first index, and last index plus one."""
    index = np.flatnonzero(where)
    breaks = np.diff(index) != 1
    for column in same:
        breaks |= np.diff(column[index]) != 0
    return [(int(run[0]), int(run[-1]) + 1) for run in np.split(index, np.flatnonzero(breaks) + 1) if len(run)]


def _header_differences(frame: FrameRows, sframe: SframeRows) -> list[Difference]:
    """Faults of the section as a whole, though each row may look right."""
    header, fixed = sframe.header, frame.architecture.ra_fixed or 0
    differences = []
    if header.fixed_ra_offset != fixed:  # every row shows `f`, whatever its value
        found = f"fixed RA offset {header.fixed_ra_offset}"
        differences.append(Difference(Kind.HEADER, 0, 0, f"fixed RA offset {fixed}", found))
    if "FDE_SORTED" in header.flags and (sframe.start[1:] < sframe.start[:-1]).any():
        differences.append(Difference(Kind.HEADER, 0, 0, "FDEs sorted as flagged", "not sorted"))
    for i in np.flatnonzero(sframe.repetition_block):
        start, end, block = int(sframe.start[i]), int(sframe.end[i]), int(sframe.repetition_block[i])
        if start % block and sframe.first_row[i + 1] - sframe.first_row[i] > 1:
            differences.append(Difference(Kind.AMBIGUOUS_MASK, start, end, f"a multiple of {block}", f"{start:#x}"))
    return differences
