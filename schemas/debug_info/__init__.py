"""`.debug_info`: the entries that describe code (DWARF5 3.3), and the lists of their address ranges."""
