"""A program that crashes deep inside its frames, and its state in gdb: registers of each frame, stack, modules.

Strategy: one C++ source for every machine; gdb runs it (qemu-user's stub for AArch64), and a script inside gdb
writes each stop as JSON. The program prints its own memory map, which qemu translates for it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.elffile import ELFFile

from ..oracles import OracleError
from .minidumps import Module, State

# main -> printing -> libstdc++ -> Sink::overflow -> sorting -> libc -> compare -> with_alloca -> signalled -> on_signal
# -> many_saved -> leaf; with SIGNAL, through libc and a signal frame to on_signal. None is a tail call: each has work
# left when it calls.
SOURCE = r"""
#include <alloca.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ostream>
#include <streambuf>
#include <unistd.h>
#define NOINLINE extern "C" __attribute__((noinline, noclone))

static volatile long zero;

NOINLINE int leaf(int n) { return *(volatile int *)zero = n; }
NOINLINE long half(long n) { return n / 2 + zero; }
NOINLINE long many_saved(long n) {
    long a = half(n), b = half(a), c = half(b), d = half(c), e = half(d), f = half(e);
    long last = leaf((int)n);
    return a + b * c + d * e + f * last;
}
NOINLINE void on_signal(int number) { zero = many_saved(1000000 + number) * 0; }
NOINLINE int signalled(int n) {
#ifdef SIGNAL
    return raise(SIGUSR1) + n;
#else
    on_signal(SIGUSR1);
    return n;
#endif
}
NOINLINE int with_alloca(int n) {
    char *bytes = (char *)alloca(n);
    memset(bytes, 1, n);
    return signalled(n) + bytes[n - 1];
}
NOINLINE int compare(const void *a, const void *b) { return with_alloca(*(const int *)a * 8 + *(const int *)b) + 1; }
NOINLINE int sorting(int n) {
    int numbers[] = {n, n + 2, n + 1};
    qsort(numbers, 3, sizeof *numbers, compare);
    return numbers[1];
}
struct Sink : std::streambuf {
    int overflow(int c) override { return sorting(c) + 1; }
};
NOINLINE int printing(int c) {
    Sink sink;
    std::ostream stream(&sink);
    stream.put((char)c);
    return stream.good();
}
NOINLINE int lazy(int n) { return (int)getppid() * (int)zero + n; }
NOINLINE void print_map() {
    static char text[4096];
    FILE *map = fopen("/proc/self/maps", "r");
    size_t size;
    while ((size = fread(text, 1, sizeof text, map)) > 0) fwrite(text, 1, size, stdout);
    fflush(stdout);
}
int main(int argc, char **) {
    signal(SIGUSR1, on_signal);
    print_map();
    return lazy(argc) + printing(40 + argc) + 1;
}
"""

# Inside gdb. `stops` is written at the end.
_SCRIPT = r"""
import gdb, json, os

stops = []
registers = os.environ["STOP_REGISTERS"].split()
mask = (1 << int(os.environ["STOP_BITS"])) - 1

def capture(label):
    frames, frame = [], gdb.newest_frame()
    while frame is not None and len(frames) < 64:
        known = {}
        for name in registers:
            try:
                known[name] = int(frame.read_register(name)) & mask
            except (gdb.error, ValueError):
                pass  # not saved
        if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):  # they have no place on the stack
            frames.append(known)
        frame = frame.older()
    everything = {name: int(gdb.newest_frame().read_register(name)) & mask for name in registers}
    sp = everything[os.environ["STOP_SP"]] - 256
    with open(os.environ["STOP_MAP"]) as text:
        regions = [line.split()[0].split("-") for line in text if "-" in line.split()[0]]
    end = next(int(stop, 16) for start, stop in regions if int(start, 16) <= sp < int(stop, 16))
    stack = bytes(gdb.selected_inferior().read_memory(sp, end - sp))
    stops.append({"label": label, "frames": frames, "stack_start": sp, "stack": stack.hex()})

for command in os.environ["STOP_SETUP"].split(";"):
    gdb.execute(command)
stepped = int(os.environ["STOP_STEPS"])
if stepped and os.environ["STOP_SP"] == "rsp":  # lazy PLT entries of others have no call frame information
    while ".plt" not in gdb.execute("info symbol $pc", to_string=True):
        gdb.execute("stepi")
    while ".plt" in gdb.execute("info symbol $pc", to_string=True):
        capture("plt")
        gdb.execute("stepi")
if stepped:
    gdb.execute("break *sorting")
    gdb.execute("continue")
for _ in range(stepped):
    capture("step")
    gdb.execute("stepi")
gdb.execute("continue")  # to the crash
capture("crash")
with open(os.environ["STOP_OUT"], "w") as out:
    json.dump(stops, out)
gdb.execute("kill")
"""


@dataclass(frozen=True, slots=True)
class Stop:
    """The state of the youngest frame; `frames` has the registers that gdb knows in each frame, by gdb's names,
    youngest first; `paths` are the modules' files."""

    label: str
    state: State
    frames: tuple[Mapping[str, int], ...]
    paths: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Machine:
    """How a program is made and run; `registers` are gdb's names of all general ones, PC and SP included."""

    name: str
    compiler: str
    bits: int
    sp: str
    registers: tuple[str, ...]
    flags: tuple[str, ...] = ()
    emulator: str | None = None


