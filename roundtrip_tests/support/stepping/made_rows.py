"""Tables of random rows for any architecture, with every kind of rule for SP, FP, RA and others.

Strategy: seeded. Offsets are multiples of every assembler's factors, and expressions can be evaluated, so that each
format expresses what it can. Rows of one function give rules to one set of registers: a rule that disappears without
`DW_CFA_restore` could not be written.
"""

from __future__ import annotations

import random

from unwindkit import (
    ARCHITECTURES,
    CfaKind,
    CfaRule,
    Function,
    RaState,
    RegisterRule,
    Row,
    RuleKind,
    UnwindTable,
    table_of,
)

from .machines import MACHINES, Machine

STEP = 8  # bytes from row to row: of every instruction unit a multiple
# After DW_OP_breg: plus_uconst 8; deref; lit7, and; a comparison.
ENDINGS = ("2308", "06", "371a", "2310 06", "3f1a 3b2a 33 24")
KINDS = [RuleKind.OFFSET] * 4 + [
    RuleKind.VAL_OFFSET,
    RuleKind.REGISTER,
    RuleKind.SAME_VALUE,
    RuleKind.UNDEFINED,
    RuleKind.EXPRESSION,
    RuleKind.VAL_EXPRESSION,
]


def made_table(name: str, seed: int, functions: int = 24) -> UnwindTable:
    """Functions with a few rows each, adjacent or with gaps."""
    machine, draw = MACHINES[name], random.Random(f"{name} {seed}")
    found, address = [], 0x4000
    for _ in range(functions):
        rows = _rows(machine, draw)
        size = STEP * len(rows)
        found.append(Function(address, size, rows, return_column=machine.ra))
        address += size + STEP * draw.choice([0, 0, 2])
    return table_of(ARCHITECTURES[name], found)


def _rows(machine: Machine, draw: random.Random) -> tuple[Row, ...]:
    others = draw.sample([number for number in range(12) if number not in (machine.sp, machine.fp, machine.ra)], 2)
    registers = sorted({machine.ra, *(one for one in (machine.sp, machine.fp, *others) if draw.random() < 0.5)})
    signed = RaState.SIGNED if machine.name.startswith("aarch64") and draw.random() < 0.3 else RaState.PLAIN
    found: list[Row] = []
    for index in range(draw.randrange(1, 6)):
        rules = [rule for one in registers if (rule := _rule(machine, one, draw)) is not None]
        cfa = _cfa(machine, draw)
        if machine.has_expressions and machine.sp in registers and draw.random() < 0.2:
            cfa, sp = _read_from_memory(machine, draw)
            rules = sorted([sp, *(rule for rule in rules if rule.register != machine.sp)])
        found.append(Row(STEP * index, cfa, tuple(rules), signed if index % 2 else RaState.PLAIN))
    return tuple(found)


def _offset(draw: random.Random) -> int:
    return 16 * draw.randrange(-40, 20)


def _cfa(machine: Machine, draw: random.Random) -> CfaRule:
    if draw.random() < 0.1 and machine.has_expressions:
        return CfaRule(CfaKind.EXPRESSION, 0, _expression(machine.sp, draw))
    register = draw.choice([machine.sp] * 4 + [machine.fp] * 3 + [3])
    # The ABI's definition of the CFA, now and then.
    return CfaRule(CfaKind.REGISTER, register, draw.choice([machine.bias, 160, 176, 1600]))


def _read_from_memory(machine: Machine, draw: random.Random) -> tuple[CfaRule, RegisterRule]:
    """As in signal frames: SP was saved where the CFA is read; now and then elsewhere."""
    base, offset = 0x70 + machine.sp, 8 * draw.randrange(8)
    place = offset if draw.random() < 0.7 else (offset + 8) % 64
    cfa = CfaRule(CfaKind.EXPRESSION, 0, bytes([base, offset, 0x06]))
    return cfa, RegisterRule(machine.sp, RuleKind.EXPRESSION, bytes([base, place]))


def _expression(register: int, draw: random.Random) -> bytes:
    return bytes([0x70 + register, draw.randrange(64)]) + bytes.fromhex(draw.choice(ENDINGS))


def _rule(machine: Machine, register: int, draw: random.Random) -> RegisterRule | None:
    if register == machine.ra and draw.random() < 0.7:
        # Where a call leaves it, so that AMD64's SFrame has the row.
        return RegisterRule(register, RuleKind.OFFSET, -8) if machine.pushes_ra else None
    if draw.random() < 0.2:
        return None
    if register == machine.sp and draw.random() < 0.5:
        return RegisterRule(register, RuleKind.VAL_OFFSET, draw.choice([-machine.bias, -machine.bias, 0]))
    kind = draw.choice(KINDS if machine.has_expressions else KINDS[:-2])
    match kind:
        case RuleKind.OFFSET | RuleKind.VAL_OFFSET:
            return RegisterRule(register, kind, _offset(draw))
        case RuleKind.REGISTER:
            # STACK CFI has no word for a register without a name.
            return RegisterRule(register, kind, draw.choice([one for one in range(12) if one in machine.names]))
        case RuleKind.EXPRESSION | RuleKind.VAL_EXPRESSION:
            return RegisterRule(register, kind, _expression(draw.choice([machine.sp, 3, 5]), draw))
    return RegisterRule(register, kind)
