"""An SFrame V2 section as `llvm-readobj --sframe` of LLVM 22 prints it, in the columns of readelf_text.py.

Strategy: no product code. One pattern matches a whole FDE with its FREs, every line of it: any other output of LLVM is
an error here, never skipped. For s390x LLVM shows the words as stored: it is not used.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..oracles import OracleError, run_oracle
from .readelf_text import Index, SframeHeader, SframeRows, SframeText, _Columns

SUITE = "sid-llvm"
LLVM_READOBJ = "llvm-readobj-22"

_HEADER = re.compile(r"""  Header \{
    Magic: 0xDEE2
    Version: V(?P<version>2) \(0x2\)
    Flags \[ \(0x[0-9A-F]+\)
(?P<flags>(?:      \w+ \(0x[0-9A-F]+\)
)*)    \]
    ABI: \w+ \(0x[1-4]\)
    CFA fixed FP offset(?: \(unused\))?: (?P<fixed_fp>-?\d+)
    CFA fixed RA offset(?: \(unused\))?: (?P<fixed_ra>-?\d+)
    Auxiliary header length: 0
    Num FDEs: (?P<num_fdes>\d+)
    Num FREs: (?P<num_fres>\d+)
    FRE subsection length: (?P<fre_len>\d+)
    FDE subsection offset: (?P<fdeoff>\d+)
    FRE subsection offset: (?P<freoff>\d+)
    Auxiliary header: \[\]
  \}
  Function Index \[
""")
_FDE = re.compile(r"""    FuncDescEntry \[(?P<index>\d+)\] \{
      PC: 0x(?P<pc>[0-9A-F]+)
      Size: 0x(?P<size>[0-9A-F]+)
      Start FRE Offset: 0x(?P<fre_offset>[0-9A-F]+)
      Num FREs: (?P<num_fres>\d+)
      Info \{
        FRE Type: Addr[124] \(0x[0-2]\)
        FDE Type: PC(?P<type>Inc|Mask) \(0x[01]\)
(?:        PAuth Key: (?P<key>[AB]) \(0x[01]\)
)?        Raw: 0x(?P<info>[0-9A-F]+)
      \}
      Repetitive block size(?P<unused> \(unused\))?: 0x(?P<block>[0-9A-F]+)
      Padding2: 0x0
      FREs \[
(?P<fres>(?:        .*
)*)      \]
    \}
""")
_FRE = re.compile(r"""        Frame Row Entry \{
          Start Address: 0x([0-9A-F]+)
          Return Address Signed: (Yes|No)
          Offset Size: B[124] \(0x[0-2]\)
          Base Register: (FP|SP) \(0x[01]\)
          CFA Offset: (-?\d+)
(?:          RA Offset: (-?\d+)
)?(?:          FP Offset: (-?\d+)
)?        \}
""")
# By readelf's names, in its order.
_FLAGS = {
    "FDESorted": "FDE_SORTED",
    "FramePointer": "FRAME_POINTER",
    "FDEFuncStartPCRel": "FDE_FUNC_START_PCREL",
}


@dataclass(frozen=True, slots=True)
class LlvmSframe:
    """One section: `rows` as from readelf's text, and what readelf does not show. `fre_offset` and `num_fres` have one
    item per FDE."""

    rows: SframeRows
    fre_len: int
    fdeoff: int
    freoff: int
    fre_offset: Index
    num_fres: Index


def llvm_sframe(path: Path) -> LlvmSframe:
    """llvm-readobj's output for the one `.sframe` of a file."""
    return parse_llvm_sframe(run_oracle(LLVM_READOBJ, "--sframe", path, suite=SUITE))


def parse_llvm_sframe(dump: str) -> LlvmSframe:
    """As `llvm_sframe`, from the text."""
    _, *sections = dump.split("SFrame section '.sframe' {\n")
    match = _HEADER.match(sections[0]) if len(sections) == 1 else None
    if match is None:
        raise OracleError(f"llvm-readobj --sframe shows no section of version 2: {dump[:200]!r}")
    flags = tuple(text for name, text in _FLAGS.items() if re.search(rf"^ +{name} ", match["flags"], re.MULTILINE))
    if len(flags) != match["flags"].count("\n"):
        raise OracleError(f"llvm-readobj --sframe shows flags {match['flags']!r}")
    fixed = int(match["fixed_fp"]), int(match["fixed_ra"])
    header = SframeHeader(2, flags, *fixed, int(match["num_fdes"]), int(match["num_fres"]))
    columns, fdes, end = _Columns[SframeText](), list[re.Match[str]](), match.end()
    for fde in _FDE.finditer(sections[0], end):
        if fde.start() != end or int(fde["index"]) != len(fdes):
            break
        end = fde.end()
        fdes.append(fde)
        _add_function(columns, fde, header)
    if sections[0][end:].strip() != "]\n}" or len(fdes) != header.num_fdes:
        raise OracleError(f"llvm-readobj --sframe printed {sections[0][end : end + 200]!r}")
    attributes = tuple("B" if fde["key"] == "B" else "" for fde in fdes)
    block = [0 if fde["unused"] else int(fde["block"], 16) for fde in fdes]
    fre_offset, num_fres = [int(fde["fre_offset"], 16) for fde in fdes], [int(fde["num_fres"]) for fde in fdes]
    as_index = (np.array(column, np.int64) for column in (block, fre_offset, num_fres))
    rows = SframeRows(header, *columns.arrays(), tuple(columns.texts), attributes, next(as_index))
    return LlvmSframe(rows, int(match["fre_len"]), int(match["fdeoff"]), int(match["freoff"]), *as_index)


def _add_function(columns: _Columns[SframeText], fde: re.Match[str], header: SframeHeader) -> None:
    pcs, texts, end = list[int](), list[int](), 0
    for fre in _FRE.finditer(fde["fres"]):
        if fre.start() != end:
            break
        end = fre.end()
        start, signed, base, cfa, ra, fp = fre.groups()
        is_fixed = header.fixed_ra_offset != 0
        if is_fixed and ra != str(header.fixed_ra_offset):
            raise OracleError(f"llvm-readobj --sframe shows an RA at {ra}, fixed at {header.fixed_ra_offset}")
        said = "f" if is_fixed else _slot(ra) + "[s]" * (signed == "Yes")
        pcs.append(int(start, 16))
        texts.append(columns.number(SframeText(f"{base.lower()}{int(cfa):+}", _slot(fp), said)))
    if end != len(fde["fres"]) or len(pcs) != int(fde["num_fres"]):
        raise OracleError(f"llvm-readobj --sframe printed {fde['fres'][end : end + 200]!r}")
    start = int(fde["pc"], 16)
    columns.add_function(start, start + int(fde["size"], 16), pcs, texts)


def _slot(offset: str | None) -> str:
    return "u" if offset is None else f"c{int(offset):+}"
