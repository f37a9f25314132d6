"""Line number programs: `.debug_line`."""
