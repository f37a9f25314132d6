"""Directives assembled by GNU as reproduce the table: C libraries of every architecture, libstdc++, objects.

Strategy: a file's table becomes text, GNU as and ld (for MIPS llvm-mc) build a file from it, and reading that gives the
same rows at every PC and the same functions.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unwindkit import UnwindTable, by_pc, read_elf
from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.converters.assembler.rows import initial_content
from unwindkit.converters.elf.image import open_elf
from unwindkit.converters.table.model import Row
from unwindkit.schemas.cfi import EH_FRAME, Cie
from unwindkit.schemas.cfi_sections import parse_section
from unwindkit.schemas.pointers import APPLICATION_MASK, DW_EH_PE

from ..cfi.test_cfi_reading import LIBRARIES, libc
from ..support.made.assembled_directives import again, in_order, without_rows
from ..support.programs.objects import PROGRAM, SUITES, TARGETS, assembled
from ..support.real_files import REAL_FILES

NATIVE = [path for path in REAL_FILES if "libc." in path or "libstdc++" in path]
EMPTY = ".text\nf: .cfi_startproc\n @\n .cfi_endproc\n"


@pytest.mark.oracle(*SUITES)
@pytest.mark.parametrize("name", TARGETS)
def test_what_holds_where_a_function_begins_is_what_the_assembler_says(name: str, tmp_path: Path) -> None:
    made = assembled(tmp_path, TARGETS[name], EMPTY)
    (function,) = read_elf(made)
    (row,) = function.rows
    architecture = ARCHITECTURES[TARGETS[name].name]
    assert Row(0, row.cfa, row.registers) == initial_content(architecture)
    assert function.return_column == architecture.return_address
    image = open_elf(made)
    entries = parse_section(image.contents(image.named(".eh_frame")[0]), EH_FRAME)
    (cie,) = (entry for _, entry in entries if isinstance(entry, Cie))
    if TARGETS[name].suite != "sid-llvm":
        factors = int(cie.code_alignment_factor), int(cie.data_alignment_factor)
        assembler = architecture.assembler
        assert factors == (assembler.code_alignment_factor, assembler.data_alignment_factor)


@pytest.mark.oracle
def test_factors_of_big_endian_aarch64_are_those_of_gas(tmp_path: Path) -> None:
    """No linker for it is available here, so other tests use LLVM, whose factors differ."""
    target = replace(TARGETS["aarch64"], name="aarch64_be", options=("-EB",))
    image = open_elf(assembled(tmp_path, target, EMPTY))
    entries = parse_section(image.contents(image.named(".eh_frame")[0]), EH_FRAME)
    (cie,) = (entry for _, entry in entries if isinstance(entry, Cie))
    assembler = ARCHITECTURES["aarch64_be"].assembler
    found = int(cie.code_alignment_factor), int(cie.data_alignment_factor)
    assert found == (assembler.code_alignment_factor, assembler.data_alignment_factor)


@pytest.mark.oracle("bookworm-mips64el")
def test_factors_of_mips_are_those_of_debian_s_libc() -> None:
    """GNU as for MIPS built it; that assembler is not available here."""
    image = open_elf(libc("bookworm-mips64el"))
    entries = parse_section(image.contents(image.named(".eh_frame")[0]), EH_FRAME)
    found = {(int(e.code_alignment_factor), int(e.data_alignment_factor)) for _, e in entries if isinstance(e, Cie)}
    for name in ("mips", "mips64"):
        assembler = ARCHITECTURES[name].assembler
        assert found == {(assembler.code_alignment_factor, assembler.data_alignment_factor)}


def with_taken_encodings(table: UnwindTable) -> UnwindTable:
    """The encodings that the MIPS assembler produces: ld made libc's pointers PC-relative, which as cannot express for
    MIPS."""
    if table.architecture.assembler.pc_relative:
        return table
    encoding = table.functions.personality_encoding
    is_pcrel = (encoding != DW_EH_PE.omit) & (encoding & APPLICATION_MASK == DW_EH_PE.pcrel)
    plain = np.where(is_pcrel, encoding & DW_EH_PE.indirect, encoding).astype(np.uint8)
    return replace(table, functions=replace(table.functions, personality_encoding=plain))


def files() -> list[Any]:
    foreign = [pytest.param(suite, id=suite, marks=pytest.mark.oracle(suite, *SUITES)) for suite in LIBRARIES]
    return foreign + [pytest.param(path, id=Path(path).name, marks=pytest.mark.oracle) for path in NATIVE]


@pytest.mark.parametrize("file", files())
def test_libraries_come_back_from_the_assembler(file: str, tmp_path: Path) -> None:
    table = read_elf(libc(file) if file in LIBRARIES else file)
    back, refusals = again(tmp_path, table)
    assert len(refusals) == 0
    assert len(back) == len(table) > (LIBRARIES[file][1] if file in LIBRARIES else 1000)
    assert by_pc(back) == by_pc(table)
    assert without_rows(back) == without_rows(with_taken_encodings(table))
    assert table.functions.lsda.any()


@pytest.mark.oracle(*SUITES)
@pytest.mark.parametrize("name", TARGETS)
def test_objects_come_back_in_their_sections(name: str, tmp_path: Path) -> None:
    table = read_elf(assembled(tmp_path, TARGETS[name], PROGRAM))
    back, refusals = again(tmp_path, table)
    assert len(refusals) == 0
    assert len({function.section for function in table}) == 2
    assert in_order(back) == in_order(table)
