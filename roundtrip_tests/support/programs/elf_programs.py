"""Programs that print what is mapped for them, and functions to find and change a field or a byte of an ELF file.

Strategy: the programs get a section whose words are its own addresses, and look for it through dl_iterate_phdr, so the
kernel and ld.so verify the program headers, the mapping and the bytes. GNU gcc and ld of the system build them;
what moves to make space, and what is in the way, is listed here for each build.
"""

from __future__ import annotations

import functools
import os
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile
from unwindkit.writers.elf.add import HEADERS_KEPT, HEADERS_MOVED, LIEF, WriteReport
from unwindkit.writers.elf.checks.added import ExpectedSection
from unwindkit.writers.elf.engines.plan import LoadedSection

from ..oracles import absent

SHT_GNU_SFRAME, PT_GNU_SFRAME = 0x6FFFFFF4, 0x6474E554
SIZE = 5000
# Those that need no older section.
ENGINES = (HEADERS_KEPT, HEADERS_MOVED, LIEF)

# Prints "section ADDRESS WORD": the address in PT_GNU_SFRAME, and the first eight bytes mapped there. If ABORTS
# is defined, the option -x makes it abort.
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
#ifdef ABORTS
__attribute__((noinline)) static int aborts(int depth) {
    if (depth == 0) abort();
    return aborts(depth - 1) + in_bss[depth];
}
#define ABORT if (option == 'x') sum += aborts(2);
#else
#define ABORT
#endif
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
    while ((option = getopt(argc, argv, "a:x")) != -1) { ABORT printf("option %c %s\n", option, optarg); }
    printf("%s %d%d%d%d %d %d %d\n", argv[optind], values[0], values[1], values[2], values[3], in_tls, sum, heap[99]);
    THROW;
    dl_iterate_phdr(found, NULL);
    return 3;
}
"""
OLDER = '__attribute__((section(".older"))) const char older[200] = "old";\n' + PROGRAM
LIBRARY = """
#include <stdio.h>
int state = 5;
__attribute__((constructor)) static void loaded(void) { fputs("loaded\\n", stderr); }
int doubled(int value) { return value * 2 + state; }
"""

DEBUG, CXX, RELOCS = "gcc -O2 -g", "g++ -O2 -g", "gcc -g -Wl,--emit-relocs"
# What moves if the program headers stay.
MOVED = dict.fromkeys(
    ["gcc -O0", DEBUG, "gcc -O2 -s", CXX, "gcc -no-pie -O1", "gcc -no-pie -g", "gcc -no-pie -s", "gcc -Wl,-z,now",
     "gcc -Wl,-z,lazy,-z,norelro", RELOCS, "gcc -Wl,--hash-style=sysv", "gcc -Wl,-z,pack-relative-relocs",
     "gcc -Wl,-z,max-page-size=0x200000,-z,separate-code", "gcc -Wl,-z,noseparate-code",
     "gcc -no-pie -Wl,-z,noseparate-code"],
    (".interp", ".note.gnu.property"),
) | dict.fromkeys(
    ["gcc -static-pie", "gcc -static-pie -s"],
    (".note.gnu.property", ".note.gnu.build-id", ".note.ABI-tag", ".gnu.hash"),
)  # fmt: skip
# What is in their way.
IN_THE_WAY = dict.fromkeys(
    ["g++ -static", "gcc -static", "gcc -static -g", "gcc -static -s", "gcc -static -Wl,-z,noseparate-code"],
    "e_phoff: .rela.plt is in the way",
)
BUILDS = (*MOVED, *IN_THE_WAY)
# lief needs a gap between two PT_LOADs.
WITHOUT_GAP = ("gcc -Wl,-z,noseparate-code", "gcc -no-pie -Wl,-z,noseparate-code")
SHARED, SHARED_MOVES = "gcc -shared -fPIC -g", (".note.gnu.build-id", ".gnu.hash", ".dynsym")


def words(address: int, size: int = SIZE, order: str = "<") -> bytes:
    """Each eight bytes are their own address."""
    return b"".join(struct.pack(order + "Q", address + 8 * index) for index in range(size // 8 + 1))[:size]


def sframe(size: int = SIZE, name: str = ".sframe", order: str = "<") -> LoadedSection:
    return LoadedSection(name, SHT_GNU_SFRAME, PT_GNU_SFRAME, size, lambda address: words(address, size, order))


def expected(
    before: Path, report: WriteReport, size: int = SIZE, name: str = ".sframe", order: str = "<"
) -> ExpectedSection:
    """The check's arguments for a result: the moved sections are those of the report."""
    moved = tuple(index for index, (found, _) in enumerate(headers(before)[1]) if found in report.moved)
    data = words(report.address, size, order)
    return ExpectedSection(name, SHT_GNU_SFRAME, PT_GNU_SFRAME, report.address, data, 8, moved)


def line_of(report: WriteReport) -> str:
    """The program's output if the section is correct."""
    return f"section {report.address:#x} {report.address:#x}\n"


