"""What the SFrame encoder chooses: widths, merged rows, splits around what cannot be encoded, order, sharing."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import pytest
from unwindkit import BuildError, Reason, Refusal, to_sframe
from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.converters.rules import CfaKind, RaState, RuleKind
from unwindkit.converters.sframe.write import Compact
from unwindkit.converters.table.model import CfaRule, Function, RegisterRule, Row, table_of

from ..support.handmade import NO_CFA, PLAIN_CIE, X86_64_START, Fde, at, eh_frame, octets, on, row, sp, table_of_bytes

pytestmark = pytest.mark.usefixtures("kernels")

SAVED_RA = at(16, -8)
ENTRY = row(0, sp(8), SAVED_RA)


class Written(NamedTuple):
    """An FDE of a section at 0, read by struct; `fres` are the bytes from its first FRE to the section's end."""

    start: int
    size: int
    fre_offset: int
    fre_count: int
    info: int
    repetition: int
    fres: bytes


def written(data: bytes) -> list[Written]:
    """The FDEs of a little-endian section without gaps; starts as absolute addresses."""
    count, free = struct.unpack_from("<I", data, 8)[0], struct.unpack_from("<I", data, 24)[0] + 28
    found = []
    for offset in range(28, 28 + 20 * count, 20):
        start, size, fre_offset, fre_count, info, repetition, padding = struct.unpack_from("<iIIIBBH", data, offset)
        assert padding == 0
        found.append(Written(start + offset, size, fre_offset, fre_count, info, repetition, data[free + fre_offset :]))
    return found


def function(*rows: Row, start: int = 0x1000, size: int = 0x40, **fields: Any) -> Function:
    """An x86-64 function."""
    return Function(start, size, rows, **{"return_column": 16} | fields)


def encode(
    *functions: Function, architecture: str = "x86_64", compact: Compact = "share"
) -> tuple[list[Written], list[Refusal]]:
    """FDEs and refusals of a table of these functions."""
    data, refusals = to_sframe(table_of(ARCHITECTURES[architecture], functions), compact=compact)
    return written(data), [refusals[index] for index in range(len(refusals))]


def fres_of(*rows: Row, architecture: str = "x86_64", **fields: int) -> bytes:
    """The FREs of one function, which has no refusals."""
    (fde,), refusals = encode(function(*rows, **fields), architecture=architecture)
    assert refusals == []
    return fde.fres


@pytest.mark.parametrize(
    ("last", "fretype", "fres"),
    [
        (1, 0, "00 03 08  01 03 10"),
        (255, 0, "00 03 08  ff 03 10"),
        (256, 1, "0000 03 08  0001 03 10"),
        (65535, 1, "0000 03 08  ffff 03 10"),
        (65536, 2, "00000000 03 08  00000100 03 10"),
        (0xFFFFFFFE, 2, "00000000 03 08  feffffff 03 10"),
    ],
)
@pytest.mark.parametrize("size", [None, 0xFFFFFFFF])
def test_fre_type_follows_the_last_fre(last: int, fretype: int, fres: str, size: int | None) -> None:
    """The size of the function, which may be larger by far, does not matter."""
    (fde,), _ = encode(function(ENTRY, row(last, sp(16), SAVED_RA), size=size or last + 1))
    assert (fde.size, fde.info, fde.fre_count, fde.fres) == (size or last + 1, fretype, 2, octets(fres))


def test_fre_type_counts_from_the_start_of_a_piece() -> None:
    """After a row that cannot be encoded, starts are as wide as they are from there."""
    far = 0x10000
    late = (row(1, NO_CFA), row(far, sp(16), SAVED_RA), row(far + 0xFF, ENTRY.cfa, SAVED_RA))
    (before, after), _ = encode(function(ENTRY, *late, size=far + 0x200))
    assert (before.info, before.fres) == (0, octets("00 03 08") + after.fres)
    assert (after.info, after.fres) == (0, octets("00 03 10  ff 03 08"))


@pytest.mark.parametrize(
    ("offset", "fre"),
    [
        (0, "00 03 00"),
        (127, "00 03 7f"),
        (-128, "00 03 80"),
        (128, "00 23 8000"),
        (-129, "00 23 7fff"),
        (32767, "00 23 ff7f"),
        (-32768, "00 23 0080"),
        (32768, "00 43 00800000"),
        (-32769, "00 43 ff7fffff"),
        (2147483647, "00 43 ffffff7f"),
        (-2147483648, "00 43 00000080"),
    ],
)
def test_offsets_take_the_smallest_size_that_holds_them(offset: int, fre: str) -> None:
    assert fres_of(row(0, sp(offset), SAVED_RA)) == octets(fre)


