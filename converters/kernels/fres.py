# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""SFrame frame row entries in bulk: rows into words, words into segments, segments into bytes; and back.

Strategy: each pass is once a row run, never once a function. `project` says what each row is in SFrame or
why it is none; `segments` joins neighbours that can be said, equal rows merged; `encode` writes blocks.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from . import pure as cython

from ...schemas import sframe, sframe_abi
from ...schemas.derive import bit_position
from .. import refusals
from .. import rules as kinds
from .protocol import Fault

if not cython.compiled:
    from .reads import Reader

CFA_NONE = cython.declare(cython.int, int(kinds.CfaKind.NONE))
CFA_REGISTER = cython.declare(cython.int, int(kinds.CfaKind.REGISTER))
RULE_UNSPECIFIED = cython.declare(cython.int, int(kinds.RuleKind.UNSPECIFIED))
RULE_UNDEFINED = cython.declare(cython.int, int(kinds.RuleKind.UNDEFINED))
RULE_SAME_VALUE = cython.declare(cython.int, int(kinds.RuleKind.SAME_VALUE))
RULE_OFFSET = cython.declare(cython.int, int(kinds.RuleKind.OFFSET))
RULE_VAL_OFFSET = cython.declare(cython.int, int(kinds.RuleKind.VAL_OFFSET))
RULE_REGISTER = cython.declare(cython.int, int(kinds.RuleKind.REGISTER))
RA_PLAIN = cython.declare(cython.int, int(kinds.RaState.PLAIN))
RA_SIGNED = cython.declare(cython.int, int(kinds.RaState.SIGNED))

NO_CFA = cython.declare(cython.int, int(refusals.Reason.NO_CFA))
CFA_EXPRESSION_REASON = cython.declare(cython.int, int(refusals.Reason.CFA_EXPRESSION))
CFA_REGISTER_REASON = cython.declare(cython.int, int(refusals.Reason.CFA_REGISTER))
CFA_OFFSET_REASON = cython.declare(cython.int, int(refusals.Reason.CFA_OFFSET))
RA_UNDEFINED = cython.declare(cython.int, int(refusals.Reason.RA_UNDEFINED))
RA_RULE = cython.declare(cython.int, int(refusals.Reason.RA_RULE))
FP_RULE = cython.declare(cython.int, int(refusals.Reason.FP_RULE))
SP_RULE = cython.declare(cython.int, int(refusals.Reason.SP_RULE))
FP_WITHOUT_RA = cython.declare(cython.int, int(refusals.Reason.FP_WITHOUT_RA))
RA_SIGNED_WITH_PC = cython.declare(cython.int, int(refusals.Reason.RA_SIGNED_WITH_PC))

BASE_FP = cython.declare(cython.int, int(sframe.SFRAME_BASE_REG.FP))
BASE_SP = cython.declare(cython.int, int(sframe.SFRAME_BASE_REG.SP))
BASE_SHIFT = cython.declare(cython.int, bit_position(sframe.FreInfo, "fre_cfa_base_reg_id")[0])
COUNT_SHIFT = cython.declare(cython.int, bit_position(sframe.FreInfo, "fre_offset_count")[0])
COUNT_MASK = cython.declare(cython.int, bit_position(sframe.FreInfo, "fre_offset_count")[1])
SIZE_SHIFT = cython.declare(cython.int, bit_position(sframe.FreInfo, "fre_offset_size")[0])
SIZE_MASK = cython.declare(cython.int, bit_position(sframe.FreInfo, "fre_offset_size")[1])
SIGNED_SHIFT = cython.declare(cython.int, bit_position(sframe.FreInfo, "fre_mangled_ra_p")[0])
SIZE_1B = cython.declare(cython.int, int(sframe.SFRAME_FRE_OFFSET.SIZE_1B))
SIZE_2B = cython.declare(cython.int, int(sframe.SFRAME_FRE_OFFSET.SIZE_2B))
SIZE_4B = cython.declare(cython.int, int(sframe.SFRAME_FRE_OFFSET.SIZE_4B))
RA_INVALID = cython.declare(cython.longlong, sframe.RA_OFFSET_INVALID)
NOTHING = cython.declare(cython.longlong, 1 << 40)  # no word at all
REGISTER_SHIFT = cython.declare(cython.int, sframe_abi.SLOT_REGISTER_SHIFT)
REGISTER_MARK = cython.declare(cython.int, sframe_abi.SLOT_REGISTER_MARK)
INT32_MAX = cython.declare(cython.longlong, 0x7FFFFFFF)

BAD_OFFSET_SIZE = cython.declare(cython.int, int(Fault.BAD_OFFSET_SIZE))
BAD_OFFSET_COUNT = cython.declare(cython.int, int(Fault.BAD_OFFSET_COUNT))
FRES_DESCEND = cython.declare(cython.int, int(Fault.FRES_DESCEND))

