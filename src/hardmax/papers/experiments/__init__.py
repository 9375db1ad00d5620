"""The figures and examples of the papers, computed again: one module for each."""
