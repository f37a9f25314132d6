"""Readers held against sections with known answers."""
