"""Heads with other attention rules."""
