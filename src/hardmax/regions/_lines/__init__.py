"""Cells along a line."""
