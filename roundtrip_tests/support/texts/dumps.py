"""Dumps of GNU readelf 2.47 made by hand, and changes to them: what its parsers and the referee are tested with."""

from __future__ import annotations

from ..architectures import ARCHITECTURES, Architecture
from .readelf_text import FrameRows, SframeRows, parse_frame_rows

AMD64, AARCH64, S390X = ARCHITECTURES[62], ARCHITECTURES[183], ARCHITECTURES[22]

# As printed by readelf 2.47 -wNF; shortened and with round addresses.
CFI = """
00000000 0000000000000014 00000000 CIE "zR" cf=1 df=-8 ra=16
   LOC           CFA      ra    
0000000000000000 rsp+8    c-8   

00000018 000000000000001c 0000001c FDE cie=00000000 pc=0000000000001000..0000000000001010
   LOC           CFA      rbp   ra    
0000000000001000 rsp+8    u     c-8   
0000000000001001 rsp+16   c-16  c-8   
0000000000001004 rbp+16   c-16  c-8   
000000000000100f rsp+8    c-16  c-8   
0000000000001010 rsp+99   c-16  c-8   

00000038 0000000000000014 0000003c FDE cie=00000000 pc=0000000000001010..0000000000001018

00000050 000000000000002c 00000054 FDE cie=00000000 pc=0000000000001020..0000000000001030
   LOC           CFA      rbx   rbp   ra    
0000000000001020 rsp+8    u     u     c-8   
0000000000001024 exp      r12 (r12) u     c-8   
0000000000001028 rsp+2147483640 c-16  s     c-8   

00000080 ZERO terminator
"""  # noqa: W291
# As printed by readelf 2.47 --sframe; the last function is split around the row that cannot be encoded.
SFRAME = """Contents of the SFrame section .sframe:
  Header :

    Version: SFRAME_VERSION_2
    Flags: SFRAME_F_FDE_SORTED,
           SFRAME_F_FDE_FUNC_START_PCREL
    CFA fixed RA offset: -8
    Num FDEs: 4
    Num FREs: 7

  Function Index :

    func idx [0]: pc = 0x1000, size = 16 bytes
    STARTPC         CFA       FP        RA           
    0000000000001000  sp+8      u         f            
    0000000000001001  sp+16     c-16      f            
    0000000000001004  fp+16     c-16      f            
    000000000000100f  sp+8      c-16      f            

    func idx [1]: pc = 0x1010, size = 8 bytes
    STARTPC         CFA       FP        RA           
    0000000000001010  sp+8      u         f            

    func idx [2]: pc = 0x1020, size = 4 bytes
    STARTPC         CFA       FP        RA           
    0000000000001020  sp+8      u         f            

    func idx [3]: pc = 0x1028, size = 8 bytes
    STARTPC         CFA       FP        RA           
    0000000000001028  sp+2147483640u         f            
"""  # noqa: W291


def frame_of(rows: str, architecture: Architecture = AMD64, **programs: str) -> FrameRows:
    """`programs`: the -wNf text of entries, by `_` and their offset; the others just advance from row to row."""
    instructions = []
    for entry in rows.strip("\n").split("\n\n"):
        title, *lines = entry.split("\n")
        cie = "  DW_CFA_def_cfa: r7 (rsp) ofs 8" * (" CIE " in title)
        advances = "\n".join(["  DW_CFA_advance_loc: 1 to"] * (len(lines) - 2))
        instructions.append(f"{title}\n{programs.get('_' + title[:8], cie or advances)}")
    return parse_frame_rows(rows, "\n\n".join(instructions), architecture)


def rows_of(columns: FrameRows | SframeRows, function: int) -> list[tuple[int, str]]:
    rows = slice(columns.first_row[function], columns.first_row[function + 1])
    return [(int(pc), str(columns.texts[text])) for pc, text in zip(columns.pc[rows], columns.text[rows], strict=True)]


def without_fde(dump: str, index: int) -> str:
    """The dump of readelf --sframe without one FDE."""
    parts = dump.split("    func idx ")
    count = len(parts) - 1
    return "    func idx ".join(parts[: index + 1] + parts[index + 2 :]).replace(f"FDEs: {count}", f"FDEs: {count - 1}")


def with_fde(dump: str, title: str, *rows: str, mark: str = "   ") -> str:
    """The dump of readelf --sframe with one FDE more, at the end."""
    count = dump.count("    func idx ")
    text = "\n".join([f"    func idx [{count}]: {title}", f"    STARTPC{mark}      CFA       FP        RA", *rows])
    return dump.replace(f"FDEs: {count}", f"FDEs: {count + 1}") + "\n" + text + "\n"
