"""Random numbers that are the same on every machine.

A normal number depends on the C library in its last bit, so it is rounded to a multiple of 2^-20.
Integers, uniform numbers and choices are computed with exact or correctly rounded operations.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np


class SteadyGenerator(np.random.Generator):
    """A generator whose normal numbers have at most 20 bits after the point."""

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        drawn = np.round(super().standard_normal(size) * 2.0**20) * 2.0**-20
        # The product and the sum are rounded separately, never by one fused instruction.
        scaled = scale * drawn
        return loc + scaled


def steady_rng(seed: Any = None) -> SteadyGenerator:
    """Return a generator like `numpy.random.default_rng(seed)`, with steady normal numbers."""
    return SteadyGenerator(np.random.PCG64(seed))


@contextmanager
def steady_generators() -> Iterator[None]:
    """Have `numpy.random.default_rng` return steady generators in this block."""
    with patch.object(np.random, "default_rng", steady_rng):
        yield
