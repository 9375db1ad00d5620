"""Extremal families: counted exactly against the bounds, for many sizes."""

from fractions import Fraction
from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from flint import fmpz_mat

from hardmax import bounds
from hardmax.constructions import extremal_heads, extremal_points, moment_curve, moment_curve_forms
from hardmax.errors import ArgumentError, DtypeError, EmptyInputError, ShapeMismatchError
from hardmax.geometry.domains import WholeSpace
from hardmax.geometry.minkowski import minkowski_vertices
from hardmax.geometry.refinement import common_refinement
from hardmax.models.transformers import Block, HardTransformer
from hardmax.regions.engines import enumerate_regions
from hardmax.tropical.diagrams.order_k import order_k_diagram
from hardmax.tropical.diagrams.power_diagrams import PowerDiagram

EQUAL = [
    (n, h, d)
    for n, h, d in product((1, 2, 3, 4, 6), (1, 2, 3, 4, 5, 7), (1, 2, 3, 4, 5))
    if bounds.cells_bias_free(n, h, d) <= 700
]
UNEQUAL = [
    ([2, 5], 1),
    ([5, 1, 3], 2),
    ([1, 1], 3),
    ([2, 3, 4, 5], 3),
    ([7, 2, 1, 2, 4, 3], 3),
    ([2, 3, 2, 4], 4),
    ([6, 2], 5),
]


def count_bias_free(sets):
    return minkowski_vertices(sets).count


def count_with_bias(heads):
    return common_refinement([head.forms for head in heads]).count


def test_equal_sets_attain_the_bias_free_bound():
    kinds = {(h > d) - (h < d) for _, h, d in EQUAL}
    assert kinds == {-1, 0, 1}
    for n, h, d in EQUAL:
        sets = extremal_points(n, h, d)
        assert [points.shape for points in sets] == [(n, d)] * h
        assert count_bias_free(sets) == bounds.cells_bias_free(n, h, d), (n, h, d)


@pytest.mark.parametrize(("sizes", "dim"), UNEQUAL)
def test_unequal_sets_attain_both_bounds(sizes, dim):
    assert count_bias_free(extremal_points(sizes, None, dim)) == bounds.cells_bias_free(
        sizes, None, dim
    )
    assert count_with_bias(extremal_heads(sizes, len(sizes), dim)) == bounds.cells_with_bias(
        sizes, None, dim
    )


def test_heads_attain_the_bound_with_bias():
    for n, h, d in EQUAL:
        if bounds.cells_with_bias(n, h, d) <= 1000:
            heads = extremal_heads(n, h, d)
            assert count_with_bias(heads) == bounds.cells_with_bias(n, h, d), (n, h, d)


@pytest.mark.parametrize(("bias", "head_dim"), [("none", 2), ("query", 2), ("logit", 1)])
@pytest.mark.parametrize(("n", "h", "d"), [(4, 3, 2), (3, 4, 3), (5, 2, 1), (2, 5, 2)])
def test_every_kind_of_bias_attains_its_bound(bias, head_dim, n, h, d):
    heads = extremal_heads(n, h, d, bias=bias)
    assert {head.head_dim for head in heads} == {head_dim}
    assert all((head.query_bias is not None) == (bias == "query") for head in heads)
    assert all((head.logit_bias is not None) == (bias == "logit") for head in heads)
    expected = bounds.attention_cells(n, h, d, bias=bias, head_dim=head_dim)
    assert count_with_bias(heads) == expected
    # The engine sees the same cells, and a different value in each.
    layer = HardTransformer([Block(heads, attention_residual=False)])
    part = enumerate_regions(layer, WholeSpace(d))
    assert (part.n_cells, part.n_regions, part.n_affine_maps) == (expected,) * 3


def test_exact_integers_count_the_same():
    assert minkowski_vertices(extremal_points(6, 3, 3), start="rational").count == 92
    assert minkowski_vertices(extremal_points([3, 2, 4], None, 3), start="rational").count == (
        bounds.cells_bias_free([3, 2, 4], None, 3)
    )


def test_bias_free_heads_have_the_points_as_slopes():
    for head, points in zip(
        extremal_heads(4, 3, 3, bias="none"), extremal_points(4, 3, 3), strict=True
    ):
        assert head.forms.slopes.tolist() == points.tolist()
        assert not head.forms.offsets.any()


@pytest.mark.parametrize(("h", "d"), [(5, 2), (6, 3), (5, 4), (9, 3)])
def test_hyperplanes_are_in_general_position(h, d):
    """The lemma: no d + 1 walls of different heads meet, above and below; d of them do."""
    heads = extremal_heads(3, h, d)
    rows = []
    for head in heads:
        low, middle, high = (
            [int(v) for v in (*slope, offset)]
            for slope, offset in zip(head.forms.slopes, head.forms.offsets, strict=True)
        )
        pairs = ((middle, low), (high, middle), (high, low))
        rows.append([[a - b for a, b in zip(p, q, strict=True)] for p, q in pairs])
    for chosen in combinations(rows, d + 1):
        for walls in product(*chosen):
            assert fmpz_mat([list(wall) for wall in walls]).det() != 0
    for chosen in combinations(rows, d):
        assert fmpz_mat([wall[0][:-1] for wall in chosen]).det() != 0


