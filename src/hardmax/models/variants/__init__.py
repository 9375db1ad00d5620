"""Heads that attend in other ways."""
