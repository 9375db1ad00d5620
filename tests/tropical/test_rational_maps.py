"""Tropical rational maps: arithmetic as functions, equality, and their pieces."""

import itertools
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hardmax.errors import (
    ArgumentError,
    DtypeError,
    EmptyInputError,
    HardmaxError,
    NonFiniteError,
    ShapeMismatchError,
    SizeLimitError,
)
from hardmax.tropical.polynomials import TropicalPolynomial
from hardmax.tropical.rational_maps import TropicalRationalMap
from tests.reference import polynomials as reference
from tests.strategies import SMALL, WILD
from tests.sweeps import examples


@st.composite
def polynomials(draw, dim, elements=SMALL, max_terms=3):
    m = draw(st.integers(1, max_terms))
    slopes = draw(arrays(np.float64, (m, dim), elements=elements))
    return TropicalPolynomial(slopes, draw(arrays(np.float64, (m,), elements=elements)))


@st.composite
def maps(draw, count, dim_out=None, elements=SMALL):
    """Draw maps of the same shape, and points to compare them at."""
    dim_in = draw(st.integers(1, 2))
    dim_out = draw(st.integers(1, 2)) if dim_out is None else dim_out
    drawn = [
        TropicalRationalMap(
            [draw(polynomials(dim_in, elements)) for _ in range(dim_out)],
            draw(polynomials(dim_in, elements)),
        )
        for _ in range(count)
    ]
    return *drawn, draw(arrays(np.float64, (4, dim_in), elements=elements))


def x1(*coefficients):
    return TropicalPolynomial([[a] for a, _ in coefficients], [c for _, c in coefficients])


def exact(F, points):
    """Evaluate from the definition."""
    return np.array(
        [
            [
                reference.value(reference.terms_of(p.slopes, p.offsets), x)
                - reference.value(
                    reference.terms_of(F.denominator.slopes, F.denominator.offsets), x
                )
                for p in F.numerators
            ]
            for x in points
        ],
        dtype=object,
    )


# --- arithmetic -----------------------------------------------------------------------------


@given(maps(1))
def test_values_are_numerator_minus_denominator(drawn):
    F, points = drawn
    np.testing.assert_array_equal(F(points), exact(F, points).astype(float))
    assert F.exact_values(points).tolist() == exact(F, points).tolist()
    assert F(points[0]).tolist() == F(points)[0].tolist()
    assert F(np.empty((0, F.dim_in))).shape == (0, F.dim_out)


def test_a_difference_of_values_beyond_float64_is_found():
    F = TropicalRationalMap([x1((1e300, 2.0), (0, 0))], x1((1e300, 0.0), (0, 0)))
    assert F([[1e300], [0.0], [-1e300]]).tolist() == [[2.0], [2.0], [0.0]]
    assert F([1e300]).tolist() == [2.0]


@examples(30)
@given(maps(2))
def test_operators_act_on_values(drawn):
    F, G, points = drawn
    f, g = F(points), G(points)
    np.testing.assert_array_equal((F + G)(points), f + g)
    np.testing.assert_array_equal((F - G)(points), f - g)
    np.testing.assert_array_equal((-F)(points), -f)
    np.testing.assert_array_equal((-1.5 * F)(points), -1.5 * f)
    np.testing.assert_array_equal((F * np.float64(2))(points), 2 * f)
    np.testing.assert_array_equal((0 * F)(points), 0 * f)
    np.testing.assert_array_equal(F.maximum(G)(points), np.maximum(f, g))
    np.testing.assert_array_equal(F.minimum(G)(points), np.minimum(f, g))
    np.testing.assert_array_equal(F.relu()(points), np.maximum(f, 0))
    np.testing.assert_array_equal(F.prune()(points), f)


