"""The oracles are present or a test reports it; and the referee finds faults in what gas, ld and the compiler write."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from ..support import oracles
from ..support.judges import referee
from ..support.judges.referee import Kind
from ..support.programs import compiled
from ..support.programs.compiled_sources import EXPECTED_OUTPUT
from ..support.texts.readelf_text import frame_rows, sframe_rows

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _oracles(request: pytest.FixtureRequest) -> None:
    oracles.pytest_runtest_setup(request.node)


@pytest.fixture(scope="session")
def build_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compiled")


# --- the mark ---------------------------------------------------------------------------------------------


def test_absent_oracles_skip_a_test_or_fail_it_where_they_are_required(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    request.node.add_marker("oracle")
    monkeypatch.setenv("UNWINDKIT_ORACLES", str(tmp_path))
    monkeypatch.delenv("UNWINDKIT_REQUIRE_ORACLES", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"no usr/bin/readelf in .*forky \(.ci/oracles fetches"):
        oracles.pytest_runtest_setup(request.node)
    monkeypatch.setenv("UNWINDKIT_REQUIRE_ORACLES", "1")
    with pytest.raises(pytest.fail.Exception, match=r"no usr/bin/readelf in .*forky"):
        oracles.pytest_runtest_setup(request.node)


NO_FILES = """
import pytest

@pytest.mark.parametrize("path", [])
def test_files(path):
    pass
"""


@pytest.mark.parametrize(("required", "outcome"), [("0", "1 skipped"), ("1", "1 error")])
def test_parameters_of_files_that_are_not_here_fail_where_oracles_are_required(
    required: str, outcome: str, tmp_path: Path
) -> None:
    """pytest itself skips a test whose parameters are an empty list."""
    (tmp_path / "test_files.py").write_text(NO_FILES)
    (tmp_path / "conftest.py").write_text("from roundtrip_tests.support.oracles import pytest_runtest_setup\n")
    options = ("-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", tmp_path)
    command = [sys.executable, "-m", "pytest", *options, tmp_path]
    environment = os.environ | {"UNWINDKIT_REQUIRE_ORACLES": required, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert f"{outcome} in" in done.stdout
    assert ("oracles are required: no file for test_files" in done.stdout) == (required == "1")


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
    for suite, found in (("forky", "forky"), ("bookworm", "trixie")):
        (tmp_path / suite).symlink_to(oracles.oracle_root(found))
    monkeypatch.setenv("UNWINDKIT_ORACLES", str(tmp_path))
    assert oracles.absent_suite() is None
    assert str(oracles.absent_suite("bookworm")).endswith("2.44', not 2.40")


def test_every_suite_is_one_that_the_script_fetches() -> None:
    script = Path(__file__).parents[2] / ".ci/oracles"
    done = subprocess.run([script, "--list"], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == oracles.SUITES.keys()


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
def test_binutils_own_sframe_is_right_but_for_the_lazy_plt(tmp_path: Path) -> None:
    path = linked_by_binutils(tmp_path)
    frame, sframe = frame_rows(path), sframe_rows(path)
    plt, _, code = place_of(path, ".plt")
    assert (sframe.header.version, sframe.repetition_block.tolist()) == (3, [0, 16, 0, 0, 0])
    # All of .plt but its first entry is one row with a CFA expression.
    expected = [(plt + 16, plt + 27), (plt + 27, plt + 32)]
    result = referee.compare(frame, sframe)
    assert [(d.kind, d.start, d.end) for d in result.differences] == [(Kind.UNSAYABLE, *at) for at in expected]
    assert (result.functions, result.bytes_unsayable, result.bytes_ambiguous) == (4, 16, 0)
    result = referee.compare(frame, sframe, excepted=[(plt, plt + len(code))])
    assert result.differences == ()
    assert (result.bytes_excepted, result.rows - result.rows_compared) == (16, 1)
    # `mov %rsp, %r10` is 3 bytes; the CFA is in r10 for the one byte after it. Version 2 cannot encode that.
    in_r10 = int(sframe.start[4]) + 3
    in_v2 = replace(sframe, header=replace(sframe.header, version=2))
    result = referee.compare(frame, in_v2, excepted=[(plt, plt + len(code))])
    assert [(d.kind, d.start, d.found) for d in result.differences] == [(Kind.UNSAYABLE, in_r10, "r10+8 u f")]


@pytest.mark.oracle
def test_every_wrong_byte_in_the_rows_of_a_function_is_found(tmp_path: Path) -> None:
    path = linked_by_binutils(tmp_path)
    frame, image, known = frame_rows(path), path.read_bytes(), sframe_rows(path)
    _, place, data = place_of(path, ".sframe")
    # Start, info, offsets, four times; after the header, what precedes the FREs, and 5 bytes of attributes.
    rows = 28 + int.from_bytes(data[24:28], "little") + 5
    assert data[rows : rows + 14] == bytes.fromhex("000308 010510f0 040410f0 060308")
    for offset in range(place + rows, place + rows + 14):
        path.write_bytes(image[:offset] + bytes([image[offset] ^ 8]) + image[offset + 1 :])
        try:
            changed = sframe_rows(path)
        except oracles.OracleError:
            continue
        assert referee.compare(frame, changed).differences != referee.compare(frame, known).differences, hex(offset)


@pytest.mark.oracle
def test_debug_frame_is_read_apart_from_eh_frame(tmp_path: Path) -> None:
    source, path = tmp_path / "frames.s", tmp_path / "frames.o"
    source.write_text(".cfi_sections .debug_frame\n" + LINKED)
    oracles.run_oracle("as", source, "-o", path)
    assert [len(frame_rows(path, section).start) for section in (".eh_frame", ".debug_frame")] == [0, 3]


@pytest.mark.oracle
def test_a_program_that_fails_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(oracles.OracleError, match="readelf ended with 1"):
        oracles.run_oracle("readelf", "-wNF", tmp_path / "absent")


# --- compiled programs ------------------------------------------------------------------------------------

flag_sets = pytest.mark.parametrize("flags", compiled.FLAG_SETS, ids=lambda flags: flags.name)


@flag_sets
def test_compiled_program_prints_the_same_under_every_flag_set(flags: compiled.FlagSet, build_folder: Path) -> None:
    program = compiled.build(build_folder, flags)
    if flags.shared:
        source, library = build_folder / "user.c", program
        source.write_text("int run_frames(void); int main(void) { return run_frames(); }")
        program = source.with_suffix("")
        subprocess.run(["gcc", source, library, f"-Wl,-rpath,{library.parent}", "-o", program], check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=True)
    assert done.stdout == EXPECTED_OUTPUT


@pytest.mark.oracle
@flag_sets
def test_compiled_program_has_rows_of_every_kind(flags: compiled.FlagSet, build_folder: Path) -> None:
    compiled.require_x86_64()
    frame = frame_rows(compiled.build(build_folder, flags))
    assert {255, 256, 65535, 65536} <= set((frame.end - frame.start).tolist())
    unsayable = {str(text) for text in frame.texts if referee.sayable(text, frame.architecture) is None}
    by_hand = {"exp u c-8", "rsp+8 r11 (r11) c-8", "r10+8 u c-8", "rsp+8 u undefined", "rsp+8 undefined c-8"}
    assert unsayable >= by_hand | {"rsp+8 v-24 c-8", "rsp+8 exp c-8", "rsp+8 vexp c-8", "rsp+8 u c-24", "no CFA u u"}
    bases = {text.cfa.partition("+")[0] for text in frame.texts}
    assert bases >= {"rsp", "rbp", "r10"}
