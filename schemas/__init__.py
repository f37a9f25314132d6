"""What the bytes mean: every format declared once, as data. construct is imported here and nowhere else.

`parse` and `build` of a record live in `engine` (construct; slow, exact). Of two modules with one name, `X` declares a
format and `X_sections` parses and builds whole sections of it. The declarations (`sframe`, `cfi`, `eh_frame_hdr`,
`pointers`) import nothing heavy, so that a command which needs only a constant or a dtype starts fast.
"""
