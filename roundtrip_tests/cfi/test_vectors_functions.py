"""Worked examples of where rows are in their functions, and of the fields of a CIE and an FDE besides instructions."""

from __future__ import annotations

import pytest
from unwindkit import FunctionFlag, ParseError
from unwindkit.converters.rules import RaState, RuleKind
from unwindkit.converters.table.model import RegisterRule
from unwindkit.schemas.pointers import DW_EH_PE

from ..support.handmade import (
    ENCODED_CIE,
    PLAIN_CIE,
    Fde,
    at,
    debug_frame_table,
    eh_frame,
    entry,
    octets,
    on,
    only,
    place,
    row,
    rows_of,
    sp,
    starts,
    table_of_bytes,
)

pytestmark = pytest.mark.usefixtures("kernels")

# Code alignment factor 4, data alignment factor -8: swapped, every number below is another.
FACTORS_CIE = "01 00 04 78 10"


@pytest.mark.parametrize(
    ("advance", "delta"),
    [
        ("41", 4),
        ("7f", 252),
        ("02 80", 4 * 0x80),
        ("03 0180", 4 * 0x8001),
        ("04 01000080", 4 * 0x80000001),
        ("1d 0100000001000000", 4 * 0x100000001),  # MIPS_advance_loc8
        ("01 0020000000000000", 0x1000),  # set_loc 0x2000, the function's start is 0x1000
    ],
)
def test_advance(advance: str, delta: int) -> None:
    rows = rows_of(f"0c 07 08  {advance}  0e 10", FACTORS_CIE, size=1 << 40)
    assert rows == (row(0, sp(8)), row(delta, sp(16)))


def test_a_row_that_starts_where_another_does_takes_its_place() -> None:
    assert rows_of("0c 07 08  40  0e 10  02 00  0e 18  41  0e 20  03 0000  0e 28") == (row(0, sp(24)), row(1, sp(40)))


def test_code_factor_0_never_advances() -> None:
    assert rows_of("0c 07 08  41  0e 10", "01 00 00 78 10") == (row(0, sp(16)),)


def test_rows_at_or_past_the_end_are_cut() -> None:
    instructions = "0c 07 08  44  0e 10  44  0e 18  44  0e 20"
    assert starts(rows_of(instructions, size=13)) == [0, 4, 8, 12]
    assert starts(rows_of(instructions, size=12)) == [0, 4, 8]
    assert starts(rows_of(instructions, size=5)) == [0, 4]
    assert starts(rows_of(instructions, size=4)) == [0]
    assert starts(rows_of(instructions, size=0)) == [0]


def test_cutting_one_function_leaves_its_twin_alone() -> None:
    tail = "0c 07 08  44  0e 10  44  0e 18"
    table = table_of_bytes(eh_frame(PLAIN_CIE, Fde(0x1000, 16, tail), Fde(0x2000, 8, tail), Fde(0x3000, 16, tail)))
    assert [starts(function.rows) for function in table] == [[0, 4, 8], [0, 4], [0, 4, 8]]
    assert table.functions.run.tolist() == [0, 1, 0]


def test_set_loc_relative_to_its_own_place() -> None:
    # CIE 20 bytes; FDE: length, pointer, location, range, augmentation length: instructions at 37.
    cie = octets(f"10000000 00000000 {ENCODED_CIE} {DW_EH_PE.pcrel | DW_EH_PE.sdata4:02x} 000000")
    fde = entry(octets("18000000  e4ffffff  00010000  00  0c0708  01 d7ffffff  0e10"))
    # Start: 0x1001c - 0x1c = 0x10000. The operand is at 20 + 4 + 4 + 4 + 4 + 1 + 3 + 1 = 0x29: 0x10029 - 0x29.
    function = only(table_of_bytes(cie + fde, address=0x10000))
    assert function.start == 0x10000
    assert function.rows == (row(0, sp(16)),)
    fde = entry(octets("18000000  e4ffffff  00010000  00  0c0708  01 17000000  0e10"))
    assert only(table_of_bytes(cie + fde, address=0x10000)).rows == (row(0, sp(8)), row(0x40, sp(16)))


def test_set_loc_wraps_with_the_address_size() -> None:
    # 32-bit addresses; the section is at 0xf0000000, the code at 0x10000000: 0x20000000 bytes further, modulo 2**32.
    cie = octets(f"10000000 00000000 {ENCODED_CIE} {DW_EH_PE.pcrel | DW_EH_PE.udata4:02x} 000000")
    fde = entry(octets("18000000  e4ffff1f  00010000  00  0c0708  01 17000020  0e10"))
    table = table_of_bytes(cie + fde, "x86", address=0xF0000000, address_size=4)
    assert only(table).start == 0x10000000
    assert only(table).rows == (row(0, sp(8)), row(0x40, sp(16)))


