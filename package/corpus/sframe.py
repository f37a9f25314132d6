"""`.sframe` sections of versions 1 to 3, every ABI and byte order, with the row at each PC (the SFrame Format).

Strategy: rows are drawn as what they mean: a base and an offset of the CFA, where RA and FP are. Then the words of each
FRE follow from the ABI. Functions are drawn before their encoding: widths, order, flags and gaps change no answer.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from typing import Any

from ..converters.arch.table import ARCHITECTURES, Architecture, unwind_registers
from ..schemas import sframe
from ..schemas.data_classes import dataclass
from ..schemas.sframe import (
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
    FdeInfo2,
    FdeInfoV3,
    FreInfo,
    Header,
)
from ..schemas.sframe_abi import SLOT_REGISTER_MARK, SLOT_REGISTER_SHIFT, SframeAbi
from .case import NONE, Answer, Case, telling_pcs
from .choices import Draw, binary, integers, one_of, sampled_from
from .wire_writer import WireWriter

FIELDS = ("cfa", "ra", "fp")
MAX_FUNCTIONS, MAX_ROWS = 5, 5
_TOP = 1 << 31  # starts of versions 1 and 2 have 32 bits

# What some readers do not know: `without` leaves it out.
AUXILIARY, GAPS, UNSORTED = "auxiliary-header", "gaps", "unsorted"
FLEX, PCMASK, OUTERMOST, SIGNAL, WIDE, BELOW = "flex", "pcmask", "outermost", "signal-frame", "wide-words", "code-below"
FLAG_FP, SECTION_RELATIVE, FIELD_RELATIVE = "frame-pointer-flag", "section-relative", "field-relative"
SHARED = "shared-fres"
FEATURES = (
    AUXILIARY,
    GAPS,
    UNSORTED,
    FLEX,
    PCMASK,
    OUTERMOST,
    SIGNAL,
    WIDE,
    BELOW,
    FLAG_FP,
    SECTION_RELATIVE,
    FIELD_RELATIVE,
    SHARED,
)

_BIT = sampled_from([0, 1])
_FUNCTIONS = integers(0, MAX_FUNCTIONS)
_ROWS = integers(1, MAX_ROWS)
_ADDRESSES = sampled_from([0x10000, 0x10008, 0x400000, 0x7F000000])
_STEPS = sampled_from([1, 2, 4, 16, 255, 256, 65535, 70000])
_SPACES = sampled_from([0, 0, 1, 16, 4096])
_BLOCKS = sampled_from([0, 0, 0, 0, 16, 8, 48])
_PADDING = binary(max_size=3)
_ONE_IN_8 = sampled_from([0, 0, 0, 0, 0, 0, 0, 1])
_USUAL = integers(1, 16)
_OFFSETS = one_of(_USUAL, _USUAL, sampled_from([15, -16, 16, 4095, -4096, 4096]))
_WIDE_OFFSETS = sampled_from([4095, 4096, 1 << 20, -(1 << 20)])
_SIZES = sampled_from(tuple(SFRAME_FRE_OFFSET))
_WIDTHS = sampled_from(tuple(SFRAME_FRE_TYPE))
_REGISTERS = integers(0, 15)
_KINDS = integers(0, 3)


@dataclass(frozen=True, slots=True)
class _Row:
    """An FRE: its words, as signed numbers, and the answer."""

    offset: int
    words: tuple[int, ...]
    answer: Answer
    base: int = 0
    signed: int = 0


@dataclass(frozen=True, slots=True)
class _Function:
    """`owner`: the number of the function whose FREs it uses, in ascending order; its own, unless FREs are shared."""

    owner: int
    start: int
    size: int
    rows: tuple[_Row, ...]
    block: int
    key: int
    flex: int
    signal: int

    def answer(self, pc: int) -> Answer:
        """What is in force at a PC of the function."""
        if not self.rows:
            return _OUTERMOST
        offset = (pc - self.start) % self.block if self.block else pc - self.start
        index = bisect_right(self.rows, offset, key=lambda row: row.offset) - 1
        return self.rows[index].answer if index >= 0 else NONE


_OUTERMOST: Answer = ("u", "undefined", "u")


@dataclass(frozen=True, slots=True)
class Setting:
    """What a section is for."""

    version: SFRAME_VERSION
    architecture: Architecture
    abi: SframeAbi
    without: frozenset[str]

    def has(self, feature: str) -> bool:
        """Whether a feature may be drawn."""
        return feature not in self.without


def settings(without: frozenset[str]) -> list[Setting]:
    """Every version with every ABI. Version 1 has no s390x."""
    return [
        Setting(version, architecture, architecture.sframe, without)
        for version in SFRAME_VERSION
        for architecture in ARCHITECTURES.values()
        if architecture.sframe is not None
        and architecture.name not in without
        and not (version == SFRAME_VERSION.V1 and architecture.sframe.has_register_slots)
    ]


# --- meaning ------------------------------------------------------------------------------------------------------


def _draw_offset(draw: Draw, setting: Setting, unit: int = 8) -> int:
    if setting.has(WIDE) and draw(_ONE_IN_8):
        return unit * draw(_WIDE_OFFSETS)
    return unit * draw(_OFFSETS)


def _draw_row(draw: Draw, setting: Setting, offset: int, *, flex: bool) -> _Row:
    abi = setting.abi
    signed = draw(_BIT) if abi.signs_return_addresses else 0
    mark = "[s]" * signed
    if setting.version == SFRAME_VERSION.V3 and setting.has(OUTERMOST) and draw(_ONE_IN_8):
        return _Row(offset, (), _OUTERMOST)
    registers = unwind_registers(setting.architecture)
    if flex:
        pairs, (cfa, ra, fp) = _draw_pairs(draw, setting)
        return _Row(offset, pairs, (cfa, ra + mark, fp), 0, signed)
    base = draw(_BIT)
    register = registers.sp if base == sframe.SFRAME_BASE_REG.SP else registers.fp
    value = _draw_offset(draw, setting)
    words: tuple[int, ...] = (value,)
    cfa = f"r{register}{value * abi.cfa_alignment + abi.cfa_adjustment:+d}"
    ra = "u"
    has_fp, has_ra = draw(_BIT), draw(_BIT)
    if abi.fixed_ra_offset is not None:
        ra = f"c{abi.fixed_ra_offset:+d}"
    elif has_ra:
        word, ra = _draw_slot(draw, setting)
        words += (word,)
    elif has_fp:
        # The specification has this padding for s390x; on AArch64 both are saved, or RA alone.
        if not abi.has_register_slots:
            has_fp = 0
        else:
            words += (sframe.RA_OFFSET_INVALID,)
    fp = "u"
    if has_fp:
        word, fp = _draw_slot(draw, setting)
        words += (word,)
    return _Row(offset, words, (cfa, ra + mark, fp), base, signed)


def _draw_slot(draw: Draw, setting: Setting) -> tuple[int, str]:
    """The word for RA or FP in a stack slot, or on some ABIs in a register."""
    # Version 3 has FLEX for registers.
    if setting.abi.has_register_slots and setting.version == SFRAME_VERSION.V2 and draw(_ONE_IN_8):
        register = draw(_REGISTERS) + 16
        return register << SLOT_REGISTER_SHIFT | SLOT_REGISTER_MARK, f"r{register}+0"
    offset = -_draw_offset(draw, setting)
    return offset, f"c{offset:+d}"


def _draw_pairs(draw: Draw, setting: Setting) -> tuple[tuple[int, ...], tuple[str, str, str]]:
    """The words of a FLEX FRE, and CFA, RA and FP (Flexible FDE Type Interpretation)."""
    abi = setting.abi

    def pair(*, of_cfa: bool) -> tuple[tuple[int, int], str]:
        kind, register, offset = draw(_KINDS), draw(_REGISTERS), _draw_offset(draw, setting)
        deref = kind & 1
        if not of_cfa and kind & 2:
            # Based on the CFA. Without CONTROL_DEREF, it would be the padding word.
            return (CONTROL_DEREF, -offset), f"c{-offset:+d}"
        stored = offset
        if of_cfa:
            offset = offset * abi.cfa_alignment + abi.cfa_adjustment
        text = f"m(r{register}{offset:+d})" if deref else f"r{register}{offset:+d}"
        return (register << CONTROL_REGISTER_SHIFT | deref * CONTROL_DEREF | CONTROL_REG, stored), text

    words: tuple[int, ...]
    words, cfa = pair(of_cfa=True)
    has_ra, has_fp = draw(_BIT), draw(_BIT)
    ra = "u" if abi.fixed_ra_offset is None else f"c{abi.fixed_ra_offset:+d}"
    fp = "u"
    if has_ra:
        more, ra = pair(of_cfa=False)
        words += more
    elif has_fp:
        words += (sframe.PADDING_WORD,)
    if has_fp:
        more, fp = pair(of_cfa=False)
        words += more
    return words, (cfa, ra, fp)


def _draw_function(draw: Draw, setting: Setting, start: int, number: int) -> _Function:
    is_v3 = setting.version == SFRAME_VERSION.V3
    block = draw(_BLOCKS) if setting.has(PCMASK) else 0
    if block and setting.version == SFRAME_VERSION.V1:
        block = sframe.V1_REPETITION
    if block:
        # Readers take (PC - start) or PC modulo the block: the same here.
        start += -start % block
    flex = bool(is_v3 and setting.has(FLEX) and draw(_BIT))
    offsets = [0]
    for _ in range(draw(_ROWS) - 1):
        step = draw(_STEPS)
        if not block or offsets[-1] + step < block:
            offsets.append(offsets[-1] + step)
    rows = tuple(_draw_row(draw, setting, offset, flex=flex) for offset in offsets)
    size = offsets[-1] + draw(_STEPS)
    if is_v3 and not flex and setting.has(OUTERMOST) and draw(_ONE_IN_8):
        rows = ()
    return _Function(
        number,
        start,
        size=size if not block else block * (1 + draw(_KINDS)),
        rows=rows,
        block=block,
        key=draw(_BIT) if setting.abi.signs_return_addresses else 0,
        flex=int(flex),
        signal=draw(_BIT) if is_v3 and setting.has(SIGNAL) else 0,
    )


def _draw_twin(draw: Draw, other: _Function, start: int) -> _Function:
    """A function that uses the FREs of another one."""
    if other.block:
        return replace(other, start=start + -start % other.block, size=other.block * (1 + draw(_KINDS)))
    last = other.rows[-1].offset if other.rows else 0
    return replace(other, start=start, size=last + draw(_STEPS))


def _draw_functions(draw: Draw, setting: Setting, address: int) -> list[_Function]:
    """Disjoint functions in ascending order, below the section or after it."""
    found: list[_Function] = []
    is_below = setting.has(BELOW) and draw(_BIT)
    start = 0x1000 if is_below else address + 0x10000
    for _ in range(draw(_FUNCTIONS)):
        start += draw(_SPACES)
        if found and setting.has(SHARED) and draw(_ONE_IN_8):
            one = _draw_twin(draw, found[-1], start)
        else:
            one = _draw_function(draw, setting, start, len(found))
        end = one.start + one.size
        if is_below and end > address:
            break
        found.append(one)
        start = end
    return found


# --- encoding -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Block:
    """The FREs of one or more functions: width of their starts, size of each one's words."""

    function: _Function
    fretype: int
    sizes: tuple[int, ...]


