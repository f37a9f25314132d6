"""libsframe (Debian's libsframe3, of binutils 2.47) and our look-ups answer every PC of real libraries alike.

Strategy: a library's call frame information is written as SFrame, and addresses are looked up by libsframe's decoder,
by `find_fres`, which reads the same bytes, by `find_rows` in the table that `from_sframe` read from them, and in the
library's original table, before anything was shared or merged. No product code is between libsframe and its answers.
The addresses are every byte from below the first function to past the last, in a section of each version; in the
others, those where an answer may change, their neighbours, and drawn ones.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unwindkit import UnwindTable, find_fres, find_rows, from_sframe, project_sframe, read_elf, to_sframe
from unwindkit.converters.refusals import Refusals
from unwindkit.converters.sframe.write import Compact
from unwindkit.schemas import engine
from unwindkit.schemas.sframe import SFRAME_VERSION
from unwindkit.schemas.sframe_abi import SFRAME_ABI, SFRAME_ABIS
from unwindkit.schemas.strategies import valid_sframe_sections

from ..conftest import fewer
from ..support.answers import FIELDS, I64, NOT_SAVED, Answers, Flags, answers_of_fres, answers_of_rows
from ..support.handmade import octets
from ..support.oracles import LIBSFRAME, SID_FILES, absent, oracle_root
from ..support.real_files import REAL_FILES
from ..support.tables import telling_pcs

# struct sframe_frame_row_entry (include/sframe-api.h): start u32, data words of up to 24 bytes, info u8; aligned to 4.
ENTRY = np.dtype(
    {"names": ["start", "words", "info"], "formats": ["u4", "V24", "u1"], "offsets": [0, 4, 28], "itemsize": 32}
)
DEFAULT_FDE, FLEX_FDE = 0, 1  # SFRAME_FDE_TYPE_*: all of V2 are DEFAULT
RA_OFFSET_INVALID = 0  # SFRAME_FRE_RA_OFFSET_INVALID
MAX_WORDS = 6  # MAX_NUM_DATAWORDS
BEYOND = 32  # bytes that are looked up before the first and after the last function


# --- libsframe's answers --------------------------------------------------------------------------------------


@pytest.fixture(scope="session", name="libsframe")
def _libsframe() -> ctypes.CDLL:
    """libsframe in this process: it needs only what any C library of the last ten years provides."""
    library = ctypes.CDLL(str(next(oracle_root().glob(LIBSFRAME))))
    pointer, code = ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)
    library.sframe_decode.restype = pointer
    library.sframe_decode.argtypes = [ctypes.c_char_p, ctypes.c_size_t, code]
    library.sframe_decoder_free.argtypes = [ctypes.POINTER(pointer)]
    library.sframe_find_fre.argtypes = [pointer, ctypes.c_int64, pointer]
    library.sframe_decoder_get_num_fidx.argtypes = [pointer]
    library.sframe_decoder_get_offsetof_fde_start_addr.argtypes = [pointer, ctypes.c_uint32, code]
    library.sframe_decoder_get_funcdesc_v3.argtypes = [pointer, ctypes.c_uint32, *[pointer] * 6]
    library.sframe_fre_get_base_reg_id.restype = ctypes.c_uint8
    library.sframe_fre_get_base_reg_id.argtypes = [pointer, code]
    for place in ("cfa", "ra", "fp"):
        get = getattr(library, f"sframe_fre_get_{place}_offset")
        get.restype, get.argtypes = ctypes.c_int32, [pointer, pointer, ctypes.c_uint32, code]
    library.sframe_fre_get_ra_mangled_p.restype = ctypes.c_bool
    library.sframe_fre_get_ra_mangled_p.argtypes = [pointer, pointer, code]
    return library


@contextmanager
def decoder_of(libsframe: ctypes.CDLL, data: bytes) -> Iterator[ctypes.c_void_p]:
    error = ctypes.c_int()
    decoder = ctypes.c_void_p(libsframe.sframe_decode(data, len(data), ctypes.byref(error)))
    assert decoder, f"sframe_decode: error {error.value}"
    try:
        yield decoder
    finally:
        libsframe.sframe_decoder_free(ctypes.byref(decoder))


def answers_of_libsframe(libsframe: ctypes.CDLL, data: bytes, pcs: Sequence[int]) -> Answers:
    """The result of `sframe_find_fre`; `pcs` are relative to the section's start."""
    return answers_and_words(libsframe, data, pcs)[0]


