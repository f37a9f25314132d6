"""Add, replace and remove sections of ELF files."""