def _draw_block(draw: Draw, function: _Function) -> _Block:
    """Widths of the starts and words, those that are necessary or wider."""
    last = function.rows[-1].offset if function.rows else 0
    needed = next(code for code, size in FRE_START_SIZES.items() if last < 1 << 8 * size)
    fretype = max(needed, draw(_WIDTHS))
    sizes = []
    for row in function.rows:
        least = next(code for code, size in FRE_OFFSET_SIZES.items() if _fits(row.words, size))
        sizes.append(max(least, draw(_SIZES)) if row.words else SFRAME_FRE_OFFSET.SIZE_1B)
    return _Block(function, fretype, tuple(sizes))


def _fits(words: tuple[int, ...], size: int) -> bool:
    """Whether all words fit as signed numbers; the control words that are drawn fit either way."""
    limit = 1 << 8 * size - 1
    return all(-limit <= word < limit for word in words)


def _put_fres(writer: WireWriter, setting: Setting, fde: int, block: _Block) -> None:
    function = block.function
    masked = SFRAME_FDE_TYPE.PCMASK if function.block else SFRAME_FDE_TYPE.PCINC
    if setting.version == SFRAME_VERSION.V3:
        info = {"signal_p": function.signal, "pauth_key": function.key, "fdetype": masked, "fretype": block.fretype}
        name = f"attribute[{fde}]"
        writer.put(f"{name}.func_num_fres", len(function.rows), 2)
        writer.put_bits(f"{name}.func_info", FdeInfoV3, info)
        kind = SFRAME_V3_FDE_TYPE.FLEX if function.flex else SFRAME_V3_FDE_TYPE.DEFAULT
        writer.put_bits(f"{name}.func_info2", FdeInfo2, {"fde_type": kind})
        writer.put(f"{name}.func_rep_size", function.block, 1)
    for index, (row, size) in enumerate(zip(function.rows, block.sizes, strict=True)):
        name = f"fde[{fde}].fre[{index}]"
        writer.put(f"{name}.start_address", row.offset, FRE_START_SIZES[SFRAME_FRE_TYPE(block.fretype)])
        info = {
            "fre_mangled_ra_p": row.signed,
            "fre_offset_size": size,
            "fre_offset_count": len(row.words),
            "fre_cfa_base_reg_id": row.base,
        }
        writer.put_bits(f"{name}.info", FreInfo, info)
        for number, word in enumerate(row.words):
            writer.put(f"{name}.offsets[{number}]", word, FRE_OFFSET_SIZES[SFRAME_FRE_OFFSET(size)])


