"""Trained transformers from files: weights in a common form, and a forward pass in NumPy."""
