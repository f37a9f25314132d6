"""Real files of this machine that tests read: those of the five of the manual that exist."""

from __future__ import annotations

import glob
import os
import sys


def _first(*patterns: str) -> str | None:
    """The first file, links resolved, that one of the patterns finds."""
    return next((os.path.realpath(path) for pattern in patterns for path in sorted(glob.glob(pattern))), None)


_CANDIDATES = (
    _first("/bin/ls"),
    _first("/bin/bash"),
    _first("/usr/bin/python3", "/usr/local/bin/python3") or os.path.realpath(sys.executable),
    _first("/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6"),
    _first("/usr/lib/x86_64-linux-gnu/libstdc++.so.6", "/usr/lib64/libstdc++.so.6"),
)

REAL_FILES: tuple[str, ...] = tuple(path for path in _CANDIDATES if path is not None)