def draw_sframe(draw: Draw, setting: Setting) -> Case:
    """A valid section at an address, and the row at each PC where a reader could err."""
    address = draw(_ADDRESSES)
    functions = _draw_functions(draw, setting, address)
    flags = _draw_flags(draw, setting)
    auxiliary = draw(_PADDING) if setting.has(AUXILIARY) else b""
    before_fdes, before_fres = (draw(_PADDING) if setting.has(GAPS) else b"" for _ in range(2))
    order = list(range(len(functions)))
    if not flags & SFRAME_F.FDE_SORTED and len(order) > 1 and setting.has(UNSORTED):
        turn = draw(integers(0, len(order) - 1))
        order = order[turn:] + order[:turn]
    functions = [functions[index] for index in order]
    fres = WireWriter(setting.abi.byte_order)
    stored: dict[int, tuple[_Block, int]] = {}
    for index, one in enumerate(functions):
        if one.owner not in stored:
            block = _draw_block(draw, one)
            stored[one.owner] = block, len(fres.data)
            _put_fres(fres, setting, index, block)
    writer = WireWriter(setting.abi.byte_order)
    fdes_size = len(functions) * sframe.FDE_SIZES[setting.version]
    header: dict[str, int | str] = {
        "magic": sframe.SFRAME_MAGIC,
        "version": int(setting.version),
        "flags": int(flags),
        "abi_arch": int(setting.abi.abi_arch),
        "cfa_fixed_fp_offset": sframe.FIXED_OFFSET_INVALID,
        "cfa_fixed_ra_offset": setting.abi.fixed_ra_offset or sframe.FIXED_OFFSET_INVALID,
        "auxhdr_len": len(auxiliary),
        "num_fdes": len(functions),
        "num_fres": sum(len(block.function.rows) for block, _ in stored.values()),
        "fre_len": len(fres.data),
        "fdeoff": len(before_fdes),
        "freoff": len(before_fdes) + fdes_size + len(before_fres),
    }
    writer.put_record("header", Header, header)
    writer.data += auxiliary + before_fdes
    for index, one in enumerate(functions):
        block, place = stored[one.owner]
        _put_fde(writer, setting, flags, address, (index, replace(block, function=one), place))
    writer.data += before_fres
    start = len(writer.data)
    layout = [*writer.fields, *(one._replace(offset=one.offset + start) for one in fres.fields)]
    return Case(
        format="sframe",
        version=int(setting.version),
        architecture=setting.architecture,
        byte_order=setting.abi.byte_order,
        section=".sframe",
        address=address,
        data=bytes(writer.data + fres.data),
        fields=FIELDS,
        answers=_answers(functions, address),
        header=header,
        functions=tuple(map(_described, functions)),
        features=_features(setting, functions, (auxiliary, before_fdes + before_fres), address, flags),
        layout=tuple(layout),
    )


