"""One run of a case with one fault, by strace, and what has to hold afterwards.

Strategy: a run without a fault shows every system call by which the command changes files, each with its number among
the calls of its name. strace then lets one of them fail, or kills the process at it. Every file must be as it was, or
as an undisturbed run leaves it; nothing else may be left, except, after SIGKILL, temporary files under their own names.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from .cases import Case

# Those that change a file or a folder. Calls that open a file do so with one of these flags.
CHANGING = (
    *("write", "pwrite64", "writev", "sendfile", "copy_file_range", "fallocate", "ftruncate", "fsync", "fdatasync"),
    *("rename", "renameat", "renameat2", "link", "linkat", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir"),
    *("chmod", "fchmod", "fchmodat", "chown", "fchown", "fchownat", "utimensat", "setxattr", "fsetxattr"),
)
OPENING = re.compile(r"O_(?:CREAT|WRONLY|RDWR|TRUNC)")
CALL = re.compile(r"^(?:\[pid +)?(\d+)?\]? *(\w+)\((.*)")
# Errors of a full disk, a bad one, a read-only one, and a full quota; signals by which a person or a system ends it.
ERRORS = ("ENOSPC", "EIO", "EROFS", "EDQUOT")
SIGNALS = ("SIGKILL", "SIGTERM", "SIGINT")
TEMPORARY = ".unwindkit-"


@dataclass(frozen=True, slots=True)
class Fault:
    """The system call with the number `index` (from 1) among those of its name `call` fails with an error, or a signal
    comes when it begins."""

    call: str
    index: int
    what: str

    @property
    def injection(self) -> str:
        """As strace's option -e."""
        kind = "signal" if self.what in SIGNALS else "error"
        return f"inject={self.call}:{kind}={self.what}:when={self.index}"


def environment() -> dict[str, str]:
    """One thread, nothing written beside the results, and names of temporary files that do not vary in length."""
    return os.environ | {"UNWINDKIT_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}


def strace(case: Case, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the command of a case in a folder."""
    command = [sys.executable, "-m", "unwindkit", *case.arguments]
    traced = ["strace", "-f", "--seccomp-bpf", "-qq", "-y", *options, *command]
    return subprocess.run(traced, cwd=folder, env=environment(), capture_output=True, text=True, check=False)


def calls_of(case: Case, folder: Path) -> list[tuple[str, int]]:
    """The system calls by which a case changes files: name, and number among the calls of that name."""
    log = folder.parent / "calls"
    done = strace(case, folder, "-o", str(log), "-e", f"trace=openat,{','.join(CHANGING)}")
    assert done.returncode == 0, done.stderr
    seen: Counter[str] = Counter()
    found = []
    for line in log.read_text(errors="replace").splitlines():
        match = CALL.match(line)
        if match is None:
            continue
        name, arguments = match[2], match[3]
        seen[name] += 1
        # What is printed changes no file.
        is_printed = name in ("write", "writev") and re.match(r"[12]<", arguments)
        if (name != "openat" and not is_printed) or (name == "openat" and OPENING.search(arguments)):
            found.append((name, seen[name]))
    return found


def state(folder: Path) -> dict[str, str]:
    """The contents of all files, by path; of links the target. Manifests, whose lines are in no fixed form after a
    fault, are left out."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path != folder / "m":
            mode = path.stat().st_mode & 0o7777
            found[str(path.relative_to(folder))] = f"{mode:o} {hashlib.sha256(path.read_bytes()).hexdigest()}"
    return found


@dataclass(frozen=True, slots=True)
class Before:
    """The files of a case before and after an undisturbed run, in `pristine` and, as hashes, `old` and `new`."""

    case: Case
    pristine: Path
    old: dict[str, str]
    new: dict[str, str]
    calls: tuple[tuple[str, int], ...]


def prepare(case: Case, folder: Path) -> Before:
    """Make the files of a case, and run it without a fault."""
    pristine = folder / "pristine"
    pristine.mkdir(parents=True)
    case.make(pristine)
    run = _copy(pristine, folder / "run")
    old = state(run)
    calls = calls_of(case, run)
    new = state(run)
    assert new != old, case.name
    return Before(case, pristine, old, new, tuple(calls))


def _copy(pristine: Path, run: Path) -> Path:
    """A fresh copy; hard links stay."""
    shutil.rmtree(run, ignore_errors=True)
    subprocess.run(["cp", "-a", pristine, run], check=True)
    return run


def faults_of(found: Before) -> list[Fault]:
    """Every fault of a case."""
    return [Fault(*call, what) for call in found.calls for what in (*ERRORS, *SIGNALS)]


def wrongs(found: Before, fault: Fault, folder: Path) -> list[str]:
    """Run a case with a fault; what does not hold afterwards, as sentences."""
    case, run = found.case, _copy(found.pristine, folder / "run")
    done = strace(case, run, "-o", str(folder / "log"), "-e", fault.injection)
    after = state(run)
    wrong = []
    for path in sorted({*found.old, *found.new, *after}):
        ours = after.get(path)
        if case.follows and path.startswith(case.follows) and done.returncode:
            continue
        if Path(path).name.startswith(TEMPORARY):
            # What cannot be removed has to stay.
            if fault.what != "SIGKILL" and not (fault.what in ERRORS and fault.call.startswith("unlink")):
                wrong.append(f"{path} is left")
        elif ours not in (found.old.get(path), found.new.get(path)):
            wrong.append(f"{path} is neither old nor new" if ours else f"{path} is gone")
    has_failed = done.returncode not in (0, 1)
    # fsync of a folder may fail after all is in place; so may the owner be kept otherwise.
    if fault.what in ERRORS and not has_failed and after != found.new:
        wrong.append("exit code 0 without the result")
    if fault.what in ERRORS and has_failed and "Traceback" in done.stderr:
        wrong.append(f"a traceback: {done.stderr.splitlines()[-1]}")
    if case.resumes:
        again = subprocess.run(
            [sys.executable, "-m", "unwindkit", *case.arguments],
            cwd=run,
            env=environment(),
            capture_output=True,
            text=True,
        )
        if again.returncode or state(run) != found.new:
            wrong.append(f"the next run does not end the work: {again.stderr.splitlines()[-1:]}")
    return wrong
