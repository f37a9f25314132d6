"""Call frame information: `.eh_frame`, `.debug_frame` and `.eh_frame_hdr`."""
