"""gas 2.47's own tests of SFrame V3, converted by us: judged by readelf 2.47, and equal to gas's but for its choices.

Strategy: see gas_tests.py. `GAS_DIFFERS` names each difference; `FAULTS` are sources that gas is known to get wrong.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from unwindkit import Reason, by_pc, from_sframe, to_sframe
from unwindkit.converters.sframe.dump import sframe_text
from unwindkit.schemas import engine, sframe
from unwindkit.schemas.section import Section

from ..support.judges import referee
from ..support.oracles import OracleError, run_oracle
from ..support.texts.gas_lists import IN_2_47, Code, cases_of, for_each
from ..support.texts.gas_tests import (
    BYTE_ORDERS,
    NO_CHANGE,
    NO_CODE,
    TEXT,
    Difference,
    GasTests,
    differences,
    gas_of,
    listed,
    ours_of,
    said,
    said_by_gas,
    said_of_table,
    section_of,
    sources,
    unpacked,
)
from ..support.wrapped import rows_of_bytes

pytestmark = pytest.mark.oracle("forky")


CASES = cases_of(IN_2_47)
EVERY_TEST = for_each(CASES)
NOT_ASSEMBLED = "cfi-sframe-common-pr34026"  # has an open `.cfi_startproc`, which is an error
NO_SECTION = "cfi-sframe-common-1c"  # is run with `--gsframe=no`

# What we refuse: from, to, relative to the start of the code.
REFUSED = {
    "common-empty-2": [(0, 12, Reason.NO_CFA)],
    "common-empty-3": [(0, 12, Reason.RETURN_COLUMN)],
    "cfi-sframe-x86_64-empty-1": [(4, 8, Reason.SP_RULE)],
    "cfi-sframe-x86_64-empty-2": [(4, 8, Reason.FP_RULE)],
    "cfi-sframe-x86_64-empty-4": [(4, 8, Reason.SP_RULE)],
    "cfi-sframe-x86_64-empty-5": [(4, 8, Reason.SP_RULE)],
    "cfi-sframe-aarch64-4": [(4, 12, Reason.RA_SIGNED_WITH_PC)],
    "cfi-sframe-s390x-err-3": [(0, 2, Reason.RETURN_COLUMN)],
}

DROPPED = "gas drops the whole function for rows of {}: the row before can be said"
NO_FRES = "gas leaves a signal frame that it cannot say as an FDE without FREs, which marks an outermost frame: {}"
FOUR = ["an FDE of ours alone: +0, 4 bytes"]
PLAIN_FOUR = [*FOUR, "+0..+4: gas says nothing, we say sp+8 u f"]
NO_BYTES = Difference(NO_CODE, ["an FDE of gas's alone: +0, 0 bytes"])
REPEATED = Difference(NO_CHANGE, ["an FRE of gas's alone: +8"])
# At the start AMD64's CFA offset is 8, s390x's 160, so `.cfi_def_cfa_offset 8` changes nothing in AMD64 either.
REPEATED_TWICE = Difference(NO_CHANGE, ["an FRE of gas's alone: +4", "an FRE of gas's alone: +8"])
BEYOND = NO_FRES.format("the offset beyond 32 bits is given at the function's end, and holds nowhere")
OF_NO_BYTES = ["1", "1b", "1d", "2", "3", "13"]
GAS_DIFFERS = {
    **{(f"cfi-sframe-common-{number}", machine): NO_BYTES for number in OF_NO_BYTES for machine in IN_2_47},
    **{(f"cfi-sframe-x86_64-{number}", 62): NO_BYTES for number in (2, 3)},
    ("cfi-sframe-s390x-3", 22): NO_BYTES,
    **{(f"cfi-sframe-common-{number}", 62): REPEATED_TWICE for number in (6, 7)},
    **{(f"cfi-sframe-common-{number}", machine): REPEATED for number in (6, 7) for machine in (183, 22)},
    ("cfi-sframe-x86_64-pr33170", 62): Difference(NO_CHANGE, ["an FRE of gas's alone: +45"]),
    ("cfi-sframe-aarch64-ra-undefined-1", 183): Difference(NO_CHANGE, ["an FRE of gas's alone: +12"]),
    ("cfi-sframe-common-14", 62): Difference(
        BEYOND, ["an FRE of ours alone: +0", "+0..+4: gas says undefined S, we say sp+8 u f S"]
    ),
    ("cfi-sframe-common-14", 183): Difference(
        BEYOND, ["an FRE of ours alone: +0", "+0..+4: gas says undefined S, we say sp+0 u u S"]
    ),
    ("cfi-sframe-common-14", 22): Difference(
        BEYOND, ["an FRE of ours alone: +0", "+0..+4: gas says undefined S, we say sp+160 u u S"]
    ),
    ("cfi-sframe-x86_64-signal-1", 62): Difference(
        NO_FRES.format("it knows CFA expressions that count from RBP only"),
        [
            *("an FRE of ours alone: +0", "an FRE of ours alone: +2"),
            "+0..+2: gas says undefined S, we say (r9-8) u f S",
            "+2..+3: gas says undefined S, we say (r9-8) c-16 f S",
        ],
    ),
    ("cfi-sframe-x86_64-empty-1", 62): Difference(DROPPED.format("an SP by expression"), PLAIN_FOUR),
    ("cfi-sframe-x86_64-empty-2", 62): Difference(DROPPED.format("an FP that is CFA + 16"), PLAIN_FOUR),
    ("cfi-sframe-x86_64-empty-3", 62): Difference(
        "gas looks into no escape of several instructions: these are of RCX and R10, which SFrame does not track",
        [
            "an FDE of ours alone: +0, 8 bytes",
            "+0..+4: gas says nothing, we say sp+8 u f",
            "+4..+8: gas says nothing, we say sp+16 u f",
        ],
    ),
    ("cfi-sframe-x86_64-empty-4", 62): Difference(DROPPED.format("an undefined SP"), PLAIN_FOUR),
    ("cfi-sframe-x86_64-empty-5", 62): Difference(DROPPED.format("an SP in a register"), PLAIN_FOUR),
    ("cfi-sframe-aarch64-4", 183): Difference(
        DROPPED.format("an RA signed with the PC"), [*FOUR, "+0..+4: gas says nothing, we say sp+0 u u"]
    ),
}


@pytest.fixture(scope="session", name="tests")
def _tests(tmp_path_factory: pytest.TempPathFactory) -> GasTests:
    return GasTests(unpacked(tmp_path_factory.getbasetemp(), "forky", "2.47"), "forky", version=3)


def test_every_test_of_the_folder_is_here(tests: GasTests) -> None:
    targets = {"x86_64-*-*": 62, "aarch64*-*-*": 183, "s390x-*-*": 22, "s390x*-*-*": 22}
    found = listed(tests, targets)
    assert sorted(found) == sorted([*CASES, *((NOT_ASSEMBLED, machine) for machine in IN_2_47)])
    assert sources(tests) == {name for name, _ in found}
    assert (len(found), len(sources(tests))) == (103, 61)
    assert GAS_DIFFERS.keys() <= set(CASES)
    assert all(difference.found for difference in GAS_DIFFERS.values())


@pytest.mark.parametrize("machine", IN_2_47)
def test_an_open_function_is_not_assembled(machine: int, tests: GasTests) -> None:
    with pytest.raises(OracleError, match=r"missing \.cfi_endproc directive"):
        gas_of(tests, NOT_ASSEMBLED, machine)


@EVERY_TEST
def test_our_sframe_is_right_at_every_pc(name: str, machine: int, tests: GasTests) -> None:
    ours = ours_of(tests, name, machine)
    found = referee.compare(ours.frame, ours.rows, ours.plt)
    assert not found.differences, "\n".join(map(str, found.differences))
    code = IN_2_47[machine][name]
    assert (found.bytes_compared, found.bytes_unsayable, found.bytes_ambiguous) == (code.sayable, code.unsayable, 0)
    assert ours.refused == REFUSED.get(name, [])


@EVERY_TEST
def test_gas_says_the_same_but_for_its_choices(name: str, machine: int, tests: GasTests) -> None:
    gas = gas_of(tests, name, machine)
    found = differences(said_by_gas(gas), said(ours_of(tests, name, machine).rows))
    known = GAS_DIFFERS.get((name, machine), Difference("gas differs, and no reason is known", []))
    assert found == known.found, known.reason


@EVERY_TEST
def test_gas_s_sections_build_back_to_their_bytes(name: str, machine: int, tests: GasTests) -> None:
    gas, order = gas_of(tests, name, machine), BYTE_ORDERS[machine]
    for path in (gas.object, gas.linked):
        data, address = section_of(path)
        if not data:
            continue
        record, end = engine.parse(sframe.SframeSection, Section.of(".sframe", data, address, order), 0, len(data))
        assert (engine.build(record, order), end) == (data, len(data))
        assert record.header.version == 3
        sorted_by_ld = sframe.SFRAME_F.FDE_SORTED if path == gas.linked else 0
        assert record.header.flags == sorted_by_ld | sframe.SFRAME_F.FDE_FUNC_START_PCREL
        if path == gas.object and gas.expected:
            assert (record.header.num_fdes, record.header.num_fres) == gas.expected


@EVERY_TEST
def test_gas_s_sections_are_read_as_readelf_reads_them(name: str, machine: int, tests: GasTests) -> None:
    gas = gas_of(tests, name, machine)
    data, address = section_of(gas.linked)
    # ld omits a section without FDEs.
    assert (data == b"") == (gas.expected == (0, 0) or name == NO_SECTION)
    if data:
        of_table = said_of_table(from_sframe(data, address), machine)
        assert {pc: text for pc, text in of_table.items() if pc >= 0} == said_by_gas(gas).rules
        text = b"".join(sframe_text(Section(".sframe", memoryview(data), address)))
        assert text == run_oracle("readelf", "-wN", "--sframe", gas.linked).encode()


@EVERY_TEST
def test_in_version_2_all_is_said_that_it_has_words_for(name: str, machine: int, tests: GasTests) -> None:
    ours, order = ours_of(tests, name, machine), BYTE_ORDERS[machine]
    in_v2, _ = to_sframe(from_sframe(ours.data, ours.address), version=2, section_address=ours.address)
    rows = rows_of_bytes(tests.folder / f"{name}.{machine}.v2", in_v2, ours.address, machine, order)
    found = referee.compare(ours.frame, rows, ours.plt)
    assert not found.differences, "\n".join(map(str, found.differences))

    old = from_sframe(in_v2, ours.address)
    in_v3, refused = to_sframe(old, version=3, section_address=ours.address)
    back, refused_back = to_sframe(from_sframe(in_v3, ours.address), version=2, section_address=ours.address)
    assert len(refused) == len(refused_back) == 0
    assert by_pc(from_sframe(in_v3, ours.address)) == by_pc(old)
    assert back == in_v2


def test_a_changed_word_is_seen_by_both_comparisons(tests: GasTests, tmp_path: Path) -> None:
    ours = ours_of(tests, "cfi-sframe-x86_64-7", 62)
    original = said(ours.rows)
    # The FLEX FRE at 11: four words, CFA = SP + 40, RA at CFA - 16; up to the one at 15.
    place = ours.data.index(bytes.fromhex("0b083928 02f0"))
    data = ours.data[: place + 5] + b"\xe8" + ours.data[place + 6 :]
    changed = rows_of_bytes(tmp_path / "changed", data, ours.address, 62, "little")
    expected = [(referee.Kind.WRONG, TEXT + 11, TEXT + 15, "sp+40 u c-16", "sp+40 u c-24")]
    assert [
        (d.kind, d.start, d.end, d.expected, d.found) for d in referee.compare(ours.frame, changed).differences
    ] == expected
    assert differences(original, said(changed)) == ["+11..+15: gas says sp+40 u c-16, we say sp+40 u c-24"]


# --- our own sources that gas gets wrong, or omits ----------------------------------------------------------------


class Fault(NamedTuple):
    """A function that gas encodes wrongly or not at all, though its call frame information is plain; the part of it
    that SFrame can express; and what we refuse."""

    machine: int
    reason: str
    source: str
    code: Code
    found: list[str]
    refused: list[tuple[int, int, Reason]] = []


FAULTS = {
    "nested": Fault(
        62,
        "gas remembers one state: the second restore gives what the inner one saved",
        """
 nop\n .cfi_def_cfa_offset 16\n .cfi_remember_state
 nop\n .cfi_def_cfa_offset 24\n .cfi_remember_state
 nop\n .cfi_def_cfa_offset 32
 nop\n .cfi_restore_state
 nop\n .cfi_restore_state
 nop
