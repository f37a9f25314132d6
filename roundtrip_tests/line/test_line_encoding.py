"""The shortest line number program: the bytes for a row, by hand, and compared with what GNU as writes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from unwindkit import BuildError, read_lines, to_debug_line
from unwindkit.converters.elf.image import open_elf
from unwindkit.converters.elf.relocation import lay_out, relocate
from unwindkit.converters.line.read import LINE, LINE_STR, table_of_lines
from unwindkit.converters.line.table import same_lines
from unwindkit.schemas.line import VERSIONS
from unwindkit.schemas.line_sections import parse_line_section
from unwindkit.schemas.section import Section

from ..support.made.line_bytes import Unit
from ..support.made.line_tables import line_section, written
from ..support.made.made_lines import assembled, machine_code
from ..support.oracles import CROSS, PREFIXES
from .test_vectors_lines import END, set_address, table_of

BASE = Unit("")
START = set_address(0x1000, BASE)


def program_of(program: str, fixed_advance: bool = False, **fields: object) -> str:
    """The bytes written for a program's rows, after the address that begins every sequence; both in hexadecimal."""
    table = table_of(replace(BASE, program=f"{START} {program} {END}", **fields))
    section, again = written(table, 8, fixed_advance)
    assert same_lines(table, again)
    (unit,) = parse_line_section(section)
    head = bytes.fromhex(START)
    assert unit.program.startswith(head)
    return unit.program.removeprefix(head).hex(" ")


# The rows are those of the first program, after a row of line 101; the second program is the shortest for them.
SHORTEST = {
    "a special opcode: line +1, address +1": ("02 01 03 01 01", "1d"),
    "the last one: line -1, address +20": ("02 14 03 7f 01", "ff"),
    "DW_LNS_copy for nothing": ("10", "01"),
    "a constant": ("02 14 01", "08 01"),
    "a constant and more": ("02 15 01", "08 1c"),
    "an advance, shorter by what the opcode has": ("02 8001 01", "02 6d f4"),
    "an advance that the opcode does not shorten": ("02 a08d06 01", "02 a08d06 01"),
    "an advance of 16 bits": ("02 c0b802 01", "09 409c 01"),
    "a line that no special opcode reaches": ("03 09 01", "03 09 01"),
    "a line back": ("03 7c 01", "03 7c 01"),
    # 63 is the largest number of one byte; +4 and +2 are in the opcode.
    "a line, shorter by what the opcode has": ("03 c300 01", "03 3f 14"),
    "a line and an address": ("02 02 03 c100 01", "03 3f 2a"),
    "registers": ("00 02 04 05 0c 01 0b 0a 07 06 05 07 04 02 01", "04 02 05 07 0c 01 06 07 0a 0b 00 02 04 05 01"),
    "a register that is given twice": ("05 07 05 09 10 05 03 05 09 10", "05 09 01 01"),
    "marks that no row has": ("06 06 05 04 05 00 01", "01"),
    "unknown instructions": ("00 02 90 07 01", "01"),
}


@pytest.mark.parametrize("which", SHORTEST)
def test_the_shortest_instructions(which: str, kernels: str) -> None:
    rows, expected = (bytes.fromhex(text).hex(" ") for text in SHORTEST[which])
    assert program_of("03 e400 01" + rows) == f"03 e4 00 01 {expected} 00 01 01"


def test_ends_of_sequences(kernels: str) -> None:
    assert program_of("01 02 14") == "01 08 00 01 01"  # 20 is a constant
    assert program_of("01 02 15") == "01 02 15 00 01 01"
    assert program_of("01 02 c0b802") == "01 09 40 9c 00 01 01"
    assert program_of("01 03 05 05 02") == "01 05 02 03 05 00 01 01"


def test_advances_of_16_bits_on_request(kernels: str) -> None:
    far = set_address(0x1000 + 0x10000, BASE)
    assert program_of("01 1d 02 1d 01", fixed_advance=True) == "01 09 01 00 11 09 1d 00 01 00 01 01"
    assert program_of("01 02 808004 01", fixed_advance=True) == f"01 {bytes.fromhex(far).hex(' ')} 01 00 01 01"


def test_two_constants(kernels: str) -> None:
    """With one line advance a constant is 242: two of them and 16 in the opcode are shorter than an operand of 500."""
    assert program_of("01 02 f403 01", line_base=0, line_range=1) == "01 08 08 1d 00 01 01"


