"""Strategies for whole `.sframe` sections of each version, ABI and byte order.

Strategy: `sframe_sections` is for readers of records, `valid_sframe_sections` for readers of their meaning: functions
do not overlap, rows ascend, counts and offsets are correct. Both return a record, which `engine.build` encodes.
Values of rows come from strategies that are created once: creating one takes longer than drawing from it.
"""

from __future__ import annotations

from functools import cache

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from .. import engine, sframe
from ..data_classes import dataclass
from ..sframe import (
    CONTROL_DEREF,
    CONTROL_REG,
    CONTROL_REGISTER_SHIFT,
    FRE_OFFSET_SIZES,
    FRE_START_SIZES,
    SFRAME_F,
    SFRAME_FDE_TYPE,
    SFRAME_FRE_OFFSET,
    SFRAME_FRE_TYPE,
    SFRAME_V3_FDE_TYPE,
    SFRAME_VERSION,
    FdeInfo,
    FdeInfo2,
    FdeInfoV3,
    FrameRowEntry,
    FreInfo,
    FuncDescAttribute,
    FuncDescEntry,
    FuncDescEntryV1,
    FuncDescIndex,
    Header,
    SframeSection,
)
from ..sframe_abi import SFRAME_ABI, SFRAME_ABIS, SLOT_REGISTER_MARK, SframeAbi
from .declarations import MAX_BYTES, records

MAX_FUNCTIONS = 6
MAX_SLOT_WORD = 256
MAX_ROWS = 5

BITS = st.integers(0, 1)
UP_TO_NINE = st.integers(0, 9)
EXTRA_BYTES = st.integers(0, 20)
GAPS = st.sampled_from([0, 0, 1, 16, 4096])
REPETITIONS = st.sampled_from([0, 0, 0, 8, 16, 48])
PADDING = st.binary(max_size=3)
FUNCTIONS = st.integers(0, MAX_FUNCTIONS)
START_TYPES = st.sampled_from(SFRAME_FRE_TYPE)
WORD_SIZES = st.sampled_from(SFRAME_FRE_OFFSET)
SECTION_FLAGS = {version: st.sampled_from([SFRAME_F(0), *sframe.FLAGS[version]]) for version in SFRAME_VERSION}


@st.composite
def sframe_sections(draw: DrawFn) -> SframeSection:
    """Sections whose counts and offsets are correct; the functions they describe may be meaningless."""
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
    """FREs as bytes, in version 3 after their attributes, and the fields of an FDE that fits them."""

    data: bytes
    count: int
    reach: int
    info: FdeInfo
    repetition: int


@st.composite
def valid_sframe_sections(
    draw: DrawFn, version: SFRAME_VERSION, abi_arch: SFRAME_ABI, *, plain: bool = False
) -> SframeSection:
    """Sections that every reader has to accept, for that ABI's byte order.

    Functions are at higher addresses than the section, whatever its address. `plain` leaves out what the specification
    allows, but existing readers disagree on or refuse: auxiliary headers, gaps, and FREs that several FDEs share.
    """
    abi = SFRAME_ABIS[abi_arch]
    blocks = [_block(draw, version, abi) for _ in range(draw(FUNCTIONS))]
    places = list(range(len(blocks)))
    if blocks and not plain:
        places += draw(st.lists(st.sampled_from(places), max_size=2))
    flags = draw(SECTION_FLAGS[version]) | draw(SECTION_FLAGS[version])
    starts = _starts(draw, [blocks[place] for place in places])
    order = list(range(len(places)))
    if not flags & SFRAME_F.FDE_SORTED:
        order = draw(st.permutations(order))
    auxiliary, gap, between = (b"", b"", b"") if plain else (draw(PADDING) for _ in range(3))
    fdes_at = sframe.HEADER_SIZE + len(auxiliary) + len(gap)
    fre_offsets = [sum(len(block.data) for block in blocks[:number]) for number in range(len(blocks))]
    size = sframe.FDE_SIZES[version]
    fdes = []
    for index, function in enumerate(order):
        start, function_size = starts[function]
        if flags & SFRAME_F.FDE_FUNC_START_PCREL:
            start -= fdes_at + index * size
        fdes.append(_fde(version, start, function_size, fre_offsets[places[function]], blocks[places[function]]))
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
    return SframeSection(header, auxiliary, gap, tuple(fdes), between, fres, b"")


def _fde(
    version: SFRAME_VERSION, start: int, size: int, fre_offset: int, block: _Block
) -> FuncDescEntryV1 | FuncDescEntry | FuncDescIndex:
    if version == SFRAME_VERSION.V3:
        return FuncDescIndex(start, size, fre_offset)
    fields = (start, size, fre_offset, block.count, block.info)
    return FuncDescEntryV1(*fields) if version == SFRAME_VERSION.V1 else FuncDescEntry(*fields, block.repetition, 0)


