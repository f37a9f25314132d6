"""Functions and inlined functions, from the entries of `.debug_info`."""
