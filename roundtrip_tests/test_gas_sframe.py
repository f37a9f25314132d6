"""gas 2.44's own tests of SFrame V2, converted by us: right by readelf 2.47, and what gas writes but for its choices.

Strategy: every source of the `cfi-sframe` folder is assembled twice by gas 2.44 and linked at one address: with call
frame information only, which we convert, and as its test says, which makes gas's SFrame (V2 without the PC-relative
flag). `differences` are what one of the two sections says and the other doesn't; `GAS_DIFFERS` names each.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pytest
from unwindkit import ParseError, Reason, from_sframe, read_elf, to_sframe
from unwindkit.schemas import engine, sframe
from unwindkit.schemas.section import Section

from . import referee
from .gas_tests import (
    CASES,
    EVERY_TEST,
    TESTS,
    TEXT,
    built,
    said_of_table,
    section_of,
    unpacked,
    with_eh_frame,
)
from .oracles import run_oracle
from .readelf_text import FrameRows, SframeRows, frame_rows, parse_sframe_rows
from .wrapped import rows_of_bytes

pytestmark = pytest.mark.oracle("trixie")

# What we refuse: from, to, counted from the start of the code.
REFUSED = {
    "common-empty-2": [(0, 12, Reason.NO_CFA)],
    "common-empty-3": [(0, 12, Reason.RETURN_COLUMN)],
    "cfi-sframe-aarch64-4": [(4, 12, Reason.RA_SIGNED_WITH_PC)],
}

NO_CODE = "gas writes an FDE for a function of no bytes: it holds nowhere"
NO_CHANGE = "gas writes an FRE for a directive that changes nothing that SFrame tracks: it repeats the one before"
DROPPED = "gas drops the whole function for its rows with an RA signed with the PC: the row before can be said"


class Difference(NamedTuple):
    """Why gas's section is not ours, and all that `differences` finds."""

    reason: str
    found: list[str]


GAS_DIFFERS = {
    ("cfi-sframe-common-1", 62): Difference(NO_CODE, ["an FDE of gas's alone: +0, 0 bytes"]),
    ("cfi-sframe-common-1", 183): Difference(NO_CODE, ["an FDE of gas's alone: +0, 0 bytes"]),
    ("cfi-sframe-common-2", 62): Difference(NO_CODE, ["an FDE of gas's alone: +0, 0 bytes"]),
    ("cfi-sframe-common-2", 183): Difference(NO_CODE, ["an FDE of gas's alone: +0, 0 bytes"]),
    ("cfi-sframe-common-3", 62): Difference(NO_CODE, ["an FDE of gas's alone: +0, 0 bytes"]),
    ("cfi-sframe-common-3", 183): Difference(NO_CODE, ["an FDE of gas's alone: +0, 0 bytes"]),
    # AMD64's CFA offset is 8 from the start, so that `.cfi_def_cfa_offset 8` changes nothing either.
    ("cfi-sframe-common-6", 62): Difference(NO_CHANGE, ["an FRE of gas's alone: +4", "an FRE of gas's alone: +8"]),
    ("cfi-sframe-common-6", 183): Difference(NO_CHANGE, ["an FRE of gas's alone: +8"]),
    ("cfi-sframe-common-7", 62): Difference(NO_CHANGE, ["an FRE of gas's alone: +4", "an FRE of gas's alone: +8"]),
    ("cfi-sframe-common-7", 183): Difference(NO_CHANGE, ["an FRE of gas's alone: +8"]),
    ("cfi-sframe-aarch64-4", 183): Difference(
        DROPPED, ["an FDE of ours alone: +0, 4 bytes", "+0..+4: gas says nothing, we say sp+0 u u"]
    ),
}


# --- what a section says --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Said:
    """An SFrame section, counted from the start of the code: `fdes` by start and size, the starts of their FREs, and
    the rules at each PC in readelf's notation, ending in `B` where the return address is signed with that key."""

    fdes: dict[tuple[int, int], set[int]] = field(default_factory=dict)
    rules: dict[int, str] = field(default_factory=dict)


