"""STACK CFI both ways on drawn tables and texts: rules at every PC, spellings, hostile text."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, DrawFn, SearchStrategy
from unwindkit import FormatError, by_pc, read_elf
from unwindkit.converters.arch.table import ARCHITECTURES, Architecture, breakpad_names
from unwindkit.converters.breakpad.stack_cfi.read import from_stack_cfi
from unwindkit.converters.breakpad.stack_cfi.write import lay_out_text, to_stack_cfi
from unwindkit.converters.rules import CfaKind, RuleKind
from unwindkit.converters.table.model import CfaRule, Function, RegisterRule, Row, UnwindTable, table_of
from unwindkit.testing.unwind_tables import OFFSETS

from ..conftest import fewer
from ..support.real_files import REAL_FILES
from ..support.tables import rich_tables, with_sp

NAMED = [architecture for architecture in ARCHITECTURES.values() if architecture.breakpad_registers is not None]
EVERY = pytest.mark.parametrize("architecture", NAMED, ids=lambda one: one.name)


def rules_of(register: int, named: list[int]) -> SearchStrategy[RegisterRule]:
    """The rules of a register that the language can express without an expression."""
    offsets = st.builds(
        RegisterRule, st.just(register), st.sampled_from([RuleKind.OFFSET, RuleKind.VAL_OFFSET]), OFFSETS
    )
    others = st.sampled_from([one for one in named if one != register])
    return st.one_of(offsets, offsets, st.builds(RegisterRule, st.just(register), st.just(RuleKind.REGISTER), others))


@st.composite
def sayable_tables(draw: DrawFn, architecture: Architecture) -> UnwindTable:
    """Tables of rules that the language can express; functions adjacent or with gaps, runs shared or not."""
    named = sorted(breakpad_names(architecture))
    column = architecture.return_address
    returns = st.one_of(rules_of(column, named), st.just(RegisterRule(column, RuleKind.UNDEFINED)))
    pool = []
    for _ in range(draw(st.integers(1, 4))):
        numbers = draw(st.sets(st.sampled_from([one for one in named if one != column]), max_size=4))
        registers = [draw(returns), *(draw(rules_of(number, named)) for number in numbers)]
        cfa = CfaRule(CfaKind.REGISTER, draw(st.sampled_from(named)), draw(OFFSETS))
        pool.append((cfa, tuple(sorted(registers))))
    found, address = [], draw(st.integers(0, 1 << 20))
    for _ in range(draw(st.integers(0, 5))):
        offsets = sorted({0, *draw(st.sets(st.integers(1, 40), max_size=5))})
        rows = tuple(Row(offset, *draw(st.sampled_from(pool))) for offset in offsets)
        found.append(Function(address, 41, rows, return_column=column))
        address += 41 + draw(st.sampled_from([0, 7, -20]))
    return table_of(architecture, found)


@EVERY
@given(data=st.data())
def test_a_table_that_can_be_said_comes_back(architecture: Architecture, data: DataObject) -> None:
    table = data.draw(sayable_tables(architecture))
    text, refusals = to_stack_cfi(table)
    assert len(refusals) == 0
    assert by_pc(from_stack_cfi(text, architecture.name)).differences(by_pc(with_sp(table))) == []


@EVERY
@fewer(4)
@given(data=st.data())
def test_text_of_any_table_comes_back(architecture: Architecture, data: DataObject) -> None:
    """Any table that the language can express, with the usual return address column; writing in pieces changes nothing.

    A rule may be spelled in two ways (`.cfa ^`, from an expression, and `.cfa 0 + ^`): both are read as the same rule.
    """
    table = data.draw(rich_tables(architecture))
    usual = np.full_like(table.functions.return_column, architecture.return_address)
    table = replace(table, functions=replace(table.functions, return_column=usual))
    text = to_stack_cfi(table)[0]
    read = from_stack_cfi(text, architecture.name)
    again = to_stack_cfi(read)[0]
    assert by_pc(from_stack_cfi(again, architecture.name)).differences(by_pc(read)) == []
    assert to_stack_cfi(from_stack_cfi(again, architecture.name))[0] == again
    assert b"".join(bytes(piece) for piece in lay_out_text(table).chunks()) == text


TEXT = to_stack_cfi(read_elf(REAL_FILES[0]))[0][:60_000].rpartition(b"\n")[0]


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"\n", b"\r\n"),
        (b" .cfa:", b"  .cfa:"),
        (b"STACK CFI INIT ", b"STACK CFI INIT 000"),
        (b"STACK CFI INIT ", b"STACK CFI INIT 0x"),
        (b"STACK CFI ", b"STACK CFI  "),
        (b"\nSTACK", b"\n\nFILE 0 a.c\nSTACK"),
    ],
)
def test_spellings_say_the_same(old: bytes, new: bytes) -> None:
    respelled = TEXT.replace(old, new).replace(b"STACK CFI  INIT", b"STACK CFI INIT ")
    assert respelled != TEXT
    assert to_stack_cfi(from_stack_cfi(respelled, "x86_64"))[0] == TEXT + b"\n"


@pytest.mark.usefixtures("kernels")
def test_ranges_of_very_different_length() -> None:
    """One of 3,000 lines among short ones: neither way of processing them leaves states for the other."""
    long = [f"STACK CFI INIT 0 {3000:x} .cfa: $rsp 8 + .ra: .cfa -8 + ^"]
    long += [f"STACK CFI {offset:x} .cfa: $rsp {8 + offset % 7 * 8} +" for offset in range(1, 3000)]
    short = [f"STACK CFI INIT {10000 + 9 * n:x} 9 .cfa: $rsp {8 * (n % 5)} + .ra: .cfa -8 + ^" for n in range(90)]
    text = "\n".join([*long, *short, ""]).encode()
    table = from_stack_cfi(text, "x86_64")
    assert to_stack_cfi(table)[0] == text
    first = next(iter(table))
    assert [one.cfa.value for one in first.rows] == [8 + offset % 7 * 8 for offset in range(3000)]
    assert len(table.run_rows) - 1 == 6


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("seed", range(6))
def test_changed_text_gives_errors_of_ours(seed: int) -> None:
    draw = random.Random(seed)
    pieces = [
        b"INIT ",
        b"\0",
        b"\xff",
        b":",
        b" ",
        b"\n",
        b"^",
        b"ffffffffffffffff ",
        b"-",
        b".cfa: ",
        b"x" * 70,
        b"@ ",
    ]
    refused = 0
    for _ in range(60):
        changed = bytearray(TEXT[: draw.randrange(200, 4000)])
        for _ in range(draw.randrange(1, 4)):
            at = draw.randrange(len(changed))
            changed[at : at + draw.randrange(3)] = draw.choice(pieces)
        with suppress(FormatError):
            from_stack_cfi(bytes(changed), "x86_64")
            continue
        refused += 1
    assert refused > 10