""",
        Code(6),
        ["+5..+6: gas says sp+24 u f, we say sp+16 u f"],
    ),
    "units": Fault(
        22,
        "gas rounds a CFA offset to units of 8: 324 becomes 320",
        """
 lay %r15,-164(%r15)\n .cfi_def_cfa_offset 324
 lay %r15,164(%r15)\n .cfi_def_cfa_offset 160
 br %r14
""",
        Code(8, 6),
        [
            "an FDE of gas's alone: +0, 14 bytes",
            *("an FDE of ours alone: +0, 6 bytes", "an FDE of ours alone: +12, 2 bytes"),
            "+6..+12: gas says sp+320 u u, we say nothing",
        ],
        [(6, 12, Reason.CFA_OFFSET)],
    ),
    "restore": Fault(
        62,
        "gas passes over the restore of AMD64's RA",
        " nop\n .cfi_offset rip, -16\n nop\n .cfi_restore rip\n nop",
        Code(3),
        ["+2..+3: gas says sp+8 u c-16, we say sp+8 u f"],
    ),
    "end": Fault(
        62,
        "gas writes an FRE for a row at the function's end: it holds nowhere",
        " push %rbp\n .cfi_def_cfa_offset 16\n .cfi_offset rbp, -16\n pop %rbp\n .cfi_def_cfa_offset 8",
        Code(2),
        ["an FRE of gas's alone: +2"],
    ),
    "fp": Fault(
        183,
        "gas makes no flexible FDE for AArch64, which an FP without RA needs",
        " nop\n .cfi_def_cfa_offset 16\n .cfi_offset 29, -16\n nop",
        Code(8),
        [
            "an FDE of ours alone: +0, 8 bytes",
            *("+0..+4: gas says nothing, we say sp+0 u u", "+4..+8: gas says nothing, we say sp+16 c-16 u"),
        ],
    ),
    "base": Fault(
        183,
        "gas makes no flexible FDE for AArch64, which a CFA from X13 needs",
        " nop\n .cfi_def_cfa x13, 16\n nop",
        Code(8),
        [
            "an FDE of ours alone: +0, 8 bytes",
            *("+0..+4: gas says nothing, we say sp+0 u u", "+4..+8: gas says nothing, we say r13+16 u u"),
        ],
    ),
    "deref": Fault(
        62,
        "gas knows CFA expressions that count from RBP only: this is *(RBX - 8)",
        " nop\n .cfi_escape 0xf,3,0x73,0x78,6\n nop",
        Code(2),
        [
            "an FDE of ours alone: +0, 2 bytes",
            *("+0..+1: gas says nothing, we say sp+8 u f", "+1..+2: gas says nothing, we say (r3-8) u f"),
        ],
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_gas_gets_wrong_is_right_here(name: str, tests: GasTests) -> None:
    fault = FAULTS[name]
    source = f".cfi_startproc\n{fault.source}\n.cfi_endproc\n"
    (tests.folder / f"own-{name}.s").write_text(source)
    (tests.folder / f"own-{name}.d").write_text("#as: --gsframe\n")
    ours = ours_of(tests, f"own-{name}", fault.machine)
    judged = referee.compare(ours.frame, ours.rows)
    assert not judged.differences, "\n".join(map(str, judged.differences))
    assert Code(judged.bytes_compared, judged.bytes_unsayable) == fault.code
    assert ours.refused == fault.refused
    found = differences(said_by_gas(gas_of(tests, f"own-{name}", fault.machine)), said(ours.rows))
    assert found == fault.found, fault.reason
