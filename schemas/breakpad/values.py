"""What the values of a single record of a Breakpad symbol file may be, postfix programs among them (Breakpad,
docs/symbol_files.md).

Strategy: each function yields the field and the reason of every fault; the line parses all the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum

from ..text_records import Rule
from .records import CFA_NAME, UNDEFINED, Module, StackWin

Fault = tuple[str, str]

OPERATING_SYSTEMS = ("Linux", "mac", "windows")
# The document's five, and what Breakpad's dump_syms writes beside them (common/linux/dump_symbols.cc,
# common/mac/arch_utilities.cc).
MODULE_ARCHITECTURES = (
    *("x86", "x86_64", "ppc", "ppc64", "unknown"),
    *("arm", "arm64", "arm64e", "mips", "mips64", "nds32", "riscv", "riscv64", "s390", "s390x", "sparc", "sparcv9"),
    *("loongarch64", "x86_64h", "armv6", "armv7", "armv7f", "armv7k", "armv7s"),
)
# A GUID's 32 digits and the age; for PDB 2.0 the 8 digits of a time stamp and the age. The age has no fixed case.
_ID = re.compile("(?:[0-9A-F]{32}|[0-9A-F]{8})[0-9A-Fa-f]{1,8}")


class FrameType(IntEnum):
    """The types of STACK WIN records (Microsoft's DIA, StackFrameTypeEnum); Breakpad evaluates FPO and FRAME_DATA."""

    FPO = 0
    TRAP = 1
    TSS = 2
    STANDARD = 3
    FRAME_DATA = 4
    UNKNOWN = 0xFFFFFFFF


def module_faults(record: Module) -> Iterator[Fault]:
    """The faults of a MODULE record."""
    if record.operatingsystem not in OPERATING_SYSTEMS:
        yield "operatingsystem", f"found {record.operatingsystem!r}, expected {', '.join(OPERATING_SYSTEMS)}"
    if record.architecture not in MODULE_ARCHITECTURES:
        yield "architecture", f"found {record.architecture!r}, expected {', '.join(MODULE_ARCHITECTURES)}"
    if not _ID.fullmatch(record.id):
        yield "id", f"found {record.id!r}, expected 32 hexadecimal digits in capitals and an age of 1 to 8 digits"
    separators = "/\\" if record.operatingsystem == "windows" else "/"
    if not record.name or any(separator in record.name for separator in separators):
        yield "name", f"found {record.name!r}, expected the base name of a file"


def stack_win_faults(record: StackWin) -> Iterator[Fault]:
    """The faults of a STACK WIN record."""
    if record.type not in tuple(FrameType):
        yield "type", f"{record.type:#x} is not in StackFrameTypeEnum"
    last = record.program_string_or_allocates_base_pointer
    if record.type == FrameType.FPO and record.has_program_string:
        yield "has_program_string", "a record of type 0 (FrameTypeFPO) has a program string"
    if record.type == FrameType.FRAME_DATA and not record.has_program_string:
        yield "has_program_string", "a record of type 4 (FrameTypeFrameData) has no program string"
    for name in ("prologue_size", "epilogue_size"):
        if getattr(record, name) > record.code_size:
            yield name, f"{getattr(record, name):#x} is more than the {record.code_size:#x} bytes of code"
    if isinstance(last, str):
        fault = postfix_fault(last, 0)
        if fault is not None:
            yield "program_string_or_allocates_base_pointer", fault


def expression_faults(rules: tuple[Rule, ...]) -> Iterator[Fault]:
    """The faults of the rules of a STACK CFI record."""
    if len(dict(rules)) != len(rules):
        yield "rules", "a register has two rules"
    for name, expression in rules:
        if expression == UNDEFINED:
            continue
        fault = postfix_fault(expression, 1)
        if fault is None and UNDEFINED in expression.split():
            fault = f"{UNDEFINED} is part of an expression"
        if fault is None and name == CFA_NAME and CFA_NAME in expression.split():
            fault = "the rule refers to itself"
        if fault is not None:
            yield "rules", f"{name}: {fault}"


# The postfix language (processor/postfix_evaluator.h). Every word has a fixed effect on the height of the stack, so one
# pass finds a program that lacks an operand.
BINARY_OPERATORS = ("+", "-", "*", "/", "%", "@")
LOAD = "^"
ASSIGN = "="


def postfix_words(text: str) -> list[tuple[str, int]]:
    """The words with their offsets. MSVC omits the space after `=`; it is still a word of its own."""
    found: list[tuple[str, int]] = []
    for match in re.finditer(r"[^ ]+", text):
        word, offset = match[0], match.start()
        if word[0] == ASSIGN and len(word) > 1:
            found.append((ASSIGN, offset))
            word, offset = word[1:], offset + 1
        found.append((word, offset))
    return found


def postfix_fault(text: str, results: int) -> str | None:
    """Why a text cannot be evaluated with `results` values left: 1 for an expression, 0 for a program string. None if
    no fault shows without evaluation."""
    height = 0
    for word, _ in postfix_words(text):
        operands = 2 if word in BINARY_OPERATORS or word == ASSIGN else 1 if word == LOAD else 0
        if word == ASSIGN and results:
            return "an expression assigns nothing"
        if height < operands:
            return f"too few values on the stack for {word}"
        height += (0 if word == ASSIGN else 1) - operands
    return None if height == results else f"expected {results} values on the stack at the end, found {height}"
