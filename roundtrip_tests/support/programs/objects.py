"""Relocatable files of every architecture: assembled by GNU as 2.47 if Debian has it for that one, else by llvm-mc 22.

Strategy: one program with three functions in two sections, only in directives, so that every assembler accepts it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ..oracles import run_oracle


@dataclass(frozen=True, slots=True)
class Target:
    """The assembler of an architecture. `name` is the table's; `program` of `suite` is run; `nop` has `size` bytes.

    `linker` is of the same suite; None: there is none. `emulation` is its option -m, "" for the default.
    """

    name: str
    suite: str
    program: str
    options: tuple[str, ...] = ()
    nop: str = "nop"
    size: int = 4
    linker: str | None = None
    emulation: str = ""


def _gnu(name: str, suite: str, prefix: str, *options: str, nop: str = "nop", size: int = 4) -> Target:
    return Target(name, suite, f"{prefix}as", options, nop, size, f"{prefix}ld")


def _llvm(name: str, triple: str, *options: str) -> Target:
    return Target(name, "sid-llvm", "llvm-mc-22", (f"-triple={triple}", "-filetype=obj", *options))


TARGETS = {
    "x86_64": _gnu("x86_64", "forky", "", size=1),
    "x32": replace(_gnu("x32", "forky", "", "--x32", size=1), emulation="elf32_x86_64"),
    "aarch64": _gnu("aarch64", "forky", "aarch64-linux-gnu-"),
    "s390x": _gnu("s390x", "forky", "s390x-linux-gnu-", nop="nopr 0", size=2),
    "riscv64": _gnu("riscv64", "forky-cross", "riscv64-linux-gnu-", "-march=rv64gc", nop="c.nop", size=2),
    "riscv32": replace(
        _gnu("riscv32", "forky-cross", "riscv64-linux-gnu-", "-march=rv32gc", "-mabi=ilp32d", nop="c.nop", size=2),
        emulation="elf32lriscv",
    ),
    "x86": _gnu("x86", "forky-cross", "i686-linux-gnu-", size=1),
    "arm": _gnu("arm", "forky-cross", "arm-linux-gnueabihf-"),
    "ppc": _gnu("ppc", "forky-cross", "powerpc-linux-gnu-"),
    "ppc64": _gnu("ppc64", "forky-cross", "powerpc64le-linux-gnu-"),
    "loongarch64": _gnu("loongarch64", "forky-cross", "loongarch64-linux-gnu-"),
    "sparc64": _gnu("sparc64", "forky-cross", "sparc64-linux-gnu-"),
    "aarch64_be": _llvm("aarch64_be", "aarch64_be-linux-gnu"),
    "ppc64 big-endian": _llvm("ppc64", "powerpc64-linux-gnu"),
    "mips": _llvm("mips", "mips-linux-gnu"),
    "mips little-endian": _llvm("mips", "mipsel-linux-gnu"),
    "mips n32": _llvm("mips", "mips64el-linux-gnuabin32"),
    "mips64": _llvm("mips64", "mips64-linux-gnuabi64"),
    "mips64 little-endian": _llvm("mips64", "mips64el-linux-gnuabi64"),
}
SUITES = ("forky-cross", "sid-llvm")

# Rows: f 0 to 4 nops, g 0 to 3, h 0 to 2 after g and a nop. `@` is the nop.
PROGRAM = """
 .section .text.a,"ax"
 .globl f, g, h
f: .cfi_startproc
 @
 .cfi_def_cfa_offset 32
 @
 @
 .cfi_offset 1, -8
 @
 .cfi_def_cfa_offset 0
 .cfi_endproc
 .section .text.b,"ax"
g: .cfi_startproc
 @
 .cfi_remember_state
 .cfi_def_cfa_offset 64
 @
 .cfi_undefined 3
 @
 .cfi_restore_state
 .cfi_endproc
 @
h: .cfi_startproc
 @
 .cfi_same_value 4
 @
 .cfi_endproc
"""


def assembled(folder: Path, target: Target, source: str, *options: str) -> Path:
    """The object of a source in which `@` is a nop."""
    text, path = folder / "source.s", folder / "object.o"
    text.write_text(source.replace("@", target.nop))
    run_oracle(target.program, *target.options, *options, text, "-o", path, suite=target.suite)
    return path


def linked(target: Target, output: Path, *arguments: str | Path) -> Path:
    """The output of the target's linker."""
    assert target.linker is not None
    emulation = ("-m", target.emulation) if target.emulation else ()
    run_oracle(target.linker, *emulation, *arguments, "-o", output, suite=target.suite)
    return output
