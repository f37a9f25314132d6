"""Names of source files as symbol servers want them: with another prefix, or as a path in a repository.

Strategy: a map has the prefix that a path begins with, and what replaces it; the longest prefix wins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from ...schemas.arguments import checked, encoded_text, instance_of, one_of
from ...schemas.data_classes import dataclass
from ...schemas.section import BuildError

SOURCE = "source paths"
SLASH = b"/"
# What ends a record, or the text of a string.
_BREAKS = re.compile(rb"[\0\r\n]")


@dataclass(frozen=True, slots=True)
class PathMap:
    """A path that begins with `old` gets `new` instead of that, and `suffix` at its end. Raises BuildError for a line
    break or a NUL in these, which no record holds."""

    old: bytes
    new: bytes
    suffix: bytes = b""

    def __post_init__(self) -> None:
        for name in ("old", "new", "suffix"):
            text = getattr(self, name)
            instance_of(bytes)(text, name)
            if _BREAKS.search(text):
                raise BuildError(SOURCE, None, name, f"{text!r} contains a line break or a NUL")


@checked(text=str)
def prefix_map(text: str) -> PathMap:
    """The map OLD=NEW, as of gcc's -ffile-prefix-map: any path that begins with the text OLD. Raises BuildError."""
    old, equals, new = text.partition("=")
    if not (old and equals):
        raise BuildError(SOURCE, None, "prefix map", f"found {text!r}, expected OLD=NEW")
    return PathMap(encoded_text(old), encoded_text(new))


@checked(system=one_of("git", "hg"), text=str)
def repository_map(system: Literal["git", "hg"], text: str) -> PathMap:
    """The map DIR=REPOSITORY@REVISION: files below a folder are in a repository, at a revision. Raises BuildError.

    Their names become SYSTEM:REPOSITORY:PATH:REVISION, with the path in the repository, as Mozilla's symbol server and
    Socorro take them.
    """
    folder, equals, place = text.partition("=")
    repository, at, revision = place.rpartition("@")
    if not (folder.strip("/") and equals and at and repository and revision):
        raise BuildError(SOURCE, None, f"{system} map", f"found {text!r}, expected DIR=REPOSITORY@REVISION")
    for name, part in (("repository", repository), ("revision", revision)):
        if ":" in part:
            raise BuildError(SOURCE, None, f"{system} map", f"the {name} {part!r} contains a colon")
    return PathMap(
        encoded_text(folder.rstrip("/")) + SLASH, encoded_text(f"{system}:{repository}:"), encoded_text(f":{revision}")
    )


def map_paths(paths: Iterable[bytes], maps: Sequence[PathMap]) -> list[bytes]:
    """The paths, each changed by the map with the longest prefix that it begins with; of equal ones, by the last."""
    numbered = sorted(enumerate(maps), key=lambda one: (len(one[1].old), one[0]), reverse=True)
    ordered = [one for _, one in numbered]
    return [_mapped(path, ordered) for path in paths] if ordered else list(paths)


def _mapped(path: bytes, maps: Sequence[PathMap]) -> bytes:
    for one in maps:
        if path.startswith(one.old):
            return one.new + path[len(one.old) :] + one.suffix
    return path
