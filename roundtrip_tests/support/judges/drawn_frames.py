"""Drawn sections of call frame information as read by unwindkit, GNU readelf and pyelftools, against what was drawn.

Strategy: rows are compared as runs of equal contents, by PC, so that it does not matter where a reader splits them.
Each reader is given sections without the features that it does not know; test_drawn_frames_readers.py has the proofs.
Many sections are one file: readelf prints every section named `.eh_frame`.
"""

from __future__ import annotations

import io
import os
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from elftools.common.exceptions import DWARFError, ELFError
from elftools.dwarf.callframe import FDE, CallFrameInfo, RegisterRule
from elftools.dwarf.structs import DWARFStructs
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy
from unwindkit import Function, UnwindTable
from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.converters.cfi.read import table_from_cfi
from unwindkit.converters.rules import CfaKind, RuleKind
from unwindkit.schemas.cfi import DEBUG_FRAME, EH_FRAME
from unwindkit.schemas.section import ByteOrder
from unwindkit.testing import CallFrames, ElfSection, Feature, build_elf

from ..oracles import OracleError, oracle_command
from ..texts.frame_text import Rules, parse_frames, rules_of

T = TypeVar("T")

# Every architecture in its usual byte order, and those that run in both.
MACHINES: tuple[tuple[str, ByteOrder], ...] = (
    *((one.name, one.byte_order) for one in ARCHITECTURES.values()),
    ("arm", "big"),
    ("mips", "little"),
    ("mips64", "little"),
    ("ppc64", "big"),
)
SECTIONS = (EH_FRAME, DEBUG_FRAME)

READELF_CANNOT = frozenset({
    Feature.ADDRESS_SIZE,
    Feature.WIDE_SEGMENT,
    Feature.LEB128_ADDRESS,
    Feature.LEB128_POINTER,
    Feature.ALIGNED_ADDRESS,
    Feature.ALIGNED_POINTER,
    Feature.BASED_ADDRESS,
    Feature.NEGATIVE_OFFSET_EXTENDED,
    Feature.INITIAL_EXPRESSION,
    Feature.HIGH_REGISTER,
    Feature.CIE_AFTER_FDE,
    Feature.WINDOW_SAVE,
})  # fmt: skip
READELF_CANNOT_IN_EH_FRAME = READELF_CANNOT | {Feature.DWARF64}

PYELFTOOLS_CANNOT = frozenset({
    Feature.DWARF64,
    Feature.VERSION_4,
    Feature.NO_ADDRESS_ENCODING,
    Feature.AUGMENTED_DEBUG_FRAME,
    Feature.SIGNED_POINTER,
    Feature.ALIGNED_ADDRESS,
    Feature.ALIGNED_POINTER,
    Feature.INDIRECT_POINTER,
    Feature.BASED_ADDRESS,
    Feature.BASED_POINTER,
    Feature.SET_LOC,
    Feature.ADVANCE_LOC8,
    Feature.DEF_CFA_SF,
    Feature.NEGATIVE_OFFSET_EXTENDED,
    Feature.ARGS_SIZE,
    Feature.NEGATE_RA_STATE_WITH_PC,
    Feature.WINDOW_SAVE,
    Feature.NO_CFA,
    Feature.CFA_EXPRESSION,
    Feature.EXTRA_AUGMENTATION_DATA,
})  # fmt: skip


def readelf_cannot(section: str, arch: str = "x86_64") -> frozenset[Feature]:
    """The features that readelf does not know in a section of that name."""
    cannot = READELF_CANNOT_IN_EH_FRAME if section == EH_FRAME.name else READELF_CANNOT
    # The column `ra` is r1 as well as the return address, so that its text is ambiguous if they differ.
    return cannot | {Feature.OTHER_RETURN_COLUMN} if arch.startswith("riscv") else cannot


def draw_many(strategy: SearchStrategy[T], count: int, number: int) -> list[T]:
    """`count` values of a strategy, the same ones for the same `number`."""
    found: list[T] = []

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        phases=[Phase.generate],
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(value: T) -> None:
        found.append(value)

    collect()
    return found


def runs_of(rows: Iterable[tuple[int, T]]) -> tuple[tuple[int, T], ...]:
    """Rows without those that equal the row before them."""
    found: list[tuple[int, T]] = []
    for pc, contents in rows:
        if not found or found[-1][1] != contents:
            found.append((pc, contents))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Difference:
    """What a reader read of a function, if it is not what was drawn."""

    reader: str
    frames: CallFrames
    expected: object
    found: object

    def __str__(self) -> str:
        names = sorted(feature.name for feature in self.frames.features)
        return f"{self.reader}: expected {self.expected}, found {self.found}\n  {names}\n  {self.frames.data.hex()}"


# --- unwindkit ---------------------------------------------------------------------------------------------

_FIELDS = (
    "start",
    "size",
    "segment",
    "return_column",
    "flags",
    "personality_encoding",
    "personality",
    "lsda",
    "origin",
)


def our_table(frames: CallFrames) -> UnwindTable:
    """The section as unwindkit reads it."""
    dialect = EH_FRAME if frames.name == EH_FRAME.name else DEBUG_FRAME
    return table_from_cfi(frames.section, dialect, frames.architecture, bases=frames.bases)


def our_differences(drawn: Sequence[CallFrames]) -> Iterator[Difference]:
    """All differences in the functions and rows that unwindkit reads."""
    for frames in drawn:
        found, expected = (list(map(_described, table)) for table in (our_table(frames), frames.functions))
        if found != expected:
            yield Difference("unwindkit", frames, expected, found)


