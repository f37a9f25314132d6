"""Dump of an `.sframe`: as in GNU readelf 2.47 (`--sframe`), byte for byte, and as JSON.

Strategy: the text after a PC is made once per distinct FRE, and lines are assembled in bulk, a few thousand at a time.
The dump looks up no PC, so it also shows sections that are out of order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...schemas import sframe
from ...schemas.data_classes import dataclass
from ...schemas.section import Section
from ...schemas.sframe import (
    SFRAME_AARCH64_PAUTH_KEY,
    SFRAME_BASE_REG,
    SFRAME_F,
    SFRAME_FDE_TYPE,
    SFRAME_FRE_TYPE,
    SFRAME_V3_FDE_TYPE,
    SFRAME_VERSION,
)
from ...schemas.sframe_abi import SLOT_REGISTER_MARK, SLOT_REGISTER_SHIFT
from ..arch.table import unwind_registers
from ..arrays import holds_any, starts_of
from ..bulk_text import Pool, hexadecimal
from ..table.lookup import ChosenPcs
from .fres import MAX_WORDS, Fres, abi_of, fres_of_blocks
from .section import SframeColumns, sframe_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

# FREs that are formatted at once: a few megabytes of working memory.
CHUNK = 1 << 14

_CFA = "c"
_BASE = {SFRAME_BASE_REG.FP: "fp", SFRAME_BASE_REG.SP: "sp"}


@dataclass(frozen=True, slots=True, eq=False)
class _Dump:
    """A decoded section: FDE i has the FREs first[i] up to first[i + 1]; `content` is the index in `contents`
    of each FRE's content, `start` its start address.
    """

    columns: SframeColumns
    is_masked: NDArray[np.bool_]
    has_b_key: NDArray[np.bool_]
    is_signal: NDArray[np.bool_]
    is_flex: NDArray[np.bool_]
    start: NDArray[np.uint64]
    first: NDArray[np.int64]
    content: NDArray[np.int64]
    contents: list[_Row]


class _Location(NamedTuple):
    """The location of CFA, FP or RA: `base` + `offset`, or in memory at that address; without offset the register.

    `base` is _CFA, the name of a register as in readelf, or the number of a register that has no name. `deref` is None
    if there is no control word.
    """

    base: str | int
    offset: int | None
    deref: bool | None = None

    def text(self) -> str:
        """As in readelf, which shows `deref` only if the base is a register."""
        base = f"r{self.base}" if isinstance(self.base, int) else self.base
        if self.offset is None:
            return base
        place = f"{base}{self.offset:+d}"
        return f"({place})" if self.deref and base != _CFA else place

    def json(self) -> dict[str, Any]:
        """As in JSON."""
        found: dict[str, Any] = {} if self.base == _CFA else {"register": self.base}
        found |= {} if self.offset is None else {"offset": self.offset}
        return found if self.deref is None else found | {"deref": self.deref}


class _Row(NamedTuple):
    """The content of an FRE; without a CFA it marks an outermost frame. `ra_text`, readelf's text, distinguishes more
    cases than `ra`. `further` are the data words after those with a meaning.
    """

    cfa: _Location | None
    fp: _Location | None
    ra: _Location | None
    ra_text: str
    signed: bool
    further: tuple[int, ...] = ()


def sframe_text(section: Section, at: ChosenPcs | None = None) -> Iterator[bytes]:
    """The text, in chunks of a few thousand lines, of all FDEs or of those `at` some PCs.

    Raises ParseError if a count or an offset leads outside the section.
    """
    if not len(section):
        yield f"\nSection '{section.name}' has no debugging data.\n".encode(errors="surrogateescape")
        return
    dump = _dump_of(section)
    yield f"Contents of the SFrame section {section.name}:".encode(errors="surrogateescape")
    yield _header_text(dump.columns).encode()
    tails = [_row_text(row).encode() for row in dump.contents]
    if at is not None:
        for index in _functions_at(dump, at):
            yield from _function_text(dump, tails, index)
        return
    begin = 0
    while begin < len(dump.columns):
        # As many functions as fit in CHUNK; a larger one is split.
        fitting = int(np.searchsorted(dump.first, dump.first[begin] + CHUNK, side="right")) - 1
        end = min(fitting, begin + CHUNK)
        if end > begin:
            yield _functions_text(dump, tails, begin, end)
        else:
            end = begin + 1
            yield from _function_text(dump, tails, begin)
        begin = end


def _functions_at(dump: _Dump, at: ChosenPcs | None) -> list[int]:
    """The indices of the FDEs that contain one of the PCs; all FDEs for None."""
    if at is None:
        return list(range(len(dump.columns)))
    start = (dump.columns if at.located is None else sframe_columns(at.located)).start
    found = holds_any(start, dump.columns.size.astype(np.uint64), at.pcs)
    return [int(index) for index in np.flatnonzero(found)]


def sframe_json(section: Section, at: ChosenPcs | None = None) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """The header's fields, and the FDEs with their FREs one by one, for JSON, with the specification's names.

    Addresses are absolute; an FRE's `start_address` is relative to the start of its function or block. With `pcs` only
    the FDEs that contain one. Raises ParseError.
    """
    if not len(section):
        return {"section": section.name, "address": section.address}, iter(())
    dump = _dump_of(section)
    columns = dump.columns
    header: dict[str, Any] = {name: int(columns.header[name]) for name in columns.header.dtype.names or ()}
    header["flags"] = _flags(columns)
    header["abi_arch"] = abi_of(columns.architecture).abi_arch.name
    if columns.auxiliary_header:
        header["auxiliary_header"] = columns.auxiliary_header.hex()
    return {"section": section.name, "address": section.address} | header, _fdes_json(dump, _functions_at(dump, at))


def _dump_of(section: Section) -> _Dump:
    columns = sframe_columns(section)
    blocks = columns.blocks()
    fres = fres_of_blocks(columns.section, columns.fres, columns.fres_offset, blocks, least=0, ascending=False)
    content, distinct = _distinct(fres)
    signs = abi_of(columns.architecture).signs_return_addresses
    return _Dump(
        columns=columns,
        is_masked=columns.bits("fdetype") == SFRAME_FDE_TYPE.PCMASK,
        has_b_key=(columns.bits("pauth_key") == SFRAME_AARCH64_PAUTH_KEY.B) & signs,
        is_signal=columns.is_signal_frame(),
        is_flex=columns.is_flex(),
        start=fres.start,
        first=starts_of(blocks.count),
        content=content,
        contents=list(_rows_of(columns, distinct)),
    )


def _distinct(fres: Fres) -> tuple[NDArray[np.int64], Fres]:
    """The number of each FRE's content, and an FRE of each distinct content."""
    words = fres.words.astype(np.uint32).astype(np.uint64)
    number = words[:, 0]
    for column in range(1, words.shape[1]):
        _, number = np.unique(number << np.uint64(32) | words[:, column], return_inverse=True)
        number = number.reshape(-1).astype(np.uint64)
    key = number << np.uint64(9) | fres.is_flex.astype(np.uint64) << np.uint64(8) | fres.info
    _, first, content = np.unique(key, return_index=True, return_inverse=True)
    return content.reshape(-1), fres.select(first)