@pytest.mark.parametrize(
    ("cfa", "fp", "fre"),
    [
        (8, -128, "00 05 08 80"),
        (8, -129, "00 25 0800 7fff"),
        (128, -16, "00 25 8000 f0ff"),
        (8, -32769, "00 45 08000000 ff7fffff"),
        (32768, 127, "00 45 00800000 7f000000"),
    ],
)
def test_all_offsets_of_an_fre_have_the_size_of_the_largest(cfa: int, fp: int, fre: str) -> None:
    assert fres_of(row(0, sp(cfa), at(6, fp), SAVED_RA)) == octets(fre)


def test_the_value_of_a_rule_that_has_none_does_not_count() -> None:
    rule = RegisterRule(30, RuleKind.SAME_VALUE, 5)
    assert fres_of(row(0, on(31, 16), rule), architecture="aarch64", return_column=30) == octets("00 03 10")


def test_rows_that_say_the_same_are_one_fre() -> None:
    rows = (ENTRY, row(1, sp(8), at(3, -16), SAVED_RA), row(2, sp(16), SAVED_RA), row(3, sp(8), SAVED_RA))
    assert fres_of(*rows) == octets("00 03 08  02 03 10  03 03 08")
    same_fp = row(4, sp(8), RegisterRule(6, RuleKind.SAME_VALUE), SAVED_RA)
    assert fres_of(*rows, same_fp) == octets("00 03 08  02 03 10  03 03 08")


@pytest.mark.parametrize(
    "rule",
    [
        RegisterRule(7, RuleKind.VAL_OFFSET, 0),  # SFrame implies this for SP anyway
        RegisterRule(3, RuleKind.EXPRESSION, b"\x30"),  # registers that SFrame does not track
        RegisterRule(12, RuleKind.UNDEFINED),
    ],
)
def test_rule_that_sframe_implies_or_does_not_track_is_no_refusal(rule: RegisterRule) -> None:
    assert fres_of(row(0, sp(8), *sorted([rule, SAVED_RA]))) == octets("00 03 08")


def fp(kind: RuleKind, value: int | bytes = 0) -> tuple[RegisterRule, ...]:
    """A rule of the frame pointer together with a saved return address."""
    return RegisterRule(6, kind, value), SAVED_RA


def ra(kind: RuleKind, value: int | bytes = 0) -> tuple[RegisterRule, ...]:
    """A rule of the return address."""
    return (RegisterRule(16, kind, value),)


UNSAYABLE = [
    (Reason.NO_CFA, NO_CFA, (SAVED_RA,)),
    (Reason.CFA_EXPRESSION, CfaRule(CfaKind.EXPRESSION, 0, b"\x30"), (SAVED_RA,)),
    (Reason.CFA_REGISTER, on(3, 8), (SAVED_RA,)),
    (Reason.CFA_OFFSET, sp(1 << 31), (SAVED_RA,)),
    (Reason.CFA_OFFSET, sp(-(1 << 31) - 1), (SAVED_RA,)),
    (Reason.RA_UNDEFINED, sp(8), ra(RuleKind.UNDEFINED)),
    (Reason.RA_RULE, sp(8), ()),
    (Reason.RA_RULE, sp(8), ra(RuleKind.OFFSET, -16)),
    (Reason.RA_RULE, sp(8), ra(RuleKind.SAME_VALUE)),
    (Reason.RA_RULE, sp(8), ra(RuleKind.REGISTER, 3)),
    (Reason.RA_RULE, sp(8), ra(RuleKind.VAL_OFFSET, -8)),
    (Reason.RA_RULE, sp(8), ra(RuleKind.EXPRESSION, b"\x30")),
    (Reason.RA_RULE, sp(8), ra(RuleKind.VAL_EXPRESSION, b"\x30")),
    (Reason.FP_RULE, sp(8), fp(RuleKind.UNDEFINED)),
    (Reason.FP_RULE, sp(8), fp(RuleKind.REGISTER, 3)),
    (Reason.FP_RULE, sp(8), fp(RuleKind.VAL_OFFSET, -16)),
    (Reason.FP_RULE, sp(8), fp(RuleKind.EXPRESSION, b"\x30")),
    (Reason.FP_RULE, sp(8), fp(RuleKind.VAL_EXPRESSION, b"\x30")),
    (Reason.FP_RULE, sp(8), fp(RuleKind.OFFSET, 1 << 31)),
    (Reason.SP_RULE, sp(8), (RegisterRule(7, RuleKind.VAL_OFFSET, 8), SAVED_RA)),
    (Reason.SP_RULE, sp(8), (RegisterRule(7, RuleKind.SAME_VALUE), SAVED_RA)),
    (Reason.SP_RULE, sp(8), (RegisterRule(7, RuleKind.OFFSET, -16), SAVED_RA)),
]


