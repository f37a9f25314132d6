"""Hostile `.sframe` sections and every reader: table, look-up, dump, JSON; V1 and V2, both byte orders.

Strategy: sections are packed here field by field, for AArch64, which has both byte orders. A fault is a ParseError with
section, offset and record in each reader that checks it; everything else has an exact result in each. The dump looks
nothing up: it prints what is stored, as readelf 2.47 does.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from unwindkit import ParseError, by_pc, find_fres, from_sframe
from unwindkit.converters.sframe.dump import sframe_json, sframe_text
from unwindkit.schemas.section import ByteOrder, Section

from ..support.handmade import NO_CFA, at, octets, on, place, row, starts
from ..support.oracles import run_oracle
from ..support.wrapped import wrapped_section

pytestmark = pytest.mark.usefixtures("kernels")

SORTED = 1
HEADER = 28
FRES = "00 03 08  04 03 10"  # +0: CFA = SP + 8; +4: CFA = SP + 16
SP8, SP16 = row(0, on(31, 8)), row(4, on(31, 16))


@dataclass(frozen=True, slots=True)
class Fde:
    """Function descriptor entry; `start` is relative to the section."""

    start: int = 0x1000
    size: int = 16
    offset: int = 0
    count: int = 2
    info: int = 0
    repetition: int = 0


@dataclass(frozen=True, slots=True)
class Kind:
    """The variant that sections are packed in."""

    version: int
    order: ByteOrder

    @property
    def fde_size(self) -> int:
        return 17 if self.version == 1 else 20

    def fres_offset(self, fdes: int = 1) -> int:
        """Where the FREs start."""
        return HEADER + fdes * self.fde_size

    def section(self, *fdes: Fde, fres: str = FRES, **header: int) -> bytes:
        """A section at 0; `header` holds false values of header fields."""
        end = "<" if self.order == "little" else ">"
        data = b""
        for fde in fdes or (Fde(),):
            data += struct.pack(f"{end}iIIIB", fde.start, fde.size, fde.offset, fde.count, fde.info)
            data += struct.pack("BBB", fde.repetition, 0, 0) if self.version == 2 else b""
        rows = octets(fres)
        fields = {
            "flags": SORTED,
            "auxhdr_len": 0,
            "num_fdes": len(data) // self.fde_size,
            "num_fres": 2,
            "fre_len": len(rows),
            "fdeoff": 0,
            "freoff": len(data),
        } | header
        flags, auxiliary, *numbers = fields.values()
        abi = 2 if self.order == "little" else 1
        return struct.pack(f"{end}HBBBbbB5I", 0xDEE2, self.version, flags, abi, 0, 0, auxiliary, *numbers) + data + rows


KINDS = [Kind(version, order) for version in (1, 2) for order in ("little", "big")]


@pytest.fixture(params=KINDS, ids=lambda kind: f"V{kind.version}-{kind.order}", name="kind")
def _kind(request: pytest.FixtureRequest) -> Kind:
    return request.param


# --- readers --------------------------------------------------------------------------------------------------


def printed(data: bytes) -> list[str]:
    """The dump's lines from the first FDE on, without trailing blanks."""
    text = b"".join(sframe_text(Section.of(".sframe", data))).decode()
    return [line.rstrip() for line in text.partition("Function Index :\n")[2].splitlines() if line]


def plain(data: bytes) -> list[dict[str, object]]:
    """The FDEs as in JSON."""
    return list(sframe_json(Section.of(".sframe", data))[1])


def found(data: bytes, *pcs: int) -> list[tuple[int, int | None]]:
    """For each PC the FDE, and the CFA's offset, None where no FRE applies."""
    at = find_fres(data, pcs)
    offsets = [words[0] if hit else None for words, hit in zip(at.fres.words.tolist(), at.found.tolist(), strict=True)]
    return list(zip(at.fde.tolist(), offsets, strict=True))


def head(index: int, start: int, size: int, mark: str = "   ") -> list[str]:
    """What the dump prints before an FDE's rows."""
    return [
        f"    func idx [{index}]: pc = {start:#x}, size = {size} bytes",
        f"    STARTPC{mark}      CFA       FP        RA",
    ]


def line(pc: int, cfa: str) -> str:
    """What the dump prints of an FRE of one word."""
    return f"    {pc:016x}  {cfa:<10}u         u"


