"""The referee's judgement of SFrame V3, by hand: FLEX rows, outermost frames and signal frames, and what is wrong.

Strategy: texts as readelf 2.47 prints them, shortened, with round addresses; and V3 sections by gas and ld.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from ..support import oracles
from ..support.architectures import Architecture
from ..support.judges import referee
from ..support.judges.referee import Kind
from ..support.texts.dumps import AARCH64, AMD64, S390X, frame_of, rows_of
from ..support.texts.readelf_text import FrameRows, RowText, frame_rows, parse_sframe_rows, sframe_rows

# --- what can be encoded ----------------------------------------------------------------------------------

SAYABLE = [
    # As in version 2.
    (AMD64, RowText("rsp+8", "u", "c-8"), "sp+8 u f"),
    (AMD64, RowText("rbp-16", "c-16", "c-8", "v+0"), "fp-16 c-16 f"),
    (AARCH64, RowText("x29+32", "c-32", "c-24[s]"), "fp+32 c-32 c-24[s]"),
    (S390X, RowText("r11+320", "c-72", "c-48", "c-40"), "fp+320 c-72 c-48"),
    # The CFA from other registers, by the DWARF number, and from memory.
    (AMD64, RowText("r10+0", "u", "c-8"), "r10+0 u f"),
    (AMD64, RowText("rcx-8", "u", "c-8"), "r2-8 u f"),
    (AMD64, RowText("rdi+2147483647", "u", "c-8"), "r5+2147483647 u f"),
    (AARCH64, RowText("x13+16", "u", "u"), "r13+16 u u"),
    (S390X, RowText("r12+160", "u", "u"), "r12+160 u u"),
    (AMD64, RowText("exp(breg6 -8; deref)", "exp(breg6 0)", "c-8"), "(fp-8) (fp+0) f"),
    (AMD64, RowText("exp(breg7 8; plus_uconst 16; deref)", "u", "c-8"), "(sp+24) u f"),
    (AMD64, RowText("exp(breg10 16)", "u", "c-8"), "r10+16 u f"),
    (AMD64, RowText("exp(bregx 31 (r31) -8; deref)", "u", "c-8"), "(r31-8) u f"),
    # FP and RA in registers, in memory addressed by a register, and at other offsets than the usual ones.
    (AMD64, RowText("rsp+8", "r11 (r11)", "c-8"), "sp+8 r11+0 f"),
    (AMD64, RowText("rsp+8", "r7 (rsp)", "c-8"), "sp+8 sp+0 f"),
    (AMD64, RowText("rsp+8", "u", "r9 (r9)"), "sp+8 u r9+0"),
    (AMD64, RowText("rsp+8", "u", "c-16"), "sp+8 u c-16"),
    (AMD64, RowText("rsp+8", "s", "c+0"), "sp+8 u c+0"),
    (AMD64, RowText("rsp+8", "exp(breg7 120)", "exp(breg7 168)"), "sp+8 (sp+120) (sp+168)"),
    (AMD64, RowText("rsp+8", "exp(plus_uconst 16)", "c-8"), "sp+8 c+16 f"),  # the CFA is on the stack
    (AMD64, RowText("rsp+8", "vexp(breg3 -8)", "c-8"), "sp+8 r3-8 f"),
    (AMD64, RowText("rsp+8", "vexp(breg3 -8; deref)", "c-8"), "sp+8 (r3-8) f"),
    (AARCH64, RowText("sp+16", "c-16", "u"), "sp+16 c-16 u"),  # FP without RA
    (AARCH64, RowText("sp+16", "u", "r9 (x9)"), "sp+16 u r9+0"),
    (S390X, RowText("r15+160", "r16 (f0)", "r4", "r18 (f4)"), "sp+160 r16+0 r4+0"),
    (S390X, RowText("r15+320", "c-71", "c+0"), "sp+320 c-71 c+0"),
    # Outermost frames: nothing else matters.
    (AMD64, RowText("rsp+8", "u", "undefined"), "undefined"),
    (AMD64, RowText("exp(breg7 8; lit1; plus)", "undefined", "undefined"), "undefined"),
    (AARCH64, RowText("", "v+8", "undefined[s]"), "undefined"),
    # In signal frames the SP is saved where the CFA is read from.
    (
        AMD64,
        RowText("exp(breg7 160; deref)", "exp(breg7 120)", "exp(breg7 168)", "exp(breg7 160)"),
        "(sp+160) (sp+120) (sp+168)",
    ),
]
UNSAYABLE = [
    (AMD64, RowText("", "u", "c-8")),
    (AMD64, RowText("rsp+2147483648", "u", "c-8")),
    (AMD64, RowText("exp(breg7 -2147483649; deref)", "u", "c-8")),
    (AMD64, RowText("exp(breg7 8; deref; plus_uconst 8)", "u", "c-8")),  # OCaml's: the offset is added to what is read
    (AMD64, RowText("exp(breg7 8; deref; deref)", "u", "c-8")),
    (AMD64, RowText("exp(breg7 8; breg16 0; lit15; and; lit11; ge; lit3; shl; plus)", "u", "c-8")),
    (AMD64, RowText("exp(plus_uconst 8)", "u", "c-8")),  # the CFA from itself
    (AMD64, RowText("exp", "u", "c-8")),
    (AMD64, RowText("rsp+8", "undefined", "c-8")),
    (AMD64, RowText("rsp+8", "v-16", "c-8")),
    (AMD64, RowText("rsp+8", "vexp(plus_uconst 16)", "c-8")),  # the same
    (AMD64, RowText("rsp+8", "c-2147483649", "c-8")),
    (AMD64, RowText("rsp+8", "exp(breg6 0; deref)", "c-8")),  # would be read twice
    (AMD64, RowText("rsp+8", "vexp(breg6 0; lit8; mul)", "c-8")),
    (AMD64, RowText("rsp+8", "u", "u")),  # in a register that holds nothing
    (AMD64, RowText("rsp+8", "u", "s")),
    (AMD64, RowText("rsp+8", "u", "v-8")),
    (AMD64, RowText("rsp+8", "u", "c-8", "v-8")),
    (AMD64, RowText("rsp+8", "u", "c-8", "c-16")),
    (AMD64, RowText("rsp+8", "u", "c-8", "r3 (rbx)")),
    (AMD64, RowText("rsp+160", "u", "c-8", "exp(breg7 160)")),  # the CFA is not read from there
    (AMD64, RowText("exp(breg7 160; deref)", "u", "c-8", "exp(breg7 168)")),
    (AMD64, RowText("rsp+8", "u", "c-8 in column 3")),
    (AMD64, RowText("rsp+8", "u", "undefined in column 3")),
    (AARCH64, RowText("sp+16", "u", "c-16[pc]")),
    (S390X, RowText("r15+324", "c-72", "c-48")),  # not in units of 8
    (S390X, RowText("r12+4", "u", "u")),
    (S390X, RowText("exp(breg15 160; deref)", "u", "u", "exp(breg15 160)")),  # the SP is 160 below the CFA
]


@pytest.mark.parametrize(("architecture", "row", "text"), SAYABLE, ids=lambda value: str(value).replace("\n", " "))
def test_row_that_version_3_can_say(architecture: Architecture, row: RowText, text: str) -> None:
    assert str(referee.sayable(row, architecture, version=3)) == text


@pytest.mark.parametrize(("architecture", "row"), UNSAYABLE, ids=str)
def test_row_that_version_3_cannot_say(architecture: Architecture, row: RowText) -> None:
    assert referee.sayable(row, architecture, version=3) is None


# --- texts ------------------------------------------------------------------------------------------------

CFI = """
00000000 0000000000000014 00000000 CIE "zR" cf=1 df=-8 ra=16
   LOC           CFA      ra    