@given(maps(1, dim_out=2), arrays(np.float64, (2, 3), elements=SMALL))
def test_affine_maps_compose_on_both_sides(drawn, weight):
    F, points = drawn
    bias = np.array([1.0, -2.0, 0.5])
    np.testing.assert_array_equal(F.affine(weight, bias)(points), F(points) @ weight + bias)
    before = weight.T[:, : F.dim_in]
    shift = bias[: F.dim_in]
    inputs = np.arange(6.0).reshape(2, 3) - 2
    np.testing.assert_array_equal(F.substitute(before, shift)(inputs), F(inputs @ before + shift))


@examples(30)
@given(maps(2, elements=WILD))
def test_arithmetic_does_not_round(drawn):
    F, G, points = drawn
    half = [
        TropicalRationalMap([p**0.125 for p in f.numerators], f.denominator**0.125) for f in (F, G)
    ]
    F, G = half
    f, g = F.exact_values(points), G.exact_values(points)
    assert (F - G).exact_values(points).tolist() == (f - g).tolist()
    weight = np.full((F.dim_out, 1), 0.1)
    combined = F.affine(weight).exact_values(points)
    assert combined.ravel().tolist() == [sum(row) * Fraction(0.1) for row in f.tolist()]


@examples(25)
@given(maps(3))
def test_maps_form_an_ordered_vector_space(drawn):
    F, G, H, _ = drawn
    assert (F + G).equals(G + F)
    assert ((F + G) + H).equals(F + (G + H))
    assert (F - F).equals(0 * F)
    assert (F + G - G).equals(F)
    assert (F.maximum(G) + H).equals((F + H).maximum(G + H))
    assert (-(F.maximum(G))).equals((-F).minimum(-G))
    assert (F.maximum(G) + F.minimum(G)).equals(F + G)
    assert (2 * F).equals(F + F)


def test_a_common_denominator_always_exists():
    """Separate denominators: P_c - Q_c = (P_c + sum of the other Q) - sum of all Q."""
    P = [x1((1, 0), (0, 1)), x1((2, 0), (-1, 0))]
    Q = [x1((0, 0), (1, 1)), x1((-1, 2), (1, 0))]
    channels = [TropicalRationalMap([p], q) for p, q in zip(P, Q, strict=True)]
    F = TropicalRationalMap([P[0] * Q[1], P[1] * Q[0]], Q[0] * Q[1])
    embedded = [
        f.affine(row) for f, row in zip(channels, ([[1.0, 0.0]], [[0.0, 1.0]]), strict=True)
    ]
    assert (embedded[0] + embedded[1]).equals(F)


def test_minus_relu_is_rational_but_no_polynomial():
    concave = -TropicalRationalMap.from_affine([[1.0]]).relu()
    assert concave.denominator.n_terms == 2
    assert concave([[-1.0], [2.0]]).tolist() == [[0.0], [-2.0]]


def test_common_factors_cancel():
    Q = x1((0, 0), (1, 0), (3, -5))
    F = TropicalRationalMap([Q * x1((2, 1))], Q)
    linear = F.affine([[1.0]])
    assert str(linear) == "2x + 1"
    assert linear.denominator.n_terms == 1
    G = TropicalRationalMap([x1((5, 0), (0, 0))], Q)
    assert (F + G - F).n_terms == G.n_terms  # Not the product with Q.


@given(maps(1))
def test_equality_does_not_see_a_common_factor(drawn):
    F, _ = drawn
    factor = TropicalPolynomial([[1.0, 2.0][: F.dim_in], [0.0, -1.0][: F.dim_in]], [0.0, 3.0])
    G = TropicalRationalMap([p * factor for p in F.numerators], F.denominator * factor)
    assert F.equals(G)
    nudge = TropicalPolynomial.constant(2.0**-1074, F.dim_in)
    H = TropicalRationalMap([F.numerators[0] * nudge, *F.numerators[1:]], F.denominator)
    assert not F.equals(H)


# --- pieces ---------------------------------------------------------------------------------