def test_a_fraction_of_an_instruction_needs_bytes(kernels: str) -> None:
    assert program_of("01 09 0300 01", minimum_instruction_length=4) == "01 09 03 00 01 00 01 01"
    assert program_of("01 09 0400 01", minimum_instruction_length=4) == "01 1c 00 01 01"


def test_an_address_where_it_is_shorter_than_advances(kernels: str) -> None:
    """4,260,095 bytes in instructions of 2: 9 bytes with DW_LNS_fixed_advance_pc and DW_LNS_advance_pc, 8 with an
    address of 4 bytes; an end of the sequence 8 and 7."""
    unit = replace(BASE, address_size=4, minimum_instruction_length=2)
    start, far = set_address(0x1000, unit), bytes.fromhex(set_address(0x1000 + 4260095, unit))
    for row, built in (("01", b"\1"), ("", b"")):
        table = table_of(replace(unit, program=f"{start} 01 09 ffff 02 80818001 {row} {END}"))
        (made,) = parse_line_section(written(table, 4)[0])
        assert made.program == bytes.fromhex(start) + b"\1" + far + built + bytes.fromhex(END)


@pytest.mark.parametrize("size", [4, 8])
def test_a_step_past_the_largest_address_is_less_than_half_the_space(size: int, kernels: str) -> None:
    """From 2**(n-1) + 1 to 0 is half - 1; from 2**(n-1) it is half, which readers take for a step down."""
    half, unit = 1 << 8 * size - 1, replace(BASE, address_size=size)
    program = f"{set_address(half + 1, unit)} 01 {set_address(0, unit)} 01 {END}"
    table = table_of(replace(unit, program=program))
    _, again = written(table, size)
    assert again.rows.address.tolist() == [half + 1, 0, 0]
    lower = replace(table.rows, address=np.array([half, 0, 0], np.uint64))
    with pytest.raises(BuildError, match=r"row\[1\]: the address decreases"):
        written(replace(table, rows=lower), size)


def test_operations_of_vliw_instructions(kernels: str) -> None:
    vliw = {"minimum_instruction_length": 16, "maximum_operations": 4}
    assert program_of("02 03 01 02 02 01", **vliw) == "34 28 00 01 01"  # operations 3, then 2
    # op_index 0, 8 bytes further: no operation advance leads there.
    assert program_of("02 03 01 09 0800 01", **vliw) == "34 09 08 00 01 00 01 01"
    # op_index 1, 8 bytes further: an operation after them.
    assert program_of("02 03 01 09 0800 20", **vliw) == "34 09 08 00 20 00 01 01"
    assert program_of("02 03 01 09 0800 02 01", **vliw) == "34 09 08 00 02 01 00 01 01"
    # op_index 2, line +9
    assert program_of("02 03 01 09 0800 02 02 03 09 01", **vliw) == "34 03 0c 09 08 00 25 00 01 01"


def test_an_op_index_after_a_fraction_of_an_instruction(kernels: str) -> None:
    """A program that hypothesis found: with DW_LNE_set_address, the second row was longer."""
    program = "03 90ce00 01 09 0100 0e"
    fields = {"minimum_instruction_length": 2, "maximum_operations": 3, "line_base": 0, "line_range": 1}
    assert program_of(program, **fields) == bytes.fromhex(program).hex(" ") + " 00 01 01"


def test_several_fixed_advances(kernels: str) -> None:
    """Beyond 65,535 bytes and across a fraction of an instruction; DW_LNE_set_address takes 11 bytes."""
    quarters = {"minimum_instruction_length": 4}
    assert program_of("01 09 ffff 09 0200 01", **quarters) == "01 09 fd ff 1c 00 01 01"  # 65,533 bytes, an instruction
    # 131,070 bytes: with DW_LNS_advance_pc an operand of 3 bytes. 196,605 bytes: one is shorter than a third advance.
    halves = {"minimum_instruction_length": 2}
    assert program_of("01 09 ffff 09 feff 01", **halves) == "01 09 ff ff 09 fe ff 01 00 01 01"
    assert program_of("01 09 ffff 09 feff", **halves) == "01 09 ff ff 09 fe ff 00 01 01"
    assert program_of("01 09 ffff 09 ffff 09 ffff 01", **halves) == "01 09 ff ff 02 ff ff 03 01 00 01 01"


