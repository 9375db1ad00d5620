"""The cubes that networks are counted and compared on."""

import numpy as np

from hardmax.geometry.domains import Box


def unit_cube(dim: int) -> Box:
    """Return $[0, 1]^d$."""
    return Box(np.zeros(dim), np.ones(dim))


def centred_cube(dim: int) -> Box:
    """Return $[-1, 1]^d$."""
    return Box(-np.ones(dim), np.ones(dim))
