"""The check of removal finds every fault: it is run on results corrupted in one place each."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from unwindkit.writers.elf.checks.removed import check_removed

from ..support.binutils import V3
from ..support.judges.elf_removed import FLAGS, altered, compiled_folder, given, linked, removed
from ..support.programs import compiled
from ..support.programs.elf_programs import (
    ENGINES,
    PT_GNU_SFRAME,
    Place,
    fields_of,
    headers,
    in_header,
    in_section,
    in_segment,
    patched,
    section_at,
    unnoticed,
)

# What is corrupted in a file after removal of a linker's `.sframe`: where (None: where that was), by what, and the
# words of the fault.
DAMAGE: dict[str, tuple[Place | None, str, int, str]] = {
    "code": (in_section(".text", 40), "B", 0xCC, r"section \[\d+\] \.text: its bytes have changed"),
    "symbol": (in_section(".symtab", 24 * 9 + 8), "Q", 0x77, r"section \[\d+\] \.symtab: its bytes have changed"),
    "address of a section": (in_header(".data", 16), "Q", 0x77, r"section \[\d+\] \.data: has changed"),
    "name of a section": (in_header(".plt", 0), "I", 0, r"section \[\d+\] \.plt: has changed"),
    "padding": (lambda path: padding_of(path), "B", 1, "the bytes have changed at 0x[0-9a-f]+fff"),
    "PT_LOAD": (in_segment("PT_LOAD", 0, 2), "I", 0, "PT_LOAD at 0x[0-9a-f]+: is missing or has changed"),
    "PT_LOAD's type": (in_segment("PT_LOAD", 0, 2), "I", 0, "PT_NULL at 0x[0-9a-f]+: is new"),
    "PT_LOAD's flags": (in_segment("PT_LOAD", 4, 1), "I", 7, "PT_LOAD at 0x[0-9a-f]+: is missing or has changed"),
    "PT_GNU_RELRO": (in_segment("PT_GNU_RELRO", 16), "Q", 8, "PT_GNU_RELRO at 0x[0-9a-f]+: is missing or has changed"),
    "PT_GNU_SFRAME": (in_segment("PT_GNU_STACK", 0), "I", PT_GNU_SFRAME, "a segment still refers to .sframe"),
    "PT_PHDR": (in_segment("PT_PHDR", 32), "Q", 56, "PT_PHDR: is not the program header table"),
    "program headers": (lambda _: 56, "H", 5, "is missing or has changed"),
    "entry": (lambda _: 24, "Q", 0x77, "ELF header: e_entry is 0x77, was 0x[0-9a-f]+"),
    "machine": (lambda _: 18, "H", 183, "ELF header: e_machine is EM_AARCH64, was EM_X86_64"),
    "section header table": (lambda _: 40, "Q", 0x77, "the result cannot be read"),
    "a byte of the section": (None, "B", 0x77, r"\.sframe: its bytes are still there"),
}


@pytest.fixture(scope="session", name="folder")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled_folder(tmp_path_factory)


def padding_of(path: Path) -> int:
    """A byte outside all tables and sections: the last of the first page, which the code follows."""
    (text,) = (one["p_offset"] for one in headers(path)[0] if one["p_type"] == "PT_LOAD" and one["p_flags"] == 5)
    return int(text) - 1


@pytest.fixture(name="pair")
def _pair(folder: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A linker's file, and the same without its section."""
    before, good = linked(folder, V3, "O2"), tmp_path / "good"
    removed(before, good)
    return before, good


def faults(before: Path, after: Path) -> tuple[str, ...]:
    return check_removed(before, after, ".sframe", PT_GNU_SFRAME)


def found(fault: str, before: Path, bad: Path) -> bool:
    return any(re.search(fault, one) for one in faults(before, bad))


@pytest.mark.oracle
@pytest.mark.parametrize("damage", DAMAGE)
def test_check_reports_damage(damage: str, pair: tuple[Path, Path], tmp_path: Path) -> None:
    before, good = pair
    assert faults(before, good) == ()
    place, form, value, fault = DAMAGE[damage]
    at = in_section(".sframe", 5)(before) if place is None else place(good)
    assert found(fault, before, patched(good, tmp_path / "bad", (at, form, value)))


@pytest.mark.oracle
def test_check_reports_what_was_left_or_lost(pair: tuple[Path, Path], tmp_path: Path) -> None:
    before, good = pair
    header, data, bad = section_at(before, ".sframe"), good.read_bytes(), tmp_path / "bad"
    index = [name for name, _ in headers(before)[1]].index(".sframe")
    assert found(rf"section \[{index}\] \.sframe: is still there", before, patched(good, bad, (header + 4, "I", 1)))
    assert found("the file's mode is 100600, it was 100755", before, mode_of(patched(good, bad), 0o600))
    assert found("is still there", before, before)
    assert found("a segment still refers to", before, before)
    bad.chmod(0o755)
    bad.write_bytes(data + b"!")
    assert faults(before, bad) == (f"the file has {len(data) + 1} bytes, it had {len(data)}",)
    bad.write_bytes(data[:-64])
    assert found("the result cannot be read", before, bad)
    bad.write_bytes(b"no ELF file")
    assert faults(before, bad) == ("the result cannot be read: Magic number does not match",)


def mode_of(path: Path, mode: int) -> Path:
    path.chmod(mode)
    return path


@pytest.mark.oracle
@pytest.mark.parametrize("engine", [None, *ENGINES])
def test_check_watches_every_field_of_every_header(engine: str | None, folder: Path, tmp_path: Path) -> None:
    before, good = tmp_path / "before", tmp_path / "good"
    if engine is None:
        before = linked(folder, V3, "O2")
    else:
        given(compiled.build(folder, FLAGS["O2"]), before, engine)
    removed(before, good, engine)
    before = before if engine is None else altered(before)
    # In an unused header only the type has a meaning.
    fields = fields_of(good, of_unused=(4,))
    assert unnoticed(good, tmp_path / "bad", fields, lambda bad: faults(before, bad)) == []
