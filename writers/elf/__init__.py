"""ELF files with sections added, replaced and removed."""
