"""GNU readelf 2.47's output for a file's CFI and for its SFrame section, as columns.

Strategy: no product code. `frame_rows` and `sframe_rows` turn readelf's text into columns, where every distinct row
text is kept once. What `-wNF` does not print (DW_CFA_undefined looks like "no rule", signed return addresses are not
shown) comes from `-wNf`, the instructions; the repetition block of PLT functions from the section's bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, Literal, TypeVar

import numpy as np
import numpy.typing as npt
from elftools.elf.elffile import ELFFile

from ..architectures import Architecture, architecture_of
from ..oracles import OracleError, run_oracle

U64 = npt.NDArray[np.uint64]
Index = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

# --- CFI: readelf -wNF ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RowText:
    """One row of -wF, the four columns that matter. `u`: no rule (also where there is no such column).

    From the instructions: `undefined` for DW_CFA_undefined; the operations of `exp`
    and `vexp`, as in `exp(breg7 160; deref)`; the RA ends in `[s]` where it is signed, `[pc]` where signed with the PC.
    """

    cfa: str
    fp: str = "u"
    ra: str = "u"
    sp: str = "u"

    def __str__(self) -> str:
        return f"{self.cfa or 'no CFA'} {self.fp} {self.ra}" + f" sp={self.sp}" * (self.sp != "u")


@dataclass(frozen=True, slots=True)
class FrameRows:
    """The functions of one CFI section, in its order. `start`, `end`: one per function; `first_row`: one more than
    functions, indices into `pc` and `text`, which have one item per row; `text` is an index into `texts`. One per
    function, from the CIE's augmentation: `has_b_key`, whether return addresses are signed with key B;
    `is_signal_frame`."""

    architecture: Architecture
    start: U64
    end: U64
    first_row: Index
    pc: U64
    text: Index
    texts: tuple[RowText, ...]
    has_b_key: Flags
    is_signal_frame: Flags


_TITLE = re.compile(
    r'(\S+) \S+ \S+ (?:CIE "(.*)" cf=\d+ df=-?\d+ ra=(\d+)|FDE cie=(\S+) pc=([0-9a-f]+)\.\.([0-9a-f]+))'
)
_CELL = re.compile(r"\S+(?: \([^)]*\))?")  # DW_CFA_register prints `r13 (r13)`: a space inside a cell
_INSTRUCTION = re.compile(r"^  DW_CFA_(\w+)(?:: (r\d+))?(?:.* ?\((DW_OP_.*)\)$)?", re.MULTILINE)
_OPERATION = re.compile(r"DW_OP_(\w+)(?: \(\w+\))?:?")
# Instructions that make states which -wF does not print.
_SIGNS = ("DW_CFA_undefined", "negate_ra_state", "expression")


_Text = TypeVar("_Text")


class _Columns(Generic[_Text]):
    """FrameRows or SframeRows while they grow. A row's text is kept as its number in `texts`."""

    def __init__(self) -> None:
        self.start: list[int] = []
        self.end: list[int] = []
        self.first_row = [0]
        self.pc: list[int] = []
        self.text: list[int] = []
        self.texts: list[_Text] = []
        self._numbers: dict[_Text, int] = {}

    def number(self, text: _Text) -> int:
        if text not in self._numbers:
            self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return self._numbers[text]

    def add_function(self, start: int, end: int, pc: Iterable[int], text: Iterable[int]) -> None:
        self.start.append(start)
        self.end.append(end)
        self.pc.extend(pc)
        self.text.extend(text)
        self.first_row.append(len(self.pc))

    def arrays(self) -> tuple[U64, U64, Index, U64, Index]:
        start, end, pc = (np.array(column, np.uint64) for column in (self.start, self.end, self.pc))
        return start, end, np.array(self.first_row, np.int64), pc, np.array(self.text, np.int64)


class _RowTexts(dict[str, int]):
    """The number of a row's text, from what follows the address, under one heading."""

    def __init__(self, heading: str, architecture: Architecture, columns: _Columns[RowText]) -> None:
        super().__init__()
        self.names, self.architecture, self.columns = heading.split()[2:], architecture, columns

    def __missing__(self, cells: str) -> int:
        cfa, *rules = _CELL.findall(cells)
        rule = dict(zip(self.names, rules, strict=True))
        fp, sp = (rule.get(name, "u") for _, name in (self.architecture.fp, self.architecture.sp))
        self[cells] = self.columns.number(RowText(cfa, fp, rule.get("ra", "u"), sp))
        return self[cells]