def _described(function: Function) -> tuple[Any, ...]:
    """A function with the rows that cover a byte."""
    rows = ((row.offset, (row.cfa, row.registers, row.ra_state, row.args_size)) for row in function.rows)
    return *(getattr(function, name) for name in _FIELDS), runs_of(rows) if function.size else ()


# --- readelf -----------------------------------------------------------------------------------------------

_NO_CFA = "r0+0"


def readelf_differences(drawn: Sequence[CallFrames], folder: Path) -> Iterator[Difference]:
    """All differences in the functions and rows that readelf prints. Any message of it is an OracleError."""
    drawn = [frames for frames in drawn if frames.data]
    if not drawn:
        return
    path = folder / "drawn.elf"
    path.write_bytes(one_file(drawn))
    found = parse_frames(readelf_text(path, "-wNF"), readelf_text(path, "-wNf"), drawn[0].name)
    functions = [(frames, function) for frames in drawn for function in frames.functions]
    if len(found) != len(functions):
        raise OracleError(f"readelf printed {len(found)} FDEs of {len(functions)}")
    for (frames, function), frame in zip(functions, found, strict=True):
        start, end = function.start, function.start + function.size
        expected = (start, end, _readelf_rows((start + row.offset, rules_of(row)) for row in function.rows))
        if expected != (shown := (frame.start, frame.end, _readelf_rows(frame.rows))) and function.size:
            yield Difference("readelf", frames, expected, shown)


def one_file(drawn: Sequence[CallFrames]) -> bytes:
    """A file of these sections, all of one machine."""
    sections = [ElfSection(one.name, one.data, one.address or None) for one in drawn]
    return build_elf(drawn[0].architecture, drawn[0].byte_order, sections, page=1)


def readelf_text(path: Path, option: str) -> str:
    """readelf's output for a file. Raises OracleError with its messages, if there are any."""
    command = [*oracle_command("readelf"), option, path]
    done = subprocess.run(command, capture_output=True, check=False, env=os.environ | {"LC_ALL": "C"}, timeout=600)
    if done.returncode or done.stderr:
        raise OracleError(f"readelf {option}: {done.stderr.decode(errors='replace')[:500]}")
    return done.stdout.decode(errors="replace")


def _readelf_rows(rows: Iterable[tuple[int, Rules]]) -> tuple[tuple[int, Rules], ...]:
    """Runs of rows; one without CFA is printed as r0+0, and one without rules not at all."""
    return runs_of((pc, (cfa or _NO_CFA, rules)) for pc, (cfa, rules) in rows)


# --- pyelftools --------------------------------------------------------------------------------------------

# What it raises for sections that it cannot read.
PYELFTOOLS_ERRORS = (ELFError, DWARFError, AssertionError, AttributeError, IndexError, KeyError, TypeError, ValueError)


def pyelftools_differences(drawn: Sequence[CallFrames]) -> Iterator[Difference]:
    """All differences in the functions and rows that pyelftools decodes."""
    for frames in drawn:
        found: object
        try:
            found = list(_pyelftools_functions(frames))
        except PYELFTOOLS_ERRORS as error:
            found = repr(error)
        expected = [(one.start, one.size, _expected_lines(one) if one.size else ()) for one in frames.functions]
        if found != expected:
            yield Difference("pyelftools", frames, expected, found)


def pyelftools_entries(frames: CallFrames) -> list[Any]:
    """The entries of a section as pyelftools parses them."""
    structs = DWARFStructs(
        little_endian=frames.byte_order == "little", dwarf_format=32, address_size=frames.address_size
    )
    is_eh = frames.name == EH_FRAME.name
    information = CallFrameInfo(io.BytesIO(frames.data), len(frames.data), frames.address, structs, is_eh)
    return list(information.get_entries())


def _pyelftools_functions(frames: CallFrames) -> Iterator[tuple[Any, ...]]:
    mask = (1 << 8 * frames.address_size) - 1
    for entry in pyelftools_entries(frames):
        if isinstance(entry, FDE):
            # It does not reduce addresses that are relative to their own modulo the size of an address.
            start = entry["initial_location"] & mask
            size = entry["address_range"] & mask
            lines = {line["pc"] & mask: _line(line) for line in entry.get_decoded().table}
            yield start, size, runs_of(lines.items()) if size else ()


def _expected_lines(function: Function) -> tuple[tuple[int, object], ...]:
    rows = []
    for row in function.rows:
        rules = {rule.register: (rule.kind.name, _value(rule.kind, rule.value)) for rule in row.registers}
        cfa = "expression" if row.cfa.kind is CfaKind.EXPRESSION else (row.cfa.register, row.cfa.value)
        rows.append((function.start + row.offset, (cfa, rules)))
    return runs_of(rows)


def _value(kind: RuleKind, value: int | bytes) -> object:
    return None if kind in (RuleKind.UNDEFINED, RuleKind.SAME_VALUE) else value


def _line(line: dict[Any, Any]) -> object:
    cfa = line["cfa"]
    rules = {}
    for register, rule in line.items():
        if isinstance(rule, RegisterRule):
            rules[register] = rule.type, bytes(rule.arg) if isinstance(rule.arg, list) else rule.arg
    return "expression" if cfa.expr is not None else (cfa.reg, cfa.offset), rules
