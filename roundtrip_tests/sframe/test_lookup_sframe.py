"""Look-ups in `.sframe` sections made by hand: PCMASK, gaps, order, ends of the address space; what is refused.

Strategy: the expected FDE and start of its FRE are worked out from the bytes, PC by PC.
"""

from __future__ import annotations

import numpy as np
import pytest
from unwindkit import ParseError, by_pc, find_fres, find_rows, from_sframe

from ..support.handmade import octets, place
from ..support.tables import MAX_ADDRESS
from ..table.test_lookup import NOWHERE, found_in

pytestmark = pytest.mark.usefixtures("kernels")


def fres_found(data: bytes, *pcs: int, address: int = 0) -> list[tuple[int, int | None]]:
    """For each PC the FDE and the start of the FRE."""
    at = find_fres(data, pcs, address)
    starts = np.where(at.found, at.fres.start.astype(np.int64), -1).tolist()
    return [(fde, None if start < 0 else start) for fde, start in zip(at.fde.tolist(), starts, strict=True)]


# A block of 16 bytes, at 0x1004, which is not a multiple of 16.
MASKED = octets("""
    e2de 02 05 03 00 f8 00  01000000 02000000 06000000 00000000 14000000
    e80f0000 28000000 00000000 02000000 10 10 0000   # 0x1004, two and a half blocks
    00 03 08
    0b 03 10
""")
# Not flagged as sorted, starts relative to the section; FREs from +2 on.
UNSORTED = octets("""
    e2de 02 00 03 00 f8 00  05000000 02000000 06000000 00000000 64000000
    00200000 08000000 00000000 02000000 00 00 0000   # FDE[0] 0x2000
    00100000 00000000 00000000 02000000 00 00 0000   # FDE[1] 0x1000: no bytes
    00100000 08000000 00000000 02000000 00 00 0000   # FDE[2] 0x1000
    00100000 00000000 00000000 02000000 00 00 0000   # FDE[3] 0x1000: no bytes
    00180000 08000000 00000000 00000000 00 00 0000   # FDE[4] 0x1800: no FREs
    02 03 08
    04 03 10
""")
EMPTY = octets("e2de 02 05 03 00 f8 00  00000000 00000000 00000000 00000000 00000000")
# FDE[0] at the section, which is near the end of the address space; FDE[1] at 0, 16 bytes further.
AT_THE_ENDS = octets("""
    e2de 02 01 03 00 f8 00  02000000 01000000 03000000 00000000 28000000
    00000000 0f000000 00000000 01000000 00 00 0000
    10000000 01000000 00000000 01000000 00 00 0000
    00 03 08
""")


def test_pcmask_is_the_remainder_of_the_distance_from_the_start() -> None:
    expected = [(0, 0)] * 11 + [(0, 11)] * 5
    assert fres_found(MASKED, *range(0x1004, 0x102C)) == [*expected, *expected, *expected[:8]]
    assert fres_found(MASKED, 0x1003, 0x102C) == [NOWHERE, NOWHERE]


def test_fdes_in_any_order_with_a_gap_before_the_first_fre() -> None:
    assert fres_found(UNSORTED, 0x1FFF, 0x2000, 0x2001, 0x2002, 0x2003, 0x2004, 0x2007, 0x2008) == [
        *(NOWHERE, (0, None), (0, None), (0, 2), (0, 2), (0, 4), (0, 4), NOWHERE)
    ]
    # Empty functions, before and after the one with the same start.
    assert fres_found(UNSORTED, 0xFFF, 0x1000, 0x1002, 0x1007, 0x1008) == [
        *(NOWHERE, (2, None), (2, 2), (2, 4), NOWHERE)
    ]
    assert fres_found(UNSORTED, 0x1800, 0x1807, 0x1808) == [(4, None), (4, None), NOWHERE]


def test_fre_that_is_not_found_is_zeros() -> None:
    at = find_fres(UNSORTED, [0x2000, 0x2004])
    assert (at.fde.tolist(), at.found.tolist()) == ([0, 0], [False, True])
    assert (at.fres.start.tolist(), at.fres.info.tolist()) == ([0, 4], [0, 3])
    assert at.fres.words.tolist() == [[0, 0, 0], [16, 0, 0]]


def test_pcs_at_both_ends_of_the_address_space() -> None:
    address = MAX_ADDRESS - 15
    # FDE[0] ends with the last address that a function can hold.
    assert fres_found(AT_THE_ENDS, address, MAX_ADDRESS - 1, MAX_ADDRESS, 0, 1, address=address) == [
        *((0, 0), (0, 0), NOWHERE, (1, 0), NOWHERE)
    ]
    assert found_in(from_sframe(AT_THE_ENDS, address), address, MAX_ADDRESS - 1, MAX_ADDRESS, 0, 1) == [
        *((0, 0), (0, 0), NOWHERE, (1, 0), NOWHERE)
    ]


def test_rules_by_pc_of_a_last_block_at_the_end_of_the_address_space() -> None:
    start = MAX_ADDRESS - 40
    rules = by_pc(from_sframe(MASKED, start - 0x1004))
    found = [(begin - start, end - start) for begin, end in zip(rules.start.tolist(), rules.end.tolist(), strict=True)]
    assert found == [(0, 11), (11, 16), (16, 27), (27, 32), (32, 40)]


def test_section_without_fdes() -> None:
    assert fres_found(EMPTY, 0, 0x1000, MAX_ADDRESS) == [NOWHERE] * 3
    assert fres_found(EMPTY) == []


