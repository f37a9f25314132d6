"""Files of other projects' tests, many of them malformed, and every command on each of them."""
