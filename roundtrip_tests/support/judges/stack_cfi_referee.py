"""STACK CFI of big x86-64 files against `readelf -wNF`, at every PC: both as columns of addresses and rule numbers.

Strategy: no product code. Both texts are read line by line; a line's meaning is computed once for each distinct text
and step, and numbered alike for both sides, so that NumPy compares. readelf's terms are translated to Breakpad's;
anything beyond a sum is `exp` on both. readelf's `u` is no rule, or a lost value; for the return address it is 0.
"""

from __future__ import annotations

import io
import re
import subprocess
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..oracles import OracleError, oracle_command

U64 = npt.NDArray[np.uint64]
Index = npt.NDArray[np.int64]
# The rules in force at a PC: names and words, sorted.
Rules = tuple[tuple[str, str], ...]
Numbers = dict[Rules, int]


@dataclass(frozen=True, slots=True)
class RuleColumns:
    """Ranges in the order of addresses, `end` exclusive, and rows, likewise: the address each begins at, and the number
    of the rules in force from there to the next row or the range's end."""

    start: U64
    end: U64
    pc: U64
    rules: Index

    def at(self, pc: U64) -> Index:
        """The rules in force at PCs; -1 outside of all ranges."""
        place = np.searchsorted(self.start, pc, side="right") - 1
        inside = (place >= 0) & (pc < self.end[place])
        # Rows ascend over all ranges, so the last one not above the PC is in this range.
        return np.where(inside, self.rules[np.searchsorted(self.pc, pc, side="right") - 1], -1)


@dataclass(slots=True)
class _Gathered:
    """Columns that grow."""

    start: array[int] = field(default_factory=lambda: array("Q"))
    end: array[int] = field(default_factory=lambda: array("Q"))
    first: array[int] = field(default_factory=lambda: array("q"))
    pc: array[int] = field(default_factory=lambda: array("Q"))
    rules: array[int] = field(default_factory=lambda: array("q"))

    def begin(self, start: int, end: int) -> None:
        """A range, whose rows follow."""
        self.start.append(start)
        self.end.append(end)
        self.first.append(len(self.pc))

    def columns(self) -> RuleColumns:
        """In the order of addresses."""
        start, end, pc = (np.frombuffer(one, np.uint64) for one in (self.start, self.end, self.pc))
        first, rules = np.append(np.frombuffer(self.first, np.int64), len(pc)), np.frombuffer(self.rules, np.int64)
        owner = np.repeat(np.arange(len(start)), np.diff(first))
        # A row at the PC of another replaces it; rows at or past the end are cut.
        is_last = np.append((pc[1:] != pc[:-1]) | (owner[1:] != owner[:-1]), True)
        kept = np.flatnonzero(is_last & (pc < end[owner]))
        place = kept[np.argsort(start[owner[kept]], kind="stable")]
        order = np.argsort(start, kind="stable")
        order = order[end[order] > start[order]]
        start, end, pc = start[order], end[order], pc[place]
        if (end[:-1] > start[1:]).any() or (pc[:-1] >= pc[1:]).any():
            raise OracleError("ranges lie over one another, or rows do not ascend")
        return RuleColumns(start, end, pc, rules[place])


def differences(ours: RuleColumns, theirs: RuleColumns) -> list[int]:
    """At most ten PCs at which the rules differ: compared where a row or a range of either begins or a range ends,
    which covers every PC."""
    edges = [one for side in (ours, theirs) for one in (side.pc, side.start, side.end)]
    pc = np.sort(np.concatenate(edges))
    return np.unique(pc[ours.at(pc) != theirs.at(pc)])[:10].tolist()


# --- our side ---------------------------------------------------------------------------------------------------------

_RULE = re.compile(r"(\S+): (.*?)(?= \S+: |$)")
_SUM = re.compile(r"\S+ -?\d+ \+( \^)?")


def columns_of_text(text: bytes, numbers: Numbers) -> tuple[RuleColumns, set[tuple[str, str]]]:
    """The columns of STACK CFI lines, and the names and words of all rules in them that are expressions; `numbers`
    is extended."""
    found = _Gathered()
    # The rules in force, by number: here same value and `.undef` are rules too, and expressions keep their words.
    states: Numbers = {(): 0}
    steps: dict[tuple[int, bytes], int] = {}
    by_number: list[Rules] = [()]
    state = 0
    for line in io.BytesIO(text):
        if line.startswith(b"STACK CFI INIT "):
            _, _, _, address, size, rules = line.split(b" ", 5)
            found.begin(int(address, 16), int(address, 16) + int(size, 16))
            state = 0
        else:
            word, cfi, address, rules = line.split(b" ", 3)
            assert (word, cfi) == (b"STACK", b"CFI"), line
        if (after := steps.get((state, rules))) is None:
            said = dict(by_number[state]) | dict(_RULE.findall(rules.decode().removesuffix("\n")))
            holds = tuple(sorted(said.items()))
            if holds not in states:
                by_number.append(holds)
            after = steps[state, rules] = _numbered(states, holds)
        state = after
        found.pc.append(int(address, 16))
        found.rules.append(state)
    columns = found.columns()
    assert len(columns.pc) == len(found.pc), "a row outside of its range, or two at one address"
    kept = np.array([_numbered(numbers, _kept(one)) for one in by_number], np.int64)
    words = {(name, rule) for one in by_number for name, rule in one if not _is_plain(rule)}
    return replace(columns, rules=kept[columns.rules]), words


