"""STACK CFI of libxul, libLLVM and others: at every PC readelf's rules, none wrong, none missing; expressions by value.

Strategy: `stack_cfi_referee` compares columns, and is first shown to find small faults. Expressions are the rules that
readelf prints as `exp`: over random registers and memory, the tests' stack machine on the DWARF bytes gives the same.
"""

from __future__ import annotations

import io
import random
from pathlib import Path

import numpy as np
import pytest
from unwindkit import UnwindTable, read_elf, to_stack_cfi
from unwindkit.converters.arch.table import breakpad_names
from unwindkit.converters.rules import CfaKind, RuleKind

from ..cfi.test_cfi_reading import libc
from ..support.judges import rpn
from ..support.judges.stack_cfi_referee import (
    Numbers,
    columns_of_readelf,
    columns_of_rows,
    columns_of_text,
    differences,
)
from ..support.oracles import LIBLLVM, LIBXUL, oracle_root
from ..support.real_files import REAL_FILES
from ..support.texts.stack_cfi_text import value_of

# --- values of expressions --------------------------------------------------------------------------------------------

# A register's number, or None for the CFA; the kind of its rule; the expression.
Said = tuple[int | None, RuleKind, bytes]


def expressions_of(table: UnwindTable) -> set[Said]:
    """Every rule that is an expression, once."""
    rows, rules, texts = table.rows, table.rules, table.expressions
    found: set[Said] = {
        (None, RuleKind.VAL_EXPRESSION, texts[index])
        for index in np.unique(rows.cfa_offset[rows.cfa_kind == CfaKind.EXPRESSION]).tolist()
    }
    for kind in (RuleKind.EXPRESSION, RuleKind.VAL_EXPRESSION):
        chosen = rules.kind == kind
        pairs = zip(rules.register[chosen].tolist(), rules.value[chosen].tolist(), strict=True)
        found |= {(register, kind, texts[index]) for register, index in set(pairs)}
    return found


def values(table: UnwindTable, said: set[Said], words: set[tuple[str, str]]) -> tuple[set[object], set[object]]:
    """What the rules give in a hundred random states: by the bytes, and by postfix; with the register's name."""
    size = table.architecture.address_size
    mask = (1 << 8 * size) - 1
    names = breakpad_names(table.architecture)
    column = table.architecture.return_address
    draw = random.Random("values")
    states = [([draw.getrandbits(8 * size) for _ in range(17)], draw.getrandbits(8 * size)) for _ in range(100)]
    # The program counter's last four bits choose in a PLT: all of them.
    for bits, (registers, _) in enumerate(states):
        registers[column] = registers[column] & ~15 | bits % 16

    def read(address: int) -> int:
        return hash((address & mask, "memory")) & mask

    def by_bytes(register: int | None, kind: RuleKind, expression: bytes) -> tuple[int, ...]:
        found = []
        for registers, cfa in states:
            initial = None if register is None else cfa
            value = rpn.run(expression, dict(enumerate(registers)), read, initial) & mask
            found.append(read(value) if kind is RuleKind.EXPRESSION else value)
        return tuple(found)

    def by_words(rule: str) -> tuple[int, ...]:
        known = [
            {names[number]: value for number, value in enumerate(one) if number in names} | {".cfa": cfa}
            for one, cfa in states
        ]
        return tuple(value_of(rule, mask, variables, read) for variables in known)

    called = {None: ".cfa", column: ".ra"}
    return (
        {(called.get(register) or names[register], by_bytes(register, kind, text)) for register, kind, text in said},
        {(name, by_words(rule)) for name, rule in words},
    )


def agrees_by_value(table: UnwindTable, words: set[tuple[str, str]]) -> int:
    """The number of expressions, each with postfix text of the same values, and no other postfix text."""
    said = expressions_of(table)
    by_bytes, by_words = values(table, said, words)
    assert by_bytes == by_words
    return len(said)


@pytest.mark.oracle("sid-i386")
def test_lazy_plt_of_a_32_bit_library() -> None:
    table = read_elf(libc("sid-i386"))
    assert agrees_by_value(table, columns_of_text(to_stack_cfi(table)[0], {})[1]) == 1


# --- the referee ------------------------------------------------------------------------------------------------------


