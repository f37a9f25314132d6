"""GNU readelf's output is parsed correctly: rows of call frame information and of SFrame, on texts made by hand."""

from __future__ import annotations

import pytest

from ..support.judges import referee
from ..support.oracles import OracleError
from ..support.texts.dumps import AARCH64, AMD64, CFI, SFRAME, frame_of, rows_of, with_fde
from ..support.texts.readelf_text import SframeHeader, SframeText, parse_sframe_rows

# --- parsing CFI ------------------------------------------------------------------------------------------


def test_rows_of_a_function_are_read_with_fp_and_ra() -> None:
    frame = frame_of(CFI)
    assert (frame.start.tolist(), frame.end.tolist()) == ([0x1000, 0x1010, 0x1020], [0x1010, 0x1018, 0x1030])
    assert rows_of(frame, 0)[:3] == [(0x1000, "rsp+8 u c-8"), (0x1001, "rsp+16 c-16 c-8"), (0x1004, "rbp+16 c-16 c-8")]


def test_fde_without_instructions_has_the_row_of_its_cie() -> None:
    assert rows_of(frame_of(CFI), 1) == [(0x1010, "rsp+8 u c-8")]


def test_register_rule_with_a_space_does_not_shift_the_columns() -> None:
    # rbx is in r12, printed as `r12 (r12)`; rbp has no rule.
    assert rows_of(frame_of(CFI), 2)[1] == (0x1024, "exp u c-8")


def test_undefined_is_told_from_no_rule_and_follows_remembered_states() -> None:
    program = """\
  DW_CFA_remember_state
  DW_CFA_undefined: r6 (rbp)
  DW_CFA_advance_loc: 4 to 0000000000001024
  DW_CFA_restore_state
  DW_CFA_def_cfa_expression (DW_OP_breg6 (rbp): 0)
  DW_CFA_advance_loc: 4 to 0000000000001028
  DW_CFA_undefined: r16 (rip)
"""
    texts = [text for _, text in rows_of(frame_of(CFI, _00000050=program), 2)]
    assert texts == ["rsp+8 undefined c-8", "exp(breg6 0) u c-8", "rsp+2147483640 s undefined"]


def test_undefined_ends_with_another_rule_and_comes_back_when_the_cie_says_so() -> None:
    cie = "  DW_CFA_def_cfa: r7 (rsp) ofs 8\n  DW_CFA_undefined: r16 (rip)"
    # Without a remembered state, readelf keeps its current state.
    program = """\
  DW_CFA_offset: r16 (rip) at cfa-8
  DW_CFA_restore_state
  DW_CFA_advance_loc: 4 to 0000000000001024
  DW_CFA_undefined: r6 (rbp)
  DW_CFA_restore: r16 (rip)
  DW_CFA_advance_loc: 4 to 0000000000001028
  DW_CFA_same_value: r6 (rbp)
"""
    texts = [text for _, text in rows_of(frame_of(CFI, _00000000=cie, _00000050=program), 2)]
    assert texts == ["rsp+8 u c-8", "exp undefined undefined", "rsp+2147483640 s undefined"]


def test_cie_with_another_return_column_makes_its_functions_unsayable() -> None:
    frame = frame_of(CFI.replace("ra=16", "ra=3"))
    assert {referee.sayable(frame.texts[text], AMD64) for text in frame.text} == {None}


def test_signed_return_address_is_known_from_the_instructions() -> None:
    cfi = """
00000000 0000000000000010 00000000 CIE "zR" cf=4 df=-8 ra=30
   LOC           CFA      
0000000000000000 sp+0     

00000014 0000000000000020 00000018 FDE cie=00000000 pc=0000000000001000..0000000000001010
   LOC           CFA      x29   ra    
0000000000001000 sp+0     u     u     
0000000000001004 sp+0     u     u     
0000000000001008 sp+16    c-16  c-8   
"""  # noqa: W291
    program = """\
  DW_CFA_advance_loc: 4 to 0000000000001004
  DW_CFA_AARCH64_negate_ra_state
  DW_CFA_advance_loc: 4 to 0000000000001008
"""
    frame = frame_of(cfi, AARCH64, _00000014=program)
    assert [text for _, text in rows_of(frame, 0)] == ["sp+0 u u", "sp+0 u u[s]", "sp+16 c-16 c-8[s]"]


