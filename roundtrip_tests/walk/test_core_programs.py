"""Core files of programs that crash through libstdc++, libc, a signal handler and alloca, walked as gdb walks them."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import unwindkit
from unwindkit import CoreTraces, DebugFiles, Places, ThreadTrace, WalkEnd
from unwindkit.converters.elf.core_file import core_file
from unwindkit.converters.elf.image import open_elf
from unwindkit.converters.files.core_modules import VDSO, VDSO_SIZE

from ..support.commands import unwindkit as command
from ..support.programs.core_programs import (
    COMPARED,
    CRASH,
    IN_PLT,
    IN_VDSO,
    ROOTS,
    S390X,
    SeenCore,
    SeenFrame,
    Stop,
    build,
    crash,
)
from ..support.programs.stopped_programs import AMD64, ARM64, Machine

NO_LINKS = DebugFiles(links=False)


def crashed(machine: Machine, tmp_path_factory: pytest.TempPathFactory, *flags: str, stop: Stop = CRASH) -> SeenCore:
    return crash(machine, build(machine, tmp_path_factory.mktemp(machine.name), *flags), stop)


@pytest.fixture(scope="session", name="signalled")
def signalled_fixture(tmp_path_factory: pytest.TempPathFactory) -> SeenCore:
    """Three threads of x86-64; one crashes in a signal handler."""
    return crashed(AMD64, tmp_path_factory, "-DSIGNAL", "-pthread")


@pytest.fixture(scope="session", name="plain")
def plain_fixture(tmp_path_factory: pytest.TempPathFactory) -> SeenCore:
    """The same without a signal, which SFrame 2 cannot describe."""
    return crashed(AMD64, tmp_path_factory, "-pthread")


def compare(thread: ThreadTrace, seen: tuple[SeenFrame, ...], registers: dict[int, str]) -> None:
    """PC, CFA and registers of each frame are gdb's, as far as it knows them; the walk ends as it should."""
    assert [frame.walked.frame.pc for frame in thread.frames[: len(seen)]] == [one.pc for one in seen]
    for frame, one in zip(thread.frames, seen, strict=False):
        walked = frame.walked
        assert one.cfa is None or walked.cfa == one.cfa, f"{one.pc:#x}"
        for number, name in registers.items():
            if name in one.registers:
                assert walked.frame.registers[number] == one.registers[name], f"{one.pc:#x}: {name}"
    assert thread.end is WalkEnd.OUTERMOST


def compare_all(found: CoreTraces, seen: SeenCore, registers: dict[int, str]) -> None:
    assert sorted(thread.pid for thread in found.threads) == sorted(seen.threads)
    for thread in found.threads:
        frames = seen.threads[thread.pid]
        assert len(thread.frames) == len(frames)
        compare(thread, frames, registers)


@pytest.mark.oracle("gdb", "g++")
def test_threads_of_x86_64(signalled: SeenCore) -> None:
    found = unwindkit.walk_core(signalled.path, places=Places(debug=NO_LINKS))
    compare_all(found, signalled, COMPARED["x86_64"])
    (main,) = (thread for thread in found.threads if len(thread.frames) > 10)
    names = [frame.names[0].function for frame in main.frames if frame.names]
    for name in ("leaf", "many_saved", "on_signal", "with_alloca", "compare", "sorting", "printing", "main", "_start"):
        assert name in names
    assert [frame.walked.is_signal_frame for frame in main.frames].count(True) == 1
    assert VDSO not in [frame.module for frame in main.frames]


def modules(found: CoreTraces) -> set[str]:
    """The modules of all frames."""
    return {frame.module for thread in found.threads for frame in thread.frames}


def sources(found: CoreTraces) -> set[str]:
    """What callers were found by."""
    return {frame.walked.source for thread in found.threads for frame in thread.frames} - {"registers"}


def with_sframes(paths: set[str], machine: str, root: Path) -> None:
    """Copies with an .sframe, in another root. Paths under a root of a foreign machine are relative to it."""
    for path in paths:
        inner = Path(path)
        foreign = ROOTS.get(machine)
        if foreign is not None and inner.is_relative_to(foreign):
            inner = Path("/", inner.relative_to(foreign))
        copy = Path(f"{root}/{inner}")
        copy.parent.mkdir(parents=True, exist_ok=True)
        unwindkit.write_sframe(path, copy, version=3)


