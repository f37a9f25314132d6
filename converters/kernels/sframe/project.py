# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Rows as the data words of SFrame FREs, or the reason why SFrame cannot express them.

Strategy: once per row run, never once per function. `project` writes the words of the ABI (CFA, RA, FP); it reads rules
that consecutive rows share once. `project_flex` writes the pairs of FLEX FDEs (version 3), a control word and an
offset; the caller has brought expressions into forms that have words (converters/sframe/flex.py).
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
    from ..array_types import I32_2D, U8, ConstI64, ConstU8
    from ..shared.rows import Rows, Rules

CFA_NONE = cython.declare(cython.int, int(kinds.CfaKind.NONE))
CFA_REGISTER = cython.declare(cython.int, int(kinds.CfaKind.REGISTER))
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
MAX_REGISTER = cython.declare(cython.longlong, kinds.MAX_REGISTER)

NO_REASON = cython.declare(cython.int, 0)
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
SLOT_SHIFT = cython.declare(cython.int, sframe_abi.SLOT_REGISTER_SHIFT)
SLOT_MARK = cython.declare(cython.int, sframe_abi.SLOT_REGISTER_MARK)

CONTROL_SHIFT = cython.declare(cython.int, sframe.CONTROL_REGISTER_SHIFT)
CONTROL_DEREF = cython.declare(cython.longlong, sframe.CONTROL_DEREF)
CONTROL_REG = cython.declare(cython.longlong, sframe.CONTROL_REG)
PADDING = cython.declare(cython.longlong, sframe.PADDING_WORD)

NO_WORD = cython.declare(cython.longlong, 1 << 40)  # no word has this value
INT32_MAX = cython.declare(cython.longlong, 0x7FFFFFFF)


@cython.final
@cython.cclass
class Abi:
    """What differs by ABI and version: registers are DWARF numbers, offsets and `cfa_alignment` bytes, the rest flags.

    RA is saved at `fixed_ra` from the CFA in every frame; where that is 0, each FRE has it. SP is CFA + `sp_value`, or
    may also be saved in a register or on the stack (`sp_is_saved`). `has_register_slots`: RA and FP may be saved in
    registers. `fp_alone`: FP may be saved where RA is not. `marks_outermost`: an FRE without words is an outermost
    frame's.
    """

    def __init__(
        self,
        sp: cython.longlong,
        fp: cython.longlong,
        ra: cython.longlong,
        fixed_ra: cython.longlong,
        sp_value: cython.longlong,
        cfa_adjustment: cython.longlong,
        cfa_alignment: cython.longlong,
        sp_is_saved: cython.int,
        has_register_slots: cython.int,
        fp_alone: cython.int,
        marks_outermost: cython.int,
    ) -> None:
        self.sp = sp
        self.fp = fp
        self.ra = ra
        self.fixed_ra = fixed_ra
        self.sp_value = sp_value
        self.cfa_adjustment = cfa_adjustment
        self.cfa_alignment = cfa_alignment
        self.sp_is_saved = sp_is_saved
        self.has_register_slots = has_register_slots
        self.fp_alone = fp_alone
        self.marks_outermost = marks_outermost

    def sp_reason(self, kind: cython.int, value: cython.longlong) -> cython.int:
        """The reason why a rule of SP cannot be expressed, or NO_REASON."""
        if kind == RULE_VAL_OFFSET:
            return NO_REASON if value == self.sp_value else SP_RULE
        if self.sp_is_saved and (kind == RULE_OFFSET or kind == RULE_REGISTER):
            return NO_REASON
        return SP_RULE

    def cfa_word(self, offset: cython.longlong) -> cython.longlong:
        """The data word of the CFA's offset from its base register, or NO_WORD."""
        # Readers undo the adjustment in 32 bits.
        if offset < -INT32_MAX - 1 or offset > INT32_MAX:
            return NO_WORD
        offset -= self.cfa_adjustment
        # Divisions take longer than all the rest of a row.
        if self.cfa_alignment != 1:
            if offset % self.cfa_alignment:
                return NO_WORD
            # C and Python round differently; this division is exact.
            offset = offset // self.cfa_alignment
        return offset if offset >= -INT32_MAX - 1 else NO_WORD

    def slot(self, kind: cython.int, value: cython.longlong) -> cython.longlong:
        """The data word that tells where RA or FP is saved, or NO_WORD."""
        if kind == RULE_OFFSET and -INT32_MAX - 1 <= value <= INT32_MAX:
            # Where slots may name registers, an odd offset would be one.
            return NO_WORD if self.has_register_slots and value & SLOT_MARK else value
        if kind == RULE_REGISTER and self.has_register_slots:
            return value << SLOT_SHIFT | SLOT_MARK
        return NO_WORD


