"""The referee detects errors: every kind of wrong SFrame is a difference, on texts made by hand."""

from __future__ import annotations

import pytest

from ..support.architectures import Architecture
from ..support.judges import referee
from ..support.judges.referee import Kind
from ..support.oracles import OracleError
from ..support.texts.dumps import AARCH64, AMD64, CFI, S390X, SFRAME, frame_of, with_fde, without_fde
from ..support.texts.readelf_text import RowText, SframeRows, parse_sframe_rows


def differences(cfi: str, sframe: str, **options: list[tuple[int, int]]) -> list[tuple[Kind, int, int]]:
    found = referee.compare(frame_of(cfi), parse_sframe_rows(sframe), **options).differences
    return [(difference.kind, difference.start, difference.end) for difference in found]


# --- what can be encoded ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("architecture", "row", "text"),
    [
        (AMD64, RowText("rsp+8", "u", "c-8"), "sp+8 u f"),
        (AMD64, RowText("rbp+16", "c-16", "c-8", "v+0"), "fp+16 c-16 f"),
        (AMD64, RowText("rsp-8", "s", "c-8"), "sp-8 u f"),
        (AMD64, RowText("rsp+2147483647", "c-2147483648", "c-8"), "sp+2147483647 c-2147483648 f"),
        (AMD64, RowText("rsp+2147483648", "u", "c-8"), None),  # beyond 32 bits, signed
        (AMD64, RowText("rsp+8", "c-2147483649", "c-8"), None),
        (AMD64, RowText("r10+0", "u", "c-8"), None),
        (AMD64, RowText("exp", "u", "c-8"), None),
        (AMD64, RowText("", "u", "c-8"), None),
        (AMD64, RowText("rsp+8", "u", "c-16"), None),
        (AMD64, RowText("rsp+8", "u", "u"), None),
        (AMD64, RowText("rsp+8", "u", "undefined"), None),
        (AMD64, RowText("rsp+8", "undefined", "c-8"), None),
        (AMD64, RowText("rsp+8", "exp", "c-8"), None),
        (AMD64, RowText("rsp+8", "v-16", "c-8"), None),
        (AMD64, RowText("rsp+8", "r11 (r11)", "c-8"), None),
        (AMD64, RowText("rsp+8", "u", "c-8", "v-8"), None),
        (AMD64, RowText("rsp+8", "u", "c-8", "c-16"), None),
        (AARCH64, RowText("x29+32", "c-32", "c-24[s]"), "fp+32 c-32 c-24[s]"),
        (AARCH64, RowText("sp+0", "u", "u"), "sp+0 u u"),
        (AARCH64, RowText("sp+16", "c-16", "u"), None),  # FP without RA
        (AARCH64, RowText("sp+16", "u", "c-16"), "sp+16 u c-16"),
        (AARCH64, RowText("sp+16", "u", "c-16[pc]"), None),
        (AARCH64, RowText("sp+16", "u", "undefined"), None),
        (S390X, RowText("r15+160", "r16 (f0)", "r4"), "sp+160 r16 r4"),
        (S390X, RowText("r11+320", "c-72", "c-48", "c-40"), "fp+320 c-72 c-48"),
        (S390X, RowText("r15+324", "c-72", "c-48"), None),  # not in units of 8
        (S390X, RowText("r15+320", "c-71", "c-48"), None),  # an odd slot would be a register
        (S390X, RowText("r15+320", "u", "c+0"), None),  # 0 is padding
    ],
)
def test_sayable_rows_and_their_text(architecture: Architecture, row: RowText, text: str | None) -> None:
    said = referee.sayable(row, architecture)
    assert (said and str(said)) == text


# --- comparison -------------------------------------------------------------------------------------------


def test_equal_tables_have_no_difference_and_everything_is_counted() -> None:
    result = referee.compare(frame_of(CFI), parse_sframe_rows(SFRAME))
    assert result.differences == ()
    # The row at 0x1010 is past its function; 4 of 40 bytes have a CFA expression.
    assert (result.functions, result.rows, result.rows_compared) == (3, 8, 7)
    assert (result.bytes_compared, result.bytes_unsayable, result.bytes_ambiguous) == (36, 4, 0)


