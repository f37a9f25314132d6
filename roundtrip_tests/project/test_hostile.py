"""Hostile call frame information: each fault seen in the wild gives ParseError with section, offset and record.

Strategy: named bytes, read on both engines and, where the reference engine reads the same field, by that too.
"""

from __future__ import annotations

import pytest
from unwindkit import ParseError
from unwindkit.schemas import cfi_sections, cies, engine
from unwindkit.schemas.cfi import DEBUG_FRAME, EH_FRAME, Dialect, Terminator
from unwindkit.schemas.section import Section

from ..support.handmade import (
    ENCODED_CIE,
    PLAIN_CIE,
    Fde,
    debug_frame_table,
    eh_frame,
    entry,
    octets,
    only,
    place,
    rows_of,
    table_of_bytes,
)

# A CIE of 13 bytes (length 9): what most cases start with.
CIE = eh_frame(PLAIN_CIE)
FDE = octets("14000000 11000000 0010000000000000 1000000000000000")  # for the offset right after it


def refused(data: bytes, dialect: Dialect = EH_FRAME, architecture: str = "x86_64", address: int = 0) -> ParseError:
    """The error that the bulk engine gives."""
    with pytest.raises(ParseError) as caught:
        table_of_bytes(data, architecture, address, "little", dialect)
    return caught.value


def refused_as_records(data: bytes, dialect: Dialect = EH_FRAME) -> ParseError:
    """The error that the reference engine gives."""
    with pytest.raises(ParseError) as caught:
        cfi_sections.parse_section(Section.of(dialect.name, data), dialect)
    return caught.value


ENTRIES = [
    # the bytes after the CIE; where the bulk engine finds the fault; its words; where the reference engine does
    pytest.param("14", 13, "entry[1].length", "the record ends inside a value", "entry[1].length", id="cut length"),
    pytest.param("f0ffffff", 13, "entry[1].length", "a reserved initial length", "entry[1].length", id="reserved"),
    pytest.param(
        "15000000 11000000 0010000000000000 1000000000000000",
        *(13, "entry[1].length", "the length reaches past the section's end", "entry[1].length"),
        id="length past the end by one",
    ),
    pytest.param(
        "ffffffff ffffffffffffffff 11000000",
        *(13, "entry[1].length", "the length reaches past the section's end", "entry[1].length"),
        id="64-bit length of all ones",
    ),
    pytest.param(
        "ffffffff 00000000",
        *(13, "entry[1].length", "the record ends inside a value", "entry[1].length"),
        id="cut 64-bit length",
    ),
    pytest.param(
        "ffffffff 0000000000000000",
        *(13, "entry[1].length", "the length does not hold the id", "entry[1].length"),
        id="64-bit length of 0 is no terminator",
    ),
    pytest.param(
        "03000000 110000",
        13,
        "entry[1].length",
        "the length does not hold the id",
        "entry[1].length",
        id="no room for the id",
    ),
]


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(("text", "offset", "record", "reason", "as_record"), ENTRIES)
def test_length_that_lies(text: str, offset: int, record: str, reason: str, as_record: str) -> None:
    error = refused(CIE + octets(text))
    assert place(error) == (".eh_frame", offset, record)
    assert error.reason == reason
    assert place(refused_as_records(CIE + octets(text))) == (".eh_frame", offset, as_record)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(
    ("pointer", "reason", "as_record"),
    [
        ("00000100", "outside the section", "points to -0xffef, outside the section"),  # before the section
        ("ffffffff", "outside the section", "points to -0xffffffee, outside the section"),  # forward, modulo 2**32
        ("04000000", "points to 0xd, which is not a CIE", None),  # to the FDE itself
        ("10000000", "points to 0x1, which is not a CIE", None),  # into the CIE
    ],
)
def test_cie_pointer_that_leads_to_no_cie(pointer: str, reason: str, as_record: str | None) -> None:
    data = CIE + octets(f"14000000 {pointer} 0010000000000000 1000000000000000")
    error = refused(data)
    assert place(error) == (".eh_frame", 13, "FDE[0].cie_pointer")
    assert reason in error.reason
    found = refused_as_records(data)
    assert found.section == ".eh_frame"
    assert found.record.startswith("entry[1].cie_pointer")
    assert as_record is None or found.reason == as_record


