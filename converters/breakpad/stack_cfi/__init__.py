"""STACK CFI records."""