def _draw_flags(draw: Draw, setting: Setting) -> SFRAME_F:
    flags = SFRAME_F.FDE_SORTED if not setting.has(UNSORTED) or not draw(_ONE_IN_8) else SFRAME_F(0)
    # Version 1 does not have the flag.
    may_be = setting.version >= SFRAME_VERSION.V2 and setting.has(FIELD_RELATIVE)
    if may_be and (draw(_BIT) or not setting.has(SECTION_RELATIVE)):
        flags |= SFRAME_F.FDE_FUNC_START_PCREL
    if SFRAME_F.FRAME_POINTER in sframe.FLAGS[setting.version] and setting.has(FLAG_FP) and draw(_ONE_IN_8):
        flags |= SFRAME_F.FRAME_POINTER
    return flags


def _put_fde(
    writer: WireWriter, setting: Setting, flags: SFRAME_F, address: int, entry: tuple[int, _Block, int]
) -> None:
    index, block, place = entry
    function = block.function
    base = address + (len(writer.data) if flags & SFRAME_F.FDE_FUNC_START_PCREL else 0)
    masked = SFRAME_FDE_TYPE.PCMASK if function.block else SFRAME_FDE_TYPE.PCINC
    values: dict[str, Any] = {
        "func_start_address": function.start - base,
        "func_start_offset": function.start - base,
        "func_size": function.size,
        "func_start_fre_off": place,
        "func_num_fres": len(function.rows),
        "func_info": {"pauth_key": function.key, "fdetype": masked, "fretype": block.fretype},
        "func_rep_size": function.block,
        "func_padding2": 0,
    }
    writer.put_record(f"fde[{index}]", sframe.FDE_RECORDS[setting.version], values)


