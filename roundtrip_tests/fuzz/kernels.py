"""The fuzzer on kernels with sanitizers: `python -m roundtrip_tests.fuzz.kernels FOLDER [ARGUMENT ...]`.

Strategy: the project is copied into FOLDER and its kernels are built there with AddressSanitizer and
UndefinedBehaviorSanitizer, without -fwrapv, which Python has in its own flags and which hides signed overflow. The
arguments are those of python, by default the fuzzer.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("schemas", "converters", "writers", "package", "roundtrip_tests")
SANITIZE = "-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-wrapv -O1 -g1 -fno-omit-frame-pointer"


def build(folder: Path) -> Path:
    """Build the kernels; returns the folder from which `unwindkit` with these kernels is imported."""
    for name in FOLDERS:
        without = shutil.ignore_patterns("*.so", "__pycache__")
        shutil.copytree(ROOT / name, folder / name, dirs_exist_ok=True, ignore=without)
    for name in ("setup.py", "pyproject.toml", "README.md"):
        shutil.copy2(ROOT / name, folder / name)
    script = with_sanitizers((folder / "setup.py").read_text(encoding="utf-8"))
    (folder / "setup.py").write_text(script, encoding="utf-8")
    subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=folder, check=True)
    return _linked(folder)


def with_sanitizers(script: str) -> str:
    """The text of setup.py with the flags of the sanitizers."""
    for name, value in {"COMPILE": SANITIZE.split(), "LINK": ["-fsanitize=address,undefined"]}.items():
        script = re.sub(rf"^{name} = .*$", f"{name} = {value!r}", script, flags=re.MULTILINE)
    return script


def _linked(folder: Path) -> Path:
    """The import package as links, as an editable installation has it."""
    site = folder / "site"
    shutil.rmtree(site, ignore_errors=True)
    (site / "unwindkit").mkdir(parents=True)
    sources = [*(folder / "package").iterdir(), *(folder / name for name in ("schemas", "converters", "writers"))]
    for source in sources:
        (site / "unwindkit" / source.name).symlink_to(source.resolve())
    return site


def environment(site: Path) -> dict[str, str]:
    """What a process needs that uses the kernels."""
    found = {**os.environ, "PYTHONPATH": str(site), "UNWINDKIT_REQUIRE_COMPILED": "1"}
    names = ("libasan.so", "libubsan.so")
    asked = [subprocess.run(["gcc", f"-print-file-name={one}"], capture_output=True, text=True) for one in names]
    found["LD_PRELOAD"] = ":".join(one.stdout.strip() for one in asked)
    # Python's allocations at exit are no leaks; its own allocator would hide reads past the end.
    found |= {
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:abort_on_error=1",
    }
    found["PYTHONMALLOC"] = "malloc"
    return found


def main() -> int:
    """Run the command."""
    folder, *command = sys.argv[1:]
    site = build(Path(folder).resolve())
    command = command or ["-m", "roundtrip_tests.fuzz"]
    return subprocess.run([sys.executable, *command], env=environment(site), cwd=folder, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