TABLE, LOOKUP, DUMP, PLAIN = from_sframe, lambda data: find_fres(data, range(0x1000, 0x1010)), printed, plain
Reader = Callable[[bytes], object]
EVERY_READER = pytest.mark.parametrize("read", [TABLE, LOOKUP, DUMP, PLAIN], ids=["table", "look-up", "dump", "JSON"])
WHO_LOOKS_UP = pytest.mark.parametrize("read", [TABLE, LOOKUP], ids=["table", "look-up"])


def refused(read: Reader, data: bytes) -> ParseError:
    with pytest.raises(ParseError) as caught:
        read(data)
    return caught.value


def test_the_section_that_the_cases_change_is_good(kind: Kind) -> None:
    data = kind.section()
    (function,) = from_sframe(data)
    assert (function.start, function.size, function.rows) == (0x1000, 16, (SP8, SP16))
    assert found(data, 0xFFF, 0x1000, 0x1003, 0x1004, 0x100F, 0x1010) == [
        *((-1, None), (0, 8), (0, 8), (0, 16), (0, 16), (-1, None))
    ]
    assert printed(data) == [*head(0, 0x1000, 16), line(0x1000, "sp+8"), line(0x1004, "sp+16")]


# --- counts and offsets that lead outside the section ---------------------------------------------------------


@EVERY_READER
@pytest.mark.parametrize("count", [2, 0x7FFFFFFF, 0xFFFFFFFF])
def test_more_fdes_than_bytes(kind: Kind, read: Reader, count: int) -> None:
    error = refused(read, kind.section(num_fdes=count))
    assert place(error) == (".sframe", 0, "header.num_fdes")
    end = HEADER + count * kind.fde_size
    size = HEADER + kind.fde_size + 6
    assert error.reason == f"the sub-section ends at {end:#x}, the section at {size:#x}"


@EVERY_READER
def test_num_fdes_times_their_size_overflows_32_bits(kind: Kind, read: Reader) -> None:
    # 17 * 0xf0f0f0f1 is 1, and 20 * 0xcccccccd is 4, modulo 2**32: the sub-section seems to end inside the section.
    count, seems = {17: (0xF0F0F0F1, 1), 20: (0xCCCCCCCD, 4)}[kind.fde_size]
    assert count * kind.fde_size % (1 << 32) == seems
    assert place(refused(read, kind.section(num_fdes=count))) == (".sframe", 0, "header.num_fdes")


@EVERY_READER
@pytest.mark.parametrize("fre_len", [0, 6, 0xFFFFFFFF])
@pytest.mark.parametrize("freoff", [0x100, 0x7FFFFFFF, 0xFFFFFFFF])
def test_freoff_past_the_end(kind: Kind, read: Reader, freoff: int, fre_len: int) -> None:
    error = refused(read, kind.section(freoff=freoff, fre_len=fre_len))
    assert place(error) == (".sframe", 0, "header.fre_len")
    assert error.reason.startswith(f"the sub-section ends at {HEADER + freoff + fre_len:#x}, the section at ")


@EVERY_READER
def test_auxiliary_header_longer_than_the_section(kind: Kind, read: Reader) -> None:
    error = refused(read, kind.section(auxhdr_len=255))
    assert place(error) == (".sframe", 0, "header.num_fdes")
    assert error.reason.startswith(f"the sub-section ends at {HEADER + 255 + kind.fde_size:#x}, the section at ")
    # This one pushes only the FREs out of the section: they are what is missing.
    assert place(refused(read, kind.section(auxhdr_len=6))) == (".sframe", 0, "header.fre_len")


@EVERY_READER
@pytest.mark.parametrize("offset", [6, 0x7FFFFFFF, 0xFFFFFFFF])
def test_first_fre_past_the_sub_section(kind: Kind, read: Reader, offset: int) -> None:
    error = refused(read, kind.section(Fde(offset=offset)))
    assert place(error) == (".sframe", HEADER, "FDE[0].func_start_fre_off")
    assert error.reason == "is past the end of the FRE sub-section of 0x6 bytes"


@EVERY_READER
def test_fre_count_times_size_past_fre_len(kind: Kind, read: Reader) -> None:
    error = refused(read, kind.section(Fde(count=3)))
    assert place(error) == (".sframe", kind.fres_offset() + 6, "FDE[0].FRE")
    assert error.reason == "the record ends inside a value"


