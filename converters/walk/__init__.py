"""Stack walking: the caller of a frame by the rules of a table, and backtraces."""