def brute_force_cells(F):
    """All tuples of winners on open sets: the active terms of the sum of all polynomials."""
    polynomials = [*F.numerators, F.denominator]
    sums = {}
    for choice in itertools.product(*(range(p.n_terms) for p in polynomials)):
        rows = [(p.slopes[j], p.offsets[j]) for p, j in zip(polynomials, choice, strict=True)]
        slope = tuple(Fraction(float(v)) for v in sum(a for a, _ in rows))
        sums[choice] = (slope, Fraction(float(sum(c for _, c in rows))))
    active = reference.active(list(sums.values()))
    return sorted(choice for choice, wins in zip(sums, active, strict=True) if wins)


@examples(30)
@given(maps(1, elements=st.integers(-2, 2).map(float)))
def test_cells_match_the_definition(drawn):
    F, _ = drawn
    assert [tuple(row) for row in F.common_refinement().choices.tolist()] == brute_force_cells(F)


@examples(40)
@given(maps(1))
def test_each_cell_has_its_map_and_its_interior_point(drawn):
    F, _ = drawn
    pieces = F.common_refinement()
    polynomials = [*F.numerators, F.denominator]
    scale = Fraction(2) ** pieces.exact_maps.exponent
    for choice, x, rows, matrix, offset in zip(
        pieces.choices.tolist(),
        pieces.exact_witnesses,
        pieces.exact_maps.integers,
        pieces.matrices,
        pieces.offsets,
        strict=True,
    ):
        for p, j in zip(polynomials, choice, strict=True):
            terms = reference.terms_of(p.slopes, p.offsets)
            winning = {t for t, w in zip(terms, reference.attaining(terms, x), strict=True) if w}
            assert winning == {terms[j]}
        value = rows @ np.array([*x, 1], dtype=object) * scale
        assert value.tolist() == exact(F, [x])[0].tolist()
        np.testing.assert_array_equal((rows * scale).astype(float), np.c_[matrix, offset])
    assert pieces.n_cells >= pieces.n_regions >= pieces.n_affine_maps


@examples(30)
@given(maps(1))
def test_the_compiled_search_and_the_product_find_the_same_cells(drawn):
    """A constant that float64 cannot add sends the same map down the other path."""
    drawn_map, _ = drawn
    F, G = (
        TropicalRationalMap([p * 64.0 * shift for p in drawn_map.numerators], drawn_map.denominator)
        for shift in (0.0, 2.0**-300)
    )
    assert F.numerators[0].fits_float64
    assert not G.numerators[0].fits_float64
    ours, theirs = F.prune().common_refinement(), G.prune().common_refinement()
    assert ours.choices.tolist() == theirs.choices.tolist()
    assert ours.map_index.tolist() == theirs.map_index.tolist()
    assert ours.n_regions == theirs.n_regions


def regions_on_a_line(F):
    """Count maximal intervals by the slopes between consecutive kinks of all polynomials."""
    kinks = set()
    for p in [*F.numerators, F.denominator]:
        terms = reference.terms_of(p.slopes, p.offsets)
        kinks |= {
            (d - c) / (a[0] - b[0]) for (a, c), (b, d) in itertools.combinations(terms, 2) if a != b
        }
    middles = reference.between(kinks)
    maps_there = []
    for x in middles:
        step = Fraction(1, 10**6)
        for k in kinks:
            step = min(step, abs(k - x) / 2)
        here, there = exact(F, [[x], [x + step]])
        slope = (there - here) / step
        maps_there.append((tuple(slope), tuple(here - slope * x)))
    return 1 + sum(a != b for a, b in itertools.pairwise(maps_there)), len(set(maps_there))


@examples(40)
@given(st.integers(1, 2).flatmap(lambda n: st.tuples(*[polynomials(1)] * (n + 1))))
def test_regions_on_a_line_match_the_definition(drawn):
    F = TropicalRationalMap(drawn[:-1], drawn[-1])
    pieces = F.common_refinement()
    assert (pieces.n_regions, pieces.n_affine_maps) == regions_on_a_line(F)


