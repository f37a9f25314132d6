"""What GNU readelf 2.47 says of a file's CFI and of its SFrame section, as columns.

Strategy: no product code. `frame_rows` and `sframe_rows` turn readelf's text into columns, where every distinct row
text is kept once. What `-wNF` does not print (DW_CFA_undefined looks like "no rule", signed return addresses are not
shown) comes from `-wNf`, the instructions; the repetition block of PLT functions from the section's bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
from elftools.elf.elffile import ELFFile

from .oracles import OracleError, run_oracle

U64 = npt.NDArray[np.uint64]
Index = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

# --- architectures ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Architecture:
    """What readelf calls the registers that SFrame tracks, and what SFrame's ABI fixes.

    `fp`, `sp`, `ra` are (DWARF number, name in -wF). `ra_fixed` is the CFA-relative offset of an untracked RA
    (None: tracked). `sp_rule` matches what may be said of the SP, which SFrame derives from the CFA.
    """

    name: str
    fp: tuple[int, str]
    sp: tuple[int, str]
    ra: tuple[int, str]
    ra_fixed: int | None
    sp_rule: str
    fp_needs_ra: bool = False
    in_registers: bool = False
    cfa_multiple: int = 1
    slot_multiple: int = 1


ARCHITECTURES = {  # by e_machine
    62: Architecture("x86_64", (6, "rbp"), (7, "rsp"), (16, "rip"), -8, r"v\+0"),
    183: Architecture("aarch64", (29, "x29"), (31, "sp"), (30, "x30"), None, r"v\+0", fp_needs_ra=True),
    # The CFA offset is stored in units of 8, and an odd slot offset would be a register (specification, s390x).
    22: Architecture(
        "s390x", (11, "r11"), (15, "r15"), (14, "r14"), None, r"v-160|c[+-]\d+|r\d+.*",
        in_registers=True, cfa_multiple=8, slot_multiple=2,
    ),
}  # fmt: skip


def architecture_of(path: Path) -> Architecture:
    with path.open("rb") as file:
        header = file.read(20)
    machine = int.from_bytes(header[18:20], "big" if header[5] == 2 else "little")
    if header[:5] != b"\x7fELF\x02" or machine not in ARCHITECTURES:
        raise OracleError(f"{path}: not ELF64 of an architecture that SFrame knows (e_machine {machine})")
    return ARCHITECTURES[machine]


# --- CFI: readelf -wNF ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RowText:
    """One row of -wF, the four columns that matter. `u`: no rule (also where there is no such column).

    Added from the instructions: `undefined` for DW_CFA_undefined; the RA ends in `[s]` where it is signed,
    `[pc]` where signed with the PC.
    """

    cfa: str
    fp: str = "u"
    ra: str = "u"
    sp: str = "u"

    def __str__(self) -> str:
        return f"{self.cfa or 'no CFA'} {self.fp} {self.ra}" + f" sp={self.sp}" * (self.sp != "u")


@dataclass(frozen=True, slots=True)
class FrameRows:
    """The functions of one CFI section, in its order. `start`, `end`: one a function; `first_row`: one more than
    functions, indices into `pc` and `text`, which are one a row; `text` is an index into `texts`. `has_b_key`: one a
    function, whether return addresses are signed with key B, as the CIE's augmentation says."""

    architecture: Architecture
    start: U64
    end: U64
    first_row: Index
    pc: U64
    text: Index
    texts: tuple[RowText, ...]
    has_b_key: Flags


_TITLE = re.compile(
    r'(\S+) \S+ \S+ (?:CIE "(.*)" cf=\d+ df=-?\d+ ra=(\d+)|FDE cie=(\S+) pc=([0-9a-f]+)\.\.([0-9a-f]+))'
)
_CELL = re.compile(r"\S+(?: \([^)]*\))?")  # DW_CFA_register prints `r13 (r13)`: a space inside a cell
_INSTRUCTION = re.compile(r"^  DW_CFA_(\w+)(?:: (r\d+))?", re.MULTILINE)
_SIGNS = ("DW_CFA_undefined", "negate_ra_state")  # of a program with states that -wF does not print


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
    """The number of a row's text by what stands behind the address, under one heading."""

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
    """What -wF does not print of a row: which of fp, sp, ra are DW_CFA_undefined, whether the RA is signed, and
    the CIE's return column, if it is not the ABI's."""

    undefined: frozenset[str] = frozenset()
    signed: str = ""
    column: str = ""

    def shown(self, row: RowText) -> RowText:
        row = replace(row, **dict.fromkeys(self.undefined, "undefined"))
        return replace(row, ra=row.ra + self.signed + self.column)