@pytest.mark.parametrize(("reason", "cfa", "registers"), UNSAYABLE)
def test_the_fde_is_split_around_a_row_that_cannot_be_said(
    reason: Reason, cfa: CfaRule, registers: tuple[RegisterRule, ...]
) -> None:
    rows = (ENTRY, row(4, sp(16), SAVED_RA), Row(5, cfa, registers), row(9, sp(16), SAVED_RA), row(12, sp(8), SAVED_RA))
    (before, after), refusals = encode(function(*rows))
    assert refusals == [Refusal(0, 0x1005, 0x1009, reason)]
    assert (before.start, before.size, before.fre_count) == (0x1000, 5, 2)
    assert (after.start, after.size, after.fre_count) == (0x1009, 0x37, 2)
    # The second FDE's FREs are relative to its own start.
    assert before.fres[:6] == octets("00 03 08  04 03 10")
    assert after.fres == octets("00 03 10  03 03 08")


def test_refusals_at_both_ends_and_of_several_reasons() -> None:
    rows = (
        row(0, NO_CFA),
        row(4, on(3, 0), SAVED_RA),
        row(6, on(3, 8), SAVED_RA),
        row(8, sp(8), SAVED_RA),
        row(12, sp(8)),
    )
    (fde,), refusals = encode(function(*rows))
    assert (fde.start, fde.size) == (0x1008, 4)
    assert refusals == [
        Refusal(0, 0x1000, 0x1004, Reason.NO_CFA),
        Refusal(0, 0x1004, 0x1008, Reason.CFA_REGISTER),
        Refusal(0, 0x100C, 0x1040, Reason.RA_RULE),
    ]


@pytest.mark.parametrize(
    ("architecture", "reason", "cfa", "registers", "ra_state"),
    [
        ("aarch64", Reason.FP_WITHOUT_RA, on(31, 16), (at(29, -16),), RaState.PLAIN),
        ("aarch64", Reason.RA_SIGNED_WITH_PC, on(31, 16), (), RaState.SIGNED_WITH_PC),
        ("aarch64", Reason.RA_UNDEFINED, on(31, 16), (RegisterRule(30, RuleKind.UNDEFINED),), RaState.PLAIN),
        ("aarch64", Reason.RA_RULE, on(31, 16), (RegisterRule(30, RuleKind.REGISTER, 3),), RaState.PLAIN),
        ("aarch64", Reason.RA_RULE, on(31, 16), (at(30, 0),), RaState.PLAIN),  # 0 would be "not saved"
        ("aarch64", Reason.FP_RULE, on(31, 16), (RegisterRule(29, RuleKind.REGISTER, 3), at(30, -8)), RaState.PLAIN),
        ("s390x", Reason.CFA_OFFSET, on(15, 164), (), RaState.PLAIN),
        ("s390x", Reason.FP_RULE, on(15, 160), (at(11, -71),), RaState.PLAIN),  # odd: would be a register
        ("s390x", Reason.RA_RULE, on(15, 160), (at(14, -47),), RaState.PLAIN),
        ("s390x", Reason.SP_RULE, on(15, 160), (RegisterRule(15, RuleKind.VAL_OFFSET, 0),), RaState.PLAIN),
    ],
)
def test_what_other_abis_cannot_say(
    architecture: str, reason: Reason, cfa: CfaRule, registers: tuple[RegisterRule, ...], ra_state: RaState
) -> None:
    one = Function(
        0x1000, 16, (Row(0, cfa, registers, ra_state),), return_column=ARCHITECTURES[architecture].return_address
    )
    data, refusals = to_sframe(table_of(ARCHITECTURES[architecture], [one]))
    assert int.from_bytes(data[8:12], ARCHITECTURES[architecture].byte_order) == 0
    assert [refusals[0]] == [Refusal(0, 0x1000, 0x1010, reason)]