def said(rows: SframeRows) -> Said:
    """What readelf shows."""
    assert not rows.repetition_block.any()
    found = Said()
    for i, (start, end) in enumerate(zip((rows.start - TEXT).tolist(), (rows.end - TEXT).tolist(), strict=True)):
        here = slice(rows.first_row[i], rows.first_row[i + 1])
        starts = (rows.pc[here] - TEXT).tolist()
        assert end - start < 0x1000, "all tests are short"
        for pc, stop, text in zip(starts, [*starts, end][1:], rows.text[here].tolist(), strict=True):
            assert not range(pc, stop) & found.rules.keys()
            found.rules.update(dict.fromkeys(range(pc, stop), f"{rows.texts[text]} {rows.attributes[i]}".rstrip()))
        found.fdes[start, end - start] = set(starts)
    return found


def differences(gas: Said, ours: Said) -> list[str]:
    """What only one of the two says: FDEs, FREs of FDEs that both have, and the rules of each PC."""
    found = []
    for whose, one, other in (("gas's", gas, ours), ("ours", ours, gas)):
        found += [
            f"an FDE of {whose} alone: +{at}, {size} bytes" for at, size in sorted(one.fdes.keys() - other.fdes.keys())
        ]
        for fde in one.fdes.keys() & other.fdes.keys():
            found += [f"an FRE of {whose} alone: +{at}" for at in sorted(one.fdes[fde] - other.fdes[fde])]
    wrong = [
        (pc, f"gas says {gas.rules.get(pc, 'nothing')}, we say {ours.rules.get(pc, 'nothing')}")
        for pc in sorted(gas.rules.keys() | ours.rules.keys())
        if gas.rules.get(pc) != ours.rules.get(pc)
    ]
    # Neighbours of which the same is said have the same PC minus index.
    for (_, text), run in groupby(enumerate(wrong), lambda item: (item[1][0] - item[0], item[1][1])):
        pcs = [pc for _, (pc, _) in run]
        found.append(f"+{pcs[0]}..+{pcs[-1] + 1}: {text}")
    return found


# --- the files ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session", name="folder")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory.getbasetemp())


@dataclass(frozen=True, slots=True)
class Gas:
    """What gas 2.44 made of a test as its `.d` says, and what that expects of the section in the object: FDEs, FREs."""

    object: Path
    linked: Path
    expected: tuple[int, int]


@functools.cache
def gas_of(folder: Path, name: str, machine: int) -> Gas:
    """The test with gas's SFrame."""
    text = (folder / f"{name}.d").read_text()
    (options,) = re.findall(r"^#as:(.*)$", text, re.MULTILINE)
    (fdes,), (fres,) = (re.findall(rf"^    Num {records}: (\d+)$", text, re.MULTILINE) for records in ("FDEs", "FREs"))
    assert (fdes == "0") == ("#warning" in text), "gas tells what it drops"
    return Gas(*built(folder / f"{name}.s", machine, *options.split()), (int(fdes), int(fres)))


def said_by_gas(gas: Gas) -> Said:
    """Of the linked file. ld leaves an empty section of one without FDEs."""
    data, _ = section_of(gas.linked)
    return said(parse_sframe_rows(run_oracle("readelf", "-wN", "--sframe", gas.linked), data)) if data else Said()


@dataclass(frozen=True, slots=True)
class Ours:
    """The call frame information of a test, the section that we made of it, and what readelf shows of that."""

    frame: FrameRows
    data: bytes
    address: int
    refused: list[tuple[int, int, Reason]]
    rows: SframeRows


@functools.cache
def ours_of(folder: Path, name: str, machine: int) -> Ours:
    """The test without gas's SFrame: assembled with `.eh_frame`, which is the default, and converted."""
    _, linked = built(with_eh_frame(folder / f"{name}.s"), machine)
    address = TEXT + 0x1000
    data, refusals = to_sframe(read_elf(linked), section_address=address)
    rows = rows_of_bytes(linked.with_suffix(".sframe"), data, address, machine, "little")
    found = [refusals[i] for i in range(len(refusals))]
    refused = [(refusal.start - TEXT, refusal.end - TEXT, refusal.reason) for refusal in found]
    return Ours(frame_rows(linked), data, address, refused, rows)


