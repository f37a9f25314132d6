"""Files with a new loaded section still run as before, with each engine.

Strategy: programs compiled here and the system's own get a section whose words are its own addresses; their output, and
what debugging tools print of them, is compared with the originals.
"""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import cast

import pytest
from unwindkit.schemas.section import BuildError
from unwindkit.writers.elf.add import (
    HEADERS_KEPT,
    HEADERS_MOVED,
    IN_PLACE,
    LIEF,
    Writer,
    write_by_engines,
    write_section,
)

from ..support.programs.elf_programs import (
    BUILDS,
    CXX,
    DEBUG,
    ENGINES,
    IN_THE_WAY,
    LIBRARY,
    MOVED,
    RELOCS,
    SHARED,
    SHARED_MOVES,
    SIZE,
    WITHOUT_GAP,
    Built,
    headers,
    in_section,
    line_of,
    patched,
    run,
    section_at,
    sframe,
    tool,
    value_at,
)

EVERY_ENGINE = pytest.mark.parametrize("engine", ENGINES)
NO_GAP = "no gap between loadable segments"


@EVERY_ENGINE
@pytest.mark.parametrize("build", BUILDS)
def test_program_runs_as_before_and_finds_the_section(build: str, engine: str, built: Built, tmp_path: Path) -> None:
    before, after = built(build), tmp_path / "program"
    reason = {HEADERS_KEPT: IN_THE_WAY.get(build), LIEF: NO_GAP if build in WITHOUT_GAP else None}.get(engine)
    if reason is not None:
        with pytest.raises(BuildError) as caught:
            write_by_engines(before, after, sframe(), (engine,))
        assert reason in str(caught.value)
        assert list(tmp_path.iterdir()) == []
        return
    report = write_by_engines(before, after, sframe(), (engine,))
    assert (report.engine, report.replaced, report.passed_over) == (engine, (), {})
    assert report.moved == (MOVED[build] if engine == HEADERS_KEPT else ())
    status, text = run(after, "-a", "x", "operand")
    assert line_of(report) in text
    assert (status, text.replace(line_of(report), "")) == run(before, "-a", "x", "operand")


@pytest.mark.parametrize("build", BUILDS)
def test_program_headers_are_kept_where_they_can_be(build: str, built: Built, tmp_path: Path) -> None:
    report = write_section(built(build), tmp_path / "auto", sframe())
    if build in MOVED:
        assert (report.engine, report.moved, report.passed_over) == (HEADERS_KEPT, MOVED[build], {})
    else:
        assert (report.engine, report.moved) == (HEADERS_MOVED, ())
        assert report.passed_over == {HEADERS_KEPT: IN_THE_WAY[build]}
    write_by_engines(built(build), tmp_path / "forced", sframe(), (report.engine,))
    assert (tmp_path / "auto").read_bytes() == (tmp_path / "forced").read_bytes()


def test_writer_chooses_the_engines(built: Built, tmp_path: Path) -> None:
    before, out = built("gcc -Wl,-z,noseparate-code"), tmp_path / "program"
    assert write_section(before, out, sframe(), writer="native").engine == HEADERS_KEPT
    assert write_section(out, out, sframe(), writer="native").engine == IN_PLACE
    assert write_section(built(DEBUG), out, sframe(), writer="lief").engine == LIEF
    with pytest.raises(BuildError, match=NO_GAP):
        write_section(before, out, sframe(), writer="lief")
    with pytest.raises(BuildError, match="'other' is not one of auto, lief, native"):
        write_section(before, out, sframe(), writer=cast(Writer, "other"))


@EVERY_ENGINE
@pytest.mark.parametrize("build", [SHARED, "gcc -shared -fPIC -s -Wl,-soname,libx.so"])
def test_library_is_loaded_by_dlopen_and_by_preload(build: str, engine: str, built: Built, tmp_path: Path) -> None:
    library = tmp_path / "libx.so"
    report = write_by_engines(built(build, LIBRARY), library, sframe(), (engine,))
    assert report.moved == (SHARED_MOVES if engine == HEADERS_KEPT else ())
    call = f"import ctypes; print(ctypes.CDLL({str(library)!r}).doubled(4))"
    assert run("python3", "-c", call) == (0, "loaded\n13\n")
    assert run("/bin/echo", "hi", LD_PRELOAD=str(library)) == (0, "loaded\nhi\n")


