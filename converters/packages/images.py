"""Images of containers in OCI's layout, a folder or a tar archive: the files that a container would see.

Strategy: layers are read from the last to the first, and a path that a later layer has, or removes (`.wh.NAME`,
`.wh..wh..opq`), hides those of earlier ones. Blobs are named by their SHA-256, which is checked.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ...schemas.data_classes import dataclass
from ...schemas.packages import tar
from ...schemas.section import ParseError
from ..elf.inputs import map_input
from .archives import tar_entries, tar_members
from .members import MAX_PATH, Member, Members, Unread, Wanted, clean_path
from .streams import Unpacked

LAYOUT, INDEX, BLOBS = "oci-layout", "index.json", "blobs"
WHITEOUT, OPAQUE = ".wh.", ".wh..wh..opq"
MAX_JSON = 4 << 20  # of a manifest, as registries have it
MAX_DEPTH = 4  # of an index in an index
MAX_MANIFESTS, MAX_LAYERS = 256, 1024
DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
# Signatures and the like, which builders store as images.
REFERENCE = "vnd.docker.reference.type"


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of an image, by name."""

    files: Callable[[str], memoryview | None]

    def blob(self, digest: object) -> memoryview:
        """The blob with a digest. Raises ParseError."""
        found = DIGEST.fullmatch(digest) if isinstance(digest, str) else None
        if found is None:
            raise ParseError(INDEX, None, "digest", f"{str(digest)[:80]!r} is not a SHA-256")
        data = self.files(f"{BLOBS}/sha256/{found[1]}")
        if data is None:
            raise ParseError(INDEX, None, "digest", f"there is no blob {digest}")
        if hashlib.sha256(data).hexdigest() != found[1]:
            raise ParseError(INDEX, None, "digest", f"blob {digest} has other content")
        return data


def is_layout(folder: Path) -> bool:
    """Whether a folder is an image."""
    return (folder / LAYOUT).is_file() and (folder / INDEX).is_file()


def layout_of_folder(folder: Path) -> Layout:
    """The image in a folder."""

    def read(name: str) -> memoryview | None:
        path = folder / name
        return map_input(path) if path.is_file() else None

    return Layout(read)


def layout_of_tar(data: memoryview) -> Layout | None:
    """The image in a tar archive that is not compressed; None if there is none. Raises ParseError."""
    if not tar.is_tar(data[: tar.BLOCK]):
        return None
    files: dict[str, memoryview] = {}
    for entry in tar_entries(Unpacked(tar.TAR, data)):
        name = clean_path(entry.header.name)
        if name is not None and entry.header.kind in tar.FILES:
            if not files and not name.startswith((BLOBS, LAYOUT, INDEX, "manifest.json", "repositories")):
                return None  # an image has nothing else at its start
            start = entry.stream.position
            files[name] = data[start : start + entry.header.size]
    return Layout(files.get) if LAYOUT in files and INDEX in files else None


def image_members(layout: Layout, wanted: Wanted) -> Members:
    """The wanted files of an image; if it has several manifests, below a folder with the digest of each. Raises
    ParseError."""
    index = layout.files(INDEX)
    if index is None:
        raise ParseError(INDEX, None, "", "is missing")
    manifests = list(_manifests(layout, _json(index, INDEX), 0))
    for digest, manifest in manifests:
        prefix = "" if len(manifests) == 1 else f"{digest.partition(':')[2][:12]}/"
        yield from _files_of_layers(layout, manifest, wanted, prefix)


def _manifests(layout: Layout, index: Mapping[str, Any], depth: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The manifests of an index, and of those in it, with their digests."""
    entries = _list_of(index, "manifests", MAX_MANIFESTS)
    for entry in entries:
        if REFERENCE in (entry.get("annotations") or {}):
            continue
        found = _json(layout.blob(entry.get("digest")), "manifest")
        if "manifests" not in found:
            yield entry["digest"], found
        elif depth < MAX_DEPTH:
            yield from _manifests(layout, found, depth + 1)


def _json(data: memoryview, name: str) -> Mapping[str, Any]:
    if len(data) > MAX_JSON:
        raise ParseError(name, None, "", f"has {len(data)} bytes, the limit is {MAX_JSON}")
    try:
        found = json.loads(bytes(data))
    except (ValueError, RecursionError) as error:
        raise ParseError(name, None, "", f"is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ParseError(name, None, "", "is no JSON object")
    return found


def _list_of(found: Mapping[str, Any], name: str, limit: int) -> list[dict[str, Any]]:
    values = found.get(name)
    if not isinstance(values, list) or len(values) > limit or not all(isinstance(one, dict) for one in values):
        raise ParseError(INDEX, None, name, f"is no list of up to {limit} objects")
    if not all(isinstance(one.get("annotations") or {}, dict) for one in values):
        raise ParseError(INDEX, None, f"{name}.annotations", "is no object")
    return values


def _files_of_layers(layout: Layout, manifest: Mapping[str, Any], wanted: Wanted, prefix: str) -> Members:
    hidden: set[str] = set()
    for layer in reversed(_list_of(manifest, "layers", MAX_LAYERS)):
        data = layout.blob(layer.get("digest"))
        seen = _paths_of(data)
        visible = Wanted(_unless_hidden(wanted, hidden), wanted.limit)
        for one in _layer_members(data, visible):
            yield (
                Member(prefix + one.path, one.data, one.mode, one.mtime)
                if isinstance(one, Member)
                else Unread(prefix + one.path, one.reason)
            )
        hidden |= seen


def _layer_members(data: memoryview, wanted: Wanted) -> Members:
    return tar_members(lambda: Unpacked("layer", data), wanted)


def _unless_hidden(wanted: Wanted, hidden: set[str]) -> Callable[[str, bytes], bool]:
    def is_wanted(path: str, start: bytes) -> bool:
        return wanted.is_wanted(path, start) and not _is_hidden(path, hidden)

    return is_wanted


def _is_hidden(path: str, hidden: set[str]) -> bool:
    """Whether a path, or a folder above it, is in a later layer as something else than a folder, or was removed."""
    while path:
        if path in hidden:
            return True
        path = path.rpartition("/")[0]
        if f"{path}/" in hidden:
            return True
    return False


def _paths_of(data: memoryview) -> set[str]:
    """What a layer hides of those before it: paths, and, with a slash at the end, the contents of folders."""
    found = set()
    for entry in tar_entries(Unpacked("layer", data)):
        path = clean_path(entry.header.name)
        if path is None or entry.header.kind == tar.FOLDER or len(path) > MAX_PATH:
            continue
        folder, _, name = path.rpartition("/")
        if name == OPAQUE:
            found.add(f"{folder}/")
        elif name.startswith(WHITEOUT):
            found.add(f"{folder}/{name.removeprefix(WHITEOUT)}".lstrip("/"))
        else:
            found.add(path)
    return found
