"""Norms of rows at all magnitudes, against fractions."""

from fractions import Fraction

import numpy as np
import pytest

from hardmax.exact.norms import enclose_norms
from tests.magnitudes import IDS, MAGNITUDES, wild_numbers


@pytest.mark.parametrize("magnitude", MAGNITUDES, ids=IDS)
def test_norms_lie_between_their_bounds(magnitude):
    rows = wild_numbers(np.random.default_rng(5), (200, 6), magnitude)
    rows[0] = 0.0
    lows, highs = enclose_norms(rows)
    for row, low, high in zip(rows.tolist(), lows.tolist(), highs.tolist(), strict=True):
        square = sum(Fraction(x) ** 2 for x in row)
        assert Fraction(low) ** 2 <= square
        assert high == np.inf or square <= Fraction(high) ** 2
        assert high == np.inf or high <= low * (1.0 + 2.0**-40) + 2.0**-1071
        assert high < np.inf or square >= (1 - Fraction(1, 2**40)) * Fraction(2) ** 2048
        assert (low == 0.0) == (high == 0.0) or high <= 2.0**-1072
        assert (high == 0.0) == (square == 0)


def test_nothing_is_known_about_the_norm_of_what_is_not_finite():
    lows, highs = enclose_norms(np.array([[np.inf, 1.0], [np.nan, 1.0]]))
    assert lows.tolist() == [0.0, 0.0]
    assert highs.tolist() == [np.inf, np.inf]
