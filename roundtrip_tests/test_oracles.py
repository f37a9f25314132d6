"""The referee has teeth: every kind of wrong SFrame is a difference, on texts made by hand and on gas's own output."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from . import compiled, oracles, referee
from .oracles import ARCHITECTURES, RowText, SframeText
from .referee import Kind

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
# As printed by readelf 2.47 --sframe; the last function is split around the row that cannot be said.
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


@pytest.fixture(autouse=True)
def _oracles(request: pytest.FixtureRequest) -> None:
    oracles.pytest_runtest_setup(request.node)


@pytest.fixture(scope="session")
def build_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compiled")


def frame_of(rows: str, architecture: oracles.Architecture = AMD64, **programs: str) -> oracles.FrameRows:
    """`programs`: the -wNf text of entries, by `_` and their offset; the others just advance from row to row."""
    instructions = []
    for entry in rows.strip("\n").split("\n\n"):
        title, *lines = entry.split("\n")
        advances = "\n".join(["  DW_CFA_advance_loc: 1 to"] * (len(lines) - 2))
        instructions.append(f"{title}\n{programs.get('_' + title[:8], advances)}")
    return oracles.parse_frame_rows(rows, "\n\n".join(instructions), architecture)


def rows_of(columns: oracles.FrameRows | oracles.SframeRows, function: int) -> list[tuple[int, str]]:
    rows = slice(columns.first_row[function], columns.first_row[function + 1])
    return [(int(pc), str(columns.texts[text])) for pc, text in zip(columns.pc[rows], columns.text[rows], strict=True)]


def differences(cfi: str, sframe: str, **options: list[tuple[int, int]]) -> list[tuple[Kind, int, int]]:
    found = referee.compare(frame_of(cfi), oracles.parse_sframe_rows(sframe), **options).differences
    return [(difference.kind, difference.start, difference.end) for difference in found]


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
    assert texts == ["rsp+8 undefined c-8", "exp u c-8", "rsp+2147483640 s undefined"]


def test_undefined_ends_with_another_rule_and_comes_back_when_the_cie_says_so() -> None:
    cie = "  DW_CFA_def_cfa: r7 (rsp) ofs 8\n  DW_CFA_undefined: r16 (rip)"
    # Without a remembered state, readelf goes on with the state that it has.
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


# --- parsing SFrame ---------------------------------------------------------------------------------------


def test_sframe_header_and_rows_are_read() -> None:
    sframe = oracles.parse_sframe_rows(SFRAME)
    assert sframe.header == oracles.SframeHeader(2, ("FDE_SORTED", "FDE_FUNC_START_PCREL"), 0, -8, 4, 7)
    assert (sframe.start.tolist(), sframe.end.tolist()) == (
        [0x1000, 0x1010, 0x1020, 0x1028],
        [0x1010, 0x1018, 0x1024, 0x1030],
    )
    assert rows_of(sframe, 0)[2] == (0x1004, "fp+16 c-16 f")


def test_sframe_columns_that_run_together_are_told_apart() -> None:
    assert rows_of(oracles.parse_sframe_rows(SFRAME), 3) == [(0x1028, "sp+2147483640 u f")]


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ("  fp+32     c-32      c-24[s]      ", ("fp+32", "c-32", "c-24[s]")),  # aarch64, signed
        ("  sp+160    r16       U            ", ("sp+160", "r16", "u")),  # s390x: FP in f0, RA word is padding
        ("  sp+-16    u         f            ", ("sp+-16", "u", "f")),
        ("  (fp-8)    (fp+0)    U            ", ("(fp-8)", "(fp+0)", "u")),  # V3, flexible
        ("  RA undefined", ("", "", "undefined")),  # V3, outermost
    ],
)
def test_sframe_row_forms_are_read(row: str, text: tuple[str, str, str]) -> None:
    sframe = oracles.parse_sframe_rows(SFRAME.replace("  sp+2147483640u         f            ", row))
    assert sframe.texts[sframe.text[-1]] == SframeText(*text)


def test_sframe_attributes_and_the_sign_of_the_size_are_read() -> None:
    # readelf prints the u32 size as a signed number.
    dump = with_fde(SFRAME, 'pc = 0x2000, size = -16 bytes, attr = "SF", pauth = B key')
    sframe = oracles.parse_sframe_rows(dump)
    assert (sframe.attributes[4], int(sframe.end[4])) == ("SFB", 0x2000 + 0xFFFFFFF0)


def test_dump_that_ends_early_is_an_error() -> None:
    with pytest.raises(oracles.OracleError, match="shows 3 FDEs of 4"):
        oracles.parse_sframe_rows(SFRAME[: SFRAME.index("    func idx [3]")])


def test_two_sframe_sections_are_an_error() -> None:
    with pytest.raises(oracles.OracleError, match="not one section"):
        oracles.parse_sframe_rows(SFRAME * 2)


# --- what can be said -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("architecture", "row", "text"),
    [
        (AMD64, RowText("rsp+8", "u", "c-8"), "sp+8 u f"),
        (AMD64, RowText("rbp+16", "c-16", "c-8", "v+0"), "fp+16 c-16 f"),
        (AMD64, RowText("rsp-8", "s", "c-8"), "sp+-8 u f"),
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
def test_sayable_rows_and_their_text(architecture: oracles.Architecture, row: RowText, text: str | None) -> None:
    said = referee.sayable(row, architecture)
    assert (said and str(said)) == text


# --- comparison -------------------------------------------------------------------------------------------


def test_equal_tables_have_no_difference_and_everything_is_counted() -> None:
    result = referee.compare(frame_of(CFI), oracles.parse_sframe_rows(SFRAME))
    assert result.differences == ()
    # The row at 0x1010 lies past its function; 4 of 40 bytes have a CFA expression.
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
    assert referee.compare(frame_of(cfi), oracles.parse_sframe_rows(SFRAME)).bytes_ambiguous == 3


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


def masked_plt(place: str, second_cfa: str) -> oracles.SframeRows:
    """One PCMASK function with rows at 0 and 11, in blocks of 16 bytes."""
    rows = ("    0000000000000000  sp+8      u         f", f"    000000000000000b  {second_cfa}     u         f")
    no_fdes = SFRAME[: SFRAME.index("    func idx")].replace("FDEs: 4", "FDEs: 0")
    return oracles.parse_sframe_rows(with_fde(no_fdes, f"{place} bytes", *rows, mark="[m]"), PLT_SECTION)


@pytest.mark.parametrize(
    ("place", "second_cfa", "expected"),
    [
        ("pc = 0x2000, size = 32", "sp+16", []),
        ("pc = 0x2000, size = 32", "sp+24", [(Kind.WRONG, 0x200B, 0x2010), (Kind.WRONG, 0x201B, 0x2020)]),
        ("pc = 0x2000, size = 30", "sp+16", [(Kind.MISSING, 0x201E, 0x2020)]),
        # Readers that take PC % 16 see other rows than those that take (PC - start) % 16.
        ("pc = 0x2008, size = 3", "sp+8 ", [(Kind.AMBIGUOUS_MASK, 0x2008, 0x200B)]),
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
    with pytest.raises(oracles.OracleError, match="repetition block of 0"):
        oracles.parse_sframe_rows(dump, bytes(200))


# --- the mark ---------------------------------------------------------------------------------------------


def test_absent_oracles_skip_a_test_or_fail_it_where_they_are_required(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    request.node.add_marker("oracle")
    monkeypatch.setenv("UNWINDKIT_ORACLES", str(tmp_path))
    monkeypatch.delenv("UNWINDKIT_REQUIRE_ORACLES", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"no usr/bin/readelf in .*forky"):
        oracles.pytest_runtest_setup(request.node)
    monkeypatch.setenv("UNWINDKIT_REQUIRE_ORACLES", "1")
    with pytest.raises(pytest.fail.Exception, match=r"no usr/bin/readelf in .*forky"):
        oracles.pytest_runtest_setup(request.node)


@pytest.mark.oracle
def test_a_test_can_need_suites_beside_forky(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "forky").symlink_to(oracles.oracle_root())
    monkeypatch.setenv("UNWINDKIT_ORACLES", str(tmp_path))
    monkeypatch.setenv("UNWINDKIT_REQUIRE_ORACLES", "1")
    oracles.pytest_runtest_setup(request.node)
    for suite in ("trixie", "sid-s390x"):
        assert f"in {tmp_path / suite}" in str(oracles.absent_suite(suite))
    # Of several marks, on the module and on the test, each counts.
    request.node.add_marker(pytest.mark.oracle("sid-arm64"), append=False)
    with pytest.raises(pytest.fail.Exception, match=r"no usr/lib/.*libc\.so\.6 in .*sid-arm64"):
        oracles.pytest_runtest_setup(request.node)


@pytest.mark.oracle("trixie")
def test_binutils_of_another_version_is_not_the_oracle(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "forky").symlink_to(oracles.oracle_root("trixie"))
    monkeypatch.setenv("UNWINDKIT_ORACLES", str(tmp_path))
    assert str(oracles.absent_suite()).endswith("2.44', not 2.47")


# --- readelf, gas and ld ----------------------------------------------------------------------------------

LINKED = """
 .globl plain, two_words, other_register
