"""An `.sframe` as GNU readelf 2.47 prints it (`--sframe`), byte for byte, and as plain data for JSON.

Strategy: what stands behind a PC is one of few texts; they are made once for each different FRE, and lines are put
together in bulk, some thousand at a time. The dump looks nothing up, so it also shows sections that are out of order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..schemas import sframe
from ..schemas.section import Section
from ..schemas.sframe import SFRAME_AARCH64_PAUTH_KEY, SFRAME_BASE_REG, SFRAME_F, SFRAME_FDE_TYPE, SFRAME_FRE_TYPE
from ..schemas.sframe_abi import SLOT_REGISTER_MARK, SLOT_REGISTER_SHIFT
from .fre_blocks import Fres, abi_of, fres_of_blocks
from .sframe_section import SframeColumns, sframe_columns
from .text import Pool, hexadecimal

if TYPE_CHECKING:
    from numpy.typing import NDArray

# FREs that are put into text at once: some megabytes of working memory.
CHUNK = 1 << 14

_BASE = {SFRAME_BASE_REG.FP: "fp", SFRAME_BASE_REG.SP: "sp"}


@dataclass(frozen=True, slots=True, eq=False)
class _Dump:
    """A section taken apart: FDE i has the FREs first[i] up to first[i + 1], whose contents are numbered."""

    columns: SframeColumns
    is_masked: NDArray[np.bool_]
    has_b_key: NDArray[np.bool_]
    start: NDArray[np.uint64]
    first: NDArray[np.int64]
    content: NDArray[np.int64]
    contents: list[_Row]


class _Row(NamedTuple):
    """An FRE's content: the CFA is `base` + `cfa`, or None; words of FP and RA, or None; `words`, how many it has."""

    base: str
    cfa: int | None
    fp: int | None
    ra: int | None
    words: int
    signed: bool


def sframe_text(section: Section) -> Iterator[bytes]:
    """The text, in pieces of some thousand lines. Raises ParseError where a count or an offset leads outside."""
    if not len(section):
        yield f"\nSection '{section.name}' has no debugging data.\n".encode(errors="surrogateescape")
        return
    dump = _dump_of(section)
    yield f"Contents of the SFrame section {section.name}:".encode(errors="surrogateescape")
    yield _header_text(dump.columns).encode()
    tails = [_row_text(dump.columns, row).encode() for row in dump.contents]
    begin = 0
    while begin < len(dump.columns):
        # One function at least, and as many more as CHUNK has room for.
        room = int(np.searchsorted(dump.first, dump.first[begin] + CHUNK, side="right")) - 1
        end = min(max(begin + 1, room), begin + CHUNK)
        yield _functions_text(dump, tails, begin, end)
        begin = end


def sframe_plain(section: Section) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    """The header's fields, and one by one the FDEs with their FREs, as JSON has them: names of the specification.

    Addresses are absolute, an FRE's `start_address` counts from its function's start or block. Raises ParseError.
    """
    dump = _dump_of(section)
    columns = dump.columns
    header: dict[str, Any] = {name: int(columns.header[name]) for name in columns.header.dtype.names or ()}
    header["flags"] = [flag.name for flag in SFRAME_F if header["flags"] & flag]
    header["abi_arch"] = abi_of(columns.architecture).abi_arch.name
    return {"section": section.name, "address": section.address} | header, _plain_fdes(dump)


def _dump_of(section: Section) -> _Dump:
    columns = sframe_columns(section)
    blocks = columns.blocks()
    fres = fres_of_blocks(columns.section, columns.fres, columns.fres_offset, blocks, strict=False)
    content, distinct = _distinct(fres)
    signs = abi_of(columns.architecture).signs_return_addresses
    return _Dump(
        columns=columns,
        is_masked=columns.bits("fdetype") == SFRAME_FDE_TYPE.PCMASK,
        has_b_key=(columns.bits("pauth_key") == SFRAME_AARCH64_PAUTH_KEY.B) & signs,
        start=fres.start,
        first=np.concatenate([np.zeros(1, np.int64), np.cumsum(blocks.count)]),
        content=content,
        contents=list(_rows_of(columns, distinct)),
    )