# The ABI as `project` takes it.
SP = cython.declare(cython.int, 0)
FP = cython.declare(cython.int, 1)
RA = cython.declare(cython.int, 2)
FIXED_RA = cython.declare(cython.int, 3)  # 0: tracked
SP_VALUE = cython.declare(cython.int, 4)
ADJUSTMENT = cython.declare(cython.int, 5)
ALIGNMENT = cython.declare(cython.int, 6)
REGISTER_SLOTS = cython.declare(cython.int, 7)
SP_IS_SAVED = cython.declare(cython.int, 8)
FP_ALONE = cython.declare(cython.int, 9)
OUTERMOST = cython.declare(cython.int, 10)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def slot(kind: cython.int, value: cython.longlong, abi: cython.const[cython.longlong][::1]) -> cython.longlong:
    """The word that says where FP or RA is saved; NOTHING where none does."""
    if kind == RULE_OFFSET and -INT32_MAX - 1 <= value <= INT32_MAX:
        # Where slots may name registers, an odd offset would be one.
        return NOTHING if abi[REGISTER_SLOTS] and value & REGISTER_MARK else value
    if kind == RULE_REGISTER and abi[REGISTER_SLOTS]:
        return value << REGISTER_SHIFT | REGISTER_MARK
    return NOTHING


@cython.ccall
@cython.exceptval(check=False)
def project(
    abi: cython.const[cython.longlong][::1],
    cfa_kind: cython.const[cython.uchar][::1],
    cfa_register: cython.const[cython.ushort][::1],
    cfa_offset: cython.const[cython.longlong][::1],
    ra_state: cython.const[cython.uchar][::1],
    first_rule: cython.const[cython.longlong][::1],
    rule_count: cython.const[cython.ushort][::1],
    rule_register: cython.const[cython.ushort][::1],
    rule_kind: cython.const[cython.uchar][::1],
    rule_value: cython.const[cython.longlong][::1],
    reason: cython.uchar[::1],
    info: cython.uchar[::1],
    words: cython.int[:, ::1],
) -> cython.void:
    """For each row its FRE info byte and its words (CFA, RA, FP as the ABI has them), or the reason why it has none."""
    row: cython.longlong
    rule: cython.longlong
    before: cython.longlong = -1
    offset: cython.longlong
    ra: cython.longlong = 0
    fp: cython.longlong = 0
    ra_kind: cython.int = RULE_UNSPECIFIED
    fp_kind: cython.int = RULE_UNSPECIFIED
    rules_reason: cython.int = 0
    why: cython.int
    base: cython.int
    count: cython.int
    size: cython.int
    index: cython.int
    for row in range(cfa_kind.shape[0]):
        if first_rule[row] != before or before < 0 or rule_count[row] != rule_count[row - 1]:
            before = first_rule[row]
            ra_kind = fp_kind = RULE_UNSPECIFIED
            ra = fp = 0
            rules_reason = 0
            for rule in range(before, before + rule_count[row]):
                if rule_register[rule] == abi[RA]:
                    ra_kind, ra = rule_kind[rule], rule_value[rule]
                elif rule_register[rule] == abi[FP]:
                    fp_kind, fp = rule_kind[rule], rule_value[rule]
                elif rule_register[rule] == abi[SP] and rule_kind[rule] != RULE_UNSPECIFIED:
                    if rule_kind[rule] == RULE_VAL_OFFSET:
                        if rule_value[rule] != abi[SP_VALUE]:
                            rules_reason = SP_RULE
                    elif not abi[SP_IS_SAVED] or (rule_kind[rule] != RULE_OFFSET and rule_kind[rule] != RULE_REGISTER):
                        rules_reason = SP_RULE
            if ra_kind == RULE_UNDEFINED:
                rules_reason = RA_UNDEFINED
            elif abi[FIXED_RA]:
                if ra_kind != RULE_OFFSET or ra != abi[FIXED_RA]:
                    rules_reason = RA_RULE
            elif ra_kind != RULE_UNSPECIFIED and ra_kind != RULE_SAME_VALUE:
                ra = slot(ra_kind, ra, abi)
                if ra == NOTHING or ra == RA_INVALID:
                    rules_reason = RA_RULE
            else:
                ra = RA_INVALID
            if fp_kind != RULE_UNSPECIFIED and fp_kind != RULE_SAME_VALUE:
                fp = slot(fp_kind, fp, abi)
                if fp == NOTHING and not rules_reason:
                    rules_reason = FP_RULE
                if not abi[FIXED_RA] and not abi[FP_ALONE] and ra == RA_INVALID and not rules_reason:
                    rules_reason = FP_WITHOUT_RA
            else:
                fp = NOTHING
        why = rules_reason
        base = BASE_SP
        offset = 0
        if why == RA_UNDEFINED:
            # What else such a row says is not needed to tell that it cannot be said.
            pass
        elif cfa_kind[row] != CFA_REGISTER:
            why = NO_CFA if cfa_kind[row] == CFA_NONE else CFA_EXPRESSION_REASON
        elif cfa_register[row] != abi[SP] and cfa_register[row] != abi[FP]:
            why = CFA_REGISTER_REASON
        elif ra_state[row] != RA_PLAIN and ra_state[row] != RA_SIGNED:
            why = RA_SIGNED_WITH_PC
        else:
            if cfa_register[row] == abi[FP]:
                base = BASE_FP
            # Readers undo the adjustment in 32 bits.
            if cfa_offset[row] < -INT32_MAX - 1 or cfa_offset[row] > INT32_MAX:
                why = why or CFA_OFFSET_REASON
            else:
                offset = cfa_offset[row] - abi[ADJUSTMENT]
                if offset % abi[ALIGNMENT]:
                    why = why or CFA_OFFSET_REASON
                # Exact, so that C and Python agree on the sign.
                offset = offset // abi[ALIGNMENT]
                if offset < -INT32_MAX - 1:
                    why = why or CFA_OFFSET_REASON
        words[row, 0] = words[row, 1] = words[row, 2] = 0
        info[row] = 0
        if ra_kind == RULE_UNDEFINED and abi[OUTERMOST]:
            # No words at all: nothing calls this frame.
            why = reason[row] = 0
            continue
        reason[row] = why
        if why:
            continue
        words[row, 0] = offset
        count = 1
        if not abi[FIXED_RA] and (ra != RA_INVALID or fp != NOTHING):
            words[row, count] = ra
            count += 1
        if fp != NOTHING:
            words[row, count] = fp
            count += 1
        size = SIZE_1B
        for index in range(count):
            if words[row, index] < -0x8000 or words[row, index] > 0x7FFF:
                size = SIZE_4B
            elif (words[row, index] < -0x80 or words[row, index] > 0x7F) and size == SIZE_1B:
                size = SIZE_2B
        info[row] = cython.cast(
            cython.uchar,
            (1 if ra_state[row] == RA_SIGNED else 0) << SIGNED_SHIFT
            | size << SIZE_SHIFT
            | count << COUNT_SHIFT
            | base << BASE_SHIFT,
        )


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def same(
    row: cython.longlong,
    other: cython.longlong,
    info: cython.const[cython.uchar][::1],
    words: cython.const[cython.int][:, ::1],
) -> cython.int:
    """Whether two rows say the same."""
    word: cython.int
    if info[row] != info[other]:
        return 0
    for word in range(info[row] >> COUNT_SHIFT & COUNT_MASK):
        if words[row, word] != words[other, word]:
            return 0
    return 1


