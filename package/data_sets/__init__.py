"""The data sets of `unwindkit export`: the unwind information of a module as tables for analysis."""
