"""The grid of an array, compiled, against the bits of its entries."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hardmax._kernels.grids import grid_exponent
from hardmax.algebra.exact.dyadic import lowest_bits
from tests.strategies import WILD


@given(st.lists(st.one_of(WILD, st.integers(-8, 8).map(float)), max_size=6))
def test_the_grid_is_that_of_the_finest_entry(entries):
    values = np.array(entries, dtype=float)
    assert grid_exponent(values, 64) == min(int(lowest_bits(values).min(initial=64)), 64)


def test_zeros_lie_on_every_grid():
    assert grid_exponent(np.zeros(3), 17) == 17
    assert grid_exponent(np.array([0.0, 5e-324]), 17) == -1074
