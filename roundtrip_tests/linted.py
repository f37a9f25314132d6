"""The findings of check in every ELF file of some folders, by code.

Strategy: `python -m roundtrip_tests.linted [--places N] [FOLDER ...]`, `/usr` by default. Prints the files, functions
and bytes of each code, and with `--places` the first N places of each code, in different files. A file that is refused
is counted with its reason; any other exception ends the run.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from unwindkit import FormatError, open_elf
from unwindkit.converters.files.lint import CODES, Code, LintedSection, lint


@dataclass(slots=True)
class Totals:
    """What all files have. Counters are by code; `reasons` why files are refused and sections unreadable."""

    files: int = 0
    sections: int = 0
    functions: int = 0
    files_with: Counter[Code] = field(default_factory=Counter)
    findings: Counter[Code] = field(default_factory=Counter)
    bytes: Counter[Code] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    places: dict[Code, list[str]] = field(default_factory=dict)


def elf_files(folder: str) -> Iterator[Path]:
    """Every ELF file once, although it has several names."""
    seen = set()
    for root, folders, names in os.walk(folder):
        folders.sort()
        for path in (Path(root, name) for name in sorted(names)):
            if path.is_symlink() or not path.is_file():
                continue
            status = path.stat()
            with path.open("rb") as file:
                if (status.st_dev, status.st_ino) not in seen and file.read(4) == b"\x7fELF":
                    yield path
            seen.add((status.st_dev, status.st_ino))


def count(path: Path, totals: Totals) -> None:
    """Add one file."""
    try:
        sections = lint(open_elf(path))
    except FormatError as error:
        totals.reasons[error.reason] += 1
        return
    totals.files += 1
    found: Counter[Code] = Counter()
    for section in sections:
        totals.sections += 1
        totals.functions += section.functions if section.name != ".eh_frame_hdr" else 0
        if section.reason:
            totals.reasons[section.reason] += 1
        found.update(_counted(path, section, totals))
    totals.findings.update(found)
    totals.files_with.update(set(found))


def _counted(path: Path, section: LintedSection, totals: Totals) -> Counter[Code]:
    """How many findings of each code a section has; adds their bytes and the first place of each."""
    found: Counter[Code] = Counter()
    for code in CODES.values():
        these = section.findings.select(section.findings.code == code)
        if len(these):
            found[code] = len(these)
            totals.bytes[code] += int(these.size.sum())
            one = these.record(0)
            place = f"{path} {section.name} address {one['address']:#x}, {one['size']} bytes, offset {one['offset']:#x}"
            totals.places.setdefault(code, []).append(place)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m roundtrip_tests.linted", description=__doc__)
    parser.add_argument("folder", nargs="*", default=["/usr"])
    parser.add_argument("--places", type=int, default=0)
    options = parser.parse_args()
    totals = Totals()
    for folder in options.folder:
        for path in elf_files(folder):
            count(path, totals)
    sys.stdout.write(f"{totals.files:,} files, {totals.sections:,} sections, {totals.functions:,} functions\n")
    for code in CODES.values():
        if totals.findings[code]:
            numbers = (totals.files_with[code], totals.findings[code], totals.bytes[code])
            sys.stdout.write(
                f"{code.text:18}{'fault' if code.is_fault else 'note':7}"
                + "".join(f"{one:12,}" for one in numbers)
                + "\n"
            )
            for place in totals.places[code][: options.places]:
                sys.stdout.write(f"    {place}\n")
    for reason, number in totals.reasons.most_common():
        sys.stdout.write(f"{number:8,} {reason}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