def _rows_of(columns: SframeColumns, fres: Fres) -> Iterator[_Row]:
    """The contents of FREs, in order."""
    plain, flex = (iter(rows) for rows in (_plain_rows(columns, fres), _flex_rows(columns, fres)))
    for is_flex, words, signed in zip(
        *(column.tolist() for column in (fres.is_flex, fres.bits("fre_offset_count"), fres.bits("fre_mangled_ra_p"))),
        strict=True,
    ):
        row = next(flex if is_flex else plain)
        yield row if words else _Row(None, None, None, "", bool(signed))


def _plain_rows(columns: SframeColumns, fres: Fres) -> Iterator[_Row]:
    """The contents of FREs that are not FLEX."""
    fres, abi, header = fres.select(~fres.is_flex), abi_of(columns.architecture), columns.header
    slots = fres.slots(int(header["cfa_fixed_ra_offset"]), int(header["cfa_fixed_fp_offset"]))
    has_register_slots = abi.has_register_slots and columns.version < SFRAME_VERSION.V3
    bases, offsets = fres.bits("fre_cfa_base_reg_id").tolist(), fres.cfa_offsets(abi).tolist()
    counts, signs = fres.bits("fre_offset_count").tolist(), fres.bits("fre_mangled_ra_p").tolist()
    saved = (
        [_slot(word, is_there, has_register_slots) for word, is_there in zip(*(c.tolist() for c in slot), strict=True)]
        for slot in slots
    )
    known = MAX_WORDS if header["cfa_fixed_ra_offset"] == sframe.FIXED_OFFSET_INVALID else MAX_WORDS - 1
    all_words = fres.words.tolist()
    for base, offset, ra, fp, words, stored, signed in zip(
        bases, offsets, *saved, counts, all_words, signs, strict=True
    ):
        if header["cfa_fixed_ra_offset"] != sframe.FIXED_OFFSET_INVALID:
            ra_text = "f"
        else:
            # U: a padding word, since FP is saved and RA is not.
            ra_text = ra.text() if ra else "U" if words > 1 else "u"
        further = tuple(stored[known:words])
        yield _Row(_Location(_BASE[base], offset), fp, ra, ra_text, bool(signed), further)


