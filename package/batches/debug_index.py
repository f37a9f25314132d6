"""Where the debug files of a batch are, by build id: in its packages, and in its folders.

Strategy: packages are read once before the batch, for the names of their debug files; contents are read when a file
needs them. Those of one package are kept meanwhile, since its files are needed one after the other.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from ..converters.elf.identity import GivenDebugFile, build_id
from ..converters.elf.image import elf_of_bytes, open_elf
from ..converters.elf.supplementary import identifier_of_link
from ..converters.packages.members import Member, Wanted
from ..schemas.data_classes import dataclass
from ..schemas.elf.headers import MAGIC
from ..schemas.section import FormatError
from .source_files import SourceFile
from .sources import IN_PACKAGE, Sources, is_debug_place, members_of_package

BY_BUILD_ID = re.compile(r"(?:^|/)\.build-id/([0-9a-f]{2})/([0-9a-f]+)\.debug$")
KEPT_BYTES = 512 << 20


@dataclass(frozen=True, slots=True)
class _Place:
    """A debug file: its path in a package, or, with `path` None, a file of its own."""

    package: Path
    path: str | None


class DebugIndex:
    """The debug files of a batch."""

    def __init__(self, sources: Sources) -> None:
        self._limit = sources.limit
        self._places: dict[bytes, _Place] = {}
        self._kept: dict[_Place, bytes] = {}
        for path in sources.debug:
            with suppress(OSError, FormatError):
                self._places.setdefault(build_id(open_elf(path)), _Place(path, None))
        for path in sources.packages:
            self._add_package(path)
        self._places.pop(b"", None)

    def __len__(self) -> int:
        return len(self._places)

    def _add_package(self, package: Path) -> None:
        """Add the debug files of a package: by their names if those have the build id, otherwise by their contents."""

        def has_to_be_read(path: str, start: bytes) -> bool:
            if not is_debug_place(path) or not start.startswith(MAGIC):
                return False
            if named := BY_BUILD_ID.search(path):
                self._places.setdefault(bytes.fromhex(named[1] + named[2]), _Place(package, path))
            return named is None

        # What cannot be read is reported when the package's files are converted.
        with suppress(OSError, FormatError, ValueError):
            for one in members_of_package(package, Wanted(has_to_be_read, self._limit)):
                if isinstance(one, Member):
                    with suppress(FormatError):
                        identifier = build_id(elf_of_bytes(one.path, one.data))
                        self._places.setdefault(identifier, _Place(package, one.path))

    def debug_of(self, source: SourceFile) -> tuple[GivenDebugFile, ...]:
        """The debug file of a file, and the supplementary file of either, as far as the batch has them."""
        if not self._places:
            return ()
        found = []
        try:
            image = open_elf(source.as_input())
            own = self._find(build_id(image))
            found = [own] if own is not None else []
            linking = image if own is None else elf_of_bytes(own.name, own.data)
            shared = self._find(identifier_of_link(linking))
            found += [shared] if shared is not None else []
        except (OSError, FormatError):
            pass  # reported by the job
        return tuple(found)

    def _find(self, identifier: bytes) -> GivenDebugFile | None:
        place = self._places.get(identifier)
        if place is None:
            return None
        if place not in self._kept:
            self._read(place)
        data = self._kept.get(place)
        name = os.fspath(place.package) + (f"{IN_PACKAGE}{place.path}" if place.path else "")
        return None if data is None else GivenDebugFile(name, identifier, data)

    def _read(self, place: _Place) -> None:
        """Keep the contents of a debug file, and of those in the same package if they are not too large."""
        if sum(map(len, self._kept.values())) > KEPT_BYTES:
            self._kept.clear()
        if place.path is None:
            self._kept[place] = place.package.read_bytes()
            return
        package = place.package
        here = {one.path for one in self._places.values() if one.package == package}
        size = 0
        for one in members_of_package(package, Wanted(lambda path, _: path in here, self._limit)):
            if not isinstance(one, Member):
                continue
            size += len(one.data)
            if size <= KEPT_BYTES or one.path == place.path:
                self._kept[_Place(package, one.path)] = one.data
            if size > KEPT_BYTES and place in self._kept:
                return