def test_cells_with_the_same_map_are_one_region_only_if_they_touch():
    x = TropicalRationalMap.from_affine([[1.0]])
    bump = (x + TropicalRationalMap.from_affine([[0.0]], [1.0])).relu()
    hat = bump - 2 * x.relu() + (x - TropicalRationalMap.from_affine([[0.0]], [1.0])).relu()
    pieces = hat.common_refinement()
    assert (pieces.n_cells, pieces.n_regions, pieces.n_affine_maps) == (4, 4, 3)
    assert pieces.region_index.tolist() == [0, 1, 2, 3]


def test_regions_of_the_same_map_do_not_touch_at_a_corner():
    """max(x, y) - max(x, 0) - max(y, 0) + 0: opposite cells share maps only across facets."""
    one = TropicalPolynomial.constant(0, 2)
    quadrant = TropicalRationalMap([TropicalPolynomial([[1, 1], [0, 0]], [0, 0])], one)
    pieces = quadrant.common_refinement()
    assert (pieces.n_cells, pieces.n_regions) == (2, 2)
    # sign(x) sign(y)-like: min(|x|, |y|) has the same map on no two cells; |x| - |y| has 4 cells.
    x, y = ([[1.0], [0.0]], [[0.0], [1.0]])
    absolute = [
        TropicalRationalMap.from_affine(w).maximum(-TropicalRationalMap.from_affine(w))
        for w in (x, y)
    ]
    saddle = absolute[0] - absolute[1]
    pieces = saddle.common_refinement()
    assert (pieces.n_cells, pieces.n_regions, pieces.n_affine_maps) == (4, 4, 4)
    # max(min(x, y), 0) + min(max(x, y), 0): zero on the second and the fourth quadrant, which
    # touch only at the origin.
    X, Y = (TropicalRationalMap.from_affine(w) for w in (x, y))
    zero = 0 * X
    touching = X.minimum(Y).maximum(zero) + X.maximum(Y).minimum(zero)
    pieces = touching.common_refinement()
    zero_cells = [i for i, a in enumerate(pieces.matrices) if not a.any()]
    assert len({pieces.map_index[i] for i in zero_cells}) == 1
    assert len({pieces.region_index[i] for i in zero_cells}) == 2


def test_kinks_that_cancel_make_one_region_of_several_cells():
    Q = TropicalPolynomial([[1, 0], [0, 1], [0, 0]], [0, 0, 0])
    pieces = TropicalRationalMap([Q * TropicalPolynomial([[1, 1]], [2])], Q).common_refinement()
    assert (pieces.n_cells, pieces.n_regions, pieces.n_affine_maps) == (3, 1, 1)
    assert pieces.matrices[0].tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize("n_channels", [1, 3, 6])
def test_log_lifted_attention_on_a_line_has_a_piece_for_each_breakpoint(n_channels):
    """Two keys: the routing has 2 cells, the lifted map 2 + the number of channels."""
    lifted = [x1((-1, 0), (1, 2.0 * c + 1)) for c in range(n_channels)]
    pieces = TropicalRationalMap(lifted, x1((-1, 0), (1, 0))).common_refinement()
    assert pieces.n_cells == n_channels + 2
    assert pieces.n_regions == n_channels + 2


@pytest.mark.parametrize(("dim", "n_keys", "n_channels"), [(2, 4, 2), (2, 3, 4), (3, 3, 2)])
def test_lifted_cells_obey_the_bound_for_one_more_head(dim, n_keys, n_channels):
    rng = np.random.default_rng(5)
    keys = rng.normal(size=(n_keys, dim))
    lifted = [TropicalPolynomial(keys, rng.normal(size=n_keys)) for _ in range(n_channels)]
    pieces = TropicalRationalMap(
        lifted, TropicalPolynomial(keys, np.zeros(n_keys))
    ).common_refinement()
    heads = n_channels + 1
    bound = sum(comb(heads, j) * (n_keys - 1) ** j for j in range(min(dim, heads) + 1))
    assert n_keys <= pieces.n_affine_maps <= pieces.n_regions <= pieces.n_cells <= bound


