"""Sentry's symbolic reads our symbol files: it returns the same STACK lines, and finds names.

Strategy: C libraries of seven machines, libstdc++, and all of libLLVM; identifiers and names are compared with its
own reading of the ELF file.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ..cfi.test_cfi_reading import NAMED_LIBRARIES, libc
from ..support.oracles import FRAME_SUITES, LIBLLVM, oracle_root
from ..support.real_files import REAL_FILES
from ..support.texts.stackwalks import cfi_lines, our_symbols
from ..support.texts.symbolic_reader import cfi_text, names_at, opened, refusal

pytestmark = pytest.mark.oracle("symbolic", *FRAME_SUITES)

# symbolic has no name for these machines; it accepts the lines themselves under another.
WITHOUT_WORD = {
    "sid-riscv64": "riscv64",
    "sid-s390x": "s390x",
    "sid-loong64": "loongarch64",
    "sid-sparc64": "sparcv9",
}


def written(folder: Path, path: Path, word: tuple[str, str] = ("", "")) -> tuple[Path, str]:
    """The symbol file of a file, and its STACK CFI lines; the machine's name in MODULE is replaced by the second."""
    text = our_symbols(path).replace(f" {word[0]} ", f" {word[1]} ", 1) if word[0] else our_symbols(path)
    out = folder / f"{path.name}.sym"
    out.write_text(text)
    return out, "".join(f"{line}\n" for line in cfi_lines(text))


def is_taken(path: Path, out: Path, lines: str) -> None:
    """The lines come out as they are, with the identifiers that symbolic finds in the ELF file."""
    assert cfi_text(out) == lines
    found, elf = opened(out), opened(path)
    assert (found.file_format, found.code_id) == ("breakpad", elf.code_id)
    # In a big-endian file it takes the build id's bytes unchanged, where Breakpad on x86 swaps them.
    assert found.debug_id == elf.debug_id or any(name in str(path) for name in ("s390x", "sparc64"))


@pytest.mark.parametrize("suite", NAMED_LIBRARIES)
def test_reads_and_writes_the_same_lines_of_c_libraries(suite: str, tmp_path: Path) -> None:
    word = (WITHOUT_WORD[suite], "x86_64") if suite in WITHOUT_WORD else ("", "")
    out, lines = written(tmp_path, libc(suite), word)
    is_taken(libc(suite), out, lines)
    assert lines.count("STACK CFI INIT ") > NAMED_LIBRARIES[suite][1]


@pytest.mark.parametrize("path", REAL_FILES, ids=str)
def test_reads_and_writes_the_same_lines_of_real_files(path: str, tmp_path: Path) -> None:
    is_taken(Path(path), *written(tmp_path, Path(path)))


@pytest.mark.oracle("bookworm-amd64")
def test_reads_and_writes_the_same_lines_of_libllvm(tmp_path: Path) -> None:
    path = oracle_root("bookworm-amd64") / LIBLLVM
    out, lines = written(tmp_path, path)
    is_taken(path, out, lines)
    assert lines.count("\n") > 800_000


def test_arm_library_without_call_frame_information_has_no_lines(tmp_path: Path) -> None:
    """armhf's libc has only .ARM.exidx."""
    out, lines = written(tmp_path, libc("sid-armhf"))
    assert (lines, cfi_text(out)) == ("", "")


@pytest.mark.parametrize("suite", WITHOUT_WORD)
def test_has_no_word_for_two_machines(suite: str, tmp_path: Path) -> None:
    """So our files for them are for other readers."""
    assert refusal(written(tmp_path, libc(suite))[0]) == "invalid architecture"


def publics(out: Path) -> dict[int, str]:
    lines = [
        line.removeprefix("PUBLIC ").removeprefix("m ") for line in out.read_text().splitlines() if "PUBLIC" in line
    ]
    return {int(address, 16): name for address, _, name in (line.split(" ", 2) for line in lines)}


@pytest.mark.parametrize("suite", ["sid-amd64", "sid-arm64", "sid-i386", "sid-ppc64el", "bookworm-mips64el"])
def test_finds_every_name_where_we_put_it(suite: str, tmp_path: Path) -> None:
    out, _ = written(tmp_path, libc(suite))
    found = publics(out)
    assert len(found) > 2000
    assert names_at(out, found) == {address: (name, address) for address, name in found.items()}


@pytest.mark.parametrize("path", [path for path in REAL_FILES if "/bin/" in path], ids=str)
def test_finds_the_names_that_it_finds_in_the_program(path: str, tmp_path: Path) -> None:
    """Programs have one name per address; of a library's several it may choose another."""
    out, _ = written(tmp_path, Path(path))
    assert names_at(out, publics(out)) == names_at(Path(path), publics(out))
