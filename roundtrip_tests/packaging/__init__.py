"""Hooks of package builds (packaging/)."""
