"""Existing `.sframe` sections: `info` reports what each really covers, `sframe` replaces them all with one of ours.

Strategy: programs with what real linkers leave: none, bytes of another version, the PLT and `_start` alone, two headers
in one section, several sections. What they cover is counted here, from readelf 2.47's FDEs (V1, which it does not read:
from the bytes) and the section headers; the result is judged by readelf 2.47 at every PC, and runs.
"""

from __future__ import annotations

import functools
import json
import shutil
import struct
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import unwindkit
from unwindkit.writers.elf.add import HEADERS_KEPT, IN_PLACE

from ..support.binutils import EVERY_VERSION, SFRAME, V1, V2, V3, Binutils, chosen, gcc
from ..support.commands import DONE
from ..support.commands import unwindkit as command
from ..support.judges.referee import compare
from ..support.made.made_sframe import Fde, fre, section, sframes
from ..support.oracles import absent
from ..support.programs import compiled
from ..support.programs.compiled_sources import EXPECTED_OUTPUT
from ..support.programs.elf_programs import headers
from ..support.programs.plt_programs import plt_sections
from ..support.texts.readelf_text import frame_rows, sframe_rows
from ..support.wrapped import SHT_GNU_SFRAME

pytestmark = pytest.mark.oracle

PT_GNU_SFRAME = 0x6474E554
SOURCES = {
    "main.c": """
        #include <stdio.h>
        int other(int);
        int main(int argc, char **argv) { printf("it runs %d\\n", other(argc + 3)); return 0; }
    """,
    "other.c": """
        int other(int n) { char a[n]; for (int i = 0; i < n; i++) a[i] = (char)(n * i); return a[n - 1] + a[0]; }
    """,
    "start.s": """
        .globl _start
        .type _start, @function
_start: .cfi_startproc
        xor %ebp, %ebp
        mov $1, %edi
        call main
        mov %eax, %edi
        call exit@PLT
        hlt
        .cfi_endproc
        .size _start, . - _start
        .section .note.GNU-stack, "", @progbits
    """,
    # As GNU as 2.45 leaves it in Scrt1.o.
    "empty.s": """
        .section .sframe, "a"
        .section .note.GNU-stack, "", @progbits
    """,
    # A function that SFrame has no rows for: gas writes a header without FDEs.
    "nothing.s": """
nothing: .cfi_startproc simple
        ret
        .cfi_endproc
        .section .note.GNU-stack, "", @progbits
    """,
}


Build = Callable[[Path, tuple[str, ...]], None]  # links a program `before` in a folder, with options for gcc


@dataclass(frozen=True, slots=True)
class Existing:
    """A program with existing `.sframe` sections: what each of them is, and how many FDEs they have."""

    name: str
    tools: Binutils
    build: Build
    states: tuple[str, ...]
    fdes: int = 0


def linked(*inputs: str, gsframe: tuple[str, ...] = (), flags: tuple[str, ...] = ()) -> Build:
    """Compile or assemble each source, those of `gsframe` with an `.sframe`, and link."""

    def build(folder: Path, options: tuple[str, ...]) -> None:
        for linker in (flag.replace("-fuse-ld=", "ld.") for flag in flags if flag.startswith("-fuse-ld=")):
            if shutil.which(linker) is None:
                absent(f"no {linker}")
        for name in inputs:
            (folder / name).write_text(SOURCES[name])
            own = [SFRAME] if name in gsframe else []
            gcc(folder, *options, "-O2", *own, "-c", name, "-o", f"{name}.o")
        gcc(folder, *options, *flags, *(f"{name}.o" for name in inputs), "-o", "before")

    return build


def by_objcopy(*arguments: str) -> Build:
    """A program without `.sframe`, through objcopy."""

    def build(folder: Path, options: tuple[str, ...]) -> None:
        linked("main.c", "other.c")(folder, options)
        (folder / "raw").write_bytes(b"x" * 77)
        subprocess.run(["objcopy", *arguments, "before"], cwd=folder, check=True)

    return build


