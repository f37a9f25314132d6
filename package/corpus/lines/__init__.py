"""Line number programs with known answers."""
