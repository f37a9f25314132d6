"""Assembler text with `.cfi_*` directives, read without an assembler.

Strategy: GNU as 2.47 and llvm-mc are the referees: what they assemble from a text and `read_elf` reads must be what
`from_directives` reads from the text itself. Tables written by `to_directives` come back. Errors name their line.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from unwindkit import BuildError, ParseError, UnwindTable, by_pc, from_directives, read_elf, to_directives
from unwindkit.converters.arch.table import ARCHITECTURES
from unwindkit.converters.table.cut import trim, without_blocks

from ..conftest import fewer
from ..support.made.assembled_directives import without_rows
from ..support.oracles import run_oracle
from ..support.programs.objects import SUITES, TARGETS
from ..support.real_files import REAL_FILES
from .test_directives_law import NAMES, sections

# Every directive, with data, alignment, labels and assignments between. {sp}: names of registers, {d}: two lengths.
EVERYTHING = """
 .text
 .globl f, g
before: .byte 1, 2, 3, 4 ; .long 5
 .p2align 4
f: .cfi_startproc
 .cfi_personality 0x0, handler
 .cfi_lsda 0x0, lsda
 .skip 4
 .cfi_adjust_cfa_offset 32
 .cfi_rel_offset {sp}, {low}
 .cfi_offset 1, -16
1: .ascii "a;b\\"", "\\101\\x41/*"
 .balign 8
 .cfi_remember_state
 .cfi_def_cfa 2, 64
 .cfi_remember_state
 .skip 4 /* a comment
 over lines */ ; .zero 4
 .cfi_val_offset 3, 8
 .cfi_def_cfa_offset 128
 .cfi_undefined 4
 .cfi_same_value 5
 .fill 3, 4, 0
 .cfi_restore_state
 .cfi_adjust_cfa_offset 16
 here: .4byte 1
there:
 .cfi_restore_state
 .cfi_adjust_cfa_offset -16
 .skip there - here + 4
 .cfi_register 6, 7
 .cfi_def_cfa_register 3
 .cfi_escape 0x16, 0x08, 0x02, 0x71, 0x7f
 .skip 4
 .cfi_restore 1
 .cfi_endproc
f_end:
 .set eight, 4 + four
 .equ four, 4
 .section .text.other, "ax"
 .space eight
g: .cfi_startproc simple
 .cfi_return_column 9
 .cfi_signal_frame
 .cfi_def_cfa {sp}, 0
 .cfi_offset 9, -8
 .skip 8
 .cfi_offset 9, -16
 .skip 4
 .cfi_restore 9
 .quad 1
 .cfi_endproc
 .previous
 .org 0x200
k: .cfi_startproc
 .cfi_personality 0xff
 .cfi_lsda 0x0, 0
 .cfi_remember_state
 .cfi_offset 1, -8
 .string "a"
 .2byte 0
 .cfi_restore 1
 .p2align 4, 0, 4
 .p2align 3, 0, 4
 .skip 4
 .cfi_endproc
h: .cfi_startproc
 .cfi_escape 0x0
 .cfi_offset 1, -8
 .2byte 1, 2
 .cfi_restore 1
 .skip 4
 .cfi_endproc
 .set lsda, 0x1230
 .set handler, 0x4560
