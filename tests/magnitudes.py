"""Numbers at the ends of float64, where squares and products underflow and overflow."""

import numpy as np

MAGNITUDES = [2.0**-1074, 2.0**-540, 2.0**511, 2.0**1023]
IDS = ["2^-1074", "2^-540", "2^511", "2^1023"]


def wild_numbers(rng, shape, magnitude):
    """Draw small numbers times a magnitude; some are of size 1, or of another magnitude, or 0."""
    size = rng.choice([magnitude, 1.0], shape, p=[0.7, 0.3])
    size = np.where(rng.random(shape) < 0.15, rng.choice(MAGNITUDES, shape), size)
    factor = np.where(size > 1e300, 1.0, rng.choice([1.0, 2.0, 3.0], shape))
    return size * factor * rng.choice([-1.0, 0.0, 1.0], shape, p=[0.4, 0.2, 0.4])


_POWERS_OF_TEN = np.array([float(f"1e{k}") for k in [*range(309), *range(-323, 0)]])


def power_of_ten(exponents):
    """Return the float nearest to each power; `10.0 ** exponents` depends on the machine."""
    return _POWERS_OF_TEN[exponents]