def answers_and_words(libsframe: ctypes.CDLL, data: bytes, pcs: Sequence[int]) -> tuple[Answers, I64]:
    """As `answers_of_libsframe`, and the words of each FRE as stored, which have another meaning in FLEX FDEs."""
    entries = np.zeros(len(pcs), ENTRY)
    places = range(entries.ctypes.data, entries.ctypes.data + entries.nbytes, ENTRY.itemsize)
    find = libsframe.sframe_find_fre
    with decoder_of(libsframe, data) as decoder:
        codes = [find(decoder, pc, place) for pc, place in zip(pcs, places, strict=True)]
        found = np.array(codes) == 0
        # The accessors are called once for each run of equal entries.
        is_new = np.ones(len(entries), np.bool_)
        is_new[1:] = entries[1:] != entries[:-1]
        firsts = np.flatnonzero(is_new)
        run = np.cumsum(is_new) - 1
        accessed = np.array([_accessed(libsframe, decoder, places[first]) for first in firsts.tolist()], np.int64)
    columns = {"start": entries["start"].astype(np.int64), "info": entries["info"].astype(np.int64)}
    columns |= dict(zip(FIELDS[2:], accessed[run].T, strict=True))
    answers = Answers(found, {name: np.where(found, column, 0) for name, column in columns.items()})
    return answers, _words(entries) * found[:, None]


def _words(entries: np.ndarray[Any, Any]) -> I64:
    """The words of each entry, as signed numbers; 0 for missing ones."""
    octets_of, info = entries["words"].copy().view("u1").reshape(-1, 24), entries["info"]
    words = np.zeros((len(entries), MAX_WORDS), np.int64)
    for size, code in enumerate(("i1", "i2", "i4")):  # SFRAME_FRE_DATAWORD_1B, _2B, _4B
        where = info >> 5 & 3 == size
        words[where] = octets_of[where].view(code)[:, :MAX_WORDS]
    return np.where(np.arange(MAX_WORDS) < (info >> 1 & 15)[:, None], words, 0)


def _accessed(libsframe: ctypes.CDLL, decoder: ctypes.c_void_p, entry: int) -> tuple[int, ...]:
    """Base register, offsets of CFA, RA and FP, and whether the RA is signed, of one entry."""
    error = ctypes.c_int()
    offsets = []
    for place in ("cfa", "ra", "fp"):
        get = getattr(libsframe, f"sframe_fre_get_{place}_offset")
        offset = get(decoder, entry, DEFAULT_FDE, ctypes.byref(error))
        is_padding = place == "ra" and offset == RA_OFFSET_INVALID
        offsets.append(NOT_SAVED if error.value or is_padding else offset)
    base = libsframe.sframe_fre_get_base_reg_id(entry, ctypes.byref(error))
    return (base, *offsets, libsframe.sframe_fre_get_ra_mangled_p(decoder, entry, ctypes.byref(error)))


def flex_ranges(libsframe: ctypes.CDLL, data: bytes) -> list[tuple[int, int]]:
    """Start and size of the FLEX FDEs of a section of version 3; starts are relative to the section's."""
    found = []
    start, (num_fres, size) = ctypes.c_int64(), (ctypes.c_uint32(), ctypes.c_uint32())
    info, kind, block = ctypes.c_uint8(), ctypes.c_uint8(), ctypes.c_uint8()
    told = [ctypes.byref(one) for one in (num_fres, size, start, info, kind, block)]
    error = ctypes.c_int()
    with decoder_of(libsframe, data) as decoder:
        for fde in range(libsframe.sframe_decoder_get_num_fidx(decoder)):
            assert libsframe.sframe_decoder_get_funcdesc_v3(decoder, fde, *told) == 0
            # The start is relative to its own field.
            field = libsframe.sframe_decoder_get_offsetof_fde_start_addr(decoder, fde, ctypes.byref(error))
            if kind.value & 31 == FLEX_FDE:
                found.append((field + start.value, size.value))
    return found


