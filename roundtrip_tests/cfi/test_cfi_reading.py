"""Call frame information of every architecture, compared with other readers: readelf 2.47 and llvm-dwarfdump 22.

Strategy: Debian's C libraries, function by function, row by row; then the worked examples of the two introductions.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from unwindkit import Row, by_pc, read_elf
from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.converters.rules import RuleKind
from unwindkit.converters.table.model import RegisterRule

from ..conftest import engine_in_use
from ..support.handmade import at, debug_frame_table, entry, octets, on, only, row
from ..support.oracles import FRAME_SUITES, oracle_root
from ..support.programs.objects import TARGETS, assembled
from ..support.texts import dwarfdump_text
from ..support.texts.frame_text import readelf_frames, table_frames, without_windows

LIBRARIES = {
    "sid-amd64": ("x86_64", 3800),
    "sid-arm64": ("aarch64", 3400),
    "sid-i386": ("x86", 4000),
    "sid-ppc64el": ("ppc64", 3800),
    "sid-riscv64": ("riscv64", 3300),
    "sid-s390x": ("s390x", 3600),
    "bookworm-mips64el": ("mips64", 1000),
    "sid-loong64": ("loongarch64", 3000),
    "sid-sparc64": ("sparc64", 800),
}
# Those with STACK CFI records.
NAMED_LIBRARIES = {
    suite: found for suite, found in LIBRARIES.items() if ARCHITECTURES[found[0]].breakpad_registers is not None
}


def libc(suite: str) -> Path:
    return next(path for pattern in FRAME_SUITES[suite] for path in oracle_root(suite).glob(pattern))


@pytest.mark.oracle(*LIBRARIES)
@pytest.mark.parametrize("suite", LIBRARIES)
def test_rows_of_foreign_libraries_are_readelfs(suite: str) -> None:
    name, functions = LIBRARIES[suite]
    tables = []
    for engine in ("pure", "compiled"):
        with engine_in_use(engine):
            tables.append(read_elf(libc(suite)))
    table = tables[0]
    assert table.architecture.name == name
    assert len(table) > functions
    assert table_frames(without_windows(table)) == readelf_frames(libc(suite), ".eh_frame")
    assert by_pc(table) == by_pc(tables[1])
    # All but a few use the ABI's return column; s390x's assembler gives column 0 for functions that return elsewhere.
    columns = table.functions.return_column
    assert (columns == ARCHITECTURES[name].return_address).sum() > 0.99 * len(table)


@pytest.mark.oracle("sid-armhf")
def test_arm_unwinds_by_other_tables() -> None:
    table = read_elf(libc("sid-armhf"))
    assert (table.architecture.name, len(table)) == ("arm", 0)


SECOND_READER = ("sid-amd64", "sid-arm64", "sid-riscv64", "sid-loong64", "sid-sparc64")


@pytest.mark.oracle("sid-llvm", *SECOND_READER)
@pytest.mark.parametrize("suite", SECOND_READER)
def test_rows_are_those_of_a_second_reader(suite: str) -> None:
    name, functions = LIBRARIES[suite]
    found = [dwarfdump_text.frame_of(function) for function in read_elf(libc(suite))]
    assert len(found) > functions
    assert found == dwarfdump_text.dwarfdump_frames(libc(suite), name)


# --- worked examples --------------------------------------------------------------------------------------------

# stack-unwinding-by-cfi-riscv.md, section 5, for each of the four functions of foos.c.
FOO = """
 .align 1
 .globl {name}
{name}: .cfi_startproc
 addi sp,sp,-16
 .cfi_def_cfa_offset 16
 sd ra,8(sp)
 .cfi_offset 1, -8
 call {callee}
 nop
 ld ra,8(sp)
 .cfi_restore 1
 addi sp,sp,16
 .cfi_def_cfa_offset 0
 jr ra
 .cfi_endproc
"""
CALLS = (("foo_3", "unwind_by_backtrace"), ("foo_2", "foo_3"), ("foo_1", "foo_2"), ("foo_0", "foo_1"))


@pytest.mark.oracle("forky-cross")
def test_stack_unwinding_text_foo_3(tmp_path: Path) -> None:
    source = " .text\n" + "".join(FOO.format(name=name, callee=callee) for name, callee in CALLS)
    table = read_elf(assembled(tmp_path, TARGETS["riscv64"], source))
    assert [(f.start, f.size) for f in table] == [(0, 0x14), (0x14, 0x14), (0x28, 0x14), (0x3C, 0x14)]
    # Table 1: SP is x2, RA is x1; rows that the text calls unchanged are absent.
    expected = (
        row(0x0, on(2, 0)),
        row(0x2, on(2, 16)),
        row(0x4, on(2, 16), at(1, -8)),
        row(0x10, on(2, 16)),
        row(0x12, on(2, 0)),
    )
    assert [function.rows for function in table] == [expected] * 4
    assert table_frames(table) == readelf_frames(tmp_path / "object.o", ".eh_frame")


# call-frame-information.txt, "Example Demonstration": eight registers of four bytes, R7 the stack pointer, R8 the
# return address; <fs> is 12, code alignment 4, data alignment -4 ("DW_CFA_offset(8,1) ... CFA + (-4) * 1").
EXAMPLE_CIE = """
    ffffffff 03 00 04 7c 08
    0c 07 00        # DW_CFA_def_cfa(7, 0)
    08 00           # DW_CFA_same_value(0)
    07 01 07 02 07 03   # DW_CFA_undefined(1), (2), (3)
    08 04 08 05 08 06   # DW_CFA_same_value(4), (5), (6)
    09 08 01        # DW_CFA_register(8, 1)
    00 00 00        # padding
"""
EXAMPLE_FDE = """
    00000000 00001000 00000054
    41 0e 0c        # DW_CFA_advance_loc(1), DW_CFA_def_cfa_offset(12)
    41 88 01        # DW_CFA_advance_loc(1), DW_CFA_offset(8, 1)
    41 86 02        # DW_CFA_advance_loc(1), DW_CFA_offset(6, 2)
"""


def same(register: int) -> RegisterRule:
    return RegisterRule(register, RuleKind.SAME_VALUE)


def undefined(register: int) -> RegisterRule:
    return RegisterRule(register, RuleKind.UNDEFINED)


@pytest.mark.usefixtures("kernels")
def test_call_frame_text_machine_of_eight_registers() -> None:
    data = entry(octets(EXAMPLE_CIE), "big") + entry(octets(EXAMPLE_FDE), "big")
    function = only(debug_frame_table(data, "mips", "big", 4))
    start = [same(0), undefined(1), undefined(2), undefined(3), same(4), same(5)]
    in_r1 = RegisterRule(8, RuleKind.REGISTER, 1)
    assert (function.start, function.size, function.return_column) == (0x1000, 0x54, 8)
    # "foo [R7]+0 s u u u s s s a r1", "foo+4 [R7]+fs s u u u s s s a r1", "foo+8 [R7]+fs s u u u s s s a c-4",
    # "foo+12 [R7]+fs s u u u s s c-8 a c-4"; a, of R7, is the ABI's own rule: none is given.
    expected: tuple[Row, ...] = (
        row(0, on(7, 0), *start, same(6), in_r1),
        row(4, on(7, 12), *start, same(6), in_r1),
        row(8, on(7, 12), *start, same(6), at(8, -4)),
        row(12, on(7, 12), *start, at(6, -8), at(8, -4)),
    )
    assert function.rows == expected
