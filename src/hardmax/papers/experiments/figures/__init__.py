"""The figures of the papers, computed again."""