BOTH = ("main.c", "other.c")
STARTED = linked(*BOTH, "start.s", gsframe=("start.s",), flags=("-nostartfiles",))
WHOLE = linked(*BOTH, gsframe=BOTH)
BY_LLD = linked(*BOTH, gsframe=BOTH, flags=("-fuse-ld=lld",))
NOTHING = linked(*BOTH, "nothing.s", gsframe=("nothing.s",))
CASES = (
    Existing("empty, by ld 2.47", V3, linked(*BOTH, "empty.s"), ("empty",)),
    Existing("empty, by gold", V1, linked(*BOTH, "empty.s", flags=("-fuse-ld=gold",)), ("empty",)),
    Existing("empty, by lld", V1, linked(*BOTH, "empty.s", flags=("-fuse-ld=lld",)), ("empty",)),
    Existing("empty, named by a segment, by ld 2.40", V1, NOTHING, ("empty",)),
    Existing("empty, named by a segment, by ld 2.44", V2, NOTHING, ("empty",)),
    Existing("the PLT and an FDE without FREs, by ld 2.47", V3, NOTHING, ("V3",), 4),
    Existing("the PLT and _start, V1", V1, STARTED, ("V1",), 3),
    Existing("the PLT and _start, V2", V2, STARTED, ("V2",), 3),
    Existing("the PLT and _start, V3", V3, STARTED, ("V3",), 3),
    Existing("all, V1", V1, WHOLE, ("V1",), 4),
    Existing("all, V2", V2, WHOLE, ("V2",), 5),
    Existing("all, V3", V3, WHOLE, ("V3",), 5),
    Existing("two headers in one, V1, by lld", V1, BY_LLD, ("V1",), 1),
    Existing("two headers in one, V2, by lld", V2, BY_LLD, ("V2",), 1),
    Existing("two headers in one, V3, by lld", V3, BY_LLD, ("V3",), 1),
    Existing("not loaded, no SFrame", V1, by_objcopy("--add-section=.sframe=raw"), ("no SFrame",)),
    Existing(
        "several, loaded and not",
        V1,
        by_objcopy("--rename-section=.note.ABI-tag=.sframe", "--rename-section=.comment=.sframe"),
        ("no SFrame", "no SFrame"),
    ),
)
EVERY_CASE = pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=pytest.mark.oracle(*filter(None, [case.tools.suite]))) for case in CASES],
)


@functools.cache
def built(folder: Path, case: Existing) -> Path:
    """The program; the test is skipped where a tool is missing."""
    work = folder / str(CASES.index(case))
    work.mkdir(exist_ok=True)
    case.build(work, chosen(folder, case.tools))
    return work / "before"


@pytest.fixture(scope="session", name="folder")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("existing")


# --- the witness --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class State:
    """An `.sframe`: what it is, FDEs, and the bytes of code in them."""

    name: str
    fdes: int
    covered: int | None


def code_of(path: Path) -> set[int]:
    """Every address in a loaded executable section."""
    sections = [header for _, header in headers(path)[1] if header["sh_flags"] & 6 == 6]
    return {pc for one in sections for pc in range(one["sh_addr"], one["sh_addr"] + one["sh_size"])}


def state_of(path: Path, header: dict[str, int]) -> State:
    data = path.read_bytes()[header["sh_offset"] :][: header["sh_size"]]
    if not data:
        return State("empty", 0, 0)
    if data[:2] != b"\xe2\xde":
        return State("no SFrame", 0, None)
    if data[2] == 1:
        ranges = v1_ranges(data, header["sh_addr"])
    else:
        rows = sframe_rows(path)
        ranges = [range(*one) for one in zip(rows.start.tolist(), rows.end.tolist(), strict=True)]
    covered = len(code_of(path) & {pc for one in ranges for pc in one})
    return State(f"V{data[2]}", len(ranges), covered)


def v1_ranges(data: bytes, address: int) -> list[range]:
    """Its FDEs: 17 bytes each, after a header of 28; start i32 relative to the section, size u32."""
    assert (data[7], data[20:24]) == (0, bytes(4)), "no auxiliary header, no gap"
    (count,) = struct.unpack_from("<I", data, 8)
    found = [struct.unpack_from("<iI", data, 28 + 17 * index) for index in range(count)]
    return [range(address + start, address + start + size) for start, size in found]


def sections_of(path: Path) -> list[dict[str, int]]:
    return [header for name, header in headers(path)[1] if name == ".sframe"]


def info(path: Path) -> tuple[int, list[dict[str, object]], list[str]]:
    """Bytes of code, what the command prints for each `.sframe`, and the same as text, one line per section."""
    found = json.loads(command("info", "--json", path).stdout)
    text = command("info", path).stdout.splitlines()
    lines = [text[index + 1] for index, line in enumerate(text) if line.startswith(".sframe")]
    return found["code_bytes"], [one for one in found["sections"] if one["name"] == ".sframe"], lines


# --- tests ----------------------------------------------------------------------------------------------------


@EVERY_CASE
def test_info_tells_the_true_cover(case: Existing, folder: Path) -> None:
    path = built(folder, case)
    states = [state_of(path, header) for header in sections_of(path)]
    assert [state.name for state in states] == list(case.states)
    assert sum(state.fdes for state in states) == case.fdes
    code_bytes, found, lines = info(path)
    assert code_bytes == len(code_of(path))
    for state, one, line in zip(states, found, lines, strict=True):
        assert one["covered_bytes"] == state.covered
        if state.covered is None:
            assert "is not 0xdee2" in one["fault"]
            assert line == f"  not readable: {one['fault']}"
        else:
            assert (one["functions"], one["fault"]) == (state.fdes, None)
            assert line.endswith(f", {100 * state.covered / code_bytes:.2f} % of code bytes covered")
        assert one["version"] == (int(state.name[1]) if state.name[0] == "V" else None)