MUTATIONS = {
    "CFA off by one": (("sp+16 ", "sp+17 "), [(Kind.WRONG, 0x1001, 0x1004)]),
    "CFA from the other register": (("fp+16", "sp+16"), [(Kind.WRONG, 0x1004, 0x100F)]),
    "FP off by one word": (("fp+16     c-16", "fp+16     c-24"), [(Kind.WRONG, 0x1004, 0x100F)]),
    "FP not saved": (("sp+16     c-16", "sp+16     u   "), [(Kind.WRONG, 0x1001, 0x1004)]),
    "row missing": (("    0000000000001004  fp+16     c-16      f            \n", ""), [(Kind.WRONG, 0x1004, 0x100F)]),
    "row a byte late": (("1004  fp", "1005  fp"), [(Kind.WRONG, 0x1004, 0x1005)]),
    "row a byte early": (("1004  fp", "1003  fp"), [(Kind.WRONG, 0x1003, 0x1004)]),
    "first row a byte late": (("1010  sp", "1011  sp"), [(Kind.MISSING, 0x1010, 0x1011)]),
    "FDE a byte short": (("0x1010, size = 8", "0x1010, size = 7"), [(Kind.MISSING, 0x1017, 0x1018)]),
    "FDE a byte long": (("0x1010, size = 8", "0x1010, size = 9"), [(Kind.OUTSIDE, 0x1018, 0x1019)]),
    "FDE over the next": (
        ("0x1000, size = 16", "0x1000, size = 20"),
        [(Kind.OVERLAP, 0x1010, 0x1014)],
    ),
    "unsayable row covered": (("0x1020, size = 4", "0x1020, size = 8"), [(Kind.UNSAYABLE, 0x1024, 0x1028)]),
    "fixed RA offset wrong": (("RA offset: -8", "RA offset: -16"), [(Kind.HEADER, 0, 0)]),
    "fixed RA offset absent": (("    CFA fixed RA offset: -8\n", ""), [(Kind.HEADER, 0, 0)]),
    "RA in a slot": (("sp+8      c-16      f", "sp+8      c-16      c-8"), [(Kind.WRONG, 0x100F, 0x1010)]),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_wrong_sframe_is_reported_where_it_is_wrong(name: str) -> None:
    (old, new), expected = MUTATIONS[name]
    assert SFRAME.count(old) == 1
    assert differences(CFI, SFRAME.replace(old, new)) == expected


def test_missing_fde_is_reported_over_its_whole_function() -> None:
    assert differences(CFI, without_fde(SFRAME, 1)) == [(Kind.MISSING, 0x1010, 0x1018)]


def test_fde_outside_all_functions_is_reported() -> None:
    extra = with_fde(SFRAME, "pc = 0x2000, size = 4 bytes", "    0000000000002000  sp+8      u         f")
    assert differences(CFI, extra) == [(Kind.OUTSIDE, 0x2000, 0x2004)]


def test_unsorted_fdes_under_the_sorted_flag_are_reported() -> None:
    row = "    0000000000001010  sp+8      u         f"
    unsorted = with_fde(without_fde(SFRAME, 1), "pc = 0x1010, size = 8 bytes", row)
    assert differences(CFI, unsorted) == [(Kind.HEADER, 0, 0)]
    assert differences(CFI, unsorted.replace("SFRAME_F_FDE_SORTED,", "")) == []


def test_neighbours_in_one_fde_are_no_difference() -> None:
    row = "    0000000000001010  sp+8      u         f            \n"
    merged = without_fde(SFRAME, 1).replace("0x1000, size = 16", "0x1000, size = 24")
    merged = merged.replace("c-16      f            \n\n", f"c-16      f            \n{row}\n")
    assert differences(CFI, merged) == []


def test_an_excepted_range_excuses_covering_what_cannot_be_said_but_no_wrong_row() -> None:
    covered = SFRAME.replace("0x1020, size = 4", "0x1020, size = 8")
    assert differences(CFI, covered, excepted=[(0x1020, 0x1028)]) == []
    assert differences(CFI, SFRAME, excepted=[(0x1020, 0x1028)]) == []
    wrong = SFRAME.replace("1020  sp+8 ", "1020  sp+9 ")
    assert differences(CFI, wrong, excepted=[(0x1020, 0x1028)]) == [(Kind.WRONG, 0x1020, 0x1024)]


def test_overlapping_functions_are_judged_only_where_they_agree() -> None:
    # A second FDE over 0x1000..0x1004, with the CIE's row: the same at 0x1000, another from 0x1001 on.
    second = "00000090 0000000000000014 00000094 FDE cie=00000000 pc=0000000000001000..0000000000001004\n"
    cfi = CFI.replace("00000080 ZERO terminator\n", second)
    wrong = SFRAME.replace("1000  sp+8 ", "1000  sp+9 ").replace("sp+16 ", "sp+17 ")
    assert differences(cfi, wrong) == [(Kind.WRONG, 0x1000, 0x1001)]
    assert referee.compare(frame_of(cfi), parse_sframe_rows(SFRAME)).bytes_ambiguous == 3


PLT = """
00000000 0000000000000014 00000000 CIE "zR" cf=1 df=-8 ra=16
   LOC           CFA      ra    
0000000000000000 rsp+8    c-8   

00000018 0000000000000014 0000001c FDE cie=00000000 pc=0000000000002000..0000000000002020
   LOC           CFA      ra    
0000000000002000 rsp+8    c-8   
000000000000200b rsp+16   c-8   
0000000000002010 rsp+8    c-8   
000000000000201b rsp+16   c-8   
"""  # noqa: W291
# A V2 section of one FDE, all zero but the magic number, the version and the repetition block.
PLT_SECTION = bytes.fromhex("e2de 02") + bytes(25 + 17) + b"\x10" + bytes(2)


def masked_plt(place: str, second_cfa: str) -> SframeRows:
    """One PCMASK function with rows at 0 and 11, in blocks of 16 bytes."""
    rows = ("    0000000000000000  sp+8      u         f", f"    000000000000000b  {second_cfa}     u         f")
    no_fdes = SFRAME[: SFRAME.index("    func idx")].replace("FDEs: 4", "FDEs: 0")
    return parse_sframe_rows(with_fde(no_fdes, place, *rows, mark="[m]"), PLT_SECTION)


@pytest.mark.parametrize(
    ("place", "second_cfa", "expected"),
    [
        ("pc = 0x2000, size = 32 bytes", "sp+16", []),
        ("pc = 0x2000, size = 32 bytes", "sp+24", [(Kind.WRONG, 0x200B, 0x2010), (Kind.WRONG, 0x201B, 0x2020)]),
        ("pc = 0x2000, size = 30 bytes", "sp+16", [(Kind.MISSING, 0x201E, 0x2020)]),
        # Readers that take PC % 16 see other rows than those that take (PC - start) % 16.
        ("pc = 0x2008, size = 3 bytes", "sp+8 ", [(Kind.AMBIGUOUS_MASK, 0x2008, 0x200B)]),
    ],
)
def test_pcmask_function_is_compared_in_every_block(
    place: str, second_cfa: str, expected: list[tuple[Kind, int, int]]
) -> None:
    sframe = masked_plt(place, second_cfa)
    assert sframe.repetition_block.tolist() == [16]
    found = [(d.kind, d.start, d.end) for d in referee.compare(frame_of(PLT), sframe).differences]
    assert [d for d in found if d[0] is not Kind.MISSING or d in expected] == expected


def test_pcmask_function_without_a_repetition_block_is_an_error() -> None:
    dump = SFRAME.replace("STARTPC   ", "STARTPC[m]")
    with pytest.raises(OracleError, match="repetition block of 0"):
        parse_sframe_rows(dump, bytes(200))


# --- the key that signs return addresses --------------------------------------------------------------------

# As printed by readelf 2.47 for `.cfi_b_key_frame` on AArch64: two functions of key A, and one of key B between them.
KEYS_CFI = """
00000000 0000000000000010 00000000 CIE "zR" cf=4 df=-8 ra=30
   LOC           CFA      
0000000000000000 sp+0     

00000014 0000000000000010 00000018 FDE cie=00000000 pc=0000000000001000..0000000000001010

00000028 0000000000000014 00000000 CIE "zRB" cf=4 df=-8 ra=30
   LOC           CFA      
0000000000000000 sp+0     

00000040 0000000000000014 0000001c FDE cie=00000028 pc=0000000000001010..0000000000001018
   LOC           CFA      x29   ra    
0000000000001010 sp+0     u     u     
0000000000001014 sp+16    c-16  c-8   

00000058 0000000000000010 0000005c FDE cie=00000000 pc=0000000000001018..000000000000101c
"""  # noqa: W291
KEYS_SFRAME = """Contents of the SFrame section .sframe:
  Header :

    Version: SFRAME_VERSION_2
    Flags: SFRAME_F_FDE_SORTED,
           SFRAME_F_FDE_FUNC_START_PCREL
    Num FDEs: 3
    Num FREs: 4

  Function Index :

    func idx [0]: pc = 0x1000, size = 16 bytes
    STARTPC         CFA       FP        RA           
    0000000000001000  sp+0      u         u            

    func idx [1]: pc = 0x1010, size = 8 bytes, pauth = B key
    STARTPC         CFA       FP        RA           
    0000000000001010  sp+0      u         u            
    0000000000001014  sp+16     c-16      c-8          

    func idx [2]: pc = 0x1018, size = 4 bytes
    STARTPC         CFA       FP        RA           
    0000000000001018  sp+0      u         u            
"""  # noqa: W291


def key_differences(cfi: str, sframe: str) -> list[tuple[Kind, int, int, str, str]]:
    found = referee.compare(frame_of(cfi, AARCH64), parse_sframe_rows(sframe)).differences
    return [(d.kind, d.start, d.end, d.expected, d.found) for d in found]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", []),
        # Nearly all functions sign nothing; each has a key all the same.
        ("8 bytes, pauth = B key", "8 bytes", [(Kind.KEY, 0x1010, 0x1018, "key B", "key A")]),
        ("16 bytes", "16 bytes, pauth = B key", [(Kind.KEY, 0x1000, 0x1010, "key A", "key B")]),
        ("4 bytes", "4 bytes, pauth = B key", [(Kind.KEY, 0x1018, 0x101C, "key A", "key B")]),
        ("8 bytes, pauth", '8 bytes, attr = "S", pauth', []),
    ],
)
def test_another_key_is_reported_over_the_whole_function(
    old: str, new: str, expected: list[tuple[Kind, int, int, str, str]]
) -> None:
    assert key_differences(KEYS_CFI, KEYS_SFRAME.replace(old, new)) == expected


