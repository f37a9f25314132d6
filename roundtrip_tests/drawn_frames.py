"""Drawn call frame information of all architectures against its readers (`python -m` and this module's name).

Strategy: for each architecture, byte order and section, valid sections are drawn with their rows. unwindkit reads them
all; GNU readelf and pyelftools read others, drawn without the features that they do not know. Prints what differs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from unwindkit.schemas.section import ByteOrder
from unwindkit.testing import CallFrames, Feature, call_frames

from .support.judges.drawn_frames import (
    MACHINES,
    PYELFTOOLS_CANNOT,
    SECTIONS,
    Difference,
    draw_many,
    our_differences,
    pyelftools_differences,
    readelf_cannot,
    readelf_differences,
)

SHOWN = 5


def differences(
    arch: str, order: ByteOrder, section: str, count: int, number: int, seen: Counter[Feature]
) -> Iterator[Difference]:
    """Draw `count` sections for each reader; all differences. `seen` counts the features of those for unwindkit."""

    def drawn(without: frozenset[Feature]) -> list[CallFrames]:
        return draw_many(call_frames(arch, section, order, without), count, number)

    found = drawn(frozenset())
    for frames in found:
        seen.update(frames.features)
    yield from our_differences(found)
    for_readelf = drawn(readelf_cannot(section, arch))
    yield from our_differences(for_readelf)
    with tempfile.TemporaryDirectory() as folder:
        yield from readelf_differences(for_readelf, Path(folder))
    for_pyelftools = drawn(PYELFTOOLS_CANNOT)
    yield from our_differences(for_pyelftools)
    yield from pyelftools_differences(for_pyelftools)


def main() -> int:
    """Run it; the exit status is 1 if anything differs."""
    parser = argparse.ArgumentParser(prog="python -m roundtrip_tests.drawn_frames", description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="sections for each machine and reader (default 2000)")
    parser.add_argument("--seed", type=int, default=18)
    parser.add_argument("arch", nargs="*", help="default: every architecture, in each byte order")
    options = parser.parse_args()
    bad = 0
    seen: Counter[Feature] = Counter()
    for arch, order in MACHINES:
        if options.arch and arch not in options.arch:
            continue
        for dialect in SECTIONS:
            started = time.monotonic()
            found = list(differences(arch, order, dialect.name, options.count // len(SECTIONS), options.seed, seen))
            bad += len(found)
            seconds = time.monotonic() - started
            sys.stdout.write(f"{arch:<12} {order:<7} {dialect.name:<12} {len(found):>5} differences {seconds:6.1f} s\n")
            sys.stdout.write("".join(f"    {one}\n" for one in found[:SHOWN]))
            sys.stdout.flush()
    never = sorted(feature.name for feature in Feature if not seen[feature])
    sys.stdout.write(f"features never drawn: {', '.join(never) or 'none'}\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
