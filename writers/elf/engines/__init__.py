"""How a place is made for a section: three engines, one plan."""