def run(*command: object, **environment: str) -> tuple[int, str]:
    """Exit status and both outputs; LC_ALL=C."""
    env = {**os.environ, "LC_ALL": "C", **environment}
    texts = [str(one) for one in command]
    done = subprocess.run(texts, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, timeout=120, check=False)
    return done.returncode, done.stdout.decode(errors="replace")


def tool(name: str, *arguments: object) -> str:
    """Output of a program of the toolchain, which must exist."""
    if shutil.which(name) is None:
        absent(f"there is no {name} here")
    status, text = run(name, *arguments)
    assert status == 0, text
    return text


Built = Callable[..., Path]


def builder(folder: Path) -> Built:
    """A function that compiles a source by a command into `folder`, once for each pair."""

    @functools.cache
    def build(command: str, source: str = PROGRAM) -> Path:
        path = folder / str(len(list(folder.iterdir())))
        compiler, *flags = command.split()
        code = path.with_suffix(".cc" if compiler.endswith("g++") else ".c")
        code.write_text(source)
        tool(compiler, "-D_GNU_SOURCE", *flags, code, "-o", path)
        return path

    return build


@pytest.fixture(scope="session", name="built")
def built_fixture(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The function of `builder`, for the session."""
    return builder(tmp_path_factory.mktemp("built"))


# --- places in a file: all are file offsets -------------------------------------------------------------------

Place = Callable[[Path], int]


def headers(path: Path) -> tuple[list[dict[str, Any]], list[tuple[str, dict[str, Any]]]]:
    """Program headers, and section headers with their names."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        segments = [dict(one.header) for one in elf.iter_segments()]
        return segments, [(one.name, dict(one.header)) for one in elf.iter_sections()]


def index_of(path: Path, name: str) -> int:
    """Of the first section of that name."""
    return [found for found, _ in headers(path)[1]].index(name)


def section_at(path: Path, name: str, occurrence: int = 0) -> int:
    """Of a section header."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        indices = [index for index, one in enumerate(elf.iter_sections()) if one.name == name]
        return int(elf.header["e_shoff"]) + 64 * indices[occurrence]


def segment_at(path: Path, kind: str | int, occurrence: int = 0) -> int:
    """Of a program header."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        indices = [index for index, one in enumerate(elf.iter_segments()) if one.header["p_type"] == kind]
        return int(elf.header["e_phoff"]) + 56 * indices[occurrence]


def value_at(path: Path, tag: str) -> int:
    """Of the value of a dynamic entry."""
    with path.open("rb") as file:
        dynamic = ELFFile(file).get_section_by_name(".dynamic")
        tags = [one.entry.d_tag for one in dynamic.iter_tags()]
        return int(dynamic.header["sh_offset"]) + 16 * tags.index(tag) + 8


def in_section(name: str, offset: int = 0) -> Place:
    return lambda path: int(str(dict(headers(path)[1])[name]["sh_offset"])) + offset


def in_header(name: str, field: int) -> Place:
    return lambda path: section_at(path, name) + field


def in_segment(kind: str | int, field: int, occurrence: int = 0) -> Place:
    return lambda path: segment_at(path, kind, occurrence) + field


def patched(path: Path, out: Path, *edits: tuple[int, str, int]) -> Path:
    """A copy with fields changed: (file offset, struct format, value)."""
    data = bytearray(path.read_bytes())
    for offset, form, value in edits:
        struct.pack_into("<" + form, data, offset, value)
    shutil.copymode(path, shutil.copy(path, out))
    out.write_bytes(data)
    return out


SECTION_FIELDS = (0, 4, 8, 16, 24, 32, 40, 44, 48, 56)


def fields_of(path: Path, of_unused: tuple[int, ...] = SECTION_FIELDS) -> list[int]:
    """File offsets of the fields of all headers; `of_unused` are those with a meaning if a section has no name."""
    phoff, shoff = struct.unpack_from("<QQ", path.read_bytes(), 32)
    segments, sections = headers(path)
    fields = [0, 4, 16, 18, 20, 24, 32, 40, 48, 52, 54, 56, 58, 60, 62]
    fields += [phoff + 56 * index + field for index in range(len(segments)) for field in (0, 4, 8, 16, 24, 32, 40, 48)]
    own = enumerate(SECTION_FIELDS if name else of_unused for name, _ in sections)
    return fields + [shoff + 64 * index + field for index, some in own for field in some]


def unnoticed(good: Path, bad: Path, fields: list[int], is_faulty: Callable[[Path], object]) -> list[int]:
    """The offsets at which one flipped bit in `good`, written to `bad`, is not reported as a fault."""
    data, missed = good.read_bytes(), []
    shutil.copy(good, bad)
    with bad.open("r+b", buffering=0) as file:
        for offset in fields:
            os.pwrite(file.fileno(), bytes([data[offset] ^ 1]), offset)
            if not is_faulty(bad):
                missed.append(offset)
            os.pwrite(file.fileno(), data[offset : offset + 1], offset)
    return missed
