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
    CfaKind,
    ParseError,
    Reason,
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
from unwindkit.converters.arch.table import (
    ARCHITECTURES,
    Architecture,
    architecture_named,
    architecture_of,
    unwind_registers,
)
from unwindkit.converters.rules import RuleKind
from unwindkit.converters.table.model import CfaRule, Function, table_of
from unwindkit.schemas.cfi import NO_EFFECTS, SPARC_EFFECTS

from ..support.commands import refuses, unwindkit
from ..support.handmade import at, on, row
from ..support.programs.objects import SUITES, TARGETS, assembled, linked
from ..support.tiny_elf import tiny_elf

EVERY = pytest.mark.parametrize("architecture", ARCHITECTURES.values(), ids=lambda one: one.name)
NOTHING = {
    "stack_pointer": None,
    "frame_pointer": None,
    "return_address": None,
    "assembler": None,
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


def test_an_architecture_outside_the_table() -> None:
    """M88000, the example of the DWARF text: nothing but its machine, its address size and its byte order is known."""
    found = architecture_of("EM_88K", 4, "big")
    assert (found.name, found.machine, found.address_size, found.byte_order) == ("EM_88K-32-big", "EM_88K", 4, "big")
    assert {name: getattr(found, name) for name in NOTHING} == NOTHING
    assert architecture_named(found.name, "") == found
    assert architecture_named("999-64-little", "") == architecture_of("999", 8, "little")
    assert architecture_named("EM_X86_64-64-little", "") is ARCHITECTURES["x86_64"]
    for wrong in ("EM_88K", "EM_88K-16-big", "EM_NONSENSE-32-big", "EM_88K-32-middle", "m88k"):
        with pytest.raises(
            BuildError, match=rf"^arch: '{wrong}' is not one of .*, or of the form EM_88K-32-big for any other$"
        ):
            architecture_named(wrong, "")
    # readelf and gcc's unwinder know the register windows of 32-bit SPARC, too.
    assert architecture_of("EM_SPARC", 4, "big").instruction_effects == SPARC_EFFECTS


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
    registers, word = unwind_registers(architecture), architecture.register_size
    stack, column = registers.sp, registers.ra
    rows = (row(0, on(stack, word)), row(4, on(stack, 4 * word), at(column, -word)))
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
    table, reason = replace(small_table(architecture), architecture=one), ""
    if name.startswith("sframe") and one.sframe is None:
        reason = rf"^\.sframe: abi_arch: SFrame has no ABI for {one.name}$"
    elif name == "stack_cfi" and one.breakpad_registers is None:
        reason = rf"^STACK CFI: registers: Breakpad has no register names for {one.name}$"
    elif name == "directives" and one.assembler is None:
        reason = rf"^directives: the assembler's defaults for {one.name} are not known$"
    if reason:
        with pytest.raises(BuildError, match=reason):
            convert(table)
    else:
        assert convert(table)


def test_merged_functions_need_to_know_the_padding() -> None:
    unknown = replace(ARCHITECTURES["x86_64"], padding_code=None)
    assert to_sframe(small_table(unknown), compact="share")
    with pytest.raises(BuildError, match=r"^\.sframe: compact: 'merge' is not supported for x86_64: its padding"):
        to_sframe(small_table(unknown), compact="merge")


def test_symbol_files_of_architectures_without_names_are_not_read() -> None:
    with pytest.raises(BuildError, match="registers: Breakpad has no register names for EM_88K-32-big"):
        from_stack_cfi("STACK CFI INIT 10 8 .cfa: $sp 8 + .ra: .cfa ^\n", "EM_88K-32-big")


def test_x32_has_registers_of_8_bytes_and_addresses_of_4() -> None:
    """A saved register is read whole; DWARF computes with 4 bytes here, Breakpad with 8: no expression is both."""
    x32 = ARCHITECTURES["x32"]
    rows = (row(0, on(7, 8), at(16, -8)), row(1, on(7, 16), at(6, -16), at(16, -8)), row(4, expression(CFA_OF_RSP)))
    text, refusals = to_stack_cfi(table_of(x32, [Function(0x1000, 8, rows, return_column=16)]))
    assert text == (
        b"STACK CFI INIT 1000 4 .cfa: $rsp 8 + .ra: .cfa -8 + ^\nSTACK CFI 1001 $rbp: .cfa -16 + ^ .cfa: $rsp 16 +\n"
    )
    assert [(one.start, one.end, one.reason) for one in refusals] == [(0x1004, 0x1008, Reason.CFA_EXPRESSION)]
    for line in ("$rsp 8 + ^", "$rsp $rbp +"):
        with pytest.raises(ParseError, match="no DWARF expression of x32 computes with words of a register's size"):
            from_stack_cfi(f"STACK CFI INIT 10 8 .cfa: {line} .ra: .cfa ^\n", "x32")


# DW_OP_breg7 (rsp) 8; DW_OP_deref.
CFA_OF_RSP = bytes.fromhex("77 08 06")


def expression(operations: bytes) -> CfaRule:
    return CfaRule(CfaKind.EXPRESSION, 0, operations)


# --- files ----------------------------------------------------------------------------------------------------

UNKNOWN_MACHINE = 42  # EM_SH


def test_relocations_of_a_machine_without_a_row_are_refused(tmp_path: Path) -> None:
    """A linked file of such a machine is dumped; a relocatable one would need its relocations applied."""
    with pytest.raises(ParseError, match="e_machine: the relocation types of EM_SH are not supported"):
        relocation_types("EM_SH")
    path = tmp_path / "file"
    path.write_bytes(bytes(tiny_elf(e_machine=UNKNOWN_MACHINE)))
    assert "DW_CFA_def_cfa: r7 ofs 8" in unwindkit("dump", "--frames", path).stdout
    table = read_elf(path)
    assert (table.architecture.name, len(table)) == ("EM_SH-64-little", 2)


PROGRAM = """
 .text
 .globl f
f: .cfi_startproc
 @
 .cfi_def_cfa_offset 32
 @
 .cfi_endproc
"""


@pytest.mark.oracle("forky-cross")
@pytest.mark.parametrize(
    ("name", "module", "cfi"),
    [
        ("loongarch64", "loongarch64", ".cfa: $sp 0 + .ra: $ra"),
        ("sparc64", "sparcv9", ".cfa: %o6 2047 + .ra: %o7"),
        ("x32", "x86_64", ".cfa: $rsp 8 + .ra: .cfa -8 + ^"),
    ],
)
def test_symbol_files_of_architectures_that_breakpad_lacks(name: str, module: str, cfi: str, tmp_path: Path) -> None:
    target = TARGETS[name]
    path = linked(target, tmp_path / "linked", "-e", "f", assembled(tmp_path, target, PROGRAM))
    unwindkit("breakpad", path, "-o", tmp_path / "out.sym")
    first, *lines = (tmp_path / "out.sym").read_text().splitlines()
    assert first.startswith(f"MODULE Linux {module} ")
    assert any(line.startswith("STACK CFI INIT ") and line.endswith(cfi) for line in lines)
    refuses(path, "sframe", path, "-o", tmp_path / "out", says=f".sframe: abi_arch: SFrame has no ABI for {name}")


# The assemblers' names of the stack pointer, the frame pointer, and the register in which a call leaves the return
# address.
SP_FP_RA = {
    "x86": "%esp %ebp",
    "x86_64": "%rsp %rbp %rip",
    "x32": "%rsp %rbp %rip",
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
    # What a call pushes, its return pops: SP after it is the CFA plus the ABI's offset.
    pushed = -sum(rule.value for rule in function.rows[0].registers if isinstance(rule.value, int))
    assert one.caller_sp_offset == pushed - int(function.rows[0].cfa.value)
