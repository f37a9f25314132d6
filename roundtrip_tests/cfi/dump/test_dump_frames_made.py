"""Call frame information made by hand and drawn by hypothesis, for every machine, dumped by readelf 2.47 and by us.

Strategy: readelf is the judge of every case. Known differences: test_dump_frames_differences.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ...conftest import fewer
from ...support.handmade import octets
from ...support.made.made_frames import TARGETS, Cie, Entry, Fde, Raw, Target, agree, frame_file, sleb, uleb
from ...table.test_expressions import CASES

oracle = pytest.mark.oracle
both_engines = pytest.mark.usefixtures("kernels")
EVERY_TARGET = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
SOME_TARGETS = pytest.mark.parametrize("name", ["x86_64", "aarch64", "s390x", "mips", "ppc64", "arm"])

START = octets("0c 07 08  90 01")  # def_cfa r7 8; offset r16 1
ADVANCE = octets("41 0e 10")  # advance_loc 1; def_cfa_offset 16


def every_instruction(target: Target) -> bytes:
    """Each opcode of the specification, and the vendors' in use, with rows between them; also advances by 0."""
    return b"".join(
        (
            octets("44  86 02  c6  00"),  # advance_loc 4; offset r6 2; restore r6; nop
            octets("01") + target.integer(0x1010, target.address_size),  # set_loc
            octets("02 05"),  # advance_loc1
            octets("03") + target.integer(0x11, 2),
            octets("04") + target.integer(0x21, 4),
            octets("05 07 03  06 07  07 08  08 09"),  # offset_extended, restore_extended, undefined, same_value
            octets("09 0a 0b"),  # register r10 in r11
            octets("0a  0c 07 10  41  0b  41"),  # remember_state, def_cfa, restore_state
            octets("0d 06  41  0e 20  41"),  # def_cfa_register, def_cfa_offset
            octets("0f 03 770806  41"),  # def_cfa_expression: breg7 8; deref
            octets("10 03 02 7610  11 05 7e"),  # expression r3: breg6 16; offset_extended_sf r5 -2
            octets("12 07 7c  41  13 7d  41"),  # def_cfa_sf r7 -4, def_cfa_offset_sf -3
            octets("14 06 02  15 06 7e"),  # val_offset, val_offset_sf
            octets("16 04 02 7608"),  # val_expression r4: breg6 8
            octets("1d") + target.integer(0x30, 8),  # MIPS_advance_loc8
            octets("2c  2d  2e 10  2f 05 02"),  # negate_ra_state_with_pc, its neighbour, args_size, negative_offset
            octets("40  0e 30  40"),  # advance_loc 0
        )
    )


# --- machines, versions, formats --------------------------------------------------------------------------------


@oracle
@both_engines
@EVERY_TARGET
@pytest.mark.parametrize("version", [1, 3, 4])
def test_every_instruction(target: Target, version: int, tmp_path: Path) -> None:
    cie = Cie(START, version=version)
    fdes = (Fde(every_instruction(target)), Fde(), Fde(octets("00 41 00")))
    agree(frame_file(tmp_path / "file", target, cie, *fdes))
    for is_64 in (False, True):
        cie = Cie(START, version=version, is_64=is_64)
        agree(frame_file(tmp_path / "file", target, cie, *fdes, is_eh=False))


def naming(number: int) -> Fde:
    """A function with register rules in every form that shows a register's name."""
    leb = uleb(number)
    return Fde(b"\x41\x07" + leb + b"\x41\x09" + leb + leb + b"\x0d" + leb + ADVANCE)


# The registers in readelf's tables; it reports one beyond them as bad.
REGISTERS = {
    **dict.fromkeys(TARGETS, range(1024)),
    **dict.fromkeys(("x86",), range(102)),
    **dict.fromkeys(("x86_64", "x32"), range(131)),
    **dict.fromkeys(("aarch64", "aarch64_be"), range(129)),
    **dict.fromkeys(("s390", "s390x"), range(85)),
    **dict.fromkeys(("riscv32", "riscv64"), range(8193)),
    "loongarch64": range(65),
}