@dataclass(frozen=True, slots=True)
class _Hidden:
    """What -wF does not print of a row: which of fp, sp, ra are DW_CFA_undefined, the last expression of each and of
    the CFA, whether the RA is signed, the CIE's return column, if it is not the ABI's, and whether the CFA is relative
    to a register at all: register 0 is printed where it isn't."""

    undefined: frozenset[str] = frozenset()
    expressions: frozenset[tuple[str, str]] = frozenset()
    signed: str = ""
    column: str = ""
    has_cfa: bool = True

    def shown(self, row: RowText) -> RowText:
        for name, operations in self.expressions:
            if (cell := getattr(row, name)) in ("exp", "vexp"):
                row = replace(row, **{name: f"{cell}({operations})"})
        row = replace(row, **dict.fromkeys(self.undefined, "undefined"))
        row = row if self.has_cfa else replace(row, cfa="")
        return replace(row, ra=row.ra + self.signed + self.column)

    def with_expression(self, name: str, operations: str) -> _Hidden:
        others = {pair for pair in self.expressions if pair[0] != name}
        return replace(self, expressions=frozenset(others | {(name, operations)}))


@dataclass(frozen=True, slots=True)
class _Cie:
    """The initial state of its FDEs: the number of the row text for one without instructions."""

    row: int
    hidden: _Hidden
    augmentation: str


def frame_rows(path: Path, section: str = ".eh_frame") -> FrameRows:
    """The CFI of one section as `readelf -wNF` and `-wNf` print it. No such section: no functions."""
    rows, instructions = (_section_text(run_oracle("readelf", option, path), section) for option in ("-wNF", "-wNf"))
    return parse_frame_rows(rows, instructions, architecture_of(path))


def _section_text(dump: str, section: str) -> str:
    """The part below `Contents of the SECTION section`; an object file may have several of one name."""
    parts = re.split(r"^Contents of the (\S+) section.*:$", dump, flags=re.MULTILINE)
    return "\n\n".join(body for name, body in zip(parts[1::2], parts[2::2], strict=True) if name == section)


def _entries(text: str) -> list[str]:
    """CIEs and FDEs. A blank line alone does not end one: -wNf prints one inside a CIE without augmentation data."""
    entries = re.split(r"\n\n(?=[0-9a-f]+ )", "\n" + text)
    return [stripped for entry in entries if (stripped := entry.strip("\n")) and " ZERO terminator" not in entry]


def parse_frame_rows(rows: str, instructions: str, architecture: Architecture) -> FrameRows:
    """As `frame_rows`, from the section's text in both dumps. Rows at or past a function's end are kept here."""
    columns = _Columns[RowText]()
    headings: dict[str, _RowTexts] = {}
    cies: dict[str, _Cie] = {}
    augmentations: list[str] = []
    watched = _watched(architecture)
    for entry, program in zip(_entries(rows), _entries(instructions), strict=True):
        title, _, body = entry.partition("\n")
        heading, *lines = body.split("\n")
        match = _TITLE.fullmatch(title)
        if match is None or not heading.startswith("   LOC" if lines else "") or title[:28] != program[:28]:
            raise OracleError(f"readelf -wF printed {entry[:200]!r}")
        if heading not in headings:
            headings[heading] = _RowTexts(heading, architecture, columns)
        text = [headings[heading][line[17:]] for line in lines]
        offset, augmentation, ra, cie_offset, start, end = match.groups()
        if cie_offset is None:
            foreign = f" in column {ra}" if int(ra) != architecture.ra[0] else ""
            hidden = _hidden_states(program, _Hidden(column=foreign, has_cfa=False), watched)[-1]
            cies[offset] = _Cie(text[-1] if text else columns.number(RowText("")), hidden, augmentation)
            continue
        cie = cies[cie_offset]
        augmentations.append(cie.augmentation)
        pc = [int(line[:16], 16) for line in lines] or [int(start, 16)]
        text = text or [cie.row]
        if cie.hidden != _Hidden() or any(sign in program for sign in _SIGNS):
            states = _hidden_states(program, cie.hidden, watched)
            shown = (state.shown(columns.texts[number]) for state, number in zip(states, text, strict=True))
            text = [columns.number(row) for row in shown]
        columns.add_function(int(start, 16), int(end, 16), pc, text)
    has_b_key, is_signal_frame = (np.array([mark in text for text in augmentations], np.bool_) for mark in "BS")
    return FrameRows(architecture, *columns.arrays(), tuple(columns.texts), has_b_key, is_signal_frame)


