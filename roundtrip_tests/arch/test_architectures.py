"""The table of architectures: each row is complete, assemblers agree with it, and what it lacks is refused by name.

Strategy: a row made here has None in every field that may be None; each conversion of it succeeds or fails as for bad
input.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields, replace
from pathlib import Path

import pytest
from unwindkit import (
    BuildError,
    FormatError,
    ParseError,
    UnwindTable,
    from_stack_cfi,
    read_elf,
    to_debug_frame,
    to_directives,
    to_eh_frame,
    to_sframe,
    to_stack_cfi,
)
from unwindkit.converters.arch.registers import READELF_NAMES
from unwindkit.converters.arch.relocations import RELOCATION_TYPES, relocation_types
from unwindkit.converters.arch.table import ARCHITECTURES, Architecture
from unwindkit.converters.rules import RuleKind
from unwindkit.converters.table.model import CfaRule, Function, table_of
from unwindkit.schemas.cfi import NO_EFFECTS

from ..support.commands import refuses, unwindkit
from ..support.handmade import at, on, row
from ..support.programs.objects import SUITES, TARGETS, assembled, linked
from ..support.tiny_elf import tiny_elf

EVERY = pytest.mark.parametrize("architecture", ARCHITECTURES.values(), ids=lambda one: one.name)
NOTHING = {
    "program_counter": None,
    "instruction_effects": NO_EFFECTS,
    "sframe": None,
    "breakpad_module": None,
    "breakpad_registers": None,
    "plt_stubs": None,
    "padding_code": None,
}


def test_no_row_leaves_a_field_out() -> None:
    assert [one.name for one in fields(Architecture) if (one.default, one.default_factory) != (MISSING, MISSING)] == []


def test_every_machine_has_its_registers_and_relocations() -> None:
    machines = {architecture.machine for architecture in ARCHITECTURES.values()}
    assert set(READELF_NAMES) == machines == set(RELOCATION_TYPES)


@EVERY
def test_a_row_agrees_with_its_sframe_abi(architecture: Architecture) -> None:
    abi = architecture.sframe
    if abi is not None:
        assert abi.byte_order == architecture.byte_order
        assert abi.signs_return_addresses == architecture.signs_return_addresses
        assert architecture.padding_code is not None
        assert architecture.plt_stubs is not None
        # Where calls push the return address, it is at the location that GNU as gives.
        assert abi.fixed_ra_offset == architecture.assembler.ra_offset


def small_table(architecture: Architecture) -> UnwindTable:
    """Two functions; in the first, the CFA moves and the return address is saved."""
    stack, word = architecture.stack_pointer, architecture.address_size
    rows = (row(0, on(stack, word)), row(4, on(stack, 4 * word), at(architecture.return_address, -word)))
    column = architecture.return_address
    functions = [Function(0x1000, 16, rows, return_column=column), Function(0x1010, 16, rows[:1], return_column=column)]
    return table_of(architecture, functions)


CONVERSIONS: dict[str, Callable[[UnwindTable], object]] = {
    **{f"sframe {version}": lambda table, version=version: to_sframe(table, version) for version in (2, 3)},
    "sframe, shared": lambda table: to_sframe(table, compact="share"),
    "sframe, merged": lambda table: to_sframe(table, compact="merge"),
    "stack_cfi": to_stack_cfi,
    "eh_frame": to_eh_frame,
    "debug_frame": to_debug_frame,
    "directives": to_directives,
}


@pytest.mark.parametrize("name", CONVERSIONS)
@pytest.mark.parametrize("lacks", [False, True], ids=["as it is", "with nothing"])
@EVERY
def test_a_conversion_ends_or_says_what_the_architecture_lacks(
    architecture: Architecture, lacks: bool, name: str
) -> None:
    convert, one = CONVERSIONS[name], replace(architecture, **NOTHING) if lacks else architecture
    if name.startswith("sframe") and one.sframe is None:
        with pytest.raises(BuildError, match=rf"^\.sframe: abi_arch: SFrame has no ABI for {one.name}$"):
            convert(small_table(one))
    elif name == "stack_cfi" and one.breakpad_registers is None:
        reason = rf"^STACK CFI: registers: Breakpad has no register names for {one.name}$"
        with pytest.raises(BuildError, match=reason):
            convert(small_table(one))
    else:
        assert convert(small_table(one))


def test_merged_functions_need_to_know_the_padding() -> None:
    unknown = replace(ARCHITECTURES["x86_64"], padding_code=None)
    assert to_sframe(small_table(unknown), compact="share")
    with pytest.raises(BuildError, match=r"^\.sframe: compact: 'merge' is not supported for x86_64: its padding"):
        to_sframe(small_table(unknown), compact="merge")


def test_symbol_files_of_architectures_without_names_are_not_read() -> None:
    for name in ("loongarch64", "sparc64"):
        with pytest.raises(BuildError, match=f"Breakpad has no register names for {name}"):
            from_stack_cfi("STACK CFI INIT 10 8 .cfa: $sp 8 + .ra: .cfa ^\n", name)


# --- files ----------------------------------------------------------------------------------------------------

UNKNOWN_MACHINE = 42  # EM_SH


def test_relocations_of_a_machine_without_a_row_are_refused(tmp_path: Path) -> None:
    """A linked file of such a machine is dumped; a relocatable one would need its relocations applied."""
    with pytest.raises(ParseError, match="e_machine: the relocation types of EM_SH are not supported"):
        relocation_types("EM_SH")
    path = tmp_path / "file"
    path.write_bytes(bytes(tiny_elf(e_machine=UNKNOWN_MACHINE)))
    assert "DW_CFA_def_cfa: r7 ofs 8" in unwindkit("dump", "--frames", path).stdout
    with pytest.raises(FormatError, match="EM_SH with addresses of 8 bytes is not supported"):
        read_elf(path)


PROGRAM = """
 .text
 .globl f
