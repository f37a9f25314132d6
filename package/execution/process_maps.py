"""The mappings of a process of this machine (proc(5), /proc/PID/maps)."""

from __future__ import annotations

from pathlib import Path

from .loaded_files import Mapping


def read_mappings(number: int) -> list[Mapping]:
    """The mappings of a process, ascending; none of one that is gone."""
    try:
        text = Path(f"/proc/{number}/maps").read_text(errors="surrogateescape")
    except OSError:
        return []
    return [_mapping(line) for line in text.splitlines()]


def _mapping(line: str) -> Mapping:
    addresses, permissions, offset, _, _, *path = line.split(maxsplit=5)
    start, _, end = addresses.partition("-")
    return Mapping(int(start, 16), int(end, 16), int(offset, 16), "".join(path), "x" in permissions)
