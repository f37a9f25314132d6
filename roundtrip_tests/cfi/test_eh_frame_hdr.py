"""`.eh_frame_hdr` against `.eh_frame`: correct ones in every encoding, and each kind of wrong field, found and named.

Strategy: two FDEs at hand-made addresses, and a header written out here in hex; then files made by linkers.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unwindkit import FormatError, info
from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.converters.cfi.dump.eh_frame_hdr import eh_frame_hdr_text
from unwindkit.converters.cfi.eh_frame_hdr import HdrFindings, HdrProblem, check_eh_frame_hdr
from unwindkit.converters.table.model import Function, table_of
from unwindkit.schemas import engine, strategies
from unwindkit.schemas.eh_frame_hdr import EhFrameHdr
from unwindkit.schemas.pointers import DW_EH_PE
from unwindkit.schemas.section import ByteOrder, ParseError, Section

from ..support.commands import unwindkit
from ..support.handmade import NO_CFA, PLAIN_CIE, X86_64_START, Fde, eh_frame, octets, place, row, table_of_bytes
from ..support.programs.objects import PROGRAM, SUITES, TARGETS, assembled, linked
from ..support.real_files import REAL_FILES
from ..support.tiny_elf import CODE, Content, patched, tiny_elf

HDR, FRAME = 0x4000, 0x5000
# The CIE has 20 bytes, an FDE 24 (including its length field).
FRAMES = eh_frame(f"{PLAIN_CIE} {X86_64_START} 0000", Fde(0x1000, 0x40), Fde(0x2000, 0x10))
FDES = (FRAME + 20, FRAME + 20 + 24)
RIGHT = ((0x1000, FDES[0]), (0x2000, FDES[1]))
OMIT = int(DW_EH_PE.omit)
P = HdrProblem
NO_RULES = row(0, NO_CFA)
DATAREL_SDATA4 = DW_EH_PE.datarel | DW_EH_PE.sdata4


def checked(data: bytes, frames: bytes = FRAMES) -> HdrFindings:
    section = Section.of(".eh_frame_hdr", data, HDR)
    return check_eh_frame_hdr(
        section, [(Section.of(".eh_frame", frames, FRAME), table_of_bytes(frames, address=FRAME))]
    )


def found(findings: HdrFindings) -> list[tuple[HdrProblem, int, int, int]]:
    columns = (findings.problem, findings.row, findings.function, findings.address)
    return [(HdrProblem(one[0]), *one[1:]) for one in zip(*(column.tolist() for column in columns), strict=True)]


def usual(rows: Sequence[tuple[int, int]], count: int | None = None, pointer: int = FRAME) -> bytes:
    """As GNU ld writes it: eh_frame_ptr pcrel, the count 4 bytes, the table relative to the section."""
    head = struct.pack("<BBBBiI", 1, 0x1B, 0x03, 0x3B, pointer - (HDR + 4), len(rows) if count is None else count)
    return head + b"".join(struct.pack("<ii", start - HDR, fde - HDR) for start, fde in rows)


def test_right_header_has_no_findings() -> None:
    findings = checked(usual(RIGHT))
    assert (len(findings), findings.rows, findings.sentences()) == (0, 2, ())


@pytest.mark.filterwarnings("error")
def test_addresses_wrap_around_the_largest() -> None:
    """A section header may name any address. Here the rows are after the largest one."""
    address = (1 << 64) - 8
    head = struct.pack("<BBBBiI", 1, 0x1B, 0x03, 0x3B, FRAME + 8 - 4, 2)
    rows = struct.pack("<4i", 0x1000 + 8, FDES[0] + 8, 0x2000 + 8, FDES[1] + 8)
    frame = Section.of(".eh_frame", FRAMES, FRAME)
    tables = [(frame, table_of_bytes(FRAMES, address=FRAME))]
    assert found(check_eh_frame_hdr(Section.of(".eh_frame_hdr", head + rows, address), tables)) == []
    # DW_EH_PE_pcrel in the table: each value is relative to its own address, 2**64 - 8 + 12 + 4 * index.
    values = (0x1000, FDES[0], 0x2000, FDES[1])
    relative = struct.pack("<4i", *(value - (4 + 4 * index) for index, value in enumerate(values)))
    data = head[:3] + b"\x1b" + head[4:] + relative
    assert found(check_eh_frame_hdr(Section.of(".eh_frame_hdr", data, address), tables)) == []


def checked_32(data: bytes, address: int, *functions: Function) -> HdrFindings:
    """As `checked`, for a 32-bit file with these functions, whose FDEs are at `origin` in the `.eh_frame`."""
    frame = Section.of(".eh_frame", b"", FRAME, address_size=4)
    hdr = Section.of(".eh_frame_hdr", data, address, address_size=4)
    return check_eh_frame_hdr(hdr, [(frame, table_of(ARCHITECTURES["x86"], functions))])


TWO_32 = (Function(0x1000, 0x40, (NO_RULES,), origin=0x14), Function(0x2000, 0x10, (NO_RULES,), origin=0x2C))


def test_addresses_of_32_bit_files_wrap_around_theirs() -> None:
    # At 2**32 - 8: eh_frame_ptr counts from 2**32 - 4, the rows from 2**32 - 8.
    data = octets("01 1b 03 3b 04500000 02000000  08100000 1c500000  08200000 34500000")
    assert found(checked_32(data, (1 << 32) - 8, *TWO_32)) == []


def test_absolute_addresses_of_32_bit_files_have_4_bytes() -> None:
    data = octets("01 ff 03 00 02000000  00100000 14500000  00200000 2c500000")
    assert found(checked_32(data, HDR, *TWO_32)) == []
    # One byte less: the second row is missing.
    assert found(checked_32(data[:-1], HDR, *TWO_32)) == [(P.CUT, 1, -1, 0), (P.NO_ROW, -1, 1, 0x2000)]


FIXED = {DW_EH_PE.absptr: "q", DW_EH_PE.udata2: "H", DW_EH_PE.udata4: "I", DW_EH_PE.udata8: "Q"} | {
    DW_EH_PE.signed: "q",
    DW_EH_PE.sdata2: "h",
    DW_EH_PE.sdata4: "i",
    DW_EH_PE.sdata8: "q",
}


@pytest.mark.parametrize("byte_order", ["little", "big"])
@pytest.mark.parametrize("application", [DW_EH_PE.absptr, DW_EH_PE.pcrel, DW_EH_PE.textrel, DW_EH_PE.datarel])
@pytest.mark.parametrize("value_format", FIXED, ids=lambda value_format: value_format.name)
def test_table_in_every_fixed_encoding(value_format: DW_EH_PE, application: DW_EH_PE, byte_order: ByteOrder) -> None:
    order = "<" if byte_order == "little" else ">"
    frames = eh_frame(f"{PLAIN_CIE} {X86_64_START} 0000", Fde(0x6000, 0x40), Fde(0x6100, 9), byte_order=byte_order)
    data = struct.pack(f"{order}BBBBH", 1, DW_EH_PE.udata2, DW_EH_PE.udata8, value_format | application, FRAME)
    data += struct.pack(f"{order}Q", 2)
    code = FIXED[value_format]
    for value in (0x6000, FDES[0], 0x6100, FDES[1]):
        base = {DW_EH_PE.pcrel: HDR + len(data), DW_EH_PE.datarel: HDR}.get(application, 0)
        data += struct.pack(f"{order}{code}", value - base)
    section = Section.of(".eh_frame_hdr", data, HDR, byte_order)
    frame = Section.of(".eh_frame", frames, FRAME, byte_order)
    table = table_of_bytes(frames, address=FRAME, byte_order=byte_order)
    assert found(check_eh_frame_hdr(section, [(frame, table)])) == []
    # One byte of the last value is corrupted: the check must have read it.
    spoilt = data[:-1] + bytes([data[-1] ^ 1])
    assert len(check_eh_frame_hdr(Section.of(".eh_frame_hdr", spoilt, HDR, byte_order), [(frame, table)])) == 1


def test_table_of_leb128_numbers() -> None:
    # 0x1000, 0x5014, 0x2000, 0x502c
    rows = "8020 94a001 8040 aca001"
    assert found(checked(octets(f"01 ff 01 01 02 {rows}"))) == []
    signed = "8020 94a001 80c000 aca001"
    assert found(checked(octets(f"01 ff 09 09 02 {signed}"))) == []


def test_table_of_the_shortest_numbers() -> None:
    """Two ULEB128 numbers of one byte end the section: a function at 0x10, its FDE at 0x14."""
    frame = Section.of(".eh_frame", b"", 0)
    table = table_of(ARCHITECTURES["x86_64"], [Function(0x10, 4, (NO_RULES,), origin=0x14)])
    section = Section.of(".eh_frame_hdr", octets("01 ff 01 01 01  10 14"), HDR)
    assert found(check_eh_frame_hdr(section, [(frame, table)])) == []


@pytest.mark.parametrize(
    "data", ["01 ff ff ff", "01 1b ff ff fc0f0000", "01 1b 03 ff fc0f0000 ffffffff", "01 1b ff 3b fc0f0000"]
)
def test_omitted_table_promises_nothing(data: str) -> None:
    findings = checked(octets(data))
    assert (len(findings), findings.rows) == (0, None)


LIES = [
    (
        usual(RIGHT, pointer=FRAME + 4),
        [(P.WRONG_EH_FRAME, -1, -1, FRAME + 4)],
        ("eh_frame_ptr is not the address of .eh_frame: 0x5004",),
    ),
    (usual(RIGHT[:1]), [(P.NO_ROW, -1, 1, 0x2000)], ("1 FDE has no row: 0x2000",)),
    (usual(()), [(P.NO_ROW, -1, 0, 0x1000), (P.NO_ROW, -1, 1, 0x2000)], ("2 FDEs have no row: 0x1000 first",)),
    (
        usual((*RIGHT, (0x3000, FDES[1]))),
        [(P.NO_FDE, 2, -1, 0x3000)],
        ("1 row has a start that no FDE has: 0x3000",),
    ),
    (
        usual((RIGHT[0], (0x2000, FDES[0]))),
        [(P.WRONG_FDE, 1, -1, 0x2000)],
        ("1 row points to an FDE with another start: 0x2000",),
    ),
    (
        usual((RIGHT[0], (0x2000, FRAME))),
        [(P.WRONG_FDE, 1, -1, 0x2000)],
        ("1 row points to an FDE with another start: 0x2000",),
    ),
    (usual(RIGHT[::-1]), [(P.UNSORTED, 1, -1, 0x1000)], ("1 row is not in ascending order: 0x1000",)),
    (usual(RIGHT, 3), [(P.CUT, 2, -1, 0)], ("1 row is missing: the section is too small",)),
    (
        usual(RIGHT, 0xFFFFFFFF),
        [(P.CUT, 2, -1, 0)],
        ("4,294,967,293 rows are missing: the section is too small",),
    ),
    (usual(RIGHT, 1), [(P.NO_ROW, -1, 1, 0x2000)], ("1 FDE has no row: 0x2000",)),
    # udata8: a count of 2**64 - 1
    (
        octets("01 1b 04 3b fc0f0000 ffffffffffffffff") + usual(RIGHT)[12:],
        [(P.CUT, 2, -1, 0)],
        ("18,446,744,073,709,551,613 rows are missing: the section is too small",),
    ),
    # sdata4: a count of -1 promises no row
    (
        octets("01 1b 0b 3b fc0f0000 ffffffff") + usual(RIGHT)[12:],
        [(P.NO_ROW, -1, 0, 0x1000), (P.NO_ROW, -1, 1, 0x2000)],
        ("2 FDEs have no row: 0x1000 first",),
    ),
    (usual(RIGHT)[:-1], [(P.CUT, 1, -1, 0), (P.NO_ROW, -1, 1, 0x2000)], None),
]


@pytest.mark.parametrize(("data", "expected", "sentences"), LIES)
def test_each_lie_is_found(
    data: bytes, expected: list[tuple[HdrProblem, int, int, int]], sentences: tuple[str, ...] | None
) -> None:
    findings = checked(data)
    assert found(findings) == expected
    assert sentences is None or findings.sentences() == sentences


def test_an_indirect_eh_frame_ptr_is_not_compared() -> None:
    # 0x9b: the address of a slot that holds the pointer. Without the indirect bit, 0x5004 is a wrong address.
    wrong = usual(RIGHT, pointer=FRAME + 4)
    assert found(checked(wrong[:1] + b"\x9b" + wrong[2:])) == []


def test_fdes_of_one_start_need_one_row() -> None:
    frames = eh_frame(f"{PLAIN_CIE} {X86_64_START} 0000", Fde(0x1000, 0x40), Fde(0x1000, 0x10))
    for fde in FDES:
        assert found(checked(usual([(0x1000, fde)]), frames)) == []
    # Each may have one: equal starts are in order.
    assert found(checked(usual([(0x1000, fde) for fde in FDES]), frames)) == []


def test_an_fde_without_bytes_needs_no_row() -> None:
    frames = eh_frame(f"{PLAIN_CIE} {X86_64_START} 0000", Fde(0x1000, 0x40), Fde(0x2000, 0))
    assert found(checked(usual(RIGHT[:1]), frames)) == []
    assert found(checked(usual(RIGHT), frames)) == []


def test_eh_frame_ptr_may_name_any_eh_frame_of_the_file() -> None:
    section = Section.of(".eh_frame_hdr", usual(RIGHT), HDR)
    empty = Section.of(".eh_frame", b"", 0x7000), table_of(ARCHITECTURES["x86_64"], [])
    full = Section.of(".eh_frame", FRAMES, FRAME), table_of_bytes(FRAMES, address=FRAME)
    for frames in ((empty, full), (full, empty)):
        assert found(check_eh_frame_hdr(section, frames)) == []
    assert found(check_eh_frame_hdr(section, [empty]))[0] == (P.WRONG_EH_FRAME, -1, -1, FRAME)


@pytest.mark.parametrize(
    ("data", "record"),
    [
        ("02 1b 03 3b", "EhFrameHdrHead.version"),
        ("01 1b 03 3b 000000", "EhFrameHdrHead.eh_frame_ptr"),
        ("01 0d 03 3b 00000000", "EhFrameHdrHead.eh_frame_ptr"),
        ("01 1b 03 3b 00000000 0000", "EhFrameHdrHead.fde_count"),
        ("01 1b 03 01 00000000 02000000 80", "EhFrameHdr.table"),
    ],
)
def test_header_that_cannot_be_read(data: str, record: str) -> None:
    with pytest.raises(ParseError) as caught:
        checked(octets(data))
    assert (caught.value.section, caught.value.record) == (".eh_frame_hdr", record)


@pytest.mark.parametrize(
    ("encodings", "offset", "record"),
    [
        ("51 03 3b", 1, "eh_frame_ptr_enc"),  # DW_EH_PE_aligned
        ("6b 03 3b", 1, "eh_frame_ptr_enc"),  # unknown application
        ("1b 53 3b", 2, "fde_count_enc"),
        ("1b 03 5b", 3, "table_enc"),
        ("1b 03 6b", 3, "table_enc"),
        ("1b 03 bb", 3, "table_enc"),  # DW_EH_PE_indirect
        ("1b 03 11", 3, "table_enc"),  # pcrel, uleb128
        ("1b 03 19", 3, "table_enc"),  # pcrel, sleb128
        ("1b 03 1d", 3, "table_enc"),  # pcrel, unknown format
    ],
)
def test_encodings_that_no_search_can_use(encodings: str, offset: int, record: str) -> None:
    with pytest.raises(ParseError) as caught:
        checked(octets(f"01 {encodings} 00000000 00000000"))
    assert place(caught.value) == (".eh_frame_hdr", offset, record)
    assert caught.value.reason == f"0x{encodings.split()[offset - 1]} is not an encoding for this field"


@given(header=strategies.eh_frame_hdrs(), spoilt=st.tuples(st.integers(0, 40), st.integers(0, 255)))
def test_any_header_is_checked_or_refused(header: object, spoilt: tuple[int, int]) -> None:
    from unwindkit.schemas import engine

    data = bytearray(engine.build(header, "little"))
    data[spoilt[0] % len(data)] = spoilt[1]
    try:
        findings = checked(bytes(data))
    except FormatError as error:
        assert error.reason
    else:
        assert len(findings.sentences()) <= len(HdrProblem)


def test_text_of_a_long_table_has_every_row() -> None:
    """The text is made in pieces of 32,768 rows."""
    count = (1 << 15) + 2
    rows = b"".join(struct.pack("<ii", 16 * index, 0x1000) for index in range(1, count + 1))
    data = struct.pack("<BBBBiI", 1, 0x1B, 0x03, 0x3B, FRAME - (HDR + 4), count) + rows
    text = b"".join(eh_frame_hdr_text(Section.of(".eh_frame_hdr", data, HDR))).decode()
    lines = [line for line in text.splitlines() if "fde=[" in line]
    # The stored value, and the address: the table is relative to the section.
    starts = range(16, 16 * count + 1, 16)
    assert lines == [f"  {start:#x} (offset: {HDR + start:#x}) -> 0x1000 fde=[     0]" for start in starts]


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", REAL_FILES, ids=str)
def test_headers_of_real_files_are_right(path: str) -> None:
    (hdr,) = (section for section in info(path).sections if section.name == ".eh_frame_hdr")
    assert hdr.functions
    assert (hdr.fault, hdr.disagreements) == (None, ())


@pytest.mark.oracle(*SUITES)
@pytest.mark.parametrize("name", ["x86_64", "aarch64", "s390x", "riscv64", "x86", "arm", "ppc", "ppc64"])
def test_headers_that_ld_writes_are_right(tmp_path: Path, name: str) -> None:
    target = TARGETS[name]
    path = linked(target, tmp_path / "linked", "--eh-frame-hdr", "-e", "f", assembled(tmp_path, target, PROGRAM))
    found = {section.name: section for section in info(path).sections}
    assert found[".eh_frame_hdr"].functions == 3
    assert found[".eh_frame_hdr"].disagreements == ()


def test_info_says_what_disagrees(tmp_path: Path) -> None:
    # One FDE, at 0x1000, and a header without rows whose pointer leads to itself.
    frame = Content(".eh_frame", eh_frame(f"{PLAIN_CIE} {X86_64_START}", Fde(0x1000, 0x40)))
    hdr = Content(".eh_frame_hdr", octets("01 1b 03 3b fcffffff 00000000"))
    path = tmp_path / "file"
    path.write_bytes(tiny_elf(CODE, frame, hdr))
    lines = unwindkit("info", path).stdout.split("\n")
    place = lines[3].rpartition(" ")[2]
    assert lines[3:] == [
        f".eh_frame_hdr version 1: 12 bytes at {place}",
        "  0 entries",
        f"  disagrees with .eh_frame: eh_frame_ptr is not the address of .eh_frame: {place}",
        "  disagrees with .eh_frame: 1 FDE has no row: 0x1000",
        "",
    ]


def test_info_of_a_header_at_the_end_of_the_address_space(tmp_path: Path) -> None:
    frame = Content(".eh_frame", eh_frame(f"{PLAIN_CIE} {X86_64_START}", Fde(0x1000, 0x40)))
    data = tiny_elf(CODE, frame, Content(".eh_frame_hdr", octets("01 1b 03 3b 0c000000 01000000 00100000 20000000")))
    path = tmp_path / "file"
    path.write_bytes(patched(data, 3, sh_addr=(1 << 64) - 8))
    # eh_frame_ptr: 2**64 - 8 + 4 + 0xc; the row: 2**64 - 8 + 0x1000.
    assert info(path).sections[1].disagreements == (
        "eh_frame_ptr is not the address of .eh_frame: 0x8",
        "1 row has a start that no FDE has: 0xff8",
        "1 FDE has no row: 0x1000",
    )


def test_header_of_a_broken_eh_frame_is_not_checked(tmp_path: Path) -> None:
    hdr = Content(".eh_frame_hdr", usual(RIGHT))
    path = tmp_path / "file"
    path.write_bytes(tiny_elf(CODE, Content(".eh_frame", b"\x20\0\0\0"), hdr))
    assert info(path).sections[1].disagreements is None


def test_header_without_eh_frame_has_rows_of_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(tiny_elf(CODE, Content(".eh_frame_hdr", octets("01 ff 03 3b 01000000 0000000000000000"))))
    (hdr,) = info(path).sections
    assert hdr.disagreements is not None
    assert hdr.disagreements[0].startswith("1 row has a start that no FDE has: 0x")


# --- hostile input --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize(
    ("text", "offset", "field"),
    [
        ("02 1b 03 3b", 1, "version"),
        ("01 1b 03", 3, "table_enc"),
        ("01 0d 03 3b 00000000", 4, "eh_frame_ptr"),
        ("01 1b 03 3b 0000", 6, "eh_frame_ptr"),
        ("01 1b 03 3b 00000000 ffffffff 0000000000000000", 20, "table"),  # a count of 2**32 - 1, one row
        ("01 1b 04 3b 00000000 ffffffffffffffff", 16, "table"),
        ("01 1b 0b 3b 00000000 ffffffff", 12, "table"),  # a count of -1
        ("01 1b 01 3b 00000000 ffffffffffffffffff01", 18, "table"),
        ("01 1b 03 01 00000000 03000000 80", 13, "table"),
    ],
)
def test_broken_eh_frame_hdr(order: ByteOrder, text: str, offset: int, field: str) -> None:
    section = Section.of(".eh_frame_hdr", octets(text), 0, order)
    with pytest.raises(ParseError) as caught:
        engine.parse(EhFrameHdr, section, 0, len(section))
    assert place(caught.value) == (".eh_frame_hdr", offset, f"EhFrameHdr.{field}")


def test_eh_frame_hdr_with_an_omitted_table_and_a_huge_count() -> None:
    data = octets("01 1b 04 ff 00000000 ffffffffffffffff 00")
    header, end = engine.parse(EhFrameHdr, Section.of(".eh_frame_hdr", data), 0, len(data))
    assert (header.fde_count, header.table, header.trailing, end) == ((1 << 64) - 1, (), b"\0", 17)