def _slot(word: int, is_there: bool, has_register_slots: bool) -> _Location | None:
    if not is_there:
        return None
    if has_register_slots and word & SLOT_REGISTER_MARK:
        return _Location(word >> SLOT_REGISTER_SHIFT, None)
    return _Location(_CFA, word)


def _flex_rows(columns: SframeColumns, fres: Fres) -> Iterator[_Row]:
    """The contents of FLEX FREs."""
    fres, architecture = fres.select(fres.is_flex), columns.architecture
    if not len(fres.start):
        return
    registers = unwind_registers(architecture)
    names = {registers.sp: "sp", registers.fp: "fp"}
    cfa, ra, fp = fres.pairs()
    cfa = cfa._replace(offset=fres.cfa_offsets(abi_of(architecture)))
    default = "u" if columns.header["cfa_fixed_ra_offset"] == sframe.FIXED_OFFSET_INVALID else "f"
    counts = fres.bits("fre_offset_count").tolist()
    signed = fres.bits("fre_mangled_ra_p").tolist()
    columns_of_pairs = (column.tolist() for pair in (cfa, ra, fp) for column in pair)
    for words, is_signed, *values in zip(counts, signed, *columns_of_pairs, strict=True):
        places = [_pair(values[at], values[at + 1], bool(values[at + 2]), names) for at in (0, 3, 6)]
        ra_text = places[1].text() if places[1] else "U" if words > 2 else default
        yield _Row(places[0], places[2], places[1], ra_text, bool(is_signed))


def _pair(control: int, offset: int, is_there: bool, names: dict[int, str]) -> _Location | None:
    if not is_there:
        return None
    register = control >> sframe.CONTROL_REGISTER_SHIFT
    base = names.get(register, register) if control & sframe.CONTROL_REG else _CFA
    return _Location(base, offset, bool(control & sframe.CONTROL_DEREF))


def _header_text(columns: SframeColumns) -> str:
    header = columns.header
    lines = ["", "  Header :", "", f"    Version: SFRAME_VERSION_{int(columns.version)}", *_flag_lines(columns)]
    for name in ("fp", "ra"):
        if header[f"cfa_fixed_{name}_offset"] != sframe.FIXED_OFFSET_INVALID:
            lines.append(f"    CFA fixed {name.upper()} offset: {header[f'cfa_fixed_{name}_offset']}")
    # readelf prints both as signed numbers.
    lines += [f"    Num {name}: {header[f'num_{name.lower()}'].astype('i4')}" for name in ("FDEs", "FREs")]
    return "\n".join([*lines, "", "  Function Index :", ""])


def _flags(columns: SframeColumns) -> list[str | int]:
    """The names of the flags that are set; bits without a name are a single number at the end."""
    known, flags = sframe.FLAGS[columns.version], int(columns.header["flags"])
    names: list[str | int] = [str(flag.name) for flag in SFRAME_F if flag in known and flags & flag]
    rest = flags & ~int(known)
    return [*names, rest] if rest else names


def _flag_lines(columns: SframeColumns) -> list[str]:
    """One line per flag."""
    names = [f"SFRAME_F_{flag}" if isinstance(flag, str) else str(flag) for flag in _flags(columns)]
    prefixes = ["Flags: ", *[" "] * len(names)]
    shown = [f"{name}," for name in names[:-1]] + (names[-1:] or ["NONE"])
    return [f"{prefix:>11}{name}" for prefix, name in zip(prefixes, shown, strict=False)]


def _row_text(row: _Row) -> str:
    """The text after the PC."""
    if row.cfa is None:
        return "  RA undefined"
    fp = "u" if row.fp is None else row.fp.text()
    # readelf always prints the plus sign of a CFA that is not FLEX: a negative offset gets both signs.
    cfa = row.cfa.text() if row.cfa.deref is not None else f"{row.cfa.base}+{row.cfa.offset}"
    return f"  {cfa:<10}{fp:<10}{row.ra_text + ('[s]' if row.signed else '   '):<13}"


