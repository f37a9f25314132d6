"""The unwind table: its columns, and what is asked and made of tables."""
