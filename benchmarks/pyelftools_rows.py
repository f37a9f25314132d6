"""The peer pyelftools as a program: decodes every entry of a file's `.eh_frame` and prints how many rows it has."""

from __future__ import annotations

import sys

from elftools.common.exceptions import DWARFError
from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile


def main(path: str) -> None:
    """Decode all of it, as a reader of the rows has to."""
    rows = refused = 0
    with open(path, "rb") as file:
        dwarf = ELFFile(file).get_dwarf_info(relocate_dwarf_sections=False, follow_links=False)
        for entry in dwarf.EH_CFI_entries():
            if isinstance(entry, FDE):
                try:
                    rows += len(entry.get_decoded().table)
                except (DWARFError, ValueError):  # pyelftools 0.33 knows no DW_CFA_GNU_args_size, which libc has
                    refused += 1
    print(f"{rows} rows; {refused} FDEs not decoded")


if __name__ == "__main__":
    main(sys.argv[1])
