"""The tables and examples of the papers, computed again."""
