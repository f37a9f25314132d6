"""Cases of `.eh_frame` and `.debug_frame`: what they mean, and their bytes."""
