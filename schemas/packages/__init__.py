"""Package formats: RPM's headers, cpio and tar archives."""
