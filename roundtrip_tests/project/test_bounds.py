"""Time and memory stay proportional to the input: attempts at amplification, each in a separate process with limits.

Strategy: a case is a few lines that make bytes and read them; the child gets CPU seconds and address space in addition
to its use after the imports, and prints the result: a number, or the error.
"""

from __future__ import annotations

import textwrap

import pytest

from ..support.limited import MEGABYTE, compiled_only, run

CASES = [
    pytest.param(
        """
        names = b"".join(bytes([6, 0x80 | n & 0x7F, n >> 7]) for n in range(255))
        rows = b"".join(bytes([0x41, 0x0E, 0x80 | n & 0x7F, 0x80 | n >> 7 & 0x7F, n >> 14]) for n in range(100_000))
        data = CIE + fde(len(CIE), names + rows)
        LIMITS
        print(printed(data, True) > 1500 * 100_000)
        """,
        *(400, 10, "True"),
        id="dump: a hundred thousand rows of 256 columns",
    ),
    pytest.param(
        """
        names = b"".join(bytes([7, 0x80 | n & 0x7F, n >> 7]) for n in range(253))
        data = bytearray(entry(bytes.fromhex("00000000 01 00 01 78 10 0c0708 9001") + names))
        for n in range(20_000):
            data += fde(len(data), bytes([4, *n.to_bytes(4, "little"), 0, 0, 0]))
        LIMITS
        print(printed(data, True) > 1500 * 20_000)
        """,
        *(500, 4, "True"),
        id="dump: a CIE's 256 columns in each of 20,000 different FDEs",
    ),
    pytest.param(
        """
        data = CIE + fde(len(CIE), bytes.fromhex("41") * (2 * MEGABYTE))
        LIMITS
        print(printed(data, True) // MEGABYTE, printed(data, False) // MEGABYTE)
        """,
        *(800, 6, "66 88"),
        id="dump: two million rows of one function",
    ),
    pytest.param(
        """
        data = CIE + fde(len(CIE), bytes.fromhex("0a") * MEGABYTE)
        LIMITS
        print(len(table(data).rows.offset))
        """,
        *(400, 4, "1"),
        id="a million remembered states",
    ),
    pytest.param(
        """
        data = CIE + fde(len(CIE), bytes.fromhex("0a 8601") * (MEGABYTE // 4) + bytes.fromhex("0b") * (MEGABYTE // 4))
        LIMITS
        print(len(table(data).rows.offset))
        """,
        *(400, 4, "1"),
        id="deep states, each with other rules",
    ),
    pytest.param(
        """
        rules = b"".join(bytes([7, 0x80 | n & 0x7F, n >> 7]) for n in range(256))
        data = CIE + fde(len(CIE), rules + bytes.fromhex("8001 41 8002 41") * (MEGABYTE // 6))
        LIMITS
        try:
            table(data)
        except FormatError as error:
            print(error)
        """,
        *(
            2500,
            6,
            ".eh_frame: FDE[0].instructions: more than 64 register rules for each byte of the section (--raise-limits)",
        ),
        id="256 live rules and a row every three bytes",
    ),
    pytest.param(
        """
        rules = b"".join(bytes([7, 0x80 | n & 0x7F, n >> 7]) for n in range(256))
        data = CIE + fde(len(CIE), rules + bytes.fromhex("0a 0b") * (MEGABYTE // 2))
        LIMITS
        print(len(table(data).rows.offset))
        """,
        *(100, 4, "1"),
        id="256 live rules saved and restored",
    ),
    pytest.param(
        """
        data = CIE + fde(len(CIE), bytes.fromhex("41") * (4 * MEGABYTE))
        LIMITS
        print(len(table(data).rows.offset))
        """,
        *(800, 4, str(4 * MEGABYTE + 1)),
        id="a row every byte",
    ),
    pytest.param(
        """
        data = CIE + fde(len(CIE), bytes.fromhex("10 06 00 41") * (MEGABYTE // 4))
        LIMITS
        print(len(table(data).expressions))
        """,
        *(300, 4, str(MEGABYTE // 4)),
        id="an expression every four bytes",
    ),
    pytest.param(
        """
        data = bytearray(CIE)
        for number in range(MEGABYTE // 24):
            data += fde(len(data), b"", number << 41 & (1 << 63) - 1)
        LIMITS
        found = table(bytes(data))
        print(len(found), len(found.run_rows))
        """,
        *(200, 4, f"{MEGABYTE // 24} 2"),
        id="functions without instructions",
    ),
    pytest.param(
        """
        sizes = (bytes([0x2E, 0x80 | n & 0x7F, n >> 7]) for n in range(4000))  # GNU_args_size: 4000 different CIEs
        data = bytearray(b"".join(entry(bytes.fromhex("00000000 01 00 01 78 10") + size) for size in sizes))
        for number in range(4000):
            data += entry((len(data) + 4 - number * 16).to_bytes(4, "little") + bytes(16))
        LIMITS
        print(len(table(bytes(data))))
        """,
        *(200, 10, "4000"),
        id="a CIE of its own for each function",
    ),
    pytest.param(
        """
        LIMITS
        for data in (bytes(4 * MEGABYTE), b"\\xff" * (4 * MEGABYTE)):
            try:
                print(len(table(data)))
            except FormatError as error:
                print(error)
        """,
        *(400, 2, "0\n.eh_frame+0x0: entry[0].length: the length reaches past the section's end"),
        id="megabytes of zeros and of ones",
    ),
    pytest.param(
        """
        cie = entry(bytes(4) + bytes.fromhex("01 7a") + b"q" * MEGABYTE + bytes.fromhex("00 01 78 10 00"))
        LIMITS
        print(len(table(cie + entry((len(cie) + 4).to_bytes(4, "little") + bytes(17)))))
        """,
        *(200, 4, "1"),
        id="an augmentation of a megabyte",
    ),
    pytest.param(
        """
        letters, data = b"P" * MEGABYTE, b"\\xff" * MEGABYTE
        cie = entry(bytes(4) + b"\\x01z" + letters + bytes.fromhex("00 01 78 10 808040") + data)
        LIMITS
        try:
            table(cie + entry((len(cie) + 4).to_bytes(4, "little") + bytes(17)))
        except FormatError as error:
            print(error.section, error.offset, error.record)
        """,
        *(200, 4, ".eh_frame 0 CIE[0].augmentation"),
        id="a million personalities",
    ),
    pytest.param(
        """
        cie = entry(bytes.fromhex("00000000 01 00") + b"\\x80" * MEGABYTE + bytes.fromhex("00 78 10"))
        data = cie + entry((len(cie) + 4).to_bytes(4, "little") + bytes(16) + b"\\x0e" + b"\\x80" * MEGABYTE + b"\\x00")
        LIMITS
        print(len(table(data)))
        """,
        *(200, 6, "1"),
        id="LEB128 padded with a megabyte",
    ),
    pytest.param(
        """
        data = bytes.fromhex("8601") * 50000
        LIMITS
        print(len(cfi_sections.parse_instructions(Section.of("test", data), 0, len(data))))
        """,
        *(200, 6, "50000"),
        id="the reference engine and many instructions",
    ),
    pytest.param(
        """
        data = bytes.fromhex("01 1b 04 3b 00000000 ffffffffffffff7f") + bytes(8 * 10000)
        LIMITS
        try:
            engine.parse(EhFrameHdr, Section.of(".eh_frame_hdr", data), 0, len(data))
        except FormatError as error:
            print(error.section, error.record)
        """,
        *(200, 6, ".eh_frame_hdr EhFrameHdr.table"),
        id="a table without end",
    ),
    pytest.param(
        """
        # Every FDE starts one FRE further into the same FREs.
        import struct
        count, size = 20000, 60000
        fres = b"".join(struct.pack("<HBb", n, 3, 8) for n in range(size))
        fdes = b"".join(struct.pack("<iIIIBBH", n, 1 << 30, 4 * n, size - n, 1, 0, 0) for n in range(count))
        data = sframe(fdes, fres, count)
        LIMITS
        try:
            from_sframe(data)
        except FormatError as error:
            print(error)
        """,
        *(
            300,
            4,
            ".sframe: header.num_fdes: FDEs refer to 1000010000 FREs in a sub-section of 240000 bytes (--raise-limits)",
        ),
        id="FDEs that name overlapping FREs",
    ),
    pytest.param(
        """
        # Every FDE names all FREs, and each cuts them at another end.
        import struct
        count, size = 20000, 60000
        fres = b"".join(struct.pack("<HBb", n, 3, 8) for n in range(size))
        fdes = b"".join(struct.pack("<iIIIBBH", 0, 20001 + n, 0, size, 1, 0, 0) for n in range(count))
        data = sframe(fdes, fres, count)
        LIMITS
        try:
            from_sframe(data)
        except FormatError as error:
            print(error)
        """,
        *(300, 4, ".sframe: FDE[127]: more than 4 rows for each byte of the section (--raise-limits)"),
        id="FDEs that cut the same FREs everywhere",
    ),
    pytest.param(
        """
        import struct
        fdes = struct.pack("<iIIIBBH", 0x1000, 0xFFFFFFFF, 0, 1, 0x10, 1, 0)
        data = sframe(fdes, bytes.fromhex("00 03 08"), 1)
        LIMITS
        found = from_sframe(data)
        try:
            by_pc(found)
        except FormatError as error:
            print(error.record)
        print(len(to_sframe(found)[0]))
        """,
        *(100, 2, "func_rep_size\n51"),
        id="a repetitive block of one byte over four gigabytes",
    ),
]

# For an `.sframe`, whose FDEs may share FREs: the dump, the look-up, and version 1.
READERS = [
    pytest.param(
        """
        # 20,000 FDEs of 17 bytes that name the same 60,000 FREs.
        import struct
        fres = b"".join(struct.pack("<HBb", n, 3, 8) for n in range(60000))
        data = sframe(struct.pack("<iIIIB", 0, 1 << 30, 0, 60000, 1) * 20000, fres, 20000, version=1)
        LIMITS
        # The table has a function's rows once.
        print(len(from_sframe(data)), len(from_sframe(data).rows.offset))
        print(find_fres(data, [5, 1 << 29, 1 << 31]).fres.start.tolist())
        for read in (dump, sframe_json):
            try:
                next(iter(read(Section.of(".sframe", data) if read is sframe_json else data)))
            except FormatError as error:
                print(error)
        """,
        *(200, 4),
        "20000 60000\n[5, 59999, 0]\n"
        + "\n".join(
            [
                ".sframe: header.num_fdes: FDEs refer to 1200000000 FREs in a sub-section of 240000 bytes"
                " (--raise-limits)"
            ]
            * 2
        ),
        id="the dump of FDEs that name the same FREs",
    ),
    pytest.param(
        """
        import struct
        fres = b"".join(struct.pack("<HBb", n, 3, 8) for n in range(1024))
        data = sframe(struct.pack("<iIIIB", 0, 1 << 30, 0, 1024, 1) * 1024, fres, 1024, version=1)
        LIMITS
        # As many FREs as are free: 2**20 lines of 55 bytes, piece by piece.
        print(len(data), sum(map(len, dump(data))) >> 20)
        print(sum(len(fde["fres"]) for fde in sframe_json(Section.of(".sframe", data))[1]))
        """,
        *(300, 10, "21532 56\n1048576"),
        id="the longest dump of a few kilobytes",
    ),
    pytest.param(
        """
        import struct
        fde = struct.pack("<iIIIB", 0, 1 << 30, 0, 1 << 20, 2)
        data = sframe(fde, bytes.fromhex("00000000 03 08") * (1 << 20), 1, version=1)
        LIMITS
        print(len(data) >> 20, sum(map(len, dump(data))) >> 20)
        """,
        *(500, 6, "6 56"),
        id="the dump of one function with a million FREs",
    ),
    pytest.param(
        """
        import struct
        data = sframe(struct.pack("<iIIIB", 0, 1 << 30, 0, 0xFFFFFFFF, 0), bytes.fromhex("00 03 08") * MEGABYTE, 1, 1)
        LIMITS
        try:
            find_fres(data, [1, 2, 3])
        except FormatError as error:
            print(error)
        for read in (from_sframe, lambda data: next(dump(data))):
            try:
                read(data)
            except FormatError as error:
                print(error.record)
        """,
        *(100, 2, ".sframe+0x30002d: FDE[0].FRE: the record ends inside a value\nheader.num_fdes\nheader.num_fdes"),
        id="a look-up in a function of four thousand million FREs",
    ),
    pytest.param(
        """
        import struct
        data = sframe(struct.pack("<iIIIB", 0, 8, 0, 0, 0) * 500000, b"", 500000, 1)
        LIMITS
        print(len(data), find_fres(data, range(1000)).found.sum(), len(from_sframe(data)))
        print(sum(map(len, dump(data))) >> 20)
        """,
        *(500, 6, "8500028 0 500000\n49"),
        id="half a million FDEs of no FREs",
    ),
    pytest.param(
        """
        # Every FDE of version 1 names all FREs, and each cuts them at another end.
        import struct
        count, size = 20000, 60000
        fres = b"".join(struct.pack("<HBb", n, 3, 8) for n in range(size))
        fdes = b"".join(struct.pack("<iIIIB", 0, 20001 + n, 0, size, 1) for n in range(count))
        data = sframe(fdes, fres, count, version=1)
        LIMITS
        try:
            from_sframe(data)
        except FormatError as error:
            print(error)
        """,
        *(300, 4, ".sframe: FDE[115]: more than 4 rows for each byte of the section (--raise-limits)"),
        id="FDEs of 17 bytes that cut the same FREs everywhere",
    ),
]


@pytest.mark.parametrize(("code", "megabytes", "seconds", "expected"), CASES + READERS)
def test_amplification(code: str, megabytes: int, seconds: int, expected: str) -> None:
    compiled_only()
    assert run(f"MEGABYTE = {MEGABYTE}\n{textwrap.dedent(code)}", megabytes, seconds) == expected