0000000000000000 rsp+8    c-8   

00000018 000000000000001c 0000001c FDE cie=00000000 pc=0000000000001000..0000000000001010
   LOC           CFA      rbp   ra    
0000000000001000 rsp+8    u     c-8   
0000000000001004 r10+0    u     c-8   
0000000000001008 exp      exp   c-8   
000000000000100c rsp+8    r9 (r9) c-8   

00000038 000000000000001c 0000003c FDE cie=00000000 pc=0000000000001010..0000000000001020
   LOC           CFA      ra    
0000000000001010 rsp+8    u     
0000000000001018 rsp+8    c-16  

00000058 0000000000000014 00000000 CIE "zRS" cf=1 df=-8 ra=16
   LOC           CFA      rbp   rsp   ra    
0000000000000000 exp      exp   exp   exp   

00000078 000000000000001c 00000024 FDE cie=00000058 pc=0000000000001020..0000000000001028
"""  # noqa: W291
PROGRAMS = {
    "_00000000": "  DW_CFA_def_cfa: r7 (rsp) ofs 8\n  DW_CFA_offset: r16 (rip) at cfa-8",
    "_00000018": """\
  DW_CFA_advance_loc: 4 to 0000000000001004
  DW_CFA_def_cfa: r10 (r10) ofs 0
  DW_CFA_advance_loc: 4 to 0000000000001008
  DW_CFA_def_cfa_expression (DW_OP_breg6 (rbp): -8; DW_OP_deref)
  DW_CFA_expression: r6 (rbp) (DW_OP_breg6 (rbp): 0)
  DW_CFA_advance_loc: 4 to 000000000000100c
  DW_CFA_def_cfa: r7 (rsp) ofs 8
  DW_CFA_register: r6 (rbp) in r9 (r9)""",
    "_00000038": """\
  DW_CFA_undefined: r16 (rip)
  DW_CFA_advance_loc: 8 to 0000000000001018
  DW_CFA_offset: r16 (rip) at cfa-16""",
    "_00000058": """\
  DW_CFA_def_cfa_expression (DW_OP_breg7 (rsp): 160; DW_OP_deref)
  DW_CFA_expression: r6 (rbp) (DW_OP_breg7 (rsp): 120)
  DW_CFA_expression: r7 (rsp) (DW_OP_breg7 (rsp): 160)
  DW_CFA_expression: r16 (rip) (DW_OP_breg7 (rsp): 168)""",
    "_00000078": "",
}
SFRAME = """Contents of the SFrame section .sframe:
  Header :

    Version: SFRAME_VERSION_3
    Flags: SFRAME_F_FDE_SORTED,
           SFRAME_F_FDE_FUNC_START_PCREL
    CFA fixed RA offset: -8
    Num FDEs: 3
    Num FREs: 7

  Function Index :

    func idx [0]: pc = 0x1000, size = 16 bytes, attr = "F"
    STARTPC         CFA       FP        RA           
    0000000000001000  sp+8      u         f            
    0000000000001004  r10+0     u         f            
    0000000000001008  (fp-8)    (fp+0)    U            
    000000000000100c  sp+8      r9+0      U            

    func idx [1]: pc = 0x1010, size = 16 bytes, attr = "F"
    STARTPC         CFA       FP        RA           
    0000000000001010  RA undefined
    0000000000001018  sp+8      u         c-16         

    func idx [2]: pc = 0x1020, size = 8 bytes, attr = "SF"
    STARTPC         CFA       FP        RA           
    0000000000001020  (sp+160)  (sp+120)  (sp+168)     
