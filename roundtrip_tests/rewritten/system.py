"""This system with some of its files replaced: namespaces in which a tree lies over a folder.

Strategy: an overlay in a mount namespace of its own, so that every path is as before, and the dynamic linker, the C
library and all that they load are the rewritten ones. Nothing that is run there can write to the disk, see other
processes, or use the network.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

INSIDE = Path(__file__).with_name("inside.py")
NAMESPACES = ("unshare", "--mount", "--pid", "--net", "--ipc", "--fork", "--mount-proc")
# $1: the tree or "", $2: the folder that it lies over, $3: an empty folder; then the command.
MOUNTS = """
set -e
[ -z "$1" ] || mount -t overlay overlay -o "lowerdir=$1:$2" "$2"
mount -t tmpfs tmpfs "$3"
mount -o remount,bind,ro /
cd "$3"
shift 3
exec "$@"
"""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What programs answered (to --version and --help), and what the dynamic linker said of libraries ("": loaded)."""

    programs: dict[str, list[list[object]]]
    libraries: dict[str, str]


@cache
def absence() -> str | None:
    """Why such namespaces cannot be made here, or None."""
    with TemporaryDirectory() as empty:
        command = [*NAMESPACES, "sh", "-c", MOUNTS, "sh", "/usr/bin", "/usr/lib", empty, sys.executable, "-c", ""]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            return f"no unshare: {error}"
    return None if done.returncode == 0 else f"no overlay in a namespace: {done.stderr.strip()}"


def run_in_system(tree: Path | None, over: Path, programs: list[str], libraries: list[str], scratch: Path) -> Outcomes:
    """Run programs and load libraries with `tree`, if any, over the folder `over`. `scratch` is an empty folder."""
    jobs = scratch / "jobs.json"
    jobs.write_text(json.dumps({"programs": programs, "libraries": libraries}))
    empty = scratch / "empty"
    empty.mkdir(exist_ok=True)
    command = [*NAMESPACES, "sh", "-c", MOUNTS, "sh", "" if tree is None else str(tree), str(over), str(empty)]
    done = subprocess.run(
        [*command, sys.executable, str(INSIDE), str(jobs)],
        stdout=subprocess.PIPE,
        check=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    return Outcomes(**json.loads(done.stdout))
