"""LLVM: `llvm-dwarfdump --eh-frame` or `--debug-frame` on each case. Arguments: the command of llvm-dwarfdump.

Names of registers are known here for some machines, and not all of these: a rule with another name is answered as
unknown, as are expressions, which LLVM prints as operations. The return address is taken to be the usual register.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence

from .protocol import FP, Refused, Request, Row, at, serve

# By machine: the register of the return address, and how LLVM names registers: a pattern, and the first one's number.
_X86_64 = ("RAX", "RDX", "RCX", "RBX", "RSI", "RDI", "RBP", "RSP")
_AARCH64 = (30, ((r"W(\d+)", 0), ("WSP", 31)))
MACHINES: dict[str, tuple[int, tuple[tuple[str, int], ...]]] = {
    "x86_64": (16, (*((name, number) for number, name in enumerate(_X86_64)), (r"R(\d+)", 0), ("RIP", 16))),
    "aarch64": _AARCH64,
    "aarch64_be": _AARCH64,
    "riscv64": (1, ((r"X(\d+)", 0),)),
    "s390x": (14, ((r"R(\d+)D", 0),)),
    "loongarch64": (1, ((r"R(\d+)", 0),)),
    "sparc64": (15, ((r"G(\d+)", 0), (r"O(\d+)", 8), (r"L(\d+)", 16), (r"I(\d+)", 24))),
}
# LLVM shows the state of AArch64's return address as a register.
SIGNED = {"1": "[s]", "2": "[s,pc]", "3": "[s,pc]"}
_FDE = re.compile(r"^[0-9a-f]+ [0-9a-f]+ [0-9a-f]+ FDE cie=[0-9a-f]+ pc=([0-9a-f]+)\.\.\.([0-9a-f]+)\n", re.MULTILINE)
_ROW = re.compile(r"^  0x([0-9a-f]+): CFA=(.*?)(?:: (\w+=.*))?$", re.MULTILINE)


def number(name: str, machine: str) -> int | None:
    """The DWARF number of a register; None for a name that is not known here."""
    for pattern, first in MACHINES[machine][1]:
        if match := re.fullmatch(pattern, name):
            return first + int(match[1] if match.lastindex else 0)
    return int(name[3:]) if re.fullmatch(r"reg\d+", name) else None


def place(text: str, machine: str) -> str:
    """A register and an offset in the protocol's words."""
    match = re.fullmatch(r"(\w+?)([+-]\d+)?", text)
    register = number(match[1], machine) if match else None
    return "?" if match is None or register is None else f"r{register}{int(match[2] or 0):+d}"


def rule(text: str, machine: str) -> str:
    """The rule of a register."""
    if match := re.fullmatch(r"(\[?)CFA([+-]\d+)?\]?", text):
        return f"{'c' if match[1] else 'v'}{int(match[2] or 0):+d}"
    return {"undefined": "undefined", "same": "s"}.get(text) or place(text, machine)


def fields_of(cfa: str, rules: str, machine: str) -> list[str]:
    """CFA, RA and FP of a row."""
    # Commas also separate the operands of an operation.
    texts = dict(one.split("=", 1) for one in re.split(r", (?=\w+=)", rules) if one)
    found = {number(name, machine): text for name, text in texts.items()}
    ra, fp = (found.get(register) for register in (MACHINES[machine][0], FP[machine]))
    state = SIGNED.get(found.get(34, ""), "") if machine.startswith("aarch64") else ""
    spelled = rule(ra, machine) if ra else "u"
    return [
        "u" if cfa == "unspecified" else place(cfa, machine),
        spelled if spelled == "?" else spelled + state,
        rule(fp, machine) if fp else "u",
    ]


def rows_of(text: str, machine: str) -> Iterator[Row]:
    """The rows of all FDEs."""
    parts = _FDE.split(text)[1:]
    for start, end, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        rows = [(int(pc, 16), fields_of(cfa, rules, machine)) for pc, cfa, rules in _ROW.findall(body)]
        rows = rows or [(int(start, 16), ["u", "u", "u"])]
        ends = [pc for pc, _ in rows[1:]] + [int(end, 16)]
        for (pc, fields), after in zip(rows, ends, strict=True):
            yield pc, after, fields


def answer(request: Request) -> list[Sequence[str]]:
    """The rows at the PCs of a case."""
    command = [*sys.argv[1:], "--" + request.section[1:].replace("_", "-"), request.path]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60)
    if done.returncode or done.stderr:
        raise Refused(done.stderr.decode(errors="replace")[:200] or f"exit code {done.returncode}")
    return at(rows_of(done.stdout.decode(errors="replace"), request.architecture), request.pcs)


if __name__ == "__main__":
    serve(answer)