def test_cover_is_of_code_and_each_byte_counts_once(tmp_path: Path) -> None:
    """Code is at 0x1000..0x1080, the section after it: functions that overlap, extend past the code, or are empty."""
    row = (fre(0, 8),)
    ranges = [(0x1000, 0x20), (0x1010, 0x30), (0x1070, 0x100), (0x1050, 0), (0x2000, 0x1000)]
    path = tmp_path / "file"
    path.write_bytes(sframes(section(*(Fde(start - 0x1080, size, row) for start, size in ranges))))
    code_bytes, (found,), (line,) = info(path)
    assert (found["covered_bytes"], code_bytes) == (0x40 + 0x10, 0x80)
    assert line == "  5 functions, 5 rows, 5 distinct row runs, 62.50 % of code bytes covered"


@EVERY_CASE
def test_all_that_is_there_is_replaced_by_one(case: Existing, folder: Path, tmp_path: Path) -> None:
    before, after = built(folder, case), tmp_path / "after"
    done = command("sframe", before, "-o", after, "--report", tmp_path / "report.json")
    assert done.returncode == DONE
    sizes = [header["sh_size"] for header in sections_of(before)]
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["replaced_bytes"] == sizes
    said = [line for line in done.stderr.splitlines() if "replaced" in line]
    assert said == [f"  replaced an .sframe of {', '.join(map(str, sizes))} bytes"]

    (header,) = sections_of(after)
    (segment,) = (one for one in headers(after)[0] if one["p_type"] == PT_GNU_SFRAME)
    assert (header["sh_type"], header["sh_size"]) == (SHT_GNU_SFRAME, report["sframe_bytes"])
    assert (segment["p_vaddr"], segment["p_filesz"]) == (header["sh_addr"], header["sh_size"])

    frame, rows = frame_rows(before), sframe_rows(after)
    plt = plt_sections(after).get(".plt")
    result = compare(frame, rows, [(plt.start, plt.stop)] if plt else [])
    assert not result.differences, "\n".join(map(str, result.differences))
    assert result.bytes_compared > 0
    assert rows.header.version == 2
    assert set(rows.header.flags) == {"FDE_SORTED", "FDE_FUNC_START_PCREL"}

    state = state_of(after, header)
    code_bytes, (found,), (line,) = info(after)
    assert found["covered_bytes"] == report["covered_bytes"] == state.covered
    functions = zip(frame.start.tolist(), frame.end.tolist(), strict=True)
    by_its_bytes = set(plt or ()) - {pc for start, end in functions for pc in range(start, end)}  # lld's has no CFI
    assert state.covered == result.bytes_compared + result.bytes_excepted + len(by_its_bytes)
    assert line.endswith(f", {100 * state.covered / code_bytes:.2f} % of code bytes covered")
    runs = [subprocess.run([path], capture_output=True, text=True, check=True).stdout for path in (before, after)]
    assert runs == ["it runs 12\n", "it runs 12\n"]


@pytest.mark.parametrize("tools", EVERY_VERSION)
@pytest.mark.parametrize("name", ["O0", "O2", "static"])
def test_the_old_place_is_used_or_cleared(tools: Binutils, name: str, folder: Path, tmp_path: Path) -> None:
    compiled.require()
    (flags,) = (flags for flags in compiled.FLAG_SETS if flags.name == name)
    options = (*chosen(folder, tools), SFRAME, *flags.flags)
    before = compiled.build(folder, replace(flags, name=f"{tools.release}-{name}", flags=options))
    after = tmp_path / "after"
    report = unwindkit.write_sframe(before, after)
    (old,), (new,) = sections_of(before), sections_of(after)
    has_room = new["sh_size"] <= old["sh_size"]
    # gas shares no FREs and does not see a static libc; at O2 V3 is longer than ours, V1 and V2 are not.
    assert has_room == {"O0": True, "O2": tools is V3, "static": False}[name]
    # With an existing PT_GNU_SFRAME one more program header is needed, and a dispensable PT_NOTE gives up its slot.
    assert report.writer == (IN_PLACE if has_room else HEADERS_KEPT)
    assert (new["sh_addr"] == old["sh_addr"]) == has_room
    place, size = old["sh_offset"], old["sh_size"]
    kept = after.read_bytes()[place + (new["sh_size"] if has_room else 0) : place + size]
    assert kept == bytes(len(kept)), "nothing is left of the old one"
    assert subprocess.run([after], capture_output=True, text=True, check=True).stdout == EXPECTED_OUTPUT
