"""Breakpad's postfix expressions: evaluated, and converted from and to DWARF expressions."""
