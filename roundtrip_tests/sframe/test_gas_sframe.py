"""gas 2.44's own tests of SFrame V2, converted by us: judged by readelf 2.47, and equal to gas's but for its choices.

Strategy: see gas_tests.py; V2 is without the PC-relative flag here. `GAS_DIFFERS` names each difference.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from unwindkit import ParseError, Reason, by_pc, from_sframe, to_sframe
from unwindkit.schemas import engine, sframe
from unwindkit.schemas.section import Section

from ..support.judges import referee
from ..support.texts.gas_lists import IN_2_44, cases_of, for_each
from ..support.texts.gas_tests import (
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

pytestmark = pytest.mark.oracle("trixie")


CASES = cases_of(IN_2_44)
EVERY_TEST = for_each(CASES)

# What we refuse: from, to, relative to the start of the code.
REFUSED = {
    "common-empty-2": [(0, 12, Reason.NO_CFA)],
    "common-empty-3": [(0, 12, Reason.RETURN_COLUMN)],
    "cfi-sframe-aarch64-4": [(4, 12, Reason.RA_SIGNED_WITH_PC)],
}

DROPPED = "gas drops the whole function for its rows with an RA signed with the PC: the row before can be said"


GAS_DIFFERS = {
    ("cfi-sframe-common-1", 62): Difference(NO_CODE, ["an FDE of gas's alone: +0, 0 bytes"]),
    ("cfi-sframe-common-1", 183): Difference(NO_CODE, ["an FDE of gas's alone: +0, 0 bytes"]),
    ("cfi-sframe-common-2", 62): Difference(NO_CODE, ["an FDE of gas's alone: +0, 0 bytes"]),
    ("cfi-sframe-common-2", 183): Difference(NO_CODE, ["an FDE of gas's alone: +0, 0 bytes"]),
    ("cfi-sframe-common-3", 62): Difference(NO_CODE, ["an FDE of gas's alone: +0, 0 bytes"]),
    ("cfi-sframe-common-3", 183): Difference(NO_CODE, ["an FDE of gas's alone: +0, 0 bytes"]),
    # AMD64's CFA offset is 8 at the start, so `.cfi_def_cfa_offset 8` changes nothing either.
    ("cfi-sframe-common-6", 62): Difference(NO_CHANGE, ["an FRE of gas's alone: +4", "an FRE of gas's alone: +8"]),
    ("cfi-sframe-common-6", 183): Difference(NO_CHANGE, ["an FRE of gas's alone: +8"]),
    ("cfi-sframe-common-7", 62): Difference(NO_CHANGE, ["an FRE of gas's alone: +4", "an FRE of gas's alone: +8"]),
    ("cfi-sframe-common-7", 183): Difference(NO_CHANGE, ["an FRE of gas's alone: +8"]),
    ("cfi-sframe-aarch64-4", 183): Difference(
        DROPPED, ["an FDE of ours alone: +0, 4 bytes", "+0..+4: gas says nothing, we say sp+0 u u"]
    ),
}


# --- tests ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session", name="tests")
def _tests(tmp_path_factory: pytest.TempPathFactory) -> GasTests:
    return GasTests(unpacked(tmp_path_factory.getbasetemp(), "trixie", "2.44"), "trixie", version=2)


def test_every_test_of_the_folder_is_here(tests: GasTests) -> None:
    found = listed(tests, {"x86_64-*-*": 62, "aarch64*-*-*": 183})
    assert sorted(found) == sorted(CASES)
    assert sources(tests) == {name for name, _ in CASES}
    assert (len(found), len(sources(tests))) == (28, 17)
    assert GAS_DIFFERS.keys() <= set(CASES)
    assert all(difference.found for difference in GAS_DIFFERS.values())


@EVERY_TEST
def test_our_sframe_is_right_at_every_pc(name: str, machine: int, tests: GasTests) -> None:
    ours = ours_of(tests, name, machine)
    found = referee.compare(ours.frame, ours.rows)
    assert not found.differences, "\n".join(map(str, found.differences))
    code = IN_2_44[machine][name]
    assert (found.bytes_compared, found.bytes_unsayable, found.bytes_ambiguous) == (code.sayable, code.unsayable, 0)
    assert ours.refused == REFUSED.get(name, [])


@EVERY_TEST
def test_gas_says_the_same_but_for_its_choices(name: str, machine: int, tests: GasTests) -> None:
    found = differences(said_by_gas(gas_of(tests, name, machine)), said(ours_of(tests, name, machine).rows))
    known = GAS_DIFFERS.get((name, machine), Difference("gas differs, and no reason is known", []))
    assert found == known.found, known.reason


@EVERY_TEST
def test_gas_s_sections_build_back_to_their_bytes(name: str, machine: int, tests: GasTests) -> None:
    gas = gas_of(tests, name, machine)
    assert (gas.expected[0] == 0) == gas.warns, "gas tells what it drops"
    for path in (gas.object, gas.linked):
        data, address = section_of(path)
        if path == gas.linked and gas.expected[0] == 0:
            assert data == b""
            continue
        record, end = engine.parse(sframe.SframeSection, Section.of(".sframe", data, address), 0, len(data))
        assert (engine.build(record), end) == (data, len(data))
        assert (record.header.num_fdes, record.header.num_fres) == gas.expected
        sorted_by_ld = sframe.SFRAME_F.FDE_SORTED if path == gas.linked else 0
        assert record.header.flags == sorted_by_ld, "without the PC-relative flag"


@EVERY_TEST
def test_gas_s_sections_are_read_as_readelf_reads_them(name: str, machine: int, tests: GasTests) -> None:
    gas = gas_of(tests, name, machine)
    data, address = section_of(gas.linked)
    if gas.expected[0] == 0:
        with pytest.raises(ParseError, match="0 bytes do not hold a preamble"):
            from_sframe(data, address)
        return
    table = from_sframe(data, address)
    assert len(table) == gas.expected[0]
    assert said_of_table(table, machine) == said_by_gas(gas).rules


@EVERY_TEST
def test_there_and_back_through_version_3_all_is_said_at_every_pc(name: str, machine: int, tests: GasTests) -> None:
    ours = ours_of(tests, name, machine)
    for data, address in (section_of(gas_of(tests, name, machine).linked), (ours.data, ours.address)):
        if not data:
            continue
        old = from_sframe(data, address)
        in_v3, refused = to_sframe(old, version=3, section_address=address)
        back, refused_back = to_sframe(from_sframe(in_v3, address), version=2, section_address=address)
        assert len(refused) == len(refused_back) == 0
        assert by_pc(old) == by_pc(from_sframe(in_v3, address)) == by_pc(from_sframe(back, address))


def test_a_changed_offset_is_seen_by_both_comparisons(tests: GasTests, tmp_path: Path) -> None:
    ours = ours_of(tests, "cfi-sframe-x86_64-1", 62)
    # The FRE at 1: SP and two offsets of one byte, CFA = SP + 16, FP at CFA - 16; then the one at 4.
    place = ours.data.index(bytes.fromhex("010510f0 04"))
    data = ours.data[: place + 2] + b"\x18" + ours.data[place + 3 :]
    changed = rows_of_bytes(tmp_path / "changed", data, ours.address, 62, "little")
    expected = [(referee.Kind.WRONG, TEXT + 1, TEXT + 4, "sp+16 c-16 f", "sp+24 c-16 f")]
    assert [
        (d.kind, d.start, d.end, d.expected, d.found) for d in referee.compare(ours.frame, changed).differences
    ] == expected
    assert differences(said(ours.rows), said(changed)) == ["+1..+4: gas says sp+16 c-16 f, we say sp+24 c-16 f"]


def test_a_changed_key_is_seen_by_both_comparisons(tests: GasTests, tmp_path: Path) -> None:
    ours = ours_of(tests, "cfi-sframe-aarch64-pac-ab-key-1", 183)
    # The second of two FDEs is the function of key B: bit 5 of its info.
    data = bytearray(ours.data)
    data[48 + 16] ^= 0x20
    changed = rows_of_bytes(tmp_path / "changed", bytes(data), ours.address, 183, "little")
    assert [str(found) for found in referee.compare(ours.frame, changed).differences] == [
        "0x1000c..0x10020: another key that signs return addresses than the CFI's: expected 'key B', found 'key A'"
    ]
    assert differences(said(ours.rows), said(changed)) == [
        "+12..+16: gas says sp+0 u u B, we say sp+0 u u",
        "+16..+20: gas says sp+0 u u[s] B, we say sp+0 u u[s]",
        "+20..+32: gas says sp+16 c-16 c-8[s] B, we say sp+16 c-16 c-8[s]",
    ]
