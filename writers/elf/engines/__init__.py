"""Make space for a section in a file: each engine has its own way, and all return a plan."""
