"""What is measured: each part returns its figures as records, and what it could not measure as `Skipped`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from .in_process import InProcess, convert_in_process
from .inputs import Found
from .line_rows import LineRows
from .measure import ROOT, Measured, Program, RunError, Skipped, alternate
from .peers import on_input

SCALES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
# SFrame version and --compact, by their names in SectionSize.
VARIANTS = {
    f"v{version}_{compact}": (version, compact) for version, compact in product((2, 3), ("none", "share", "merge"))
}
GAS = "as and ld 2.47"
_UNWINDKIT = (sys.executable, "-m", "unwindkit")


@dataclass(frozen=True, slots=True)
class Comparison:
    """One input converted by unwindkit (the first of `measured`) and read by the peers."""

    name: str
    measured: tuple[Measured, ...]

    def ratio(self, peer: Measured) -> float:
        """unwindkit's time divided by the peer's: below 1 is faster."""
        return self.measured[0].wall / peer.wall

    def cpu_ratio(self, peer: Measured) -> float:
        """The same for user and system time, which a busy machine disturbs less."""
        ours = self.measured[0]
        return (ours.user + ours.system) / (peer.user + peer.system)


@dataclass(frozen=True, slots=True)
class SymbolFiles(Comparison):
    """One input: `debug_info` is the uncompressed size of its section, in bytes."""

    debug_info: int

    def milliseconds_per_megabyte(self, of: Measured) -> float:
        """User and system time per 10^6 bytes of `.debug_info`."""
        return (of.user + of.system) * 1e9 / self.debug_info

    def bytes_per_byte(self, of: Measured) -> float:
        """Peak memory per byte of `.debug_info`."""
        return of.peak / self.debug_info


@dataclass(frozen=True, slots=True)
class GasSection:
    """Bytes of the `.sframe` that GNU as and ld made; functions passed to as, those of them that it refused, and
    ranges not passed because no directives express them. `version` is what `as --version` prints."""

    version: str
    sframe: int
    functions: int
    refused: int
    unsaid: int


@dataclass(frozen=True, slots=True)
class SectionSize:
    """Bytes of `.sframe` by version and `--compact`, and of the `.eh_frame` that it was made from; `gas` is None
    without as and ld."""

    name: str
    functions: int
    eh_frame: int
    v2_none: int
    v2_share: int
    v2_merge: int
    v3_none: int
    v3_share: int
    v3_merge: int
    gas: GasSection | None


@dataclass(frozen=True, slots=True)
class Step:
    """A generated input: the bytes of its `.eh_frame` and of the `.sframe`, the whole process, and the conversion
    alone."""

    functions: int
    eh_frame: int
    sframe: int
    process: Measured
    in_process: InProcess


@dataclass(frozen=True, slots=True)
class Batch:
    """Many small files converted by one command; what is measured differs by the number of processes."""

    files: int
    measured: tuple[Measured, ...]

    def rate(self, of: Measured) -> float:
        """Files a second."""
        return self.files / of.wall


@dataclass(frozen=True, slots=True)
class Results:
    """All figures of one run; `scaling_source` is the input whose functions were repeated."""

    comparisons: tuple[Comparison, ...] = ()
    sizes: tuple[SectionSize, ...] = ()
    in_process: tuple[InProcess, ...] = ()
    pure: tuple[Comparison, ...] = ()
    writers: tuple[Comparison, ...] = ()
    printing: tuple[Comparison, ...] = ()
    stack_cfi: tuple[Comparison, ...] = ()
    stack_cfi_in_process: tuple[Comparison, ...] = ()
    symbol_files: tuple[SymbolFiles, ...] = ()
    lines: tuple[LineRows, ...] = ()
    start_up: tuple[Comparison, ...] = ()
    threads: tuple[Comparison, ...] = ()
    rewriting: tuple[Comparison, ...] = ()
    batches: tuple[Batch, ...] = ()
    scaling: tuple[Step, ...] = ()
    scaling_source: str = ""
    skipped: tuple[Skipped, ...] = ()


def conversion(path: Path, folder: Path, name: str = "unwindkit") -> Program:
    """The measured command: a whole process, from the file to the bytes of the section."""
    return Program(name, (*_UNWINDKIT, "sframe", str(path), "--section", str(folder / "out.bin")))


def compare(found: Found, peers: list[Program], runs: int) -> tuple[Comparison | None, list[Skipped]]:
    """unwindkit and the peers on one input, in turn; no comparison where unwindkit itself fails."""
    programs, slow = on_input(peers, found)
    with TemporaryDirectory() as folder:
        ours = conversion(found.path, Path(folder))
        measured, failed = alternate([ours, *programs], runs)
    skipped = slow + [Skipped(f"{skip.name} on {found.name}", skip.reason) for skip in failed]
    if not measured or measured[0].program != ours.name:
        return None, skipped
    return Comparison(found.name, tuple(measured)), skipped


def section_size(found: Found) -> tuple[SectionSize, list[Skipped]]:
    """Sizes by version and `--compact`. Raises CalledProcessError if the file is refused."""
    reports = {name: _report(found.path, *variant) for name, variant in VARIANTS.items()}
    gas, skipped = gas_section(found)
    sizes = {name: report["sframe_bytes"] for name, report in reports.items()}
    first = reports["v2_none"]
    return SectionSize(found.name, first["functions"], first["cfi_bytes"], gas=gas, **sizes), skipped


def gas_section(found: Found) -> tuple[GasSection | None, list[Skipped]]:
    """What as and ld make of the same functions, in a separate process."""
    with TemporaryDirectory() as folder:
        command = (sys.executable, "-m", "benchmarks.gas", str(found.path), folder)
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode:
        said = done.stderr.strip().rpartition("\n")[2]
        return None, [Skipped(f"{GAS} on {found.name}", said)]
    return GasSection(**json.loads(done.stdout)), []


def _report(path: Path, version: int = 2, compact: str = "share") -> dict[str, int]:
    """The figures that `unwindkit sframe --report` writes."""
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        options = ("--sframe-version", str(version), "--compact", compact, "--report", str(report))
        command = (*conversion(path, Path(folder)).command, *options)
        subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
        figures: dict[str, int] = json.loads(report.read_text())
    return figures


def pure_fallback(found: Found, runs: int) -> tuple[Comparison | None, list[Skipped]]:
    """The compiled kernels and the uncompiled ones on one input, in turn."""
    with TemporaryDirectory() as folder:
        compiled = conversion(found.path, Path(folder))
        pure = Program("unwindkit, uncompiled", compiled.command, (("UNWINDKIT_PURE", "1"),))
        measured, skipped = alternate([compiled, pure], runs)
    return (Comparison(found.name, tuple(measured)) if len(measured) == 2 else None), skipped


def printing(found: Found, peers: Sequence[Program], runs: int) -> tuple[Comparison | None, list[Skipped]]:
    """The rows of every function as text, by us and by the readelfs that print the same rows."""
    ours = Program("unwindkit", (*_UNWINDKIT, "dump", "--frames-interp", str(found.path)))
    readelfs = [peer for peer in on_input(list(peers), found)[0] if peer.name.startswith("readelf")]
    measured, skipped = alternate([ours, *readelfs], runs)
    return (Comparison(found.name, tuple(measured)) if len(measured) > 1 else None), skipped


def writing(found: Found, runs: int) -> tuple[Comparison | None, list[Skipped]]:
    """The whole job, a file with its section, by our own engine and by lief, next to `objcopy --add-section`.

    objcopy copies the file and adds bytes, made beforehand, that nothing loads: the minimum for this job.
    """
    with TemporaryDirectory() as name:
        folder = Path(name)
        section, out = folder / "out.bin", folder / "out"
        ours = [
            Program(
                f"unwindkit, {writer}", (*_UNWINDKIT, "sframe", str(found.path), "-o", str(out), "--writer", writer)
            )
            for writer in ("native", "lief")
        ]
        subprocess.run(conversion(found.path, folder).command, check=True, capture_output=True, cwd=ROOT)
        objcopy = (
            shutil.which("objcopy") or "objcopy",
            "--add-section",
            f".sframe={section}",
            str(found.path),
            str(out),
        )
        measured, skipped = alternate([*ours, Program("objcopy", objcopy)], runs)
    return (Comparison(found.name, tuple(measured)) if len(measured) > 1 else None), skipped


def scaling(source: Found, counts: Sequence[int], runs: int) -> tuple[Step, ...]:
    """Files of growing numbers of functions, each made by a separate process. Raises CalledProcessError."""
    steps = []
    with TemporaryDirectory() as name:
        folder = Path(name)
        for count in counts:
            path = folder / f"{count}.elf"
            maker = (sys.executable, "-m", "benchmarks.scaling", str(source.path), str(count), str(path))
            subprocess.run(maker, check=True, capture_output=True, cwd=ROOT)
            measured, failed = alternate([conversion(path, folder)], runs)
            if failed:
                raise RunError(failed[0].reason)
            inside = convert_in_process(path.stem, str(path), runs)
            report = _report(path)
            sizes = report["cfi_bytes"], report["sframe_bytes"]
            steps.append(Step(inside.functions, *sizes, measured[0], inside))
            path.unlink()
    return tuple(steps)
