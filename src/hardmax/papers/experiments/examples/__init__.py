"""The tables and examples of the papers, recomputed."""
