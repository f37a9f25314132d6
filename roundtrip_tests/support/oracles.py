"""Programs and files of other Debian suites, independent references for what we read and write.

Strategy: the folder $UNWINDKIT_ORACLES (default: `.oracles` in the repository), which `.ci/oracles` fills, has one
folder for each suite: `forky`, `trixie` and `bookworm` with binutils, which run with their own loader and libraries;
`sid-ARCH` with binaries to read; `npm` with Breakpad's programs. A test marked `oracle(*names)` is skipped where a
suite, an imported package or a program on PATH of that name is absent, or fails if they are required.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest

READELF_VERSIONS = {"forky": "2.47", "trixie": "2.44", "bookworm": "2.40"}
# Large files of an architecture's packages, by package: what tests of real files read.
SID_FILES = {
    "libc6": "usr/lib/*-linux-gnu/libc.so.6",
    "libstdc++6": "usr/lib/*-linux-gnu/libstdc++.so.6",
    "perl-base": "usr/bin/perl",
    "libsystemd-shared": "usr/lib/*-linux-gnu/systemd/libsystemd-shared-*.so",
    "openjdk-21-jre-headless": "usr/lib/jvm/java-21-*/lib/server/libjvm.so",
}
# OCaml's compiler: functions with the CFA loaded from memory, signal frames, FLEX in each that catches an exception.
AMD64_FILES = SID_FILES | {"ocaml": "usr/bin/ocamlopt.opt"}
LIBSFRAME = "usr/lib/*-linux-gnu/libsframe.so.3"
# Prefixes of the names of binutils' programs, by e_machine.
PREFIXES = {62: "", 183: "aarch64-linux-gnu-", 22: "s390x-linux-gnu-"}


def _gnu(*machines: int) -> tuple[str, ...]:
    return tuple(f"usr/bin/{PREFIXES[machine]}{program}" for program in ("readelf", "as", "ld") for machine in machines)


def gas_archive(release: str) -> str:
    """The sources of binutils, of a suite's package `binutils-source`: `*` for a snapshot's number, as `2.47.50`."""
    return f"usr/src/binutils/binutils-{release}*.tar.xz"


# The same for machines without an SFrame ABI.
CROSS = (
    *("riscv64-linux-gnu", "arm-linux-gnueabihf", "i686-linux-gnu", "powerpc-linux-gnu", "powerpc64le-linux-gnu"),
    *("loongarch64-linux-gnu", "sparc64-linux-gnu"),
)
# The C library, and the objects it is linked from.
LIBC_FILES = ("usr/lib/*-linux-gnu*/libc.so.6", "usr/lib/*-linux-gnu*/libc.a")
# The C library, by architecture: the input of dumps of call frame information. Before trixie it is not in /usr.
FRAME_SUITES = {
    **{f"sid-{name}": ("usr/lib/*-linux-*/libc.so.6",) for name in (
        "amd64", "arm64", "armhf", "i386", "loong64", "ppc64el", "riscv64", "s390x"
    )},
    # From a package for cross compilers: SPARC is not one of sid's architectures.
    "sid-sparc64": ("usr/sparc64-linux-gnu/lib/libc.so.6",),
    "bookworm-mips64el": ("lib/*-linux-*/libc.so.6",),
}  # fmt: skip


LIBLLVM = "usr/lib/x86_64-linux-gnu/libLLVM-14.so.1"
LIBXUL = "usr/lib/firefox-esr/libxul.so"
BREAKPAD_PROGRAMS = "node_modules/minidump/bin/linux-x64"
# The required contents of each suite's folder.
SUITES = FRAME_SUITES | {
    "forky": (*_gnu(62, 183, 22), LIBSFRAME, gas_archive("2.47")),
    "trixie": (*_gnu(62, 183), gas_archive("2.44")),
    "bookworm": _gnu(62, 183),
    **dict.fromkeys(("sid-arm64", "sid-s390x"), tuple(SID_FILES.values())),
    "sid-amd64": tuple(AMD64_FILES.values()),
    "sid-llvm": tuple(f"usr/bin/llvm-{name}-22" for name in ("readobj", "dwarfdump", "mc", "symbolizer")),
    # The unpacked libc6-dbg.
    "bookworm-dbg": ("usr/lib/debug/.build-id/*/*.debug",),
    "forky-cross": tuple(f"usr/bin/{name}-{program}" for name in CROSS for program in ("as", "ld")),
    **dict.fromkeys(("sid-armhf", "sid-i386", "sid-loong64", "sid-ppc64el", "sid-riscv64"), LIBC_FILES),
    "sid-sparc64": ("usr/sparc64-linux-gnu/lib/libc.so.6", "usr/sparc64-linux-gnu/lib/libc.a"),
    # Before trixie, the C library is not in /usr.
    "bookworm-mips64el": ("lib/*-linux-gnuabi64/libc.so.6", "usr/lib/*-linux-gnuabi64/libc.a"),
    # Files with 860,000 and 2.5 million rows of call frame information.
    "bookworm-amd64": (LIBLLVM, LIBXUL),
    # From the npm package: Breakpad's own programs, built for linux-x64.
    "npm": tuple(f"{BREAKPAD_PROGRAMS}/{name}" for name in ("dump_syms", "minidump_dump", "minidump_stackwalk")),
}
# From PyPI.
PYTHON_PACKAGES = ("symbolic", "pyarrow", "duckdb", "polars")
FETCHED_BY = ".ci/oracles fetches every oracle"


class OracleError(Exception):
    """A program failed, or its output is unknown to our parsers."""


def oracle_root(suite: str = "forky") -> Path:
    parent = os.environ.get("UNWINDKIT_ORACLES") or Path(__file__).resolve().parents[2] / ".oracles"
    return Path(parent) / suite


def oracle_command(program: str, suite: str = "forky") -> tuple[str | Path, ...]:
    """How a program from a suite's folder is run: by its own loader and libraries."""
    return _command(program, oracle_root(suite))