# $F is the file, $D its folder, and $X a C++ program.
LIBRARIES = "LD_LIBRARY_PATH=$D"
SYSTEM = {
    "/bin/ls": ["$F -la -d / /usr", "$F -d /"],
    "/bin/bash": ["$F -c 'for i in 1 2; do echo $((i*21)) $(echo sub); done; f() { return 3; }; f'"],
    "/usr/bin/python3.11": ["$F -ISc 'import json, re, ctypes, decimal; print(json.dumps(1), decimal.Decimal(2)/3)'"],
    "/lib64/ld-linux-x86-64.so.2": ["$F /bin/ls -d /", "$F --list /bin/bash | sed 's/ (.*//'"],
    "/lib/x86_64-linux-gnu/libc.so.6": [
        f"{LIBRARIES} /bin/ls -d /",
        "/lib64/ld-linux-x86-64.so.2 --library-path $D /bin/bash -c 'echo $((1+1)); exit 4'",
        f"{LIBRARIES} python3 -c 'import socket, threading; print(socket.gethostbyname(\"127.0.0.1\"))'",
    ],
    "/usr/lib/x86_64-linux-gnu/libstdc++.so.6": [f"{LIBRARIES} $X operand", "LD_PRELOAD=$F $X operand"],
    "/lib/x86_64-linux-gnu/libm.so.6": [f"{LIBRARIES} python3 -c 'import math; print(math.sin(1))'"],
}


@EVERY_ENGINE
@pytest.mark.parametrize("path", SYSTEM)
def test_system_file_works_as_before(path: str, engine: str, built: Built, tmp_path: Path) -> None:
    original, folder = Path(path), tmp_path / "lib"
    if not original.exists():
        pytest.skip(f"there is no {path} here")
    (tmp_path / "original").mkdir()
    folder.mkdir()
    shutil.copy(original, tmp_path / "original" / original.name)
    report = write_by_engines(original, folder / original.name, sframe(20000), (engine,))
    assert (report.engine, bool(report.moved)) == (engine, engine == HEADERS_KEPT)
    program = str(built(CXX)) if "libstdc++" in path else ""
    for line in SYSTEM[path]:
        results = []
        for place in (tmp_path / "original", folder):
            status, text = run("/bin/bash", "-c", line, F=str(place / original.name), D=str(place), X=program)
            lines = [one for one in text.splitlines() if not one.startswith("section ")]
            results.append((status, [one.replace(str(place), "$D") for one in lines]))
        assert results[0] == results[1], line
        assert results[0][1] != []


@EVERY_ENGINE
def test_debug_information_still_fits(engine: str, built: Built, tmp_path: Path) -> None:
    before, after = built(DEBUG), tmp_path / "program"
    write_by_engines(before, after, sframe(), (engine,))
    symbols = {line.split()[-1]: line.split()[0] for line in tool("nm", after).splitlines()}
    assert tool("nm", before) == tool("nm", after)
    where = tool("addr2line", "-fe", after, symbols["descending"])
    assert where == tool("addr2line", "-fe", before, symbols["descending"])
    assert where.startswith("descending\n")
    assert "??" not in where
    stop = ("-batch", "-ex", "break descending", "-ex", "run operand", "-ex", "bt")
    assert "in main (argc=2" in tool("gdb", *stop, after)


@EVERY_ENGINE
def test_readelf_shows_section_and_segment(engine: str, built: Built, tmp_path: Path) -> None:
    after = tmp_path / "program"
    report = write_by_engines(built(DEBUG), after, sframe(), (engine,))
    text = tool("readelf", "-lSW", after)
    [line] = [one for one in text.splitlines() if "] .sframe " in one]
    # readelf before 2.45 knows the names of neither type.
    assert "GNU_SFRAME" in line or "LOOS+0xffffff4" in line
    assert f"{report.address:016x} {report.file_offset:06x} {SIZE:06x} 00   A  0   0  8" in line
    assert "GNU_SFRAME" in text or "LOOS+0x474e554" in text
    assert "Warning" not in text