def _kept(rules: Rules) -> Rules:
    """Without rules that encode nothing; expressions as one word."""
    return tuple((name, rule if _is_plain(rule) else "exp") for name, rule in rules if rule not in (name, ".undef"))


def _is_plain(rule: str) -> bool:
    if (found := _SUM.fullmatch(rule)) is None:
        return " " not in rule
    # A value at a register plus an offset is an expression in DWARF.
    return found[1] is None or rule.startswith(".cfa ")


def _numbered(numbers: Numbers, rules: Rules) -> int:
    return numbers.setdefault(rules, len(numbers))


# --- readelf's side ---------------------------------------------------------------------------------------------------

_FDE = re.compile(rb" FDE cie=([0-9a-f]+) pc=([0-9a-f]+)\.\.([0-9a-f]+)\n")
# By DWARF number (System V ABI AMD64, figure 3.36).
_REGISTERS = ("rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", *(f"r{number}" for number in range(8, 16)))
_CFA = re.compile(r"([a-z]\w*?)\+?(-?\d+)")


def columns_of_readelf(path: Path, section: str, load_address: int, numbers: Numbers) -> RuleColumns:
    """The columns of readelf 2.47's output for an x86-64 file, addresses relative to the load address."""
    command = [*oracle_command("readelf"), "-wNF", path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=1 << 20) as process:
        assert process.stdout is not None
        columns = columns_of_rows(process.stdout, section, load_address, numbers)
    if process.returncode:
        raise OracleError(f"readelf ended with {process.returncode}")
    return columns


def columns_of_rows(lines: Iterable[bytes], section: str, load_address: int, numbers: Numbers) -> RuleColumns:
    """Like `columns_of_readelf`, from its lines."""
    found, cies, known = _Gathered(), dict[bytes, int](), dict[tuple[bytes, bytes], int]()
    heading = cie = b""
    for line in _of_section(lines, f"Contents of the {section} section:\n".encode()):
        if line[16:17] == b" " and line[8:9] != b" ":
            if (row := known.get((heading, line[17:]))) is None:
                row = _numbered(numbers, _rules(heading.decode(), line[17:].decode()))
                known[heading, line[17:]] = row
            if cie:
                cies[cie] = row
            else:
                found.pc.append(int(line[:16], 16) - load_address)
                found.rules.append(row)
        elif line.startswith(b"   LOC "):
            heading = line
        elif (fde := _FDE.search(line)) is not None:
            cie = b""
            start, end = (int(one, 16) - load_address for one in fde.groups()[1:])
            found.begin(start, end)
            # No row is printed for an FDE without instructions of its own; a printed row replaces this one.
            found.pc.append(start)
            found.rules.append(cies[fde[1]])
        elif b" CIE " in line:
            cie = line.partition(b" ")[0]
            cies[cie] = _numbered(numbers, ())  # without instructions: no rules
        elif line.strip() and b" ZERO terminator" not in line:
            raise OracleError(f"readelf printed {line!r}")
    return found.columns()


def _of_section(lines: Iterable[bytes], title: bytes) -> Iterator[bytes]:
    """The lines below a section's title."""
    inside = False
    for line in lines:
        if line.startswith(b"Contents of the "):
            inside = line == title
        elif inside:
            yield line


def _rules(heading: str, row: str) -> Rules:
    """A row in Breakpad's words; columns are named like its registers, without the `$`."""
    names = heading.split()[2:]
    cfa, *cells = re.sub(r" \([^)]*\)", "", row).split()  # r17 (xmm0)
    rules = {"ra": "u"} | dict(zip(names, cells, strict=True))
    found = {("." if name == "ra" else "$") + name: _words(name, rule) for name, rule in rules.items()}
    match = _CFA.fullmatch(cfa)
    found[".cfa"] = "exp" if cfa == "exp" else f"${match[1]} {int(match[2])} +" if match else cfa
    return tuple(sorted((name, rule) for name, rule in found.items() if rule not in ("", name)))


def _words(name: str, rule: str) -> str:
    """The words of a cell, "" for none."""
    if rule in ("u", "s"):
        return "0" if name == "ra" else ""
    if (saved := re.fullmatch(r"([cv])([+-]\d+)", rule)) is not None:
        return f".cfa {int(saved[2])} +" + (" ^" if saved[1] == "c" else "")
    if (register := re.fullmatch(r"r(\d+)", rule)) is not None:
        rule = _REGISTERS[int(register[1])]  # in a cell they are numbers
    return "exp" if rule in ("exp", "vexp") else f"${rule}"