def _functions_text(dump: _Dump, tails: list[bytes], begin: int, end: int) -> bytes:
    """The FDEs from `begin` up to `end`: for each a heading, one line per FRE, and a line feed."""
    first = dump.first[begin : end + 1]
    rows = slice(first[0], first[-1])
    owner = np.repeat(np.arange(begin, end), np.diff(first))
    pc = np.where(dump.is_masked[owner], np.uint64(0), dump.columns.start[owner]) + dump.start[rows]
    headings = [_function_heading(dump, index) for index in range(begin, end)]
    pool = Pool([*headings, b"\n", b"\n    ", *tails])
    feed, indent, tail = len(headings), len(headings) + 1, len(headings) + 2
    digits = pool.add(hexadecimal(pc))
    # A line is three pieces; the heading and the final line feed enclose the lines of their function.
    pieces = np.empty(2 * len(headings) + 3 * len(pc), np.int64)
    heading_at = 2 * np.arange(len(headings)) + 3 * (first[:-1] - first[0])
    pieces[heading_at] = np.arange(len(headings))
    pieces[heading_at[1:] - 1], pieces[-1] = feed, feed
    row_at = 2 * (owner - begin) + 1 + 3 * np.arange(len(pc))
    pieces[row_at] = indent
    pieces[row_at + 1] = digits + np.arange(len(pc))
    pieces[row_at + 2] = tail + dump.content[rows]
    return pool.join(pieces)


def _function_text(dump: _Dump, tails: list[bytes], index: int) -> Iterator[bytes]:
    """One FDE in chunks of CHUNK lines."""
    yield _function_heading(dump, index)
    base = np.uint64(0) if dump.is_masked[index] else dump.columns.start[index]
    last = int(dump.first[index + 1])
    for start in range(int(dump.first[index]), last, CHUNK):
        rows = slice(start, min(start + CHUNK, last))
        pool = Pool([b"\n    ", *tails])
        lines = pool.add(hexadecimal(base + dump.start[rows])) + np.arange(rows.stop - start)
        yield pool.join(np.stack([np.zeros_like(lines), lines, 1 + dump.content[rows]], axis=1).reshape(-1))
    yield b"\n"


def _function_heading(dump: _Dump, index: int) -> bytes:
    columns = dump.columns
    size = columns.size[index].astype("u4").astype("i4")  # readelf prints it as a signed number
    letters = "S" * bool(dump.is_signal[index]) + "F" * bool(dump.is_flex[index])
    attributes = (f', attr = "{letters}"' if letters else "") + (", pauth = B key" if dump.has_b_key[index] else "")
    mark = "[m]" if dump.is_masked[index] else "   "
    return (
        f"\n    func idx [{index}]: pc = {int(columns.start[index]):#x}, size = {size} bytes{attributes}"
        f"\n    {'STARTPC':<7}{mark:<8} {'CFA':<10}{'FP':<10}{'RA':<13}"
    ).encode()


def _fdes_json(dump: _Dump, indices: list[int]) -> Iterator[dict[str, Any]]:
    columns = dump.columns
    fretype, key = columns.bits("fretype"), columns.bits("pauth_key")
    contents = [_row_json(row) for row in dump.contents]
    for index in indices:
        rows = slice(int(dump.first[index]), int(dump.first[index + 1]))
        found = zip(dump.start[rows].tolist(), dump.content[rows].tolist(), strict=True)
        v3_fields = {"signal_p": bool(dump.is_signal[index]), "fde_type": SFRAME_V3_FDE_TYPE(dump.is_flex[index]).name}
        yield {
            "func_start_address": int(columns.start[index]),
            "func_size": int(columns.size[index]),
            "fretype": SFRAME_FRE_TYPE(fretype[index]).name,
            "fdetype": SFRAME_FDE_TYPE(dump.is_masked[index]).name,
            "pauth_key": SFRAME_AARCH64_PAUTH_KEY(key[index]).name,
            "func_rep_size": int(columns.repetition[index]),
            **(v3_fields if columns.version >= SFRAME_VERSION.V3 else {}),
            "fres": [{"start_address": start, **contents[content]} for start, content in found],
        }


def _row_json(row: _Row) -> dict[str, Any]:
    """The content of an FRE. A location is None without a rule; the CFA is None in an outermost frame."""
    places = {"cfa": row.cfa, "fp": row.fp, "ra": row.ra}
    found = {name: place and place.json() for name, place in places.items()} | {"mangled_ra": row.signed}
    return found | {"further_words": list(row.further)} if row.further else found