@cython.final
@cython.cclass
class Fres:
    """Each row as an FRE: why it has none (0: it has one), its info byte and its data words."""

    def __init__(self, reason: U8, info: U8, words: I32_2D) -> None:
        self.reason = reason
        self.info = info
        self.words = words

    def clear(self, row: cython.longlong) -> None:
        """An FRE without words."""
        word: cython.int
        self.reason[row] = NO_REASON
        self.info[row] = 0
        for word in range(self.words.shape[1]):
            self.words[row, word] = 0


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def wider(size: cython.int, control: cython.longlong, offset: cython.longlong) -> cython.int:
    """The SFRAME_FRE_OFFSET size that holds a control word (unsigned) and an offset, and what `size` holds."""
    if control > 0xFFFF or offset < -0x8000 or offset > 0x7FFF:
        return SIZE_4B
    if (control > 0xFF or offset < -0x80 or offset > 0x7F) and size == SIZE_1B:
        return SIZE_2B
    return size


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def info_byte(ra_state: cython.int, size: cython.int, count: cython.int, base: cython.int) -> cython.int:
    """The FRE info byte for `count` words."""
    return (
        (1 if ra_state == RA_SIGNED else 0) << SIGNED_SHIFT
        | size << SIZE_SHIFT
        | count << COUNT_SHIFT
        | base << BASE_SHIFT
    )


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def is_signed_with_pc(ra_state: cython.int) -> cython.int:
    """Whether the return address is signed in a way that SFrame has no flag for."""
    return ra_state != RA_PLAIN and ra_state != RA_SIGNED


@cython.final
@cython.cclass
class Slots:
    """The words of RA and FP in one set of register rules: RA_INVALID for no RA, NO_WORD for no FP; or a reason."""

    def __init__(self) -> None:
        self.ra = self.fp = 0
        self.reason = self.is_outermost = 0

    def read(self, abi: Abi, rules: Rules, first: cython.longlong, count: cython.longlong) -> None:
        """Take the rules from `first` on."""
        rule: cython.longlong
        ra_kind: cython.int = RULE_UNSPECIFIED
        fp_kind: cython.int = RULE_UNSPECIFIED
        self.ra = self.fp = 0
        self.reason = NO_REASON
        for rule in range(first, first + count):
            if rules.register[rule] == abi.ra:
                ra_kind, self.ra = rules.kind[rule], rules.value[rule]
            elif rules.register[rule] == abi.fp:
                fp_kind, self.fp = rules.kind[rule], rules.value[rule]
            elif rules.register[rule] == abi.sp and rules.kind[rule] != RULE_UNSPECIFIED:
                self.reason = abi.sp_reason(rules.kind[rule], rules.value[rule])
        self.is_outermost = ra_kind == RULE_UNDEFINED
        self.choose_ra(abi, ra_kind)
        self.choose_fp(abi, fp_kind)

    def choose_ra(self, abi: Abi, kind: cython.int) -> None:
        """The word of RA, from its rule; its reasons come before those of other registers."""
        if kind == RULE_UNDEFINED:
            self.reason = RA_UNDEFINED
        elif abi.fixed_ra:
            if kind != RULE_OFFSET or self.ra != abi.fixed_ra:
                self.reason = RA_RULE
        elif kind != RULE_UNSPECIFIED and kind != RULE_SAME_VALUE:
            self.ra = abi.slot(kind, self.ra)
            if self.ra == NO_WORD or self.ra == RA_INVALID:
                self.reason = RA_RULE
        else:
            self.ra = RA_INVALID

    def choose_fp(self, abi: Abi, kind: cython.int) -> None:
        """The word of FP, from its rule."""
        if kind == RULE_UNSPECIFIED or kind == RULE_SAME_VALUE:
            self.fp = NO_WORD
            return
        self.fp = abi.slot(kind, self.fp)
        if self.reason:
            return
        if self.fp == NO_WORD:
            self.reason = FP_RULE
        elif not abi.fixed_ra and not abi.fp_alone and self.ra == RA_INVALID:
            self.reason = FP_WITHOUT_RA

    def put(self, abi: Abi, row: cython.longlong, cfa: cython.longlong, fres: Fres) -> cython.int:
        """Write the words of a row, of which `cfa` is the first; return how many."""
        count: cython.int = 1
        fres.words[row, 0] = cfa
        if not abi.fixed_ra and (self.ra != RA_INVALID or self.fp != NO_WORD):
            fres.words[row, count] = self.ra
            count += 1
        if self.fp != NO_WORD:
            fres.words[row, count] = self.fp
            count += 1
        return count


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def cfa_reason(abi: Abi, rows: Rows, row: cython.longlong) -> cython.int:
    """The reason why a row's CFA or the state of its return address cannot be expressed, its offset aside."""
    if rows.cfa_kind[row] != CFA_REGISTER:
        return NO_CFA if rows.cfa_kind[row] == CFA_NONE else CFA_EXPRESSION_REASON
    if rows.cfa_register[row] != abi.sp and rows.cfa_register[row] != abi.fp:
        return CFA_REGISTER_REASON
    return RA_SIGNED_WITH_PC if is_signed_with_pc(rows.ra_state[row]) else NO_REASON