def _answers(functions: list[_Function], address: int) -> dict[int, Answer]:
    ranges = []
    for one in functions:
        blocks = range(one.start, one.start + one.size, one.block) if one.block else [one.start]
        ranges.append((one.start, one.size, [block + row.offset for block in blocks[:3] for row in one.rows]))
    answers = {}
    for pc in telling_pcs(ranges, 1 << 64) or [address]:
        found = next((one for one in functions if one.start <= pc < one.start + one.size), None)
        answers[pc] = NONE if found is None else found.answer(pc)
    return answers


def _described(function: _Function) -> dict[str, Any]:
    return {
        "start": function.start,
        "size": function.size,
        "repetition": function.block,
        "pauth_key": "AB"[function.key],
        "signal_frame": bool(function.signal),
        "flex": bool(function.flex),
        "rows": [{"offset": row.offset, **dict(zip(FIELDS, row.answer, strict=True))} for row in function.rows],
    }


def _features(
    setting: Setting, functions: list[_Function], extra: tuple[bytes, bytes], address: int, flags: SFRAME_F
) -> frozenset[str]:
    words = [word for one in functions for row in one.rows for word in row.words]
    has = {
        AUXILIARY: bool(extra[0]),
        GAPS: bool(extra[1]),
        UNSORTED: not flags & SFRAME_F.FDE_SORTED,
        FLEX: any(one.flex for one in functions),
        PCMASK: any(one.block for one in functions),
        OUTERMOST: any(not one.rows or any(not row.words for row in one.rows) for one in functions),
        SIGNAL: any(one.signal for one in functions),
        WIDE: any(abs(word) >= 1 << 15 for word in words),
        BELOW: any(one.start < address for one in functions),
        SECTION_RELATIVE: setting.version >= SFRAME_VERSION.V2 and not flags & SFRAME_F.FDE_FUNC_START_PCREL,
        FIELD_RELATIVE: bool(flags & SFRAME_F.FDE_FUNC_START_PCREL),
        SHARED: len({one.owner for one in functions}) < len(functions),
        FLAG_FP: bool(flags & SFRAME_F.FRAME_POINTER),
    }
    return frozenset(feature for feature, is_there in has.items() if is_there) | {f"v{int(setting.version)}"}
