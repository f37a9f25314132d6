"""Files that got a loaded section still run as they did, and the check sees every kind of damage.

Strategy: programs compiled here and the system's own get a section whose words are its own addresses. The compiled ones
look for it through dl_iterate_phdr, so the program headers, the mapping and the bytes are proved by the kernel and
ld.so. The check is then held against results that were damaged in one place each.
"""

from __future__ import annotations

import functools
import os
import random
import re
import shutil
import struct
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from unwindkit.schemas.section import BuildError, FormatError, ParseError
from unwindkit.writers.elf import LoadedSection, WriteReport, write_section
from unwindkit.writers.elf_check import ExpectedSection, check_added

SHT_GNU_SFRAME, PT_GNU_SFRAME = 0x6FFFFFF4, 0x6474E554
SIZE = 5000

# Prints "section ADDRESS WORD": what PT_GNU_SFRAME says, and the first eight bytes that are mapped there.
PROGRAM = r"""
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __cplusplus
#include <stdexcept>
struct Guard { ~Guard() { puts("unwound"); } };
__attribute__((noinline)) int thrower(int n) { Guard guard; if (n) throw std::runtime_error("caught"); return n; }
#define THROW try { thrower(argc); } catch (const std::exception &error) { puts(error.what()); }
#else
#define THROW
#endif
__thread int in_tls = 7;
static char in_bss[70000];
static const char *message = "constructor";
static int descending(const void *a, const void *b) { return *(const int *)b - *(const int *)a; }
static int found(struct dl_phdr_info *info, size_t size, void *data) {
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == 0x6474e554) {
            unsigned long address = info->dlpi_phdr[i].p_vaddr;
            printf("section %#lx %#lx\n", address, *(unsigned long *)(info->dlpi_addr + address));
        }
    return 0;
}
__attribute__((constructor)) static void before_main(void) { puts(message); }
int main(int argc, char **argv) {
    int values[] = {3, 9, 5, 1}, sum = 0, option;
    qsort(values, 4, sizeof *values, descending);
    for (size_t i = 0; i < sizeof in_bss; i++) sum += in_bss[i];
    char *heap = (char *)malloc(1 << 20);
    memset(heap, 1, 1 << 20);
    /* optind is copied into the program: with a wrong .gnu.hash there are two of them. */
    while ((option = getopt(argc, argv, "a:")) != -1) printf("option %c %s\n", option, optarg);
    printf("%s %d%d%d%d %d %d %d\n", argv[optind], values[0], values[1], values[2], values[3], in_tls, sum, heap[99]);
    THROW;
    dl_iterate_phdr(found, NULL);
    return 3;
}
"""
OLDER = '__attribute__((section(".older"))) const char older[200] = "old";\n' + PROGRAM
DEBUG, CXX = "gcc -O2 -g", "g++ -O2 -g"
BUILDS = [
    "gcc -O0", DEBUG, "gcc -O2 -s", CXX, "g++ -static", "gcc -no-pie -O1", "gcc -no-pie -g", "gcc -no-pie -s",
    "gcc -static", "gcc -static -g", "gcc -static-pie", "gcc -static -Wl,-z,noseparate-code", "gcc -Wl,-z,now",
    "gcc -Wl,-z,lazy,-z,norelro", "gcc -g -Wl,--emit-relocs", "gcc -Wl,--hash-style=sysv",
    "gcc -Wl,-z,pack-relative-relocs", "gcc -Wl,-z,max-page-size=0x200000,-z,separate-code",
]  # fmt: skip
WITHOUT_GAP = ["gcc -Wl,-z,noseparate-code", "gcc -no-pie -Wl,-z,noseparate-code"]
LIBRARY = """
#include <stdio.h>
int state = 5;
__attribute__((constructor)) static void loaded(void) { fputs("loaded\\n", stderr); }
int doubled(int value) { return value * 2 + state; }
"""


