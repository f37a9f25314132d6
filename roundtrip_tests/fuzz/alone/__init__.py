"""Fuzz targets that are one kernel each, called with arrays as its callers make them."""
