"""Core files of a program that crashes deep inside its frames, and what gdb sees in the same process.

Strategy: the program of stopped_programs.py, with two more threads where the core file is gdb's own. Under qemu-user
the emulator writes the core file when gdb lets the crashed program go on.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..oracles import OracleError
from . import stopped_programs
from .stopped_programs import ARM64, Machine

S390X = Machine("s390x", "s390x-linux-gnu-g++", 64, "r15", (*(f"r{n}" for n in range(16)), "pc"), emulator="qemu-s390x")
ROOTS = {machine.name: Path("/usr", machine.compiler.removesuffix("-g++")) for machine in (ARM64, S390X)}
# The registers that are compared: gdb's names by DWARF number. They are preserved by called functions.
COMPARED = {
    "x86_64": {3: "rbx", 6: "rbp", 7: "rsp", 12: "r12", 13: "r13", 14: "r14", 15: "r15"},
    "aarch64": {**{n: f"x{n}" for n in range(19, 30)}, 31: "sp"},
    "s390x": {**{n: f"r{n}" for n in range(6, 14)}, 15: "r15"},
}
THREADS = r"""
#include <ctime>
#include <pthread.h>
static void *waiting(void *) { pause(); return nullptr; }
__attribute__((constructor)) static void start() {
    pthread_t thread;
    for (int i = 0; i < 2; i++) pthread_create(&thread, nullptr, waiting, nullptr);
    usleep(100000);
}
extern "C" __attribute__((noinline, noclone)) int asks_the_time(int n) {
    timespec now;
    return clock_gettime(CLOCK_MONOTONIC, &now) + n;
}
__attribute__((constructor)) static void ask() { zero = asks_the_time((int)zero) * 0; }
"""


@dataclass(frozen=True, slots=True)
class Stop:
    """A place to stop at in place of the crash, in programs of this machine: that of gdb's `commands`, then the first
    instruction whose symbol has `until` in its description, and `steps` instructions more."""

    commands: tuple[str, ...]
    until: str
    steps: int


# After PLT0 is chosen: the entry has pushed the index of its relocation.
IN_PLT = Stop(("break lazy", "run > /dev/null"), ".plt", 2)
# After the function's first pushes.
IN_VDSO = Stop(("break asks_the_time", "run > /dev/null"), "system-supplied DSO", 6)
_SCRIPT = r"""
import gdb, json, os, re

registers = os.environ["CORE_REGISTERS"].split()
mask = (1 << 64) - 1

def frames():
    found, frame = [], gdb.newest_frame()
    while frame is not None and len(found) < 64:
        frame.select()
        if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):  # they have no place on the stack
            try:
                at = re.search("frame at (0x[0-9a-f]+)", gdb.execute("info frame", to_string=True))
            except gdb.error:  # of an outermost frame of AArch64
                at = None
            known = {}
            for name in registers:
                try:
                    known[name] = int(frame.read_register(name)) & mask
                except (gdb.error, ValueError):
                    pass  # not saved
            found.append({"pc": frame.pc(), "cfa": int(at[1], 16) or None if at else None, "registers": known})
        try:
            frame = frame.older()
        except gdb.error:  # qemu-user's signal frames of AArch64 have records that gdb refuses
            break
    return found

for command in os.environ["CORE_SETUP"].split(";"):
    gdb.execute(command)
until = os.environ["CORE_UNTIL"]
while until and until not in gdb.execute("info symbol $pc", to_string=True):
    gdb.execute("stepi")
for _ in range(int(os.environ["CORE_STEPS"])):
    gdb.execute("stepi")
threads = []
for thread in sorted(gdb.selected_inferior().threads(), key=lambda one: one.num):
    thread.switch()
    threads.append({"pid": thread.ptid[1], "frames": frames()})
with open(os.environ["CORE_OUT"], "w") as out:
    json.dump(threads, out)
gdb.execute(os.environ["CORE_LAST"])
"""


@dataclass(frozen=True, slots=True)
class SeenFrame:
    """A frame as gdb sees it; `registers` by gdb's names. `cfa` is None where gdb does not print it."""

    pc: int
    cfa: int | None
    registers: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class SeenCore:
    """A core file of `program`, and the frames of each thread by its PID, youngest first."""

    path: Path
    program: Path
    threads: Mapping[int, tuple[SeenFrame, ...]]


def build(machine: Machine, folder: Path, *flags: str) -> Path:
    """The program, in `folder`, which must exist."""
    threads = THREADS if machine.emulator is None else ""
    source, program = folder / "crashing.cc", folder / "crashing"
    source.write_text(stopped_programs.SOURCE + threads)
    command = [machine.compiler, "-O2", "-fomit-frame-pointer", *machine.flags, *flags, "-o", program, source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OracleError(done.stderr)
    return program


CRASH = Stop(("run > /dev/null",), "", 0)


def crash(machine: Machine, program: Path, stop: Stop = CRASH) -> SeenCore:
    """Run it to its crash in gdb, or to another stop, and take a core file there."""
    folder = program.parent
    script, out, core, socket = (folder / name for name in ("core.py", "frames.json", "crash.core", "socket"))
    script.write_text(_SCRIPT)
    setup = ["set confirm off", "set backtrace past-main on", "handle SIGUSR1 nostop noprint pass"]
    if machine.emulator is None:
        setup += stop.commands
    else:
        setup = [f"set sysroot {ROOTS[machine.name]}", *setup, f"target remote {socket}", "continue"]
    environment = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ} | {
        "CORE_REGISTERS": " ".join(COMPARED[machine.name].values()), "CORE_SETUP": ";".join(setup),
        "CORE_OUT": str(out), "CORE_LAST": f"generate-core-file {core}" if machine.emulator is None else "continue",
        "CORE_UNTIL": stop.until, "CORE_STEPS": str(stop.steps), "LC_ALL": "C",
    }  # fmt: skip
    debugger = "gdb" if machine.emulator is None else "gdb-multiarch"
    emulated = None if machine.emulator is None else _emulator(machine, program, socket)
    command = [debugger, "-batch", "-nx", "-x", script, program]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment, timeout=120, cwd=folder
    )
    if emulated is not None:
        emulated.wait(timeout=60)
        core = next(folder.glob("qemu_*.core"), core)
    if not out.exists() or not core.exists():
        raise OracleError(f"{debugger} took no core file: {done.stdout[-500:]}{done.stderr[-1000:]}")
    seen = {
        one["pid"]: tuple(SeenFrame(frame["pc"], frame["cfa"], frame["registers"]) for frame in one["frames"])
        for one in json.loads(out.read_text())
    }
    return SeenCore(core, program, seen)


def _emulator(machine: Machine, program: Path, socket: Path) -> subprocess.Popen[bytes]:
    """The emulator, waiting for gdb at a socket."""

    def unlimited() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    command = [str(machine.emulator), "-L", str(ROOTS[machine.name]), "-g", str(socket), str(program)]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=program.parent, preexec_fn=unlimited
    )
    deadline = time.monotonic() + 30
    while not socket.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    return process
