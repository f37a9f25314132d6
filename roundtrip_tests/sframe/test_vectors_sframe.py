"""SFrame V2 errata 1, byte for byte: header, FDE and FRE of the field tables, and what they mean.

Strategy: whole sections as hex, read and written; each bit of both info words separately.
"""

from __future__ import annotations

import pytest
from unwindkit import FunctionFlag, from_sframe, to_sframe
from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.converters.rules import RaState, RuleKind
from unwindkit.converters.table.model import Function, RegisterRule, table_of
from unwindkit.schemas import engine
from unwindkit.schemas.section import ByteOrder, Section
from unwindkit.schemas.sframe import FdeInfo, FrameRowEntry, FreInfo, FuncDescEntry, Header, Preamble, SframeSection

from ..support.handmade import NO_CFA, PLAIN_CIE, X86_64_START, Fde, at, eh_frame, octets, on, row, sp, table_of_bytes

SAVED_RA = at(16, -8)

AMD64 = octets("""
    e2de          # magic
    02            # version 2
    05            # flags: sorted, PC-relative starts
    03            # AMD64
    00            # no fixed FP offset
    f8            # fixed RA offset -8
    00            # no auxiliary header
    02000000      # num_fdes
    05000000      # num_fres
    14000000      # fre_len
    00000000      # fdeoff, from the header's end
    28000000      # freoff
    e40f0000      # FDE[0] at 0x40001c: 0x401000 is 0xfe4 on
    20000000      # func_size
    00000000      # func_start_fre_off
    03000000      # func_num_fres
    00            # func_info: PCINC, ADDR1
    00            # func_rep_size
    0000          # func_padding2
    d01f0000      # FDE[1] at 0x400030: 0x402000 is 0x1fd0 on
    00020000      # func_size 512
    0b000000      # func_start_fre_off
    02000000      # func_num_fres
    01 00 0000    # func_info: PCINC, ADDR2
    00 03 08      # +0: one offset of one byte, SP: CFA = SP + 8
    01 05 10 f0   # +1: two offsets: CFA = SP + 16, FP at CFA - 16
    04 04 10 f0   # +4: the same from FP
    0000 03 08    # +0
    0001 23 9000  # +256: one offset of two bytes: CFA = SP + 144
""")
AMD64_HEADER = Header(0xDEE2, 2, 5, 3, 0, -8, 0, 2, 5, 20, 0, 40)
AMD64_ROWS = [
    (row(0, sp(8), SAVED_RA), row(1, sp(16), at(6, -16), SAVED_RA), row(4, on(6, 16), at(6, -16), SAVED_RA)),
    (row(0, sp(8), SAVED_RA), row(256, sp(144), SAVED_RA)),
]

# Starts relative to the section (flag 4 is off), after an auxiliary header, with gaps.
S390X_FRES = """
    00 03 00              # +0: CFA = r15 + 160
    06 07 00 23 21        # +6: RA in register 17 (f2), FP in register 16 (f0)
    10 07 14 d0 b8        # +16: CFA = r15 + 160 + 8 * 20, RA at CFA - 48, FP at CFA - 72
    20 06 14 00 b8        # +32: the same from r11; the RA is not saved
    00000000 43 00010000  # CFA = r15 + 160 + 8 * 65536, a four-byte offset
"""
S390X = octets(f"""
    dee2          # magic
    02            # version 2
    01            # flags: sorted
    04            # s390x
    00 00         # FP and RA are tracked
    04            # auxiliary header of four bytes
    00000002      # num_fdes
    00000005      # num_fres
    0000001b      # fre_len
    00000002      # fdeoff: two bytes after the auxiliary header
    0000002c      # freoff: two bytes after the FDEs
    aabbccdd      # the auxiliary header
    eeee          # a gap
    fffff000      # FDE[0]: 0x1000 before the section
    00000040      # func_size
    00000000      # func_start_fre_off
    00000004      # func_num_fres
    00 00 0000
    00001000      # FDE[1]
    00010000      # func_size 65536
    00000012      # func_start_fre_off
    00000001      # func_num_fres
    02 00 0000    # PCINC, ADDR4
    eeee          # a gap
    {S390X_FRES}
    5a            # after the FRE sub-section
""")


