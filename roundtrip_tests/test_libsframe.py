"""libsframe (Debian's libsframe3, of binutils 2.47) and our look-ups answer every PC of real libraries alike.

Strategy: a library's call frame information is written as V2, and every byte address from below the first function to
behind the last is asked of libsframe's decoder, of `find_fres`, which reads the same bytes, and of `find_rows`, which
has the table that `from_sframe` made of them. No product code stands between libsframe and its answers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unwindkit import find_fres, find_rows, from_sframe, read_elf, to_sframe
from unwindkit.schemas import engine
from unwindkit.schemas.sframe import SFRAME_VERSION
from unwindkit.schemas.sframe_abi import SFRAME_ABI, SFRAME_ABIS
from unwindkit.schemas.sframe_strategies import valid_sframe_sections

from .answers import FIELDS, NOT_SAVED, Answers, answers_of_fres, answers_of_rows
from .conftest import fewer
from .handmade import octets
from .oracles import LIBSFRAME, SID_FILES, oracle_root
from .real_files import REAL_FILES
from .tables import telling_pcs

# struct sframe_frame_row_entry (include/sframe-api.h): start u32, data words of up to 24 bytes, info u8; aligned to 4.
ENTRY = np.dtype(
    {"names": ["start", "words", "info"], "formats": ["u4", "V24", "u1"], "offsets": [0, 4, 28], "itemsize": 32}
)
DEFAULT_FDE = 0  # SFRAME_FDE_TYPE_DEFAULT: all of V2 are
RA_OFFSET_INVALID = 0  # SFRAME_FRE_RA_OFFSET_INVALID
BEYOND = 32  # bytes that are asked before the first and behind the last function


# --- what libsframe says --------------------------------------------------------------------------------------


@pytest.fixture(scope="session", name="libsframe")
def _libsframe() -> ctypes.CDLL:
    """libsframe in this process: it asks for nothing that a C library of the last ten years lacks."""
    library = ctypes.CDLL(str(next(oracle_root().glob(LIBSFRAME))))
    pointer, code = ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)
    library.sframe_decode.restype = pointer
    library.sframe_decode.argtypes = [ctypes.c_char_p, ctypes.c_size_t, code]
    library.sframe_decoder_free.argtypes = [ctypes.POINTER(pointer)]
    library.sframe_find_fre.argtypes = [pointer, ctypes.c_int64, pointer]
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
    """What `sframe_find_fre` says; `pcs` count from the section's start."""
    entries = np.zeros(len(pcs), ENTRY)
    places = range(entries.ctypes.data, entries.ctypes.data + entries.nbytes, ENTRY.itemsize)
    find = libsframe.sframe_find_fre
    with decoder_of(libsframe, data) as decoder:
        codes = [find(decoder, pc, place) for pc, place in zip(pcs, places, strict=True)]
        found = np.array(codes) == 0
        # The accessors are asked once for each run of equal entries.
        is_new = np.ones(len(entries), np.bool_)
        is_new[1:] = entries[1:] != entries[:-1]
        firsts = np.flatnonzero(is_new)
        run = np.cumsum(is_new) - 1
        accessed = np.array([_accessed(libsframe, decoder, places[first]) for first in firsts.tolist()], np.int64)
    columns = {"start": entries["start"].astype(np.int64), "info": entries["info"].astype(np.int64)}
    columns |= dict(zip(FIELDS[2:], accessed[run].T, strict=True))
    return Answers(found, {name: np.where(found, column, 0) for name, column in columns.items()})


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


# --- the libraries --------------------------------------------------------------------------------------------

SID = {"libc": "libc6", "libstdc++": "libstdc++6"}


def library_of(place: str, name: str) -> Path:
    """The library of this machine, or of a suite's folder."""
    if place == "host":
        (path,) = (Path(path) for path in REAL_FILES if Path(path).name.startswith(f"{name}."))
        return path
    (path,) = {found.resolve() for found in oracle_root(place).glob(SID_FILES[SID[name]])}
    return path


class AtLeast(NamedTuple):
    """PCs, rounded down, that are asked, and that are in a function (2026-11)."""

    asked: int
    found: int


FIGURES = {"libc": AtLeast(1_200_000, 1_150_000), "libstdc++": AtLeast(1_000_000, 990_000)}
# The entries of the lazy PLT, whose CFA is 8 higher from that byte on (`push`): GNU ld's for x86-64.
PLT_BLOCK, PUSHED = 16, 11


def cases() -> list[Any]:
    found = []
    here = {name for name in SID if any(Path(path).name.startswith(f"{name}.") for path in REAL_FILES)}
    for place in ("host", "sid-amd64", "sid-arm64", "sid-s390x"):
        marks = [] if place == "host" else [pytest.mark.oracle(place)]
        for name in SID:
            if place == "host" and name not in here:
                marks = [pytest.mark.skip(reason=f"this machine has no {name}")]
            # On a host of the other byte order, libsframe turns each FRE round once: it takes none that are shared.
            for compact in ("none",) if place == "sid-s390x" else ("none", "share"):
                found.append(pytest.param(place, name, compact, marks=marks, id=f"{place}-{name}-{compact}"))
    return found


@pytest.mark.oracle
@pytest.mark.parametrize(("place", "name", "compact"), cases())
def test_every_pc_is_answered_alike(libsframe: ctypes.CDLL, place: str, name: str, compact: str) -> None:
    source = read_elf(library_of(place, name))
    functions = source.functions
    end = int((functions.start + functions.size).max())
    address = end + 0xFFF & -0x1000
    data, _ = to_sframe(source, section_address=address, compact=compact)
    pcs = range(int(functions.start.min()) - BEYOND, end + BEYOND)
    pc = np.arange(pcs.start, pcs.stop, dtype=np.uint64)

    theirs = answers_of_libsframe(libsframe, data, range(pcs.start - address, pcs.stop - address))
    at = find_fres(data, pc, address)
    ours = answers_of_fres(at)
    assert ours.differences(theirs, pcs) == []
    table = from_sframe(data, address)
    rows_at = find_rows(table, pc)
    assert np.array_equal(rows_at.function, at.fde)
    assert answers_of_rows(table, rows_at, ours.fields["info"]).differences(theirs, pcs) == []

    figures = FIGURES[name]
    assert len(pcs) >= figures.asked
    assert theirs.found.sum() >= figures.found
    assert not theirs.found[[*range(BEYOND), *range(-BEYOND, 0)]].any()
    masked = np.flatnonzero(table.functions.repetition)
    assert len(masked) == (table.architecture.name == "x86_64"), "libraries of Debian's have a lazy PLT there"
    for function in masked:
        start, size = int(table.functions.start[function]), int(table.functions.size[function])
        block = np.arange(size) % PLT_BLOCK
        plt = slice(start - pcs.start, start - pcs.start + size)
        assert theirs.fields["start"][plt].tolist() == np.where(block >= PUSHED, PUSHED, 0).tolist()
        assert theirs.fields["cfa"][plt].tolist() == np.where(block >= PUSHED, 16, 8).tolist()


# --- sections of all sorts ------------------------------------------------------------------------------------


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
    # libsframe looks at 32 bits of a distance.
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
