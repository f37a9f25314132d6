"""AArch64 and s390x programs: built by Debian's cross compilers, run and stepped through by qemu's user mode.

Strategy: the C and C++ sources of `compiled`, and one more for what is special on these two machines (frames of
every offset width, a leaf that keeps FP and RA in floating-point registers, signals, exceptions through tail calls).
`steps` makes qemu print all registers before each instruction, and reads its log from a pipe without storing it.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..judges.shadow_machines import MACHINES, Machine
from ..judges.shadow_stack import Program, Step
from . import compiled_sources

MORE_SOURCE = r"""
#include <alloca.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#define NOINLINE __attribute__((noinline, noclone))

static volatile int zero;
static int destroyed;

/* A leaf with more live values than registers that are the callee's to use. */
NOINLINE unsigned mix(const unsigned *in, unsigned rounds) {
    unsigned a = in[0], b = in[1], c = in[2], d = in[3], e = in[4], f = in[5];
    unsigned g = in[6], h = in[7], i = in[8], j = in[9], k = in[10];
    while (rounds--) {
        a += b ^ k; b += c ^ a; c += d ^ b; d += e ^ c; e += f ^ d; f += g ^ e;
        g += h ^ f; h += i ^ g; i += j ^ h; j += k ^ i; k += a ^ j;
    }
    return a ^ b ^ c ^ d ^ e ^ f ^ g ^ h ^ i ^ j ^ k;
}
/* A leaf that needs the return address's register: s390x keeps it in a floating-point register. */
NOINLINE int without_ra(int n) {
#if defined(__s390x__)
    __asm__ volatile("lghi %%r14, -1" : : : "r14");
#elif defined(__aarch64__)
    __asm__ volatile("mov x30, -1" : : : "x30");
#endif
    return n + 1;
}
/* Offsets of one, two and four bytes, called through pointers. */
typedef int (*Function)(int);
template <int SIZE> NOINLINE int frame(int n) {
    volatile char bytes[SIZE];
    bytes[0] = n;
    bytes[SIZE - 1] = 1;
    return bytes[0] + bytes[SIZE - 1];
}
static const Function volatile frames[] = {frame<24>, frame<300>, frame<3000>, frame<40000>, frame<600000>};
NOINLINE int through(Function function, int n) {
    char *bytes = (char *)alloca(n * 8);
    memset(bytes, n, n * 8);
    return function(n) + bytes[n];
}
NOINLINE int tail(Function function, int n) { return function(n + 1); }

struct Counted {
    NOINLINE ~Counted() { destroyed++; }
};
NOINLINE int throws(int n) {
    if (n > zero) throw n;
    return n;
}
NOINLINE int level(int n) {
    Counted counted;
    return n ? level(n - 1) + 1 : tail(throws, through(throws, 6));
}
NOINLINE int caught(int depth) {
    try {
        return level(depth);
    } catch (int value) {
        return value * 10 + depth;
    }
}

static sigjmp_buf before;
static volatile sig_atomic_t seen;
static void on_signal(int number) { seen = frame<300>(number); }
static void on_fault(int number) { siglongjmp(before, number); }
NOINLINE int fault(const volatile int *nowhere) { return *nowhere; }
NOINLINE int signals(void) {
    signal(SIGUSR1, on_signal);
    signal(SIGSEGV, on_fault);
    raise(SIGUSR1);
    int number = sigsetjmp(before, 1);
    return number ? number * 100 + seen : fault((const volatile int *)(long)zero);
}
__attribute__((constructor)) static void run_more(void) {
    unsigned numbers[11] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    int sum = 0;
    for (int i = 0; i < 5; i++) sum += tail(frames[i], i) + through(frames[i], i + 1);
    printf("mixed %u, pointers %d, leaf %d\n", mix(numbers, 3), sum, without_ra(1));
    printf("caught %d, destroyed %d, signals %d\n", caught(4), destroyed, signals());
}
"""

EXPECTED_OUTPUT = (
    """\
