"""Sentry's symbolic: the STACK CFI lines that it writes for the `.eh_frame` or `.debug_frame` of each case.

Names of registers are known here for some machines. Expressions are answered as unknown, as is a register without a
rule: symbolic leaves out what it does not translate. A register that is the same is written like one that has no
rule or that is restored from itself. It does not write whether a return address is signed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib import import_module

from .protocol import FP, Refused, Request, Row, at, serve

_X86 = ("eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi", "eip")
_X86_64 = ("rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp")
_AARCH64 = {f"x{number}": number for number in range(31)} | {"sp": 31}
REGISTERS = {
    "x86": {name: number for number, name in enumerate(_X86)},
    "x86_64": {name: number for number, name in enumerate(_X86_64)} | {f"r{number}": number for number in range(8, 16)},
    "aarch64": _AARCH64,
    "aarch64_be": _AARCH64,
    "arm": {f"r{number}": number for number in range(13)} | {"sp": 13, "lr": 14, "pc": 15},
    "ppc": {f"r{number}": number for number in range(32)},
    "ppc64": {f"r{number}": number for number in range(32)},
}
LINKS = {"x86": "$eip", "x86_64": "$rip", "arm": "lr", "aarch64": "x30", "aarch64_be": "x30"}
_RULE = re.compile(r"(\S+): (.*?)(?= \S+: |$)")


def spelled(words: Sequence[str], names: dict[str, int]) -> str:
    """A postfix rule in the protocol's words: a base, plus an offset, or what is in memory there."""
    match words:
        case [base]:
            offset, is_saved = 0, False
        case [base, "^"]:
            offset, is_saved = 0, True
        case [base, number, "+", *rest] if rest in ([], ["^"]):
            offset, is_saved = int(number), bool(rest)
        case _:
            return "?"
    if base == ".cfa":
        return f"{'c' if is_saved else 'v'}{offset:+d}"
    if base.removeprefix("$") not in names:
        return "?"
    place = f"r{names[base.removeprefix('$')]}{offset:+d}"
    return f"m({place})" if is_saved else place


def rows_of(text: str, machine: str) -> Iterator[Row]:
    """The rows of all records."""
    names = REGISTERS[machine]
    fp = next(name for name, number in names.items() if number == FP[machine])
    rules: dict[str, str] = {}
    records, end = [], 0
    for line in text.splitlines():
        words = line.split(" ")
        is_init = words[2] == "INIT"
        start = int(words[3 if is_init else 2], 16)
        rules = {} if is_init else dict(rules)
        end = start + int(words[4], 16) if is_init else end
        found = _RULE.findall(" ".join(words[5 if is_init else 3 :]))
        for name, rule in found:
            rules[name.removeprefix("$")] = "?" if name == rule else spelled(rule.split(" "), names)
        if (".ra", LINKS.get(machine)) in found:
            rules[".ra"] = "?"
        records.append((start, end, [rules.get(name, "?") for name in (".cfa", ".ra", fp)]))
    for start, end, fields in records:
        # Of several rows that contain a PC, the last one counts.
        yield start, end, fields


def answer(request: Request) -> list[Sequence[str]]:
    """The rows at the PCs of a case."""
    symbolic = import_module("symbolic")
    try:
        (found,) = symbolic.Archive.open(request.path).iter_objects()
        text = found.make_cficache().open_stream().read().decode()
    except symbolic.SymbolicError as error:
        raise Refused(f"{type(error).__name__} {error}") from error
    return at(rows_of(text, request.architecture), request.pcs)


if __name__ == "__main__":
    serve(answer)
