# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Rows into the words of SFrame frame row entries, or the reason why one has none.

Strategy: once a row run, never once a function; of rows with the same rules those are looked at once.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from ....schemas import sframe, sframe_abi
from ....schemas.derive import bit_position
from ... import refusals
from ... import rules as kinds

if not cython.compiled:
    from ..array_types import I32_2D, U8, ConstI64, ConstU8, ConstU16

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
SIZE_SHIFT = cython.declare(cython.int, bit_position(sframe.FreInfo, "fre_offset_size")[0])
SIGNED_SHIFT = cython.declare(cython.int, bit_position(sframe.FreInfo, "fre_mangled_ra_p")[0])
SIZE_1B = cython.declare(cython.int, int(sframe.SFRAME_FRE_OFFSET.SIZE_1B))
SIZE_2B = cython.declare(cython.int, int(sframe.SFRAME_FRE_OFFSET.SIZE_2B))
SIZE_4B = cython.declare(cython.int, int(sframe.SFRAME_FRE_OFFSET.SIZE_4B))
RA_INVALID = cython.declare(cython.longlong, sframe.RA_OFFSET_INVALID)
NOTHING = cython.declare(cython.longlong, 1 << 40)  # no word at all
REGISTER_SHIFT = cython.declare(cython.int, sframe_abi.SLOT_REGISTER_SHIFT)
REGISTER_MARK = cython.declare(cython.int, sframe_abi.SLOT_REGISTER_MARK)
INT32_MAX = cython.declare(cython.longlong, 0x7FFFFFFF)

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
def slot(kind: cython.int, value: cython.longlong, abi: ConstI64) -> cython.longlong:
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
    abi: ConstI64,
    cfa_kind: ConstU8,
    cfa_register: ConstU16,
    cfa_offset: ConstI64,
    ra_state: ConstU8,
    first_rule: ConstI64,
    rule_count: ConstU16,
    rule_register: ConstU16,
    rule_kind: ConstU8,
    rule_value: ConstI64,
    reason: U8,
    info: U8,
    words: I32_2D,
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