# --- the libraries --------------------------------------------------------------------------------------------

SID = {"libc": "libc6", "libstdc++": "libstdc++6"}


def library_of(place: str, name: str) -> Path:
    """The library of this machine, or from a suite's folder."""
    if place == "host":
        path = next((Path(path) for path in REAL_FILES if Path(path).name.startswith(f"{name}.")), None)
        return path or absent(f"this machine has no {name}")
    (path,) = {found.resolve() for found in oracle_root(place).glob(SID_FILES[SID[name]])}
    return path


class AtLeast(NamedTuple):
    """PCs, rounded down, that are looked up, and that are in a function: if all are, and if not (2026-11)."""

    asked: int
    found: int


FIGURES = {"libc": AtLeast(1_200_000, 1_150_000), "libstdc++": AtLeast(1_000_000, 990_000)}
CHOSEN_FIGURES = {"libc": AtLeast(60_000, 55_000), "libstdc++": AtLeast(65_000, 60_000)}
# Sections in which every PC is looked up; drawn ones in others.
IN_FULL = {("sid-amd64", "libc", 2, "share"), ("sid-amd64", "libc", 3, "merge")}
DRAWN = 20_000
# The entries of the lazy PLT, with a CFA 8 higher after byte 11 (`push`): GNU ld's for x86-64.
PLT_BLOCK, PUSHED = 16, 11


def cases() -> list[Any]:
    found = []
    sections = (("libc", 2), ("libstdc++", 2), ("libc", 3))
    for place, (name, version) in itertools.product(("host", "sid-amd64", "sid-arm64", "sid-s390x"), sections):
        marks = [] if place == "host" else [pytest.mark.oracle(place)]
        compacts = ("none", "share", "merge") if version == 2 else ("share", "merge")
        # On a host of the other byte order, libsframe byte-swaps each FRE where it is referenced: it rejects shared
        # ones.
        for compact in ("none", "merge") if place == "sid-s390x" else compacts:
            case = f"{place}-{name}-v{version}-{compact}"
            found.append(pytest.param(place, name, version, compact, marks=marks, id=case))
    return found


@pytest.mark.oracle
@pytest.mark.parametrize(("place", "name", "version", "compact"), cases())
def test_every_pc_is_answered_alike(
    libsframe: ctypes.CDLL, place: str, name: str, version: int, compact: Compact
) -> None:
    source = read_elf(library_of(place, name))
    functions = source.functions
    end = int((functions.start + functions.size).max())
    address = end + 0xFFF & -0x1000
    data, refusals = to_sframe(source, version, address, compact)
    every = range(int(functions.start.min()) - BEYOND, end + BEYOND)
    table = from_sframe(data, address)
    is_full = (place, name, version, compact) in IN_FULL
    pcs = np.arange(every.start, every.stop) if is_full else chosen_pcs(source, table, every)

    theirs, words = answers_and_words(libsframe, data, (pcs - address).tolist())
    at = find_fres(data, pcs, address)
    assert np.array_equal(words[:, : at.fres.words.shape[1]], at.fres.words)
    # FLEX words are compared as stored; an outermost frame has none. Version 2 has neither.
    flex = [(address + start, size) for start, size in flex_ranges(libsframe, data)] if version == 3 else []
    said = ~(is_in(flex, pcs) | (theirs.found & (theirs.fields["info"] == 0) & (version == 3)))
    ours = answers_of_fres(at)
    assert ours.differences(theirs, pcs, said) == []
    rows_at = find_rows(table, pcs)
    assert np.array_equal(rows_at.function, at.fde)
    rows_at.row[~said] = -1
    assert answers_of_rows(table, rows_at, ours.fields["info"]).differences(theirs, pcs, said) == []

    assert (2 * len(table) < len(functions.start)) == (compact == "merge")
    figures = (FIGURES if is_full else CHOSEN_FIGURES)[name]
    assert len(pcs) >= figures.asked
    assert theirs.found.sum() >= figures.found
    assert not theirs.found[[*range(BEYOND), *range(-BEYOND, 0)]].any()
    assert_the_lazy_plt_is_repetitive(table, theirs, pcs)
    assert_functions_are_answered(
        project_sframe(source, version), refusals, theirs, pcs, said, is_merged=compact == "merge"
    )


