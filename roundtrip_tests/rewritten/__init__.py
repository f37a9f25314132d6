"""Faults at every system call by which a command changes files: `python -m roundtrip_tests.faults`."""
