"""The unwind table: its columns, look-ups in it, and operations on tables."""