def chosen_pcs(source: UnwindTable, table: UnwindTable, every: range) -> I64:
    """The PCs where functions and rows of both tables start and end with their neighbours, all of repetitive functions
    and the bytes beyond functions, and drawn ones."""
    found = [np.random.default_rng(len(table)).integers(every.start, every.stop, DRAWN)]
    found += [np.arange(every.start, every.start + BEYOND), np.arange(every.stop - BEYOND, every.stop)]
    for one in (source, table):
        functions = one.functions
        start, size = functions.start.astype(np.int64), functions.size.astype(np.int64)
        counts = np.diff(one.run_rows)[functions.run]
        rows = np.repeat(one.run_rows[functions.run] - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
        telling = (start, start + size, np.repeat(start, counts) + one.rows.offset[rows].astype(np.int64))
        found += [places + beside for places in telling for beside in (-1, 0, 1)]
        for repetitive in np.flatnonzero(functions.repetition):
            found.append(start[repetitive] + np.arange(size[repetitive]))
    pcs = np.unique(np.concatenate(found))
    return pcs[(pcs >= every.start) & (pcs < every.stop)]


def is_in(ranges: Iterable[tuple[int, int]], pcs: I64) -> Flags:
    """Whether each PC is in one of some ranges: start and size. PCs are in order."""
    found = np.zeros(len(pcs), np.bool_)
    for start, size in ranges:
        found[slice(*np.searchsorted(pcs, (start, start + size)))] = True
    return found


def assert_the_lazy_plt_is_repetitive(table: UnwindTable, theirs: Answers, pcs: I64) -> None:
    masked = np.flatnonzero(table.functions.repetition)
    assert len(masked) == (table.architecture.name == "x86_64"), "libraries of Debian's have a lazy PLT there"
    for function in masked:
        start, size = int(table.functions.start[function]), int(table.functions.size[function])
        block = np.arange(size) % PLT_BLOCK
        plt = slice(*np.searchsorted(pcs, (start, start + size)))
        assert theirs.fields["start"][plt].tolist() == np.where(block >= PUSHED, PUSHED, 0).tolist()
        assert theirs.fields["cfa"][plt].tolist() == np.where(block >= PUSHED, 16, 8).tolist()


def assert_functions_are_answered(
    projected: UnwindTable, refusals: Refusals, theirs: Answers, pcs: I64, said: Flags, *, is_merged: bool
) -> None:
    """Every PC of the library's own functions that is not refused has an FRE that encodes the library's rows; no other
    PC has one, except in the padding between merged functions."""
    rows_at = find_rows(projected, pcs)
    refused = is_in(zip(refusals.start.tolist(), (refusals.end - refusals.start).tolist(), strict=True), pcs)
    inside = (rows_at.function >= 0) & ~refused
    assert theirs.found[inside].all()
    padding = theirs.found & ~inside
    assert is_merged or not padding.any()
    assert not (padding & refused).any()
    where = inside & said
    # Of chosen PCs, more are in the padding, which is beside the ends of functions.
    assert where.sum() > (0.95 if len(pcs) > FIGURES["libstdc++"].asked else 0.8) * theirs.found.sum()
    rows_at.row[~where] = -1
    expected = answers_of_rows(projected, rows_at, theirs.fields["info"])
    # Starts are relative to other functions.
    expected = replace(expected, fields=expected.fields | {"start": theirs.fields["start"]})
    assert expected.differences(theirs, pcs, where) == []


# --- drawn sections -------------------------------------------------------------------------------------------


@pytest.mark.oracle
@pytest.mark.parametrize("version", SFRAME_VERSION)
@pytest.mark.parametrize("abi_arch", SFRAME_ABI)
@fewer(10)
@given(data=st.data())
def test_telling_pcs_of_any_section_that_we_write_are_answered_alike(
    libsframe: ctypes.CDLL, version: SFRAME_VERSION, abi_arch: SFRAME_ABI, data: st.DataObject
) -> None:
    read = data.draw(valid_sframe_sections(version, abi_arch))
    table = from_sframe(engine.build(read, SFRAME_ABIS[abi_arch].byte_order), 0)
    address = data.draw(st.sampled_from([0, 8, 0x7FFFF000]))
    section, _ = to_sframe(table, section_address=address, compact="none")
    written = from_sframe(section, address)
    # libsframe compares 32 bits of a distance.
    pcs = [pc for pc in telling_pcs(written) if pc < 1 << 32]
    at = find_fres(section, pcs, address)
    theirs = answers_of_libsframe(libsframe, section, [pc - address for pc in pcs])
    assert answers_of_fres(at).differences(theirs, pcs) == []
    assert answers_of_rows(written, find_rows(written, pcs), theirs.fields["info"]).differences(theirs, pcs) == []


@pytest.mark.oracle
def test_libsframe_says_what_a_section_made_by_hand_says_and_a_changed_one_does_not(libsframe: ctypes.CDLL) -> None:
    data = octets("""
        e2de 02 05 03 00 f8 00  02000000 04000000 0d000000 00000000 28000000
        e40f0000 04000000 00000000 02000000 00 00 0000   # 0x1000: 4 bytes
        d40f0000 28000000 07000000 02000000 10 10 0000   # 0x1004: two and a half blocks of 16
        00 03 08
        01 05 10 f0
        00 03 08
        0b 03 10
    """)
    pcs = range(0xFFF, 0x102D)
    said = answers_of_libsframe(libsframe, data, pcs)
    blocks = [0] * 11 + [11] * 5
    assert said.found.tolist() == [False, *[True] * 44, False]
    assert said.fields["start"].tolist() == [0, 0, 1, 1, 1, *blocks, *blocks, *[0] * 8, 0]
    assert [said.fields[name][2].item() for name in FIELDS] == [1, 0x05, 1, 16, -8, -16, 0]
    assert answers_of_fres(find_fres(data, pcs)).differences(said, pcs) == []
    # The CFA at 11 in each block is 24 from the SP, and the second function is a byte shorter.
    changed = data[:52] + b"\x27" + data[53:-1] + b"\x18"
    assert answers_of_fres(find_fres(changed, pcs)).differences(said, pcs) == [
        "found at 0x102b and 0 others: False against True",
        "info at 0x102b and 0 others: 0 against 3",
        "base at 0x102b and 0 others: 0 against 1",
        "cfa at 0x100f and 10 others: 24 against 16",
        "ra at 0x102b and 0 others: 0 against -8",
        f"fp at 0x102b and 0 others: 0 against {NOT_SAVED}",
    ]


def test_a_library_that_is_not_here_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without libsframe the test fails where oracles are required, and is skipped elsewhere."""
    monkeypatch.setenv("UNWINDKIT_REQUIRE_ORACLES", "1")
    with pytest.raises(pytest.fail.Exception, match="this machine has no libnone"):
        library_of("host", "libnone")
    monkeypatch.setenv("UNWINDKIT_REQUIRE_ORACLES", "0")
    with pytest.raises(pytest.skip.Exception, match="this machine has no libnone"):
        library_of("host", "libnone")
