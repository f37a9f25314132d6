"""Sentry's symbolic reads our symbol files: the same STACK lines come out again, and names are found.

Strategy: C libraries of seven machines, libstdc++, and libLLVM in full; libraries of machines for which symbolic has no
word get another's, for what it does with lines does not depend on it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from unwindkit import read_elf, to_stack_cfi

from .oracles import FRAME_SUITES, LIBLLVM, oracle_root
from .real_files import REAL_FILES
from .symbolic_reader import cfi_text, name_at, opened, refusal
from .test_cfi_reading import LIBRARIES, libc

pytestmark = pytest.mark.oracle("symbolic", *FRAME_SUITES)

# The words of MODULE, by suite; symbolic knows none for RISC-V and s390x.
WORDS = {
    "sid-amd64": "x86_64",
    "sid-arm64": "arm64",
    "sid-i386": "x86",
    "sid-ppc64el": "ppc64",
    "bookworm-mips64el": "mips64",
    "sid-riscv64": "x86_64",
    "sid-s390x": "x86_64",
}
IDENTIFIER = "0123456789ABCDEF0123456789ABCDEF0"


def written(folder: Path, path: Path, word: str, names: str = "") -> tuple[Path, str]:
    """A symbol file in a folder, and the STACK CFI lines in it."""
    lines = to_stack_cfi(read_elf(path)).decode()
    out = folder / f"{path.name}.sym"
    out.write_text(f"MODULE Linux {word} {IDENTIFIER} {path.name}\n{names}{lines}")
    return out, lines


@pytest.mark.parametrize("suite", LIBRARIES)
def test_reads_and_writes_the_same_lines_of_c_libraries(suite: str, tmp_path: Path) -> None:
    out, lines = written(tmp_path, libc(suite), WORDS[suite])
    assert cfi_text(out) == lines
    assert lines.count("STACK CFI INIT ") > LIBRARIES[suite][1]
    found = opened(out)
    assert (found.file_format, found.debug_id) == ("breakpad", "01234567-89ab-cdef-0123-456789abcdef")


@pytest.mark.parametrize("path", REAL_FILES, ids=str)
def test_reads_and_writes_the_same_lines_of_real_files(path: str, tmp_path: Path) -> None:
    out, lines = written(tmp_path, Path(path), "x86_64")
    assert cfi_text(out) == lines


@pytest.mark.oracle("bookworm-amd64")
def test_reads_and_writes_the_same_lines_of_libllvm(tmp_path: Path) -> None:
    path = oracle_root("bookworm-amd64") / LIBLLVM
    out, lines = written(tmp_path, path, "x86_64")
    assert cfi_text(out) == lines
    assert lines.count("\n") > 800_000


def test_arm_library_without_call_frame_information_has_no_lines(tmp_path: Path) -> None:
    """armhf's libc unwinds by .ARM.exidx alone."""
    out, lines = written(tmp_path, libc("sid-armhf"), "arm")
    assert (lines, cfi_text(out)) == ("", "")


def test_finds_names(tmp_path: Path) -> None:
    names = "PUBLIC 1000 0 first\nPUBLIC m 1010 0 second(int, char const*)\n"
    out, _ = written(tmp_path, libc("sid-amd64"), "x86_64", names)
    assert name_at(out, 0x100F) == [("first", 0x1000)]
    assert name_at(out, 0x1010) == [("second(int, char const*)", 0x1010)]


@pytest.mark.parametrize("word", ["riscv64", "s390x"])
def test_has_no_word_for_two_machines(word: str, tmp_path: Path) -> None:
    """So what we write for them is for other readers; the lines themselves it takes (see above)."""
    out, _ = written(tmp_path, libc("sid-amd64"), word)
    assert refusal(out) == "invalid architecture"