def _watched(architecture: Architecture) -> dict[str, str]:
    """fp, sp, ra by what -wNf calls the register: `r6 (rbp)`, or `r11` for one without a name."""
    names = {"fp": architecture.fp, "sp": architecture.sp, "ra": architecture.ra}
    return {f"r{number}": field for field, (number, _) in names.items()}


def _hidden_states(program: str, initial: _Hidden, watched: dict[str, str]) -> list[_Hidden]:
    """The state of each row that -wF prints for this entry: one before every advance, and the last."""
    state, stack, states = initial, list[_Hidden](), list[_Hidden]()
    for opcode, register, operations in _INSTRUCTION.findall(program):
        name = watched.get(register)
        if operations and (place := "cfa" if opcode == "def_cfa_expression" else name):
            state = state.with_expression(place, _OPERATION.sub(r"\1", operations))
        if not state.has_cfa and opcode.startswith("def_cfa") and "offset" not in opcode:
            state = replace(state, has_cfa=True)
        if "advance_loc" in opcode or opcode == "set_loc":
            states.append(state)
        elif opcode == "remember_state":
            stack.append(state)
        elif opcode == "restore_state" and stack:
            state = stack.pop()
        elif opcode == "AARCH64_negate_ra_state":
            state = replace(state, signed="" if state.signed else "[s]")
        elif opcode == "AARCH64_negate_ra_state_with_pc":
            state = replace(state, signed="" if state.signed else "[pc]")
        elif name and not opcode.startswith("def_cfa"):
            undefined = opcode == "undefined" or (opcode.startswith("restore") and name in initial.undefined)
            state = replace(state, undefined=state.undefined | {name} if undefined else state.undefined - {name})
            if opcode.startswith("restore"):
                for _, operations in filter(lambda pair: pair[0] == name, initial.expressions):
                    state = state.with_expression(name, operations)
    return [*states, state]


# --- SFrame: readelf --sframe -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SframeText:
    """One FRE as `readelf --sframe` shows it: `sp+16`, `c-16` or `u`, `f` (fixed) or `c-8[s]` (signed).
    An outermost frame has ra `undefined` and nothing else."""

    cfa: str
    fp: str
    ra: str

    def __str__(self) -> str:
        return " ".join(filter(None, (self.cfa, self.fp, self.ra)))


@dataclass(frozen=True, slots=True)
class SframeHeader:
    """`flags` by name, without SFRAME_F_; a fixed offset is 0 where readelf shows none."""

    version: int
    flags: tuple[str, ...]
    fixed_fp_offset: int
    fixed_ra_offset: int
    num_fdes: int
    num_fres: int


@dataclass(frozen=True, slots=True)
class SframeRows:
    """The FDEs of one SFrame section, columns as in FrameRows. `attributes`, one per FDE: S signal frame, F flexible
    (V3), B pauth key B. `repetition_block`: 0 for PCINC; else the FDE is PCMASK and its `pc` are relative to a
    block."""

    header: SframeHeader
    start: U64
    end: U64
    first_row: Index
    pc: U64
    text: Index
    texts: tuple[SframeText, ...]
    attributes: tuple[str, ...]
    repetition_block: Index


_FUNCTION = re.compile(
    r'    func idx \[\d+\]: pc = 0x([0-9a-f]+), size = (-?\d+) bytes(?:, attr = "(\w+)")?(, pauth = B key)?'
)
# `%-10s` columns run together from ten characters on: `sp+2147483640c-2147483648f`.
_PLACE = r"(\(?(?:sp|fp|c|r\d+)[+-]-?\d+\)?|r-?\d+|[ufU])"
_FRE = re.compile(rf"  {_PLACE} *{_PLACE} *{_PLACE}(\[s\])? *")


