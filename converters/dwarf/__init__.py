"""What DWARF sections share: contributions and expressions."""