def test_s390x_says_what_the_others_cannot() -> None:
    rows = (row(0, on(15, 160), RegisterRule(15, RuleKind.VAL_OFFSET, -160)), row(6, on(15, 160), at(11, -72)))
    data, refusals = to_sframe(table_of(ARCHITECTURES["s390x"], [Function(0x1000, 16, rows, return_column=14)]))
    assert data[48:] == octets("00 03 00  06 07 00 00 b8")  # FP saved, RA not: padded with 0
    assert len(refusals) == 0


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    "saved", [at(15, -40), RegisterRule(15, RuleKind.REGISTER, 16)], ids=["in memory", "in a register"]
)
def test_where_s390x_saves_sp_is_not_written(saved: RegisterRule, version: int) -> None:
    """Readers take the CFA less 160, which is the value saved there."""
    rows = (row(0, on(15, 320), saved),)
    table = table_of(ARCHITECTURES["s390x"], [Function(0x1000, 16, rows, return_column=14)])
    data, refusals = to_sframe(table, version)
    assert (data[-3:], len(refusals)) == (octets("00 03 14"), 0)  # r15 + 160 + 8 * 20


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (function(ENTRY, return_column=3), Reason.RETURN_COLUMN),
        (function(ENTRY, segment=1), Reason.SEGMENT),
        (function(ENTRY, size=1 << 32), Reason.TOO_LARGE),
        (function(ENTRY, row(4, NO_CFA), repetition=16), Reason.REPETITION),
        (function(ENTRY, repetition=256, size=1024), Reason.REPETITION),
    ],
)
def test_function_that_cannot_be_said_at_all(one: Function, reason: Reason) -> None:
    fdes, refusals = encode(one, function(ENTRY, start=0x10))
    assert [fde.start for fde in fdes] == [0x10]
    assert refusals == [Refusal(0, 0x1000, 0x1000 + one.size, reason)]


OF_OTHER_TARGETS = {
    *(Reason.RULE_LOST, Reason.AUGMENTATION, Reason.NO_DIRECTIVE, Reason.UNALIGNED_OFFSET, Reason.UNALIGNED_ROW),
    *(Reason.FAR, Reason.LARGE_COLUMN, Reason.NULL_POINTER),
    # Of a source, not of a target: test_stack_win.py.
    *(
        Reason.WIN_TYPE,
        Reason.WIN_PROGRAM,
        Reason.WIN_RESULT,
        Reason.WIN_OPERATOR,
        Reason.WIN_LENGTH,
        Reason.WIN_CALLEE,
    ),
}


def test_every_reason_is_met_by_a_test_here() -> None:
    met = {reason for reason, *_ in UNSAYABLE}
    met |= {Reason.FP_WITHOUT_RA, Reason.RA_SIGNED_WITH_PC, Reason.RETURN_COLUMN, Reason.SEGMENT, Reason.TOO_LARGE}
    # Only functions of relocatable files are in no section: test_objects.py.
    assert met | {Reason.REPETITION, Reason.OVERLAP, Reason.NO_SECTION} == set(Reason) - OF_OTHER_TARGETS


def test_pcs_of_two_functions_belong_to_the_one_that_starts_first() -> None:
    later = row(0x18, sp(16), SAVED_RA)
    first, second = function(ENTRY, size=0x20), function(ENTRY, row(0x14, NO_CFA), later, start=0x1010)
    fdes, refusals = encode(second, first)
    assert [(fde.start, fde.size) for fde in fdes] == [(0x1000, 0x20), (0x1028, 0x28)]
    assert refusals == [Refusal(0, 0x1010, 0x1024, Reason.OVERLAP), Refusal(0, 0x1024, 0x1028, Reason.NO_CFA)]


def test_functions_of_size_0_are_left_out() -> None:
    fdes, refusals = encode(function(ENTRY, size=0), function(ENTRY, start=0x2000))
    assert ([fde.start for fde in fdes], refusals) == ([0x2000], [])


def test_fdes_are_sorted_by_start_and_counted_from_their_own_fields() -> None:
    functions = [function(ENTRY, start=start) for start in (0x3000, 0x1000, 0x2000, 0x10)]
    data, _ = to_sframe(table_of(ARCHITECTURES["x86_64"], functions), section_address=0x1800)
    assert data[3] == 5  # sorted, PC-relative
    stored = struct.unpack_from("<iIIIIiIIIIiIIIIi", data, 28)[::5]
    # Fields at 0x181c, 0x1830, 0x1844, 0x1858.
    assert stored == (0x10 - 0x181C, 0x1000 - 0x1830, 0x2000 - 0x1844, 0x3000 - 0x1858)


