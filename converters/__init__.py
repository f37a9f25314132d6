"""The table, the architectures, and every translation to and from the table."""