def agrees(path: Path) -> tuple[int, int]:
    """The numbers of compared readelf rows and expressions."""
    table = read_elf(path)
    numbers: Numbers = {}
    ours, words = columns_of_text(to_stack_cfi(table)[0], numbers)
    theirs = columns_of_readelf(path, ".eh_frame", table.load_address, numbers)
    assert [f"{pc:#x}" for pc in differences(ours, theirs)] == []
    assert (len(ours.start), ours.end.sum()) == (len(theirs.start), theirs.end.sum())
    return len(theirs.pc), agrees_by_value(table, words)


@pytest.mark.oracle
@pytest.mark.parametrize("path", REAL_FILES, ids=str)
def test_real_files(path: str) -> None:
    assert agrees(Path(path))[0] > 500


@pytest.mark.oracle("sid-amd64")
def test_newest_c_library() -> None:
    rows, said = agrees(libc("sid-amd64"))
    assert rows > 23_000
    assert said >= 19


@pytest.mark.oracle("bookworm-amd64")
def test_libllvm() -> None:
    rows, said = agrees(oracle_root("bookworm-amd64") / LIBLLVM)
    assert rows > 860_000
    assert said >= 1


@pytest.mark.oracle("bookworm-amd64")
def test_libxul() -> None:
    rows, said = agrees(oracle_root("bookworm-amd64") / LIBXUL)
    assert rows > 2_500_000
    assert said >= 12


# --- faults that it must find -----------------------------------------------------------------------------------------

ROWS = b"""Contents of the .eh_frame section:


00000000 0000000000000014 00000000 CIE "zR" cf=1 df=-8 ra=16
   LOC           CFA      ra
0000000000000000 rsp+8    c-8

00000018 0000000000000024 0000001c FDE cie=00000000 pc=0000000000001000..0000000000001010
   LOC           CFA      rbx   rbp   ra
0000000000001000 rsp+8    u     u     c-8
0000000000001004 rsp+16   c-16  u     c-8
0000000000001008 exp      u     r12   u

00000040 0000000000000014 00000044 FDE cie=00000000 pc=0000000000001020..0000000000001030

"""
TEXT = b"""STACK CFI INIT 800 10 .cfa: $rsp 8 + .ra: .cfa -8 + ^
STACK CFI 804 $rbx: .cfa -16 + ^ .cfa: $rsp 16 +
STACK CFI 808 $rbp: $r12 $rbx: $rbx .cfa: $rsp 8 + ^ .ra: 0
STACK CFI INIT 820 10 .cfa: $rsp 8 + .ra: .cfa -8 + ^
"""


def compared(text: bytes) -> list[int]:
    numbers: Numbers = {}
    ours, _ = columns_of_text(text, numbers)
    return differences(ours, columns_of_rows(io.BytesIO(ROWS), ".eh_frame", 0x800, numbers))


def test_columns_that_agree() -> None:
    assert compared(TEXT) == []


@pytest.mark.parametrize(
    ("right", "wrong", "found"),
    [
        (b"-16 + ^", b"-24 + ^", [0x804]),  # another slot
        (b" $rbx: $rbx", b"", [0x808]),  # a stale rule
        (b" $rbp: $r12", b"", [0x808]),  # a missing rule
        (b"$r12", b"$r13", [0x808]),
        (b".ra: 0", b".ra: .cfa -8 + ^", [0x808]),
        (b"$rsp 8 + ^", b"$rsp 8 +", [0x808]),  # not an expression
        (b"CFI 804", b"CFI 805", [0x804]),  # a row too late
        (b"INIT 820 10", b"INIT 820 f", [0x82F]),  # a range too short
        (b"INIT 800 10", b"INIT 800 11", [0x810]),  # too long
        (TEXT.splitlines(keepends=True)[3], b"", [0x820]),  # a missing function
        (TEXT.splitlines(keepends=True)[1], b"", [0x804]),
    ],
)
def test_small_faults_are_found(right: bytes, wrong: bytes, found: list[int]) -> None:
    assert right in TEXT
    assert compared(TEXT.replace(right, wrong, 1)) == found


def test_values_tell_words_apart() -> None:
    table = read_elf(REAL_FILES[0])
    said = expressions_of(table)
    assert said
    words = columns_of_text(to_stack_cfi(table)[0], {})[1]
    wrong = {(name, rule.replace("16 % 5 +", "16 % 4 +")) for name, rule in words}
    assert wrong != words
    by_bytes, by_words = values(table, said, wrong)
    assert by_bytes != by_words