@pytest.mark.parametrize("count", [1 << 21, 0x7FFFFFFF, 0xFFFFFFFF])
def test_fre_count_out_of_all_proportion(kind: Kind, count: int) -> None:
    data = kind.section(Fde(count=count))
    for read in (TABLE, DUMP, PLAIN):
        error = refused(read, data)
        assert place(error) == (".sframe", None, "header.num_fdes")
        assert error.reason == f"FDEs refer to {count} FREs in a sub-section of 6 bytes (--raise-limits)"
    # A look-up reads up to the end of the sub-section, if the PC is not found before.
    assert found(data, 0x1003) == [(0, 8)]
    assert place(refused(LOOKUP, data)) == (".sframe", kind.fres_offset() + 6, "FDE[0].FRE")


@EVERY_READER
@pytest.mark.parametrize("fretype", [3, 15])
def test_fre_type_that_is_none(kind: Kind, read: Reader, fretype: int) -> None:
    error = refused(read, kind.section(Fde(info=fretype)))
    assert place(error) == (".sframe", HEADER, "FDE[0].func_info.fretype")


# --- malformed FREs -------------------------------------------------------------------------------------------


@EVERY_READER
@pytest.mark.parametrize("info", ["63", "e7", "61"])
def test_size_code_3(kind: Kind, read: Reader, info: str) -> None:
    error = refused(read, kind.section(fres=f"00 03 08  04 {info} 10"))
    assert place(error) == (".sframe", kind.fres_offset() + 3, "FDE[0].FRE")
    assert error.reason == "3 is not a valid size of stack offsets"


@pytest.mark.parametrize("count", [4, 6, 7, 15])
@pytest.mark.parametrize(("size", "octet"), [(0, "f8"), (1, "f8ff"), (2, "f8ffffff")])
def test_offsets_after_the_third_are_read_over(kind: Kind, count: int, size: int, octet: str) -> None:
    """V2 allows up to 15 (The SFrame FRE Info Word): CFA, RA, FP, and what a future ABI may add. +0: CFA = SP + 8; +4:
    CFA = SP - 8, RA and FP at CFA - 8; +8: CFA = SP + 16.
    """
    octet = octet if kind.order == "little" else octets(octet)[::-1].hex()
    data = kind.section(Fde(count=3), fres=f"00 03 08  04 {size << 5 | count << 1 | 1:02x} {octet * count}  08 03 10")
    (function,) = from_sframe(data)
    assert function.rows == (SP8, row(4, on(31, -8), at(29, -8), at(30, -8)), row(8, on(31, 16)))
    assert found(data, 0x1000, 0x1007, 0x1008) == [(0, 8), (0, -8), (0, 16)]
    saved = {"offset": -8}
    assert plain(data)[0]["fres"] == [
        {"start_address": 0, **ordinary(8)},
        {"start_address": 4, **ordinary(-8), "fp": saved, "ra": saved, "further_words": [-8] * (count - 3)},
        {"start_address": 8, **ordinary(16)},
    ]
    # readelf 2.47 prints the same up to 6 offsets, and nothing sensible from the first FRE with more on.
    assert printed(data) == [
        *head(0, 0x1000, 16),
        line(0x1000, "sp+8"),
        f"    {0x1004:016x}  {'sp+-8':<10}{'c-8':<10}c-8",
        line(0x1008, "sp+16"),
    ]


def test_json_has_the_flags_and_the_auxiliary_header(kind: Kind) -> None:
    data = kind.section(flags=SORTED | 2, auxhdr_len=3)
    data = data[:HEADER] + b"\x01\x02\xff" + data[HEADER:]
    header, fdes = sframe_json(Section.of(".sframe", data))
    assert (header["flags"], header["auxiliary_header"]) == (["FDE_SORTED", "FRAME_POINTER"], "0102ff")
    assert [fde["func_start_address"] for fde in fdes] == [0x1000]
    assert "auxiliary_header" not in sframe_json(Section.of(".sframe", kind.section()))[0]


def ordinary(offset: int) -> dict[str, object]:
    """The content of an FRE of one word, as in JSON."""
    return {"cfa": {"register": "sp", "offset": offset}, "fp": None, "ra": None, "mangled_ra": False}