"""  # noqa: W291


def frame(rows: str = CFI, **changed: str) -> FrameRows:
    """The columns; `changed`: instructions of entries, keyed by `_` and their offset."""
    return frame_of(rows, **(PROGRAMS | changed))


def differences(sframe: str) -> list[tuple[Kind, int, int]]:
    found = referee.compare(frame(), parse_sframe_rows(sframe)).differences
    return [(difference.kind, difference.start, difference.end) for difference in found]


def test_rows_that_only_version_3_can_say_are_compared() -> None:
    result = referee.compare(frame(), parse_sframe_rows(SFRAME))
    assert result.differences == ()
    assert (result.functions, result.rows, result.rows_compared) == (3, 7, 7)
    assert (result.bytes_compared, result.bytes_unsayable) == (0x28, 0)


def texts_of(columns: FrameRows, function: int) -> list[str]:
    return [text for _, text in rows_of(columns, function)]


def test_expressions_are_added_from_the_instructions() -> None:
    found = frame()
    assert texts_of(found, 0)[1:3] == ["r10+0 u c-8", "exp(breg6 -8; deref) exp(breg6 0) c-8"]
    assert texts_of(found, 1) == ["rsp+8 u undefined", "rsp+8 u c-16"]
    assert texts_of(found, 2) == ["exp(breg7 160; deref) exp(breg7 120) exp(breg7 168) sp=exp(breg7 160)"]


def test_expression_of_the_cie_comes_back_when_restored() -> None:
    cie = PROGRAMS["_00000000"] + "\n  DW_CFA_expression: r6 (rbp) (DW_OP_breg3 (rbx): 8)"
    steps = PROGRAMS["_00000018"].replace("DW_CFA_register: r6 (rbp) in r9 (r9)", "DW_CFA_restore: r6 (rbp)")
    with_restored = CFI.replace("rsp+8    r9 (r9) c-8", "rsp+8    exp   c-8")
    found = frame(with_restored, _00000000=cie, _00000018=steps)
    assert texts_of(found, 0)[2:] == ["exp(breg6 -8; deref) exp(breg6 0) c-8", "rsp+8 exp(breg3 8) c-8"]


def test_register_0_that_no_instruction_names_is_no_cfa() -> None:
    found = frame(_00000000="  DW_CFA_offset: r16 (rip) at cfa-8", _00000038="  DW_CFA_advance_loc: 8 to 1018")
    assert texts_of(found, 1) == ["no CFA u u", "no CFA u c-16"]
    assert texts_of(found, 0)[:2] == ["no CFA u c-8", "r10+0 u c-8"]


MUTATIONS = {
    "CFA of another register": (("r10+0", "r11+0"), [(Kind.WRONG, 0x1004, 0x1008)]),
    "CFA not read from memory": (("(fp-8) ", "fp-8   "), [(Kind.WRONG, 0x1008, 0x100C)]),
    "CFA read from elsewhere": (("(fp-8)", "(fp-9)"), [(Kind.WRONG, 0x1008, 0x100C)]),
    "FP read from elsewhere": (("(fp+0)", "(fp+8)"), [(Kind.WRONG, 0x1008, 0x100C)]),
    "FP not read from memory": (("(fp+0)", "fp+0  "), [(Kind.WRONG, 0x1008, 0x100C)]),
    "FP in another register": (("r9+0", "r8+0"), [(Kind.WRONG, 0x100C, 0x1010)]),
    "FP in memory instead of a register": (("r9+0  ", "(r9+0)"), [(Kind.WRONG, 0x100C, 0x1010)]),
    "RA where it usually is": (("c-16", "f   "), [(Kind.WRONG, 0x1018, 0x1020)]),
    "RA said where it is fixed": (("r9+0      U   ", "r9+0      c-16"), [(Kind.WRONG, 0x100C, 0x1010)]),
    "row instead of the outermost frame": (
        ("RA undefined", "sp+8      u         f"),
        [(Kind.WRONG, 0x1010, 0x1018)],
    ),
    "outermost frame instead of a row": (
        ("r10+0     u         f            ", "RA undefined"),
        [(Kind.WRONG, 0x1004, 0x1008)],
    ),
    "signal frame without its mark": (('attr = "SF"', 'attr = "F"'), [(Kind.FRAME, 0x1020, 0x1028)]),
    "mark on an ordinary frame": (
        ('16 bytes, attr = "F"\n    STARTPC         CFA       FP        RA           \n    0000000000001010',
         '16 bytes, attr = "SF"\n    STARTPC         CFA       FP        RA           \n    0000000000001010'),
        [(Kind.FRAME, 0x1010, 0x1020)],
    ),
    "key on an ordinary frame": (('attr = "SF"', 'attr = "SF", pauth = B key'), [(Kind.KEY, 0x1020, 0x1028)]),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_wrong_version_3_is_reported_where_it_is_wrong(name: str) -> None:
    (old, new), expected = MUTATIONS[name]
    assert SFRAME.count(old) == 1
    assert differences(SFRAME.replace(old, new)) == expected


def test_in_version_2_these_rows_have_no_words() -> None:
    found = differences(SFRAME.replace("VERSION_3", "VERSION_2"))
    assert {kind for kind, _, _ in found} == {Kind.UNSAYABLE}
    assert [(start, end) for _, start, end in found] == [
        (0x1004, 0x1008), (0x1008, 0x100C), (0x100C, 0x1010), (0x1010, 0x1018), (0x1018, 0x1020), (0x1020, 0x1028)
    ]  # fmt: skip


# --- gas and ld -------------------------------------------------------------------------------------------

FLEXIBLE = """
plain: .cfi_startproc
 push %rbp
 .cfi_def_cfa_offset 16
 .cfi_offset rbp, -16
 ret
 .cfi_endproc
 .type drap, @function
