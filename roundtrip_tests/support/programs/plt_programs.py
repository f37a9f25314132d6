"""Programs whose calls go through each kind of x86-64 PLT, and three independent sources of the rules there.

Strategy: no product code. `cfi_offsets` runs the CFI's own expression bytes (read by pyelftools) through `rpn`;
`Sframe` reads the section by the specification's layout with `struct`; `plt_steps` single-steps the program
under ptrace (a tracer in C) and measures where the CFA is.
"""

from __future__ import annotations

import functools
import platform
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

from elftools.dwarf.callframe import FDE, CFARule
from elftools.elf.elffile import ELFFile

from ..judges import rpn

SP, PC = 7, 16
PLT_SECTIONS = (".plt", ".plt.sec", ".plt.got")

# Every function is called twice, lazily and bound; one whose address is also taken has its entry in .plt.got.
SOURCE = """
#include <stdlib.h>
#include <unistd.h>
unsigned (*taken)(void);
int main(void) {
    int sum = 0;
    taken = getuid;
    for (int i = 0; i < 2; i++) sum += atoi("20") + (getpid() > 0) + (getppid() >= 0) + (getuid() == taken());
    return sum == 46 ? 0 : 1;
}
"""

TRACER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>
/* tracer PROGRAM OFFSET_OF_MAIN: prints the base, then number, pc and rsp of each step inside the program's image,
   from main on, then its exit status. What a call does outside the image is run, not stepped. */