@pytest.mark.parametrize(("order", "text"), [("little", "e2de 02 05"), ("big", "dee2 02 05")])
def test_preamble_in_both_byte_orders(order: ByteOrder, text: str) -> None:
    data = octets(text)
    preamble = Preamble(0xDEE2, 2, 5)
    assert engine.parse(Preamble, Section.of(".sframe", data, 0, order), 0, 4) == (preamble, 4)
    assert engine.build(preamble, order) == data


def test_section_of_amd64_as_records() -> None:
    fdes = (
        FuncDescEntry(0xFE4, 0x20, 0, 3, FdeInfo(0, 0, 0, 0), 0, 0),
        FuncDescEntry(0x1FD0, 0x200, 11, 2, FdeInfo(0, 0, 0, 1), 0, 0),
    )
    expected = SframeSection(AMD64_HEADER, b"", b"", fdes, b"", AMD64[68:], b"")
    assert engine.parse(SframeSection, Section.of(".sframe", AMD64), 0, len(AMD64)) == (expected, len(AMD64))
    assert engine.build(expected) == AMD64


@pytest.mark.usefixtures("kernels")
def test_section_of_amd64_is_read() -> None:
    functions = list(from_sframe(AMD64, 0x400000))
    assert [(function.start, function.size, function.return_column) for function in functions] == [
        (0x401000, 0x20, 16),
        (0x402000, 0x200, 16),
    ]
    assert [function.rows for function in functions] == AMD64_ROWS


@pytest.mark.usefixtures("kernels")
def test_section_of_amd64_is_written() -> None:
    table = table_of_bytes(
        eh_frame(
            f"{PLAIN_CIE} {X86_64_START}",
            Fde(0x402000, 0x200, "03 0001 0e 9001"),
            Fde(0x401000, 0x20, "41 0e10 8602 43 0d06"),
        )
    )
    data, refusals = to_sframe(table, section_address=0x400000)
    assert data == AMD64
    assert len(refusals) == 0


def test_section_of_s390x_as_records() -> None:
    parsed, _ = engine.parse(SframeSection, Section.of(".sframe", S390X, 0, "big"), 0, len(S390X))
    assert parsed.header == Header(0xDEE2, 2, 1, 4, 0, 0, 4, 2, 5, 27, 2, 44)
    assert (parsed.auxiliary_header, parsed.before_fdes) == (octets("aabbccdd"), octets("eeee"))
    assert [fde.func_start_address for fde in parsed.fdes] == [-0x1000, 0x1000]
    assert (parsed.before_fres, parsed.fres, parsed.trailing) == (octets("eeee"), octets(S390X_FRES), b"\x5a")
    assert engine.build(parsed, "big") == S390X


@pytest.mark.usefixtures("kernels")
def test_section_of_s390x_is_read() -> None:
    first, second = from_sframe(S390X, 0x100000)
    assert (first.start, first.size, second.start, second.size) == (0xFF000, 0x40, 0x101000, 0x10000)
    # SP = CFA + SFRAME_S390X_SP_VAL_OFFSET.
    r15 = RegisterRule(15, RuleKind.VAL_OFFSET, -160)
    assert first.rows == (
        row(0, on(15, 160), r15),
        row(6, on(15, 160), RegisterRule(11, RuleKind.REGISTER, 16), RegisterRule(14, RuleKind.REGISTER, 17), r15),
        row(16, on(15, 320), at(11, -72), at(14, -48), r15),
        row(32, on(11, 320), at(11, -72), r15),
    )
    assert second.rows == (row(0, on(15, 524448), r15),)


@pytest.mark.usefixtures("kernels")
def test_fres_of_s390x_are_written_as_they_were_read() -> None:
    """But for the width of a start, which follows from the last FRE of a function."""
    data, refusals = to_sframe(from_sframe(S390X, 0x100000), section_address=0x100000)
    assert data.endswith(octets(S390X_FRES.replace("00000000 43", "00 43")))
    assert data[:8] == octets("dee2 02 05 04 00 00 00")
    # PC-relative now: from 0x10001c to 0xff000, from 0x100030 to 0x101000.
    assert (data[28:32], data[48:52]) == (octets("ffffefe4"), octets("00000fd0"))
    assert len(refusals) == 0


