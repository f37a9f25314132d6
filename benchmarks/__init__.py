"""Side by side with the peers: `python -m benchmarks` from the root of the clone (docs/benchmarks.md)."""
