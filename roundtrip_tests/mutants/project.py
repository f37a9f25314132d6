"""The code to break and the tests that should notice: unwindkit itself, or a small package in a test of this tool."""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Stubs are read by type checkers only.
NOT_RUN = ("unwindkit.converters.kernels.stubs", "unwindkit.converters.kernels._cyutility")
# Top-level folders of the repository; every other module is in `package/`.
FOLDERS = ("schemas", "converters", "writers")


@dataclass(frozen=True)
class Module:
    """One source file. `path` is the one that people know, relative to the repository; `file` the one imported."""

    name: str
    path: str
    file: Path

    @cached_property
    def source(self) -> str:
        """The file's text."""
        return self.file.read_text(encoding="utf-8")

    @cached_property
    def digest(self) -> str:
        """What tells whether a recording is about this text."""
        return hashlib.sha256(self.source.encode()).hexdigest()


@dataclass(frozen=True)
class Project:
    """An import package and the folder of its tests."""

    package: str
    tests: Path

    @property
    def root(self) -> Path:
        """What the tests' names are relative to."""
        return self.tests.parent

    @cached_property
    def modules(self) -> tuple[Module, ...]:
        """Every source file of the package, by path."""
        spec = importlib.util.find_spec(self.package)
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(self.package)
        root = Path(spec.origin).parent
        found = [_module(self.package, root, file) for file in sorted(root.rglob("*.py"))]
        return tuple(sorted((one for one in found if not one.name.startswith(NOT_RUN)), key=lambda one: one.path))

    def chosen(self, names: list[str]) -> list[Module]:
        """The modules with these paths, or in these folders; all if there are no names. KeyError for one unknown."""
        found: set[Module] = set()
        for name in names:
            wanted = name.rstrip("/")
            some = {one for one in self.modules if one.path == wanted or one.path.startswith(f"{wanted}/")}
            if not some:
                raise KeyError(name)
            found |= some
        return [one for one in self.modules if one in found or not names]


def _module(package: str, root: Path, file: Path) -> Module:
    relative = file.relative_to(root)
    parts = relative.with_suffix("").parts
    name = ".".join([package, *(parts[:-1] if parts[-1] == "__init__" else parts)])
    is_ours = package == "unwindkit" and parts[0] not in FOLDERS
    return Module(name, f"package/{relative}" if is_ours else str(relative), file)


UNWINDKIT = Project("unwindkit", ROOT / "roundtrip_tests")
