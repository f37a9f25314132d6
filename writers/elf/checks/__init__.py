"""Check files that were written, with pyelftools only: no code is shared with the writers."""