f: .cfi_startproc
 @
 .cfi_def_cfa_offset 32
 @
 .cfi_endproc
"""
WITHOUT_STACK_CFI = {
    "loongarch64": "MODULE: architecture: Breakpad has no name for loongarch64",
    "sparc64": "STACK CFI: registers: Breakpad has no register names for sparc64",
}


@pytest.mark.oracle("forky-cross")
@pytest.mark.parametrize("name", WITHOUT_STACK_CFI)
def test_breakpad_commands_refuse_in_one_line(name: str, tmp_path: Path) -> None:
    path = linked(TARGETS[name], tmp_path / "linked", "-e", "f", assembled(tmp_path, TARGETS[name], PROGRAM))
    refuses(path, "breakpad", path, "-o", tmp_path / "out.sym", says=WITHOUT_STACK_CFI[name])
    missing = WITHOUT_STACK_CFI["sparc64"].replace("sparc64", name)
    refuses(path, "convert", path, tmp_path / "out", "--from", "eh_frame", "--to", "breakpad", says=missing)
    refuses(path, "sframe", path, "-o", tmp_path / "out", says=f".sframe: abi_arch: SFrame has no ABI for {name}")


# The assemblers' names of the stack pointer, the frame pointer, and the register in which a call leaves the return
# address.
SP_FP_RA = {
    "x86": "%esp %ebp",
    "x86_64": "%rsp %rbp %rip",
    "arm": "sp r11 lr",
    "aarch64": "sp x29 x30",
    "aarch64_be": "sp x29 x30",
    "mips": "$sp $fp $ra",
    "mips64": "$sp $fp $ra",
    "ppc": "r1 r31 lr",
    "ppc64": "r1 r31 lr",
    "riscv32": "sp s0 ra",
    "riscv64": "sp s0 ra",
    "s390x": "%r15 %r11 %r14",
    "loongarch64": "$sp $fp $ra",
    "sparc64": "%sp %fp %o7",
}


@pytest.mark.oracle(*SUITES)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_an_assembler_gives_the_three_registers_these_numbers(name: str, tmp_path: Path) -> None:
    names = SP_FP_RA[name].split()
    lines = "".join(f" .cfi_same_value {one}\n" for one in names)
    (function,) = read_elf(assembled(tmp_path, TARGETS[name], f"f: .cfi_startproc\n @\n{lines} @\n .cfi_endproc\n"))
    found = {rule.register for rule in function.rows[-1].registers if rule.kind is RuleKind.SAME_VALUE}
    one = ARCHITECTURES[name]
    assert found == {*(one.stack_pointer, one.frame_pointer, one.return_address)[: len(names)]}
    assert function.return_column == one.return_address
    assert isinstance(function.rows[0].cfa, CfaRule)
    assert function.rows[0].cfa.register == one.stack_pointer