def test_what_special_opcodes_are_left(kernels: str) -> None:
    """opcode_base 1 has no standard opcode, 255 one special opcode."""
    assert program_of("04 10", opcode_base=1) == "04 10 00 01 01"
    assert program_of("01 03 07 02 03 01", opcode_base=255) == "01 03 07 02 03 01 00 01 01"
    # A column, where DW_LNS_set_column is a special opcode.
    table = table_of(replace(BASE, program=f"{START} 05 01 01 {END}"))
    with pytest.raises(BuildError, match=r"row\[0\]: needs a standard opcode"):
        to_debug_line(replace(table, units=replace(table.units, opcode_base=np.full(1, 5, np.uint8))))


# --- compared with assemblers ----------------------------------------------------------------------------------------


def no_longer(path: Path) -> tuple[int, int]:
    """Sizes in bytes of a file's programs, and of those written for its table, which are never larger."""
    table = read_lines(path)
    sizes = [0, 0]
    for fixed_advance in (False, True):
        section, again = written(table, 8 if table.units.address_size[0] == 8 else 4, fixed_advance)
        assert same_lines(table, again)
        if not fixed_advance:
            sizes = [sum(len(unit.program) for unit in parse_line_section(one)) for one in (of_file(path), section)]
    assert sizes[1] <= sizes[0]
    return sizes[0], sizes[1]


def of_file(path: Path) -> Section:
    laid = lay_out(open_elf(path), at_zero=True)
    return relocate(laid, laid.image.named(LINE)[0])


@pytest.mark.oracle
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("machine", PREFIXES)
def test_no_program_is_longer_than_that_of_gnu_as(machine: int, version: int, tmp_path: Path) -> None:
    no_longer(assembled(tmp_path, version, PREFIXES[machine], linked=True))


@pytest.mark.oracle("forky-cross")
@pytest.mark.parametrize("machine", CROSS)
def test_of_other_machines(machine: str, tmp_path: Path) -> None:
    theirs, ours = no_longer(assembled(tmp_path, 5, f"{machine}-", "forky-cross", linked=True))
    # For RISC-V GNU as uses only 16-bit advances, as the linker may relax code.
    assert (ours < theirs * 0.8) == machine.startswith("riscv")


@pytest.mark.oracle("sid-llvm")
@pytest.mark.parametrize("version", VERSIONS)
def test_no_program_is_longer_than_that_of_llvm(version: int, tmp_path: Path) -> None:
    no_longer(machine_code(tmp_path, version, "x86_64-linux-gnu"))


# --- strings ---------------------------------------------------------------------------------------------------------


def strings_of(line_str: bytes, *paths: bytes) -> tuple[list[bytes], bytes]:
    """The directories of a table read back, and the section of strings, if there is one."""
    table = table_of(
        Unit(END, 5, tables="01 01 08 " + f"{len(paths):02x}" + b"".join(p + b"\0" for p in paths).hex() + "0000")
    )
    line, found = to_debug_line(table, line_str=line_str)
    again = table_of_lines(line_section(line), {LINE_STR: Section.of(LINE_STR, found)})
    assert same_lines(table, again)
    return [one.path for one in again.directories_of(0)], found


@pytest.mark.parametrize("which", ["directory_contents", "file_contents"])
def test_entries_without_a_content_type_are_refused(which: str) -> None:
    table = table_of(replace(BASE, version=5, program=f"{START} 01 {END}"))
    nothing = replace(table.units, **{which: np.zeros_like(getattr(table.units, which))})
    with pytest.raises(BuildError, match="entries without any content type cannot be counted"):
        to_debug_line(replace(table, units=nothing))


def test_strings_that_are_there_are_kept_and_used() -> None:
    assert strings_of(b"x\0/usr/include\0", b"/usr/include", b"include", b"new", b"x") == (
        [b"/usr/include", b"include", b"new", b"x"], b"x\0/usr/include\0new\0"
    )  # fmt: skip
    assert strings_of(b"", b"a", b"b", b"a") == ([b"a", b"b", b"a"], b"a\0b\0")
    with pytest.raises(BuildError, match="the last one is not terminated by a zero byte"):
        strings_of(b"a", b"a")
