"""Cells that persist at a given temperature, and the share of each that does."""