def _distinct(fres: Fres) -> tuple[NDArray[np.int64], Fres]:
    """For each FRE the number of its content, and the different contents."""
    words = fres.words.astype(np.uint32).astype(np.uint64)
    _, pair = np.unique(words[:, 0] << np.uint64(32) | words[:, 1], return_inverse=True)
    key = pair.reshape(-1).astype(np.uint64) << np.uint64(40) | words[:, 2] << np.uint64(8) | fres.info
    _, first, number = np.unique(key, return_index=True, return_inverse=True)
    return number.reshape(-1), Fres(fres.start[first], fres.info[first], fres.words[first])


def _rows_of(columns: SframeColumns, fres: Fres) -> Iterator[_Row]:
    header, count = columns.header, fres.bits("fre_offset_count")
    slots = fres.slots(int(header["cfa_fixed_ra_offset"]), int(header["cfa_fixed_fp_offset"]))
    found = (
        *(fres.bits("fre_cfa_base_reg_id"), fres.cfa_offsets(abi_of(columns.architecture))),
        *(column for slot in slots for column in slot),
        *(count, fres.bits("fre_mangled_ra_p")),
    )
    for base, cfa, ra, has_ra, fp, has_fp, words, signed in zip(*(c.tolist() for c in found), strict=True):
        if words:
            yield _Row(_BASE[base], cfa, fp if has_fp else None, ra if has_ra else None, words, bool(signed))
        else:
            yield _Row(_BASE[base], None, None, None, 0, bool(signed))


def _header_text(columns: SframeColumns) -> str:
    header = columns.header
    lines = ["", "  Header :", "", f"    Version: SFRAME_VERSION_{int(columns.version)}", *_flag_lines(columns)]
    for name in ("fp", "ra"):
        if header[f"cfa_fixed_{name}_offset"] != sframe.FIXED_OFFSET_INVALID:
            lines.append(f"    CFA fixed {name.upper()} offset: {header[f'cfa_fixed_{name}_offset']}")
    # Both as readelf prints them: signed.
    lines += [f"    Num {name}: {header[f'num_{name.lower()}'].astype('i4')}" for name in ("FDEs", "FREs")]
    return "\n".join([*lines, "", "  Function Index :", ""])


def _flag_lines(columns: SframeColumns) -> list[str]:
    """A line a flag; bits without a name are one number at the end."""
    names = [f"SFRAME_F_{flag.name}" for flag in SFRAME_F if columns.header["flags"] & flag]
    rest = int(columns.header["flags"]) & ~sum(SFRAME_F)
    names += [str(rest)] if rest else []
    prefixes = ["Flags: ", *[" "] * len(names)]
    shown = [f"{name}," for name in names[:-1]] + (names[-1:] or ["NONE"])
    return [f"{prefix:>11}{name}" for prefix, name in zip(prefixes, shown, strict=False)]


def _row_text(columns: SframeColumns, row: _Row) -> str:
    """What stands behind the PC."""
    if row.cfa is None:
        return "  RA undefined"
    if columns.header["cfa_fixed_ra_offset"] != sframe.FIXED_OFFSET_INVALID:
        ra = "f"
    elif row.ra is None:
        # U: a word that pads, where FP is saved and RA is not.
        ra = "U" if row.words > 1 else "u"
    else:
        ra = _slot_text(row.ra, columns)
    fp = "u" if row.fp is None else _slot_text(row.fp, columns)
    return f"  {f'{row.base}+{row.cfa}':<10}{fp:<10}{ra + ('[s]' if row.signed else '   '):<13}"