@WHO_LOOKS_UP
def test_offset_count_0_says_nothing_of_a_pc(kind: Kind, read: Reader) -> None:
    error = refused(read, kind.section(fres="00 03 08  04 01"))
    assert place(error) == (".sframe", kind.fres_offset() + 3, "FDE[0].FRE")
    assert error.reason == "this version does not allow this number of data words"


def test_offset_count_0_is_printed_as_an_outermost_frame(kind: Kind) -> None:
    data = kind.section(fres="00 03 08  04 01")
    assert printed(data) == [*head(0, 0x1000, 16), line(0x1000, "sp+8"), f"    {0x1004:016x}  RA undefined"]
    assert plain(data)[0]["fres"][1] == {"start_address": 4, "cfa": None, "fp": None, "ra": None, "mangled_ra": False}


def test_fres_that_do_not_ascend(kind: Kind) -> None:
    for second in ("00", "02"):
        data = kind.section(Fde(count=3), fres=f"00 03 08  02 03 10  {second} 03 18")
        error = refused(TABLE, data)
        assert place(error) == (".sframe", kind.fres_offset() + 6, "FDE[0].FRE")
        assert error.reason == "the start address is not above that of the previous FRE"
        assert printed(data)[-1] == line(0x1000 + int(second, 16), "sp+24")
    # A look-up reads up to the first FRE past the PC, and no further.
    assert found(kind.section(Fde(count=3), fres="00 03 08  08 03 10  04 03 18"), 0x1007) == [(0, 8)]


# --- malformed FDEs -------------------------------------------------------------------------------------------


def test_pcmask_block_of_0(kind: Kind) -> None:
    data = kind.section(Fde(info=0x10, repetition=0))
    lines = [*head(0, 0x1000, 16, "[m]"), line(0, "sp+8"), line(4, "sp+16")]
    assert printed(data) == lines
    if kind.version == 1:  # no such field: blocks have 16 bytes
        assert from_sframe(data).function(0).repetition == 16
        return
    for read in (TABLE, LOOKUP):
        error = refused(read, data)
        assert place(error) == (".sframe", HEADER, "FDE[0].func_rep_size")
        assert error.reason == "the repetitive block has no bytes"
    assert (plain(data)[0]["fdetype"], plain(data)[0]["func_rep_size"]) == ("PCMASK", 0)


UNSORTED = Fde(), Fde(start=0xFFF, size=1, count=1)


@WHO_LOOKS_UP
def test_unsorted_with_the_sorted_flag(kind: Kind, read: Reader) -> None:
    error = refused(read, kind.section(*UNSORTED))
    assert place(error) == (".sframe", HEADER + kind.fde_size, "FDE[1].func_start_address")
    assert error.reason == "is below the one before, but the section is flagged as sorted"
    read(kind.section(*UNSORTED, flags=0))


@pytest.mark.parametrize("flags", [0, SORTED])
def test_unsorted_fdes_are_printed_in_their_order(kind: Kind, flags: int) -> None:
    data = kind.section(*UNSORTED, flags=flags)
    rows = [line(0x1000, "sp+8"), line(0x1004, "sp+16")]
    assert printed(data) == [*head(0, 0x1000, 16), *rows, *head(1, 0xFFF, 1), line(0xFFF, "sp+8")]
    assert [fde["func_start_address"] for fde in plain(data)] == [0x1000, 0xFFF]


def test_function_size_0_holds_no_pc(kind: Kind) -> None:
    data = kind.section(Fde(size=0), Fde())
    empty, other = from_sframe(data)
    assert (empty.size, starts(empty.rows), other.rows) == (0, [0], (SP8, SP16))
    assert by_pc(from_sframe(data)).start.tolist() == [0x1000, 0x1004]
    assert found(data, 0x1000, 0x1004) == [(1, 8), (1, 16)]
    assert found(kind.section(Fde(size=0)), 0x1000) == [(-1, None)]
    rows = [line(0x1000, "sp+8"), line(0x1004, "sp+16")]
    assert printed(data) == [*head(0, 0x1000, 0), *rows, *head(1, 0x1000, 16), *rows]


def test_pcmask_function_of_size_0(kind: Kind) -> None:
    data = kind.section(Fde(size=0, info=0x10, repetition=16))
    assert (len(from_sframe(data)), len(by_pc(from_sframe(data)).start)) == (1, 0)
    assert found(data, 0x1000) == [(-1, None)]


