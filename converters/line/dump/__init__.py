"""Line number programs as readelf prints them, and as JSON."""