@pytest.mark.usefixtures("kernels")
def test_cie_pointer_into_the_body_of_an_fde_that_looks_like_a_cie() -> None:
    disguised = octets("00 00 00") + CIE  # instructions that contain a whole CIE
    first = entry(octets("11000000 0010000000000000 1000000000000000") + disguised)
    second = entry(octets(f"{len(first) - 13 + 4:02x}000000 0020000000000000 1000000000000000"))
    error = refused(CIE + first + second)
    assert place(error) == (".eh_frame", 13 + len(first), "FDE[1].cie_pointer")


@pytest.mark.usefixtures("kernels")
def test_debug_frame_may_have_its_cie_behind_the_fde() -> None:
    fde = entry(octets("18000000 0010000000000000 1000000000000000"))
    cie = entry(octets("ffffffff 03 00 01 78 10"))
    assert only(debug_frame_table(fde + cie, "x86_64", "little", 8)).start == 0x1000


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("pointer", ["00000080", "25000000", "04000000", "feffffff"])
def test_debug_frame_cie_pointer_that_leads_to_no_cie(pointer: str) -> None:
    cie = entry(octets("ffffffff 03 00 01 78 10"))
    data = cie + entry(octets(f"{pointer} 0010000000000000 1000000000000000"))
    error = refused(data, DEBUG_FRAME)
    assert place(error) == (".debug_frame", 13, "FDE[0].cie_pointer")
    assert refused_as_records(data, DEBUG_FRAME).section == ".debug_frame"


CIES = [
    # the CIE after its id; the offset and field of the fault (offsets include the length and the id: eight bytes)
    pytest.param("02 00 01 78 10", 9, "version", id="version 2 was never one"),
    pytest.param("05 00 01 78 10", 9, "version", id="version 5 (DWARF 5 kept 4)"),
    pytest.param("ff 00 01 78 10", 9, "version", id="version 255"),
    pytest.param("00 00 01 78 10", 9, "version", id="version 0"),
    pytest.param("01 7a52", 11, "augmentation", id="augmentation without end"),
    pytest.param("01", 9, "augmentation", id="nothing behind the version"),
    pytest.param("04 00 03 00 01 78 10", 11, "address_size", id="address size 3"),
    pytest.param("04 00 00 00 01 78 10", 11, "address_size", id="address size 0"),
    pytest.param("04 00 08 03 01 78 10", 12, "segment_selector_size", id="selector size 3"),
    pytest.param("01 00 80", 11, "code_alignment_factor", id="cut code factor"),
    pytest.param("01 00 8080808080808080808001 78 10", 21, "code_alignment_factor", id="code factor beyond 64 bits"),
    pytest.param("01 00 01 ff", 12, "data_alignment_factor", id="cut data factor"),
    pytest.param("01 00 01 78", 12, "return_address_register", id="no return register"),
    pytest.param("03 00 01 78 80", 13, "return_address_register", id="cut LEB128 return register"),
    pytest.param("01 7a5200 01 78 10", 15, "augmentation_data", id="no augmentation length"),
    pytest.param("01 7a5200 01 78 10 02 1b", 16, "augmentation_data", id="augmentation length past the entry"),
    pytest.param("01 7a5200 01 78 10 ffffffffffffffffff01 1b", 25, "augmentation_data", id="length 2**64 - 1"),
]


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(("cie", "offset", "field"), CIES)
def test_broken_cie(cie: str, offset: int, field: str) -> None:
    data = eh_frame(cie, Fde(0x1000, 16, "00"))
    assert place(refused(data)) == (".eh_frame", offset, f"CIE[0].{field}")
    assert place(refused_as_records(data)) == (".eh_frame", offset, f"entry[0] CIE.{field}")


