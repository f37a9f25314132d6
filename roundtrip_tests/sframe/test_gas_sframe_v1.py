"""SFrame V1 as written by GNU as and ld 2.40, its only writers: read as by readelf 2.40, and in agreement with the CFI.

Strategy: gas 2.44's own tests, and C compiled to assembler by the system's compiler, each assembled by gas 2.40 with
`.eh_frame` and `.sframe`. Our table is compared with readelf's rows of the `.eh_frame`, our dump with readelf 2.40's of
the `.sframe`; `as_printed_by_2_40` lists the differences to 2.47, whose format our dump follows.
"""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from unwindkit import ParseError, by_pc, find_fres, find_rows, from_sframe, to_sframe
from unwindkit.converters.sframe.dump import sframe_text
from unwindkit.schemas import engine, sframe
from unwindkit.schemas.section import Section

from ..support.judges import referee
from ..support.oracles import OracleError, run_oracle
from ..support.programs import compiled
from ..support.programs.compiled_sources import C_SOURCE
from ..support.programs.plt_programs import plt_sections
from ..support.texts.gas_lists import IN_2_44, cases_of, for_each
from ..support.texts.gas_tests import TEXT, GasTests, built, said_of_table, section_of, unpacked, with_eh_frame
from ..support.texts.readelf_text import frame_rows

pytestmark = pytest.mark.oracle("trixie", "bookworm")

# The one directive in the tests that gas 2.40 does not know.
NOT_ASSEMBLED = {("cfi-sframe-aarch64-4", 183): "unknown pseudo-op: `.cfi_negate_ra_state_with_pc'"}
EVERY_TEST = for_each([case for case in cases_of(IN_2_44) if case not in NOT_ASSEMBLED])
# gas converts nothing in these, and ld leaves an empty section: no code, no CFA, another return column.
EMPTY = ("common-empty-1", "common-empty-2", "common-empty-3")


@pytest.fixture(scope="session", name="tests")
def _tests(tmp_path_factory: pytest.TempPathFactory) -> GasTests:
    """2.40 has no such tests: these are those of 2.44."""
    return GasTests(unpacked(tmp_path_factory.getbasetemp(), "trixie", "2.44"), "bookworm", version=1)


@functools.cache
def linked(tests: GasTests, name: str, machine: int) -> Path:
    """One of gas's tests, with `.eh_frame` and `.sframe`."""
    return built(tests, with_eh_frame(tests, name), machine, "--gsframe")[1]


def said_of_cfi(path: Path) -> dict[int, str | None]:
    """The row of the `.eh_frame` that readelf shows at each PC, in SFrame's notation; None where SFrame cannot express
    it."""
    frame = frame_rows(path)
    pieces = referee._pieces(frame.start, frame.end, frame.first_row, frame.pc, frame.text)
    said: dict[int, str | None] = {}
    for start, end, number, function in zip(
        (pieces.start - TEXT).astype(np.int64).tolist(),
        (pieces.end - TEXT).astype(np.int64).tolist(),
        pieces.number.tolist(),
        pieces.function.tolist(),
        strict=True,
    ):
        text = referee.sayable(frame.texts[number], frame.architecture)
        key = " B" * bool(frame.has_b_key[function])
        said.update(dict.fromkeys(range(start, end), text and f"{text}{key}"))
    return said


def as_printed_by_2_40(dump: str) -> str:
    """Our dump, which is readelf 2.47's format, as readelf 2.40 prints it."""
    # 2.40 prints no fixed offsets of the header.
    dump = re.sub(r"^    CFA fixed (FP|RA) offset: -?\d+\n", "", dump, flags=re.MULTILINE)
    # 2.40 prints `u` for an RA that no FRE tracks, 2.47 `f`.
    return re.sub(r"^(    [0-9a-f]{16}  .{20})f(?= {12}$)", r"\1u", dump, flags=re.MULTILINE)


def printed_by_us(data: bytes, address: int) -> str:
    return b"".join(sframe_text(Section.of(".sframe", data, address))).decode()


def assert_read_as_by_readelf(path: Path) -> None:
    """Law 2, our dump, and a check that readelf 2.47 is of no use here: it refuses version 1."""
    data, address = section_of(path)
    record, end = engine.parse(sframe.SframeSection, Section.of(".sframe", data, address), 0, len(data))
    assert (engine.build(record), end) == (data, len(data))
    assert (record.header.version, record.header.flags) == (sframe.SFRAME_VERSION.V1, sframe.SFRAME_F.FDE_SORTED)
    dump = run_oracle("readelf", "-wN", "--sframe=.sframe", path, suite="bookworm")
    assert as_printed_by_2_40(printed_by_us(data, address)) == dump
    with pytest.raises(OracleError, match="SFrame decode failure: Buffer does not contain SFrame data"):
        run_oracle("readelf", "-wN", "--sframe", path)


# --- gas's tests ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "machine"), NOT_ASSEMBLED)
def test_gas_2_40_does_not_assemble(name: str, machine: int, tests: GasTests) -> None:
    with pytest.raises(OracleError, match=re.escape(NOT_ASSEMBLED[name, machine])):
        linked(tests, name, machine)


@EVERY_TEST
def test_v1_of_gas_is_read_as_readelf_2_40_reads_it(name: str, machine: int, tests: GasTests) -> None:
    path = linked(tests, name, machine)
    if name in EMPTY:
        data, address = section_of(path)
        assert data == b""
        with pytest.raises(ParseError, match="0 bytes do not hold a preamble"):
            from_sframe(data, address)
        return
    assert_read_as_by_readelf(path)


