"""Results into files. lief is imported here and nowhere else, and only when a file is written."""