@oracle
@pytest.mark.parametrize("name", TARGETS)
def test_every_register(name: str, tmp_path: Path) -> None:
    agree(frame_file(tmp_path / "file", TARGETS[name], Cie(START), *map(naming, REGISTERS[name])))


@oracle
@SOME_TARGETS
@pytest.mark.parametrize(
    "encoding", [0, 2, 3, 4, 8, 0xA, 0xB, 0xC, 0x10, 0x1A, 0x1B, 0x1C, 0x2B, 0x3B, 0x4B, 0x80, 0x9B]
)
def test_encodings_of_addresses(name: str, encoding: int, tmp_path: Path) -> None:
    target = TARGETS[name]
    size = {0: target.address_size, 2: 2, 3: 4, 4: 8}[encoding & 7]
    moved = Fde(b"\x01" + target.integer(0x1000, size) + ADVANCE)
    cie = Cie(START, augmentation=b"zR", data=bytes([encoding]), encoding=encoding)
    agree(frame_file(tmp_path / "file", target, cie, Fde(ADVANCE, start=0x7000), moved, moved))


AUGMENTATIONS = {
    "personality and LSDA": (b"zPLR", octets("9b 01020304 1b 1b"), 0x1B),
    "personality of 4 bytes": (b"zPR", octets("03 00000000 1b"), 0x1B),
    "signal frame": (b"zRS", b"\x1b", 0x1B),
    "key B": (b"zRB", b"\x1b", 0x1B),
    "memory tagging": (b"zRG", b"\x1b", 0x1B),
    "unknown before R": (b"zXR", b"\x05\x1b", 0),
    "unknown behind R": (b"zRX", b"\x1b\x05", 0x1B),
    "no data": (b"z", b"", 0),
    "data without a letter": (b"z", b"\1\2\3", 0),
    "as much data as fits the line": (b"zX", bytes(17), 0),
    "data of two lines": (b"zX", bytes(18), 0),
    "data of four lines": (b"zX", bytes(range(79)), 0),
    "eh": (b"eh", b"", 0),
    "of ARM's compiler": (b"armcc+", b"", 0),
    "not text": (b"\xff\xfe", b"", 0),
}


@oracle
@SOME_TARGETS
@pytest.mark.parametrize("which", AUGMENTATIONS)
def test_augmentations(name: str, which: str, tmp_path: Path) -> None:
    augmentation, data, encoding = AUGMENTATIONS[which]
    cie = Cie(START, augmentation=augmentation, data=data, encoding=encoding)
    fdes = (Fde(ADVANCE, data=bytes(size)) for size in (0, 4, 8, 17, 18, 60))
    agree(frame_file(tmp_path / "file", TARGETS[name], cie, *fdes))


