"""Data sets of `unwindkit export`."""