@functools.cache
def _command(program: str, root: Path) -> tuple[str | Path, ...]:
    # Before trixie, the C library is not in /usr.
    folders = [folder for parent in ("usr/lib", "lib") for folder in root.glob(f"{parent}/*-linux-gnu")]
    loader = next((found for folder in folders for found in folder.glob("ld*.so.?")), None)
    path = root / "usr/bin" / program
    if loader is None or not path.exists():
        raise OracleError(f"no {program} with its loader in {root}")
    libraries = [folder for folder in folders if folder.name == loader.parent.name]
    search = ":".join(map(str, [*libraries, *root.glob("usr/lib/llvm-*/lib")]))
    return (loader, "--library-path", search, "--argv0", path, path)


def run_oracle(program: str, *arguments: str | Path, suite: str = "forky") -> str:
    """The standard output of a program from a suite's folder."""
    command = [*oracle_command(program, suite), *arguments]
    environment = os.environ | {"LC_ALL": "C"}
    done = subprocess.run(command, capture_output=True, check=False, env=environment)
    if done.returncode:
        raise OracleError(f"{program} ended with {done.returncode}: {done.stderr.decode(errors='replace')[:500]}")
    return done.stdout.decode(errors="replace")


@functools.cache
def _absence(root: Path) -> str | None:
    missing = [path for path in SUITES[root.name] if next(root.glob(path), None) is None]
    if root.name not in READELF_VERSIONS or "usr/bin/readelf" in missing:
        return f"no {missing[0]} in {root}" if missing else None
    try:
        version = run_oracle("readelf", "--version", suite=root.name).partition("\n")[0]
    except (OracleError, OSError) as error:
        return str(error)
    found = re.search(r"\b(\d+\.\d+)", version)
    if found is None or found[1] != READELF_VERSIONS[root.name]:
        return f"readelf in {root} is {version!r}, not {READELF_VERSIONS[root.name]}"
    return f"no {missing[0]} in {root}" if missing else None


def absent_suite(*names: str) -> str | None:
    """Why some oracles cannot be used, or None; readelf 2.47, from forky, is always needed."""
    return next(filter(None, map(_why_absent, ("forky", *names))), None)


def _why_absent(name: str) -> str | None:
    if name in SUITES:
        return _absence(oracle_root(name))
    is_here = importlib.util.find_spec(name) if name in PYTHON_PACKAGES else shutil.which(name)
    return None if is_here else f"no {name} here"


def absent(reason: str) -> NoReturn:
    """Skip the test because a program or a file is missing, or fail it if UNWINDKIT_REQUIRE_ORACLES=1."""
    if os.environ.get("UNWINDKIT_REQUIRE_ORACLES") == "1":
        pytest.fail(f"oracles are required: {reason} ({FETCHED_BY})", pytrace=False)
    pytest.skip(f"{reason} ({FETCHED_BY})")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip or fail a test marked `oracle(*names)` if one is absent, or whose parameters are files of which none is
    here. For conftest.py."""
    if any(str(mark.kwargs.get("reason")).startswith("got empty parameter set") for mark in item.iter_markers("skip")):
        absent(f"no file for {item.name}")
    marks = list(item.iter_markers("oracle"))
    if marks and (reason := absent_suite(*(name for mark in marks for name in mark.args))) is not None:
        absent(reason)
