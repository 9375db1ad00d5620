"""Which cells share a part of a wall."""
