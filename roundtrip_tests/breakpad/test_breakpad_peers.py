"""Where dump_syms and symbolic are wrong, and our lines right: small programs, and Debian's libraries.

Strategy: each peer's own text shows the fault, so that a version without it is noticed; a walk shows its cost.
test_stack_cfi.py tests our text in each case.
"""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from unwindkit import read_elf, to_stack_cfi

from ..cfi.test_cfi_reading import libc
from ..support.oracles import BREAKPAD_PROGRAMS, LIBLLVM, oracle_root
from ..support.programs.minidumps import Module, State
from ..support.texts.stackwalks import BY_CFI, cfi_lines, dump_syms, store, walk
from ..support.texts.symbolic_reader import cfi_text, refusal

AMD64 = pytest.mark.oracle("npm", "symbolic", "gcc")
ARM64 = pytest.mark.oracle("npm", "symbolic", "sid-arm64", "aarch64-linux-gnu-gcc")

# The row after pop is in force for more than one instruction.
SOURCE = """
 .cfi_sections {sections}
 .globl main
 .type main, @function
main: .cfi_startproc
 push %rbx
 .cfi_def_cfa_offset 16
 .cfi_offset rbx, -16
 nop
 pop %rbx
 .cfi_def_cfa_offset 8
 .cfi_restore rbx
 nop
 nop
 nop
 xor %eax, %eax
 ret
 .cfi_endproc
 .size main, . - main
 .section .note.GNU-stack, "", @progbits
"""
C_SOURCE = (
    "int g(int n) { return n; } int f(int n) { return g(n) + 1; } int main(int n, char **v) { return f(n) + !v; }"
)


def assembled(folder: Path, sections: str = ".eh_frame") -> Path:
    source, program = folder / "pushing.s", folder / "pushing"
    source.write_text(SOURCE.format(sections=sections))
    subprocess.run(["gcc", "-nostdlib", "-static", "-Wl,-e,main", "-o", program, source], check=True)
    return program


def compiled_for_arm64(folder: Path, protection: str) -> Path:
    source, program = folder / "calling.c", folder / "calling"
    source.write_text(C_SOURCE)
    flags = ["-O1", "-fno-inline", f"-mbranch-protection={protection}"]
    subprocess.run(["aarch64-linux-gnu-gcc", *flags, "-o", program, source], check=True)
    return program


def with_unwind_type(path: Path) -> bytes:
    """The file with an `.eh_frame` of type SHT_X86_64_UNWIND."""
    data = bytearray(path.read_bytes())
    with path.open("rb") as file:
        elf = ELFFile(file)
        header = elf["e_shoff"] + elf["e_shentsize"] * elf.get_section_index(".eh_frame")
    data[header + 4 : header + 8] = (0x70000001).to_bytes(4, "little")
    return bytes(data)


def ours(path: Path) -> list[str]:
    return to_stack_cfi(read_elf(path))[0].decode().splitlines()


def inits(lines: list[str]) -> list[str]:
    return [line for line in lines if line.startswith("STACK CFI INIT ")]


# --- symbolic ---------------------------------------------------------------------------------------------------------


@AMD64
def test_symbolic_leaves_a_rule_in_force_that_was_restored(tmp_path: Path) -> None:
    """After pop its walk reads the caller's rbx from below the stack pointer; ours leaves it in the register."""
    program = assembled(tmp_path)
    theirs = cfi_text(program)
    assert len(ours(program)) == len(theirs.splitlines()) == 3
    assert ours(program)[2].endswith(" $rbx: $rbx .cfa: $rsp 8 +")
    assert theirs.splitlines()[2].endswith(" .cfa: $rsp 8 +")
    start = int(ours(program)[0].split()[3], 16)
    module = Module("pushing", 0x400000, 0x10000, bytes(20))
    stack = struct.pack("<5Q", 0, 0xBAD, 0x400000 + start + 1, 0, 0)
    state = State({"rip": 0x400000 + start + 4, "rsp": 0x7000_0010, "rbx": 0x1234}, 0x7000_0000, stack, (module,))
    head = f"MODULE Linux x86_64 {'0' * 33} pushing\n"
    found = {}
    for name, text in (("ours", "\n".join(ours(program)) + "\n"), ("theirs", theirs)):
        frame = walk("x86_64", state, store(tmp_path / name, [head + text]))[1]
        assert (frame.found_by, frame.pc) == (BY_CFI, 0x400000 + start + 1)
        found[name] = frame.registers["rbx"]
    assert found == {"ours": 0x1234, "theirs": 0xBAD}


