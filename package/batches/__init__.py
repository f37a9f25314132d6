"""Many files at once: where they come from, what was done with them, and where results go."""