@cython.ccall
@cython.exceptval(-1, check=False)
def segments(
    limit: cython.longlong,
    run_rows: cython.const[cython.longlong][::1],
    offset: cython.const[cython.ulonglong][::1],
    reason: cython.const[cython.uchar][::1],
    info: cython.const[cython.uchar][::1],
    words: cython.const[cython.int][:, ::1],
    first_segment: cython.longlong[::1],
    segment_reason: cython.uchar[::1],
    segment_start: cython.ulonglong[::1],
    segment_fres: cython.longlong[::1],
    segment_bytes: cython.longlong[::1],
    fres: cython.longlong[::1],
) -> cython.longlong:
    """Split each run where rows turn from sayable to not or change their reason, and after `limit` FREs; return the
    number of FREs.

    A segment has a reason (0: it is said), the offset it starts at in its function, and its FREs: rows
    whose content differs from the row before, whose indices go to `fres` behind one another. `segment_fres`
    counts FREs up to and with the segment; `segment_bytes` are those of its FREs but their start addresses.
    `first_segment` has one element more than runs.
    """
    run: cython.longlong
    row: cython.longlong
    count: cython.longlong = 0  # of segments
    kept: cython.longlong = 0
    last: cython.longlong
    room: cython.longlong = 0
    for run in range(run_rows.shape[0] - 1):
        first_segment[run] = count
        last = -1
        for row in range(run_rows[run], run_rows[run + 1]):
            if (
                last < 0
                or reason[row] != reason[last]
                or (not reason[row] and not same(row, last, info, words) and not room)
            ):
                room = limit
                segment_reason[count] = reason[row]
                segment_start[count] = offset[row]
                segment_bytes[count] = 0
                segment_fres[count] = kept
                count += 1
            elif reason[row] or same(row, last, info, words):
                continue
            last = row
            if not reason[row]:
                room -= 1
                fres[kept] = row
                kept += 1
                segment_fres[count - 1] = kept
                segment_bytes[count - 1] += 1 + (
                    (info[row] >> COUNT_SHIFT & COUNT_MASK) << (info[row] >> SIZE_SHIFT & SIZE_MASK)
                )
    first_segment[run_rows.shape[0] - 1] = count
    return kept


