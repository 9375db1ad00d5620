"""The figures and examples of the papers, recomputed; each has its own module."""
