"""Dump call frame information as text, as in readelf, and as JSON."""
