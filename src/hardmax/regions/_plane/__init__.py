"""Cells of planar domains: polygons with the walls of their edges."""
