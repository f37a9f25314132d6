"""What SFrame V2 and V3 can express of a row of the table, or the reasons why they cannot: stated without product code.

Strategy: limits are from the SFrame specification (errata 1) and docs/formats/sframe.md; what an expression computes is
found by running it (rpn.py) with random registers and memory. A row that can be expressed is given in the notation of
`readelf --sframe`, as by the referee, so that the row read back can be compared with it.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unwindkit.converters.refusals import Reason
from unwindkit.converters.rules import CfaKind, RaState, RuleKind

from ..architectures import ARCHITECTURES, Architecture
from ..stepping.machines import MACHINES
from ..texts.readelf_text import SframeText
from . import rpn
from .referee import I32, Form

if TYPE_CHECKING:
    from unwindkit.converters.table.model import CfaRule, Function, RegisterRule, Row

E_MACHINES = {"x86_64": 62, "aarch64": 183, "aarch64_be": 183, "s390x": 22}
OUTERMOST = SframeText("", "", "undefined")
# func_size is an unsigned word, func_rep_size a byte.
MAX_SIZE, MAX_BLOCK = 0xFFFFFFFF, 0xFF

Causes = frozenset[Reason]


@dataclass(frozen=True, slots=True)
class Format:
    """SFrame of one version for one architecture of the table."""

    architecture: Architecture
    version: int
    name: str

    @classmethod
    def of(cls, name: str, version: int) -> Format:
        """By the architecture's name."""
        return cls(ARCHITECTURES[E_MACHINES[name]], version, name)

    @property
    def is_v3(self) -> bool:
        return self.version >= 3

    @property
    def sp_value(self) -> int:
        """The caller's SP, relative to the CFA."""
        return -MACHINES[self.name].bias

    def function_causes(self, function: Function, expressible: bool) -> Causes:
        """Why nothing of a function can be expressed; `expressible`: whether each of its rows can."""
        found = {
            Reason.RETURN_COLUMN: function.return_column != self.architecture.ra[0],
            Reason.SEGMENT: function.segment != 0,
            Reason.TOO_LARGE: function.size > MAX_SIZE,
            # Rows of a block apply to all blocks, so that none can be left out.
            Reason.REPETITION: function.repetition > 0 and not (expressible and function.repetition <= MAX_BLOCK),
        }
        return frozenset(reason for reason, is_so in found.items() if is_so)

    def judge(self, row: Row) -> SframeText | Causes:
        """The row as SFrame has it, or every reason why it cannot be expressed."""
        rules = {one.register: one for one in row.registers if one.kind is not RuleKind.UNSPECIFIED}
        sp, fp, ra = (
            rules.get(number) for number, _ in (getattr(self.architecture, key) for key in ("sp", "fp", "ra"))
        )
        if ra is not None and ra.kind is RuleKind.UNDEFINED:
            # Nothing else of an outermost frame matters: it has no caller.
            return OUTERMOST if self.is_v3 else frozenset({Reason.RA_UNDEFINED})
        cfa, fp_word, ra_word = self._cfa(row.cfa), self._slot(fp) or Reason.FP_RULE, self._ra(ra)
        causes = {one for one in (cfa, fp_word, ra_word) if isinstance(one, Reason)}
        if not self._keeps_sp(sp, cfa):
            causes.add(Reason.SP_RULE)
        if row.ra_state is RaState.SIGNED_WITH_PC:
            causes.add(Reason.RA_SIGNED_WITH_PC)
        needs_ra = self.architecture.fp_needs_ra and not self.is_v3
        if needs_ra and ra_word == "u" and fp_word not in ("u", Reason.FP_RULE):
            causes.add(Reason.FP_WITHOUT_RA)
        if causes:
            return frozenset(causes)
        return SframeText(f"{cfa}", f"{fp_word}", f"{ra_word}" + "[s]" * (row.ra_state is RaState.SIGNED))

    def _cfa(self, rule: CfaRule) -> str | Reason:
        """V2: SP or FP + a signed word; V3: any register, and the memory there."""
        if rule.kind is CfaKind.NONE:
            return Reason.NO_CFA
        form = Form(rule.register, int(rule.value), deref=False) if rule.kind is CfaKind.REGISTER else None
        if isinstance(rule.value, bytes) and self.is_v3:
            form = self._computed(rule.value, starts_with_cfa=False)
        if form is None or form.base is None:
            return Reason.CFA_EXPRESSION
        if form.base not in (self.architecture.sp[0], self.architecture.fp[0]) and not self.is_v3:
            return Reason.CFA_REGISTER
        text = form.text(self.architecture) if form.offset % self.architecture.cfa_multiple == 0 else None
        return text or Reason.CFA_OFFSET

    def _ra(self, rule: RegisterRule | None) -> str | Reason:
        """`f` is the place that the ABI fixes; where it fixes none, a word of 0 in V2 is padding."""
        fixed, word = self.architecture.ra_fixed, self._slot(rule)
        if fixed is None:
            return Reason.RA_RULE if word is None or (word == "c+0" and not self.is_v3) else word
        if word == f"c{fixed:+}":
            return "f"
        # Without a rule it would be in a register that holds no return address.
        return word if word is not None and word != "u" and self.is_v3 else Reason.RA_RULE

    def _slot(self, rule: RegisterRule | None) -> str | None:
        """Where RA or FP is saved, `u` if it is not saved; None if this version has no words for that."""
        if rule is None or rule.kind is RuleKind.SAME_VALUE:
            return "u"
        if self.is_v3:
            form = self._form(rule)
            return form and form.text(self.architecture)
        if rule.kind is RuleKind.REGISTER and self.architecture.in_registers:
            return f"r{rule.value}"
        value = rule.value
        is_offset = rule.kind is RuleKind.OFFSET and isinstance(value, int) and value in I32
        return f"c{value:+}" if is_offset and int(value) % self.architecture.slot_multiple == 0 else None

    def _keeps_sp(self, rule: RegisterRule | None, cfa: str | Reason) -> bool:
        """Whether a rule for SP gives the value that readers take: a fixed distance from the CFA."""
        if rule is None:
            return True
        form = self._form(rule) if self.is_v3 or isinstance(rule.value, int) else None
        if form is None:
            return False
        if form == Form(None, self.sp_value, deref=False):
            return True
        if MACHINES[self.name].saves_sp:
            # It is saved with that value, in memory or in a register.
            return form.deref if form.base is None else not (form.deref or form.offset)
        # In a signal frame the SP is in the slot that the CFA, which is the SP, is read from.
        return form.deref and form.base is not None and form.text(self.architecture) == cfa

    def _form(self, rule: RegisterRule) -> Form | None:
        """A rule as base + offset, or as the memory there."""
        match rule.kind, rule.value:
            case RuleKind.OFFSET | RuleKind.VAL_OFFSET, int(offset):
                return Form(None, offset, deref=rule.kind is RuleKind.OFFSET)
            case RuleKind.REGISTER, int(register):
                return Form(register, 0, deref=False)
            case RuleKind.VAL_EXPRESSION, bytes(expression):
                return self._computed(expression, starts_with_cfa=True)
            case RuleKind.EXPRESSION, bytes(expression):
                form = self._computed(expression, starts_with_cfa=True)
                # The value is at the result of the expression: memory would be read twice.
                return None if form is None or form.deref else form._replace(deref=True)
        return None

    def _computed(self, expression: bytes, *, starts_with_cfa: bool) -> Form | None:
        """What an expression computes, if that has a form: the same for any registers and memory."""
        trials = (_forms_of_trial(expression, self._words, random.Random(seed), starts_with_cfa) for seed in range(2))
        common = set.intersection(*trials)
        return common.pop() if common else None

    @property
    def _words(self) -> rpn.Words:
        return MACHINES[self.name].words("little" if self.name in ("x86_64", "aarch64") else "big")


def _forms_of_trial(expression: bytes, words: rpn.Words, chance: random.Random, starts_with_cfa: bool) -> set[Form]:
    """The forms that give what an expression computes from these registers and this memory; any that it does not have
    fits by chance only."""
    registers: dict[int | None, int] = defaultdict(lambda: chance.getrandbits(words.bits))
    memory: dict[int, int] = defaultdict(lambda: chance.getrandbits(words.bits))
    cfa = registers[None] if starts_with_cfa else None
    try:
        value = rpn.run(expression, registers, memory.__getitem__, cfa, words)
    except (IndexError, KeyError):
        # Too few bytes or values, or an operation without a meaning here.
        return set()
    places = [(value, False), *((address, True) for address, word in memory.items() if word == value)]
    return {
        Form(base, words.signed(place - held), deref) for place, deref in places for base, held in registers.items()
    }