def words(address: int, size: int = SIZE) -> bytes:
    """Each eight bytes are the address they stand at."""
    return b"".join(struct.pack("<Q", address + 8 * index) for index in range(size // 8 + 1))[:size]


def sframe(size: int = SIZE, name: str = ".sframe") -> LoadedSection:
    return LoadedSection(name, SHT_GNU_SFRAME, PT_GNU_SFRAME, size, lambda address: words(address, size))


def expected(report: WriteReport, size: int = SIZE, name: str = ".sframe") -> ExpectedSection:
    return ExpectedSection(name, SHT_GNU_SFRAME, PT_GNU_SFRAME, report.address, words(report.address, size), 8)


def run(*command: object, **environment: str) -> tuple[int, str]:
    """Exit status and both outputs; LC_ALL=C."""
    env = {**os.environ, "LC_ALL": "C", **environment}
    texts = [str(one) for one in command]
    done = subprocess.run(texts, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, timeout=120, check=False)
    return done.returncode, done.stdout.decode(errors="replace")


def tool(name: str, *arguments: object) -> str:
    """Output of a program of the toolchain; the test is skipped where it is absent."""
    if shutil.which(name) is None:
        pytest.skip(f"there is no {name} here")
    status, text = run(name, *arguments)
    assert status == 0, text
    return text


def headers(path: Path) -> tuple[list[dict[str, object]], list[tuple[str, dict[str, object]]]]:
    with path.open("rb") as file:
        elf = ELFFile(file)
        segments = [dict(one.header) for one in elf.iter_segments()]
        return segments, [(one.name, dict(one.header)) for one in elf.iter_sections()]


Built = Callable[..., Path]


@pytest.fixture(scope="session", name="built")
def _built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Compile a source by a command, once for each pair."""
    folder = tmp_path_factory.mktemp("built")

    @functools.cache
    def build(command: str, source: str = PROGRAM) -> Path:
        path = folder / str(len(list(folder.iterdir())))
        compiler, *flags = command.split()
        code = path.with_suffix(".cc" if compiler == "g++" else ".c")
        code.write_text(source)
        tool(compiler, "-D_GNU_SOURCE", *flags, code, "-o", path)
        return path

    return build


@pytest.mark.parametrize("build", BUILDS)
def test_program_runs_as_before_and_finds_the_section(build: str, built: Built, tmp_path: Path) -> None:
    before, after = built(build), tmp_path / "program"
    report = write_section(before, after, sframe())
    status, text = run(after, "-a", "x", "operand")
    line = f"section {report.address:#x} {report.address:#x}\n"
    assert (report.engine, report.replaced) == ("lief", ())
    assert line in text
    assert (status, text.replace(line, "")) == run(before, "-a", "x", "operand")


@pytest.mark.parametrize("build", WITHOUT_GAP)
def test_where_there_is_no_gap_nothing_is_written(build: str, built: Built, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="no gap between loadable segments"):
        write_section(built(build), tmp_path / "program", sframe())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("build", ["gcc -shared -fPIC -g", "gcc -shared -fPIC -s -Wl,-soname,libx.so"])
def test_library_is_loaded_by_dlopen_and_by_preload(build: str, built: Built, tmp_path: Path) -> None:
    library = tmp_path / "libx.so"
    write_section(built(build, LIBRARY), library, sframe())
    call = f"import ctypes; print(ctypes.CDLL({str(library)!r}).doubled(4))"
    assert run("python3", "-c", call) == (0, "loaded\n13\n")
    assert run("/bin/echo", "hi", LD_PRELOAD=str(library)) == (0, "loaded\nhi\n")


# $F is the file, $D its folder, $X a C++ program.
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


@pytest.mark.parametrize("path", SYSTEM)
def test_system_file_works_as_before(path: str, built: Built, tmp_path: Path) -> None:
    original, folder = Path(path), tmp_path / "lib"
    if not original.exists():
        pytest.skip(f"there is no {path} here")
    (tmp_path / "original").mkdir()
    folder.mkdir()
    shutil.copy(original, tmp_path / "original" / original.name)
    report = write_section(original, folder / original.name, sframe(20000))
    assert report.engine == "lief"
    program = str(built(CXX)) if "libstdc++" in path else ""
    for line in SYSTEM[path]:
        results = []
        for place in (tmp_path / "original", folder):
            status, text = run("/bin/bash", "-c", line, F=str(place / original.name), D=str(place), X=program)
            lines = [one for one in text.splitlines() if not one.startswith("section ")]
            results.append((status, [one.replace(str(place), "$D") for one in lines]))
        assert results[0] == results[1], line
        assert results[0][1] != []


def test_debug_information_still_fits(built: Built, tmp_path: Path) -> None:
    before, after = built(DEBUG), tmp_path / "program"
    write_section(before, after, sframe())
    symbols = {line.split()[-1]: line.split()[0] for line in tool("nm", after).splitlines()}
    assert tool("nm", before) == tool("nm", after)
    where = tool("addr2line", "-fe", after, symbols["descending"])
    assert where == tool("addr2line", "-fe", before, symbols["descending"])
    assert where.startswith("descending\n")
    assert "??" not in where
    stop = ("-batch", "-ex", "break descending", "-ex", "run operand", "-ex", "bt")
    assert "in main (argc=2" in tool("gdb", *stop, after)


def test_readelf_shows_section_and_segment(built: Built, tmp_path: Path) -> None:
    after = tmp_path / "program"
    report = write_section(built(DEBUG), after, sframe())
    text = tool("readelf", "-lSW", after)
    [line] = [one for one in text.splitlines() if "] .sframe " in one]
    # readelf before 2.45 knows neither type's name.
    assert "GNU_SFRAME" in line or "LOOS+0xffffff4" in line
    assert f"{report.address:016x} {report.file_offset:06x} {SIZE:06x} 00   A  0   0  8" in line
    assert "GNU_SFRAME" in text or "LOOS+0x474e554" in text
    assert "Warning" not in text


def test_no_section_index_changes_and_the_new_one_is_last(built: Built, tmp_path: Path) -> None:
    before, after = built("gcc -g -Wl,--emit-relocs"), tmp_path / "program"
    write_section(before, after, sframe())
    (_, old), (_, new) = headers(before), headers(after)
    assert [name for name, _ in new] == [*(name for name, _ in old), ".sframe"]
    kept = ("sh_type", "sh_addr", "sh_size", "sh_link", "sh_info", "sh_entsize", "sh_addralign")
    assert [[header[key] for key in kept] for name, header in old if name != ".shstrtab"] == [
        [header[key] for key in kept] for name, header in new if name not in (".shstrtab", ".sframe")
    ]


# --- replacing ---


def test_second_write_is_in_place_and_lengths_may_change(built: Built, tmp_path: Path) -> None:
    program = tmp_path / "program"
    first = write_section(built(DEBUG), program, sframe(3000))
    for size, older in ((3000, 3000), (100, 3000), (3000, 100), (90000, 3000), (50, 90000)):
        before = tmp_path / "before"
        shutil.copy(program, before)
        report = write_section(program, program, sframe(size))
        assert report == replace(first, engine="in place", replaced=(older,))
        assert check_added(before, program, expected(report, size)) == ()
        assert f"section {report.address:#x} {report.address:#x}\n" in run(program, "operand")[1]
        assert [name for name, _ in headers(program)[1]].count(".sframe") == 1
    assert "descending" in tool("addr2line", "-fe", program, tool("nm", program).split(" t descending")[0].split()[-1])


def test_same_input_gives_same_bytes_and_again_itself(built: Built, tmp_path: Path) -> None:
    one, two, again = tmp_path / "one", tmp_path / "two", tmp_path / "again"
    write_section(built(DEBUG), one, sframe())
    write_section(built(DEBUG), two, sframe())
    write_section(one, again, sframe())
    assert one.read_bytes() == two.read_bytes() == again.read_bytes()


def patched(path: Path, out: Path, *edits: tuple[int, str, int]) -> Path:
    """A copy with fields changed: (file offset, struct format, value)."""
    data = bytearray(path.read_bytes())
    for offset, form, value in edits:
        struct.pack_into("<" + form, data, offset, value)
    shutil.copymode(path, shutil.copy(path, out))
    out.write_bytes(data)
    return out


def section_at(path: Path, name: str, occurrence: int = 0) -> int:
    """File offset of a section header."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        indices = [index for index, one in enumerate(elf.iter_sections()) if one.name == name]
        return int(elf.header["e_shoff"]) + 64 * indices[occurrence]


def segment_at(path: Path, kind: str | int, occurrence: int = 0) -> int:
    """File offset of a program header."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        indices = [index for index, one in enumerate(elf.iter_segments()) if one.header["p_type"] == kind]
        return int(elf.header["e_phoff"]) + 56 * indices[occurrence]


def test_section_without_segment_is_replaced_at_its_index(built: Built, tmp_path: Path) -> None:
    before, after = built("gcc -O1", OLDER), tmp_path / "program"
    report = write_section(before, after, sframe(100, ".older"))
    names = [name for name, _ in headers(before)[1]]
    assert report.engine == "lief"
    assert report.replaced == (200,)
    assert [name for name, _ in headers(after)[1]] == names
    assert headers(after)[1][names.index(".older")][1]["sh_addr"] == report.address
    assert f"section {report.address:#x} {report.address:#x}\n" in run(after, "operand")[1]
    offset = int(str(headers(before)[1][names.index(".older")][1]["sh_offset"]))
    assert after.read_bytes()[offset : offset + 200] == bytes(200)


def test_empty_section_is_replaced(built: Built, tmp_path: Path) -> None:
    program = built("gcc -O1", OLDER)
    before = patched(program, tmp_path / "before", (section_at(program, ".older") + 32, "Q", 0))
    report = write_section(before, tmp_path / "program", sframe(name=".older"))
    assert report.replaced == (0,)
    assert check_added(before, tmp_path / "program", expected(report, name=".older")) == ()


@pytest.mark.parametrize(("size", "engine"), [(200, "in place"), (10, "in place"), (201, "lief")])
def test_section_among_others_is_overwritten_if_it_has_room(
    size: int, engine: str, built: Built, tmp_path: Path
) -> None:
    program = built("gcc -O1", OLDER)
    # A PT_NOTE becomes the segment, longer than the section as GNU ld 2.45 makes it; the address must be aligned.
    _, sections = headers(program)
    address = dict(sections)[".older"]["sh_addr"]
    at = segment_at(program, "PT_NOTE")
    edits = [(at, "I", PT_GNU_SFRAME), (at + 8, "Q", address), (at + 16, "Q", address), (at + 32, "Q", 300)]
    before, after = patched(program, tmp_path / "before", *edits), tmp_path / "program"  # type: ignore[arg-type]
    report = write_section(before, after, sframe(size, ".older"))
    assert (report.engine, report.replaced) == (engine, (200,))
    assert f"section {report.address:#x} {report.address:#x}\n" in run(after, "operand")[1]
    assert [one["p_filesz"] for one in headers(after)[0] if one["p_type"] == PT_GNU_SFRAME] == [size]


def test_several_sections_of_the_name_become_one(built: Built, tmp_path: Path) -> None:
    program = built("gcc -O1", OLDER)
    first = tmp_path / "first"
    tool("objcopy", "--rename-section", ".older=.sframe", "--rename-section", ".comment=.sframe", program, first)
    after = tmp_path / "after"
    report = write_section(first, after, sframe())
    assert len(report.replaced) == 2
    assert [name for name, _ in headers(after)[1]].count(".sframe") == 1
    assert len(headers(after)[1]) == len(headers(first)[1])
    assert f"section {report.address:#x}" in run(after, "operand")[1]


def test_section_that_objcopy_added_unloaded_is_replaced(built: Built, tmp_path: Path) -> None:
    before, raw = tmp_path / "before", tmp_path / "raw"
    raw.write_bytes(b"x" * 77)
    tool("objcopy", "--add-section", f".sframe={raw}", built(DEBUG), before)
    report = write_section(before, tmp_path / "program", sframe())
    assert (report.engine, report.replaced) == ("lief", (77,))
    assert f"section {report.address:#x}" in run(tmp_path / "program", "operand")[1]


# --- files ---


def test_owner_mode_links_and_appended_data_are_kept(built: Built, tmp_path: Path) -> None:
    before, target, link = tmp_path / "before", tmp_path / "target", tmp_path / "folder" / "link"
    before.write_bytes(built("gcc -no-pie -O1").read_bytes() + b"appended archive")
    before.chmod(0o4555)
    target.write_text("old")
    link.parent.mkdir()
    link.symlink_to("../target")
    content, written = before.read_bytes(), before.stat().st_mtime_ns
    write_section(before, link, sframe())
    assert (link.is_symlink(), target.is_symlink()) == (True, False)
    assert target.stat().st_mode & 0o7777 == 0o4555
    assert target.read_bytes().endswith(b"appended archive")
    assert (before.read_bytes(), before.stat().st_mtime_ns) == (content, written)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["before", "folder", "target"]
    assert [one.name for one in link.parent.iterdir()] == ["link"]


def test_file_is_replaced_in_place(built: Built, tmp_path: Path) -> None:
    program = tmp_path / "program"
    shutil.copy(built("gcc -O0"), program)
    report = write_section(program, program, sframe())
    assert f"section {report.address:#x}" in run(program, "operand")[1]


def raising(address: int) -> bytes:
    raise KeyError(address)


def test_failure_leaves_the_destination_alone(built: Built, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("old")
    cases: list[tuple[LoadedSection, type[Exception]]] = [
        (replace(sframe(), content=raising), KeyError),
        (replace(sframe(), content=lambda _: b"short"), BuildError),
        (replace(sframe(), size=0), BuildError),
    ]
    for section, error in cases:
        with pytest.raises(error):
            write_section(built("gcc -O0"), target, section)
        assert target.read_text() == "old"
        assert list(tmp_path.iterdir()) == [target]
    with pytest.raises(BuildError, match="is not a regular file"):
        write_section(built("gcc -O0"), tmp_path, sframe())


def unsuitable(kind: str, program: Path, folder: Path) -> Path:
    path = folder / "input"
    if kind == "text":
        path.write_text("#!/bin/sh\n")
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "truncated":
        path.write_bytes(program.read_bytes()[:-100])
    elif kind == "object":
        (folder / "input.c").write_text("int x;")
        tool("gcc", "-c", folder / "input.c", "-o", path)
    elif kind == "debug file":
        tool("objcopy", "--only-keep-debug", program, path)
    else:
        edits = {"core": (16, "H", 4), "ELF32": (4, "B", 1), "no sections": (40, "Q", 0), "many": (60, "H", 0)}
        patched(program, path, edits[kind])
    return path


@pytest.mark.parametrize(
    ("kind", "error", "reason"),
    [
        ("text", ParseError, "is not an ELF file"),
        ("empty", ParseError, "is not an ELF file"),
        ("truncated", ParseError, "leaves the file"),
        ("object", BuildError, "is a relocatable file"),
        ("core", BuildError, "is a core file"),
        ("ELF32", BuildError, "is ELF32"),
        ("no sections", BuildError, "no section header table"),
        ("many", BuildError, "more headers than"),
        ("debug file", BuildError, "separate debug file"),
    ],
)
def test_unsuitable_input_is_refused_with_its_reason(
    kind: str, error: type[FormatError], reason: str, built: Built, tmp_path: Path
) -> None:
    path = unsuitable(kind, built(DEBUG), tmp_path)
    with pytest.raises(error, match=reason):
        write_section(path, tmp_path / "out", sframe())
    assert not (tmp_path / "out").exists()


def test_damaged_headers_end_in_a_format_error_or_in_a_checked_file(built: Built, tmp_path: Path) -> None:
    good, out = built("gcc -O0").read_bytes(), tmp_path / "out"
    phoff, shoff = struct.unpack_from("<QQ", good, 32)
    for seed in range(150):
        chance, data = random.Random(seed), bytearray(good)
        start, count = chance.choice([(0, 8), (phoff, 13 * 7), (shoff, 30 * 8)])
        value = chance.choice([0, 1, 1 << 63, (1 << 64) - 1, len(good), chance.randrange(len(good))])
        struct.pack_into("<Q", data, start + 8 * chance.randrange(count), value)
        (tmp_path / "damaged").write_bytes(data)
        try:
            report = write_section(tmp_path / "damaged", out, sframe())
        except FormatError:
            assert not out.exists()
        else:
            assert check_added(tmp_path / "damaged", out, expected(report)) == ()
            out.unlink()


# --- the check: (what is damaged, where, what the fault must say) ---


def in_section(name: str, offset: int = 0) -> Callable[[Path], int]:
    return lambda path: int(str(dict(headers(path)[1])[name]["sh_offset"])) + offset


def in_header(name: str, field: int) -> Callable[[Path], int]:
    return lambda path: section_at(path, name) + field


def in_segment(kind: str | int, field: int, occurrence: int = 0) -> Callable[[Path], int]:
    return lambda path: segment_at(path, kind, occurrence) + field


DAMAGE: dict[str, tuple[Callable[[Path], int], str, int, str]] = {
    "code": (in_section(".text", 40), "B", 0xCC, r"\.text: bytes differ from 0x28"),
    "data": (in_section(".data"), "B", 0xCC, r"\.data: bytes differ"),
    "symbol": (in_section(".symtab", 24 * 9 + 8), "Q", 0x77, r"\.symtab: bytes differ .* in entry 9"),
    "dynamic symbol": (in_section(".dynsym", 24 + 8), "Q", 0x77, r"\.dynsym: bytes differ .* in entry 1"),
    "symbol version": (in_section(".gnu.version", 4), "H", 9, r"\.gnu\.version: bytes differ"),
    "hash": (in_section(".gnu.hash", 4), "I", 9, r"\.gnu\.hash: bytes differ"),
    "dynamic entry": (in_section(".dynamic", 8), "Q", 0x77, r"\.dynamic: bytes differ"),
    "relocation": (in_section(".rela.dyn", 16), "Q", 0x77, r"\.rela\.dyn: bytes differ"),
    "build id": (in_section(".note.gnu.build-id", 16), "I", 0x77, r"\.note\.gnu\.build-id: bytes differ"),
    "debug information": (in_section(".debug_info", 20), "I", 0x77777777, r"\.debug_info: bytes differ"),
    "interpreter": (in_section(".interp", 3), "B", 0x77, r"PT_INTERP .*: the file's bytes differ"),
    "machine": (lambda _: 18, "H", 183, "e_machine is EM_AARCH64"),
    "section's address": (in_header(".bss", 16), "Q", 0x77, r"\.bss: sh_addr is 0x77"),
    "section's name": (in_header(".plt", 0), "I", 0, r"\.plt: is now "),
    "section's place": (in_header(".comment", 24), "Q", 0x40, r"\.comment: bytes differ"),
    "PT_LOAD moved": (in_segment("PT_LOAD", 16, 1), "Q", 0x9000, "PT_LOAD at 0x1000: is missing"),
    "PT_LOAD misplaced": (in_segment("PT_LOAD", 8, 1), "Q", 0x1008, "p_offset 0x1008 differ modulo p_align"),
    "PT_LOAD shorter": (in_segment("PT_LOAD", 32, 3), "Q", 0x10, "hold more or less than before"),
    "PT_LOAD over the next": (in_segment("PT_LOAD", 40, 0), "Q", 0x1800, "overlap or are not in order"),
    "PT_LOAD writable": (in_segment("PT_LOAD", 4, 1), "I", 7, "p_flags is 0x7, was 0x5"),
    "stack": (in_segment("PT_GNU_STACK", 4), "I", 7, "PT_GNU_STACK .*p_flags is 0x7"),
    "TLS": (in_segment("PT_TLS", 16), "Q", 8, "PT_TLS .*p_vaddr is 0x8"),
    "dynamic segment": (in_segment("PT_DYNAMIC", 0), "I", 0, "PT_DYNAMIC .*p_type is PT_NULL"),
    "PT_PHDR": (in_segment("PT_PHDR", 16), "Q", 0x40, "PT_PHDR: p_vaddr is 0x40, should be"),
    "new bytes": (in_section(".sframe", 8), "B", 0x77, "not those that were given"),
    "new size": (in_header(".sframe", 32), "Q", SIZE + 8, r"new \.sframe: sh_size is 0x1390, should be 0x1388"),
    "new type": (in_header(".sframe", 4), "I", 1, r"new \.sframe: sh_type is SHT_PROGBITS, should be 0x6ffffff4"),
    "new segment missing": (in_segment(PT_GNU_SFRAME, 0), "I", 0, "1 sections and 0 segments"),
    "new PT_LOAD unreadable": (in_segment("PT_LOAD", 4, 4), "I", 6, "its PT_LOAD is not read-only"),
    "new PT_LOAD's alignment": (in_segment("PT_LOAD", 48, 4), "Q", 8, "p_align 0x8 is no page size"),
    "new PT_LOAD missing": (in_segment("PT_LOAD", 0, 4), "I", 0, "no PT_LOAD maps"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_check_reports_damage(damage: str, built: Built, tmp_path: Path) -> None:
    before, good = built(DEBUG), tmp_path / "good"
    report = write_section(before, good, sframe())
    assert check_added(before, good, expected(report)) == ()
    place, form, value, fault = DAMAGE[damage]
    bad = patched(good, tmp_path / "bad", (place(good), form, value))
    assert any(re.search(fault, one) for one in check_added(before, bad, expected(report)))


def test_check_watches_every_field_of_every_header(built: Built, tmp_path: Path) -> None:
    before, good = built(DEBUG), tmp_path / "good"
    report = write_section(before, good, sframe())
    phoff, shoff = struct.unpack_from("<QQ", good.read_bytes(), 32)
    segments, sections = headers(good)
    fields = [0, 4, 16, 18, 20, 24, 32, 40, 48, 52, 54, 56, 58, 60, 62]
    fields += [phoff + 56 * index + field for index in range(len(segments)) for field in (0, 4, 8, 16, 24, 32, 40, 48)]
    in_one_section = (0, 4, 8, 16, 24, 32, 40, 44, 48, 56)
    fields += [shoff + 64 * index + field for index in range(len(sections)) for field in in_one_section]
    # Names may be followed by other bytes in their table.
    fields.remove(section_at(good, ".shstrtab") + 32)
    data, bad, missed = bytearray(good.read_bytes()), tmp_path / "bad", []
    bad.write_bytes(data)
    bad.chmod(good.stat().st_mode)
    for offset in fields:
        with bad.open("r+b") as file:
            for value in (data[offset] ^ 1, data[offset]):
                file.seek(offset)
                file.write(bytes([value]))
                file.flush()
                if value != data[offset] and not check_added(before, bad, expected(report)):
                    missed.append(offset)
    assert missed == []


def test_check_reports_mode_length_and_lost_ends(built: Built, tmp_path: Path) -> None:
    before, good = tmp_path / "before", tmp_path / "good"
    before.write_bytes(built(DEBUG).read_bytes() + b"appended")
    report = write_section(before, good, sframe())
    bad = tmp_path / "bad"
    bad.write_bytes(good.read_bytes()[:-1] + b"!")
    bad.chmod(0o600)
    faults = check_added(before, bad, expected(report))
    assert any("the last 8 bytes" in one for one in faults)
    assert any("the file's mode is 100600" in one for one in faults)
    bad.write_bytes(b"no ELF file")
    assert check_added(before, bad, expected(report)) == ("the result cannot be read: Magic number does not match",)


def test_check_refuses_what_lief_makes_by_itself(built: Built, tmp_path: Path) -> None:
    import lief

    before, after = built(DEBUG), tmp_path / "program"
    binary = lief.ELF.parse(before)
    assert binary is not None
    section = lief.ELF.Section(".sframe")
    section.flags = 2  # SHF_ALLOC
    section.content = memoryview(bytes(SIZE))
    added = binary.add(section)
    assert added is not None
    binary.write(str(after))
    wanted = ExpectedSection(".sframe", 1, PT_GNU_SFRAME, added.virtual_address, bytes(SIZE), 8)
    faults = check_added(before, after, wanted)
    assert any(".text: sh_addr is" in one for one in faults)
    assert any("mode" in one for one in faults)
