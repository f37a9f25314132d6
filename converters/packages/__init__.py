"""Files inside packages: Debian's, RPM's and Alpine's, tar and zip archives, and images of containers; in memory."""