@EVERY_ENGINE
def test_no_section_index_changes_and_the_new_one_is_last(engine: str, built: Built, tmp_path: Path) -> None:
    before, after = built(RELOCS), tmp_path / "program"
    report = write_by_engines(before, after, sframe(), (engine,))
    (_, old), (_, new) = headers(before), headers(after)
    assert [name for name, _ in new] == [*(name for name, _ in old), ".sframe"]
    kept = ("sh_type", "sh_size", "sh_link", "sh_info", "sh_entsize", "sh_addralign")
    changing = (".shstrtab", ".sframe", *report.moved)
    for (name, header), (_, new_header) in zip(old, new, strict=False):
        assert name == ".shstrtab" or [header[key] for key in kept] == [new_header[key] for key in kept]
        assert (header["sh_addr"] == new_header["sh_addr"]) or name in changing
    moved = [name for (name, one), (_, two) in zip(old, new, strict=False) if one["sh_addr"] != two["sh_addr"]]
    assert tuple(moved) == report.moved


# --- where the program headers are kept: what moves, what does not, and why ---------------------------------------


def moves_the_headers(before: Path, out: Path, reason: str) -> None:
    """The program headers cannot be kept for that reason, so they move."""
    with pytest.raises(BuildError) as caught:
        write_by_engines(before, out, sframe(), (HEADERS_KEPT,))
    assert str(caught.value) == reason
    report = write_section(before, out, sframe())
    assert (report.engine, report.moved, report.passed_over) == (HEADERS_MOVED, (), {HEADERS_KEPT: reason})


def test_notes_step_back_and_the_rest_goes_to_the_new_segment(built: Built, tmp_path: Path) -> None:
    """In the shared library the build id stays on the first page, .gnu.hash and .dynsym move with the section."""
    before, after = built(SHARED, LIBRARY), tmp_path / "libx.so"
    report = write_by_engines(before, after, sframe(), (HEADERS_KEPT,))
    old, new = dict(headers(before)[1]), dict(headers(after)[1])
    note, grown = ".note.gnu.build-id", 2 * 56
    assert new[note]["sh_addr"] == int(str(old[note]["sh_addr"])) + grown
    places = [int(str(new[name]["sh_addr"])) for name in (".gnu.hash", ".dynsym", ".sframe")]
    [load] = [one for one in headers(after)[0] if one["p_type"] == "PT_LOAD" and one["p_vaddr"] == places[0]]
    assert places == sorted(places)
    assert load["p_filesz"] == report.address + SIZE - places[0]
    for name, tag in ((".gnu.hash", "DT_GNU_HASH"), (".dynsym", "DT_SYMTAB")):
        (value,) = struct.unpack_from("<Q", after.read_bytes(), value_at(after, tag))
        assert value == new[name]["sh_addr"]


def test_a_note_that_is_repeated_gives_its_program_header(built: Built, tmp_path: Path) -> None:
    before, after = built(DEBUG), tmp_path / "program"
    write_by_engines(before, after, sframe(), (HEADERS_KEPT,))
    (old, _), (new, sections) = headers(before), headers(after)
    assert [len([one for one in some if one["p_type"] == "PT_NOTE"]) for some in (old, new)] == [2, 1]
    assert len(new) == len(old) + 1
    [shown] = [one for one in new if one["p_type"] == "PT_GNU_PROPERTY"]
    assert shown["p_vaddr"] == dict(sections)[".note.gnu.property"]["sh_addr"]


