"""Hostile `.sframe` sections of version 3: a ParseError with section, offset and record in every reader.

Strategy: two sections made by hand, one with FLEX words, of which each case changes some bytes; both engines.
"""

from __future__ import annotations

import pytest
from unwindkit import ParseError, by_pc, find_fres, from_sframe
from unwindkit.converters.rules import RuleKind
from unwindkit.converters.table.model import FunctionFlag, RegisterRule
from unwindkit.schemas import engine
from unwindkit.schemas.section import Section
from unwindkit.schemas.sframe import SframeSection

from ..support.handmade import NO_CFA, at, octets, on, place, row, sp, starts

pytestmark = pytest.mark.usefixtures("kernels")

# One function of 16 bytes at 0x1000 (section at 0) with two FREs.
PLAIN = octets("""
    e2de 03 05         # 0: magic, version, flags: sorted, PC-relative
    03 00 f8 00        # 4: AMD64, fixed FP and RA offsets, no auxiliary header
    01000000           # 8: num_fdes
    02000000           # 12: num_fres
    0b000000           # 16: fre_len
    00000000           # 20: fdeoff
    10000000           # 24: freoff
    e40f000000000000   # 28: func_start_offset
    10000000           # 36: func_size
    00000000           # 40: func_start_fre_off
    0200 00 00 00      # 44: func_num_fres, func_info, func_info2, func_rep_size
    00 03 08           # 49
    04 03 10           # 52
""")
# The same, flexible: a CFA in R10, then RSP + 16 with FP in memory at RBP + 0.
FLEX = (
    PLAIN[:16]
    + octets("10000000")
    + PLAIN[20:47]
    + octets("""
    01 00                    # 47: func_info2, func_rep_size
    00 04 51 00              # 49
    04 0a 39 10 00 33 00     # 53
""")
)
FRE_AT = 49


def changed(data: bytes, offset: int, text: str) -> bytes:
    """A section with some bytes replaced."""
    new = octets(text)
    return data[:offset] + new + data[offset + len(new) :]


def refused(data: bytes) -> ParseError:
    """The error that reading gives, which a look-up of the function's last PC gives as well."""
    with pytest.raises(ParseError) as caught:
        from_sframe(data)
    with pytest.raises(ParseError) as looked_up:
        find_fres(data, [0x100F])
    assert (place(looked_up.value), looked_up.value.reason) == (place(caught.value), caught.value.reason)
    return caught.value


def test_the_sections_that_the_cases_change_are_good() -> None:
    (function,) = from_sframe(PLAIN)
    assert function.rows == (row(0, sp(8), at(16, -8)), row(4, sp(16), at(16, -8)))
    (function,) = from_sframe(FLEX)
    in_memory = RegisterRule(6, RuleKind.EXPRESSION, bytes([0x76, 0]))  # DW_OP_breg6 0
    assert function.rows == (row(0, on(10, 0), at(16, -8)), row(4, sp(16), in_memory, at(16, -8)))
    for data, words in ((PLAIN, [0x10, 0, 0]), (FLEX, [0x39, 0x10, 0, 0x33, 0, 0])):
        found = find_fres(data, [0x100F])
        assert (found.fde.tolist(), found.found.tolist(), found.fres.words.tolist()) == ([0], [True], [words])


@pytest.mark.parametrize("size", range(len(FLEX)))
def test_section_cut_anywhere(size: int) -> None:
    error = refused(FLEX[:size])
    expected = (
        "preamble" if size < 4 else "header" if size < 28 else "header.num_fdes" if size < 44 else "header.fre_len"
    )
    assert place(error) == (".sframe", 0, expected)


