"""Hypothesis strategies for whole `.sframe` sections of each version, ABI and byte order (extra `testing`).

Strategy: `sframe_sections` tests what reads records; `valid_sframe_sections` what reads meaning: functions that do
not overlap, rows that ascend, counts and offsets that are true. Both return a record, which `engine.build` writes.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from . import engine, sframe
from .sframe import (
    FRE_OFFSET_SIZES,
    FRE_START_SIZES,
    SFRAME_F,
    SFRAME_FDE_TYPE,
    SFRAME_FRE_OFFSET,
    SFRAME_FRE_TYPE,
    SFRAME_VERSION,
    FdeInfo,
    FrameRowEntry,
    FreInfo,
    FuncDescEntry,
    FuncDescEntryV1,
    Header,
    SframeSection,
)
from .sframe_abi import SFRAME_ABI, SFRAME_ABIS, SframeAbi
from .strategies import MAX_BYTES, records

MAX_FUNCTIONS = 6
MAX_ROWS = 5


@st.composite
def sframe_sections(draw: DrawFn) -> SframeSection:
    """Sections whose counts and offsets are true; what they say of functions need not make sense."""
    version = draw(st.sampled_from(SFRAME_VERSION))
    count = draw(st.integers(0, 5))
    gap, between = (draw(st.integers(0, 3)) for _ in range(2))
    fre_len = draw(st.integers(0, MAX_BYTES))
    header = {
        "version": st.just(version),
        "num_fdes": st.just(count),
        "fdeoff": st.just(gap),
        "freoff": st.just(gap + count * sframe.FDE_SIZES[version] + between),
        "fre_len": st.just(fre_len),
    }
    return draw(records(SframeSection, {"header": records(Header, header)}))


@dataclass(frozen=True, slots=True)
class _Block:
    """FREs as bytes, how many, and all that an FDE has to fit them: bytes that they reach, FRE type, and repetition."""

    data: bytes
    count: int
    reach: int
    fretype: SFRAME_FRE_TYPE
    repetition: int


@st.composite
def valid_sframe_sections(
    draw: DrawFn, version: SFRAME_VERSION, abi_arch: SFRAME_ABI, *, plain: bool = False
) -> SframeSection:
    """Sections that a reader has to take, for that ABI's byte order.

    Functions lie behind the section, whatever its address. `plain`: without what readers in use differ about or
    refuse, though the text allows it: auxiliary headers, gaps, and FREs that several FDEs name.
    """
    abi = SFRAME_ABIS[abi_arch]
    blocks = draw(st.lists(_blocks(version, abi), max_size=MAX_FUNCTIONS))
    places = list(range(len(blocks)))
    if blocks and not plain:
        places += draw(st.lists(st.sampled_from(places), max_size=2))
    flags = draw(st.sampled_from([SFRAME_F(0), *sframe.FLAGS[version]])) | draw(
        st.sampled_from([SFRAME_F(0), *sframe.FLAGS[version]])
    )
    starts = _starts(draw, [blocks[place] for place in places])
    order = list(range(len(places)))
    if not flags & SFRAME_F.FDE_SORTED:
        order = draw(st.permutations(order))
    auxiliary, gap, between = (b"", b"", b"") if plain else (draw(st.binary(max_size=3)) for _ in range(3))
    fdes_at = sframe.HEADER_SIZE + len(auxiliary) + len(gap)
    fre_offsets = [sum(len(block.data) for block in blocks[:number]) for number in range(len(blocks))]
    size = sframe.FDE_SIZES[version]
    fdes = []
    for index, function in enumerate(order):
        start, function_size = starts[function]
        if flags & SFRAME_F.FDE_FUNC_START_PCREL:
            start -= fdes_at + index * size
        block = blocks[places[function]]
        key = draw(st.integers(0, 1)) if abi.signs_return_addresses else 0
        masked = SFRAME_FDE_TYPE.PCMASK if block.repetition else SFRAME_FDE_TYPE.PCINC
        info = FdeInfo(0, key, masked, block.fretype)
        fields = (start, function_size, fre_offsets[places[function]], block.count, info)
        is_v1 = version == SFRAME_VERSION.V1
        fdes.append(FuncDescEntryV1(*fields) if is_v1 else FuncDescEntry(*fields, block.repetition, 0))
    fres = b"".join(block.data for block in blocks)
    header = Header(
        magic=sframe.SFRAME_MAGIC,
        version=version,
        flags=flags,
        abi_arch=abi_arch,
        cfa_fixed_fp_offset=sframe.FIXED_OFFSET_INVALID,
        cfa_fixed_ra_offset=abi.fixed_ra_offset or sframe.FIXED_OFFSET_INVALID,
        auxhdr_len=len(auxiliary),
        num_fdes=len(fdes),
        num_fres=sum(block.count for block in blocks),
        fre_len=len(fres),
        fdeoff=len(gap),
        freoff=len(gap) + len(fdes) * size + len(between),
    )
    return SframeSection(header, auxiliary, gap, tuple(fdes), between, fres, b"")  # type: ignore[arg-type]


def _starts(draw: DrawFn, blocks: list[_Block]) -> list[tuple[int, int]]:
    """Start, from the section's, and size of each function: one behind the other, with gaps."""
    found = []
    start = 1 << 16
    for block in blocks:
        start += draw(st.sampled_from([0, 0, 1, 16, 4096]))
        size = block.reach + draw(st.integers(0, 20))
        if block.repetition:
            size = draw(st.integers(1, 4 * block.repetition))
        found.append((start, size))
        start += size
    return found


@st.composite
def _blocks(draw: DrawFn, version: SFRAME_VERSION, abi: SframeAbi) -> _Block:
    repetition = draw(st.sampled_from([0, 0, 0, 8, 16, 48]))
    if repetition and version == SFRAME_VERSION.V1:
        repetition = sframe.V1_REPETITION
    fretype = draw(st.sampled_from(SFRAME_FRE_TYPE))
    limit = min(repetition or 1 << 20, 1 << 8 * FRE_START_SIZES[fretype])
    starts = sorted(draw(st.sets(st.one_of(st.integers(0, 40), st.integers(0, limit - 1)), max_size=MAX_ROWS)) | {0})
    starts = [start for start in starts if start < limit]
    rows = b"".join(engine.build(draw(_rows(abi, start)), abi.byte_order, fretype=fretype) for start in starts)
    return _Block(rows, len(starts), starts[-1] + 1, fretype, repetition)


@st.composite
def _rows(draw: DrawFn, abi: SframeAbi, start: int) -> FrameRowEntry:
    words = draw(st.integers(1, 3 if abi.fixed_ra_offset is None else 2))
    size = draw(st.sampled_from(SFRAME_FRE_OFFSET))
    signed = draw(st.integers(0, 1)) if abi.signs_return_addresses else 0
    info = FreInfo(signed, size, words, draw(st.integers(0, 1)))
    return FrameRowEntry(start, info, tuple(draw(_word(FRE_OFFSET_SIZES[size], abi)) for _ in range(words)))


def _word(size: int, abi: SframeAbi) -> SearchStrategy[int]:
    limit = 1 << 8 * size - 1
    if size == FRE_OFFSET_SIZES[SFRAME_FRE_OFFSET.SIZE_4B]:
        # Readers undo the CFA's scaling in 32 bits.
        limit = limit // abi.cfa_alignment - abi.cfa_adjustment
    usual = st.integers(-16, 15).map(lambda number: 8 * number)
    return st.one_of(usual, st.integers(-limit, limit - 1))