@cython.ccall
@cython.exceptval(check=False)
def encode(
    big: cython.int,
    head: cython.longlong,
    segment: cython.const[cython.longlong][::1],
    start_size: cython.const[cython.uchar][::1],
    offset: cython.const[cython.ulonglong][::1],
    info: cython.const[cython.uchar][::1],
    words: cython.const[cython.int][:, ::1],
    segment_start: cython.const[cython.ulonglong][::1],
    segment_fres: cython.const[cython.longlong][::1],
    fres: cython.const[cython.longlong][::1],
    out: cython.uchar[::1],
) -> cython.void:
    """Write a block for each element of `segment`, its start addresses `start_size` bytes wide, `head` bytes before it
    left as they are."""
    block: cython.longlong
    number: cython.longlong
    index: cython.longlong
    at: cython.longlong = 0
    value: cython.ulonglong
    row: cython.longlong
    word: cython.int
    width: cython.int
    byte: cython.int
    for block in range(segment.shape[0]):
        number = segment[block]
        at += head
        for index in range(segment_fres[number - 1] if number else 0, segment_fres[number]):
            row = fres[index]
            width = start_size[block]
            value = offset[row] - segment_start[number]
            for byte in range(width):
                out[at + (width - 1 - byte if big else byte)] = value >> 8 * byte & 0xFF
            at += width
            out[at] = info[row]
            at += 1
            width = 1 << (info[row] >> SIZE_SHIFT & SIZE_MASK)
            for word in range(info[row] >> COUNT_SHIFT & COUNT_MASK):
                for byte in range(width):
                    out[at + (width - 1 - byte if big else byte)] = words[row, word] >> 8 * byte & 0xFF
                at += width


@cython.cfunc
@cython.exceptval(check=False)
def decode_one(
    reader: Reader,
    start_size: cython.int,
    least: cython.int,
    at: cython.longlong,
    start: cython.ulonglong[::1],
    info: cython.uchar[::1],
    words: cython.int[:, ::1],
) -> cython.void:
    """Read one FRE, of `least` words or more, into the columns at index `at`."""
    value: cython.longlong
    word: cython.int
    number: cython.int
    width: cython.int
    start[at] = reader.fixed(start_size)
    info[at] = reader.fixed(1)
    number = info[at] >> COUNT_SHIFT & COUNT_MASK
    width = info[at] >> SIZE_SHIFT & SIZE_MASK
    for word in range(words.shape[1]):
        words[at, word] = 0
    if reader.fault:
        return
    if width > SIZE_4B:
        reader.fault = BAD_OFFSET_SIZE
        return
    if number < least or number > words.shape[1]:
        reader.fault = BAD_OFFSET_COUNT
        return
    width = 1 << width
    for word in range(number):
        value = cython.cast(cython.longlong, reader.fixed(width))
        if value >> (8 * width - 1):
            value -= cython.cast(cython.longlong, 1) << 8 * width
        words[at, word] = value


@cython.ccall
@cython.exceptval(-1, check=False)
def decode(
    reader: Reader,
    least: cython.int,
    ascending: cython.int,
    block_offset: cython.const[cython.longlong][::1],
    block_fres: cython.const[cython.longlong][::1],
    start_size: cython.const[cython.uchar][::1],
    start: cython.ulonglong[::1],
    info: cython.uchar[::1],
    words: cython.int[:, ::1],
) -> cython.longlong:
    """Read `block_fres` FREs at each `block_offset`; return how many blocks were read (all, but for a fault).

    Columns get one element an FRE, blocks behind one another; words that an FRE does not have are 0. An
    FRE has `least` words or more; where `ascending` is 0 their starts need not ascend. At a fault the reader stands
    where the FRE starts.
    """
    block: cython.longlong
    index: cython.longlong
    at: cython.longlong
    count: cython.longlong = 0
    for block in range(block_offset.shape[0]):
        reader.offset = block_offset[block]
        for index in range(block_fres[block]):
            at = reader.offset
            decode_one(reader, start_size[block], least, count, start, info, words)
            if ascending and index and not reader.fault and start[count] <= start[count - 1]:
                reader.fault = FRES_DESCEND
            if reader.fault:
                reader.offset = at
                return block
            count += 1
    return block_offset.shape[0]
