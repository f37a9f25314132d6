# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Rows in the words of FLEX FDEs (SFrame version 3): pairs of a control and an offset for CFA, RA and FP.

Strategy: the caller has brought rules into the forms that have words (converters/sframe/flex.py); what is left is to
choose words and their size, or the reason why there are none.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from ..cython_shim import cython

from ....schemas import sframe
from ....schemas.derive import bit_position
from ... import refusals
from ... import rules as kinds

if not cython.compiled:
    from ..array_types import I32_2D, U8, ConstI64, ConstU8, ConstU16

CFA_NONE = cython.declare(cython.int, int(kinds.CfaKind.NONE))
CFA_EXPRESSION = cython.declare(cython.int, int(kinds.CfaKind.EXPRESSION))
RULE_UNSPECIFIED = cython.declare(cython.int, int(kinds.RuleKind.UNSPECIFIED))
RULE_UNDEFINED = cython.declare(cython.int, int(kinds.RuleKind.UNDEFINED))
RULE_SAME_VALUE = cython.declare(cython.int, int(kinds.RuleKind.SAME_VALUE))
RULE_OFFSET = cython.declare(cython.int, int(kinds.RuleKind.OFFSET))
RULE_VAL_OFFSET = cython.declare(cython.int, int(kinds.RuleKind.VAL_OFFSET))
RULE_REGISTER = cython.declare(cython.int, int(kinds.RuleKind.REGISTER))
RULE_EXPRESSION = cython.declare(cython.int, int(kinds.RuleKind.EXPRESSION))
RULE_VAL_EXPRESSION = cython.declare(cython.int, int(kinds.RuleKind.VAL_EXPRESSION))
RA_PLAIN = cython.declare(cython.int, int(kinds.RaState.PLAIN))
RA_SIGNED = cython.declare(cython.int, int(kinds.RaState.SIGNED))

NO_CFA = cython.declare(cython.int, int(refusals.Reason.NO_CFA))
CFA_EXPRESSION_REASON = cython.declare(cython.int, int(refusals.Reason.CFA_EXPRESSION))
CFA_OFFSET_REASON = cython.declare(cython.int, int(refusals.Reason.CFA_OFFSET))
RA_RULE = cython.declare(cython.int, int(refusals.Reason.RA_RULE))
FP_RULE = cython.declare(cython.int, int(refusals.Reason.FP_RULE))
SP_RULE = cython.declare(cython.int, int(refusals.Reason.SP_RULE))
RA_SIGNED_WITH_PC = cython.declare(cython.int, int(refusals.Reason.RA_SIGNED_WITH_PC))

COUNT_SHIFT = cython.declare(cython.int, bit_position(sframe.FreInfo, "fre_offset_count")[0])
SIZE_SHIFT = cython.declare(cython.int, bit_position(sframe.FreInfo, "fre_offset_size")[0])
SIGNED_SHIFT = cython.declare(cython.int, bit_position(sframe.FreInfo, "fre_mangled_ra_p")[0])
REGNUM_SHIFT = cython.declare(cython.int, sframe.CONTROL_REGISTER_SHIFT)
DEREF = cython.declare(cython.longlong, sframe.CONTROL_DEREF)
REG = cython.declare(cython.longlong, sframe.CONTROL_REG)
PADDING = cython.declare(cython.longlong, sframe.PADDING_WORD)
SIZE_1B = cython.declare(cython.int, int(sframe.SFRAME_FRE_OFFSET.SIZE_1B))
SIZE_2B = cython.declare(cython.int, int(sframe.SFRAME_FRE_OFFSET.SIZE_2B))
SIZE_4B = cython.declare(cython.int, int(sframe.SFRAME_FRE_OFFSET.SIZE_4B))
MAX_REGISTER = cython.declare(cython.longlong, kinds.MAX_REGISTER)
NOTHING = cython.declare(cython.longlong, -1)  # no control word
INT32_MAX = cython.declare(cython.longlong, 0x7FFFFFFF)

# The ABI's fields, as in project.py.
SP = cython.declare(cython.int, 0)
FP = cython.declare(cython.int, 1)
RA = cython.declare(cython.int, 2)
FIXED_RA = cython.declare(cython.int, 3)
SP_VALUE = cython.declare(cython.int, 4)
ADJUSTMENT = cython.declare(cython.int, 5)
ALIGNMENT = cython.declare(cython.int, 6)
SP_IS_SAVED = cython.declare(cython.int, 8)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def control(kind: cython.int, base: cython.longlong, value: cython.longlong) -> cython.longlong:
    """The control word of a register's rule; NOTHING where there is none."""
    if kind == RULE_OFFSET and -INT32_MAX - 1 <= value <= INT32_MAX:
        return DEREF
    if kind == RULE_REGISTER:
        return value << REGNUM_SHIFT | REG if 0 <= value <= MAX_REGISTER else NOTHING
    if base < 0 or base > MAX_REGISTER or value < -INT32_MAX - 1 or value > INT32_MAX:
        return NOTHING
    if kind == RULE_EXPRESSION:
        return base << REGNUM_SHIFT | REG | DEREF
    if kind == RULE_VAL_EXPRESSION:
        return base << REGNUM_SHIFT | REG
    return NOTHING


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def wider(size: cython.int, first: cython.longlong, offset: cython.longlong) -> cython.int:
    """The size of data words that also holds a control word, unsigned, and an offset."""
    if first > 0xFFFF or offset < -0x8000 or offset > 0x7FFF:
        return SIZE_4B
    if (first > 0xFF or offset < -0x80 or offset > 0x7F) and size == SIZE_1B:
        return SIZE_2B
    return size


