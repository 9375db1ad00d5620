"""Cells of domains of dimension 3 to 7: polytopes with their vertices and facets."""
