"""Relocatable files with our `.sframe`, linked by GNU ld: the output has the rules of its `.eh_frame` at every PC.

Strategy: readelf 2.47 reads both sections of the output, the referee compares them. It also finds stale FDEs: one
without a function, or two at one PC. PLT entries are left out: ld describes them itself, not all of them correctly.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
import unwindkit

from ..support import oracles
from ..support.judges import referee
from ..support.oracles import absent
from ..support.programs.object_programs import (
    DEAD,
    EVERY_MACHINE,
    FOLDED,
    NATIVE,
    TRIXIE,
    Machine,
    compiled,
    linked,
    require,
    run,
    runs,
    sections,
    start_files,
    symbols,
)
from ..support.texts.readelf_text import frame_rows, sframe_rows

pytestmark = pytest.mark.oracle("forky")

SPLIT = ("-ffunction-sections",)
FLAGS = pytest.mark.parametrize("flags", [("-O0",), ("-O2",), ("-O2", *SPLIT), ("-Os", "-g", "-fPIC")], ids=" ".join)
COLLECTED = "-Wl,--gc-sections"


def with_ours(folder: Path, objects: Sequence[Path], version: int = 3) -> list[Path]:
    """Copies of the files that have call frame information, with our section; the others unchanged."""
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for path in objects:
        try:
            unwindkit.write_sframe(path, folder / path.name, version)
        except unwindkit.ParseError as error:
            assert "no call frame information" in str(error)
            shutil.copy(path, folder / path.name)
        found.append(folder / path.name)
    return found


def judged(program: Path) -> referee.Comparison:
    """The comparison, without any difference outside a PLT."""
    found = referee.compare(frame_rows(program), sframe_rows(program))
    stubs = [place for name, place in sections(program).items() if name.startswith((".plt", ".iplt"))]
    others = [one for one in found.differences if not any(start <= one.start < end for start, end in stubs)]
    assert not others, "\n".join(map(str, others[:10]))
    assert found.bytes_compared > 1000
    return found


def starts(path: Path) -> list[int]:
    return sorted(sframe_rows(path).start.tolist())


@EVERY_MACHINE
@FLAGS
def test_linked_program_says_what_its_cfi_says(machine: Machine, flags: tuple[str, ...], tmp_path: Path) -> None:
    objects = with_ours(tmp_path / "ours", compiled(tmp_path, machine, *flags))
    start = with_ours(tmp_path / "start", start_files(machine))
    program = linked(tmp_path, machine, objects, start=start)
    judged(program)
    runs(program, machine)


@EVERY_MACHINE
@pytest.mark.parametrize("collected", [False, True], ids=["all", "gc-sections"])
def test_folded_and_collected_functions_leave_nothing(machine: Machine, collected: bool, tmp_path: Path) -> None:
    objects = with_ours(tmp_path / "ours", compiled(tmp_path, machine, "-O2", *SPLIT))
    start = with_ours(tmp_path / "start", start_files(machine))
    program = linked(tmp_path, machine, objects, *[COLLECTED] * collected, start=start)
    judged(program)
    runs(program, machine)
    # Outside PLTs the FDEs are those of .eh_frame, one to one.
    frame = frame_rows(program)
    code = [place for name, place in sections(program).items() if name.startswith(".text")]
    expected = {at for at, end in zip(frame.start.tolist(), frame.end.tolist(), strict=True) if at < end}
    assert set(starts(program)) & {at for at in expected if is_in(at, code)} == {
        at for at in expected if is_in(at, code)
    }
    assert [at for at in starts(program) if is_in(at, code)] == sorted(at for at in expected if is_in(at, code))
    here = symbols(program)
    assert set(FOLDED) <= here & symbols(objects[0]) & symbols(objects[1])
    assert set(DEAD) & here == (set() if collected else set(DEAD))
    fdes = sum(len(sframe_rows(path).start) for path in objects)
    assert fdes > len([at for at in starts(program) if is_in(at, code)])


def is_in(address: int, places: Sequence[tuple[int, int]]) -> bool:
    return any(start <= address < end for start, end in places)


@EVERY_MACHINE
def test_archive_of_them(machine: Machine, tmp_path: Path) -> None:
    first, second = compiled(tmp_path, machine, "-O2", *SPLIT)
    archive, ours = tmp_path / "libsecond.a", tmp_path / "ours"
    run("ar", "rcs", archive, second)
    ours.mkdir()
    report = unwindkit.write_sframe(archive, ours / archive.name, 3)
    assert (report.members, report.kept) == (1, ())
    start = with_ours(tmp_path / "start", start_files(machine))
    objects = [*with_ours(ours, [first]), ours / archive.name]
    program = linked(tmp_path, machine, objects, COLLECTED, start=start)
    judged(program)
    runs(program, machine)


def gas_v3(folder: Path, machine: Machine, source: Path) -> Path:
    """The object that gas 2.47 makes of a file's assembler text, with its own `.sframe`."""
    text, path = folder / "gas.s", folder / "gas.o"
    run(machine.compiler, "-O2", *SPLIT, "-S", source, "-o", text)
    oracles.run_oracle(f"{machine.prefix}as", "--gsframe", text, "-o", path)
    return path


@EVERY_MACHINE
def test_ours_beside_those_of_gas(machine: Machine, tmp_path: Path) -> None:
    first, _ = compiled(tmp_path, machine, "-O2", *SPLIT)
    theirs = gas_v3(tmp_path, machine, tmp_path / "second.cc")
    start = with_ours(tmp_path / "start", start_files(machine))
    for pair in ([*with_ours(tmp_path / "ours", [first]), theirs], [theirs, *with_ours(tmp_path / "ours", [first])]):
        program = linked(tmp_path, machine, pair, COLLECTED, start=start)
        judged(program)
        runs(program, machine)