plain: .cfi_startproc
 push %rbp
 .cfi_def_cfa_offset 16
 .cfi_offset rbp, -16
 mov %rsp, %rbp
 .cfi_def_cfa_register rbp
 nop
 leave
 .cfi_def_cfa rsp, 8
 .cfi_restore rbp
 ret
 .cfi_endproc
two_words: .cfi_startproc
 sub $40000, %rsp
 .cfi_def_cfa_offset 40008
 call plain
 add $40000, %rsp
 .cfi_def_cfa_offset 8
 ret
 .cfi_endproc
other_register: .cfi_startproc
 mov %rsp, %r10
 .cfi_def_cfa r10, 8
 nop
 .cfi_def_cfa rsp, 8
 ret
 .cfi_endproc
"""


def linked_by_binutils(folder: Path) -> Path:
    """A library with .eh_frame and .sframe (V3), both made by gas and ld; it has a lazy PLT for the call."""
    (folder / "frames.s").write_text(LINKED)
    oracles.run_oracle("as", "--gsframe", folder / "frames.s", "-o", folder / "frames.o")
    oracles.run_oracle("ld", "-shared", folder / "frames.o", "-o", folder / "frames.so")
    return folder / "frames.so"


def place_of(path: Path, section: str) -> tuple[int, int, bytes]:
    """Address, file offset and content."""
    with path.open("rb") as file:
        found = ELFFile(file).get_section_by_name(section)
        return found["sh_addr"], found["sh_offset"], found.data()


@pytest.mark.oracle
def test_binutils_own_sframe_is_right_but_for_what_v3_alone_can_say(tmp_path: Path) -> None:
    path = linked_by_binutils(tmp_path)
    frame, sframe = oracles.frame_rows(path), oracles.sframe_rows(path)
    plt, _, code = place_of(path, ".plt")
    assert (sframe.header.version, sframe.repetition_block.tolist()) == (3, [0, 16, 0, 0, 0])
    # `mov %rsp, %r10` is 3 bytes; the CFA is in r10 for the one byte behind it. All of .plt but its first entry is
    # one row with a CFA expression.
    in_r10 = int(sframe.start[4]) + 3
    lazy = [(plt + 16, plt + 27), (plt + 27, plt + 32)]
    expected = [*lazy, (in_r10, in_r10 + 1)]
    result = referee.compare(frame, sframe)
    assert [(d.kind, d.start, d.end) for d in result.differences] == [(Kind.UNSAYABLE, *at) for at in expected]
    assert (result.functions, result.bytes_unsayable, result.bytes_ambiguous) == (4, 16 + 1, 0)
    result = referee.compare(frame, sframe, excepted=[(plt, plt + len(code))])
    assert [(d.kind, d.start, d.found) for d in result.differences] == [(Kind.UNSAYABLE, in_r10, "r10+8 u f")]
    assert (result.bytes_excepted, result.rows - result.rows_compared) == (16, 2)


@pytest.mark.oracle
def test_every_wrong_byte_in_the_rows_of_a_function_is_found(tmp_path: Path) -> None:
    path = linked_by_binutils(tmp_path)
    frame, image, known = oracles.frame_rows(path), path.read_bytes(), oracles.sframe_rows(path)
    _, place, data = place_of(path, ".sframe")
    # Start, info, offsets, four times; behind the header, what precedes the FREs, and 5 bytes of attributes.
    rows = 28 + int.from_bytes(data[24:28], "little") + 5
    assert data[rows : rows + 14] == bytes.fromhex("000308 010510f0 040410f0 060308")
    for offset in range(place + rows, place + rows + 14):
        path.write_bytes(image[:offset] + bytes([image[offset] ^ 8]) + image[offset + 1 :])
        try:
            changed = oracles.sframe_rows(path)
        except oracles.OracleError:
            continue
        assert referee.compare(frame, changed).differences != referee.compare(frame, known).differences, hex(offset)


@pytest.mark.oracle
def test_debug_frame_is_read_apart_from_eh_frame(tmp_path: Path) -> None:
    source, path = tmp_path / "frames.s", tmp_path / "frames.o"
    source.write_text(".cfi_sections .debug_frame\n" + LINKED)
    oracles.run_oracle("as", source, "-o", path)
    assert [len(oracles.frame_rows(path, section).start) for section in (".eh_frame", ".debug_frame")] == [0, 3]


@pytest.mark.oracle
def test_a_program_that_fails_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(oracles.OracleError, match="readelf ended with 1"):
        oracles.run_oracle("readelf", "-wNF", tmp_path / "absent")


# --- compiled programs ------------------------------------------------------------------------------------

compiles = pytest.mark.skipif(compiled.absence() is not None, reason=str(compiled.absence()))
flag_sets = pytest.mark.parametrize("flags", compiled.FLAG_SETS, ids=lambda flags: flags.name)


@compiles
@flag_sets
def test_compiled_program_prints_the_same_under_every_flag_set(flags: compiled.FlagSet, build_folder: Path) -> None:
    program = compiled.build(build_folder, flags)
    if not flags.shared:
        done = subprocess.run([program], capture_output=True, text=True, check=True)
        assert done.stdout == compiled.EXPECTED_OUTPUT


@compiles
@pytest.mark.oracle
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the hand-written CFI is for x86-64")
@flag_sets
def test_compiled_program_has_rows_of_every_kind(flags: compiled.FlagSet, build_folder: Path) -> None:
    frame = oracles.frame_rows(compiled.build(build_folder, flags))
    assert {255, 256, 65535, 65536} <= set((frame.end - frame.start).tolist())
    unsayable = {str(text) for text in frame.texts if referee.sayable(text, frame.architecture) is None}
    by_hand = {"exp u c-8", "rsp+8 r11 (r11) c-8", "r10+8 u c-8", "rsp+8 u undefined", "rsp+8 undefined c-8"}
    assert unsayable >= by_hand | {"rsp+8 v-24 c-8", "rsp+8 exp c-8", "rsp+8 vexp c-8", "rsp+8 u c-24", "no CFA u u"}
    bases = {text.cfa.partition("+")[0] for text in frame.texts}
    assert bases >= {"rsp", "rbp", "r10"}
