"""Common parts of DWARF sections: contributions and expressions."""