@cython.ccall
@cython.exceptval(check=False)
def project(abi: Abi, rows: Rows, rules: Rules, fres: Fres) -> cython.void:
    """For each row its FRE info byte and up to three words, or the reason why it has none."""
    row: cython.longlong
    before: cython.longlong = -1
    cfa: cython.longlong
    why: cython.int
    count: cython.int
    size: cython.int
    base: cython.int
    index: cython.int
    slots: Slots = Slots()
    with cython.nogil:
        for row in range(rows.cfa_kind.shape[0]):
            if rows.first_rule[row] != before or before < 0 or rows.rule_count[row] != rows.rule_count[row - 1]:
                before = rows.first_rule[row]
                slots.read(abi, rules, before, rows.rule_count[row])
            fres.clear(row)
            if slots.is_outermost and abi.marks_outermost:
                continue
            # Without a return address nothing calls the frame: its CFA does not matter.
            why = 0 if slots.is_outermost else cfa_reason(abi, rows, row)
            cfa = 0 if why or slots.is_outermost else abi.cfa_word(rows.cfa_offset[row])
            why = why or slots.reason or (CFA_OFFSET_REASON if cfa == NO_WORD else NO_REASON)
            fres.reason[row] = why
            if why:
                continue
            count = slots.put(abi, row, cfa, fres)
            size = SIZE_1B
            for index in range(count):
                size = wider(size, 0, fres.words[row, index])
            base = BASE_FP if rows.cfa_register[row] == abi.fp else BASE_SP
            fres.info[row] = cython.cast(cython.uchar, info_byte(rows.ra_state[row], size, count, base))


@cython.final
@cython.cclass
class Forms:
    """Rules in the forms of FLEX FDEs: the columns of `Forms` (converters/sframe/flex.py)."""

    def __init__(self, kind: ConstU8, base: ConstI64, value: ConstI64) -> None:
        self.kind = kind
        self.base = base
        self.value = value

    def control(self, rule: cython.longlong) -> cython.longlong:
        """The control word of a register's rule, or NO_WORD."""
        kind: cython.int = self.kind[rule]
        base: cython.longlong = self.base[rule]
        value: cython.longlong = self.value[rule]
        if kind == RULE_OFFSET and -INT32_MAX - 1 <= value <= INT32_MAX:
            return CONTROL_DEREF
        if kind == RULE_REGISTER:
            return value << CONTROL_SHIFT | CONTROL_REG if 0 <= value <= MAX_REGISTER else NO_WORD
        if base < 0 or base > MAX_REGISTER or value < -INT32_MAX - 1 or value > INT32_MAX:
            return NO_WORD
        if kind == RULE_EXPRESSION:
            return base << CONTROL_SHIFT | CONTROL_REG | CONTROL_DEREF
        if kind == RULE_VAL_EXPRESSION:
            return base << CONTROL_SHIFT | CONTROL_REG
        return NO_WORD

    def offset(self, rule: cython.longlong) -> cython.longlong:
        """The word after the control word."""
        return 0 if self.kind[rule] == RULE_REGISTER else self.value[rule]