@EVERY_MACHINE
def test_the_section_of_gas_is_replaced(machine: Machine, tmp_path: Path) -> None:
    first, _ = compiled(tmp_path, machine, "-O2", *SPLIT)
    theirs = gas_v3(tmp_path, machine, tmp_path / "second.cc")
    report = unwindkit.write_sframe(theirs, tmp_path / "replaced.o", 3)
    assert report.replaced_bytes == (sections(theirs)[".sframe"][1],)
    start = with_ours(tmp_path / "start", start_files(machine))
    objects = [*with_ours(tmp_path / "ours", [first]), tmp_path / "replaced.o"]
    judged(linked(tmp_path, machine, objects, start=start))


@EVERY_MACHINE
def test_partial_link_before_and_after(machine: Machine, tmp_path: Path) -> None:
    objects = compiled(tmp_path, machine, "-O2", *SPLIT)
    start = with_ours(tmp_path / "start", start_files(machine))
    linker = f"{machine.prefix}ld"
    oracles.run_oracle(linker, "-r", *objects, "-o", tmp_path / "before.o")
    oracles.run_oracle(linker, "-r", *with_ours(tmp_path / "ours", objects), "-o", tmp_path / "after.o")
    for path in [*with_ours(tmp_path / "ours", [tmp_path / "before.o"]), tmp_path / "after.o"]:
        program = linked(tmp_path, machine, [path], COLLECTED, start=start)
        judged(program)
        runs(program, machine)


TOOLS = (("strip", "-g"), ("strip", "--strip-unneeded"), ("objcopy",), ("objcopy", "--localize-hidden"))


@pytest.mark.parametrize("suite", [None, "forky"])
@pytest.mark.parametrize("command", TOOLS, ids=" ".join)
def test_other_tools_keep_it(command: tuple[str, ...], suite: str | None, tmp_path: Path) -> None:
    objects = with_ours(tmp_path / "ours", compiled(tmp_path, NATIVE, "-O2", "-g", *SPLIT))
    program, *options = command
    for path in objects:
        arguments = [*options, path, *(["-o"] * (program == "strip")), tmp_path / path.name]
        run(program, *arguments) if suite is None else oracles.run_oracle(program, *arguments, suite=suite)
    start = with_ours(tmp_path / "start", start_files(NATIVE))
    copies = [tmp_path / path.name for path in objects]
    judged(linked(tmp_path, NATIVE, copies, COLLECTED, start=start))


@pytest.mark.oracle("sid-llvm")
def test_objects_of_llvm(tmp_path: Path) -> None:
    require(NATIVE)
    compiled(tmp_path, NATIVE, "-O2", *SPLIT)
    objects = []
    for name, options in (("first", []), ("second", ["--gsframe"])):
        run("g++", "-O2", *SPLIT, "-S", f"{name}.cc", "-o", f"{name}.s", cwd=tmp_path)
        objects.append(tmp_path / f"{name}-llvm.o")
        target = ["-triple=x86_64-linux-gnu", "-filetype=obj", *options]
        oracles.run_oracle("llvm-mc-22", *target, tmp_path / f"{name}.s", "-o", objects[-1], suite="sid-llvm")
    start = with_ours(tmp_path / "start", start_files(NATIVE))
    program = linked(tmp_path, NATIVE, with_ours(tmp_path / "ours", objects), COLLECTED, start=start)
    judged(program)
    runs(program, NATIVE)


@pytest.mark.oracle("trixie")
def test_version_2_as_ld_2_44_has_it(tmp_path: Path) -> None:
    # Only ld 2.45 merges what we write; 2.44 has the same relocations, another section type, and no flag for them.
    objects = with_ours(tmp_path / "ours", compiled(tmp_path, TRIXIE, "-O2", *SPLIT), version=2)
    start = with_ours(tmp_path / "start", start_files(TRIXIE), version=2)
    for path in [*objects, *start]:
        data = path.read_bytes()
        for new, old in (("e2de 02 04 03", "e2de 02 00 03"), ("f4ffff6f 0200", "01000000 0200")):
            assert data.count(bytes.fromhex(new)) <= 1
            data = data.replace(bytes.fromhex(new), bytes.fromhex(old))
        path.write_bytes(data)
    program = linked(tmp_path, TRIXIE, objects, start=start)
    judged(program)
    runs(program, TRIXIE)


LIBRARIES = ("libstdc++.a", "libgcc.a", "libgcc_eh.a", "libc.a", "libm.a")


def test_static_program_is_covered_by_archives(tmp_path: Path) -> None:
    objects = with_ours(tmp_path / "ours", compiled(tmp_path, NATIVE, "-O2"))
    paths = start_files(NATIVE, (*LIBRARIES, "crt1.o", "crti.o", "crtbeginT.o"))
    if not all(path.is_absolute() for path in paths):
        absent("no static libraries")
    # libm.a is a script that names two archives.
    archives = [path for path in paths if path.suffix == ".a" and path.read_bytes().startswith(b"!<arch>")]
    ours = tmp_path / "libraries"
    ours.mkdir()
    for path in archives:
        unwindkit.write_sframe(path, ours / path.name, 3)
    start = with_ours(tmp_path / "start", [path for path in paths if path.suffix == ".o"])
    ends = start_files(NATIVE, ("crtend.o", "crtn.o"))
    group = ["-Wl,--start-group", *(ours / path.name for path in archives), "-lm", "-Wl,--end-group"]
    flags = ["-static", "-nostdlib", "-nostartfiles"]
    program = linked(tmp_path, NATIVE, [*start, *objects, *group, *ends], *flags)
    found = judged(program)
    assert (found.bytes_unsayable < 100, found.functions > 1000) == (True, True)
    runs(program, NATIVE)