def test_neighbours_of_both_keys_in_one_fde_are_reported_where_the_key_is_wrong() -> None:
    merged = without_fde(KEYS_SFRAME, 2).replace("size = 8 bytes", "size = 12 bytes")
    merged = merged.rstrip("\n") + "\n    0000000000001018  sp+0      u         u            \n"
    assert key_differences(KEYS_CFI, merged) == [(Kind.KEY, 0x1018, 0x101C, "key A", "key B")]


def test_the_key_is_not_judged_where_functions_of_both_overlap_or_nothing_can_be_said() -> None:
    wrong = KEYS_SFRAME.replace(", pauth = B key", "")
    # The B function's first row is another's, with the same rules.
    overlapping = KEYS_CFI.replace("0000000000001000..0000000000001010", "0000000000001000..0000000000001014")
    assert key_differences(overlapping, wrong) == [(Kind.KEY, 0x1014, 0x1018, "key B", "key A")]
    unsayable = KEYS_CFI.replace("sp+16    c-16  c-8", "x9+16    c-16  c-8")
    assert [found[:3] for found in key_differences(unsayable, wrong)] == [
        (Kind.UNSAYABLE, 0x1014, 0x1018),
        (Kind.KEY, 0x1010, 0x1014),
    ]


def test_the_key_of_a_pcmask_function_is_compared_in_every_block() -> None:
    cfi = PLT.replace('"zR"', '"zRB"')
    assert {
        (d.kind, d.start, d.end)
        for d in referee.compare(frame_of(cfi), masked_plt("pc = 0x2000, size = 32 bytes", "sp+16")).differences
    } == {(Kind.KEY, 0x2000, 0x2020)}
    with_key = masked_plt("pc = 0x2000, size = 32 bytes, pauth = B key", "sp+16")
    assert referee.compare(frame_of(cfi), with_key).differences == ()
    assert [d.kind for d in referee.compare(frame_of(PLT), with_key).differences] == [Kind.KEY]