def test_fdes_that_overlap() -> None:
    """An unwinder uses the last FDE that starts before the PC, and no other FDE that contains it."""
    data = octets("""
        e2de 02 01 03 00 f8 00  02000000 01000000 03000000 00000000 28000000
        00100000 20000000 00000000 01000000 00 00 0000   # FDE[0] 0x1000..0x1020
        08100000 08000000 00000000 01000000 00 00 0000   # FDE[1] 0x1008..0x1010
        00 03 08
    """)
    assert fres_found(data, 0x1007, 0x1008, 0x100F, 0x1010, 0x101F) == [(0, 0), (1, 0), (1, 0), NOWHERE, NOWHERE]
    # In the table, all of them belong to the function that starts first.
    assert found_in(from_sframe(data), 0x1007, 0x1008, 0x100F, 0x1010, 0x101F) == [(0, 0)] * 5


@pytest.mark.parametrize(
    "pcs",
    [
        0x1010,
        [0x1010],
        (0x1010,),
        range(0x1010, 0x1011),
        np.uint64(0x1010),
        np.array(0x1010),
        np.array([0x1010], np.int32),
        np.array([0x1010, 0], ">u8")[:1],
        np.array([0x1010, 0, 0], np.uint64)[::3],
    ],
    ids=repr,
)
def test_pcs_may_be_given_in_any_way(pcs: object) -> None:
    at, rows = find_fres(MASKED, pcs), find_rows(from_sframe(MASKED), pcs)
    assert (at.fde.tolist(), at.found.tolist(), at.fres.start.tolist()) == ([0], [True], [11])
    assert (rows.function.tolist(), rows.row.tolist()) == ([0], [1])


@pytest.mark.parametrize("pcs", [[], np.zeros(0, np.uint64), np.zeros(0, np.int8)], ids=repr)
def test_no_pcs_have_no_answers(pcs: object) -> None:
    at, rows = find_fres(MASKED, pcs), find_rows(from_sframe(MASKED), pcs)
    assert [len(column) for column in (at.fde, at.found, at.fres.start, at.fres.info, at.fres.words)] == [0] * 5
    assert (len(rows.function), len(rows.row)) == (0, 0)


def test_pcs_given_are_left_as_they_are_and_answered_in_their_order() -> None:
    pcs = np.array([0x100F, 0xFFFF, 0x1004, 0x100F], np.uint64)
    kept = pcs.copy()
    assert find_fres(MASKED, pcs).fres.start.tolist() == [11, 0, 0, 11]
    assert find_rows(from_sframe(MASKED), pcs).row.tolist() == [1, -1, 0, 1]
    assert pcs.tolist() == kept.tolist()


# --- what is refused ------------------------------------------------------------------------------------------

TWO = octets("""
    e2de 02 05 03 00 f8 00  02000000 02000000 06000000 00000000 28000000
    e80f0000 28000000 00000000 02000000 10 10 0000   # FDE[0] 0x1004 from the section
    fc0f0000 08000000 00000000 02000000 00 00 0000   # FDE[1] 0x102c
    00 03 08
    0b 03 10
""")
REFUSED = [
    pytest.param(3, "0d", 3, "header.flags", id="a flag that is none"),
    pytest.param(5, "10", 5, "header.cfa_fixed_fp_offset", id="a fixed FP offset"),
    pytest.param(6, "f0", 6, "header.cfa_fixed_ra_offset", id="another fixed RA offset"),
    pytest.param(45, "00", 28, "FDE[0].func_rep_size", id="a block of no bytes"),
    pytest.param(48, "d30f0000", 48, "FDE[1].func_start_address", id="a start below the one before"),
    pytest.param(52, "ffffffff", 48, "FDE[1].func_size", id="a function past the address space"),
]


@pytest.mark.parametrize(("where", "text", "offset", "record"), REFUSED)
def test_what_no_pc_can_be_looked_up_by_is_refused_whatever_is_asked(
    where: int, text: str, offset: int, record: str
) -> None:
    address = 0xFFFFFFFF00000000
    assert fres_found(TWO, address + 0x1004, address + 0x102C, address=address) == [(0, 0), (1, 0)]
    new = octets(text)
    data = TWO[:where] + new + TWO[where + len(new) :]
    with pytest.raises(ParseError) as caught:
        find_fres(data, [], address)
    assert place(caught.value) == (".sframe", offset, record)
    with pytest.raises(ParseError) as of_table:
        from_sframe(data, address)
    assert str(of_table.value) == str(caught.value)


@pytest.mark.parametrize(
    ("text", "offset", "reason"),
    [
        ("63", 71, "3 is not a valid size of stack offsets"),
        ("01", 71, "this version does not allow this number of data words"),
        ("09", 71, "the record ends inside a value"),
        ("43", 71, "the record ends inside a value"),
    ],
)
def test_an_fre_that_lies_is_refused_where_a_pc_asks_for_it(text: str, offset: int, reason: str) -> None:
    # The second FRE is the last of both FDEs; a PC before 11 in FDE[0] reads it, too, as the first might extend
    # further.
    data = TWO[:72] + octets(text) + TWO[73:]
    one_fre = data[:40] + octets("01000000") + data[44:]
    assert fres_found(one_fre, 0x1004, 0x1013) == [(0, 0), (0, 0)]
    for pcs, fde in (([0x1004, 0x102C], 1), ([0xFFF, 0x1030], 1)):
        with pytest.raises(ParseError) as caught:
            find_fres(one_fre, pcs)
        assert place(caught.value) == (".sframe", offset, f"FDE[{fde}].FRE")
        assert caught.value.reason == reason
    with pytest.raises(ParseError, match=reason):
        find_fres(data, 0x1004)


@pytest.mark.parametrize("address", [-1, 1 << 64])
def test_section_address_that_is_none(address: int) -> None:
    with pytest.raises(ParseError, match="is not an address"):
        find_fres(TWO, [0x1004], address)
