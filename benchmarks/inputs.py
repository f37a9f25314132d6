"""The measured files: found on this machine, or fetched from Debian into `.oracles/inputs`.

Strategy: apt knows the mirror and checks the signatures; nothing is installed, `dpkg -x` unpacks into a folder.
"""

from __future__ import annotations

import hashlib
import platform
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from .measure import ORACLES, ROOT, Skipped

CACHE = ROOT / ".oracles" / "inputs"
_MULTIARCH = f"{platform.machine()}-linux-gnu"


@dataclass(frozen=True, slots=True)
class Input:
    """A file and its name here. `patterns` are relative to / and to the unpacked `package` (None: not fetched), or to
    the folder of a `suite` of the oracles alone; `command` is searched on PATH; slow peers read
    only `small` files."""

    name: str
    patterns: tuple[str, ...] = ()
    package: str | None = None
    command: str | None = None
    suite: str | None = None
    small: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """An input that was found. `size` in bytes; `sha256` distinguishes versions."""

    name: str
    path: Path
    size: int
    sha256: str
    small: bool


def _library(name: str) -> tuple[str, ...]:
    return (f"usr/lib/{_MULTIARCH}/{name}", f"lib/{_MULTIARCH}/{name}", f"usr/lib64/{name}", f"lib64/{name}")


INPUTS = (
    Input("libLLVM", (*_library("libLLVM-14.so.1"), "usr/lib/llvm-14/lib/libLLVM-14.so.1"), "libllvm14"),
    Input("libxul", tuple(f"usr/lib*/{name}/libxul.so" for name in ("firefox-esr", "firefox")), "firefox-esr"),
    Input("node", command="node"),
    Input("libstdc++", _library("libstdc++.so.6"), "libstdc++6"),
    Input("libc", _library("libc.so.6"), "libc6", small=True),
)
# The input of the line programs: 24 MB with its debugging information.
LINES_INPUT = Input("python3.11d", ("usr/bin/python3.11d",), "python3.11-dbg")
_LIBJVM = ("usr/lib/jvm/java-21-*/lib/server/libjvm.so",)
# Inputs for which only the sizes of sections are reported.
SIZE_INPUTS = (
    Input("python3.11", ("usr/bin/python3.11",), "python3.11-minimal"),
    Input("bash", ("usr/bin/bash", "bin/bash"), "bash"),
    Input("ocamlopt.opt", ("usr/bin/ocamlopt.opt",), suite="sid-amd64"),
    Input("libjvm", _LIBJVM, suite="sid-amd64"),
    Input("libc, AArch64", ("usr/lib/*-linux-gnu/libc.so.6",), suite="sid-arm64"),
    Input("libjvm, s390x", _LIBJVM, suite="sid-s390x"),
)


def find(wanted: Input, fetch: bool) -> Found | Skipped:
    """The input, fetched if it is missing and `fetch` allows the network."""
    path = next(_places(wanted), None)
    if path is None and fetch and wanted.package:
        try:
            _fetch(wanted.package)
        except (subprocess.CalledProcessError, OSError) as error:
            said = getattr(error, "stderr", None) or str(error).encode()
            last = said.decode(errors="replace").strip().rpartition("\n")[2]
            return Skipped(wanted.name, f"package {wanted.package} is not to be had: {last}")
        path = next(_places(wanted), None)
    if path is None and wanted.suite:
        return Skipped(wanted.name, f"no {wanted.patterns[0]} in {ORACLES / wanted.suite} (.ci/oracles fetches it)")
    if path is None:
        where = f"not on this machine; package {wanted.package}" if wanted.package else f"no {wanted.command} on PATH"
        return Skipped(wanted.name, where + (" is fetched with --fetch" if wanted.package and not fetch else ""))
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Found(wanted.name, path, path.stat().st_size, digest, wanted.small)


def _places(wanted: Input) -> Iterator[Path]:
    """Its path, links resolved: on PATH, in the system, or among the files fetched before."""
    if wanted.command and (on_path := shutil.which(wanted.command)):
        yield Path(on_path).resolve()
    roots = [ORACLES / wanted.suite] if wanted.suite else [Path("/")]
    roots += [CACHE / wanted.package] if wanted.package else []
    for root in roots:
        for pattern in wanted.patterns:
            yield from (path.resolve() for path in sorted(root.glob(pattern)) if path.exists())


def _fetch(package: str) -> None:
    """Unpack a Debian package into its folder of the cache."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=CACHE) as folder:
        subprocess.run(["apt-get", "-qq", "download", package], cwd=folder, check=True, capture_output=True)
        for archive in Path(folder).glob("*.deb"):
            subprocess.run(["dpkg", "-x", archive, CACHE / package], check=True, capture_output=True)