@pytest.mark.oracle("gdb", "g++")
def test_a_stub_of_the_plt(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The youngest frame is an entry of the PLT that has pushed a number: from each source."""
    seen = crashed(AMD64, tmp_path_factory, "-pthread", "-Wl,-z,lazy", "-fcf-protection=none", stop=IN_PLT)
    folder = seen.path.parent
    found = unwindkit.walk_core(seen.path, places=Places(debug=NO_LINKS))
    compare_all(found, seen, COMPARED["x86_64"])
    main = next(thread for thread in found.threads if thread.frames[0].module == str(seen.program))
    entry, caller = main.frames[:2]
    assert entry.walked.cfa == entry.walked.frame.registers[7] + 16
    assert caller.names[0].function == "lazy"
    with_sframes(modules(found), "x86_64", folder / "root")
    by_sframe = unwindkit.walk_core(seen.path, "sframe", Places(debug=NO_LINKS, roots=[folder / "root"]))
    compare_all(by_sframe, seen, {6: "rbp", 7: "rsp"})
    assert sources(by_sframe) == {".sframe"}
    for module in modules(found):
        unwindkit.store_breakpad(module, folder / "store", cfi_only=True)
    by_symbols = unwindkit.walk_core(seen.path, "breakpad", Places(debug=NO_LINKS, stores=[folder / "store"]))
    compare_all(by_symbols, seen, COMPARED["x86_64"])
    assert sources(by_symbols) == {"STACK CFI"}


@pytest.mark.oracle("gdb", "g++")
def test_a_function_of_the_vdso(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    seen = crashed(AMD64, tmp_path_factory, "-pthread", "-Wl,-z,now", stop=IN_VDSO)
    found = unwindkit.walk_core(seen.path, places=Places(debug=NO_LINKS))
    compare_all(found, seen, COMPARED["x86_64"])
    main = next(thread for thread in found.threads if thread.frames[0].module == VDSO)
    assert "asks_the_time" in [one.function for frame in main.frames for one in frame.names]
    assert sources(found) == {".eh_frame"}
    copy, store = tmp_path / "vdso", tmp_path / "store"
    copy.write_bytes(vdso_of(seen.path))
    for module in [copy, *(one for one in modules(found) if one != VDSO)]:
        unwindkit.store_breakpad(module, store, cfi_only=True)
    by_symbols = unwindkit.walk_core(seen.path, "breakpad", Places(debug=NO_LINKS, stores=[store]))
    compare_all(by_symbols, seen, COMPARED["x86_64"])
    assert sources(by_symbols) == {"STACK CFI"}


def vdso_of(core: Path) -> bytes:
    """The vDSO of a process, whose only copy is in its memory."""
    state = core_file(open_elf(core))
    assert state.vdso is not None
    return state.memory.upto(state.vdso, VDSO_SIZE)


@pytest.mark.oracle("gdb", "g++")
def test_by_symbol_files(signalled: SeenCore, tmp_path: Path) -> None:
    """Of every module that is in a frame."""
    for module in modules(unwindkit.walk_core(signalled.path)):
        unwindkit.store_breakpad(module, tmp_path, cfi_only=True)
    found = unwindkit.walk_core(signalled.path, "breakpad", Places(debug=NO_LINKS, stores=[tmp_path]))
    compare_all(found, signalled, COMPARED["x86_64"])
    assert sources(found) == {"STACK CFI"}
    assert unwindkit.walk_core(signalled.path, "breakpad").threads[0].end is WalkEnd.NO_FUNCTION


@pytest.mark.oracle("gdb", "g++")
def test_by_sframe(plain: SeenCore, tmp_path: Path) -> None:
    """Of copies of all files with an .sframe. FP and SP are known; other registers are not."""
    with_sframes(modules(unwindkit.walk_core(plain.path)), "x86_64", tmp_path)
    found = unwindkit.walk_core(plain.path, "sframe", Places(debug=NO_LINKS, roots=[tmp_path]))
    compare_all(found, plain, {6: "rbp", 7: "rsp"})
    assert sources(found) == {".sframe"}
    assert set(found.threads[0].frames[1].walked.frame.registers) <= {6, 7, 16}


def walked_with_root(machine: Machine, seen: SeenCore) -> ThreadTrace:
    (thread,) = unwindkit.walk_core(seen.path, places=Places(seen.program, [ROOTS[machine.name]], NO_LINKS)).threads
    return thread


@pytest.mark.parametrize(("machine", "flags"), [(ARM64, ()), (S390X, ("-DSIGNAL",))], ids=["aarch64", "s390x"])
@pytest.mark.oracle("gdb-multiarch")
def test_core_files_of_qemu(machine: Machine, flags: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> None:
    """They have no list of files: libraries are found by the dynamic linker's. gdb refuses AArch64's signal frames."""
    require(machine)
    seen = crashed(machine, tmp_path_factory, *flags)
    thread = walked_with_root(machine, seen)
    (frames,) = seen.threads.values()
    assert len(thread.frames) == len(frames) > 15
    compare(thread, frames, COMPARED[machine.name])


FP_AND_SP = {"aarch64": {29: "x29", 31: "sp"}, "s390x": {11: "r11", 15: "r15"}}


@pytest.mark.parametrize("machine", [ARM64, S390X], ids=["aarch64", "s390x"])
@pytest.mark.oracle("gdb-multiarch")
def test_core_files_of_qemu_by_sframe_and_symbol_files(
    machine: Machine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    require(machine)
    seen = crashed(machine, tmp_path_factory)
    (frames,), folder = seen.threads.values(), seen.path.parent
    places = Places(seen.program, [ROOTS[machine.name]], NO_LINKS)
    files = {str(frame.module) for frame in walked_with_root(machine, seen).frames}
    paths = {path if path == str(seen.program) else f"{ROOTS[machine.name]}{path}" for path in files}
    for path in paths:
        unwindkit.store_breakpad(path, folder / "store", cfi_only=True)
    found = unwindkit.walk_core(seen.path, "breakpad", replace(places, stores=[folder / "store"]))
    assert len(found.threads[0].frames) == len(frames)
    compare(found.threads[0], frames, COMPARED[machine.name])
    assert sources(found) == {"STACK CFI"}
    root = folder / "with-sframe"
    with_sframes(paths, machine.name, root)
    places = replace(places, exe=f"{root}/{seen.program}", roots=[root])
    found = unwindkit.walk_core(seen.path, "sframe", places)
    assert len(found.threads[0].frames) == len(frames)
    compare(found.threads[0], frames, FP_AND_SP[machine.name])
    assert sources(found) == {".sframe"}


@pytest.mark.oracle("gdb-multiarch")
def test_signed_return_addresses_and_a_signal_on_aarch64(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The frames are those of the source, and what libstdc++, libc and the kernel add."""
    require(ARM64)
    seen = crashed(ARM64, tmp_path_factory, "-DSIGNAL", "-mbranch-protection=pac-ret")
    thread = walked_with_root(ARM64, seen)
    assert thread.end is WalkEnd.OUTERMOST
    names = [one.names[0].function for one in thread.frames if one.module == str(seen.program)]
    assert names == [
        *("leaf", "many_saved", "on_signal", "signalled", "with_alloca", "compare", "sorting"),
        *("Sink::overflow(int)", "printing", "main", "_start"),
    ]
    assert [frame.walked.is_signal_frame for frame in thread.frames].count(True) == 1


def require(machine: Machine) -> None:
    if shutil.which(machine.compiler) is None or shutil.which(str(machine.emulator)) is None:
        pytest.skip(f"no {machine.compiler} or {machine.emulator}")


@pytest.mark.oracle("gdb", "g++")
def test_text_and_json_of_the_command(plain: SeenCore) -> None:
    done = command("walk", plain.path, "--no-debug-links", "--registers")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert sum(line.startswith("thread ") for line in lines) == 3
    leaf = plain.threads[min(plain.threads)][0]
    assert f"  #0   {leaf.pc:#018x} leaf in {plain.program}+" in done.stdout
    assert f"sp={leaf.registers['rsp']:#x}" in done.stdout
    assert lines[-1] == "  end: the return address is undefined (outermost frame)"
    said = json.loads(command("walk", plain.path, "--no-debug-links", "--json", "--limit", "2").stdout)
    assert said["architecture"] == "x86_64"
    first = next(one for one in said["threads"] if one["pid"] == min(plain.threads))
    assert (first["end"], len(first["frames"])) == ("LIMIT", 2)
    assert first["frames"][0]["registers"]["sp"] == leaf.registers["rsp"]
    assert first["frames"][1]["source"] == ".eh_frame"