FDE_INFO = [
    ("00", FdeInfo(0, 0, 0, 0)),
    ("01", FdeInfo(0, 0, 0, 1)),
    ("02", FdeInfo(0, 0, 0, 2)),
    ("04", FdeInfo(0, 0, 0, 4)),
    ("08", FdeInfo(0, 0, 0, 8)),
    ("10", FdeInfo(0, 0, 1, 0)),
    ("20", FdeInfo(0, 1, 0, 0)),
    ("40", FdeInfo(1, 0, 0, 0)),
    ("80", FdeInfo(2, 0, 0, 0)),
]


@pytest.mark.parametrize(("text", "info"), FDE_INFO)
@pytest.mark.parametrize("order", ["little", "big"])
def test_each_bit_of_the_fde_info_word(text: str, info: FdeInfo, order: ByteOrder) -> None:
    numbers = {
        "little": "fcffffff 04030201 08070605 0c0b0a09",
        "big": "fffffffc 01020304 05060708 090a0b0c",
    }
    data = octets(f"{numbers[order]} {text} 10 {'0201' if order == 'little' else '0102'}")
    fde = FuncDescEntry(-4, 0x1020304, 0x5060708, 0x90A0B0C, info, 16, 0x102)
    assert engine.parse(FuncDescEntry, Section.of(".sframe", data, 0, order), 0, 20) == (fde, 20)
    assert engine.build(fde, order) == data


FRE_INFO = [
    ("00", FreInfo(0, 0, 0, 0), ()),
    ("01", FreInfo(0, 0, 0, 1), ()),
    ("02 7f", FreInfo(0, 0, 1, 0), (127,)),
    ("04 80ff", FreInfo(0, 0, 2, 0), (-128, -1)),
    ("08 01020304", FreInfo(0, 0, 4, 0), (1, 2, 3, 4)),
    ("10 0102030405060708", FreInfo(0, 0, 8, 0), (1, 2, 3, 4, 5, 6, 7, 8)),
    ("22 0080", FreInfo(0, 1, 1, 0), (-32768,)),
    ("42 00000080", FreInfo(0, 2, 1, 0), (-(1 << 31),)),
    ("80", FreInfo(1, 0, 0, 0), ()),
    ("a7 0100 0200 ffff", FreInfo(1, 1, 3, 1), (1, 2, -1)),
]


@pytest.mark.parametrize(("text", "info", "offsets"), FRE_INFO)
@pytest.mark.parametrize(("fretype", "start"), [(0, "fe"), (1, "feff"), (2, "feffffff")])
def test_each_bit_of_the_fre_info_word(
    text: str, info: FreInfo, offsets: tuple[int, ...], fretype: int, start: str
) -> None:
    data = octets(f"{start} {text}")
    fre = FrameRowEntry(int.from_bytes(octets(start), "little"), info, offsets)
    section = Section.of(".sframe", data)
    assert engine.parse(FrameRowEntry, section, 0, len(data), fretype=fretype) == (fre, len(data))
    assert engine.build(fre, fretype=fretype) == data


