"""Benchmarks against the peers: run `python -m benchmarks` in the root of the clone (docs/benchmarks.md)."""
