"""The figures of the papers, recomputed."""