def test_symbols_of_sections_follow_them(built: Built, tmp_path: Path) -> None:
    before, after = built(RELOCS), tmp_path / "program"
    write_by_engines(before, after, sframe(), (HEADERS_KEPT,))
    sections, data = headers(after)[1], after.read_bytes()
    table = dict(sections)[".symtab"]
    start, size = int(str(table["sh_offset"])), int(str(table["sh_size"]))
    symbols = [struct.unpack_from("<IBBHQQ", data, start + place) for place in range(0, size, 24)]
    of_sections = [(index, value) for _, info, _, index, value, _ in symbols if info == 3 and index]
    names = {sections[index][0] for index, _ in of_sections}
    assert {".interp", ".note.gnu.property"} <= names
    loaded = [(index, value) for index, value in of_sections if sections[index][1]["sh_addr"]]
    assert loaded == [(index, sections[index][1]["sh_addr"]) for index, _ in loaded]


def test_a_symbol_in_a_note_keeps_it_where_it_is(built: Built, tmp_path: Path) -> None:
    program = built("gcc -static-pie")
    assert ".note.ABI-tag" in write_by_engines(program, tmp_path / "kept", sframe(), (HEADERS_KEPT,)).moved
    # That symbol is known, and is at the note's start; any other may be read by the program's code.
    table = dict(headers(program)[1])[".symtab"]
    place = int(str(table["sh_offset"])) + 2 * struct.calcsize("<IBBHQQ") + 8
    (value,) = struct.unpack_from("<Q", program.read_bytes(), place)
    other = patched(program, tmp_path / "other", (place, "Q", value + 4))
    moves_the_headers(other, tmp_path / "out", "symbol[2]: is in .note.ABI-tag, which is in the way")


START = '__asm__(".section SECTION, \\"ax\\"\\n.globl _start\\n_start: mov $60, %eax\\nmov $5, %edi\\nsyscall");'


@pytest.mark.parametrize("name", [".init", ".text"])
def test_code_in_the_way_does_not_move(name: str, built: Built, tmp_path: Path) -> None:
    command = "gcc -static -nostdlib -s -Wl,--build-id=none,-z,noseparate-code"
    moves_the_headers(
        built(command, START.replace("SECTION", name)), tmp_path / "out", f"e_phoff: {name} is in the way"
    )
    assert run(tmp_path / "out") == (5, "")


def test_bytes_of_no_section_do_not_move(built: Built, tmp_path: Path) -> None:
    """.interp has 28 bytes, and what follows is aligned to 8: two unowned bytes, one of them in the way."""
    before = patched(built(DEBUG), tmp_path / "before", (in_section(".interp", 29)(built(DEBUG)), "B", 1))
    moves_the_headers(before, tmp_path / "out", "e_phoff: bytes that belong to no section are in the way")
    assert run(tmp_path / "out", "operand")[0] == 3


@pytest.mark.parametrize(("tag", "name"), [("DT_GNU_HASH", ".gnu.hash"), ("DT_SYMTAB", ".dynsym")])
def test_a_dynamic_entry_that_says_otherwise_keeps_its_section(
    tag: str, name: str, built: Built, tmp_path: Path
) -> None:
    library = built(SHARED, LIBRARY)
    (value,) = struct.unpack_from("<Q", library.read_bytes(), value_at(library, tag))
    before = patched(library, tmp_path / "before", (value_at(library, tag), "Q", value + 8))
    moves_the_headers(before, tmp_path / "out", f"PT_DYNAMIC: does not refer to {name}, which is in the way")


def test_a_section_of_another_kind_does_not_move(built: Built, tmp_path: Path) -> None:
    library = built(SHARED, LIBRARY)
    before = patched(library, tmp_path / "before", (section_at(library, ".gnu.hash") + 4, "I", 1))  # SHT_PROGBITS
    moves_the_headers(before, tmp_path / "out", "e_phoff: .gnu.hash is in the way")


def test_a_section_with_a_larger_alignment_than_a_page_does_not_move(built: Built, tmp_path: Path) -> None:
    program = built(DEBUG)
    place = section_at(program, ".note.gnu.property") + 48
    before = patched(program, tmp_path / "before", (place, "Q", 1 << 62))
    moves_the_headers(before, tmp_path / "out", "e_phoff: .note.gnu.property is in the way")