AMD64 = Machine(
    "x86_64", "g++", 64, "rsp",
    ("rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", *(f"r{n}" for n in range(8, 16)), "rip"),
    flags=("-fcf-protection=none",),  # one PLT, not two
)  # fmt: skip
ARM64 = Machine(
    "aarch64", "aarch64-linux-gnu-g++", 64, "sp", (*(f"x{n}" for n in range(31)), "sp", "pc"), emulator="qemu-aarch64"
)


def build(machine: Machine, folder: Path, *flags: str) -> Path:
    """The program, in `folder`, which must exist."""
    source, program = folder / "crashing.cc", folder / "crashing"
    source.write_text(SOURCE)
    common = ("-O2", "-fomit-frame-pointer", "-Wl,-z,lazy", "-Wl,--build-id=sha1")
    command = [machine.compiler, *common, *machine.flags, *flags, "-o", program, source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OracleError(done.stderr)
    return program


def libraries(*folders: Path) -> tuple[str, ...]:
    """Flags to run with the C library and loader of the first folder; the others have the rest."""
    loader = next(folders[0].glob("ld-linux*.so.?"))
    return f"-Wl,--disable-new-dtags,--dynamic-linker,{loader}", f"-Wl,-rpath,{':'.join(map(str, folders))}"


def stops(machine: Machine, program: Path, *, steps: int = 0, cpu: str = "") -> tuple[Stop, ...]:
    """Run it to its crash. With `steps`, stop at each instruction of the first call through a lazy PLT, and at as
    many from the entry of sorting on. `cpu` is the emulator's."""
    script, out, memory_map, socket = (
        program.parent / f"{program.name}{cpu}.{name}" for name in ("stop.py", "json", "maps", "socket")
    )
    script.write_text(_SCRIPT)
    setup = ["set backtrace past-main on", "handle SIGUSR1 nostop noprint pass", "break lazy"]
    if machine.emulator is None:
        setup += [f"run > {memory_map}"]
    else:
        setup = ["set sysroot /", *setup, f"target remote {socket}", "continue"]
    environment = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ} | {
        "STOP_REGISTERS": " ".join(machine.registers), "STOP_BITS": str(machine.bits), "STOP_SP": machine.sp,
        "STOP_MAP": str(memory_map), "STOP_OUT": str(out), "STOP_STEPS": str(steps),
        "STOP_SETUP": ";".join(setup), "LC_ALL": "C",
    }  # fmt: skip
    with _emulated(machine, program, memory_map, socket, cpu):
        debugger = "gdb" if machine.emulator is None else "gdb-multiarch"
        command = [debugger, "-batch", "-nx", "-x", script, program]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=120)
    if not out.exists():
        raise OracleError(f"{debugger} did not get to the crash: {done.stdout[-500:]}{done.stderr[-1000:]}")
    paths, modules = _modules(memory_map.read_text())
    return tuple(
        Stop(
            one["label"],
            State(one["frames"][0], one["stack_start"], bytes.fromhex(one["stack"]), modules),
            tuple(one["frames"]),
            paths,
        )
        for one in json.loads(out.read_text())
    )


@contextmanager
def _emulated(machine: Machine, program: Path, memory_map: Path, socket: Path, cpu: str) -> Iterator[None]:
    """The emulator, waiting for gdb at a socket; nothing for a program that runs natively."""
    if machine.emulator is None:
        yield
        return
    command = [machine.emulator, *(("-cpu", cpu) if cpu else ()), "-g", socket, program]
    socket.unlink(missing_ok=True)
    with memory_map.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 30
        while not socket.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        try:
            yield
        finally:
            process.kill()


def _modules(memory_map: str) -> tuple[tuple[Path, ...], tuple[Module, ...]]:
    """The ELF files of a /proc/PID/maps, and where they are: each from its first to its last byte."""
    places: dict[Path, list[int]] = {}
    for line in memory_map.splitlines():
        found = re.fullmatch(r"([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ \d+ +(/.+)", line)
        if found is not None:
            places.setdefault(Path(found[3]), []).extend((int(found[1], 16), int(found[2], 16)))
    modules = [_module(path, min(at), max(at)) for path, at in places.items()]
    return tuple(places), tuple(modules)


def _module(path: Path, start: int, end: int) -> Module:
    """As in Breakpad's client: a library is named by its DT_SONAME, as in dump_syms' MODULE line."""
    with path.open("rb") as file:
        elf = ELFFile(file)
        dynamic, note = map(elf.get_section_by_name, (".dynamic", ".note.gnu.build-id"))
        name = next((tag.soname for tag in dynamic.iter_tags("DT_SONAME")), path.name)
        build_id = next(one["n_desc"] for one in note.iter_notes() if one["n_type"] == "NT_GNU_BUILD_ID")
    return Module(name, start, end - start, bytes.fromhex(build_id))
