"""Which cell a point lies in."""
