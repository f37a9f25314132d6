"""Assembler text as an input: info, find, dump and convert read from it what they read from the ELF file.

Strategy: one small file made by hand and the text that `to_directives` writes of it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from unwindkit import (
    BuildError,
    by_pc,
    convert,
    dump_sections,
    find_in_file,
    from_debug_frame,
    info,
    to_directives,
)

from ..support.commands import unwindkit
from .test_inputs import FILE, TABLE

TEXT, _ = to_directives(TABLE)


def test_info_counts_the_functions() -> None:
    (section,) = info(TEXT, source="directives", architecture="x86_64").sections
    (original,) = info(FILE).sections
    assert (section.name, section.size, section.fault) == ("directives", len(TEXT), None)
    assert (section.functions, section.rows) == (original.functions, original.rows)


def test_find_gives_the_rows_of_the_file() -> None:
    pcs = [*TABLE.functions.start.tolist(), 0]
    _, expected = find_in_file(FILE, pcs)
    _, found = find_in_file(TEXT, pcs, source="directives", architecture="x86_64")
    assert [(one.pc, one.start, one.size, one.row) for one in found] == [
        (one.pc, one.start, one.size, one.row) for one in expected
    ]
    assert found[0].row is not None


def test_dump_shows_the_instructions_or_the_rows() -> None:
    instructions, rows = (
        b"".join(dump_sections(TEXT, None, interpreted, source="directives", architecture="x86_64")).decode()
        for interpreted in (False, True)
    )
    start, end = int(TABLE.functions.start[0]), int(TABLE.functions.start[0] + TABLE.functions.size[0])
    assert f"pc={start:016x}..{end:016x}" in instructions
    assert "DW_CFA_def_cfa: r7 (rsp) ofs 8" in instructions
    assert f"\n{start:016x} rsp+8 " in rows


def test_convert_reads_it(tmp_path: Path) -> None:
    (tmp_path / "text.s").write_bytes(TEXT)
    report = convert(tmp_path / "text.s", tmp_path / "raw", "debug_frame", source="directives", architecture="x86_64")
    assert (report.source, report.functions, report.converted) == ("directives", len(TABLE), len(TABLE))
    assert by_pc(from_debug_frame((tmp_path / "raw").read_bytes(), "x86_64")) == by_pc(TABLE)


def test_the_commands_read_it(tmp_path: Path) -> None:
    (tmp_path / "text.s").write_bytes(TEXT)
    options = "--from", "directives", "--arch", "x86_64"
    done = unwindkit("info", tmp_path / "text.s", *options)
    assert "2 functions" in done.stdout
    done = unwindkit("convert", tmp_path / "text.s", "-", "--to", "directives", *options)
    assert done.stdout.encode() == TEXT


def test_an_elf_file_is_not_text() -> None:
    with pytest.raises(BuildError, match="directives is assembler text, but the input is an ELF file"):
        info(FILE, source="directives")


def test_the_architecture_is_needed() -> None:
    with pytest.raises(BuildError, match="architecture: is missing"):
        info(TEXT, source="directives")
