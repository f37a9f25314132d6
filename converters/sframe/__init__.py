"""SFrame sections, versions 1 to 3."""