"""
STACK_POINTERS = {"x86_64": "%rsp", "x86": "esp", "aarch64": "sp", "s390x": "%r15", "riscv64": "sp", "riscv32": "x2"}

FOR_LLVM = {
    # Its CIEs have the initial rules of the architecture only: `.cfi_restore` removes what directives set.
    "startproc simple\n": "startproc simple\n .cfi_escape 0x0\n",
    # `.cfi_restore_state` does not restore the offset that `.cfi_adjust_cfa_offset` starts from: a fault of llvm-mc 22.
    "restore_state\n .cfi_adjust_cfa_offset 16": "restore_state\n .cfi_def_cfa_offset 80",
    "restore_state\n .cfi_adjust_cfa_offset -16": "restore_state\n .cfi_def_cfa_offset 16",
    # It takes no numbers for pointers.
    " .cfi_lsda 0x0, 0\n": "",
}


def in_sections(table: UnwindTable) -> list[object]:
    """The rules at every PC of each section, and the other columns."""
    sections = np.unique(table.functions.section)
    rows = [by_pc(table.select(table.functions.section == section)) for section in sections]
    return [rows, without_rows(table)]


@pytest.mark.oracle(*SUITES)
@pytest.mark.parametrize("name", TARGETS)
def test_an_assembler_reads_the_same(name: str, tmp_path: Path) -> None:
    target = TARGETS[name]
    text = EVERYTHING.format(sp=STACK_POINTERS.get(target.name, "2"), low=7 if target.name == "sparc64" else 0)
    if target.suite == "sid-llvm":
        for gnu, llvm in FOR_LLVM.items():
            assert gnu in text
            text = text.replace(gnu, llvm)
    # RISC-V leaves alignment to the linker, unless told otherwise.
    options = [*target.options, "-mno-relax"] if target.name.startswith("riscv") else target.options
    source, made = tmp_path / "text.s", tmp_path / "text.o"
    source.write_text(text)
    run_oracle(target.program, *options, source, "-o", made, suite=target.suite)
    expected = read_elf(made)
    back = from_directives(text, target.name, byte_order=expected.byte_order)
    # ELF numbers its sections otherwise.
    _, section = np.unique(expected.functions.section, return_inverse=True)
    section = section.reshape(-1).astype(np.uint32) + np.uint32(1)
    expected = replace(expected, functions=replace(expected.functions, section=section))
    assert in_sections(back) == in_sections(expected)
    assert len(back) == 4


ITEMS = ("byte", "2byte", "short", "hword", "4byte", "long", "int", "8byte", "quad", "octa")
# Other names of registers, in ascending order of the registers.
ALIASES = {
    "aarch64": "w19 fp x30",
    "arm": "r4 fp sp lr",
    "loongarch64": "ra $sp $fp $s0",
    "mips": "$s0 $sp $fp $ra",
    "ppc64": "r1 r31 lr",
    "riscv64": "x1 sp fp s1 ft0",
    "s390x": "%r6 r15 %f0",
    "sparc64": "%g1 %sp %l0 %fp %f0",
    "x86": "ebx %esp ebp",
    "x86_64": "rbx rbp %rsp r15 xmm0",
}


@pytest.mark.oracle(*SUITES)
@pytest.mark.parametrize("name", ALIASES)
def test_items_and_names_of_registers_are_the_assemblers(name: str, tmp_path: Path) -> None:
    target = TARGETS[name]
    lines = [f" .{item} 0, 0\n .cfi_undefined {register}\n" for item in ITEMS for register in ALIASES[name].split()]
    # Locations of some architectures are multiples of four bytes.
    text = " .text\n .cfi_startproc\n" + " .p2align 2\n".join(lines) + " .cfi_endproc\n"
    source, made = tmp_path / "text.s", tmp_path / "text.o"
    source.write_text(text.replace(" .cfi_undefined", " .p2align 2\n .cfi_undefined"))
    options = [*target.options, "-mno-relax"] if name in ("riscv64", "loongarch64") else target.options
    run_oracle(target.program, *options, source, "-o", made, suite=target.suite)
    expected = read_elf(made)
    back = from_directives(source.read_bytes(), name, byte_order=expected.byte_order)
    assert [(one.size, one.rows) for one in back] == [(one.size, one.rows) for one in expected]


@given(data=st.data())
@fewer(20)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("kernels")
def test_tables_come_back(name: str, data: st.DataObject) -> None:
    table = data.draw(sections(ARCHITECTURES[name]))
    text, refusals = to_directives(table)
    back = from_directives(text, name)
    assert by_pc(back) == by_pc(table, without=refusals)


@pytest.mark.parametrize("path", REAL_FILES)
def test_real_files_come_back(path: str) -> None:
    table = read_elf(path)
    text, refusals = to_directives(table)
    back = from_directives(text, table.architecture.name)
    assert not refusals
    assert by_pc(back) == by_pc(table)
    kept = trim(without_blocks(table))
    assert without_rows(back) == without_rows(kept)


STARTED = ".cfi_startproc\n"
ERRORS = {
    "nop\n.cfi_startproc\n.cfi_endproc": (1, "only an assembler knows the size of 'nop'"),
    STARTED + ".uleb128 4\n.cfi_endproc": (2, "only an assembler knows the size of '.uleb128 4'"),
    ".macro m\n.endm\n" + STARTED + ".cfi_endproc": (1, ".macro requires an assembler"),
    STARTED: (1, "no .cfi_endproc follows"),
    STARTED + STARTED: (2, ".cfi_startproc inside a function"),
    ".cfi_endproc": (1, ".cfi_endproc without .cfi_startproc"),
    ".cfi_startproc complex\n.cfi_endproc": (1, ".cfi_startproc 'complex' is not supported"),
    ".cfi_def_cfa_offset 8": (1, "outside a function"),
    STARTED + ".data\n.cfi_endproc": (3, "another section"),
    ".popsection": (1, "no .pushsection"),
    ".section": (1, "has no name"),
    "a:\na:": (2, "'a' is already defined"),
    '.ascii "open': (1, "the string has no end"),
    ".ascii open": (1, "is not a string"),
    ".skip -1": (1, "is not a number of bytes"),
    ".skip\n": (1, "has no argument"),
    ".skip 1 << 3": (1, "is not known before assembly"),
    ".fill 4, -1": (1, "is not a number of bytes"),
    ".org -4": (1, ".org '-4' takes -4 bytes"),
    ".org elsewhere": (1, "not in this section"),
    ".p2align 63": (1, "is not an alignment"),
    ".skip later - earlier\nearlier: .byte 1\nlater:": (1, "a later label, is not known yet"),
    ".skip unknown": (1, "is not known before assembly"),
    ".set a, b\n.set b, a\n.skip a": (3, "by itself"),
    ".set a, 1, 2": (1, "has 3 arguments, not 2"),
    STARTED + ".cfi_offset 1, 4\n.cfi_endproc": (2, "the offset 4 is no multiple of 8"),
    STARTED + ".cfi_offset rsi\n.cfi_endproc": (2, ".cfi_offset does not take 1 arguments"),
    STARTED + ".cfi_offset r99, 8\n.cfi_endproc": (2, "x86_64 has no register 'r99'"),
    STARTED + ".cfi_undefined 65536\n.cfi_endproc": (2, "x86_64 has no register '65536'"),
    STARTED + ".cfi_def_cfa_offset a\n.cfi_endproc": (2, "'a' is not an offset"),
    STARTED + ".cfi_restore_state\n.cfi_endproc": (2, "no .cfi_remember_state before it"),
    STARTED + ".cfi_escape 256\n.cfi_endproc": (2, "'256' is not a byte"),
    STARTED + ".cfi_escape 0x0c\n.cfi_endproc": (1, "of this function: the record ends inside a value"),
    STARTED + ".cfi_val_encoded_addr 1, 0, f\n.cfi_endproc": (2, "is not supported"),
    STARTED + ".cfi_return_column 256\n.cfi_endproc": (2, "does not fit one byte"),
    STARTED + ".cfi_signal_frame 1\n.cfi_endproc": (2, "does not take 1 arguments"),
    STARTED + ".cfi_lsda 0x7, f\n.cfi_endproc": (2, "is not the encoding of a pointer"),
    STARTED + ".cfi_lsda 0x0\n.cfi_endproc": (2, "a lsda has one symbol"),
    STARTED + ".cfi_lsda 0x0, f * 2\n.cfi_endproc": (2, "is not known before assembly"),
    f".skip {1 << 62}\n.skip {1 << 62}": (0, "larger than the address space"),
}


@pytest.mark.parametrize("text", ERRORS)
def test_errors_name_their_line(text: str) -> None:
    line, reason = ERRORS[text]
    with pytest.raises(ParseError, match=reason.replace("(", r"\(")) as error:
        from_directives(text, "x86_64")
    assert error.value.record == (f"line {line}" if line else "location counter")


LONG = "1" * 4301
SHOWN = f"'{LONG[:40]}'..."
QUOTED = {
    f".skip {LONG}": f"the value of {SHOWN} is not known before assembly",
    f".ascii {LONG}": f"{SHOWN} is not a string",
    f".fill 4, -1, {LONG}": f"'4, -1, {LONG[:33]}'... is not a number of bytes",
    f"a{LONG}:\na{LONG}:": f"'a{LONG[:39]}'... is already defined",
    f".set a{LONG}, b\n.set b, a{LONG}\n.skip a{LONG}": f"'a{LONG[:39]}'... is defined by too many other symbols",
    f".skip a{LONG}\na{LONG}:": f"the place of 'a{LONG[:39]}'..., a later label, is not known yet",
    f"nop {LONG}\n{STARTED}.cfi_endproc": f"only an assembler knows the size of 'nop {LONG[:36]}'...",
    f"{STARTED}.cfi_def_cfa_offset {LONG}\n.cfi_endproc": f"{SHOWN} is not an offset",
    f"{STARTED}.cfi_undefined {LONG}\n.cfi_endproc": f"x86_64 has no register {SHOWN}",
    f"{STARTED}.cfi_escape {LONG}\n.cfi_endproc": f"{SHOWN} is not a byte",
    f"{STARTED}.cfi_lsda {LONG}, f\n.cfi_endproc": f"{SHOWN} is not the encoding of a pointer",
    f"{STARTED}.cfi_{LONG} 1\n.cfi_endproc": f"'.cfi_{LONG[:35]}'... is not supported",
    f".cfi_startproc {LONG}\n.cfi_endproc": f".cfi_startproc {SHOWN} is not supported",
}


@pytest.mark.parametrize("text", QUOTED, ids=lambda text: QUOTED[text][-50:])
def test_errors_quote_forty_characters(text: str) -> None:
    with pytest.raises(ParseError) as error:
        from_directives(text, "x86_64")
    assert error.value.reason.startswith(QUOTED[text])
    assert len(str(error.value)) < 200


def test_places_of_labels_that_follow_measured_space() -> None:
    text = ".byte 0\n.p2align 3\na: .byte 0\n.p2align 2\nb:\n.skip b - a\n.cfi_startproc\n.skip 1\n.cfi_endproc"
    # a at 8, b at 12, the function 4 bytes after b.
    assert from_directives(text, "x86_64").functions.start.tolist() == [16]


def test_arguments_are_checked() -> None:
    with pytest.raises(BuildError, match="'pdp11' is not one of"):
        from_directives("", "pdp11")
    with pytest.raises(BuildError, match="is not an address of x86"):
        from_directives("", "x86", address=1 << 32)


def test_the_address_is_the_callers_or_the_texts() -> None:
    text = ".cfi_startproc\n.skip 4\n.cfi_endproc"
    assert from_directives(text, "x86_64").functions.start.tolist() == [0]
    assert from_directives(text, "x86_64", address=0x4000).functions.start.tolist() == [0x4000]
    ours, _ = to_directives(from_directives(text, "x86_64", address=0x4000))
    assert from_directives(ours, "x86_64").functions.start.tolist() == [0x4000]
    assert from_directives(ours, "x86_64", address=0x10).functions.start.tolist() == [0x10]
    with pytest.raises(ParseError, match="past the end of the address space"):
        from_directives(text, "x86_64", address=(1 << 64) - 3)


WORDS = st.sampled_from(
    [*' \n;:,.-+()"#/*', "a", "1", "0x7fffffffffffffff", ".skip ", ".p2align ", ".org ", ".set ", ".section ",
     ".ascii ", ".fill ", ".popsection\n", ".cfi_startproc\n", ".cfi_endproc\n", ".cfi_escape ", ".cfi_offset ",
     ".cfi_lsda ", ".cfi_adjust_cfa_offset ", ".cfi_rel_offset ", "\n.cfi_remember_state\n",
     "\n.cfi_restore_state\n"]
)  # fmt: skip


@given(words=st.lists(WORDS, max_size=60), arch=st.sampled_from(sorted(ARCHITECTURES)))
def test_any_text_is_read_or_refused(words: list[str], arch: str) -> None:
    try:
        from_directives("".join(words), arch)
    except ParseError as error:
        assert error.section == "directives"