def test_signal_frame_is_known_from_the_augmentation_of_the_cie() -> None:
    assert frame_of(CFI).is_signal_frame.tolist() == [False] * 3
    assert frame_of(CFI.replace('"zR"', '"zRS"')).is_signal_frame.tolist() == [True] * 3


def test_key_b_is_known_from_the_augmentation_of_the_cie() -> None:
    assert frame_of(CFI).has_b_key.tolist() == [False] * 3
    # The two FDEs before the second CIE belong to the first one.
    own = '00000040 0000000000000014 00000000 CIE "zRB" cf=1 df=-8 ra=16\n   LOC  CFA\n0000000000000000 rsp+8\n\n'
    place = CFI.index("00000050 ")
    cfi = CFI[:place] + own + CFI[place:].replace("cie=00000000", "cie=00000040")
    assert frame_of(cfi).has_b_key.tolist() == [False, False, True]


# --- parsing SFrame ---------------------------------------------------------------------------------------


def test_sframe_header_and_rows_are_read() -> None:
    sframe = parse_sframe_rows(SFRAME)
    assert sframe.header == SframeHeader(2, ("FDE_SORTED", "FDE_FUNC_START_PCREL"), 0, -8, 4, 7)
    assert (sframe.start.tolist(), sframe.end.tolist()) == (
        [0x1000, 0x1010, 0x1020, 0x1028],
        [0x1010, 0x1018, 0x1024, 0x1030],
    )
    assert rows_of(sframe, 0)[2] == (0x1004, "fp+16 c-16 f")


def test_sframe_columns_that_run_together_are_told_apart() -> None:
    assert rows_of(parse_sframe_rows(SFRAME), 3) == [(0x1028, "sp+2147483640 u f")]


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ("  fp+32     c-32      c-24[s]      ", ("fp+32", "c-32", "c-24[s]")),  # aarch64, signed
        ("  sp+160    r16       c-48         ", ("sp+160", "r16", "c-48")),  # s390x: FP in f0
        ("  sp+-16    u         f            ", ("sp-16", "u", "f")),
        ("  (fp-8)    (fp+0)    U            ", ("(fp-8)", "(fp+0)", "f")),  # V3, flexible
        ("  RA undefined", ("", "", "undefined")),  # V3, outermost
    ],
)
def test_sframe_row_forms_are_read(row: str, text: tuple[str, str, str]) -> None:
    sframe = parse_sframe_rows(SFRAME.replace("  sp+2147483640u         f            ", row))
    assert sframe.texts[sframe.text[-1]] == SframeText(*text)


def test_padding_for_the_ra_says_that_it_is_fixed_or_not_saved() -> None:
    padded = SFRAME.replace("  sp+2147483640u         f            ", "  sp+160    r16       U            ")
    tracked = padded.replace("    CFA fixed RA offset: -8\n", "")
    assert [rows_of(parse_sframe_rows(dump), 3) for dump in (padded, tracked)] == [
        [(0x1028, f"sp+160 r16 {ra}")] for ra in "fu"
    ]


def test_sframe_attributes_and_the_sign_of_the_size_are_read() -> None:
    # readelf prints the u32 size as a signed number.
    dump = with_fde(SFRAME, 'pc = 0x2000, size = -16 bytes, attr = "SF", pauth = B key')
    sframe = parse_sframe_rows(dump)
    assert (sframe.attributes[4], int(sframe.end[4])) == ("SFB", 0x2000 + 0xFFFFFFF0)


def test_dump_that_ends_early_is_an_error() -> None:
    with pytest.raises(OracleError, match="shows 3 FDEs of 4"):
        parse_sframe_rows(SFRAME[: SFRAME.index("    func idx [3]")])


def test_two_sframe_sections_are_an_error() -> None:
    with pytest.raises(OracleError, match="not one section"):
        parse_sframe_rows(SFRAME * 2)
