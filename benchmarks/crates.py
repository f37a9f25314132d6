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
        command = [cargo, "build", "--quiet", "--locked", "--release", "--target-dir", str(ORACLES / "crates")]
        done = subprocess.run(command, cwd=SOURCES, capture_output=True, text=True, check=False)
        if done.returncode:
            return Skipped(name, f"cargo: {done.stderr.strip().rpartition(chr(10))[2][:200]}")
    locked = tomllib.loads((SOURCES / "Cargo.lock").read_text(encoding="utf-8"))["package"]
    crate = name.partition("_")[0]
    version = next(one["version"] for one in locked if one["name"] == crate)
    return Program(name, (str(built),), version=f"{crate} {version}")