MEANINGS = [
    # faults of a CIE that parses: its offset is the entry's, or that of the augmentation data
    ("01 00 81808080 04 78 10", 0, "code_alignment_factor", "1073741825 is out of range"),
    ("01 00 01 ffffffff7b 10", 0, "data_alignment_factor", "-1073741825 is out of range"),
    ("03 00 01 78 808004", 0, "return_address_register", "65536 is not a register number"),
    ("03 00 01 78 ffffffffffffffffff01", 0, "return_address_register", "18446744073709551615 is not a register number"),
    ("01 7a785200 01 78 10 01 1b", 0, "augmentation", "b'zxR': 'x' is unknown"),
    ("01 7a525200 01 78 10 02 1b1b", 0, "augmentation", "b'zRR': 'R' occurs twice"),
    ("01 7a5200 01 78 10 00", 16, "augmentation_data", "no byte left for 'R'"),
    ("01 7a4c5200 01 78 10 01 1b", 18, "augmentation_data", "no byte left for 'R'"),
    ("01 7a5200 01 78 10 01 0d", 16, "fde_encoding", "0x0d is not a defined encoding"),
    ("01 7a5200 01 78 10 01 6b", 16, "fde_encoding", "0x6b is not a defined encoding"),
    ("01 7a5200 01 78 10 01 ff", 0, "augmentation", "R is 0xff, which does not encode the start of an FDE"),
    ("01 7a5200 01 78 10 01 9b", 0, "augmentation", "R is 0x9b, which does not encode the start of an FDE"),
    ("01 7a4c00 01 78 10 01 0e", 16, "lsda_encoding", "0x0e is not a defined encoding"),
]


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(("cie", "offset", "field", "reason"), MEANINGS)
def test_cie_that_means_nothing(cie: str, offset: int, field: str, reason: str) -> None:
    error = refused(eh_frame(cie, Fde(0x1000, 16, "00")))
    assert place(error) == (".eh_frame", offset, f"CIE[0].{field}")
    assert error.reason == reason


@pytest.mark.usefixtures("kernels")
def test_factors_at_their_limits() -> None:
    (first, second) = rows_of("8601 41", "01 00 8080808004 808080807c 10", size=1 << 40)  # 2**30 and -2**30
    assert (first.registers[0].value, second.offset) == (-(1 << 30), 1 << 30)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(
    ("data", "offset"),
    [("01 7a5000 01 78 10 03 1b0000", 19), ("01 7a5000 01 78 10 01 0f", 17), ("01 7a5000 01 78 10 00", 16)],
)
def test_personality_that_is_cut_or_has_no_encoding(data: str, offset: int) -> None:
    error = refused(eh_frame(data, Fde(0x1000, 16, "00")))
    assert (error.section, error.offset) == (".eh_frame", offset)
    assert error.record.startswith("CIE[0].augmentation_data.")


def test_fields_before_an_unknown_letter_are_read() -> None:
    data = eh_frame("01 7a52787800 01 78 10 03 1b 0000")
    section = Section.of(".eh_frame", data)
    cie = cies.parse_cie(section, 0, EH_FRAME)
    assert int(cie.code_alignment_factor) == 1
    augmentation = cies.parse_augmentation(cie, section, 0)
    assert (augmentation.fde_encoding, augmentation.unknown) == (0x1B, b"xx")


@pytest.mark.usefixtures("kernels")
def test_return_column_is_one_byte_in_version_1_and_leb128_after() -> None:
    assert only(table_of_bytes(eh_frame("01 00 01 78 81", Fde(0x1000, 16, "00")))).return_column == 0x81
    assert only(table_of_bytes(eh_frame("03 00 01 78 8101", Fde(0x1000, 16, "00")))).return_column == 0x81


