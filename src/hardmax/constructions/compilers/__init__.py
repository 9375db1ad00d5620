"""Transformers that compute a given network or function."""