def test_set_loc_to_the_functions_own_start() -> None:
    assert rows_of("0c 07 08  01 0010000000000000  0e 10") == (row(0, sp(16)),)
    for backwards in ("01 ff0f000000000000", "41  01 0010000000000000"):
        with pytest.raises(ParseError, match="the location moves backwards"):
            rows_of(f"0c 07 08  {backwards}  0e 10")


def test_equal_bytes_share_a_run_unless_set_loc_names_an_address() -> None:
    shared, absolute = "0c 07 08  41  0e 10", "0c 07 08  01 0420000000000000  0e 10"
    fdes = (Fde(0x1000, 16, shared), Fde(0x2000, 16, absolute), Fde(0x2004, 16, absolute), Fde(0x3000, 32, shared))
    table = table_of_bytes(eh_frame(PLAIN_CIE, *fdes))
    assert [starts(function.rows) for function in table] == [[0, 1], [0, 4], [0], [0, 1]]
    assert table.functions.run[0] == table.functions.run[3]
    assert len(set(table.functions.run.tolist())) == 3


def test_equal_bytes_of_different_cies_do_not_share() -> None:
    one, other = (
        eh_frame(PLAIN_CIE, Fde(0x1000, 16, "0c0708 8602")),
        eh_frame("01 00 01 7c 10", Fde(0x2000, 16, "0c0708 8602")),
    )
    table = table_of_bytes(one + other)
    assert [function.rows[0].registers for function in table] == [(at(6, -16),), (at(6, -8),)]
    twice = table_of_bytes(one + one)
    assert twice.functions.run.tolist() == [0, 0]  # equal CIEs at two offsets


@pytest.mark.parametrize("architecture", ["aarch64", "x86_64"])
def test_negate_ra_state_is_saved_by_remember_and_ignored_elsewhere(architecture: str) -> None:
    rows = rows_of("0c 1f 00  41  2d  0a  41  2d  41  0b", "01 00 01 78 1e", architecture=architecture)
    states = [RaState.PLAIN, RaState.SIGNED, RaState.PLAIN, RaState.SIGNED]
    assert [row.ra_state for row in rows] == (states if architecture == "aarch64" else [RaState.PLAIN] * 4)


def test_initial_instructions_may_sign_the_return_address() -> None:
    rows = rows_of("41  2d", "01 00 01 78 1e  0c 1f 00  2d", architecture="aarch64")
    assert [row.ra_state for row in rows] == [RaState.SIGNED, RaState.PLAIN]


@pytest.mark.parametrize("instructions", ["2d 41 2c", "2c 41 2d"])
def test_the_two_ways_to_sign_do_not_mix(instructions: str) -> None:
    with pytest.raises(
        ParseError, match="the return address is signed with one scheme and changed with the other"
    ) as caught:
        rows_of(instructions, "01 00 01 78 1e", architecture="aarch64")
    assert place(caught.value) == (".eh_frame", 39, "FDE[0].instructions")


def test_negate_ra_state_with_pc() -> None:
    rows = rows_of("0c 1f 00  41  2c  41  2c", "01 00 01 78 1e", architecture="aarch64")
    assert [row.ra_state for row in rows] == [RaState.PLAIN, RaState.SIGNED_WITH_PC, RaState.PLAIN]


# As in libgcc (unwind-dw2.c): %l0 to %i7, one word each, from the CFA upwards.
WINDOW = tuple(at(16 + index, 8 * index) for index in range(16))


def test_window_save_gives_sixteen_rules_and_remember_saves_them() -> None:
    """What GCC emits for `save`: def_cfa_register r30, GNU_window_save, register r15 in r31."""
    # remember_state; restore r16, undefined r17; restore_state
    text = "41 0d 1e 2d 09 0f 1f  0a  41 d0 07 11  41 0b"
    rows = rows_of(text, "01 00 04 78 0f  0c 0e ff0f", architecture="sparc64")
    inside, kept = on(30, 2047), RegisterRule(15, RuleKind.REGISTER, 31)
    assert rows == (
        row(0, on(14, 2047)),
        row(4, inside, kept, *WINDOW),
        row(8, inside, kept, RegisterRule(17, RuleKind.UNDEFINED), *WINDOW[2:]),
        row(12, inside, kept, *WINDOW),
    )


def test_window_save_replaces_rules_and_counts_in_addresses() -> None:
    # offset r17 at CFA-16, before it; offset r31 at CFA-8, after it
    rows = rows_of("0c 0e ff0f  91 02  2d  9f 01", "01 00 01 78 0f", architecture="sparc64")
    assert rows == (row(0, on(14, 2047), *WINDOW[:15], at(31, -8)),)
    cie = octets("0c000000 ffffffff 04 00 04 00 01 7c 0f 00")
    fde = octets("10000000 00000000 00100000 10000000 0c 0e 00 2d")
    table = debug_frame_table(cie + fde, "sparc64", "little", 4)
    assert only(table).rows == (row(0, on(14, 0), *(at(16 + index, 4 * index) for index in range(16))),)