FDES = [
    # an FDE of a CIE "zR" (20 bytes, "zLR": the LSDA encoded the same): what follows its CIE pointer
    pytest.param("03", "", "the record ends inside a value", id="no location"),
    pytest.param("03", "001000", "the record ends inside a value", id="cut location"),
    pytest.param("03", "00100000", "the record ends inside a value", id="no range"),
    pytest.param("03", "00100000 10000000", "the record ends inside a value", id="no augmentation length"),
    pytest.param("03", "00100000 10000000 80", "the record ends inside a value", id="cut augmentation length"),
    pytest.param(
        "03", "00100000 10000000 05 000000", "the augmentation data reaches past the record's end", id="too long"
    ),
    pytest.param(
        "03",
        "00100000 10000000 ffffffffffffffffff01",
        "the augmentation data reaches past the record's end",
        id="2**64 - 1",
    ),
    pytest.param("03", "00100000 10000000 02 0000", "the record ends inside a value", id="LSDA of four bytes in two"),
    pytest.param("01", "8080808080808080808002 10 00", "a LEB128 does not fit 64 bits", id="location beyond 64 bits"),
    pytest.param("50", "00000000 00000000", "the record ends inside a value", id="aligned and cut"),
]


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(("encoding", "text", "reason"), FDES)
def test_broken_fde(encoding: str, text: str, reason: str) -> None:
    cie = entry(octets(f"00000000 01 7a4c5200 01 78 10 02 {encoding} {encoding} 00"))
    data = cie + entry(octets(f"{len(cie) + 4:02x}000000 {text}"))
    error = refused(data)
    assert (error.section, error.record, error.reason) == (".eh_frame", "FDE[0]", reason)
    assert error.offset is not None
    assert len(cie) + 8 <= error.offset <= len(data)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(
    ("start", "size"), [(1 << 63, 1 << 63), (0xFFFFFFFFFFFFFFF0, 0x11), (1, (1 << 64) - 1), (0xFFFFFFFFFFFFFFF0, 0x10)]
)
def test_function_that_reaches_past_the_address_space(start: int, size: int) -> None:
    error = refused(eh_frame(PLAIN_CIE, Fde(start, size, "00")))
    assert place(error) == (".eh_frame", 13, "FDE[0].address_range")
    assert error.reason == f"{size:#x} bytes from {start:#x} extend past the end of the address space"


@pytest.mark.usefixtures("kernels")
def test_function_up_to_the_last_address_but_one() -> None:
    assert only(table_of_bytes(eh_frame(PLAIN_CIE, Fde(0xFFFFFFFFFFFFFFF0, 0xF, "00")))).size == 0xF
    assert only(table_of_bytes(eh_frame(PLAIN_CIE, Fde(0, (1 << 64) - 1, "00")))).size == (1 << 64) - 1


@pytest.mark.usefixtures("kernels")
def test_negative_range_is_none() -> None:
    cie = octets(f"10000000 00000000 {ENCODED_CIE} 09 000000")
    error = refused(cie + entry(octets("18000000 8020 70 00")))
    assert place(error) == (".eh_frame", 20, "FDE[0].address_range")


INSTRUCTIONS = [
    ("0b", "DW_CFA_restore_state without a DW_CFA_remember_state"),
    ("0a 0b 0b", "DW_CFA_restore_state without a DW_CFA_remember_state"),
    ("17", "the opcode is not defined"),
    ("3f", "the opcode is not defined"),
    ("02", "the record ends inside a value"),
    ("03 00", "the record ends inside a value"),
    ("04 000000", "the record ends inside a value"),
    ("1d 00000000000000", "the record ends inside a value"),
    ("01 00000000000000", "the record ends inside a value"),
    ("80", "the record ends inside a value"),
    ("0c 07", "the record ends inside a value"),
    ("0c 07 80", "the record ends inside a value"),
    ("0f 05 00", "an expression reaches past the record's end"),
    ("10 06 ffffffffffffffffff01", "an expression reaches past the record's end"),
    ("10 06", "the record ends inside a value"),
    ("07 808004", "a register number above 65535"),
    ("09 06 808004", "a register number above 65535"),
    ("0e 808080808080808040", "an offset is too large for an address"),  # 2**62
    ("86 808080808080808010", "an offset is too large for an address"),  # 2**60, times 8
    ("13 8080808080808080807f", "an offset is too large for an address"),  # -2**63
    ("2f 06 ffffffffffffffffff01", "an offset is too large for an address"),
    ("1d ffffffffffffffff", "an offset is too large for an address"),
    ("01 ff0f000000000000", "the location moves backwards"),  # one before the start
    ("44 01 0310000000000000", "the location moves backwards"),
    ("01 ffffffffffffffff", "the location moves backwards"),
]


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(("text", "reason"), INSTRUCTIONS)
def test_broken_instruction(text: str, reason: str) -> None:
    """The offset is that of the instruction, here the last one: 13 bytes of CIE, 24 of the FDE, what is before it."""
    before = {"0a 0b 0b": 2, "44 01 0310000000000000": 1}.get(text, 0)
    with pytest.raises(ParseError) as caught:
        rows_of(text)
    assert place(caught.value) == (".eh_frame", 13 + 24 + before, "FDE[0].instructions")
    assert caught.value.reason == reason


