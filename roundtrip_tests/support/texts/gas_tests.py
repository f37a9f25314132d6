"""gas's own tests of SFrame, of some release: assembled by it or another, converted by us; what each section has.

Strategy: a source is assembled with call frame information only, which we convert, and as its test prescribes, which
makes gas's SFrame; both are linked at one address. `differences` are what only one of the two sections contains.
"""

from __future__ import annotations

import functools
import re
import tarfile
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from elftools.elf.elffile import ELFFile
from unwindkit import FunctionFlag, Reason, UnwindTable, by_pc, read_elf, to_sframe
from unwindkit.converters.rules import CfaKind, RaState, RuleKind
from unwindkit.converters.table.by_pc import RuleSet
from unwindkit.converters.table.model import RegisterRule

from ..architectures import ARCHITECTURES
from ..oracles import PREFIXES, gas_archive, oracle_root, run_oracle
from ..programs.plt_programs import plt_sections
from ..wrapped import rows_of_bytes
from .readelf_text import FrameRows, SframeRows, frame_rows, parse_sframe_rows

TEXT = 0x10000  # the address of each linked file's code
MARKS = {FunctionFlag.SIGNAL_FRAME: "S", FunctionFlag.PAUTH_B_KEY: "B"}
BYTE_ORDERS = {62: "little", 183: "little", 22: "big"}  # by e_machine

NO_CODE = "gas writes an FDE for a function of no bytes: it holds nowhere"
NO_CHANGE = "gas writes an FRE for a directive that changes nothing that SFrame tracks: it repeats the one before"


class Difference(NamedTuple):
    """Why gas's section is not ours, and all that `differences` finds."""

    reason: str
    found: list[str]


# --- the content of a section ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Said:
    """The content of an SFrame section, relative to the start of the code: `fdes` by start and size, the starts of
    their FREs, and the rules at each PC in readelf's notation, ending in its marks: S signal frame, B the key that
    signs."""

    fdes: dict[tuple[int, int], set[int]] = field(default_factory=dict)
    rules: dict[int, str] = field(default_factory=dict)


def said(rows: SframeRows) -> Said:
    """What readelf shows, without a linker's PLT, which is before the code. In version 3 an FDE without FREs is an
    outermost frame's (Changes from Version 2 to Version 3)."""
    found = Said()
    for i, (start, end) in enumerate(zip(rows.start.tolist(), rows.end.tolist(), strict=True)):
        if start < TEXT:
            continue
        assert not rows.repetition_block[i]
        start, end = start - TEXT, end - TEXT
        marks = rows.attributes[i].replace("F", "")
        here = slice(rows.first_row[i], rows.first_row[i + 1])
        starts = (rows.pc[here] - TEXT).tolist()
        assert end - start < 0x1000, "all tests are short"
        for pc, stop, text in zip(starts, [*starts, end][1:], rows.text[here].tolist(), strict=True):
            assert not range(pc, stop) & found.rules.keys()
            found.rules.update(dict.fromkeys(range(pc, stop), f"{rows.texts[text]} {marks}".rstrip()))
        if not starts:
            found.rules.update(dict.fromkeys(range(start, end), f"undefined {marks}".rstrip()))
        found.fdes[start, end - start] = set(starts)
    return found


def differences(gas: Said, ours: Said) -> list[str]:
    """What only one of the two has: FDEs, FREs of FDEs that both have, and the rules of each PC."""
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
    # Neighbours with the same rules have the same PC minus index.
    for (_, text), run in groupby(enumerate(wrong), lambda item: (item[1][0] - item[0], item[1][1])):
        pcs = [pc for _, (pc, _) in run]
        found.append(f"+{pcs[0]}..+{pcs[-1] + 1}: {text}")
    return found


def said_of_table(table: UnwindTable, machine: int) -> dict[int, str]:
    """As `Said.rules`, from a table; including the rules of a linker's PLT, at PCs below 0."""
    rules = by_pc(table)
    found: dict[int, str] = {}
    for start, end, number in zip(rules.start.tolist(), rules.end.tolist(), rules.rules.tolist(), strict=True):
        found.update(dict.fromkeys(range(start - TEXT, end - TEXT), _text(rules.sets[number], machine)))
    return found