@pytest.mark.parametrize("architecture", ["x86_64", "aarch64", "mips64"])
def test_window_save_is_sparcs(architecture: str) -> None:
    assert [one.registers for one in rows_of("0c 1f 00  41  2d", architecture=architecture)] == [(), ()]


def test_personality_and_lsda_are_resolved_from_their_own_places() -> None:
    data = octets("""
        15000000 00000000 01 7a504c5200 01 78 10 07  # CIE "zPLR", seven bytes of augmentation data
        9b 10000000  # at 19: indirect pcrel sdata4, 0x10000 + 19 + 16
        1b 1b
        11000000 1d000000
        e0ffffff 20000000  # at 33: 0x10000 + 33 - 32
        04 80000000  # at 42: 0x10000 + 42 + 128
        11000000 32000000
        2b000000 20000000
        04 00000000  # no LSDA
    """)
    with_lsda, without = table_of_bytes(data, address=0x10000)
    assert with_lsda.start == 0x10001
    assert with_lsda.personality_encoding == 0x9B  # the cell at that address holds the routine's
    assert with_lsda.personality == 0x10000 + 19 + 16
    assert with_lsda.lsda == 0x10000 + 42 + 128
    assert with_lsda.flags == FunctionFlag.HAS_LSDA
    assert (without.lsda, without.flags, without.personality) == (0, FunctionFlag(0), 0x10000 + 19 + 16)


def test_lsda_may_count_from_its_function() -> None:
    data = octets("""
        0f000000 00000000 01 7a4c00 01 78 10 01 43 0000  # CIE "zL", funcrel udata4
        19000000 17000000
        0040000000000000 2000000000000000
        04 30000000
    """)
    assert only(table_of_bytes(data)).lsda == 0x4030


@pytest.mark.parametrize(
    ("letter", "flag"),
    [("53", FunctionFlag.SIGNAL_FRAME), ("42", FunctionFlag.PAUTH_B_KEY), ("47", FunctionFlag.MEMORY_TAGGING)],
)
def test_flag_of_a_cie(letter: str, flag: FunctionFlag) -> None:
    table = table_of_bytes(eh_frame(f"01 7a {letter} 00 01 78 10 00", Fde(0x1000, 16, "00")), "aarch64")
    assert only(table).flags == flag


def test_segment_selector_and_return_column() -> None:
    cie = entry(octets("ffffffff 04 00 08 02 01 78 8001"))  # 8-byte addresses, 2-byte selectors, return address in r128
    fde = entry(octets("00000000 3412 0010000000000000 1000000000000000"))
    function = only(debug_frame_table(cie + fde, "x86_64", "little", 8))
    assert (function.segment, function.return_column, function.start) == (0x1234, 128, 0x1000)


def test_64_bit_dwarf() -> None:
    cie = octets("ffffffff 0900000000000000 00000000 01 00 01 78 10")
    fde = octets("ffffffff 1700000000000000 21000000 0010000000000000 2000000000000000 0c0708")
    assert only(table_of_bytes(cie + fde)).rows == (row(0, sp(8)),)


@pytest.mark.parametrize("size", [31, 32, 33])
def test_many_rows_expressions_rules_and_states_are_all_kept(size: int) -> None:
    """The kernel's columns start at 1024 rows and rules, 64 expressions, 16 states: this outgrows each of them."""
    deep = "0a 41 8601" * size + "0b 41" * size
    assert len(rows_of(deep, size=1 << 20)) == 2 * size + 1
    expressions = "".join(f"10 06 02 08{number:02x} 41" for number in range(size * 4))
    values = [row.registers[0].value for row in rows_of(expressions, size=1 << 20)]
    assert values == [bytes([8, number]) for number in range(size * 4)] + [bytes([8, size * 4 - 1])]
    many = "".join(f"86 {number:02x} 41" for number in range(1, 100)) * size
    rows = rows_of(many, size=1 << 20)
    assert [row.registers for row in rows[:-1]] == [(at(6, -8 * number),) for number in range(1, 100)] * size
    assert starts(rows) == list(range(99 * size + 1))


def test_fault_that_meets_a_full_column_is_where_the_instruction_is() -> None:
    # 64 expressions fill the column; the 65th reaches past the end.
    with pytest.raises(ParseError) as caught:
        rows_of("10 06 01 30" * 64 + "10 06 05 30")
    assert place(caught.value) == (".eh_frame", 13 + 24 + 4 * 64, "FDE[0].instructions")
    # 1024 rows fill theirs; then an advance is truncated.
    with pytest.raises(ParseError) as caught:
        rows_of("41" * 1024 + "04 0100", size=1 << 20)
    assert place(caught.value) == (".eh_frame", 13 + 24 + 1024, "FDE[0].instructions")
