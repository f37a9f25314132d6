"""Files with the state of a process: ELF core files and minidumps."""
