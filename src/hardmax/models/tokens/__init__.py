"""Transformers over a sequence of tokens, which attend to one another."""
