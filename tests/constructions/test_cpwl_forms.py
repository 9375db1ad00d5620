"""Differences of maxima, rational maps and lattice forms."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax.constructions.compilers.functions.tropical_forms import (
    DifferenceOfMaxima,
    LatticeForm,
    maxout_from_difference,
    maxout_from_lattice,
    maxout_from_rational_map,
)
from hardmax.errors import ArgumentError, DtypeError, EmptyInputError, ShapeMismatchError
from hardmax.exact.forms import AffineForms
from hardmax.geometry.domains import Box
from hardmax.tropical.polynomials import TropicalPolynomial
from hardmax.tropical.rational_maps import TropicalRationalMap
from hardmax.tropical.relu_maps import relu_network_map
from tests.reference.networks import dot
from tests.reference.piecewise_linear import network_value, within
from tests.strategies import SMALL, WILD, matrices

SQUARE = Box([-4, -4], [4, 4])
POINTS = st.lists(st.tuples(SMALL, SMALL), min_size=1, max_size=4)


def scores(forms, x):
    pairs = zip(forms.slopes.tolist(), forms.offsets.tolist(), strict=True)
    return [dot(a, x) + Fraction(c) for a, c in pairs]


def forms(rows):
    return AffineForms(rows[:, :-1], rows[:, -1])


@given(matrices(st.integers(1, 5), 3), matrices(st.integers(1, 5), 3, WILD), POINTS)
def test_a_difference_is_stored_without_rounding(above, below, points):
    difference = DifferenceOfMaxima(forms(above), forms(below))
    form = maxout_from_difference(difference, SQUARE)
    assert form.rounding.tolist() == [0.0]
    for x in points:
        wanted = max(scores(difference.above, x)) - max(scores(difference.below, x))
        assert network_value(form.network, x) == [wanted]


@given(
    matrices(st.integers(1, 6), 3),
    st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=4), min_size=1, max_size=4),
    POINTS,
)
def test_a_lattice_form_is_stored_without_rounding(rows, sets, points):
    sets = [[i % len(rows) for i in chosen] for chosen in sets]
    form = maxout_from_lattice(LatticeForm(forms(rows), sets), SQUARE)
    for x in points:
        values = scores(forms(rows), x)
        wanted = max(min(values[i] for i in chosen) for chosen in sets)
        assert network_value(form.network, x) == [wanted]


def test_a_lattice_form_and_its_difference_agree():
    """The median of three numbers, as max of min and as a difference of maxima."""
    x, y, zero = np.array([[1.0, 0], [0, 1.0], [0, 0]])
    lattice = LatticeForm(AffineForms([x, y, zero], np.zeros(3)), [[0, 1], [0, 2], [1, 2]])
    # The median is the sum of all minus the largest minus the smallest.
    pairs = AffineForms([x + y, x, y], np.zeros(3))
    difference = DifferenceOfMaxima(pairs, AffineForms([x, y, zero], np.zeros(3)))
    points = np.random.default_rng(0).normal(size=(50, 2))
    np.testing.assert_allclose(
        maxout_from_lattice(lattice, SQUARE).network(points),
        maxout_from_difference(difference, SQUARE).network(points),
        atol=1e-15,
    )


def test_polynomials_with_terms_beyond_float64_are_rounded_within_the_bound():
    tiny = TropicalPolynomial([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0])
    product = tiny * TropicalPolynomial([[2.0**-60, 0.0], [0.0, 2.0**-70]], [0.0, 1.0])
    form = maxout_from_difference(DifferenceOfMaxima(product), SQUARE)
    assert form.rounding[0] > 0.0
    for x in np.random.default_rng(1).uniform(-4, 4, (20, 2)).tolist():
        wanted = product.exact_values(x)
        assert within(form.network, form.rounding, x, [wanted])


def test_a_rational_map_of_a_relu_network_keeps_its_values():
    rng = np.random.default_rng(2)
    weights = [rng.integers(-3, 4, (2, 3)).astype(float), rng.integers(-3, 4, (3, 2)) * 0.5]
    rational = relu_network_map(weights, [rng.normal(size=3), rng.normal(size=2)])
    form = maxout_from_rational_map(rational, SQUARE)
    assert form.network.dim_out == 2
    for x in rng.uniform(-4, 4, (20, 2)).tolist():
        assert within(form.network, form.rounding, x, rational.exact_values(x).tolist())


def test_an_affine_map_needs_no_denominator():
    affine = TropicalRationalMap.from_affine([[1.0, 2.0], [3.0, 4.0]], [0.5, -0.5])
    form = maxout_from_rational_map(affine, SQUARE)
    assert form.network.ranks == [[1, 1]]
    assert form.network([[1.0, 1.0]]).tolist() == [[4.5, 5.5]]


def test_a_denominator_of_one_term_joins_the_numerators():
    numerator = TropicalPolynomial([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.5])
    rational = TropicalRationalMap((numerator,), TropicalPolynomial([[2.0, 1.0]], [0.25]))
    form = maxout_from_rational_map(rational, SQUARE)
    assert form.network.ranks == [[2]]
    for x in ([0.0, 0.0], [1.0, -2.0], [3.0, 3.5]):
        assert network_value(form.network, x) == rational.exact_values(x).tolist()


def test_bad_forms_are_refused_by_name():
    line, plane = AffineForms([[1.0]], [0.0]), AffineForms([[1.0, 0.0]], [0.0])
    with pytest.raises(ShapeMismatchError, match="`below`"):
        DifferenceOfMaxima(line, plane)
    with pytest.raises(DtypeError, match="`above`"):
        DifferenceOfMaxima([[1.0]])
    with pytest.raises(DtypeError, match="`forms`"):
        LatticeForm([[1.0]], [[0]])
    with pytest.raises(EmptyInputError, match="`sets`"):
        LatticeForm(line, [])
    with pytest.raises(EmptyInputError, match=r"`sets\[1\]`"):
        LatticeForm(line, [[0], []])
    with pytest.raises(ArgumentError, match=r"`sets\[0\]` must be at most 0"):
        LatticeForm(line, [[1]])
    with pytest.raises(ShapeMismatchError, match="`box`"):
        maxout_from_difference(DifferenceOfMaxima(plane), Box([0], [1]))