def test_tilts_that_are_not_generic_lose_vertices():
    """The same parabolas with directions (1, m) and tilts linear in m fall short of 92."""
    t = 2.0 * np.arange(6) - 5
    sets = [np.column_stack([t, m * t, 0.5 * m * t - t**2]) for m in range(3)]
    assert count_bias_free(sets) == 78


def test_coordinates_are_small_integers():
    for points in extremal_points(100, 20, 8):
        assert (points == np.round(points)).all()
        assert np.abs(points).max() < 10**5


def test_all_sets_of_winners_occur_on_the_moment_curve():
    for n, d in product(range(1, 8), range(1, 7)):
        for k in range(1, n + 1):
            smaller = min(k, n - k)
            if d >= min(2 * smaller, n - 1):
                diagram = PowerDiagram.from_keys(moment_curve(n, d))
                assert order_k_diagram(diagram, k).n_cells == comb(n, k)
                assert bounds.top_k_cells(n, k, d) == comb(n, k)
            if d >= min(2 * smaller - 1, n - 1):
                forms = moment_curve_forms(n, d, losers=k > n - k)
                diagram = PowerDiagram.from_keys(forms.slopes, forms.offsets)
                assert order_k_diagram(diagram, k).n_cells == comb(n, k)
                assert bounds.top_k_cells(n, k, d, bias="logit") == comb(n, k)


def test_larger_moment_curves_have_all_sets():
    assert order_k_diagram(PowerDiagram.from_keys(moment_curve(9, 6)), 3).n_cells == 84
    assert order_k_diagram(PowerDiagram.from_keys(moment_curve(7, 3)), 2).n_cells == 15
    forms = moment_curve_forms(9, 5)
    diagram = PowerDiagram.from_keys(forms.slopes, forms.offsets)
    assert order_k_diagram(diagram, 3).n_cells == 84
    # The sign decides which sets of a biased family are all there.
    assert order_k_diagram(diagram, 6).n_cells < 84


def test_the_square_of_the_vanishing_polynomial_selects_a_set():
    """The witness of the proof, in fractions."""
    points = moment_curve(6, 4)
    for chosen in combinations(range(6), 2):
        roots = [int(points[j, 0]) for j in chosen]
        polynomial = [1]
        for root in [*roots, *roots]:
            polynomial = [
                a - root * b for a, b in zip([*polynomial, 0], [0, *polynomial], strict=True)
            ]
        # Highest power first; the constant is the same for all keys.
        x = [-Fraction(c) for c in reversed(polynomial[:-1])]
        scores = [sum(a * Fraction(b) for a, b in zip(x, p, strict=True)) for p in points]
        assert set(np.argsort([-float(s) for s in scores])[:2]) == set(chosen)


@pytest.mark.parametrize(
    ("error", "name", "build"),
    [
        (ArgumentError, "n_points", lambda: extremal_points(0, 2, 2)),
        (ArgumentError, "n_polytopes", lambda: extremal_points(2, 0, 2)),
        (ArgumentError, "n_polytopes", lambda: extremal_points(2, None, 2)),
        (ArgumentError, "dim", lambda: extremal_points(2, 2, 0)),
        (DtypeError, "n_points", lambda: extremal_points(2.5, 2, 2)),
        (DtypeError, "n_points", lambda: extremal_points("23", None, 2)),
        (EmptyInputError, "n_points", lambda: extremal_points([], None, 2)),
        (ShapeMismatchError, "n_points", lambda: extremal_points([2, 3], 3, 2)),
        (ArgumentError, "n_points", lambda: extremal_points(2**26, 3, 2)),
        (ArgumentError, "n_keys", lambda: extremal_heads([2, 0], None, 2)),
        (ArgumentError, "n_heads", lambda: extremal_heads(2, -1, 2)),
        (ArgumentError, "bias", lambda: extremal_heads(2, 2, 2, bias="key")),
        (ArgumentError, "n_points", lambda: moment_curve(0, 2)),
        (ArgumentError, "dim", lambda: moment_curve(2, 0)),
        (ArgumentError, "n_points", lambda: moment_curve(200, 9)),
        (ArgumentError, "n_keys", lambda: moment_curve_forms(10**9, 10**9)),
        (DtypeError, "losers", lambda: moment_curve_forms(3, 2, losers=2)),
    ],
)
def test_bad_input_is_refused_by_name(error, name, build):
    with pytest.raises(error, match=f"`{name}"):
        build()
