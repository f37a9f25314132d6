"""Results as pages for a browser: the frame of every page, and the report on files."""
