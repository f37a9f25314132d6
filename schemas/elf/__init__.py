"""ELF files: headers and the names of their numbers (System V gABI)."""