static pid_t child;
static int status;
static struct user_regs_struct registers;
static void resume(int request) {
    if (ptrace(request, child, 0, 0)) exit(122);
    waitpid(child, &status, 0);
    if (WIFSTOPPED(status)) ptrace(PTRACE_GETREGS, child, 0, &registers);
}
static void run_to(unsigned long address) {
    long word = ptrace(PTRACE_PEEKTEXT, child, address, 0);
    ptrace(PTRACE_POKETEXT, child, address, (word & ~0xffL) | 0xcc);
    resume(PTRACE_CONT);
    if (!WIFSTOPPED(status)) return;
    ptrace(PTRACE_POKETEXT, child, address, word);
    registers.rip = address;
    ptrace(PTRACE_SETREGS, child, 0, &registers);
}
int main(int argc, char **argv) {
    char path[64], line[4096];
    unsigned long start, end, low = 0, high = 0, pc = 0, sp = 0, back = 0, top;
    child = fork();
    if (!child) {
        if (ptrace(PTRACE_TRACEME, 0, 0, 0)) return 120;
        execl(argv[1], argv[1], (char *)0);
        return 121;
    }
    waitpid(child, &status, 0);
    snprintf(path, sizeof path, "/proc/%d/maps", child);
    FILE *maps = fopen(path, "r");
    while (fgets(line, sizeof line, maps)) {
        if (!strstr(line, argv[1]) || sscanf(line, "%lx-%lx", &start, &end) != 2) continue;
        if (!low) low = start;
        high = end;
    }
    printf("%lx\n", low);
    run_to(low + strtoul(argv[2], 0, 16));
    for (long step = 0; WIFSTOPPED(status); step++) {
        if (registers.rip >= low && registers.rip < high) {
            printf("%ld %llx %llx\n", step, registers.rip, registers.rsp);
            top = ptrace(PTRACE_PEEKDATA, child, registers.rsp, 0);
            if (registers.rsp == sp - 8 && top > pc && top <= pc + 7) back = top; /* a call */
        } else if (back) {
            run_to(back);
            back = 0;
            continue;
        }
        pc = registers.rip;
        sp = registers.rsp;
        resume(PTRACE_SINGLESTEP);
    }
    printf("exit %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 123);
    return 0;
}
"""


@dataclass(frozen=True, slots=True)
class Link:
    """One way to link the program; `is_covered`: the linker writes CFI for its PLT."""

    name: str
    linker: str
    flags: tuple[str, ...]
    is_covered: bool = True


PIE, FIXED = ("-fPIE", "-pie"), ("-fno-pie", "-no-pie")
LAZY, NOW, IBT = "-Wl,-z,lazy", "-Wl,-z,now", "-Wl,-z,ibtplt"
CET = "-fcf-protection=full"
BARE = "-Wl,--no-ld-generated-unwind-info"
COVERED = (
    Link("bfd-lazy", "bfd", (*PIE, LAZY)),
    Link("bfd-lazy-fixed", "bfd", (*FIXED, LAZY)),
    Link("bfd-lazy-cet", "bfd", (*PIE, LAZY, CET)),
    Link("bfd-lazy-ibt", "bfd", (*PIE, LAZY, IBT, CET)),
    Link("bfd-now", "bfd", (*PIE, NOW)),
    Link("bfd-now-ibt", "bfd", (*FIXED, NOW, IBT, CET)),
    Link("gold-lazy", "gold", (*PIE, LAZY)),
    Link("gold-now", "gold", (*FIXED, NOW)),
)
UNCOVERED = (
    Link("bfd-bare", "bfd", (*PIE, LAZY, BARE), is_covered=False),
    Link("bfd-bare-now", "bfd", (*FIXED, NOW, BARE), is_covered=False),
    Link("bfd-bare-ibt", "bfd", (*PIE, LAZY, IBT, CET, BARE), is_covered=False),
    Link("lld-lazy", "lld", (*PIE, LAZY), is_covered=False),
    Link("lld-now-ibt", "lld", (*PIE, NOW, CET, "-Wl,-z,force-ibt"), is_covered=False),
    Link("mold-lazy", "mold", (*PIE, LAZY), is_covered=False),
    Link("mold-now", "mold", (*FIXED, NOW, CET), is_covered=False),
)


def absence(link: Link) -> str | None:
    """Why the program cannot be linked so here, or None."""
    if platform.machine() != "x86_64" or platform.system() != "Linux":
        return f"x86-64 PLTs are looked at on x86-64 Linux, not on {platform.machine()} {platform.system()}"
    if shutil.which("gcc") is None:
        return "gcc is not installed"
    if not any(shutil.which(f"{prefix}{link.linker}") for prefix in ("ld.", "")):
        return f"the linker {link.linker} is not installed"
    return None


def build(folder: Path, link: Link) -> Path:
    """The program, linked so."""
    folder.mkdir(exist_ok=True)
    source, program = folder / "calls.c", folder / link.name
    source.write_text(SOURCE)
    command = ["gcc", "-O1", "-fno-builtin", f"-fuse-ld={link.linker}", *link.flags, source, "-o", program]
    subprocess.run(command, check=True, capture_output=True)
    return program


# --- ELF and CFI --------------------------------------------------------------------------------------------


def plt_sections(path: Path) -> dict[str, range]:
    """The addresses of each PLT section."""
    with path.open("rb") as file:
        found = (ELFFile(file).get_section_by_name(name) for name in PLT_SECTIONS)
        return {s.name: range(s["sh_addr"], s["sh_addr"] + s["sh_size"]) for s in found if s is not None}


def cfi_offsets(path: Path) -> dict[int, int]:
    """CFA - SP at every PC of the PLT sections that `.eh_frame` covers."""
    found: dict[int, int] = {}
    sections = plt_sections(path).values()
    with path.open("rb") as file:
        for entry in ELFFile(file).get_dwarf_info().EH_CFI_entries():
            start = entry.header.initial_location if isinstance(entry, FDE) else 0
            if not any(start in section for section in sections):
                continue
            table = entry.get_decoded().table
            ends = [row["pc"] for row in table[1:]] + [start + entry.header["address_range"]]
            for row, end in zip(table, ends, strict=True):
                for pc in range(row["pc"], end):
                    found[pc] = _cfa_offset(row["cfa"], pc)
    return found


def _cfa_offset(cfa: CFARule, pc: int) -> int:
    if cfa.expr is None:
        assert cfa.reg == SP
        return int(cfa.offset)
    sp = 0x7FFF0000
    return rpn.signed(rpn.run(bytes(cfa.expr), {SP: sp, PC: pc}) - sp)


# --- SFrame -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fre:
    """A row: `cfa_offset` from SP (None: from FP), whose byte is at offset `place` of the section."""

    start: int
    cfa_offset: int | None
    place: int


@dataclass(frozen=True, slots=True)
class SframeFde:
    """`block` is 0 for PCINC."""

    start: int
    size: int
    block: int
    fres: tuple[Fre, ...]


class Sframe:
    """An `.sframe` of version 2, by its layout (SFrame format, version 2 errata 1)."""

    def __init__(self, data: bytes, address: int) -> None:
        magic, version, flags, _, _, _, auxiliary, fdes, _, _, fdeoff, freoff = struct.unpack_from(
            "<HBBBbbBIIIII", data
        )
        assert (magic, version, flags & 4) == (0xDEE2, 2, 4)
        self.fdes: list[SframeFde] = []
        for index in range(fdes):
            at = 28 + auxiliary + fdeoff + 20 * index
            start, size, first, count, info, block, _ = struct.unpack_from("<iIIIBBH", data, at)
            fres = _fres(data, 28 + auxiliary + freoff + first, count, 1 << (info & 15))
            self.fdes.append(SframeFde(address + at + start, size, block if info & 16 else 0, fres))

    @classmethod
    def of(cls, path: Path) -> Sframe:
        """Of a file."""
        return cls(*section_of(path))

    def fre(self, pc: int) -> Fre | None:
        """The row at a PC; one of PCMASK applies to the PC modulo its block."""
        for fde in self.fdes:
            if fde.start <= pc < fde.start + fde.size:
                offset = pc % fde.block if fde.block else pc - fde.start
                return max((fre for fre in fde.fres if fre.start <= offset), key=lambda fre: fre.start)
        return None

    def offset(self, pc: int) -> int | None:
        """CFA - SP."""
        fre = self.fre(pc)
        return None if fre is None else fre.cfa_offset


def section_of(path: Path) -> tuple[bytes, int]:
    """The `.sframe` of a file and its address."""
    with path.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".sframe")
        return section.data(), section["sh_addr"]


def _fres(data: bytes, at: int, count: int, width: int) -> tuple[Fre, ...]:
    found = []
    for _ in range(count):
        start, info = int.from_bytes(data[at : at + width], "little"), data[at + width]
        size = 1 << (info >> 5 & 3)
        place = at + width + 1
        offset = int.from_bytes(data[place : place + size], "little", signed=True)
        found.append(Fre(start, offset if info & 1 else None, place))
        at = place + (info >> 1 & 15) * size
    return tuple(found)


# --- execution ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction of a PLT about to be executed: its PC as linked, and the stack pointer before the call - SP."""

    pc: int
    cfa_offset: int


@functools.cache
def tracer(folder: Path) -> Path:
    """The tracer, built."""
    source, program = folder / "tracer.c", folder / "tracer"
    source.write_text(TRACER)
    subprocess.run(["gcc", "-O1", source, "-o", program], check=True, capture_output=True)
    return program


def plt_steps(path: Path, tracer_program: Path) -> list[Step]:
    """Every instruction that a run of the program executes in its PLT sections. Raises where tracing is forbidden."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        low = min(segment["p_vaddr"] & -0x1000 for segment in elf.iter_segments("PT_LOAD"))
        (main,) = elf.get_section_by_name(".symtab").get_symbol_by_name("main")
    command = [tracer_program, path, f"{main['st_value'] - low:x}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    base, *lines, last = done.stdout.splitlines() or ["", ""]
    if done.returncode or last != "exit 0":
        raise OSError(f"the tracer ended with {done.returncode}: {last!r}")
    bias = int(base, 16) - low
    plt = {pc for section in plt_sections(path).values() for pc in section}
    steps: list[Step] = []
    before = (-2, 0, 0)
    cfa = 0
    for line in lines:
        number, pc, sp = (int(text, base) for text, base in zip(line.split(), (10, 16, 16), strict=True))
        pc -= bias
        if pc in plt:
            if before[1] not in plt or number != before[0] + 1:
                assert number == before[0] + 1, "the PLT is entered from the program"
                assert before[2] - sp in (0, 8), "by a call or by a jump"
                cfa = sp + 8
            steps.append(Step(pc, cfa - sp))
        before = number, pc, sp
    return steps
