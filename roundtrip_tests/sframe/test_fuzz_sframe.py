"""Mutated `.sframe` sections of every version and ABI, by every reader: only ParseError comes out, and engines agree.

Strategy: as in test_fuzz.py. Where a table can still be read, and its functions don't overlap, looking up in the bytes
finds the same rows as looking up in the table.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from unwindkit import ParseError, by_pc, find_fres, find_rows, from_sframe
from unwindkit.converters.sframe.dump import sframe_json, sframe_text
from unwindkit.schemas import engine
from unwindkit.schemas.section import Section
from unwindkit.schemas.sframe import SframeSection

from ..conftest import engine_in_use
from ..project.test_fuzz import ADDRESSES, SEEDS, mutated
from ..support.answers import answers_of_fres, answers_of_rows
from ..support.made.sframe_seeds import ADDRESS, sframe_seeds

EVERY_SEED = pytest.mark.parametrize("name", sframe_seeds())


def looked_up(data: bytes, address: int) -> object:
    """The FRE at PCs around each function of the original section, at any section address."""
    at = find_fres(data, pcs_of(address), address)
    return [column.tolist() for column in (at.fde, at.found, at.fres.start, at.fres.info, at.fres.words)]


def pcs_of(address: int) -> list[int]:
    """PCs around functions and rows."""
    starts = (0x1000, 0x2000, 0x3000, 0x30000)
    steps = (-1, 0, 1, 4, 8, 11, 12, 16, 0x3F, 0x40, 0x3FF, 0x1FFFF)
    return [(address - ADDRESS + start + step) % (1 << 64) for start in starts for step in steps]


READERS: tuple[Callable[[bytes, int], object], ...] = (
    lambda data, address: by_pc(from_sframe(data, address)),
    looked_up,
    lambda data, address: b"".join(sframe_text(Section.of(".sframe", data, address))),
    lambda data, address: [list(part) for part in sframe_json(Section.of(".sframe", data, address))],
)


def agree(data: bytes, address: int) -> list[bool]:
    """Each reader gives the same result on both engines, and raises nothing but ParseError; returns the readers that
    succeeded."""
    could = []
    for read in READERS:
        outcomes = []
        for name in ("pure", "compiled"):
            with engine_in_use(name):
                try:
                    outcomes.append((True, read(data, address)))
                except ParseError as error:
                    assert error.section == ".sframe"
                    outcomes.append((False, str(error)))
        assert outcomes[0] == outcomes[1], data.hex()
        could.append(outcomes[0][0])
    return could


def assert_look_ups_agree(data: bytes, address: int) -> bool:
    """The table, if any, answers as the bytes do, unless two functions share a PC; returns whether it was compared."""
    table = from_sframe(data, address)
    functions = table.functions
    order = np.argsort(functions.start, kind="stable")
    order = order[functions.size[order] > 0]
    start, end = functions.start[order], (functions.start + functions.size)[order]
    if (end[:-1] > start[1:]).any():
        return False
    pcs = pcs_of(address)
    at, rows_at = find_fres(data, pcs, address), find_rows(table, pcs)
    assert at.fde.tolist() == rows_at.function.tolist(), data.hex()
    ours = answers_of_fres(at)
    assert ours.differences(answers_of_rows(table, rows_at, ours.fields["info"]), pcs) == [], data.hex()
    return True


@EVERY_SEED
def test_seeds_are_sound_and_have_what_is_to_be_spoilt(name: str) -> None:
    data = sframe_seeds()[name]
    assert agree(data, ADDRESS) == [True] * len(READERS)
    assert assert_look_ups_agree(data, ADDRESS)
    table = from_sframe(data, ADDRESS)
    assert table.functions.start.tolist() == [0x1000, 0x2000, 0x3000, 0x30000]
    assert table.functions.repetition.tolist() == [0, 0, 0, 16]
    found = find_fres(data, pcs_of(ADDRESS), ADDRESS)
    assert set(found.columns.widths().tolist()) == {1, 2, 4}
    assert f"{found.columns.version!r}".partition(":")[0].endswith(name[:2])


@EVERY_SEED
@pytest.mark.parametrize("seed", SEEDS)
def test_mutated_sframe(seed: int, name: str) -> None:
    data = sframe_seeds()[name]
    random_ = random.Random(f"sframe {name} {seed}")
    read = compared = 0
    for _ in range(150):
        changed, address = mutated(random_, data), random_.choice(ADDRESSES)
        made, *_ = agree(changed, address)
        read += made
        compared += made and assert_look_ups_agree(changed, address)
        section = Section.of(".sframe", changed)
        try:
            found, _ = engine.parse(SframeSection, section, 0, len(section))
        except ParseError:
            continue
        assert engine.build(found) == changed
    # A fuzzer that only ever sees errors, or none, tests nothing.
    assert 10 < read < 130
    assert compared > 5


@EVERY_SEED
def test_sframe_cut_anywhere(name: str) -> None:
    data = sframe_seeds()[name]
    for size in range(len(data)):
        assert agree(data[:size], ADDRESS)[0] is False