def _register(word: int, columns: SframeColumns) -> int | None:
    """The register that a slot's word names; None where it is an offset."""
    is_register = abi_of(columns.architecture).has_register_slots and word & SLOT_REGISTER_MARK
    return word >> SLOT_REGISTER_SHIFT if is_register else None


def _slot_text(word: int, columns: SframeColumns) -> str:
    register = _register(word, columns)
    return f"c{word:+d}" if register is None else f"r{register}"


def _functions_text(dump: _Dump, tails: list[bytes], begin: int, end: int) -> bytes:
    """The FDEs from `begin` up to `end`: a head, a line an FRE, a line feed."""
    first = dump.first[begin : end + 1]
    rows = slice(first[0], first[-1])
    owner = np.repeat(np.arange(begin, end), np.diff(first))
    pc = np.where(dump.is_masked[owner], np.uint64(0), dump.columns.start[owner]) + dump.start[rows]
    heads = [_function_head(dump, index) for index in range(begin, end)]
    pool = Pool([*heads, b"\n", b"\n    ", *tails])
    feed, indent, tail = len(heads), len(heads) + 1, len(heads) + 2
    digits = pool.add(hexadecimal(pc))
    # Every line is three pieces; head and last line feed stand around those of their function.
    pieces = np.empty(2 * len(heads) + 3 * len(pc), np.int64)
    head_at = 2 * np.arange(len(heads)) + 3 * (first[:-1] - first[0])
    pieces[head_at] = np.arange(len(heads))
    pieces[head_at[1:] - 1], pieces[-1] = feed, feed
    row_at = 2 * (owner - begin) + 1 + 3 * np.arange(len(pc))
    pieces[row_at] = indent
    pieces[row_at + 1] = digits + np.arange(len(pc))
    pieces[row_at + 2] = tail + dump.content[rows]
    return pool.joined(pieces)


def _function_head(dump: _Dump, index: int) -> bytes:
    columns = dump.columns
    size = columns.size[index].astype("u4").astype("i4")  # as readelf prints it
    key = ", pauth = B key" if dump.has_b_key[index] else ""
    mark = "[m]" if dump.is_masked[index] else "   "
    return (
        f"\n    func idx [{index}]: pc = {int(columns.start[index]):#x}, size = {size} bytes{key}"
        f"\n    {'STARTPC':<7}{mark:<8} {'CFA':<10}{'FP':<10}{'RA':<13}"
    ).encode()


def _plain_fdes(dump: _Dump) -> Iterator[dict[str, Any]]:
    columns = dump.columns
    fretype, key = columns.bits("fretype"), columns.bits("pauth_key")
    contents = [_plain_row(columns, row) for row in dump.contents]
    for index in range(len(columns)):
        rows = slice(int(dump.first[index]), int(dump.first[index + 1]))
        found = zip(dump.start[rows].tolist(), dump.content[rows].tolist(), strict=True)
        yield {
            "func_start_address": int(columns.start[index]),
            "func_size": int(columns.size[index]),
            "fretype": SFRAME_FRE_TYPE(fretype[index]).name,
            "fdetype": SFRAME_FDE_TYPE(dump.is_masked[index]).name,
            "pauth_key": SFRAME_AARCH64_PAUTH_KEY(key[index]).name,
            "func_rep_size": int(columns.repetition[index]),
            "fres": [{"start_address": start, **contents[content]} for start, content in found],
        }


def _plain_row(columns: SframeColumns, row: _Row) -> dict[str, Any]:
    """None stands for no rule, and for the CFA of an FRE without words (an outermost frame)."""
    return {
        "cfa": None if row.cfa is None else {"register": row.base, "offset": row.cfa},
        "fp": _plain_slot(row.fp, columns),
        "ra": _plain_slot(row.ra, columns),
        "mangled_ra": row.signed,
    }


def _plain_slot(word: int | None, columns: SframeColumns) -> dict[str, int] | None:
    if word is None:
        return None
    register = _register(word, columns)
    return {"offset": word} if register is None else {"register": register}
