"""Trained transformers from files: their weights in one shape, and a forward pass in NumPy."""
