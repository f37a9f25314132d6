"""Tables assembled from directives and read again: GNU as and ld 2.47, llvm-mc 22 for MIPS.

Strategy: a linker script puts the section at the address given in the text, so that every address is the original one.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
from elftools.elf.elffile import ELFFile
from unwindkit import Function, Refusals, UnwindTable, read_elf, to_directives
from unwindkit.converters.elf.image import open_elf
from unwindkit.converters.table.model import FunctionColumns, table_of

from ..oracles import run_oracle
from ..programs.objects import TARGETS, Target, linked

SCRIPT = "SECTIONS {{ .unwound {address} : {{ *(.unwound) }} .eh_frame : {{ *(.eh_frame) }} }}"
# What a table keeps of a function besides its rows.
KEPT = ("start", "size", "section", "return_column", "flags", "personality_encoding", "personality", "lsda")


def target_of(table: UnwindTable) -> Target:
    """The assembler for a table."""
    is_little = table.architecture.name == "mips64" and table.byte_order == "little"
    return TARGETS["mips64 little-endian" if is_little else table.architecture.name]


def again(folder: Path, table: UnwindTable) -> tuple[UnwindTable, Refusals]:
    """A table, assembled and read, and its refusals: linked if it has addresses and there is a linker."""
    text, refusals = to_directives(table)
    if not text:
        return table_of(table.architecture, [], table.byte_order), refusals
    target = target_of(table)
    source, made = folder / "again.s", folder / "again.o"
    source.write_bytes(text)
    run_oracle(target.program, *target.options, "--fatal-warnings", source, "-o", made, suite=target.suite)
    if table.functions.section.any():
        return _in_its_sections(made), refusals
    address = re.findall(r"^/\* \.unwound: address (0x[0-9a-f]+) \*/$", text.decode(), re.MULTILINE)
    if target.linker is not None:
        script = folder / "again.ld"
        script.write_text(SCRIPT.format(address=address[0]))
        return read_elf(linked(target, folder / "again", "-T", script, made)), refusals
    back = read_elf(made)
    start = back.functions.start + np.uint64(int(address[0], 16))
    return replace(back, functions=replace(back.functions, start=start, section=back.functions.section * 0)), refusals


def _in_its_sections(made: Path) -> UnwindTable:
    """The table of an object, whose sections are called `.unwound.N`, where N becomes the section number."""
    back, sections = read_elf(made), open_elf(made).sections
    numbers = [int(sections[index].name.removeprefix(".unwound.")) for index in back.functions.section.tolist()]
    return replace(back, functions=replace(back.functions, section=np.array(numbers, np.uint32)))


def without_rows(table: UnwindTable) -> list[tuple[int, ...]]:
    """What a table keeps of its functions besides rows, in order of sections and addresses."""
    columns: FunctionColumns = table.functions
    return sorted(zip(*(getattr(columns, name).tolist() for name in KEPT), strict=True))


def in_order(table: UnwindTable) -> list[Function]:
    """Functions with their rows, in order of sections and addresses, without their origin."""
    found = (replace(function, origin=0) for function in table)
    return sorted(found, key=lambda function: (function.section, function.start, function.size))


def assembled_section(folder: Path, text: bytes, target: Target) -> tuple[bytes, int, int]:
    """The `.eh_frame` that directives become: its bytes, its address, and what has to be added to absolute starts.

    Without a linker for the target, starts are relative to the code, whose address is then both numbers.
    """
    source, made = folder / "section.s", folder / "section.o"
    source.write_bytes(text)
    run_oracle(target.program, *target.options, "--fatal-warnings", source, "-o", made, suite=target.suite)
    address = re.findall(r"^/\* \.unwound: address (0x[0-9a-f]+) \*/$", text.decode(), re.MULTILINE)
    if target.linker is None:
        with made.open("rb") as file:
            relocated = ELFFile(file).get_dwarf_info(relocate_dwarf_sections=True).eh_frame_sec.stream
            return relocated.getvalue(), int(address[0], 16), int(address[0], 16)
    script = folder / "section.ld"
    script.write_text(SCRIPT.format(address=address[0]))
    with linked(target, folder / "section", "-T", script, made).open("rb") as file:
        section = ELFFile(file).get_section_by_name(".eh_frame")
        return section.data(), section["sh_addr"], 0
