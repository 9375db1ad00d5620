"""Transformers over a sequence of tokens that attend to one another."""
