"""Programs with random layouts, rewritten and run: `python -m roundtrip_tests.layouts`."""