def _text(rules: RuleSet, machine: int) -> str:
    architecture = ARCHITECTURES[machine]
    (fp, _), (sp, _), (ra, _) = architecture.fp, architecture.sp, architecture.ra
    names = {sp: "sp", fp: "fp"}
    assert rules.return_column == ra
    marks = "".join(mark for flag, mark in MARKS.items() if rules.flags & flag)
    assert rules.flags & ~sum(MARKS) == 0
    if rules.row.cfa.kind is CfaKind.NONE:
        assert rules.row.registers == (RegisterRule(ra, RuleKind.UNDEFINED),)
        return f"undefined {marks}".rstrip()
    if rules.row.cfa.kind is CfaKind.REGISTER:
        base, offset, is_memory = rules.row.cfa.register, int(rules.row.cfa.value), False
    else:
        base, offset, is_memory = place_of(bytes(rules.row.cfa.value))
    cfa = f"{names.get(base, f'r{base}')}{offset:+}"
    # readelf does not show the caller's SP, which follows from the CFA: on s390x it is 160 below.
    sp_rules = [(15, RuleKind.VAL_OFFSET, -160)] if 15 in names else []
    assert [rule for rule in rules.row.registers if rule in sp_rules] == sp_rules
    slots = {rule.register: _slot(rule, names) for rule in rules.row.registers if rule not in sp_rules}
    place = slots.pop(ra, "u")
    if architecture.ra_fixed is not None and place == f"c{architecture.ra_fixed:+}":
        place = "f"
    signed = {RaState.PLAIN: "", RaState.SIGNED: "[s]"}[rules.row.ra_state]
    text = f"{f'({cfa})' if is_memory else cfa} {slots.pop(fp, 'u')} {place}{signed} {marks}".rstrip()
    assert not slots
    return text


def _slot(rule: RegisterRule, names: dict[int, str]) -> str:
    if rule.kind is RuleKind.OFFSET:
        return f"c{rule.value:+}"
    if rule.kind is RuleKind.REGISTER:
        return f"{names.get(int(rule.value), f'r{rule.value}')}+0"
    assert rule.kind in (RuleKind.EXPRESSION, RuleKind.VAL_EXPRESSION)
    base, offset, is_memory = place_of(bytes(rule.value))
    assert not is_memory
    place = f"{names.get(base, f'r{base}')}{offset:+}"
    return f"({place})" if rule.kind is RuleKind.EXPRESSION else place


def place_of(expression: bytes) -> tuple[int, int, bool]:
    """Register, offset and whether the sum is dereferenced, for DW_OP_breg0 to breg31 with an offset of one byte."""
    opcode, offset, *rest = expression
    assert 0x70 <= opcode <= 0x8F
    assert offset < 0x80
    assert rest in ([], [0x06])  # DW_OP_deref
    return opcode - 0x70, offset - 0x80 * (offset > 0x3F), bool(rest)


# --- the files ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GasTests:
    """The folder of tests, unpacked; the Debian suite whose programs are run, and the version of SFrame that its gas
    writes."""

    folder: Path
    suite: str
    version: int


@functools.cache
def unpacked(base: Path, suite: str, release: str) -> Path:
    """The folder of a release's tests, from the suite's package binutils-source, in a folder of a test session."""
    folder = base / f"cfi-sframe-{release}"
    folder.mkdir()
    (path,) = oracle_root(suite).glob(gas_archive(release))
    with tarfile.open(path, "r|xz") as archive:
        for member in archive:
            if member.isfile() and "/gas/testsuite/gas/cfi-sframe/" in member.name:
                (folder / Path(member.name).name).write_bytes(archive.extractfile(member).read())
            elif any(folder.iterdir()):
                break  # what follows are other folders, and each file once more, as a hard link to itself
    return folder


def listed(tests: GasTests, targets: dict[str, int]) -> list[tuple[str, int]]:
    """Each test that the folder's list runs, and e_machine, for the targets named."""
    return [
        (name, machine)
        for block in re.split(r"^if ", (tests.folder / "cfi-sframe.exp").read_text(), flags=re.MULTILINE)
        for target, machine in targets.items()
        if f'[istarget "{target}"]' in block
        for name in re.findall(r'run_dump_test "([^"]+)"', block)
    ]