HEADERS = [
    # A flag of version 2, which 3 does not have; and unknown flags.
    (3, "07", 3, "header.flags", "has the bits 0x2, which version 3 does not define"),
    (3, "0d", 3, "header.flags", "has the bits 0x8, which version 3 does not define"),
    (3, "85", 3, "header.flags", "has the bits 0x80, which version 3 does not define"),
    (4, "04", 4, "header.abi_arch", "is the ABI of s390x, but the section is little-endian"),
    (5, "f0", 5, "header.cfa_fixed_fp_offset", "is -16, expected 0 for x86_64"),
    (6, "f0", 6, "header.cfa_fixed_ra_offset", "is -16, expected -8 for x86_64"),
    (8, "02000000", 0, "header.num_fdes", "the sub-section ends at 0x3c, the section at 0x37"),
    # 16 * 0x10000001 is 16 modulo 2**32
    (8, "01000010", 0, "header.num_fdes", "the sub-section ends at 0x10000002c, the section at 0x37"),
    (16, "0c000000", 0, "header.fre_len", "the sub-section ends at 0x38, the section at 0x37"),
    (24, "ffffffff", 0, "header.fre_len", "the sub-section ends at 0x100000026, the section at 0x37"),
]


@pytest.mark.parametrize(("where", "text", "offset", "record", "reason"), HEADERS)
def test_header_that_lies(where: int, text: str, offset: int, record: str, reason: str) -> None:
    error = refused(changed(PLAIN, where, text))
    assert place(error) == (".sframe", offset, record)
    assert error.reason == reason


PAST = "is past the end of the FRE sub-section of 0xb bytes"
NO_TYPE = "unknown FDE type"
FDES = [
    pytest.param(40, "07000000", "func_start_fre_off", PAST, id="attribute half outside"),
    pytest.param(40, "0b000000", "func_start_fre_off", PAST, id="attribute at the end"),
    pytest.param(40, "fbffffff", "func_start_fre_off", PAST, id="attribute whose end wraps"),
    pytest.param(40, "ffffffff", "func_start_fre_off", PAST, id="attribute far out"),
    pytest.param(
        16, "05000000", "func_start_fre_off", "is past the end of the FRE sub-section of 0x5 bytes", id="no FREs"
    ),
    pytest.param(46, "03", "func_info.fretype", "unknown FRE type", id="FRE type 3"),
    pytest.param(46, "0f", "func_info.fretype", "unknown FRE type", id="FRE type 15"),
    pytest.param(46, "10", "func_rep_size", "the repetitive block has no bytes", id="PCMASK without a block"),
    *(pytest.param(47, f"{kind:02x}", "func_info2.fde_type", NO_TYPE, id=f"FDE type {kind}") for kind in range(2, 32)),
]


@pytest.mark.parametrize(("where", "text", "field", "reason"), FDES)
def test_fde_that_lies(where: int, text: str, field: str, reason: str) -> None:
    error = refused(changed(PLAIN, where, text))
    assert place(error) == (".sframe", 28, f"FDE[0].{field}")
    assert error.reason == reason


def test_attribute_that_ends_the_sub_section_is_that_of_an_outermost_frame() -> None:
    # The sub-section's last five bytes: no FREs, of type 0.
    data = changed(PLAIN[:49] + octets("ff 0000 00 00 00"), 40, "06000000")
    data = data[:16] + octets("0b000000") + data[20:]
    table = from_sframe(data)
    assert [function.rows for function in table] == [(row(0, NO_CFA, RegisterRule(16, RuleKind.UNDEFINED)),)]
    found = find_fres(data, [0x1000, 0x100F])
    assert found.found.tolist() == [True, True]
    assert found.fres.info.tolist() == [0, 0]


def test_function_that_reaches_past_the_address_space() -> None:
    address = 0xFFFFFFFFFFFFFFF0 - 0x1000
    assert from_sframe(changed(PLAIN, 36, "0f000000"), address).function(0).start == 0xFFFFFFFFFFFFFFF0
    for read in (from_sframe, lambda data, at: find_fres(data, [0], at)):
        with pytest.raises(ParseError) as caught:
            read(PLAIN, address)
        assert place(caught.value) == (".sframe", 28, "FDE[0].func_size")


