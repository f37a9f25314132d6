"""ELF files as input: sections, symbols, relocations; no knowledge of unwind formats."""
