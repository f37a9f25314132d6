"""Line number programs as in readelf's dumps, and as JSON."""