CUT = "the record ends inside a value"
WORDS_BEYOND = "this version does not allow this number of data words"
FRES = [
    pytest.param(PLAIN, 44, "0300", 55, CUT, id="one FRE more than there is"),
    # A start of 0x300, and 08 as the info byte: four words, three of which are there.
    pytest.param(PLAIN, 46, "01", 49, CUT, id="wider starts than written"),
    pytest.param(PLAIN, 50, "09", 55, CUT, id="four words, which take the next FRE's bytes, DEFAULT"),
    pytest.param(PLAIN, 50, "1f", 49, CUT, id="fifteen words, DEFAULT"),
    pytest.param(FLEX, 54, "0e", 53, WORDS_BEYOND, id="seven words, FLEX"),
    pytest.param(FLEX, 54, "1e", 53, WORDS_BEYOND, id="fifteen words, FLEX"),
    pytest.param(PLAIN, 50, "63", 49, "3 is not a valid size of stack offsets", id="size 3"),
    pytest.param(PLAIN, 53, "43", 52, CUT, id="word of four bytes in one"),
    pytest.param(FLEX, 50, "64", 49, "3 is not a valid size of stack offsets", id="size 3, FLEX"),
    pytest.param(FLEX, 54, "0c", 53, CUT, id="a sixth word that is not there, FLEX"),
]


@pytest.mark.parametrize(("data", "where", "text", "offset", "reason"), FRES)
def test_fre_that_lies(data: bytes, where: int, text: str, offset: int, reason: str) -> None:
    error = refused(changed(data, where, text))
    assert place(error) == (".sframe", offset, "FDE[0].FRE")
    assert error.reason == reason


@pytest.mark.parametrize(("where", "text"), [(52, "00"), (49, "05")])
def test_starts_that_do_not_ascend(where: int, text: str) -> None:
    # A look-up stops at the first FRE past its PC, and does not check the order.
    with pytest.raises(ParseError) as caught:
        from_sframe(changed(PLAIN, where, text))
    assert place(caught.value) == (".sframe", 52, "FDE[0].FRE")
    assert caught.value.reason == "the start address is not above that of the previous FRE"


FLEXIBLE = "0100 00 01 00 00 04 39 08"
ALONE = "the FLEX FRE has no offset word for the CFA"
NO_OFFSET = "a control word has no offset word"
NO_BASE = "the CFA has no base register"
# Attributes and FRE whose words the FDE's type has no meaning for; behind them stands a flexible FDE that is right.
WORDS = [
    pytest.param("0100 00 01 00  00 02 51", ALONE, id="FLEX, one"),
    pytest.param("0100 00 01 00  00 04 02 f8", NO_BASE, id="CFA from itself, in memory"),
    pytest.param("0100 00 01 00  00 04 00 f8", NO_BASE, id="CFA from itself"),
    pytest.param("0100 00 01 00  00 04 50 08", NO_BASE, id="register without its mark"),
    pytest.param("0100 00 01 00  00 06 51 08 02", NO_OFFSET, id="RA without its offset"),
    pytest.param("0100 00 01 00  00 08 51 08 00 33", NO_OFFSET, id="FP without its offset behind padding"),
    pytest.param("0100 00 01 00  00 0a 51 08 02 f0 33", NO_OFFSET, id="FP without its offset"),
]


def beside_flexible(body: str) -> bytes:
    """Functions at 0x1000, of `body`, and at 0x1010, of `FLEXIBLE`."""
    first, second = octets(body), octets(FLEXIBLE)
    sizes = [(len(first + second), 4), (0, 4), (32, 4), (0xFE4, 8), (16, 4), (0, 4), (0xFE4, 8), (16, 4)]
    numbers = b"".join(value.to_bytes(size, "little") for value, size in [(2, 4), (2, 4), *sizes, (len(first), 4)])
    return PLAIN[:8] + numbers + first + second


def test_flexible_function_beside_a_good_one_is_good() -> None:
    data = beside_flexible("0100 00 00 00 00 03 08")
    assert [(function.start, function.rows) for function in from_sframe(data)] == [
        (start, (row(0, sp(8), at(16, -8)),)) for start in (0x1000, 0x1010)
    ]


