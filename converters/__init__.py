"""The unwind table, the architectures, and the conversions between the table and each format."""