def test_equal_rows_name_the_same_fres_whatever_the_size_of_the_function() -> None:
    rows = (ENTRY, row(1, sp(16), SAVED_RA))
    sizes = 16, 255, 256, 65536, 9
    functions = [function(*rows, start=0x100000 * index, size=size) for index, size in enumerate(sizes)]
    shared, _ = encode(*functions)
    assert [(fde.fre_offset, fde.fre_count, fde.info) for fde in shared] == [(0, 2, 0)] * 5
    plain, _ = encode(*functions, compact="none")
    assert [(fde.fre_offset, fde.fre_count, fde.info) for fde in plain] == [(6 * index, 2, 0) for index in range(5)]


def test_runs_that_differ_only_in_what_sframe_does_not_keep_share_fres() -> None:
    data, _ = to_sframe(
        table_of(
            ARCHITECTURES["x86_64"],
            [function(ENTRY), function(row(0, sp(8), at(3, -24), SAVED_RA), start=0x2000)],
        )
    )
    assert [fde.fre_offset for fde in written(data)] == [0, 0]
    assert struct.unpack_from("<III", data, 8) == (2, 1, 3)  # two FDEs, one FRE, three bytes


def test_shared_runs_of_an_eh_frame_become_shared_fres() -> None:
    table = table_of_bytes(
        eh_frame(f"{PLAIN_CIE} {X86_64_START}", Fde(0x1000, 16, "41 0e10"), Fde(0x2000, 16, "41 0e10"), Fde(0x3000, 16))
    )
    fdes = written(to_sframe(table)[0])
    # The third function's only row is the first row of the others: its FDE refers to the start of their bytes.
    assert [(fde.fre_offset, fde.fre_count) for fde in fdes] == [(0, 2), (0, 2), (0, 1)]
    assert [fde.fre_offset for fde in written(to_sframe(table, compact="none")[0])] == [0, 6, 12]


def test_repetitive_block_is_pcmask_with_narrow_starts() -> None:
    plt = function(ENTRY, row(11, sp(16), SAVED_RA), size=0x10000, repetition=16)
    (fde,), refusals = encode(plt)
    assert (fde.info, fde.repetition, fde.size) == (0x10, 16, 0x10000)
    assert fde.fres == octets("00 03 08  0b 03 10")
    assert refusals == []


@pytest.mark.parametrize(("start", "address"), [(28 + (1 << 31) - 1, 0), (0x10000001C - (1 << 31), 0x100000000)])
def test_start_as_far_as_the_field_reaches(start: int, address: int) -> None:
    table = table_of(ARCHITECTURES["x86_64"], [function(ENTRY, start=start)])
    assert to_sframe(table, section_address=address)[0][28:32] == octets("ffffff7f" if not address else "00000080")


@pytest.mark.parametrize(
    ("start", "address"), [(28 + (1 << 31), 0), (0x10000001B - (1 << 31), 0x100000000), (1 << 63, 0), (0x1000, 1 << 63)]
)
def test_start_beyond_2_gib_is_a_build_error(start: int, address: int) -> None:
    table = table_of(ARCHITECTURES["x86_64"], [function(ENTRY, start=start)])
    with pytest.raises(BuildError, match="2 GiB") as caught:
        to_sframe(table, section_address=address)
    assert (caught.value.section, caught.value.record) == (".sframe", "FDE[0].func_start_address")


@pytest.mark.parametrize("address", [-1, -100, 1 << 64])
def test_section_address_that_is_none_is_a_build_error(address: int) -> None:
    with pytest.raises(BuildError):
        to_sframe(table_of(ARCHITECTURES["x86_64"], [function(ENTRY)]), section_address=address)


def test_architecture_or_version_that_sframe_does_not_have() -> None:
    table = table_of(ARCHITECTURES["riscv64"], [])
    with pytest.raises(BuildError, match="SFrame has no ABI for riscv64"):
        to_sframe(table)
    with pytest.raises(BuildError, match="version 1 cannot be written"):
        to_sframe(table_of(ARCHITECTURES["x86_64"], []), version=1)


def test_table_without_functions_is_a_header_alone() -> None:
    data, refusals = to_sframe(table_of(ARCHITECTURES["x86_64"], []))
    assert data == octets("e2de 02 05 03 00 f8 00  00000000 00000000 00000000 00000000 00000000")
    assert len(refusals) == 0
