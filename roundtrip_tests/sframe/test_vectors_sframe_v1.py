"""SFrame V1, byte for byte: the header of V2 and FDEs of 17 bytes, whose starts are relative to the section.

Strategy: whole sections as hex; every reader agrees on them: records, table, look-up and dump.
"""

from __future__ import annotations

import pytest
from unwindkit import BuildError, FunctionFlag, find_fres, find_rows, from_sframe, to_sframe
from unwindkit.converters.rules import RaState
from unwindkit.converters.sframe.dump import sframe_json, sframe_text
from unwindkit.schemas import engine
from unwindkit.schemas.section import ByteOrder, Section
from unwindkit.schemas.sframe import FdeInfo, FuncDescEntryV1, Header, SframeSection

from ..support.handmade import NO_CFA, at, octets, on, row, sp

SAVED_RA = at(16, -8)

# A lazy PLT and a function, as GNU ld 2.40 lays them out; the section is at 0x402000.
AMD64_FRES = """
    00 03 10         # FDE[0] +0: one offset of one byte, SP: CFA = SP + 16
    06 03 18         # +6: CFA = SP + 24
    00 03 08         # FDE[1] +0 of each block
    0b 03 10         # +11
    0000 03 08       # FDE[2], ADDR2 +0
    0100 05 10 f0    # +1: two offsets: CFA = SP + 16, FP at CFA - 16
    0401 04 10 f0    # +0x104: the same from FP
"""
AMD64 = octets(f"""
    e2de          # magic
    01            # version 1
    01            # flags: sorted
    03            # AMD64
    00            # no fixed FP offset
    f8            # fixed RA offset -8
    00            # no auxiliary header
    03000000      # num_fdes
    07000000      # num_fres
    1a000000      # fre_len
    00000000      # fdeoff, from the header's end
    33000000      # freoff: 3 * 17
    00f0ffff      # FDE[0]: 0x1000 before the section
    10000000      # func_size
    00000000      # func_start_fre_off
    02000000      # func_num_fres
    00            # func_info: PCINC, ADDR1
    10f0ffff      # FDE[1]: 0xff0 before the section, whichever FDE it is
    30000000      # func_size: three blocks
    06000000      # func_start_fre_off
    02000000      # func_num_fres
    10            # func_info: PCMASK, ADDR1
    40f0ffff      # FDE[2]: 0xfc0 before the section
    10010000      # func_size
    0c000000      # func_start_fre_off
    03000000      # func_num_fres
    01            # func_info: PCINC, ADDR2
    {AMD64_FRES}
""")
ADDRESS = 0x402000

# Two functions that sign the return address with different keys; an auxiliary header, and gaps.
AARCH64: dict[ByteOrder, bytes] = {
    "little": octets("""
        e2de 01 01 02 00 00   # version 1, sorted, AArch64 little-endian; RA is tracked
        04                    # auxiliary header of four bytes
        02000000 05000000     # num_fdes, num_fres
        19000000              # fre_len: a byte more than the FREs
        02000000 26000000     # fdeoff: two bytes after the auxiliary header; freoff: two after 2 * 17
        aabbccdd eeee
        00100000 0c000000 00000000 03000000 00   # FDE[0]: 0x1000 on, 12 bytes; key A, ADDR1
        0c100000 00000100 0b000000 02000000 22   # FDE[1]: 0x100c on, 65536 bytes; key B (0x20), ADDR4 (2)
        eeee
        00 03 00              # FDE[0] +0: CFA = SP
        04 83 00              # +4: bit 7: signed
        08 87 10 f8 f0        # +8: three offsets: CFA, RA, FP; signed
        00000000 03 00        # FDE[1] +0
        04000000 a3 1001      # +4: one offset of two bytes: CFA = SP + 272; signed
        5a                    # in the FRE sub-section, no FDE's
        5a                    # after it
    """),
    "big": octets("""
        dee2 01 01 01 00 00   # version 1, sorted, AArch64 big-endian
        04
        00000002 00000005
        00000019
        00000002 00000026
        aabbccdd eeee
        00001000 0000000c 00000000 00000003 00
        0000100c 00010000 0000000b 00000002 22
        eeee
        00 03 00
        04 83 00
        08 87 10 f8 f0
        00000000 03 00
        00000004 a3 0110
        5a
        5a
    """),
}
EACH_ORDER = pytest.mark.parametrize("order", AARCH64)


