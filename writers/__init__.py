"""Write results to files. lief is imported only here, and only when a file is written."""