def _starts(draw: DrawFn, blocks: list[_Block]) -> list[tuple[int, int]]:
    """Start, from the section's, and size of each function, in ascending order and with gaps."""
    found = []
    start = 1 << 16
    for block in blocks:
        start += draw(GAPS)
        size = block.reach + draw(EXTRA_BYTES)
        if block.repetition:
            size = draw(st.integers(1, 4 * block.repetition))
        found.append((start, size))
        start += size
    return found


def _block(draw: DrawFn, version: SFRAME_VERSION, abi: SframeAbi) -> _Block:
    repetition = draw(REPETITIONS)
    if repetition and version == SFRAME_VERSION.V1:
        repetition = sframe.V1_REPETITION
    is_v3 = version == SFRAME_VERSION.V3
    fretype = draw(START_TYPES)
    limit = min(repetition or 1 << 20, 1 << 8 * FRE_START_SIZES[fretype])
    starts = sorted(draw(_starts_below(limit)) | {0})
    # In version 3, an FDE without FREs is for an outermost frame.
    starts = [] if is_v3 and draw(UP_TO_NINE) == 0 else [start for start in starts if start < limit]
    flex = SFRAME_V3_FDE_TYPE(draw(BITS) if is_v3 else 0)
    rows = b"".join(
        engine.build(_row(draw, version, abi, flex, start), abi.byte_order, fretype=fretype) for start in starts
    )
    key = draw(BITS) if abi.signs_return_addresses else 0
    masked = SFRAME_FDE_TYPE.PCMASK if repetition else SFRAME_FDE_TYPE.PCINC
    if is_v3:
        info = FdeInfoV3(draw(BITS), 0, key, masked, fretype)
        attribute = FuncDescAttribute(len(starts), info, FdeInfo2(0, flex), repetition)
        rows = engine.build(attribute, abi.byte_order) + rows
    return _Block(rows, len(starts), max(starts, default=0) + 1, FdeInfo(0, key, masked, fretype), repetition)


@cache
def _starts_below(limit: int) -> SearchStrategy[set[int]]:
    return st.sets(st.one_of(st.integers(0, 40), st.integers(0, limit - 1)), max_size=MAX_ROWS)


def _row(draw: DrawFn, version: SFRAME_VERSION, abi: SframeAbi, flex: SFRAME_V3_FDE_TYPE, start: int) -> FrameRowEntry:
    size = draw(WORD_SIZES)
    signed = draw(BITS) if abi.signs_return_addresses else 0
    if version == SFRAME_VERSION.V3 and draw(UP_TO_NINE) == 0:
        return FrameRowEntry(start, FreInfo(0, SFRAME_FRE_OFFSET.SIZE_1B, 0, 0), ())
    if flex:
        words = _pairs(draw, FRE_OFFSET_SIZES[size], abi)
        return FrameRowEntry(start, FreInfo(signed, size, len(words), 0), words)
    count = draw(st.integers(1, 3 if abi.fixed_ra_offset is None else 2))
    info = FreInfo(signed, size, count, draw(BITS))
    offsets = [draw(_words(FRE_OFFSET_SIZES[size], abi)) for _ in range(count)]
    if abi.has_register_slots:
        # An odd word names a register, which must exist.
        offsets[1:] = [word if 0 <= word < MAX_SLOT_WORD else word & ~SLOT_REGISTER_MARK for word in offsets[1:]]
    return FrameRowEntry(start, info, tuple(offsets))


def _pairs(draw: DrawFn, size: int, abi: SframeAbi) -> tuple[int, ...]:
    """The data words of a FLEX FRE: a pair for the CFA, and optional pairs for RA and FP."""
    bits = 8 * size

    def pair(*, on_cfa: bool) -> tuple[int, int]:
        register = draw(st.integers(0, min(40, (1 << bits - 3) - 1)))
        deref = draw(BITS)
        if on_cfa and draw(BITS):
            # Without CONTROL_DEREF, it would be the padding word.
            return CONTROL_DEREF, draw(_words(size, abi))
        control = register << CONTROL_REGISTER_SHIFT | deref * CONTROL_DEREF | CONTROL_REG
        # As stored: a signed number of this size.
        return control - (1 << bits) * (control >> bits - 1), draw(_words(size, abi))

    has_ra, has_fp = draw(BITS), draw(BITS)
    words: tuple[int, ...] = pair(on_cfa=False)
    words += pair(on_cfa=True) if has_ra else (sframe.PADDING_WORD,) * has_fp
    return words + (pair(on_cfa=True) if has_fp else ())


@cache
def _words(size: int, abi: SframeAbi) -> SearchStrategy[int]:
    limit = 1 << 8 * size - 1
    if size == FRE_OFFSET_SIZES[SFRAME_FRE_OFFSET.SIZE_4B]:
        # Readers scale the CFA offset back in 32 bits.
        limit = limit // abi.cfa_alignment - abi.cfa_adjustment
    usual = st.integers(-16, 15).map(lambda number: 8 * number)
    return st.one_of(usual, st.integers(-limit, limit - 1))
