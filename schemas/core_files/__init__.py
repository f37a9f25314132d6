"""ELF core files: the notes of processes and threads, and where their registers are."""