@pytest.mark.parametrize("body", ["0100 00 00 00  00 09 08 f0 f8 f0", "0100 00 00 00  00 0d 08 f0 f8 f0 01 01"])
def test_words_after_those_with_a_meaning_are_read_over(body: str) -> None:
    """Four and six words, DEFAULT: the CFA, FP, and others; the function after it has pairs."""
    first, second = from_sframe(beside_flexible(body))
    assert first.rows == (row(0, sp(8), at(6, -16), at(16, -8)),)
    assert second.rows == (row(0, sp(8), at(16, -8)),)
    assert find_fres(beside_flexible(body), [0x1000]).fres.words[0, :2].tolist() == [8, -16]


@pytest.mark.parametrize(("body", "reason"), WORDS)
def test_words_that_mean_nothing(body: str, reason: str) -> None:
    with pytest.raises(ParseError) as caught:
        from_sframe(beside_flexible(body))
    assert place(caught.value) == (".sframe", None, "FDE[0].FRE[0]")
    assert caught.value.reason == reason


@pytest.mark.parametrize(("body", "reason"), WORDS)
def test_words_that_mean_nothing_are_not_found(body: str, reason: str) -> None:
    # Also alone: a look-up that reaches no flexible function still knows the valid words of a plain one.
    for pcs in ([0x1000], [0x1010, 0x1000]):
        with pytest.raises(ParseError) as caught:
            find_fres(beside_flexible(body), pcs)
        assert (place(caught.value), caught.value.reason) == ((".sframe", None, "FDE[0].FRE"), reason)


TWO = octets("""
    e2de 03 05 03 00 f8 00  02000000 02000000 10000000 00000000 20000000
    e40f000000000000 10000000 00000000   # 28: 0x1000
    d30f000000000000 10000000 08000000   # 44: 0xfff
    0100 00 00 00  00 03 08
    0100 80 00 00  00 03 10
""")


def test_unsorted_under_the_sorted_flag() -> None:
    for read in (from_sframe, lambda data: find_fres(data, [0x1000])):
        with pytest.raises(ParseError) as caught:
            read(TWO)
        assert place(caught.value) == (".sframe", 44, "FDE[1].func_start_address")
        assert caught.value.reason == "is below the one before, but the section is flagged as sorted"
    unflagged = changed(TWO, 3, "04")
    assert [function.start for function in from_sframe(unflagged)] == [0x1000, 0xFFF]
    assert [function.flags for function in from_sframe(unflagged)] == [FunctionFlag(0), FunctionFlag.SIGNAL_FRAME]
    assert find_fres(unflagged, [0xFFE, 0xFFF, 0x1000, 0x1010]).fde.tolist() == [-1, 1, 0, -1]


def test_fdes_that_share_an_attribute_are_read_alike() -> None:
    data = changed(changed(TWO, 3, "04"), 56, "00000000")
    assert len({function.rows for function in from_sframe(data)}) == 1


def test_attribute_inside_another_s_fres_is_read_as_it_stands() -> None:
    # From byte 6: `03 08 01 00 80`: 0x803 FREs of FRE type 1.
    data = changed(changed(TWO, 3, "04"), 56, "06000000")
    for read in (from_sframe, lambda data: find_fres(data, [0xFFF])):
        with pytest.raises(ParseError, match=r"FDE\[1\]|names? 2052 FREs"):
            read(data)


def test_fre_past_the_function_is_cut() -> None:
    (function,) = from_sframe(changed(PLAIN, 52, "ff"))
    assert starts(function.rows) == [0]


def test_repetitive_block_over_gigabytes_is_not_laid_out() -> None:
    table = from_sframe(changed(changed(PLAIN, 36, "ffffffff"), 46, "10 00 01"))
    assert table.function(0).repetition == 1
    with pytest.raises(ParseError, match="repetitive blocks"):
        by_pc(table)


@pytest.mark.parametrize(
    ("where", "text", "field"),
    [(8, "ffffffff", "fdes.func_size"), (7, "ff", "auxiliary_header"), (16, "ffffffff", "fres")],
)
def test_reference_engine_names_the_field(where: int, text: str, field: str) -> None:
    data = changed(PLAIN, where, text)
    with pytest.raises(ParseError) as caught:
        engine.parse(SframeSection, Section.of(".sframe", data), 0, len(data))
    assert caught.value.record == f"SframeSection.{field}"
