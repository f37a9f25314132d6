"""Everything that differs by machine: the architectures, their registers and relocations, as data."""