def sframe_rows(path: Path) -> SframeRows:
    """The output of `readelf --sframe`; the repetition blocks, which it hides, are read from the section."""
    dump = run_oracle("readelf", "-wN", "--sframe", path)
    with path.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".sframe")
        data = section.data() if section else b""
    return parse_sframe_rows(dump, data)


def parse_sframe_rows(dump: str, data: bytes = b"") -> SframeRows:
    """As `sframe_rows`, from readelf's text; `data`, the section, is used for PCMASK functions only."""
    if dump.count("Contents of the SFrame section") != 1:
        raise OracleError(f"readelf --sframe shows not one section: {dump[:200]!r}")
    head, *functions = re.split(r"^(?=    func idx \[)", dump, flags=re.MULTILINE)
    header = _parse_sframe_header(head)
    columns, attributes, blocks = _Columns[SframeText](), list[str](), list[int]()
    numbers: dict[str, int] = {}
    padding = "f" if header.fixed_ra_offset else "u"
    for i, block in enumerate(functions):
        title, heading, *rows = block.rstrip("\n").split("\n")
        match = _FUNCTION.fullmatch(title)
        if match is None or not heading.startswith("    STARTPC"):
            raise OracleError(f"readelf --sframe printed {block[:200]!r}")
        for row in rows:
            if row[20:] not in numbers:
                numbers[row[20:]] = columns.number(_sframe_text(row, padding))
        start, size = int(match[1], 16), int(match[2]) & 0xFFFF_FFFF  # readelf prints the size as a signed number
        columns.add_function(start, start + size, (int(row[4:20], 16) for row in rows), (numbers[r[20:]] for r in rows))
        attributes.append((match[3] or "") + "B" * bool(match[4]))
        blocks.append(_repetition_block(data, header.version, i) if "[m]" in heading else 0)
    if len(functions) != header.num_fdes:
        raise OracleError(f"readelf --sframe shows {len(functions)} FDEs of {header.num_fdes}")
    texts, repetition_block = tuple(columns.texts), np.array(blocks, np.int64)
    return SframeRows(header, *columns.arrays(), texts, tuple(attributes), repetition_block)


def _parse_sframe_header(head: str) -> SframeHeader:
    def number(name: str, default: str = "") -> int:
        found = re.search(rf"^    {name}: (?:SFRAME_VERSION_)?(-?\d+)$", head, re.MULTILINE)
        return int(found[1] if found else default)

    flags = re.findall(r"SFRAME_F_(\w+)", head)
    fp, ra = number("CFA fixed FP offset", "0"), number("CFA fixed RA offset", "0")
    return SframeHeader(number("Version"), tuple(flags), fp, ra, number("Num FDEs"), number("Num FREs"))


def _sframe_text(row: str, padding: str) -> SframeText:
    if row[20:].rstrip() == "  RA undefined":
        return SframeText("", "", "undefined")
    match = _FRE.fullmatch(row[20:])
    if match is None:
        raise OracleError(f"readelf --sframe printed {row!r}")
    # `U` is the padding word for an RA that is not saved, or has a fixed offset. The plus sign of `sp+-8` is readelf's
    # own, where the FDE is not flexible.
    return SframeText(match[1].replace("+-", "-"), match[2], match[3].replace("U", padding) + (match[4] or ""))


def _repetition_block(data: bytes, version: int, fde: int) -> int:
    """For a PCMASK FDE: the byte at 17 of V2's 20-byte FDE, or at 4 of V3's attributes before the FREs."""
    order: Literal["little", "big"] = "little" if data[:2] == b"\xe2\xde" else "big"

    def u32(offset: int) -> int:
        return int.from_bytes(data[offset : offset + 4], order)

    base = 28 + data[7]  # the header, and the auxiliary header whose length is its byte 7
    index, rows = base + u32(20), base + u32(24)
    block = data[index + 20 * fde + 17] if version == 2 else data[rows + u32(index + 16 * fde + 12) + 4]
    if block == 0:
        raise OracleError(f"FDE {fde} is PCMASK with a repetition block of 0")
    return block
