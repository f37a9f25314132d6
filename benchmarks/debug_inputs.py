"""Real files with their debugging information: the large ones of Debian, which `.ci/oracles --large` fetches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from elftools.elf.elffile import ELFFile

from .measure import ORACLES

_LIBC = "lib/*-linux-gnu*/libc.so.6"


@dataclass(frozen=True, slots=True)
class DebugInput:
    """A file, and its separate debug file, if it has one."""

    name: str
    path: Path
    debug: Path | None = None

    @property
    def source(self) -> Path:
        """The file that has the debugging information."""
        return self.debug or self.path

    def debug_info_size(self) -> int:
        """Bytes of `.debug_info`, uncompressed; 0 if it has none."""
        with self.source.open("rb") as file:
            section = ELFFile(file).get_section_by_name(".debug_info")
            return int(section.data_size) if section else 0


# By name: the folder of the oracles, and the file in it.
LARGE = {
    "libc": ("large-amd64", _LIBC),
    "python3.11": ("large-amd64", "usr/bin/python3.11"),
    "libstdc++": ("large-amd64", "usr/lib/*/debug/libstdc++.so.6.*[0-9]"),
    "librados2": ("large-amd64", "usr/lib/*/librados.so.2.*"),
    "ceph-mds": ("large-amd64", "usr/bin/ceph-mds"),
    "libc, arm64": ("large-arm64", _LIBC),
    "libc, s390x": ("large-s390x", _LIBC),
    "libc, i386": ("large-i386", _LIBC),
}


def large_inputs() -> Iterator[DebugInput]:
    """The ones that are here: of LARGE, and symbolic's own shared object, which has debugging information from Rust."""
    for name, (suite, pattern) in LARGE.items():
        root = ORACLES / suite
        for path in sorted(root.glob(pattern)):
            debug = root / "usr/lib/debug/.build-id" / _debug_name(path)
            found = DebugInput(name, path, debug if debug.exists() else None)
            if found.debug_info_size():
                yield found
    specification = find_spec("symbolic")
    if specification is not None and specification.origin is not None:
        for path in sorted(Path(specification.origin).parent.glob("*lib.so")):
            yield DebugInput("symbolic", path)


def _debug_name(path: Path) -> str:
    """Where Debian has the debug file, below its folder: by the build id."""
    with path.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".note.gnu.build-id")
        build_id = section.data()[16:].hex() if section else ""
    return f"{build_id[:2]}/{build_id[2:]}.debug"