# --- tests ----------------------------------------------------------------------------------------------------


def test_every_test_of_the_folder_is_here(folder: Path) -> None:
    targets = {"x86_64-*-*": 62, "aarch64*-*-*": 183}
    listed = [
        (name, machine)
        for block in re.split(r"^if ", (folder / "cfi-sframe.exp").read_text(), flags=re.MULTILINE)
        for target, machine in targets.items()
        if f'[istarget "{target}"]' in block
        for name in re.findall(r'run_dump_test "([^"]+)"', block)
    ]
    assert sorted(listed) == sorted(CASES)
    sources = {path.stem for path in folder.glob("c*.s") if not path.name.endswith(".cfi.s")}
    assert sources == {name for name, _ in CASES}
    assert (len(listed), len(sources)) == (28, 17)
    assert GAS_DIFFERS.keys() <= set(CASES)
    assert all(difference.found for difference in GAS_DIFFERS.values())


@EVERY_TEST
def test_our_sframe_is_right_at_every_pc(name: str, machine: int, folder: Path) -> None:
    ours = ours_of(folder, name, machine)
    found = referee.compare(ours.frame, ours.rows)
    assert not found.differences, "\n".join(map(str, found.differences))
    code = TESTS[machine][name]
    assert (found.bytes_compared, found.bytes_unsayable, found.bytes_ambiguous) == (code.sayable, code.unsayable, 0)
    assert ours.refused == REFUSED.get(name, [])


@EVERY_TEST
def test_gas_says_the_same_but_for_its_choices(name: str, machine: int, folder: Path) -> None:
    found = differences(said_by_gas(gas_of(folder, name, machine)), said(ours_of(folder, name, machine).rows))
    known = GAS_DIFFERS.get((name, machine), Difference("gas differs, and no reason is known", []))
    assert found == known.found, known.reason


@EVERY_TEST
def test_gas_s_sections_build_back_to_their_bytes(name: str, machine: int, folder: Path) -> None:
    gas = gas_of(folder, name, machine)
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
def test_gas_s_sections_are_read_as_readelf_reads_them(name: str, machine: int, folder: Path) -> None:
    gas = gas_of(folder, name, machine)
    data, address = section_of(gas.linked)
    if gas.expected[0] == 0:
        with pytest.raises(ParseError, match="0 bytes do not hold a preamble"):
            from_sframe(data, address)
        return
    table = from_sframe(data, address)
    assert len(table) == gas.expected[0]
    assert said_of_table(table, machine) == said_by_gas(gas).rules


def test_a_changed_offset_is_seen_by_both_comparisons(folder: Path, tmp_path: Path) -> None:
    ours = ours_of(folder, "cfi-sframe-x86_64-1", 62)
    # The FRE at 1: SP and two offsets of one byte, CFA = SP + 16, FP at CFA - 16; then the one at 4.
    place = ours.data.index(bytes.fromhex("010510f0 04"))
    data = ours.data[: place + 2] + b"\x18" + ours.data[place + 3 :]
    changed = rows_of_bytes(tmp_path / "changed", data, ours.address, 62, "little")
    expected = [(referee.Kind.WRONG, TEXT + 1, TEXT + 4, "sp+16 c-16 f", "sp+24 c-16 f")]
    assert [
        (d.kind, d.start, d.end, d.expected, d.found) for d in referee.compare(ours.frame, changed).differences
    ] == expected
    assert differences(said(ours.rows), said(changed)) == ["+1..+4: gas says sp+16 c-16 f, we say sp+24 c-16 f"]


def test_a_changed_key_is_seen_by_both_comparisons(folder: Path, tmp_path: Path) -> None:
    ours = ours_of(folder, "cfi-sframe-aarch64-pac-ab-key-1", 183)
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