@dataclass(frozen=True, slots=True)
class _Cie:
    """What its FDEs start from: the number of the text of the row that one without instructions has."""

    row: int
    hidden: _Hidden
    has_b_key: bool


def frame_rows(path: Path, section: str = ".eh_frame") -> FrameRows:
    """What `readelf -wNF` and `-wNf` say of the CFI of one section. No such section: no functions."""
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
    has_b_key: list[bool] = []
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
            hidden = _hidden_states(program, _Hidden(column=foreign), watched)[-1]
            cies[offset] = _Cie(text[-1] if text else columns.number(RowText("")), hidden, "B" in augmentation)
            continue
        cie = cies[cie_offset]
        has_b_key.append(cie.has_b_key)
        pc = [int(line[:16], 16) for line in lines] or [int(start, 16)]
        text = text or [cie.row]
        if cie.hidden != _Hidden() or any(sign in program for sign in _SIGNS):
            states = _hidden_states(program, cie.hidden, watched)
            shown = (state.shown(columns.texts[number]) for state, number in zip(states, text, strict=True))
            text = [columns.number(row) for row in shown]
        columns.add_function(int(start, 16), int(end, 16), pc, text)
    return FrameRows(architecture, *columns.arrays(), tuple(columns.texts), np.array(has_b_key, np.bool_))


def _watched(architecture: Architecture) -> dict[str, str]:
    """fp, sp, ra by what -wNf calls the register: `r6 (rbp)`, or `r11` where it has no name."""
    names = {"fp": architecture.fp, "sp": architecture.sp, "ra": architecture.ra}
    return {f"r{number}": field for field, (number, _) in names.items()}


def _hidden_states(program: str, initial: _Hidden, watched: dict[str, str]) -> list[_Hidden]:
    """The state of each row that -wF prints for this entry: one before every advance, and the last."""
    state, stack, states = initial, list[_Hidden](), list[_Hidden]()
    for opcode, register in _INSTRUCTION.findall(program):
        name = watched.get(register)
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
    """The FDEs of one SFrame section, columns as in FrameRows. `attributes`, one an FDE: S signal frame, F flexible
    (V3), B pauth key B. `repetition_block`: 0 for PCINC; else the FDE is PCMASK and its `pc` count from a block."""

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
    """What `readelf --sframe` says; the repetition blocks, which it hides, are read from the section."""
    dump = run_oracle("readelf", "-wN", "--sframe", path)
    with path.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".sframe")
        data = section.data() if section else b""
    return parse_sframe_rows(dump, data)


def parse_sframe_rows(dump: str, data: bytes = b"") -> SframeRows:
    """As `sframe_rows`, from readelf's text; `data`, the section, is looked into for PCMASK functions only."""
    if dump.count("Contents of the SFrame section") != 1:
        raise OracleError(f"readelf --sframe shows not one section: {dump[:200]!r}")
    head, *functions = re.split(r"^(?=    func idx \[)", dump, flags=re.MULTILINE)
    header = _parse_sframe_header(head)
    columns, attributes, blocks = _Columns[SframeText](), list[str](), list[int]()
    numbers: dict[str, int] = {}
    for i, block in enumerate(functions):
        title, heading, *rows = block.rstrip("\n").split("\n")
        match = _FUNCTION.fullmatch(title)
        if match is None or not heading.startswith("    STARTPC"):
            raise OracleError(f"readelf --sframe printed {block[:200]!r}")
        for row in rows:
            if row[20:] not in numbers:
                numbers[row[20:]] = columns.number(_sframe_text(row))
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


def _sframe_text(row: str) -> SframeText:
    if row[20:].rstrip() == "  RA undefined":
        return SframeText("", "", "undefined")
    match = _FRE.fullmatch(row[20:])
    if match is None:
        raise OracleError(f"readelf --sframe printed {row!r}")
    # `U` is the padding word for an RA that is not saved: `u`.
    return SframeText(match[1], match[2], match[3].replace("U", "u") + (match[4] or ""))


def _repetition_block(data: bytes, version: int, fde: int) -> int:
    """Of a PCMASK FDE: the byte at 17 of V2's 20-byte FDE, or at 4 of V3's attributes before the FREs."""
    order = "little" if data[:2] == b"\xe2\xde" else "big"

    def u32(offset: int) -> int:
        return int.from_bytes(data[offset : offset + 4], order)  # type: ignore[arg-type]

    base = 28 + data[7]  # the header, and the auxiliary header whose length is its byte 7
    index, rows = base + u32(20), base + u32(24)
    block = data[index + 20 * fde + 17] if version == 2 else data[rows + u32(index + 16 * fde + 12) + 4]
    if block == 0:
        raise OracleError(f"FDE {fde} is PCMASK with a repetition block of 0")
    return block