CIE_EXPRESSIONS = octets("10 06 02 7708  16 05 02 7709")
EVERY_RULE = octets("07 03  08 04  09 05 06  86 02  14 07 02  0c 07 08")
ENTRIES: dict[str, tuple[Entry, ...]] = {
    "terminator": (Cie(START), Fde(), Raw()),
    "terminators behind one another": (Cie(START), Fde(ADVANCE), Raw(bytes(12))),
    "terminator alone": (Raw(),),
    "CIE alone": (Cie(START),),
    "nothing but nops": (Cie(octets("00 00")), Fde(), Fde(octets("00")), Fde(ADVANCE)),
    "CIE without instructions": (Cie(), Fde(octets("41 41") + ADVANCE)),
    "CIE with rows of its own": (Cie(octets("0c0708 41 0e10 8602")), Fde(ADVANCE)),
    "no CFA": (Cie(octets("86 02")), Fde(octets("41 86 03")), Fde(octets("0e10 41"))),
    "expressions restored": (Cie(CIE_EXPRESSIONS), Fde(ADVANCE + octets("86 02 41 c6 41 c5"))),
    "rules restored": (Cie(EVERY_RULE), Fde(octets("c3 41 c4 41 c5 41 c6 41 c7 41 c8 0707 41 c7 41"))),
    "rules that no CIE gave restored": (Cie(START), Fde(octets("83 02 41 c3 41 c4 41"))),
    "another return column": (Cie(START + octets("83 02"), return_column=3), Fde(ADVANCE + octets("87 03"))),
    "return column without rules": (Cie(START, version=3, return_column=80), Fde(ADVANCE)),
    "two CIEs": (Cie(START), Fde(ADVANCE), Cie(START, code_factor=4, data_factor=4), Fde(ADVANCE + octets("87 03"))),
    "factors": (Cie(START, code_factor=4, data_factor=-4), Fde(octets("41 0e10 8602 02ff 03ffff 04ffff0000"))),
    "factors of 0": (Cie(START, code_factor=0, data_factor=0), Fde(octets("41 0e10 8602 02ff"))),
    "offsets of 33 bits": (Cie(START), Fde(b"\x0c\x07" + uleb(1 << 32) + b"\x41\x11\x06" + sleb(1 << 33) + b"\x41")),
    "negative offsets": (Cie(START), Fde(b"\x12\x07" + sleb(1 << 33) + b"\x41\x12\x07" + sleb(5) + b"\x41\x13\x7b")),
    "states left remembered": (Cie(START), Fde(octets("0a 41 0e10 0a 41 0e18")), Fde(octets("0a 41 0e10 0b 41"))),
    "rows behind the end": (Cie(START), Fde(octets("41 0e10 04 0000007f 0e18"), size=3)),
    "sizes on the stack": (Cie(START), Fde(b"\x2e" + uleb(1 << 63) + b"\x2e" + uleb((1 << 64) - 1) + b"\x2e\x00")),
    "address 0 behind the last one": (Cie(START), Fde(ADVANCE, start=-16)),
    "a hundred columns": (Cie(START), Fde(b"".join(b"\x07" + bytes([one]) for one in range(80)) + ADVANCE)),
}


@oracle
@SOME_TARGETS
@pytest.mark.parametrize("which", ENTRIES)
def test_entries(name: str, which: str, tmp_path: Path) -> None:
    agree(frame_file(tmp_path / "file", TARGETS[name], *ENTRIES[which]))


@oracle
def test_texts_longer_than_expected(tmp_path: Path) -> None:
    # 24 bytes of text for a byte; two megabytes for one entry, with a PC and an expression in their midst.
    states = 40_000 * octets("0a 0b")
    fdes = Fde(states + octets("41 0f 02 7708") + states), Fde(ADVANCE), Fde(states + ADVANCE)
    agree(frame_file(tmp_path / "file", TARGETS["x86_64"], Cie(START), *fdes))


@oracle
@pytest.mark.parametrize("name", ["arm", "mips", "ppc", "x86"])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_segment_selectors(name: str, size: int, tmp_path: Path) -> None:
    fdes = (Fde(ADVANCE, segment=3), Fde(segment=(1 << 8 * size) - 1))
    agree(frame_file(tmp_path / "file", TARGETS[name], Cie(START, version=4, sizes=(4, size)), *fdes, is_eh=False))


# Vendors' operations, and bytes that are no operation.
MORE_OPERATIONS = [
    *("a4 05 04 01020304", "e0", "e1", "e2", "e3", "e4", "e5", "e6", "f0", "f2 01020304 05", "f3 02 7708"),
    *("f4 05 04 00ff0304", "f5 07 21", "f6 04 21", "f7 21", "f7 00", "f8", "f9 21", "fa 01000000", "fb 05", "fc 06"),
    *("fd 01020304", "e7", "ef", "fe", "ff", "00", "01", "02", "04", "05", "07", "aa", "df"),
]
# DW_OP_constx and DW_OP_xderef_type: test_dump_frames_differences.py.
UNKNOWN_TO_READELF = (0xA2, 0xA7)


