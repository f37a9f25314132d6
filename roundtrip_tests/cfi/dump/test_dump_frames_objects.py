"""`dump --frames` and `--frames-interp` of relocatable files, byte for byte as readelf 2.47 prints them.

readelf leaves every section at 0 and applies its relocations; so does the dump.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from unwindkit.jobs.dump import dump_cfi, dump_json

from ...support.oracles import absent, run_oracle

SOURCE = r"""
#include <stdexcept>
struct Guard { ~Guard(); };
int other(int);
template <class T> __attribute__((noinline)) T twice(T value) { Guard guard; return other(value) * 2; }
#ifdef __EXCEPTIONS
#define FAIL throw std::runtime_error("four")
#else
#define FAIL other(4)
#endif
int thrower(int n) { Guard guard; if (n > 3) FAIL; return twice(n) + other(n); }
__attribute__((section(".text.own"))) int own(int n) { char bytes[300]; return other(n + bytes[n]); }
"""
# Compilers, and the flags for their objects: relocations of .eh_frame, of .debug_frame, COMDAT groups, none.
COMPILERS = ("g++", "aarch64-linux-gnu-g++", "s390x-linux-gnu-g++")
FLAGS = (("-O2",), ("-O0", "-g"), ("-O2", "-g", "-fno-asynchronous-unwind-tables", "-fno-exceptions"), ("-Os", "-fPIC"))
FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/aarch64-linux-gnu/lib", "/usr/s390x-linux-gnu/lib")


def compare(path: Path) -> None:
    for letter, interpreted in (("f", False), ("F", True)):
        assert b"".join(dump_cfi(path, interpreted)).decode() == run_oracle("readelf", f"-wN{letter}", path), letter


def object_of(compiler: str, flags: tuple[str, ...], folder: Path) -> Path:
    """The source compiled."""
    if not shutil.which(compiler):
        absent(f"no {compiler}")
    source, path = folder / "source.cc", folder / "source.o"
    source.write_text(SOURCE)
    subprocess.run([compiler, "-c", *flags, source, "-o", path], check=True)
    return path


@pytest.mark.oracle
@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_compiled_objects(compiler: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    path = object_of(compiler, flags, tmp_path)
    compare(path)
    entries = [entry for section in dump_json(path, (".eh_frame", ".debug_frame")) for entry in section.parts]
    assert len(entries) >= 4


def objects() -> Iterator[Path]:
    """The C runtime's own objects, of each architecture, that have call frame information."""
    for folder in FOLDERS:
        for path in sorted(Path(folder).glob("*crt*.o")):
            headers = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True, check=True).stdout
            if ".eh_frame" in headers:
                yield path


@pytest.mark.oracle
def test_objects_of_the_c_runtime() -> None:
    found = list(objects())
    if not found:
        absent("no crt1.o")
    for path in found:
        compare(path)