# --- printing and bad input -----------------------------------------------------------------


def test_maps_print_as_differences():
    F = TropicalRationalMap([x1((1, 0), (0, 0)), x1((2, 1))], x1((1, -1), (0, 0)))
    assert str(F) == "(max(x, 0), 2x + 1) - max(x - 1, 0)"
    assert repr(F) == "TropicalRationalMap(<1 -> 2, terms (2, 1) - 2>)"
    assert F._repr_latex_() == (
        r"$\begin{pmatrix}\max\{x,\; 0\} - \max\{x - 1,\; 0\} \\ "
        r"2 x + 1 - \max\{x - 1,\; 0\}\end{pmatrix}$"
    )
    single = TropicalRationalMap([x1((1, 0))], x1((1, 2)))
    assert str(single) == "x - (x + 2)"
    assert single.to_latex() == r"x - \left(x + 2\right)"
    assert single.to_latex(tropical=True) == r"\left(x\right) \oslash \left(2 \odot x\right)"
    assert str(TropicalRationalMap.from_affine([[2.0]])) == "2x"


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda P: TropicalRationalMap([], P), EmptyInputError, "`numerators`"),
        (lambda P: TropicalRationalMap(P, P), DtypeError, "`numerators` must be a sequence"),
        (lambda P: TropicalRationalMap(3, P), DtypeError, "`numerators` must be a sequence"),
        (lambda P: TropicalRationalMap([1.0], P), DtypeError, r"`numerators\[0\]` must be"),
        (lambda P: TropicalRationalMap([P], None), DtypeError, "`denominator` must be"),
        (
            lambda P: TropicalRationalMap([P], TropicalPolynomial.constant(0, 2)),
            ShapeMismatchError,
            "`denominator` must have the same number of variables",
        ),
        (lambda P: TropicalRationalMap.from_affine([1.0]), ShapeMismatchError, "`weight`"),
        (
            lambda P: TropicalRationalMap.from_affine([[1.0]], [np.nan]),
            NonFiniteError,
            "`bias`",
        ),
    ],
)
def test_bad_maps_are_refused(build, error, message):
    with pytest.raises(error, match=message):
        build(x1((1, 0)))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda F: F([1.0, 2.0]), ShapeMismatchError, "`x` must have shape"),
        (lambda F: F + 1.0, DtypeError, "`other` must be a TropicalRationalMap"),
        (lambda F: F.equals(F.affine([[1.0, 1.0]])), ShapeMismatchError, "`other` must map"),
        (lambda F: F.maximum(None), DtypeError, "`other`"),
        (lambda F: F * np.inf, NonFiniteError, "`factor`"),
        (lambda F: F.affine(np.eye(2)), ShapeMismatchError, "`weight` must have shape"),
        (lambda F: F.affine([[1.0]], [1.0, 2.0]), ShapeMismatchError, "`bias`"),
        (lambda F: F.substitute([[1.0, 1.0]]), ShapeMismatchError, "`weight`"),
        (lambda F: F.affine([[1.0]], max_terms=0), ArgumentError, "`max_terms`"),
        (lambda F: F.common_refinement(max_terms=0), ArgumentError, "`max_terms`"),
    ],
)
def test_bad_operands_are_refused(call, error, message):
    F = TropicalRationalMap([x1((1, 0), (0, 0))], x1((2, 1), (0, 0)))
    with pytest.raises(error, match=message):
        call(F)


