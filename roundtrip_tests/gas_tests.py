"""gas 2.44's own tests of SFrame: the sources, assembled and linked at one address, and what a table says of them.

Strategy: the tests of the folder are named here with what was counted in their sources; whatever gas writes of them,
of whichever version, is held against what readelf says of the call frame information of the same source.
"""

from __future__ import annotations

import functools
import re
import tarfile
from pathlib import Path
from typing import NamedTuple

import pytest
from elftools.elf.elffile import ELFFile
from unwindkit import FunctionFlag, UnwindTable, by_pc
from unwindkit.converters.by_pc import RuleSet
from unwindkit.converters.rules import CfaKind, RaState, RuleKind

from .oracles import oracle_root, run_oracle
from .readelf_text import ARCHITECTURES

ARCHIVE = "usr/src/binutils/binutils-2.44.tar.xz"
FOLDER = "binutils-2.44/gas/testsuite/gas/cfi-sframe/"
TEXT = 0x10000  # the address of each linked file's code
PREFIXES = {62: "", 183: "aarch64-linux-gnu-"}  # of the programs, by e_machine


class Code(NamedTuple):
    """Bytes of code with rows that SFrame V2 can say, and with others: counted in the sources."""

    sayable: int
    unsayable: int = 0


COMMON = {
    "cfi-sframe-common-1": Code(0),
    "cfi-sframe-common-2": Code(0),
    "cfi-sframe-common-3": Code(0),
    "cfi-sframe-common-4": Code(12),
    "cfi-sframe-common-5": Code(12),
    "cfi-sframe-common-6": Code(12),
    "cfi-sframe-common-7": Code(12),
    "cfi-sframe-common-8": Code(8),
    "common-empty-1": Code(0),
    "common-empty-2": Code(0, 12),
    "common-empty-3": Code(0, 12),
}
X86_64 = {"cfi-sframe-x86_64-1": Code(25)}
AARCH64 = {
    "cfi-sframe-aarch64-1": Code(20 * 4),
    "cfi-sframe-aarch64-2": Code(8),
    "cfi-sframe-aarch64-3": Code(8),
    "cfi-sframe-aarch64-4": Code(4, 8),
    "cfi-sframe-aarch64-pac-ab-key-1": Code(3 * 4 + 5 * 4),
}
TESTS = {62: COMMON | X86_64, 183: COMMON | AARCH64}
CASES = [(name, machine) for machine in TESTS for name in TESTS[machine]]
EVERY_TEST = pytest.mark.parametrize(("name", "machine"), CASES, ids=[f"{n}-{ARCHITECTURES[m].name}" for n, m in CASES])


@functools.cache
def unpacked(base: Path) -> Path:
    """The folder of tests, in a folder of a test session."""
    folder = base / "cfi-sframe"
    folder.mkdir()
    with tarfile.open(oracle_root("trixie") / ARCHIVE, "r|xz") as archive:
        for member in archive:
            # The archive has each file once more, as a hard link to itself.
            if member.isfile() and member.name.startswith(FOLDER):
                (folder / Path(member.name).name).write_bytes(archive.extractfile(member).read())
    return folder


def with_eh_frame(source: Path) -> Path:
    """The source as a file that has call frame information where the assembler puts it by default."""
    path = source.with_suffix(".cfi.s")
    path.write_text(re.sub(r"^\s*\.cfi_sections .*\n", "", source.read_text(), flags=re.MULTILINE))
    return path


def built(source: Path, machine: int, *options: str, suite: str = "trixie") -> tuple[Path, Path]:
    """The source as an object, and linked, by a suite's programs."""
    prefix = PREFIXES[machine]
    outputs = tuple(source.with_suffix(f".{suite}.{machine}{suffix}") for suffix in (".o", ".so"))
    run_oracle(f"{prefix}as", *options, source, "-o", outputs[0], suite=suite)
    run_oracle(f"{prefix}ld", "-shared", f"-Ttext={TEXT:#x}", outputs[0], "-o", outputs[1], suite=suite)
    return outputs[0], outputs[1]


def section_of(path: Path) -> tuple[bytes, int]:
    """The `.sframe` and its address."""
    with path.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".sframe")
        return section.data(), section["sh_addr"]


def said_of_table(table: UnwindTable, machine: int) -> dict[int, str]:
    """As `Said.rules`, of a table."""
    rules = by_pc(table)
    found: dict[int, str] = {}
    for start, end, number in zip(rules.start.tolist(), rules.end.tolist(), rules.rules.tolist(), strict=True):
        found.update(dict.fromkeys(range(start - TEXT, end - TEXT), _text(rules.sets[number], machine)))
    return found


def _text(rules: RuleSet, machine: int) -> str:
    architecture = ARCHITECTURES[machine]
    (fp, _), (sp, _), (ra, _) = architecture.fp, architecture.sp, architecture.ra
    assert rules.cfa.kind is CfaKind.REGISTER
    assert rules.return_column == ra
    assert {rule.kind for rule in rules.registers} <= {RuleKind.OFFSET}
    slots = {rule.register: f"c{rule.value:+}" for rule in rules.registers}
    place = slots.pop(ra, "u")
    if architecture.ra_fixed is not None:
        assert place == f"c{architecture.ra_fixed:+}"
        place = "f"
    signed = {RaState.PLAIN: "", RaState.SIGNED: "[s]"}[rules.ra_state]
    key = {FunctionFlag(0): "", FunctionFlag.PAUTH_B_KEY: " B"}[rules.flags]
    base = {sp: "sp", fp: "fp"}[rules.cfa.register]
    text = f"{base}{rules.cfa.value:+} {slots.pop(fp, 'u')} {place}{signed}{key}"
    assert not slots
    return text
