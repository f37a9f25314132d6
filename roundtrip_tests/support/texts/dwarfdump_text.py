"""A file's CFI as llvm-dwarfdump 22 prints it: a second reader, which shows DW_CFA_undefined and signed addresses.

Strategy: no product code but the table's rows. Rules are put into the notation of frame_text.py, registers by number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from unwindkit import Function, Row
from unwindkit.converters.rules import RaState, RuleKind

from ..oracles import OracleError, run_oracle
from .frame_text import Frame, Rules, rules_of

# LLVM's register names, by architecture: a name and its DWARF number, or a pattern and that of its number 0.
_X86_64 = ("RAX", "RDX", "RCX", "RBX", "RSI", "RDI", "RBP", "RSP")
_NAMES = {
    "x86_64": {name: number for number, name in enumerate(_X86_64)} | {"RIP": 16},
    "aarch64": {"WSP": 31, "VG": 46},
    "riscv64": {},
    "s390x": {},
    "loongarch64": {},
    "sparc64": {},
}
_FAMILIES = {
    "x86_64": ((r"R(\d+)", 0),),
    "aarch64": ((r"W(\d+)", 0), (r"B(\d+)", 64), (r"reg(\d+)", 0)),
    "riscv64": ((r"X(\d+)", 0), (r"F(\d+)_H", 32)),
    "s390x": ((r"R(\d+)D", 0),),
    "loongarch64": ((r"R(\d+)", 0), (r"F(\d+)_64", 32)),
    "sparc64": ((r"O(\d+)", 8), (r"L(\d+)", 16), (r"I(\d+)", 24)),
}
# LLVM treats the return address's state on AArch64 as a register.
RA_STATE = 34

_FDE = re.compile(r"^[0-9a-f]+ [0-9a-f]+ [0-9a-f]+ FDE cie=[0-9a-f]+ pc=([0-9a-f]+)\.\.\.([0-9a-f]+)\n", re.MULTILINE)
_ROW = re.compile(r"^  0x([0-9a-f]+): CFA=(.*?)(?:: (\w+=.*))?$", re.MULTILINE)


def dwarfdump_frames(path: Path, architecture: str) -> list[Frame]:
    """The FDEs of `.eh_frame`, in its order; equal neighbouring rows are merged."""
    text = run_oracle("llvm-dwarfdump-22", "--eh-frame", path, suite="sid-llvm")
    parts = _FDE.split(text)[1:]
    return [_frame(*part, architecture) for part in zip(parts[::3], parts[1::3], parts[2::3], strict=True)]


def _frame(start: str, end: str, text: str, architecture: str) -> Frame:
    def number(name: str) -> int:
        if name in _NAMES[architecture]:
            return _NAMES[architecture][name]
        found = ((re.fullmatch(pattern, name), first) for pattern, first in _FAMILIES[architecture])
        numbers = [first + int(match[1]) for match, first in found if match]
        if not numbers:
            raise OracleError(f"llvm-dwarfdump printed the register {name}")
        return numbers[0]

    def place(rule: str) -> str:
        if rule.startswith("DW_OP"):
            return "exp"
        found = re.fullmatch(r"(\w+?)([+-]\d+)?", rule)
        if found is None:
            raise OracleError(f"llvm-dwarfdump printed {rule!r}")
        return f"r{number(found[1])}{int(found[2] or 0):+d}"

    def rule(text: str) -> tuple[int, str] | None:
        name, _, value = text.partition("=")
        register = number(name)
        if register == RA_STATE and architecture == "aarch64":
            return (register, value) if value != "0" else None
        if match := re.fullmatch(r"(\[?)CFA([+-]\d+)?\]?", value):
            return register, f"{'c' if match[1] else 'v'}{int(match[2] or 0):+d}"
        if "DW_OP" in value:
            return register, "exp" if value.startswith("[") else "vexp"
        return register, {"undefined": "undefined", "same": "s"}.get(value) or f"r{number(value)}"

    rows: list[tuple[int, Rules]] = []
    for pc, cfa, rules in _ROW.findall(text):
        # Commas also separate the operands of an operation.
        found = map(rule, re.split(r", (?=\w+=)", rules)) if rules else ()
        rows.append((int(pc, 16), (place(cfa), tuple(sorted(filter(None, found))))))
    first, last = int(start, 16), int(end, 16)
    return Frame(first, last, distinct((pc, rules) for pc, rules in dict(rows).items() if pc < last or pc == first))


def distinct(rows: Iterable[tuple[int, Rules]]) -> tuple[tuple[int, Rules], ...]:
    """Rows without those that only repeat the one before."""
    kept: list[tuple[int, Rules]] = []
    for row in rows:
        if not kept or kept[-1][1] != row[1]:
            kept.append(row)
    return tuple(kept)


def frame_of(function: Function) -> Frame:
    """A function of a table in the same notation."""
    rows = ((function.start + row.offset, _rules(row)) for row in function.rows)
    return Frame(function.start, function.start + function.size, distinct(rows))


def _rules(row: Row) -> Rules:
    cfa, rules = rules_of(row)
    more = [(rule.register, "undefined") for rule in row.registers if rule.kind is RuleKind.UNDEFINED]
    if row.ra_state is RaState.SIGNED:
        more.append((RA_STATE, "1"))
    return cfa, tuple(sorted([*rules, *more]))
