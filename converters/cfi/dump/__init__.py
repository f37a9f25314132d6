"""Call frame information as readelf prints it, and as JSON."""