def test_fre_of_a_big_endian_target() -> None:
    data = octets("0102 25 0004 fff0")
    fre = FrameRowEntry(0x102, FreInfo(0, 1, 2, 1), (4, -16))
    section = Section.of(".sframe", data, 0, "big")
    assert engine.parse(FrameRowEntry, section, 0, len(data), fretype=1) == (fre, len(data))
    assert engine.build(fre, "big", fretype=1) == data


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(("name", "abi", "order"), [("aarch64", 2, "little"), ("aarch64_be", 1, "big")])
def test_aarch64_tracks_ra_before_fp_and_its_signature(name: str, abi: int, order: ByteOrder) -> None:
    rows = (
        row(0, on(31, 0)),
        row(4, on(31, 0), ra_state=RaState.SIGNED),
        row(8, on(31, 16), at(29, -16), at(30, -8), ra_state=RaState.SIGNED),
        row(12, on(29, 16), at(29, -16), at(30, -8)),
        row(16, on(31, 16), at(30, -8)),
    )
    function = Function(0x1000, 0x40, rows, return_column=30, flags=FunctionFlag.PAUTH_B_KEY)
    data, refusals = to_sframe(table_of(ARCHITECTURES[name], [function]))
    assert len(refusals) == 0
    assert (data[4], data[:2]) == (abi, octets("e2de" if order == "little" else "dee2"))
    assert data[28 + 16] == 0x20  # func_info: B key
    assert data[48:] == octets("""
        00 03 00           # +0: CFA = SP
        04 83 00           # +4: bit 7: signed
        08 87 10 f8 f0     # +8: three offsets: CFA, RA, FP
        0c 06 10 f8 f0     # +12: from FP
        10 05 10 f8        # +16: RA alone
    """)
    (found,) = from_sframe(data)
    assert (found.rows, found.flags) == (rows, FunctionFlag.PAUTH_B_KEY)


# A PLT entry of 16 bytes, repeated: PC % 16, rows at 0 and 11.
PLT = octets("""
    e2de 02 05 03 00 f8 00  01000000 02000000 06000000 00000000 14000000
    e40f0000 40000000 00000000 02000000
    10            # func_info: PCMASK, ADDR1
    10            # func_rep_size 16
    0000
    00 03 08
    0b 03 10
""")


@pytest.mark.usefixtures("kernels")
def test_repetitive_block() -> None:
    (function,) = from_sframe(PLT)
    assert (function.start, function.size, function.repetition) == (0x1000, 0x40, 16)
    assert function.rows == (row(0, sp(8), SAVED_RA), row(11, sp(16), SAVED_RA))
    assert to_sframe(from_sframe(PLT))[0] == PLT


@pytest.mark.usefixtures("kernels")
def test_pcs_before_the_first_fre_and_functions_without_fres_have_no_cfa() -> None:
    data = octets("""
        e2de 02 05 03 00 f8 00  02000000 01000000 03000000 00000000 28000000
        e40f0000 10000000 00000000 01000000 00 00 0000
        e00f0000 10000000 00000000 00000000 00 00 0000
        04 03 08
    """)
    first, second = from_sframe(data)
    assert first.rows == (row(0, NO_CFA), row(4, sp(8), SAVED_RA))
    assert second.rows == (row(0, NO_CFA),)


@pytest.mark.usefixtures("kernels")
def test_fre_at_or_past_the_end_of_its_function_is_cut() -> None:
    data = octets("""
        e2de 02 05 03 00 f8 00  03000000 03000000 09000000 00000000 3c000000
        e40f0000 10000000 00000000 03000000 00 00 0000   # 16 bytes: +16 is past its end
        e00f0000 11000000 00000000 03000000 00 00 0000   # 17 bytes, at 0x1010 (from 0x30)
        e00f0000 08000000 00000000 03000000 00 00 0000   # 8 bytes
        00 03 08  08 03 10  10 03 18
    """)
    assert [[row.offset for row in function.rows] for function in from_sframe(data)] == [[0, 8], [0, 8, 16], [0]]


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("address", [0, 0x10000, 0xFFFFFFFF81000000, 0x7FFFFFFFFFFFFFF0, 0xFFFFFFFFFFFFFF00])
def test_starts_are_modulo_the_address_space(address: int) -> None:
    """One function below the section and one above: ascending, as flagged, at any section address."""
    data = octets("""
        e2de 02 05 03 00 f8 00  02000000 01000000 03000000 00000000 28000000
        e4ffffff 10000000 00000000 01000000 00 00 0000   # at +0x1c: 0x1c back
        d0000000 10000000 00000000 01000000 00 00 0000   # at +0x30: 0xd0 on
        00 03 08
    """)
    found = [function.start for function in from_sframe(data, address)]
    assert found == [address, (address + 0x100) % (1 << 64)]
    first, second = from_sframe(data, address)
    assert to_sframe(table_of(ARCHITECTURES["x86_64"], [first]), section_address=address)[0][28:32] == data[28:32]
    assert second.rows == (row(0, sp(8), SAVED_RA),)
