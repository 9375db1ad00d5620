"""Numbers in limbs: sums and maps against fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hardmax.exact.limbs import LimbFormat, LimbMap, Term, round_sums, split_into_limbs
from tests.strategies import SMALL, WILD

REAL = st.floats(-8.0, 8.0)
ELEMENTS = st.sampled_from([SMALL, REAL, WILD])


def exact(parts):
    return [[sum(map(Fraction, entry)) for entry in row] for row in np.moveaxis(parts, 0, 2)]


def errors(limbs, wanted):
    """True errors over radii, at points that are not lost; they must be at most 1."""
    found = exact(limbs.parts)
    for i, row in enumerate(wanted):
        for j, value in enumerate(row):
            radius = limbs.radii[i, j]
            if np.isfinite(radius):
                error = abs(found[i][j] - value)
                assert error <= Fraction(radius)
                yield float(error / Fraction(radius)) if radius else 0.0


@st.composite
def vectors(draw, width=None):
    n, width = draw(st.integers(1, 3)), width or draw(st.integers(1, 4))
    return draw(arrays(np.float64, (n, width), elements=draw(ELEMENTS)))


@given(vectors(), st.integers(2, 6), st.integers(1, 5))
def test_limbs_are_the_sum_of_their_terms_within_the_radii(array, n_limbs, width):
    form = LimbFormat.for_width(n_limbs, width)
    terms = [array, array[::-1] * 2.0**-40, array * 3.0]
    wanted = [
        [sum(map(Fraction, same)) for same in zip(*rows, strict=True)]
        for rows in zip(*(t.tolist() for t in terms), strict=True)
    ]
    limbs = split_into_limbs(form, [Term(t.copy()) for t in terms], np.zeros(array.shape))
    list(errors(limbs, wanted))
    grids = 2.0 ** (limbs.exponent - form.bits * np.arange(1, n_limbs + 1))
    units = limbs.parts / grids[:, None, None]
    assert (units == np.round(units)).all()
    assert (np.abs(units) <= n_limbs * 2.0**form.bits).all()


@given(st.data(), st.integers(2, 6))
def test_maps_hold_within_the_radii(data, n_limbs):
    x = data.draw(vectors())
    elements = data.draw(ELEMENTS)
    n_out = data.draw(st.integers(1, 3))
    weight = data.draw(arrays(np.float64, (x.shape[1], n_out), elements=elements))
    bias = data.draw(arrays(np.float64, n_out, elements=elements))
    form = LimbFormat.for_width(n_limbs, x.shape[1])
    stream = split_into_limbs(form, [Term(x.copy())], np.zeros(x.shape))
    image = LimbMap(form, weight, bias)(stream)
    list(errors(image, affine(x, weight, bias)))


def affine(x, weight, bias):
    return [
        [
            sum((Fraction(a) * Fraction(w) for a, w in zip(row, column, strict=True)), Fraction(b))
            for column, b in zip(weight.T.tolist(), bias.tolist(), strict=True)
        ]
        for row in x.tolist()
    ]


@pytest.mark.parametrize("n_limbs", [2, 3, 4])
def test_radii_through_several_maps_cover_the_errors_and_are_not_idle(n_limbs):
    rng = np.random.default_rng(n_limbs)
    x = rng.normal(size=(40, 6))
    form = LimbFormat.for_width(n_limbs, 6)
    stream = split_into_limbs(form, [Term(x.copy())], np.zeros(x.shape))
    wanted = [[Fraction(a) for a in row] for row in x.tolist()]
    largest = []
    for _ in range(3):
        weight, bias = rng.normal(size=(6, 6)), rng.normal(size=6)
        stream = LimbMap(form, weight, bias)(stream)
        wanted = [
            [
                sum((a * Fraction(w) for a, w in zip(row, column, strict=True)), Fraction(b))
                for column, b in zip(weight.T.tolist(), bias.tolist(), strict=True)
            ]
            for row in wanted
        ]
        largest.append(max(errors(stream, wanted)))
    # Radii ten thousand times smaller would not hold.
    assert min(largest) > 1e-4


def test_wide_products_do_not_round():
    rng = np.random.default_rng(0)
    x, weight, bias = rng.normal(size=(4, 300)), rng.normal(size=(300, 2)), np.ones(2)
    form = LimbFormat.for_width(4, 300)
    stream = split_into_limbs(form, [Term(x.copy())], np.zeros(x.shape))
    image = LimbMap(form, weight, bias)(stream)
    assert image.radii.max() < 1e-16
    assert max(errors(image, affine(x, weight, bias))) <= 1.0


def test_short_numbers_are_exact():
    rng = np.random.default_rng(0)
    x, weight = rng.integers(-9, 10, (20, 5)) / 8, rng.integers(-5, 6, (5, 4)) / 4
    form = LimbFormat.for_width(3, 5)
    stream = split_into_limbs(form, [Term(x.copy())], np.zeros(x.shape))
    image = LimbMap(form, weight, np.full(4, 0.75))(stream)
    assert not image.radii.any()
    assert exact(image.parts) == affine(x, weight, np.full(4, 0.75))


@given(st.data())
def test_rounded_sums_are_right_relatively(data):
    form = LimbFormat(4, 20)
    x = data.draw(arrays(np.float64, (2, 3), elements=REAL))
    near = x * (1 + data.draw(st.integers(-3, 3)) * 2.0**-52)
    terms = [Term(x.copy()), Term(-near), Term(x * 2.0**-60)]
    limbs = split_into_limbs(form, terms, np.zeros(x.shape))
    for rounded, true in zip(
        round_sums(limbs.parts).ravel().tolist(),
        [v for row in exact(limbs.parts) for v in row],
        strict=True,
    ):
        assert abs(Fraction(rounded) - true) <= abs(true) * Fraction(1, 2**44)


def test_what_is_too_large_is_lost_and_says_so():
    form = LimbFormat.for_width(4, 2)
    huge = split_into_limbs(form, [Term(np.array([[1e200, 1.0]]))], np.zeros((1, 2)))
    assert np.isinf(huge.radii).all()
    assert np.isinf(LimbMap(form, np.eye(2), np.zeros(2))(huge).radii).all()
    small = split_into_limbs(form, [Term(np.ones((1, 2)))], np.zeros((1, 2)))
    assert np.isinf(LimbMap(form, np.full((2, 2), 1e200), np.zeros(2))(small).radii).all()
    assert np.isinf(LimbMap(form, np.eye(2), np.full(2, 1e200))(small).radii).all()
