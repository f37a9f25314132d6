"""Peers in Rust: programs of a few lines over the crates gimli and framehop (benchmarks/crates), built by cargo."""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from pathlib import Path

from .measure import ORACLES, Program, Skipped

SOURCES = Path(__file__).with_name("crates")
ROWS, REWRITE, FRAMES = "gimli_rows", "gimli_rewrite", "framehop_frames"


def crate_program(name: str, fetch: bool) -> Program | Skipped:
    """One of the programs, without arguments; `fetch`: cargo may download the crates and build it."""
    built = ORACLES / "crates" / "release" / name
    if not built.exists():
        if not fetch:
            return Skipped(name, "not built (--fetch builds it with cargo)")
        cargo = shutil.which("cargo")
        if cargo is None:
            return Skipped(name, "no cargo on PATH")
        command = [cargo, "build", "--quiet", "--release", "--target-dir", str(ORACLES / "crates")]
        done = subprocess.run(command, cwd=SOURCES, capture_output=True, text=True, check=False)
        if done.returncode:
            return Skipped(name, f"cargo: {done.stderr.strip().rpartition(chr(10))[2][:200]}")
    crate = name.partition("_")[0]
    asked = tomllib.loads((SOURCES / "Cargo.toml").read_text(encoding="utf-8"))["dependencies"][crate]
    version: str = asked if isinstance(asked, str) else asked["version"]
    return Program(name, (str(built),), version=f"{crate} {version.removeprefix('=')}")
