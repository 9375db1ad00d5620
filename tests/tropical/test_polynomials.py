"""Tropical polynomials against their definition, and the laws of their algebra."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hardmax.errors import (
    ArgumentError,
    DtypeError,
    EmptyInputError,
    NonFiniteError,
    ShapeMismatchError,
    SizeLimitError,
)
from hardmax.exact.dyadic import ScaledIntegers
from hardmax.tropical.polynomials import TropicalPolynomial
from tests.reference import polynomials as reference
from tests.strategies import SMALL, WILD
from tests.sweeps import examples


@st.composite
def polynomials(draw, dim=None, elements=SMALL, max_terms=6):
    dim = draw(st.integers(1, 3)) if dim is None else dim
    m = draw(st.integers(1, max_terms))
    slopes = draw(arrays(np.float64, (m, dim), elements=elements))
    return TropicalPolynomial(slopes, draw(arrays(np.float64, (m,), elements=elements)))


@st.composite
def several(draw, count, elements=SMALL, max_terms=5):
    """Draw polynomials on the same space, and points of it."""
    dim = draw(st.integers(1, 3))
    drawn = [draw(polynomials(dim, elements, max_terms)) for _ in range(count)]
    n_points = draw(st.integers(0, 5))
    return *drawn, draw(arrays(np.float64, (n_points, dim), elements=elements))


def terms(P):
    return reference.terms_of(P.slopes, P.offsets)


def x1(*coefficients):
    """A polynomial in one variable from pairs (slope, offset)."""
    return TropicalPolynomial([[a] for a, _ in coefficients], [c for _, c in coefficients])


# --- evaluation and winners -----------------------------------------------------------------


@given(several(1))
def test_values_match_the_definition_where_nothing_rounds(drawn):
    P, points = drawn
    assert P(points).tolist() == [reference.value(terms(P), x) for x in points]


@given(several(1, WILD))
@example((x1((1e300, 0.0), (-1e300, 0.0)), np.array([[1e300], [0.0], [-1e-300]])))
@example((x1((5e-324, 1.0), (0.0, 1.0)), np.array([[1e300], [1e-300]])))
def test_values_and_winners_match_the_definition_at_every_scale(drawn):
    P, points = drawn
    exact = [reference.value(terms(P), x) for x in points]
    assert P.exact_values(points).tolist() == exact
    winning = [reference.attaining(terms(P), x) for x in points]
    assert P.winning_terms(points).tolist() == winning
    assert P.winners(points).tolist() == [row.index(True) for row in winning]
    sizes = np.array(
        [
            max(reference.term_values([(tuple(map(abs, a)), abs(c)) for a, c in terms(P)], abs(x)))
            for x in points
        ],
        dtype=object,
    )
    for got, true, size in zip(P(points), exact, sizes, strict=True):
        if np.isfinite(got):
            assert abs(Fraction(got) - true) <= 2 * (P.dim + 4) * size / 2**53 + Fraction(1, 2**40)
        else:
            assert abs(true) > 1e307


def test_an_overflow_inside_a_score_does_not_spoil_the_value():
    P = TropicalPolynomial([[1e300, -1e300], [0.0, 0.0]], [0.0, 7.0])
    assert P([[1e300, 1e300], [1e300, 0.0], [-1e300, 1e300]]).tolist() == [7.0, np.inf, 7.0]
    Q = TropicalPolynomial([[1e200, -1e200, 1.0]], [0.0])
    assert Q([1e200, 1e200, 3.0]) == 3.0
    assert TropicalPolynomial([[0.0, 0.0]], [1.0])([1.5e308, 1.5e308]) == 1.0


def test_a_tie_that_floats_cannot_see_is_decided():
    third = 1 / 3
    P = x1((third, 0.0), (0.0, 0.5))
    just_below = np.nextafter(1.5, 0)
    # fl(1/3) < 1/3, so at 1.5 the constant still wins, although the products round to equality.
    assert third * 1.5 == 0.5
    assert P.winning_terms([[1.5], [just_below], [np.nextafter(1.5, 2)]]).tolist() == [
        [False, True],
        [False, True],
        [True, False],
    ]


def test_scores_in_the_wrong_order_are_put_right():
    """Both scores round, in opposite directions, and change places."""
    P = TropicalPolynomial([[1, 0], [1, 2.0**-53]], [2.0**-53 + 2.0**-80, 2.0**-79])
    assert 1 + P.offsets[0] > 1 + 2.0**-53 + P.offsets[1]
    assert P.winners([1.0, 1.0]) == 1
    # The same by underflow: 0.75 of the smallest number rounds up, 0.4 of it down to nothing.
    tiny = 5e-324
    Q = TropicalPolynomial([[tiny, 0, 0], [0, tiny, tiny]], [0, 0])
    assert tiny * 0.75 > tiny * 0.4 + tiny * 0.4
    assert Q.winners([0.75, 0.4, 0.4]) == 1


@given(several(1))
def test_the_hypersurface_is_where_two_different_forms_win(drawn):
    P, points = drawn
    expected = [
        len({t for t, wins in zip(terms(P), reference.attaining(terms(P), x), strict=True) if wins})
        >= 2
        for x in points
    ]
    assert P.on_hypersurface(points).tolist() == expected


def test_one_point_gives_scalars():
    P = TropicalPolynomial([[1, 0], [0, 1]], [0, 0])
    assert isinstance(P([1.0, 2.0]), float)
    assert P.winners([1.0, 2.0]) == 1
    assert P.on_hypersurface([1.0, 1.0]) is True
    assert P.winning_terms([1.0, 1.0]).tolist() == [True, True]
    assert P.exact_values([1, 2]) == 2


def test_many_points_are_evaluated_in_pieces():
    rng = np.random.default_rng(0)
    P = TropicalPolynomial(rng.normal(size=(3000, 2)), rng.normal(size=3000))
    points = rng.normal(size=(3000, 2))
    scores = points @ P.slopes.T + P.offsets
    np.testing.assert_allclose(P(points), scores.max(axis=1), rtol=1e-14)
    assert (P.winners(points) == scores.argmax(axis=1)).all()


# --- the semiring -----------------------------------------------------------------------------


@given(several(3))
def test_sum_and_product_obey_the_semiring_laws_as_functions(drawn):
    P, Q, R, _ = drawn
    one = TropicalPolynomial.constant(0, P.dim)
    assert (P + Q).equals(Q + P)
    assert ((P + Q) + R).equals(P + (Q + R))
    assert (P + P).equals(P)
    assert (P * Q).equals(Q * P)
    assert ((P * Q) * R).equals(P * (Q * R))
    assert ((P + Q) * R).equals(P * R + Q * R)
    assert (P * one).equals(P)


@examples(30)
@given(several(3, WILD, max_terms=3))
def test_the_laws_hold_exactly_where_floats_would_round(drawn):
    P, Q, R, _ = drawn
    P, Q, R = (p.scaled(1, -4) for p in (P, Q, R))  # Room for the sums of three.
    assert ((P * Q) * R).equals(P * (Q * R))
    assert ((P + Q) * R).equals(P * R + Q * R)
    assert (P * P).equals(P**2)


@given(several(2))
def test_evaluation_is_a_homomorphism(drawn):
    P, Q, points = drawn
    np.testing.assert_array_equal((P + Q)(points), np.maximum(P(points), Q(points)))
    np.testing.assert_array_equal((P * Q)(points), P(points) + Q(points))
    np.testing.assert_array_equal((P**3)(points), 3 * P(points))
    np.testing.assert_array_equal((P**0.5)(points), P(points) / 2)


@given(several(1, WILD), WILD)
def test_a_number_is_a_constant_polynomial(drawn, c):
    P, points = drawn
    values = P.exact_values(points)
    assert (P + c).exact_values(points).tolist() == [max(v, Fraction(c)) for v in values]
    assert (c + P).equals(P + c)
    assert (np.float64(c) + P).equals(P + c)
    small = P.scaled(1, -1)
    assert (0.5 * c * small).exact_values(points).tolist() == [
        v / 2 + Fraction(0.5 * c) for v in values
    ]
    assert (np.float64(0.5 * c) * small).equals(small * (0.5 * c))


@given(polynomials())
def test_a_power_is_the_repeated_product(P):
    assert (P**0).equals(TropicalPolynomial.constant(0, P.dim))
    assert (P**1).equals(P)
    assert (P**2).equals(P * P)
    assert (P**3).equals(P * P * P)
    assert (P**1.5 * P**0.5).equals(P**2)


def test_like_terms_are_collected():
    P = x1((1, 0), (0, 0))
    assert sorted((P * P).slopes.ravel().tolist()) == [0.0, 1.0, 2.0]
    assert (x1((1, 0)) + x1((1, 5))).offsets.tolist() == [5.0]
    assert (P**0).n_terms == 1


def test_products_keep_what_float64_cannot():
    tenth, tiny = TropicalPolynomial([[0.1]], [0.1]), TropicalPolynomial([[0.0]], [5e-324])
    product = tenth * tiny
    assert not product.fits_float64
    assert product.offsets.tolist() == [0.1]
    assert product.exact_values([0.0]) == Fraction(0.1) + Fraction(5e-324)
    assert not product.equals(tenth)
    assert product.rounded().equals(tenth)
    assert product.rounded().fits_float64
    assert (product * TropicalPolynomial([[0.0]], [-5e-324])).fits_float64
    with pytest.raises(ArgumentError, match="do not fit float64"):
        product.forms


@pytest.mark.parametrize("bits", [1, 52, 53, 60, 70, 200])
def test_the_flag_tells_when_float64_is_too_short(bits):
    product = TropicalPolynomial([[0.0]], [1.0]) * 2.0**-bits
    assert product.fits_float64 == (bits <= 52)
    assert product.offsets[0] == 1.0 + 2.0**-bits


# --- substitution -----------------------------------------------------------------------------


@given(polynomials(2), arrays(np.float64, (3, 2), elements=SMALL), st.lists(SMALL, min_size=2))
def test_substitution_is_composition(P, weight, rest):
    bias = np.array(rest[:2])
    points = np.arange(12.0).reshape(4, 3) - 5
    composed = P.substitute(weight, bias)
    np.testing.assert_array_equal(composed(points), P(points @ weight + bias))


@examples(30)
@given(polynomials(2, st.floats(-1e50, 1e50)), arrays(np.float64, (1, 2), elements=WILD))
def test_substitution_does_not_round(P, weight):
    weight = weight * 1e-60
    composed = P.substitute(weight)
    assert composed.exact_values([2.0]) == reference.value(
        terms(P), [2 * Fraction(float(w)) for w in weight[0]]
    )


@given(several(2), arrays(np.float64, (2, 3), elements=SMALL))
def test_substitution_respects_the_operations(drawn, weight):
    P, Q, _ = drawn
    weight = weight[:, : P.dim]
    assert (P * Q).substitute(weight).equals(P.substitute(weight) * Q.substitute(weight))
    assert (P + Q).substitute(weight).equals(P.substitute(weight) + Q.substitute(weight))


# --- active terms -----------------------------------------------------------------------------


@given(polynomials(1, max_terms=8))
def test_active_terms_in_one_variable_match_the_definition(P):
    assert P.active_terms().tolist() == reference.active(terms(P))


@given(polynomials(1, WILD))
def test_active_terms_in_one_variable_match_the_definition_at_every_scale(P):
    assert P.active_terms().tolist() == reference.active(terms(P))


@examples(40)
@given(polynomials(2, st.integers(-2, 2).map(float), max_terms=6))
@example(TropicalPolynomial([[0, 0], [1, 1], [2, 2], [0, 0]], [0, 0, 0, 0]))
@example(TropicalPolynomial([[0, 0], [2, 0], [0, 2], [2, 2], [1, 1]], [0, 0, 0, 0, 0]))
def test_active_terms_in_two_variables_match_the_definition(P):
    assert P.active_terms().tolist() == reference.active(terms(P))


@examples(30)
@given(polynomials(2, WILD, max_terms=4))
def test_active_terms_in_two_variables_match_the_definition_at_every_scale(P):
    assert P.active_terms().tolist() == reference.active(terms(P))


@pytest.mark.parametrize("shift", [-1e-300, 0.0, 1e-300])
def test_a_term_that_only_touches_is_not_active(shift):
    P = TropicalPolynomial([[1, 0], [-1, 0], [0, 1], [0, -1], [0, 0]], [0, 0, 0, 0, shift])
    assert P.active_terms().tolist() == [True, True, True, True, shift > 0]


@given(several(1))
def test_pruning_changes_no_value_and_happens_once(drawn):
    P, points = drawn
    pruned = P.prune()
    assert pruned.active_terms().all()
    assert pruned.n_terms == P.active_terms().sum()
    assert pruned.equals(P)
    np.testing.assert_array_equal(pruned(points), P(points))


@given(several(1))
def test_a_monomial_factor_moves_no_wall(drawn):
    P, points = drawn
    monomial = TropicalPolynomial([[3.0, -1.0, 2.0][: P.dim]], [5.0])
    slopes, offsets = P.slopes + monomial.slopes, P.offsets + 5.0
    shifted = TropicalPolynomial(slopes, offsets)
    assert shifted.active_terms().tolist() == P.active_terms().tolist()
    assert shifted.winning_terms(points).tolist() == P.winning_terms(points).tolist()
    assert shifted.equals(P * monomial)


@given(polynomials(max_terms=8), st.randoms(use_true_random=False))
def test_the_order_of_the_terms_does_not_matter(P, random):
    order = list(range(P.n_terms))
    random.shuffle(order)
    Q = TropicalPolynomial(P.slopes[order], P.offsets[order])
    assert Q.equals(P)
    assert Q.active_terms().sum() == P.active_terms().sum()


def test_equality_sees_the_last_bit():
    P = TropicalPolynomial([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0])
    Q = TropicalPolynomial([[1.0, 0.0], [0.0, 1.0]], [0.0, 5e-324])
    assert not P.equals(Q)
    assert P.equals(P + x1((0, -1)).substitute(np.zeros((2, 1)))) is False
    assert P.equals(P + TropicalPolynomial([[0.5, 0.5]], [0.0]))


@examples(30)
@given(polynomials(3, max_terms=9))
def test_bias_free_active_terms_are_the_vertices_of_the_newton_polytope(P):
    P = TropicalPolynomial(P.slopes, np.zeros(P.n_terms))
    vertices = {tuple(v) for v in P.newton_polytope().vertices.tolist()}
    assert {tuple(a) for a in P.prune().slopes.tolist()} == vertices


# --- Newton polytopes and degrees ----------------------------------------------------------------


@examples(30)
@given(several(2, max_terms=4))
def test_the_newton_polytope_of_a_product_is_the_minkowski_sum(drawn):
    P, Q, _ = drawn
    sums = (P.slopes[:, None, :] + Q.slopes[None, :, :]).reshape(-1, P.dim)
    product = {tuple(v) for v in (P * Q).newton_polytope().vertices.tolist()}
    summed = TropicalPolynomial(sums, np.zeros(len(sums))).newton_polytope().vertices
    assert product == {tuple(v) for v in summed.tolist()}
    assert (P * Q).degree == P.degree + Q.degree
    assert (P + Q).degree == max(P.degree, Q.degree)


def test_the_lifted_newton_polytope_has_the_offsets_as_last_coordinate():
    P = x1((0, 0), (1, 2), (2, 0), (1, -1))
    assert sorted(P.newton_polytope().vertices.ravel().tolist()) == [0.0, 2.0]
    lifted = sorted(P.newton_polytope(lifted=True).vertices.tolist())
    assert lifted == [[0.0, 0.0], [1.0, -1.0], [1.0, 2.0], [2.0, 0.0]]


def test_the_newton_polytope_of_rounded_coefficients_is_still_exact():
    tiny = TropicalPolynomial([[2.0**-80]], [0.0])
    P = TropicalPolynomial([[1.0], [0.0]], [0.0, 0.0]) * tiny
    low, high = sorted(Fraction(v[0]) for v in P.newton_polytope().exact_vertices)
    assert (low, high) == (Fraction(1, 2**80), 1 + Fraction(1, 2**80))


# --- printing -----------------------------------------------------------------------------------


def test_text_reads_like_the_formula():
    P = TropicalPolynomial([[2, 0], [0, -1], [0, 0], [1.5, -0.25]], [1, 0, 0, -3])
    assert str(P) == "max(2x + 1, -y, 0, 1.5x - 0.25y - 3)"
    assert str(TropicalPolynomial.constant(0, 2)) == "0"
    assert str(TropicalPolynomial([[0, 0, 0, 1]], [0])) == "x4"
    assert str(x1(*((k, -k * k) for k in range(20)))).endswith(", ... 8 more)")


def test_repr_builds_the_same_polynomial():
    P = TropicalPolynomial([[2, 0.1], [0, -1]], [1, 1e-300])
    assert eval(repr(P)).equals(P)
    assert repr(TropicalPolynomial(np.eye(20), np.zeros(20))) == (
        "TropicalPolynomial(<20 terms, 20 variables>)"
    )


def test_latex_has_both_notations():
    P = TropicalPolynomial([[2, 0], [1, -1], [0, 0]], [1, 0, -3])
    assert P._repr_latex_() == r"$\max\{2 x_{1} + 1,\; x_{1} - x_{2},\; -3\}$"
    assert P.to_latex(tropical=True) == (
        r"1 \odot x_{1}^{\odot 2} \oplus x_{1} \odot x_{2}^{\odot (-1)} \oplus (-3)"
    )
    assert x1((1, 0)).to_latex() == "x"
    assert r"\cdots" in TropicalPolynomial(np.eye(20), np.zeros(20)).to_latex()


# --- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("slopes", "offsets", "error", "message"),
    [
        (np.empty((0, 2)), [], EmptyInputError, "`slopes` must have n_terms >= 1"),
        (np.empty((2, 0)), [0, 0], EmptyInputError, "`slopes` must have dim >= 1"),
        ([[1.0]], [0.0, 1.0], ShapeMismatchError, "`offsets` must have shape"),
        ([1.0, 2.0], [0.0, 1.0], ShapeMismatchError, "`slopes` must have shape"),
        ([[np.nan]], [0.0], NonFiniteError, "`slopes` must not hold NaN"),
        ([[0.0]], [-np.inf], NonFiniteError, "`offsets` must not hold -inf"),
        ([["a"]], [0.0], DtypeError, "`slopes` must hold real numbers"),
        (np.array([[1]], dtype=object), [0.0], DtypeError, "`slopes` must hold real numbers"),
    ],
)
def test_bad_coefficients_are_refused(slopes, offsets, error, message):
    with pytest.raises(error, match=message):
        TropicalPolynomial(slopes, offsets)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda P: P([1.0]), ShapeMismatchError, r"`x` must have shape \(2,\)"),
        (lambda P: P(np.zeros((1, 1, 2))), ShapeMismatchError, "`x` must have shape"),
        (lambda P: P([np.nan, 0.0]), NonFiniteError, "`x` must not hold NaN"),
        (lambda P: P.winners([np.inf, 0.0]), NonFiniteError, "`x` must not hold inf"),
        (lambda P: P + x1((1, 0)), ShapeMismatchError, "same number of variables"),
        (lambda P: P * x1((1, 0)), ShapeMismatchError, "same number of variables"),
        (lambda P: P.equals(x1((1, 0))), ShapeMismatchError, "same number of variables"),
        (lambda P: P.equals(3), DtypeError, "`other` must be a TropicalPolynomial"),
        (lambda P: P + "x", DtypeError, "`other`"),
        (lambda P: P * [1.0, 2.0], ShapeMismatchError, "`other` must be one number"),
        (lambda P: P * float("nan"), NonFiniteError, "`other`"),
        (lambda P: P**-1, ArgumentError, "`exponent` must be at least 0"),
        (lambda P: P.scaled(-1), ArgumentError, "`factor` must be at least 0"),
        (lambda P: P.substitute([[1.0]]), ShapeMismatchError, "`weight` must have shape"),
        (lambda P: P.substitute(np.eye(2), [1.0]), ShapeMismatchError, "`bias` must have shape"),
        (lambda P: P.times(P, max_terms=3), SizeLimitError, "2 x 2 = 4 terms"),
        (lambda P: P.times(P, max_terms=0), ArgumentError, "`max_terms` must be at least 1"),
        (lambda P: P**1e308 * P**1e308, NonFiniteError, "exceeds the range of float64"),
    ],
)
def test_bad_operands_are_refused(call, error, message):
    P = TropicalPolynomial([[1, 0], [0, 1]], [0, 0])
    with pytest.raises(error, match=message):
        call(P)


def test_an_empty_batch_has_no_values():
    P = x1((1, 0), (0, 0))
    assert P(np.empty((0, 1))).shape == (0,)
    assert P.on_hypersurface(np.empty((0, 1))).shape == (0,)


def test_exact_coefficients_of_any_size_are_reduced():
    rows = np.array([[2**200, 0], [0, 2**199]], dtype=object)
    P = TropicalPolynomial.from_coefficients(ScaledIntegers(rows, -199))
    assert P.slopes.tolist() == [[2.0], [0.0]]
    assert P.coefficients.integers.max() == 2
    assert P.fits_float64