def sources(tests: GasTests) -> set[str]:
    """The names of all tests in the folder."""
    return {path.stem for path in tests.folder.glob("c*.s") if not path.name.endswith(".cfi.s")}


def built(tests: GasTests, source: Path, machine: int, *options: str) -> tuple[Path, Path]:
    """The source as an object, and linked."""
    prefix = PREFIXES[machine]
    outputs = tuple(source.with_suffix(f".{tests.suite}.{machine}{suffix}") for suffix in (".o", ".so"))
    run_oracle(f"{prefix}as", *options, source, "-o", outputs[0], suite=tests.suite)
    run_oracle(f"{prefix}ld", "-shared", f"-Ttext={TEXT:#x}", outputs[0], "-o", outputs[1], suite=tests.suite)
    return outputs[0], outputs[1]


def with_eh_frame(tests: GasTests, name: str) -> Path:
    """The source as a file with call frame information in the assembler's default section."""
    path = tests.folder / f"{name}.cfi.s"
    text = (tests.folder / f"{name}.s").read_text()
    path.write_text(re.sub(r"^\s*\.cfi_sections .*\n", "", text, flags=re.MULTILINE))
    return path


@dataclass(frozen=True, slots=True)
class Gas:
    """What gas made of a test with the options of its `.d`, and what that expects of the section in the object: FDEs,
    FREs (None: the test is of something else), and whether gas warns that it drops a function."""

    object: Path
    linked: Path
    expected: tuple[int, int] | None
    warns: bool


@functools.cache
def gas_of(tests: GasTests, name: str, machine: int) -> Gas:
    """The test with gas's SFrame."""
    text = (tests.folder / f"{name}.d").read_text()
    options = re.findall(r"^#as:(.*)$", text, re.MULTILINE) or ["--gsframe"]
    counts = [re.findall(rf"^    Num {records}: (\d+)$", text, re.MULTILINE) for records in ("FDEs", "FREs")]
    expected = (int(counts[0][0]), int(counts[1][0])) if all(counts) else None
    made = built(tests, tests.folder / f"{name}.s", machine, *options[0].split())
    return Gas(*made, expected, "#warning" in text)


def section_of(path: Path) -> tuple[bytes, int]:
    """The `.sframe` and its address; no bytes if there is none."""
    with path.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".sframe")
        return (section.data(), section["sh_addr"]) if section else (b"", 0)


def said_by_gas(gas: Gas) -> Said:
    """From the linked file. For one without FDEs ld 2.44 leaves an empty section, ld 2.47 only a header."""
    data, _ = section_of(gas.linked)
    return said(parse_sframe_rows(run_oracle("readelf", "-wN", "--sframe", gas.linked), data)) if data else Said()


@dataclass(frozen=True, slots=True)
class Ours:
    """The call frame information of a test, the section that we made from it, and what readelf shows of that; and ld's
    lazy PLT, whose rows readelf does not evaluate."""

    frame: FrameRows
    data: bytes
    address: int
    refused: list[tuple[int, int, Reason]]
    rows: SframeRows
    plt: list[tuple[int, int]]


@functools.cache
def ours_of(tests: GasTests, name: str, machine: int) -> Ours:
    """The test without gas's SFrame, converted."""
    _, linked = built(tests, with_eh_frame(tests, name), machine)
    address = TEXT + 0x1000
    data, refusals = to_sframe(read_elf(linked), version=tests.version, section_address=address)
    rows = rows_of_bytes(linked.with_suffix(".sframe"), data, address, machine, BYTE_ORDERS[machine])
    found = [refusals[i] for i in range(len(refusals))]
    refused = [(refusal.start - TEXT, refusal.end - TEXT, refusal.reason) for refusal in found]
    lazy = plt_sections(linked).get(".plt")
    return Ours(frame_rows(linked), data, address, refused, rows, [(lazy.start, lazy.stop)] if lazy else [])
