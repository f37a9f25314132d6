"""Edit call frame information record by record: drop, replace, add, relocate and merge FDEs."""
