"""Attention heads and what is built from them."""