def of_main(path: Path, lines: list[str]) -> list[str]:
    """Only the lines of `main`."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        (main,) = elf.get_section_by_name(".symtab").get_symbol_by_name("main")
        base = next(segment["p_vaddr"] for segment in elf.iter_segments("PT_LOAD"))
    start, end = main["st_value"] - base, main["st_value"] - base + main["st_size"]
    places = [int(line.removeprefix("STACK CFI ").removeprefix("INIT ").split()[0], 16) for line in lines]
    return [line for line, place in zip(lines, places, strict=True) if start <= place < end]


@ARM64
def test_symbolic_loses_what_follows_a_signed_return_address(tmp_path: Path) -> None:
    """It ends a function at the first opcode that it does not know (symbolic's issue 946)."""
    program = compiled_for_arm64(tmp_path, "pac-ret")
    assert len(of_main(program, ours(program))) >= 3
    assert len(of_main(program, cfi_text(program).splitlines())) == 1
    library = libc("sid-arm64")
    assert len(cfi_text(library).splitlines()) * 5 < len(ours(library))


@ARM64
def test_symbolic_refuses_files_with_the_other_signing_key(tmp_path: Path) -> None:
    program = compiled_for_arm64(tmp_path, "pac-ret+b-key")
    assert "unknown CFI augmentation" in refusal(program)
    assert len(of_main(program, ours(program))) >= 3


@pytest.mark.oracle("symbolic", "sid-s390x", "sid-riscv64")
@pytest.mark.parametrize("suite", ["sid-s390x", "sid-riscv64"])
def test_symbolic_writes_changes_without_a_beginning(suite: str) -> None:
    """It has no names for the registers of their CFA, and omits the INIT."""
    theirs = cfi_text(libc(suite)).splitlines()
    assert len(theirs) > 2000
    assert inits(theirs) == []
    assert len(inits(ours(libc(suite)))) > 3000


# --- dump_syms --------------------------------------------------------------------------------------------------------


@ARM64
def test_dump_syms_drops_functions_with_the_other_signing_key(tmp_path: Path) -> None:
    program = compiled_for_arm64(tmp_path, "pac-ret+b-key")
    assert of_main(program, cfi_lines(dump_syms(program))) == []
    assert len(of_main(program, ours(program))) >= 3


@ARM64
def test_dump_syms_says_nothing_of_a_return_address_that_is_in_its_register_again(tmp_path: Path) -> None:
    program = compiled_for_arm64(tmp_path, "pac-ret")
    assert ".ra: .ra" in of_main(program, cfi_lines(dump_syms(program)))[-1]
    assert " .ra: x30 " in of_main(program, ours(program))[-1]


@AMD64
def test_dump_syms_writes_a_function_of_both_sections_twice(tmp_path: Path) -> None:
    program = assembled(tmp_path, ".eh_frame, .debug_frame")
    assert len(inits(of_main(program, cfi_lines(dump_syms(program))))) == 2
    assert len(inits(of_main(program, ours(program)))) == 1
    assert to_stack_cfi(read_elf(program, section="all"))[0] == to_stack_cfi(read_elf(program))[0]


@AMD64
def test_dump_syms_passes_over_an_eh_frame_of_its_own_type(tmp_path: Path) -> None:
    """SHT_X86_64_UNWIND, as LLVM's tools write it."""
    program = assembled(tmp_path)
    before = ours(program)
    program.write_bytes(with_unwind_type(program))
    assert cfi_lines(dump_syms(program)) == []
    assert ours(program) == before


@pytest.mark.oracle("npm", "bookworm-amd64")
def test_dump_syms_writes_no_line_for_debians_libllvm() -> None:
    path = oracle_root("bookworm-amd64") / LIBLLVM
    assert cfi_lines(dump_syms(path, "-r")) == []
    assert len(inits(ours(path))) > 90_000


@pytest.mark.oracle("npm", "sid-s390x")
def test_dump_syms_crashes_on_s390x() -> None:
    program = oracle_root("npm") / BREAKPAD_PROGRAMS / "dump_syms"
    done = subprocess.run([program, libc("sid-s390x")], capture_output=True, check=False)
    assert done.returncode < 0
    assert ours(libc("sid-s390x"))