def test_overlapping_fdes(kind: Kind) -> None:
    data = kind.section(Fde(size=0x20), Fde(start=0x1008, size=8), Fde(start=0x1018, size=16))
    # In the table a PC belongs to the function that starts first; a look-up finds the last that starts before the PC.
    rules = by_pc(from_sframe(data))
    assert list(zip(rules.start.tolist(), rules.end.tolist(), strict=True)) == [(0x1000, 0x1004), (0x1004, 0x1028)]
    assert found(data, 0x1007, 0x1008, 0x100C, 0x1010, 0x1017, 0x1018, 0x1027, 0x1028) == [
        *((0, 16), (1, 8), (1, 16), (-1, None), (-1, None), (2, 8), (2, 16), (-1, None))
    ]
    assert [text for text in printed(data) if "func idx" in text] == [
        *(head(0, 0x1000, 0x20)[0], head(1, 0x1008, 8)[0], head(2, 0x1018, 16)[0])
    ]


def test_fre_start_past_the_function(kind: Kind) -> None:
    data = kind.section(Fde(size=4))  # the second FRE is at its end
    (function,) = from_sframe(data)
    assert function.rows == (SP8,)
    assert found(data, 0x1000, 0x1003, 0x1004) == [(0, 8), (0, 8), (-1, None)]
    assert printed(data)[-1] == line(0x1004, "sp+16")
    # The first FRE is past it: the function has no row.
    data = kind.section(fres="10 03 08  ff 03 10")
    (function,) = from_sframe(data)
    assert function.rows == (row(0, NO_CFA),)
    assert len(by_pc(from_sframe(data)).start) == 0
    assert found(data, 0x1000, 0x100F, 0x1010) == [(0, None), (0, None), (-1, None)]
    # In a repetitive block: beyond the block.
    data = kind.section(Fde(size=48, info=0x10, repetition=16), fres="00 03 08  10 03 10")
    assert from_sframe(data).function(0).rows == (SP8,)
    assert found(data, 0x100F, 0x1010, 0x102F) == [(0, 8)] * 3


def test_function_past_the_address_space(kind: Kind) -> None:
    data = kind.section(Fde(size=0xFFFFFFFF))
    address = 0xFFFFFFFF00000000
    for read in (lambda data: from_sframe(data, address), lambda data: find_fres(data, [0], address)):
        error = refused(read, data)
        assert place(error) == (".sframe", HEADER, "FDE[0].func_size")
    text = b"".join(sframe_text(Section.of(".sframe", data, address))).decode()
    assert "pc = 0xffffffff00001000, size = -1 bytes\n" in text  # as readelf prints it


# --- the dump, by readelf -------------------------------------------------------------------------------------

PRINTED = {
    "outermost frame": ((Fde(),), "00 03 08  04 01"),
    "descending FREs": ((Fde(),), "08 03 08  04 03 10"),
    "block of 0": ((Fde(info=0x10),), FRES),
    "unsorted": (UNSORTED, FRES),
    "size 0": ((Fde(size=0x10, count=1), Fde(start=0x1010, size=0, count=0), Fde(start=0x1010)), FRES),
    "overlap": ((Fde(size=0x20), Fde(start=0x1008, size=8)), FRES),
    "FDEs that share FREs": ((Fde(), Fde(start=0x1010, offset=3, count=1)), FRES),
    "key B": ((Fde(info=0x20),), "00 83 08  04 87 10 f8 f0"),
    "padding for RA": ((Fde(),), "00 03 08  04 07 10 00 f0"),
    "four offsets": ((Fde(),), "00 03 08  04 09 10 f8 f0 18"),
    "six offsets": ((Fde(),), "00 03 08  04 0d 10 f8 f0 18 20 28"),
    "no FDEs": ((Fde(count=0),), FRES),
    "size above 2 GiB": ((Fde(size=0xFFFFFFF0),), FRES),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", PRINTED)
def test_what_is_no_fault_is_printed_as_readelf_prints_it(name: str, tmp_path: Path) -> None:
    fdes, fres = PRINTED[name]
    # Not included: an FRE past its function, on which readelf aborts.
    data = Kind(2, "little").section(*fdes, fres=fres, flags=SORTED | 2 | 4)
    path = tmp_path / "wrapped"
    wrapped_section(path, data, 0x40000, 183, "little")
    ours = b"".join(sframe_text(Section.of(".sframe", data, 0x40000))).decode()
    assert ours == run_oracle("readelf", "-wN", "--sframe", path)
