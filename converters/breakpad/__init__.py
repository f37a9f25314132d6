"""Breakpad symbol files."""
