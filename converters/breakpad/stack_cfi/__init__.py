"""Breakpad's STACK CFI records: read, written and evaluated."""