@cython.final
@cython.cclass
class Pairs:
    """The control words and offsets of one row's RA and FP; NO_WORD for none; or a reason."""

    def __init__(self, abi: Abi, rows: Rows, rules: Rules, cfa: Forms, forms: Forms) -> None:
        self.abi = abi
        self.rows = rows
        self.rules = rules
        self.cfa = cfa
        self.forms = forms
        self.ra = self.fp = NO_WORD
        self.ra_offset = self.fp_offset = 0
        self.reason = self.is_outermost = 0

    def read(self, row: cython.longlong) -> None:
        """Take the register rules of a row."""
        rule: cython.longlong
        kind: cython.int
        register: cython.longlong
        # Where the ABI tracks no RA, it is at the fixed place only if a rule tells so.
        ra_reason: cython.int = RA_RULE if self.abi.fixed_ra else NO_REASON
        self.ra = self.fp = NO_WORD
        self.reason = NO_REASON
        self.is_outermost = 0
        for rule in range(self.rows.first_rule[row], self.rows.first_rule[row] + self.rows.rule_count[row]):
            kind = self.forms.kind[rule]
            register = self.rules.register[rule]
            if kind == RULE_UNSPECIFIED:
                continue
            if register == self.abi.ra:
                if kind == RULE_UNDEFINED:
                    self.is_outermost = 1
                elif self.abi.fixed_ra and kind == RULE_OFFSET and self.forms.value[rule] == self.abi.fixed_ra:
                    ra_reason = NO_REASON
                elif kind != RULE_SAME_VALUE:
                    self.ra, self.ra_offset = self.forms.control(rule), self.forms.offset(rule)
                    ra_reason = RA_RULE if self.ra == NO_WORD else NO_REASON
            elif register == self.abi.fp and kind != RULE_SAME_VALUE:
                self.fp, self.fp_offset = self.forms.control(rule), self.forms.offset(rule)
                if self.fp == NO_WORD:
                    self.reason = self.reason or FP_RULE
            elif register == self.abi.sp and not self.is_read_at_cfa(rule, row):
                self.reason = self.abi.sp_reason(kind, self.forms.value[rule]) or self.reason
        self.reason = self.reason or ra_reason

    def is_read_at_cfa(self, rule: cython.longlong, row: cython.longlong) -> cython.int:
        """Whether a rule of SP reads it from where the CFA is read, as in signal frames."""
        return (
            self.forms.kind[rule] == RULE_EXPRESSION
            and self.cfa.kind[row] == CFA_EXPRESSION
            and self.forms.base[rule] == self.cfa.base[row]
            and self.forms.value[rule] == self.cfa.value[row]
            and self.abi.sp_value == 0
        )

    def choose_cfa(self, row: cython.longlong) -> cython.longlong:
        """The offset word of the CFA, or a reason."""
        word: cython.longlong = 0
        if self.cfa.kind[row] == CFA_NONE:
            self.reason = NO_CFA
        elif self.cfa.base[row] < 0 or self.cfa.base[row] > MAX_REGISTER:
            self.reason = CFA_EXPRESSION_REASON
        elif is_signed_with_pc(self.rows.ra_state[row]):
            self.reason = RA_SIGNED_WITH_PC
        else:
            word = self.abi.cfa_word(self.cfa.value[row])
            if word == NO_WORD:
                self.reason = self.reason or CFA_OFFSET_REASON
        return word

    def put(self, row: cython.longlong, cfa_offset: cython.longlong, fres: Fres) -> cython.int:
        """Write the words of a row; return its info byte."""
        control: cython.longlong = self.cfa.base[row] << CONTROL_SHIFT | CONTROL_REG
        count: cython.int = 2
        size: cython.int
        if self.cfa.kind[row] == CFA_EXPRESSION:
            control |= CONTROL_DEREF
        fres.words[row, 0], fres.words[row, 1] = control, cfa_offset
        size = wider(SIZE_1B, control, cfa_offset)
        if self.ra != NO_WORD:
            fres.words[row, 2], fres.words[row, 3] = self.ra, self.ra_offset
            size = wider(size, self.ra, self.ra_offset)
            count = 4
        elif self.fp != NO_WORD:
            fres.words[row, 2] = PADDING
            count = 3
        if self.fp != NO_WORD:
            fres.words[row, count], fres.words[row, count + 1] = self.fp, self.fp_offset
            size = wider(size, self.fp, self.fp_offset)
            count += 2
        return info_byte(self.rows.ra_state[row], size, count, 0)


@cython.ccall
@cython.exceptval(check=False)
def project_flex(pairs: Pairs, wanted: ConstU8, fres: Fres) -> cython.void:
    """For each row that is `wanted` its FRE info byte and up to six words, or the reason why it has none."""
    row: cython.longlong
    cfa: cython.longlong
    with cython.nogil:
        for row in range(wanted.shape[0]):
            if not wanted[row]:
                continue
            pairs.read(row)
            fres.clear(row)
            if pairs.is_outermost:
                continue
            cfa = pairs.choose_cfa(row)
            fres.reason[row] = pairs.reason
            if not pairs.reason:
                fres.info[row] = cython.cast(cython.uchar, pairs.put(row, cfa, fres))
