"""The peer pyelftools as a program: decodes every entry of a file's `.eh_frame` and prints how many rows it has."""

from __future__ import annotations

import sys

from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile


def main(path: str) -> None:
    """Decode all of it, as a reader of the rows has to."""
    with open(path, "rb") as file:
        entries = ELFFile(file).get_dwarf_info(relocate_dwarf_sections=False).EH_CFI_entries()
        print(sum(len(entry.get_decoded().table) for entry in entries if isinstance(entry, FDE)))


if __name__ == "__main__":
    main(sys.argv[1])
