"""Breakpad symbol files: their records, the values in them, whole files, and the rules between records."""