@oracle
@pytest.mark.parametrize("name", ["x86_64", "aarch64_be", "riscv64", "ppc64"])
def test_every_operation(name: str, tmp_path: Path) -> None:
    cases = [octets(data) for data, _ in CASES] + [octets(data) for data in MORE_OPERATIONS]
    cases += [bytes([opcode]) for opcode in range(0x30, 0x70)]
    cases += [bytes([opcode]) + sleb(opcode - 0x80) for opcode in range(0x70, 0x90)]
    between = [b"\x77\x08\x06" + one + b"\x06" for one in cases]
    fdes = [
        Fde(b"\x0f" + uleb(len(one)) + one + b"\x10\x06" + uleb(len(one)) + one)
        for one in (b"", *cases, *between)
        if not set(UNKNOWN_TO_READELF) & {*one[:1], *one[3:4]}
    ]
    agree(frame_file(tmp_path / "file", TARGETS[name], Cie(START), *fdes))


# --- sections that hypothesis draws --------------------------------------------------------------------------------

REGISTER = st.integers(0, 64).map(uleb)
NUMBER = st.one_of(st.integers(0, 200), st.integers(0, 1 << 40)).map(uleb)
SIGNED = st.one_of(st.integers(-100, 100), st.integers(-(1 << 40), 1 << 40)).map(sleb)
BLOCK = st.lists(st.sampled_from(["7708", "06", "22", "1a", "3f", "2a", "0a1234"]), max_size=4).map(
    lambda parts: bytes([len(octets(" ".join(parts)))]) + octets(" ".join(parts))
)


def _instruction(opcode: int, *operands: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.tuples(st.just(bytes([opcode])), *operands).map(b"".join)


INSTRUCTION = st.one_of(
    st.integers(0x40, 0x7F).map(lambda opcode: bytes([opcode])),
    st.tuples(st.integers(0x80, 0xBF).map(lambda opcode: bytes([opcode])), NUMBER).map(b"".join),
    st.integers(0xC0, 0xFF).map(lambda opcode: bytes([opcode])),
    _instruction(0x02, st.binary(min_size=1, max_size=1)),
    _instruction(0x03, st.binary(min_size=2, max_size=2)),
    _instruction(0x04, st.binary(min_size=4, max_size=4)),
    *(_instruction(opcode, REGISTER, NUMBER) for opcode in (0x05, 0x0C, 0x14)),
    *(_instruction(opcode, REGISTER) for opcode in (0x06, 0x07, 0x08, 0x0D)),
    _instruction(0x09, REGISTER, REGISTER),
    *(_instruction(opcode, NUMBER) for opcode in (0x0E, 0x2E)),
    _instruction(0x0F, BLOCK),
    *(_instruction(opcode, REGISTER, BLOCK) for opcode in (0x10, 0x16)),
    *(_instruction(opcode, REGISTER, SIGNED) for opcode in (0x11, 0x12, 0x15)),
    _instruction(0x13, SIGNED),
    *(_instruction(opcode) for opcode in (0x00, 0x2C, 0x2D, 0x0A)),
)
PROGRAM = st.lists(INSTRUCTION, max_size=12).map(b"".join)
# An expression as a CIE's CFA, and rules restored in a CIE: test_dump_frames_differences.py.
LEFT_OUT = (0x06, 0x0A, 0x0F, *range(0xC0, 0x100))
INITIAL = st.lists(INSTRUCTION.filter(lambda one: one[0] not in LEFT_OUT), max_size=4).map(b"".join)
ENTRY = st.one_of(
    st.builds(
        Cie,
        initial=INITIAL,
        version=st.sampled_from([1, 3]),
        code_factor=st.sampled_from([1, 4]),
        data_factor=st.sampled_from([-8, -4, 4]),
        return_column=st.integers(0, 64),
    ),
    st.builds(Fde, instructions=PROGRAM, start=st.integers(0, 1 << 31), size=st.integers(0, 1 << 20)),
)


@oracle
@both_engines
@pytest.mark.parametrize("is_eh", [True, False])
@pytest.mark.parametrize("name", ["x86_64", "ppc", "s390x"])
@fewer(5)
@given(entries=st.lists(ENTRY, max_size=8))
def test_any_section(name: str, is_eh: bool, entries: list[Entry], tmp_path: Path) -> None:
    agree(frame_file(tmp_path / "file", TARGETS[name], Cie(START), *entries, is_eh=is_eh))
