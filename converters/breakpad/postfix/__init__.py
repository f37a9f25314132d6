"""Breakpad's postfix expressions."""
