"""Assembler text with `.cfi_*` directives."""
