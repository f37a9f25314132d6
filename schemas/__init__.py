"""What the bytes mean: every format once, as data. construct is imported here and nowhere else.

`parse` and `build` of a record live in `engine` (construct; slow, exact). The declarations themselves
(`sframe`, `cfi`, `eh_frame_hdr`, `pointers`) import nothing heavy, so that a command which needs
only a constant or a dtype pays for no more.
"""