@cython.ccall
@cython.exceptval(check=False)
def project(
    abi: ConstI64,
    wanted: ConstU8,
    cfa_kind: ConstU8,
    cfa_base: ConstI64,
    cfa_offset: ConstI64,
    ra_state: ConstU8,
    first_rule: ConstI64,
    rule_count: ConstU16,
    rule_register: ConstU16,
    rule_kind: ConstU8,
    rule_base: ConstI64,
    rule_value: ConstI64,
    reason: U8,
    info: U8,
    words: I32_2D,
) -> cython.void:
    """For each row that is `wanted` its FRE info byte and up to six words, or the reason why it has none."""
    row: cython.longlong
    rule: cython.longlong
    offset: cython.longlong
    ra: cython.longlong
    fp: cython.longlong
    ra_offset: cython.longlong
    fp_offset: cython.longlong
    first: cython.longlong
    why: cython.int
    ra_reason: cython.int
    kind: cython.int
    count: cython.int
    size: cython.int
    is_outermost: cython.int
    for row in range(cfa_kind.shape[0]):
        if not wanted[row]:
            continue
        why = is_outermost = 0
        ra = fp = NOTHING
        ra_offset = fp_offset = 0
        # Where the ABI tracks no RA, it has no other place than the fixed one by itself.
        ra_reason = RA_RULE if abi[FIXED_RA] else 0
        for rule in range(first_rule[row], first_rule[row] + rule_count[row]):
            kind = rule_kind[rule]
            if kind == RULE_UNSPECIFIED:
                continue
            if rule_register[rule] == abi[RA]:
                if kind == RULE_UNDEFINED:
                    is_outermost = 1
                elif abi[FIXED_RA] and kind == RULE_OFFSET and rule_value[rule] == abi[FIXED_RA]:
                    ra_reason = 0
                elif kind != RULE_SAME_VALUE:
                    ra = control(kind, rule_base[rule], rule_value[rule])
                    ra_offset = 0 if kind == RULE_REGISTER else rule_value[rule]
                    ra_reason = RA_RULE if ra == NOTHING else 0
            elif rule_register[rule] == abi[FP]:
                if kind != RULE_SAME_VALUE:
                    fp = control(kind, rule_base[rule], rule_value[rule])
                    fp_offset = 0 if kind == RULE_REGISTER else rule_value[rule]
                    if fp == NOTHING:
                        why = why or FP_RULE
            elif rule_register[rule] == abi[SP]:
                if kind == RULE_VAL_OFFSET:
                    if rule_value[rule] != abi[SP_VALUE]:
                        why = SP_RULE
                elif (
                    kind == RULE_EXPRESSION
                    and cfa_kind[row] == CFA_EXPRESSION
                    and rule_base[rule] == cfa_base[row]
                    and rule_value[rule] == cfa_offset[row]
                    and abi[SP_VALUE] == 0
                ):
                    # A signal frame: SP is read from where the CFA is.
                    pass
                elif not abi[SP_IS_SAVED] or (kind != RULE_OFFSET and kind != RULE_REGISTER):
                    why = SP_RULE
        why = why or ra_reason
        words[row, 0] = words[row, 1] = words[row, 2] = words[row, 3] = words[row, 4] = words[row, 5] = 0
        info[row] = 0
        reason[row] = 0
        if is_outermost:
            continue
        offset = 0
        if cfa_kind[row] == CFA_NONE:
            why = NO_CFA
        elif cfa_base[row] < 0 or cfa_base[row] > MAX_REGISTER:
            why = CFA_EXPRESSION_REASON
        elif ra_state[row] != RA_PLAIN and ra_state[row] != RA_SIGNED:
            why = RA_SIGNED_WITH_PC
        elif cfa_offset[row] < -INT32_MAX - 1 or cfa_offset[row] > INT32_MAX:
            why = why or CFA_OFFSET_REASON
        else:
            offset = cfa_offset[row] - abi[ADJUSTMENT]
            if offset % abi[ALIGNMENT]:
                why = why or CFA_OFFSET_REASON
            offset = offset // abi[ALIGNMENT]
            if offset < -INT32_MAX - 1:
                why = why or CFA_OFFSET_REASON
        reason[row] = why
        if why:
            continue
        first = cfa_base[row] << REGNUM_SHIFT | REG
        if cfa_kind[row] == CFA_EXPRESSION:
            first |= DEREF
        words[row, 0] = first
        words[row, 1] = offset
        size = wider(SIZE_1B, first, offset)
        count = 2
        if ra != NOTHING:
            words[row, 2] = ra
            words[row, 3] = ra_offset
            size = wider(size, ra, ra_offset)
            count = 4
        elif fp != NOTHING:
            words[row, 2] = PADDING
            count = 3
        if fp != NOTHING:
            words[row, count] = fp
            words[row, count + 1] = fp_offset
            size = wider(size, fp, fp_offset)
            count += 2
        info[row] = cython.cast(
            cython.uchar,
            (1 if ra_state[row] == RA_SIGNED else 0) << SIGNED_SHIFT | size << SIZE_SHIFT | count << COUNT_SHIFT,
        )