def section(data: bytes, order: ByteOrder = "little") -> Section:
    return Section.of(".sframe", data, ADDRESS, order)


def text(data: bytes, order: ByteOrder = "little") -> str:
    return b"".join(sframe_text(section(data, order))).decode()


# --- AMD64 ----------------------------------------------------------------------------------------------------


def test_section_of_amd64_as_records() -> None:
    fdes = (
        FuncDescEntryV1(-0x1000, 0x10, 0, 2, FdeInfo(0, 0, 0, 0)),
        FuncDescEntryV1(-0xFF0, 0x30, 6, 2, FdeInfo(0, 0, 1, 0)),
        FuncDescEntryV1(-0xFC0, 0x110, 12, 3, FdeInfo(0, 0, 0, 1)),
    )
    header = Header(0xDEE2, 1, 1, 3, 0, -8, 0, 3, 7, 26, 0, 51)
    expected = SframeSection(header, b"", b"", fdes, b"", octets(AMD64_FRES), b"")
    assert engine.parse(SframeSection, section(AMD64), 0, len(AMD64)) == (expected, len(AMD64))
    assert engine.build(expected) == AMD64


@pytest.mark.usefixtures("kernels")
def test_section_of_amd64_is_read() -> None:
    functions = list(from_sframe(AMD64, ADDRESS))
    assert [(function.start, function.size, function.repetition) for function in functions] == [
        (0x401000, 0x10, 0),
        (0x401010, 0x30, 16),  # version 1 has no field for it: the entries of AMD64's PLT
        (0x401040, 0x110, 0),
    ]
    assert [function.rows for function in functions] == [
        (row(0, sp(16), SAVED_RA), row(6, sp(24), SAVED_RA)),
        (row(0, sp(8), SAVED_RA), row(11, sp(16), SAVED_RA)),
        (
            row(0, sp(8), SAVED_RA),
            row(1, sp(16), at(6, -16), SAVED_RA),
            row(0x104, on(6, 16), at(6, -16), SAVED_RA),
        ),
    ]


@pytest.mark.parametrize("address", [0, 0x1000, 0x402000, 0xFFFFFFFF81000000, 0xFFFFFFFFFFFFFFF0])
def test_starts_count_from_the_section_wherever_it_is(address: int) -> None:
    starts = [function.start for function in from_sframe(AMD64, address)]
    assert starts == [(address + start) % (1 << 64) for start in (-0x1000, -0xFF0, -0xFC0)]


@pytest.mark.parametrize("flags", [0, 1, 2, 3])
def test_version_1_has_two_flags(flags: int) -> None:
    data = AMD64[:3] + bytes([flags]) + AMD64[4:]
    assert len(from_sframe(data, ADDRESS)) == len(find_fres(data, [0], ADDRESS).columns) == 3


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(
    ("pc", "fde", "start", "cfa"),
    [
        (0x400FFF, -1, None, None),
        (0x401000, 0, 0, sp(16)),
        (0x401005, 0, 0, sp(16)),
        (0x401006, 0, 6, sp(24)),
        (0x40100F, 0, 6, sp(24)),
        # In each block, the remainder of the distance from the function's start.
        (0x401010, 1, 0, sp(8)),
        (0x40101A, 1, 0, sp(8)),
        (0x40101B, 1, 11, sp(16)),
        (0x40101F, 1, 11, sp(16)),
        (0x401020, 1, 0, sp(8)),
        (0x40102B, 1, 11, sp(16)),
        (0x40103A, 1, 0, sp(8)),
        (0x40103F, 1, 11, sp(16)),
        (0x401040, 2, 0, sp(8)),
        (0x401143, 2, 1, sp(16)),
        (0x401144, 2, 0x104, on(6, 16)),
        (0x40114F, 2, 0x104, on(6, 16)),
        (0x401150, -1, None, None),
    ],
)
def test_pcs_of_amd64_are_looked_up(pc: int, fde: int, start: int | None, cfa: object) -> None:
    table = from_sframe(AMD64, ADDRESS)
    at_pc, rows_at = find_fres(AMD64, pc, ADDRESS), find_rows(table, pc)
    assert (at_pc.fde.tolist(), at_pc.found.tolist()) == ([fde], [start is not None])
    assert rows_at.function.tolist() == [fde]
    if start is None:
        assert rows_at.row.tolist() == [-1]
    else:
        assert at_pc.fres.start.tolist() == [start]
        found = table.row(int(rows_at.row[0]))
        assert (found.offset, found.cfa) == (start, cfa)


