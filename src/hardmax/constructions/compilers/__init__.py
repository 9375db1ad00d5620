"""Compilers: from a given network or function to a transformer that computes it."""