@EVERY_TEST
def test_v1_of_gas_says_what_the_call_frame_information_says(name: str, machine: int, tests: GasTests) -> None:
    path = linked(tests, name, machine)
    code, expected = IN_2_44[machine][name], said_of_cfi(path)
    assert len(expected) == code.sayable + code.unsayable
    data, address = section_of(path)
    if name in EMPTY:
        assert set(expected.values()) <= {None}
    else:
        assert said_of_table(from_sframe(data, address), machine) == expected


@EVERY_TEST
def test_v1_of_gas_goes_through_version_3_to_version_2(name: str, machine: int, tests: GasTests) -> None:
    data, address = section_of(linked(tests, name, machine))
    for version in (3, 2) if data else ():
        old = from_sframe(data, address)
        data, refused = to_sframe(old, version, section_address=address)
        assert len(refused) == 0
        assert by_pc(from_sframe(data, address)) == by_pc(old)


# --- C --------------------------------------------------------------------------------------------------------

C_FLAGS = pytest.mark.parametrize("flag", ["-O0", "-O2", "-Os"])
# The one function of C_SOURCE with rows that V1 cannot express (DRAP: the CFA is *(rbp - n)): gas drops all of it.
DROPPED = "aligned_variable"


@functools.cache
def linked_c(tests: GasTests, flag: str) -> Path:
    """The C of `compiled` as a library with calls through a lazy PLT."""
    compiled.require_x86_64()
    source = tests.folder / f"frames{flag}.s"
    (tests.folder / "frames.c").write_text(C_SOURCE)
    command = ["gcc", flag, "-fPIC", "-fcf-protection=none", "-S", tests.folder / "frames.c", "-o", source]
    subprocess.run(command, check=True)
    return built(tests, source, 62, "--gsframe")[1]


def function_of(path: Path, name: str) -> range:
    """The range of a function by readelf's symbol table, relative to the start of the code."""
    symbols = run_oracle("readelf", "-sW", path)
    (match,) = re.findall(rf"^ +\d+: ([0-9a-f]+) +(\d+) FUNC .* {name}$", symbols, re.MULTILINE)[:1]
    return range(int(match[0], 16) - TEXT, int(match[0], 16) - TEXT + int(match[1]))


@C_FLAGS
def test_v1_of_compiled_c_is_read_as_readelf_2_40_reads_it(flag: str, tests: GasTests) -> None:
    assert_read_as_by_readelf(linked_c(tests, flag))


@C_FLAGS
def test_v1_of_compiled_c_says_what_the_call_frame_information_says(flag: str, tests: GasTests) -> None:
    path = linked_c(tests, flag)
    data, address = section_of(path)
    table, expected = from_sframe(data, address), said_of_cfi(path)
    plt = range(plt_sections(path)[".plt"].start - TEXT, plt_sections(path)[".plt"].stop - TEXT)
    dropped = function_of(path, DROPPED)
    assert None in {expected[pc] for pc in dropped}
    for pc in dropped:
        del expected[pc]
    for pc in plt[16:]:
        # readelf prints `exp`: rsp + 8 + ((pc & 15) >= 11) * 8
        assert expected[pc] is None
        expected[pc] = f"sp+{16 if pc % 16 >= 11 else 8} u f"
    assert said_of_table(table, 62) == expected
    assert len(expected) > 2000

    # Look-ups find the same rows as the table, at each PC.
    pcs = np.arange(plt.start, max(expected) + 2, dtype=np.int64).astype(np.uint64) + np.uint64(TEXT)
    by_bytes, by_table = find_fres(data, pcs, address), find_rows(table, pcs)
    assert by_bytes.fde.tolist() == by_table.function.tolist()
    assert (by_bytes.fde >= 0).sum() == len(expected)
    found = by_bytes.found
    assert found.tolist() == (by_table.row >= 0).tolist()
    assert by_bytes.fres.start[found].tolist() == table.rows.offset[by_table.row[found]].tolist()


# --- PLT ------------------------------------------------------------------------------------------------------


def test_v1_of_ld_with_fdes_that_overlap_is_read(tests: GasTests) -> None:
    """ld 2.40 describes `.plt.sec` as if it began with a first entry: its last FDE overlaps the code after it."""
    source = tests.folder / "lazy-calls.s"
    source.write_text(".globl f\nf: .cfi_startproc\n call a@plt\n call b@plt\n ret\n .cfi_endproc\n")
    objects = [source.with_suffix(".o"), source.with_suffix(".so")]
    run_oracle("as", "--gsframe", source, "-o", objects[0], suite="bookworm")
    run_oracle("ld", "-shared", "-z", "ibtplt", objects[0], "-o", objects[1], suite="bookworm")
    assert_read_as_by_readelf(objects[1])
    data, address = section_of(objects[1])
    functions = from_sframe(data, address).functions
    ends = functions.start + functions.size
    assert (ends[:-1] > functions.start[1:]).tolist() == [False, False, False, True]
    assert functions.repetition.tolist() == [0, 16, 0, 16, 0]
    # An unwinder finds the last FDE that starts before the PC, the table assigns the PC to the function that starts
    # first.
    pc = functions.start[4]
    assert find_fres(data, pc, address).fde.tolist() == [4]
    assert find_rows(from_sframe(data, address), pc).function.tolist() == [3]
