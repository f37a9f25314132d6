"""Programs whose call frame information is in both sections: `.debug_frame` of code that is compiled without unwind
tables but with -g, or by Go; `.eh_frame` of the rest.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from .compiled import FlagSet, build, require

DEBUG_FRAME = ("-g", "-fno-asynchronous-unwind-tables")
# C++ has .eh_frame in any case: its exceptions need it.
FLAGS = (
    FlagSet("O2", ("-O2", *DEBUG_FRAME)),
    FlagSet("compressed", ("-O0", "-no-pie", "-fno-pie", "-gz", *DEBUG_FRAME)),
    FlagSet("shared", ("-Os", "-shared", "-fPIC", *DEBUG_FRAME), shared=True),
    FlagSet("sections", ("-O2", "-ffunction-sections", "-Wl,--gc-sections", *DEBUG_FRAME)),
)
CGO = "cgo"
# Go is not in CI.
BUILDS = [*(one.name for one in FLAGS), *([CGO] if shutil.which("go") else [])]

GO_SOURCE = """package main

/*
#cgo LDFLAGS: ${SRCDIR}/part.o
int part(int n);
*/
import "C"

func add(n int) int { return n + int(C.part(4)) }

func main() { println(add(2)) }
"""
PART_SOURCE = """
#include <stdio.h>
int part(int n) { char text[64]; snprintf(text, sizeof text, "%d", n); return text[0] + n; }
"""


def mixed_program(folder: Path, name: str) -> Path:
    """One of BUILDS."""
    if name != CGO:
        (flags,) = (one for one in FLAGS if one.name == name)
        return build(folder, flags)
    require()
    work = folder / CGO
    work.mkdir()
    (work / "part.txt").write_text(PART_SOURCE)
    subprocess.run(["gcc", "-x", "c", "-O2", "-c", "part.txt", "-o", "part.o"], cwd=work, check=True)
    (work / "main.go").write_text(GO_SOURCE)
    (work / "go.mod").write_text("module mixed\n")
    environment = os.environ | {"CGO_ENABLED": "1", "GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOTOOLCHAIN": "local"}
    subprocess.run(["go", "build", "-o", "program", "."], cwd=work, check=True, env=environment)
    return work / "program"
