"""A random layout of an ELF program: what it is compiled, linked and copied with."""

from __future__ import annotations

import random
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ..support.programs.elf_programs import PROGRAM

PAGES = (None, None, 0x1000, 0x4000, 0x10000, 0x200000)
KINDS = ((), (), ("-no-pie",), ("-static",), ("-static-pie",))
LINKERS = ("bfd", "bfd", "bfd", "gold", "lld", "mold")
FLAGS = (
    *("-Wl,-z,separate-code", "-Wl,-z,noseparate-code", "-Wl,-z,norelro", "-Wl,-z,now", "-Wl,-z,lazy"),
    *("-Wl,--hash-style=gnu", "-Wl,--hash-style=sysv", "-Wl,--hash-style=both", "-Wl,--build-id=none"),
    *("-Wl,-z,execstack", "-Wl,--gc-sections", "-Wl,--no-eh-frame-hdr", "-Wl,--emit-relocs", "-fcf-protection=none"),
    *("-ffunction-sections", "-Wl,-z,common-page-size=0x1000", "-rdynamic", "-pthread"),
)
# Of one linker.
MORE_FLAGS = {
    "bfd": ("-Wl,-z,pack-relative-relocs", "-Wl,-z,nosectionheader", "-Wl,-n", "-Wl,-N", "-Wl,-z,start-stop-gc"),
    "gold": ("-Wl,--rosegment", "-Wl,--icf=all"),
    "lld": ("-Wl,--no-rosegment", "-Wl,--pack-dyn-relocs=relr", "-Wl,--icf=all"),
    "mold": ("-Wl,--icf=all", "-Wl,--pack-dyn-relocs=relr"),
}
COPIES = (
    *(("strip",), ("strip", "-g"), ("eu-strip",), ("llvm-strip",), ("objcopy", "--remove-section=.comment")),
    *(("objcopy", "--compress-debug-sections"), ("objcopy", "--only-keep-debug"), ("llvm-strip", "--strip-sections")),
    *(("patchelf", "--set-rpath", "/" + "far" * 60), ("patchelf", "--add-needed", "libm.so.6")),
)
SECTIONS = (("a", "progbits"), ("aw", "progbits"), ("aw", "nobits"), ("ax", "progbits"), ("a", "note"))
FAR = 0x1000_0000


@dataclass(frozen=True, slots=True)
class Layout:
    """What a program is made with: the source, the command that links it, and those that change it afterwards."""

    source: str
    link: tuple[str, ...]
    copies: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        return " ; ".join(" ".join(one) for one in (self.link, *self.copies))

    def build(self, folder: Path) -> Path | None:
        """The program in a folder; None if some tool refuses or fails."""
        folder.mkdir(parents=True, exist_ok=True)
        source, path = folder / "program.c", folder / "program"
        source.write_text(self.source)
        if not _runs([*self.link, "-o", str(path), str(source)]):
            return None
        for one in self.copies:
            if not _runs([*one, str(path)]):
                return None
        return path


def draw(seed: str) -> Layout:
    """The layout of a seed."""
    drawn = random.Random(seed)
    kind, linker, page = drawn.choice(KINDS), drawn.choice(LINKERS), drawn.choice(PAGES)
    source, places = PROGRAM + _thread_data(drawn), []
    for number in range(drawn.choice((0, 0, 1, 2, 4))):
        source += _section(drawn, number)
        if "-pie" not in kind and kind and drawn.random() < 0.5:
            places.append(f"-Wl,--section-start=.x{number}={FAR * (number + 1) + (drawn.randrange(FAR) & -0x1000):#x}")
    chosen = drawn.sample(FLAGS, drawn.randrange(5)) + drawn.sample(MORE_FLAGS[linker], drawn.randrange(2))
    if page is not None:
        chosen.append(f"-Wl,-z,max-page-size={page:#x}")
    language = drawn.choice(("c", "c++"))
    link = (
        *("gcc" if language == "c" else "g++", f"-x{language}", "-D_GNU_SOURCE", f"-O{drawn.choice('012s')}", *kind),
        *(f"-fuse-ld={linker}", *["-g"] * drawn.randrange(2), *chosen, *places),
    )
    return Layout(source, link, tuple(drawn.sample(COPIES, drawn.choice((0, 0, 1, 1, 2)))))


def _section(drawn: random.Random, number: int) -> str:
    """A section of its own, of any size, alignment and type."""
    flags, kind = drawn.choice(SECTIONS)
    size = drawn.choice((0, 1, 24, 4096, drawn.randrange(100_000)))
    body, align = f".skip {size}" + ("" if kind == "nobits" else ", 0x90"), 1 << drawn.randrange(17)
    if kind == "note":
        # Owner "x", type 1.
        body, align = f".long 2, {size & 0xFFC}, 1, 0x78; .skip {size & 0xFFC}", 4
    return f'__asm__(".section .x{number},\\"{flags}\\",@{kind}; .balign {align}; {body}; .text");\n'


def _thread_data(drawn: random.Random) -> str:
    """A variable of each thread, with an alignment."""
    size, align = drawn.choice((1, 8, 5000)), 1 << drawn.randrange(13)
    value = drawn.choice(("", " = {1}"))
    return f"__thread char of_thread[{size}] __attribute__((aligned({align}))){value};\n"


def _runs(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False, timeout=120).returncode == 0
