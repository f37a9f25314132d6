"""Macro information: `.debug_macinfo` and `.debug_macro`."""
