"""Volumes, points inside, and largest balls of cells."""
