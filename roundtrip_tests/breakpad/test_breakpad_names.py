"""Breakpad's register names: the assemblers of GNU and LLVM give each name its DWARF number.

Strategy: one function for each name, in which that register keeps its value. Breakpad's `$` is x86's `%`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from unwindkit import read_elf
from unwindkit.converters.arch.table import ARCHITECTURES, breakpad_names
from unwindkit.converters.rules import RuleKind

from ..support.programs.objects import SUITES, TARGETS, Target, assembled

pytestmark = pytest.mark.oracle(*SUITES)

# Vector and floating-point registers that have no name in the `.cfi_` directives of these assemblers.
NO_NAMES = {"aarch64": r"v\d", "aarch64_be": r"v\d", "mips": r"\$f\d", "mips64": r"\$(f|t)\d"}
# Breakpad uses the names of MIPS' old ABI for all, in which registers 8 to 15 are t0 to t7; the new ABIs differ.
NAMED = {name: target for name, target in TARGETS.items() if ARCHITECTURES[target.name].breakpad_registers is not None}
OLD_ABI = {name: target for name, target in NAMED.items() if name != "mips n32"}


def in_assembler(target: Target, name: str) -> str:
    if not target.name.startswith(("x86", "x32")):
        return name
    return re.sub(r"^%st(\d)$", r"%st(\1)", name.replace("$", "%"))


@pytest.mark.parametrize("target", OLD_ABI.values(), ids=OLD_ABI)
def test_an_assembler_gives_each_name_its_number(target: Target, tmp_path: Path) -> None:
    names = {
        number: in_assembler(target, name)
        for number, name in breakpad_names(ARCHITECTURES[target.name]).items()
        if not re.match(NO_NAMES.get(target.name, "none"), name)
    }
    body = "".join(f" .cfi_startproc\n @\n .cfi_same_value {name}\n @\n .cfi_endproc\n" for name in names.values())
    table = read_elf(assembled(tmp_path, target, f" .text\n{body}"))
    rules = [next(rule for rule in one.rows[-1].registers if rule.kind is RuleKind.SAME_VALUE) for one in table]
    assert dict(zip([rule.register for rule in rules], names.values(), strict=True)) == names
    assert len(table) == len(names) >= 20


def test_where_registers_begin_that_no_directive_names() -> None:
    """DWARF for the Arm 64-bit Architecture, 4.1: V0 is 64; MIPS' ABI: the floating-point registers follow 31."""
    for name in ("aarch64", "aarch64_be"):
        assert [breakpad_names(ARCHITECTURES[name])[number] for number in (31, 64, 95)] == ["sp", "v0", "v31"]
        assert not {63, 96} & set(breakpad_names(ARCHITECTURES[name]))
    for name in ("mips", "mips64"):
        assert [breakpad_names(ARCHITECTURES[name])[number] for number in (31, 32, 63)] == ["$ra", "$f0", "$f31"]
        assert 64 not in breakpad_names(ARCHITECTURES[name])


SP_FP_RA = {
    "x86": "$esp $ebp $eip",
    "x86_64": "$rsp $rbp $rip",
    "x32": "$rsp $rbp $rip",
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
    "sparc64": "%o6 %i6 %o7",
}


def test_stack_pointer_frame_pointer_and_return_address_by_name() -> None:
    for name, names in SP_FP_RA.items():
        architecture = ARCHITECTURES[name]
        numbers = (architecture.stack_pointer, architecture.frame_pointer, architecture.return_address)
        assert " ".join(breakpad_names(architecture)[number] for number in numbers) == names


def test_every_architecture_has_names() -> None:
    assert SP_FP_RA.keys() == ARCHITECTURES.keys()