drap: .cfi_startproc
 lea 8(%rsp), %r10
 .cfi_def_cfa r10, 0
 push %rbp
 .cfi_escape 0x10,6,2,0x76,0
 nop
 .cfi_escape 0xf,3,0x76,0x78,6
 nop
 .cfi_def_cfa rsp, 8
 .cfi_register rbp, r9
 ret
 .cfi_endproc
"""


@pytest.mark.oracle
def test_every_wrong_byte_in_a_flexible_function_is_found(tmp_path: Path) -> None:
    (tmp_path / "frames.s").write_text(FLEXIBLE)
    path = tmp_path / "frames.so"
    oracles.run_oracle("as", "--gsframe", tmp_path / "frames.s", "-o", tmp_path / "frames.o")
    oracles.run_oracle("ld", "-shared", tmp_path / "frames.o", "-o", path)
    frame, known, image = frame_rows(path), sframe_rows(path), path.read_bytes()
    assert referee.compare(frame, known).differences == ()
    with path.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".sframe")
        place, data = section["sh_offset"], section.data()
    # FREs of `drap`, at 0, 5, 6, 7 and 8: start, info, pairs of CFA and FP; between these a 0 as padding for RA.
    fres = bytes.fromhex("00043908 05045100 060a5100 00 3300 070a33f8 00 3300 080a3908 00 4900")
    place += data.index(fres)
    for offset in range(place, place + len(fres)):
        path.write_bytes(image[:offset] + bytes([image[offset] ^ 8]) + image[offset + 1 :])
        try:
            changed = sframe_rows(path)
        except oracles.OracleError:
            continue
        assert referee.compare(frame, changed).differences, hex(offset)
