"""Programs in which an exception must pass a C function whose frame only `.debug_frame` describes.

Strategy: C++ code throws through a C function that was compiled without `.eh_frame`, and catches the exception where
values live in callee-saved registers. Before, the program aborts; `CAUGHT` is what it prints once that frame is known.
A C program without any frames of its own counts those that glibc's backtrace() finds.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from pathlib import Path

from unwindkit import convert

from ..oracles import absent

# `through` uses several callee-saved registers, `plain` none: SFrame describes `plain` completely.
C_SOURCE = """
static volatile int seed = 100;
__attribute__((noinline)) int through(int (*called)(int), int n) {
    volatile char used[40];
    int a = seed, b = seed, c = seed, d = seed;
    used[n] = 1;
    int found = called(n);
    return found + used[n] + a * b + c * d + n;
}
__attribute__((noinline)) int plain(int (*called)(int), int n) { return called(n) + 1; }
"""
CXX_SOURCE = """
#include <cstdio>
#include <cstring>
#include <execinfo.h>
#include <stdexcept>
typedef int (*Between)(int (*)(int), int);
extern "C" int through(int (*)(int), int);
extern "C" int plain(int (*)(int), int);
static int frames;
static volatile int seed = 2;  // the values below cannot be computed again
struct Guard { int n; ~Guard() { std::printf("unwound %d\\n", n); } };
__attribute__((noinline)) static int counts(int n) { void *found[50]; frames = backtrace(found, 50); return n; }
__attribute__((noinline)) static int throws(int n) {
    Guard guard{n};
    if (n < 10) throw std::runtime_error("caught");
    return n;
}
__attribute__((noinline)) static int catches(Between between, int n) {
    int a = seed * 7, b = seed + 11, c = seed ^ 3, d = seed - 5;
    between(counts, n);
    std::printf("%d frames\\n", frames);
    std::fflush(stdout);
    try {
        return between(throws, n);
    } catch (const std::exception &error) {
        std::printf("%s %d %d %d %d\\n", error.what(), a, b, c, d);
        return 0;
    }
}
int main(int argc, char **argv) { return catches(argc > 1 && !std::strcmp(argv[1], "plain") ? plain : through, 2); }
"""
# counts, between, catches (to which main jumps), two of libc, _start; before, the walk ends in `between`.
CAUGHT = "6 frames\nunwound 2\ncaught 14 13 1 -3\n"
WALKER = """
#include <execinfo.h>
#include <stdio.h>
__attribute__((noinline)) int walk(int n, int a, int b) {
    void *frames[50];
    volatile int used[100];
    used[n] = a + b;
    int found = n ? walk(n - 1, b, a + 1) : backtrace(frames, 50);
    return used[n] == a + b ? found : -1;
}
int main(int argc, char **argv) { return printf("%d frames\\n", walk(20, argc, 3)) < 0; }
"""
WALKED = "25 frames\n"
WITHOUT_FRAMES = ("-O2", "-g", "-fPIC", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-exceptions")
# The input sections of call frame information are not in the result.
DISCARD = "SECTIONS { /DISCARD/ : { *(.eh_frame) } } INSERT AFTER .text;"


@functools.cache
def mixed_program(folder: Path, link: str, machine: str = "") -> Path:
    """The C++ program, linked with these options, for the system's or another machine."""
    work = _folder(folder, f"mixed{machine}{link}")
    prefix = f"{machine}-linux-gnu-" if machine else ""
    _write(work, "between.c", C_SOURCE)
    _write(work, "main.cc", CXX_SOURCE)
    _run(work, f"{prefix}gcc", *WITHOUT_FRAMES, "-c", "between.c")
    _run(work, f"{prefix}g++", "-O2", "-fPIC", "main.cc", "between.o", *link.split(), "-o", "program")
    return work / "program"


@functools.cache
def mixed_library(folder: Path) -> tuple[Path, Path]:
    """The C++ program, and the library with the C functions that it needs, in the same folder."""
    work = _folder(folder, "library")
    _write(work, "between.c", C_SOURCE)
    _write(work, "main.cc", CXX_SOURCE)
    _run(work, "gcc", *WITHOUT_FRAMES, "-shared", "between.c", "-o", "libbetween.so")
    _run(work, "g++", "-O2", "main.cc", "-L.", "-lbetween", "-o", "program")
    return work / "program", work / "libbetween.so"


@functools.cache
def walker(folder: Path, link: str, discards: bool) -> Path:
    """The C program, with what the startup files have in `.eh_frame`, or without any."""
    work = _folder(folder, f"walker{link}{discards}")
    _write(work, "walker.c", WALKER)
    _write(work, "discard.ld", DISCARD)
    script = ("-Wl,-T,discard.ld", "-Wl,--no-eh-frame-hdr") if discards else ()
    _run(work, "gcc", *WITHOUT_FRAMES, "walker.c", *link.split(), *script, "-o", "walker")
    return work / "walker"


def joined(path: Path, out: Path, source: str = "debug_frame") -> Path:
    """The file with the functions that `.debug_frame` describes, by way of `source`, beside those of `.eh_frame`."""
    if source == "debug_frame":
        convert(path, out, "eh_frame", source="debug_frame", keep=True)
        return out
    between = out.with_suffix(".between")
    if source == "breakpad":
        convert(path, between, "breakpad", source="debug_frame")
    else:
        convert(path, between, "sframe", source="debug_frame", section_only=True, to_address=0)
    convert(between, out, "eh_frame", source=source, into=path, keep=True)
    return out


def output_of(*command: str | Path) -> str:
    """What a command prints, which must not fail."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def terminates(*command: str | Path) -> bool:
    """Whether a C++ program ends because an exception finds no handler."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode != 0 and "terminate called" in done.stderr


def _folder(folder: Path, name: str) -> Path:
    work = folder / "".join(letter if letter.isalnum() else "_" for letter in name)
    work.mkdir(exist_ok=True)  # left by a test that a missing program ended
    return work


def _write(work: Path, name: str, text: str) -> None:
    (work / name).write_text(text)


def _run(work: Path, *command: str) -> None:
    if shutil.which(command[0]) is None:
        absent(f"no {command[0]}")
    subprocess.run(command, cwd=work, env=os.environ | {"LC_ALL": "C"}, check=True)