mixed 409, pointers 55, leaf 2
caught 64, destroyed 5, signals 1111
"""
    + compiled_sources.EXPECTED_OUTPUT
)


@dataclass(frozen=True, slots=True)
class Build:
    """One way to build the program. `whole`: its libraries are stepped through too."""

    machine: Machine
    name: str
    flags: tuple[str, ...]
    whole: bool = False

    def __str__(self) -> str:
        return f"{self.machine.name}-{self.name}"


PIE, FIXED, STATIC = ("-fPIE", "-pie"), ("-fno-pie", "-no-pie"), ("-fno-pie", "-static")
_AARCH64 = (
    ("O0", ("-O0", *PIE)),
    ("O2", ("-O2", *PIE)),
    ("O1-no-pie-lazy", ("-O1", *FIXED, "-Wl,-z,lazy")),
    ("Os-omit-frame-pointer", ("-Os", *PIE, "-fomit-frame-pointer")),
    ("O2-frame-pointer", ("-O2", *FIXED, "-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer")),
    ("O2-pac-ret", ("-O2", *PIE, "-mbranch-protection=pac-ret")),
    ("O1-pac-ret-leaf", ("-O1", *PIE, "-mbranch-protection=pac-ret+leaf", "-fomit-frame-pointer")),
    ("O0-pac-ret-b-key", ("-O0", *FIXED, "-mbranch-protection=pac-ret+leaf+b-key")),
    ("O3-stack-checks", ("-O3", *PIE, "-fstack-clash-protection", "-fstack-protector-all")),
    ("O2-static-pac", (*STATIC, "-O2", "-mbranch-protection=standard"), True),
    ("O1-static-pie", ("-O1", "-fPIE", "-static-pie"), True),
)
_S390X = (
    ("O0", ("-O0", *PIE)),
    ("O1", ("-O1", *PIE)),
    ("O2-no-pie-lazy", ("-O2", *FIXED, "-Wl,-z,lazy")),
    ("Os-omit-frame-pointer", ("-Os", *PIE, "-fomit-frame-pointer")),
    ("O2-frame-pointer", ("-O2", *FIXED, "-Wl,-z,max-page-size=0x10000", "-fno-omit-frame-pointer")),
    ("O2-backchain", ("-O2", *PIE, "-mbackchain")),
    ("O1-packed-stack", ("-O1", *FIXED, "-mpacked-stack")),
    ("O2-kernel", ("-O2", *PIE, "-mpacked-stack", "-mbackchain", "-msoft-float")),
    ("O3-z13", ("-O3", *PIE, "-march=z13")),
    ("O3-stack-checks", ("-O3", *PIE, "-fstack-clash-protection", "-fstack-protector-all")),
    ("O2-static", ("-O2", *STATIC), True),
)
BUILDS = tuple(Build(MACHINES["aarch64"], *one) for one in _AARCH64) + tuple(
    Build(MACHINES["s390x"], *one) for one in _S390X
)

# Their loops would be 90% of all steps: of the program, and of libgcc, which sorts the FDEs of a static program.
UNWATCHED = ("sum_bytes", "read_encoded_value", "fde_single_encoding", "frame_downheap", "search_object", "add_fdes",
             "classify_object")  # fmt: skip


def absence(machine: Machine) -> str | None:
    """Why nothing can be built or run for the machine here, or None."""
    names = (f"qemu-{machine.name}", f"{machine.name}-linux-gnu-gcc", f"{machine.name}-linux-gnu-g++")
    missing = [name for name in names if shutil.which(name) is None]
    return f"no {' and no '.join(missing)}" if missing else None


@functools.cache
def build(folder: Path, one: Build) -> Path:
    """The program, in `folder`; built once a process."""
    work = folder / str(one)
    work.mkdir(parents=True)
    sources = {
        "frames_c.c": compiled_sources.C_SOURCE,
        "frames.cc": compiled_sources.CXX_SOURCE,
        "more.cc": MORE_SOURCE,
    }
    for name, text in sources.items():
        (work / name).write_text(text)
        compiler = f"{one.machine.name}-linux-gnu-{'g++' if name.endswith('.cc') else 'gcc'}"
        compile_only = [flag for flag in one.flags if not flag.startswith("-Wl,") and "static" not in flag]
        _run(work, compiler, *compile_only, "-c", name, "-o", f"{name}.o")
    _run(work, f"{one.machine.name}-linux-gnu-g++", *one.flags, *(f"{name}.o" for name in sources), "-o", "program")
    return work / "program"


def run(machine: Machine, program: Path) -> tuple[int, str]:
    """Exit status and output."""
    done = subprocess.run([*_qemu(machine), program], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def bias(machine: Machine, path: Path, program: Program) -> int:
    """How much higher than linked qemu loads the program; it does so each time."""
    if program.is_fixed:
        return 0
    done = subprocess.run([*_qemu(machine), "-d", "page", path], capture_output=True, text=True, check=True)
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("start_code "))
    return int(line.split()[1], 16) - program.segments[0][0]


def steps(machine: Machine, path: Path, program: Program, loaded: int) -> Iterator[Step]:
    """Each instruction that a run of the program, loaded `loaded` higher, executes in watched code of its file."""
    watched = ",".join(f"{start + loaded:#x}+{end - start:#x}" for start, end in _watched(program))
    reader, writer = os.pipe()
    items = "cpu,fpu,nochain" if machine.name == "s390x" else "cpu,nochain"
    options = (_single_step(machine), "-d", items, "-dfilter", watched, "-D", f"/dev/fd/{writer}")
    command = [*_qemu(machine), *options, path]
    with subprocess.Popen(command, pass_fds=[writer], stdout=subprocess.DEVNULL) as process:
        os.close(writer)
        with open(reader, "rb", buffering=0) as log:  # closed first: qemu must not wait for a reader that is gone
            rest = b""
            while piece := log.read(1 << 16):
                rest += piece
                end = 0
                for match in machine.record.finditer(rest):
                    end = match.end()
                    yield int(match[1], 16), match[2]
                rest = rest[end:]
    if process.returncode:
        raise RuntimeError(f"qemu-{machine.name} ended with {process.returncode}")


def _watched(program: Program) -> Iterator[tuple[int, int]]:
    """Address ranges of the code, as linked, without the functions that are not watched."""
    for start, data in program.segments:
        at = start
        for address, size, name in zip(program.starts, program.sizes, program.names, strict=True):
            if start <= address < start + len(data) and any(part in name for part in UNWATCHED):
                if address > at:
                    yield at, address
                at = address + size
        yield at, start + len(data)


def _qemu(machine: Machine) -> tuple[str, ...]:
    # The seed determines the keys that sign return addresses. With 64 GiB reserved, addresses are the same each time.
    return f"qemu-{machine.name}", "-seed", "1", "-R", "0x1000000000", "-L", f"/usr/{machine.name}-linux-gnu"


@functools.cache
def _single_step(machine: Machine) -> str:
    """One instruction per block, so that each is logged: the option was renamed in QEMU 8.1."""
    usage = subprocess.run([*_qemu(machine), "-help"], capture_output=True, text=True, check=False).stdout
    return "-one-insn-per-tb" if "-one-insn-per-tb" in usage else "-singlestep"


def _run(folder: Path, *command: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