def test_a_refinement_of_wide_coefficients_is_refused_before_it_is_formed():
    wide = x1((1, 0), (0, 0)) * 1.0 * 2.0**-80
    assert not wide.fits_float64
    F = TropicalRationalMap([wide], x1((2, 1), (0, 0)))
    assert F.common_refinement().n_cells == 3
    with pytest.raises(SizeLimitError, match="2 x 2 = 4 sums"):
        F.common_refinement(max_terms=3)


def test_a_product_is_refused_before_it_is_formed():
    rng = np.random.default_rng(0)
    circle = np.linspace(0, 6, 60)
    slopes = np.c_[np.cos(circle), np.sin(circle)]
    F, G = (
        TropicalRationalMap([TropicalPolynomial(slopes, rng.normal(size=60) * 1e-6)], q)
        for q in (
            TropicalPolynomial(slopes, np.zeros(60)),
            TropicalPolynomial(-slopes, np.zeros(60)),
        )
    )
    with pytest.raises(SizeLimitError, match=r"60 x 60 = 3600 terms, more than `max_terms` = 3000"):
        F.maximum(G, max_terms=3000)


# Quotients of polynomials


@given(st.data(), st.integers(1, 2))
def test_the_quotient_of_polynomials_is_their_difference_as_functions(data, dim):
    p, q = data.draw(polynomials(dim, WILD)), data.draw(polynomials(dim, WILD))
    points = data.draw(arrays(np.float64, (3, dim), elements=SMALL))
    wanted = p.exact_values(points) - q.exact_values(points)
    for quotient in (p / q, p - q):
        assert isinstance(quotient, TropicalRationalMap)
        assert quotient.exact_values(points)[:, 0].tolist() == wanted.tolist()
    assert (-p).exact_values(points)[:, 0].tolist() == (-p.exact_values(points)).tolist()


@given(st.data(), st.integers(1, 2))
def test_division_undoes_multiplication(data, dim):
    p, q = data.draw(polynomials(dim)), data.draw(polynomials(dim))
    assert ((p * q) / q).equals(p / 0)
    assert ((p / q) / (p / q)).equals(0 * (p / q))
    assert (p / (p / q)).equals(q / 0)
    assert ((p / q) / p).equals(0 / q)


def test_numbers_are_constants_in_a_quotient():
    p = TropicalPolynomial([[1.0], [0.0]], [0.0, 0.0])
    for made in (p / 2, p - 2, p - np.float64(2.0), (p / 0) - 2, (p / 0) / np.int64(2)):
        assert made([3.0]).tolist() == [1.0]
    for made in (2 / p, 2 - p, np.float64(2.0) - p, 2 - (p / 0), -(p - 2)):
        assert made([3.0]).tolist() == [-1.0]


def test_a_polynomial_is_taken_off_every_channel():
    both = TropicalRationalMap.from_affine([[1.0, 2.0]])
    p = TropicalPolynomial([[1.0], [0.0]], [0.0, 0.0])
    assert (both / p)([3.0]).tolist() == (both - p)([3.0]).tolist() == [0.0, 3.0]
    assert (p / both)([3.0]).tolist() == (p - both)([3.0]).tolist() == [0.0, -3.0]


@pytest.mark.parametrize("other", ["x", None, [1.0], True])
def test_what_is_no_function_divides_nothing(other):
    p = TropicalPolynomial([[1.0], [0.0]], [0.0, 0.0])
    for left in (p, p / 0):
        with pytest.raises(HardmaxError, match="`other` must"):
            left / other
        with pytest.raises(HardmaxError, match="`other` must"):
            left - other


def test_quotients_in_other_spaces_are_refused():
    line, plane = TropicalPolynomial([[1.0]], [0.0]), TropicalPolynomial([[1.0, 0.0]], [0.0])
    with pytest.raises(ShapeMismatchError, match="same number of variables"):
        line / plane
    with pytest.raises(ShapeMismatchError, match="must map 1 variables"):
        (line / 0) / plane