def test_section_of_amd64_is_printed() -> None:
    blank = " "
    assert text(AMD64).splitlines() == [
        "Contents of the SFrame section .sframe:",
        "  Header :",
        "",
        "    Version: SFRAME_VERSION_1",
        "    Flags: SFRAME_F_FDE_SORTED",
        "    CFA fixed RA offset: -8",
        "    Num FDEs: 3",
        "    Num FREs: 7",
        "",
        "  Function Index :",
        "",
        "    func idx [0]: pc = 0x401000, size = 16 bytes",
        f"    STARTPC         CFA       FP        RA{blank * 11}",
        f"    0000000000401000  sp+16     u         f{blank * 12}",
        f"    0000000000401006  sp+24     u         f{blank * 12}",
        "",
        "    func idx [1]: pc = 0x401010, size = 48 bytes",
        f"    STARTPC[m]      CFA       FP        RA{blank * 11}",
        f"    0000000000000000  sp+8      u         f{blank * 12}",
        f"    000000000000000b  sp+16     u         f{blank * 12}",
        "",
        "    func idx [2]: pc = 0x401040, size = 272 bytes",
        f"    STARTPC         CFA       FP        RA{blank * 11}",
        f"    0000000000401040  sp+8      u         f{blank * 12}",
        f"    0000000000401041  sp+16     c-16      f{blank * 12}",
        f"    0000000000401144  fp+16     c-16      f{blank * 12}",
    ]
    assert text(AMD64).endswith("\n")


def test_section_of_amd64_as_plain_data() -> None:
    header, fdes = sframe_json(section(AMD64))
    assert (header["version"], header["flags"]) == (1, ["FDE_SORTED"])
    assert [(fde["func_start_address"], fde["fdetype"], fde["func_rep_size"]) for fde in fdes] == [
        (0x401000, "PCINC", 0),
        (0x401010, "PCMASK", 16),
        (0x401040, "PCINC", 0),
    ]


@pytest.mark.usefixtures("kernels")
def test_what_is_read_is_written_in_version_2() -> None:
    table = from_sframe(AMD64, ADDRESS)
    data, refusals = to_sframe(table, section_address=ADDRESS)
    assert len(refusals) == 0
    assert data == octets(f"""
        e2de 02 05 03 00 f8 00  # version 2: sorted and PC-relative
        03000000 07000000 1a000000 00000000
        3c000000                # freoff: 3 * 20
        e4efffff 10000000 00000000 02000000 00 00 0000   # 0x401000 from 0x40201c
        e0efffff 30000000 06000000 02000000 10 10 0000   # 0x401010 from 0x402030; func_rep_size 16
        fcefffff 10010000 0c000000 03000000 01 00 0000   # 0x401040 from 0x402044
        {AMD64_FRES}
    """)
    with pytest.raises(BuildError, match=r"version 1 cannot be written, expected 2 or 3"):
        to_sframe(table, version=1, section_address=ADDRESS)


# --- AArch64 --------------------------------------------------------------------------------------------------


