"""The cubes on which networks are counted and compared."""

import numpy as np

from hardmax.geometry.domains import Box, Segment


def unit_cube(dim: int) -> Box:
    """Return $[0, 1]^d$."""
    return Box(np.zeros(dim), np.ones(dim))


def centred_cube(dim: int) -> Box:
    """Return $[-1, 1]^d$."""
    return Box(-np.ones(dim), np.ones(dim))


def upper_edge() -> Segment:
    """Return the edge of the unit square where the second coordinate is 1."""
    return Segment(np.array([0.0, 1.0]), np.array([1.0, 1.0]))