@pytest.mark.usefixtures("kernels")
def test_broken_initial_instruction_names_the_cie() -> None:
    error = refused(eh_frame(f"{PLAIN_CIE} 0c 07 08 0b", Fde(0x1000, 16)))
    assert place(error) == (".eh_frame", 16, "CIE[0].instructions")
    assert str(error) == ".eh_frame+0x10: CIE[0].instructions: DW_CFA_restore_state without a DW_CFA_remember_state"


@pytest.mark.usefixtures("kernels")
def test_advances_that_add_up_past_every_address() -> None:
    half = "1d 0000000000000010"  # 2**60, twice is the limit
    assert len(rows_of(f"0c0708 {half} 0e10 {half} 0e18", size=(1 << 61) + 1)) == 3
    with pytest.raises(ParseError, match="an offset is too large for an address") as caught:
        rows_of(f"{half} {half} {half}")
    assert place(caught.value) == (".eh_frame", 13 + 24 + 18, "FDE[0].instructions")


@pytest.mark.usefixtures("kernels")
def test_more_registers_than_any_machine_has() -> None:
    rules = "".join(f"07 {number & 0x7F | 0x80:02x}{number >> 7:02x}" for number in range(257))
    assert len(rows_of(rules[: 256 * 7])[0].registers) == 256
    with pytest.raises(ParseError, match="more than 256 registers have rules at once") as caught:
        rows_of(rules)
    assert place(caught.value) == (".eh_frame", 13 + 24 + 3 * 256, "FDE[0].instructions")


@pytest.mark.usefixtures("kernels")
def test_fault_in_the_second_of_two_functions_names_it() -> None:
    data = eh_frame(PLAIN_CIE, Fde(0x1000, 16, "41"), Fde(0x2000, 16, "0b"), Fde(0x3000, 16, "0b"))
    assert place(refused(data)) == (".eh_frame", 13 + 25 + 24, "FDE[1].instructions")


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("data", ["", "00000000", "00000000 00000000"])
def test_empty_sections_and_terminators_have_no_functions(data: str) -> None:
    assert len(table_of_bytes(octets(data))) == 0
    assert all(
        isinstance(found, Terminator)
        for _, found in cfi_sections.parse_section(Section.of(".eh_frame", octets(data)), EH_FRAME)
    )


def test_record_reader_that_does_not_move_is_stopped() -> None:
    section = Section.of("test", bytes(8))
    with pytest.raises(ParseError) as caught:
        list(engine.parse_records(section, lambda _section, offset, _index: (None, max(offset, 4))))
    assert place(caught.value) == ("test", 4, "[1]")


def test_error_shows_the_place_in_the_file() -> None:
    section = Section(".eh_frame", memoryview(CIE + octets("14")), 0x1000, 0x2000)
    with pytest.raises(ParseError) as caught:
        cfi_sections.parse_section(section, EH_FRAME)
    assert str(caught.value) == ".eh_frame+0xd (file 0x200d): entry[1].length: 4 bytes needed, 1 left"