@EACH_ORDER
def test_section_of_aarch64_as_records(order: ByteOrder) -> None:
    data = AARCH64[order]
    parsed, end = engine.parse(SframeSection, section(data, order), 0, len(data))
    abi = 2 if order == "little" else 1
    assert parsed.header == Header(0xDEE2, 1, 1, abi, 0, 0, 4, 2, 5, 25, 2, 38)
    assert (parsed.auxiliary_header, parsed.before_fdes, parsed.before_fres) == (
        octets("aabbccdd"),
        b"\xee" * 2,
        b"\xee" * 2,
    )
    assert parsed.fdes == (
        FuncDescEntryV1(0x1000, 12, 0, 3, FdeInfo(0, 0, 0, 0)),
        FuncDescEntryV1(0x100C, 0x10000, 11, 2, FdeInfo(0, 1, 0, 2)),
    )
    assert (parsed.trailing, end) == (b"\x5a", len(data))
    assert engine.build(parsed, order) == data


@pytest.mark.usefixtures("kernels")
@EACH_ORDER
def test_section_of_aarch64_is_read(order: ByteOrder) -> None:
    first, second = from_sframe(AARCH64[order], ADDRESS)
    assert (first.start, first.size, first.flags) == (0x403000, 12, FunctionFlag(0))
    assert first.rows == (
        row(0, on(31, 0)),
        row(4, on(31, 0), ra_state=RaState.SIGNED),
        row(8, on(31, 16), at(29, -16), at(30, -8), ra_state=RaState.SIGNED),
    )
    assert (second.start, second.size, second.flags) == (0x40300C, 0x10000, FunctionFlag.PAUTH_B_KEY)
    assert second.rows == (row(0, on(31, 0)), row(4, on(31, 272), ra_state=RaState.SIGNED))


@pytest.mark.usefixtures("kernels")
@EACH_ORDER
def test_pcs_of_aarch64_are_looked_up(order: ByteOrder) -> None:
    found = find_fres(AARCH64[order], [0x402FFF, 0x403008, 0x40300F, 0x403010, 0x41300B, 0x41300C], ADDRESS)
    assert found.fde.tolist() == [-1, 0, 1, 1, 1, -1]
    assert found.fres.start.tolist() == [0, 8, 0, 4, 4, 0]
    assert found.fres.info.tolist() == [0, 0x87, 0x03, 0xA3, 0xA3, 0]
    assert found.fres.words.tolist() == [[0] * 3, [16, -8, -16], [0] * 3, [272, 0, 0], [272, 0, 0], [0] * 3]


@EACH_ORDER
def test_section_of_aarch64_is_printed(order: ByteOrder) -> None:
    lines = [line.rstrip() for line in text(AARCH64[order], order).splitlines()]
    assert lines[3:7] == [
        "    Version: SFRAME_VERSION_1",
        "    Flags: SFRAME_F_FDE_SORTED",
        "    Num FDEs: 2",
        "    Num FREs: 5",
    ]
    assert lines[10:] == [
        "    func idx [0]: pc = 0x403000, size = 12 bytes",
        "    STARTPC         CFA       FP        RA",
        "    0000000000403000  sp+0      u         u",
        "    0000000000403004  sp+0      u         u[s]",
        "    0000000000403008  sp+16     c-16      c-8[s]",
        "",
        "    func idx [1]: pc = 0x40300c, size = 65536 bytes, pauth = B key",
        "    STARTPC         CFA       FP        RA",
        "    000000000040300c  sp+0      u         u",
        "    0000000000403010  sp+272    u         u[s]",
    ]


# --- PCMASK ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("kernels")
def test_block_without_an_fre_at_its_start_has_no_rules_there() -> None:
    data = octets("""
        e2de 01 01 03 00 f8 00
        01000000 01000000 03000000 00000000 11000000
        00100000 28000000 00000000 01000000 10   # PCMASK, two and a half blocks
        04 03 08
    """)
    (function,) = from_sframe(data)
    assert (function.repetition, function.rows) == (16, (row(0, NO_CFA), row(4, sp(8), SAVED_RA)))
    pcs = [0x1000, 0x1003, 0x1004, 0x100F, 0x1010, 0x1013, 0x1014, 0x1023, 0x1024, 0x1027, 0x1028]
    found = find_fres(data, pcs)
    assert found.fde.tolist() == [0] * 10 + [-1]
    assert found.found.tolist() == [False, False, True, True, False, False, True, False, True, True, False]
