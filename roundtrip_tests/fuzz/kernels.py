"""Checked kernels: `python -m roundtrip_tests.fuzz.kernels {sanitizers,bounds} FOLDER [ARGUMENT ...]`.

Strategy: the project is copied into FOLDER and its kernels are built there, with AddressSanitizer and
UndefinedBehaviorSanitizer and without -fwrapv, which Python has in its own flags and which hides signed overflow; or
with Cython's checks of every index. The arguments are those of python, by default the fuzzer; `-m pytest` runs the test
suite. Every Python that these processes start uses the same kernels.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
LEFT_OUT = (".git", ".venv", ".oracles", "build", "fuzz-faults", "*.egg-info", "*.so", "__pycache__", ".*_cache")
SANITIZE = "-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-wrapv -O1 -g1 -fno-omit-frame-pointer"
BUILDS = ("sanitizers", "bounds")
# What a process with checked kernels has in its environment.
MARK = "UNWINDKIT_CHECKED_KERNELS"
# Python starts again with the sanitizers' libraries before all others. Compilers, debuggers and emulators, which tests
# run, must not load them.
PRELOADED = """\
import os
import sys

libraries = os.environ["UNWINDKIT_SANITIZERS"]
if os.environ.pop("LD_PRELOAD", None) != libraries:
    os.environ["LD_PRELOAD"] = libraries
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
"""


def build(which: str, folder: Path) -> Path:
    """Build the kernels; returns the folder from which `unwindkit` with these kernels is imported."""
    shutil.copytree(ROOT, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
    oracles = folder / ".oracles"
    if (ROOT / ".oracles").exists() and not oracles.is_symlink():
        oracles.symlink_to((ROOT / ".oracles").resolve())
    if which == "bounds":
        for path in sorted((folder / "converters" / "kernels").glob("*/*.py")):
            path.write_text(with_bounds_checks(path.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        script = with_sanitizers((folder / "setup.py").read_text(encoding="utf-8"))
        (folder / "setup.py").write_text(script, encoding="utf-8")
    tools = _build_tools(folder)
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": str(tools)}, check=True)
    site = _linked(folder)
    if which == "sanitizers":
        (site / "sitecustomize.py").write_text(PRELOADED, encoding="utf-8")
    return site


def _build_tools(folder: Path) -> Path:
    """The folder of what the build needs, which is installed there as for any build."""
    tools = folder / "build-tools"
    if not tools.exists():
        needed = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
        subprocess.run([sys.executable, "-m", "pip", "-q", "install", "--target", str(tools), *needed], check=True)
    return tools


def with_sanitizers(script: str) -> str:
    """The text of setup.py with the flags of the sanitizers."""
    for name, value in {"COMPILE": SANITIZE.split(), "LINK": ["-fsanitize=address,undefined"]}.items():
        script = re.sub(rf"^{name} = .*$", f"{name} = {value!r}", script, flags=re.MULTILINE)
    return script


def with_bounds_checks(kernel: str) -> str:
    """The text of a kernel whose indices are checked; negative ones are wrong, too."""
    return kernel.replace("boundscheck=False", "boundscheck=True, show_performance_hints=False", 1)


def _linked(folder: Path) -> Path:
    """The import package as links, as an editable installation has it."""
    site = folder / "site"
    shutil.rmtree(site, ignore_errors=True)
    (site / "unwindkit").mkdir(parents=True)
    sources = [*(folder / "package").iterdir(), *(folder / name for name in ("schemas", "converters", "writers"))]
    for source in sources:
        (site / "unwindkit" / source.name).symlink_to(source.resolve())
    return site


def environment(which: str, site: Path) -> dict[str, str]:
    """What a process needs that uses the kernels."""
    found = {**os.environ, "PYTHONPATH": str(site), "UNWINDKIT_REQUIRE_COMPILED": "1", MARK: which}
    if which == "bounds":
        # Many functions of kernels cannot raise: Python reports their IndexError as one that nobody catches.
        return found | {"PYTEST_ADDOPTS": "-W error::pytest.PytestUnraisableExceptionWarning"}
    names = ("libasan.so", "libubsan.so")
    asked = [subprocess.run(["gcc", f"-print-file-name={one}"], capture_output=True, text=True) for one in names]
    found["UNWINDKIT_SANITIZERS"] = ":".join(one.stdout.strip() for one in asked)
    # Python's allocations at exit are no leaks; its own allocator would hide reads past the end.
    found |= {
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:abort_on_error=1",
    }
    found["PYTHONMALLOC"] = "malloc"
    return found


def main() -> int:
    """Run the command."""
    which, folder, *command = sys.argv[1:]
    if which not in BUILDS:
        sys.exit(f"{which!r} is none of {', '.join(BUILDS)}")
    site = build(which, Path(folder).resolve())
    command = command or ["-m", "roundtrip_tests.fuzz"]
    return subprocess.run([sys.executable, *command], env=environment(which, site), cwd=folder, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
