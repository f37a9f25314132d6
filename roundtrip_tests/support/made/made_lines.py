"""Files with line number programs, by hand, compilers and assemblers; readelf's and llvm-dwarfdump's output for them.

Strategy: no product code but the two dumps and the table's rows. An assembler source sets every register by `.loc`, for
GNU as and llvm-mc alike.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from unwindkit import dump_lines
from unwindkit.jobs.section_dumps import DECODED, RAW

from ..judges.line_machine import Registers
from ..oracles import OracleError, oracle_command, run_oracle
from ..tiny_elf import Content
from .made_frames import Target, elf_file

STRINGS = ".debug_line_str"

C_SOURCE = """#include "part.h"
int table[64];
int main(int count, char **arguments)
{
  int sum = 0;
  for (int index = 0; index < count; index++)
    sum += part(index) ? part(index + 1) : table[index & 63]++;
  return sum == 3 ? rest(sum) : (long) arguments & 1;
}
"""
PART_H = """static inline int part(int value) { return value > 3 ? value * 5 : value % 3; }

__attribute__((noinline)) static int rest(int value)
{

  return part(value) + 1;
}
"""

ASSEMBLER = """ .text
 .globl first
first:
 .file 1 "first.c"
 .file 2 "second.h"
 .loc 1 10 3
 .skip 4
 .loc 1 11 0 prologue_end
 .skip 4
 .loc 1 3 7 is_stmt 0
 .skip 8
 .loc 2 1000 9 is_stmt 1 discriminator 3
 .skip 4
 .loc 2 1001 9 isa 2
 .skip 200
 .loc 2 1002 9 basic_block
 .skip 1200
 .loc 1 900 1 epilogue_begin
 .skip 40000
 .loc 1 1 1
 .skip 4
 .loc 1 70 1
 .skip 80000
 .loc 1 71 1
 .skip 16
 .section .text.other, "ax", PROGBITS
 .globl second
second:
 .loc 2 5 5
 .skip 4
 .loc 2 5 6
 .skip 4
"""


def compiled(folder: Path, *options: str, linked: bool = True) -> Path:
    """A program, or an object, of the system's gcc."""
    (folder / "main.c").write_text(C_SOURCE)
    (folder / "part.h").write_text(PART_H)
    output = folder / ("main" if linked else "main.o")
    command = ["gcc", *options, *([] if linked else ["-c"]), "main.c", "-o", output.name]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return output


def assembled(folder: Path, version: int, prefix: str = "", suite: str = "forky", linked: bool = False) -> Path:
    """The object that GNU as 2.47 assembles from the source, or the file ld links from it, with line information of a
    version."""
    source = folder / "lines.s"
    source.write_text(ASSEMBLER.replace("PROGBITS", "%progbits"))
    output = folder / f"lines{version}.o"
    run_oracle(f"{prefix}as", f"--gdwarf-{version}", "-o", output, source, suite=suite)
    if not linked:
        return output
    options = ("-Ttext=0x10000", "-e", "0", "-o", folder / f"lines{version}")
    run_oracle(f"{prefix}ld", *options, output, suite=suite)
    return folder / f"lines{version}"


def machine_code(folder: Path, version: int, triple: str, *options: str) -> Path:
    """The object that llvm-mc 22 assembles from the source: clang's line programs are written by the same code."""
    source = folder / "lines.s"
    source.write_text(ASSEMBLER.replace("PROGBITS", "%progbits"))
    output = folder / f"lines{version}.o"
    arguments = (f"-triple={triple}", f"-dwarf-version={version}", "-filetype=obj", *options)
    run_oracle("llvm-mc-22", *arguments, "-o", output, source, suite="sid-llvm")
    return output


def line_file(path: Path, target: Target, data: bytes, strings: bytes = b"") -> Path:
    """A file with a `.debug_line` and, if there are any strings, a string section."""
    contents = [Content(".debug_line", data, flags=0)]
    contents += [Content(STRINGS, strings, flags=0)] if strings else []
    path.write_bytes(elf_file(target, *contents))
    return path


def by_us(path: Path, *, decoded: bool) -> bytes:
    return b"".join(dump_lines(path, DECODED if decoded else RAW))


def by_readelf(path: Path, *, decoded: bool) -> bytes:
    """Its standard output; a warning is not a failure."""
    command = [*oracle_command("readelf"), "-wNL" if decoded else "-wNl", path]
    done = subprocess.run(command, capture_output=True, check=False, env=os.environ | {"LC_ALL": "C"})
    if done.returncode not in (0, 1):
        raise OracleError(f"readelf ended with {done.returncode}: {done.stderr.decode(errors='replace')[:500]}")
    return done.stdout


def agree(path: Path) -> None:
    """Both print the same, for instructions and for rows."""
    for decoded in (False, True):
        assert by_us(path, decoded=decoded) == by_readelf(path, decoded=decoded), path


_LLVM_ROW = re.compile(r"^0x([0-9a-f]+) +(\d+) +(\d+) +(\d+) +(\d+) +(\d+) +(\d+) *(.*)$", re.MULTILINE)


def llvm_lines(path: Path) -> list[tuple[str, ...]]:
    """The rows of all units as llvm-dwarfdump 22 prints them, field by field."""
    return _LLVM_ROW.findall(run_oracle("llvm-dwarfdump-22", "--debug-line", path, suite="sid-llvm"))


def rows_of_llvm(path: Path) -> list[list[Registers]]:
    """The rows of each sequence, as in llvm-dwarfdump 22."""
    found: list[list[Registers]] = [[]]
    for address, *numbers, said in llvm_lines(path):
        line, column, file, isa, discriminator, op_index = map(int, numbers)
        flags = dict.fromkeys(said.split(), True)
        row = Registers(int(address, 16), op_index, file, line, column, isa=isa, discriminator=discriminator, **flags)
        found[-1].append(row)
        if row.end_sequence:
            found.append([])
    assert not found.pop()
    return found
