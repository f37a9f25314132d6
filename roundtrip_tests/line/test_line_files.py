"""The C library's debugging file: 290,000 rows of 2,000 units, compared with readelf, llvm-dwarfdump, and rewritten.

Strategy: one file from Debian, with gcc's and GNU as's programs, compressed sections, versions 2 to 5.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from unwindkit import convert, read_lines, to_debug_line
from unwindkit.converters.elf.image import open_elf
from unwindkit.converters.line.read import LINE_STR, table_of_lines
from unwindkit.converters.line.table import LineTable, same_lines
from unwindkit.schemas.line import LineUnit, RowFlag
from unwindkit.schemas.line_sections import build_line_section, build_program, parse_line_section, parse_program
from unwindkit.schemas.section import Section

from ..conftest import engine_in_use
from ..support.made.line_tables import line_section
from ..support.made.made_lines import agree, llvm_lines
from ..support.oracles import oracle_root, run_oracle

pytestmark = pytest.mark.oracle("bookworm-dbg")


@cache
def libc_debug() -> Path:
    """The largest of the package's files."""
    found = oracle_root("bookworm-dbg").glob("usr/lib/debug/.build-id/*/*.debug")
    return max(found, key=lambda path: path.stat().st_size)


@cache
def section() -> Section:
    image = open_elf(libc_debug())
    return image.contents(image.named(".debug_line")[0])


@cache
def units_of_all() -> tuple[LineUnit, ...]:
    return parse_line_section(section())


@cache
def table() -> LineTable:
    return read_lines(libc_debug())


def test_readelf_prints_the_same() -> None:
    agree(libc_debug())


@pytest.mark.oracle("sid-llvm")
def test_llvm_dwarfdump_has_the_same_rows() -> None:
    rows = table().rows
    columns = (rows.address, rows.line, rows.column, rows.file, rows.isa, rows.discriminator, rows.op_index)
    said = llvm_lines(libc_debug())
    numbers = np.array([line[:7] for line in said])
    assert len(numbers) == len(rows) > 250_000
    for index, column in enumerate(columns):
        base = 16 if index == 0 else 10
        assert [int(number, base) for number in numbers[:, index].tolist()] == column.tolist()
    names = {flag: str(flag.name).lower() for flag in RowFlag}
    flags = [sum(flag for flag, name in names.items() if name in line[7].split()) for line in said]
    assert flags == rows.flags.tolist()


def test_law_2_bytes() -> None:
    units = units_of_all()
    assert build_line_section(units) == bytes(section().data)
    for unit in units[::80]:
        program = line_section(unit.program)
        instructions = parse_program(program, 0, len(program), unit.header)
        assert build_program(tuple(one for _, one in instructions), unit.header) == unit.program


def test_law_3_the_table_is_written_and_read_back(kernels: str) -> None:
    """A tenth of the units, a fiftieth on the uncompiled engine; no program is longer than before."""
    units = units_of_all()[:: 50 if kernels == "pure" else 10]
    image = open_elf(libc_debug())
    strings = {LINE_STR: image.contents(image.named(LINE_STR)[0])}
    with engine_in_use("compiled"):
        before = table_of_lines(line_section(build_line_section(units)), strings)
    line, line_str = to_debug_line(before)
    written = line_section(line)
    assert same_lines(before, table_of_lines(written, {LINE_STR: Section.of(LINE_STR, line_str)}))
    sizes = [(len(one.program), len(two.program)) for one, two in zip(units, parse_line_section(written), strict=True)]
    assert all(new <= old for old, new in sizes)
    assert len(line) <= len(build_line_section(units))


def test_paths_that_a_section_of_strings_has_are_not_added() -> None:
    image = open_elf(libc_debug())
    strings = image.contents(image.named(LINE_STR)[0])
    line, line_str = to_debug_line(table(), line_str=bytes(strings.data))
    assert line_str == bytes(strings.data)
    assert same_lines(table(), table_of_lines(line_section(line), {LINE_STR: strings}))


@pytest.mark.oracle("sid-llvm")
def test_put_back_into_the_file(tmp_path: Path) -> None:
    """All 2,060 compilation units follow; llvm-symbolizer and addr2line find the same at a row in 100."""
    report = convert(libc_debug(), tmp_path / "libc.debug", "debug_line")
    assert (report.units, report.rows) == (len(units_of_all()), len(table()))
    assert report.written < report.source_bytes
    assert report.references > 2000
    assert same_lines(table(), read_lines(tmp_path / "libc.debug"))
    pcs = [hex(pc) for pc in np.unique(table().rows.address)[::100].tolist()]
    for program, suite in (("llvm-symbolizer-22", "sid-llvm"), ("addr2line", "forky")):
        before, after = (
            run_oracle(program, "-e", path, *pcs, suite=suite) for path in (libc_debug(), tmp_path / "libc.debug")
        )
        assert before == after
        assert before.count(".c:") > 500
