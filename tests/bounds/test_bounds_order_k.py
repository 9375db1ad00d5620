"""Top-k winners and rankings: the formulas against exact counts."""

from itertools import combinations, permutations
from math import comb, factorial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax import bounds
from hardmax.errors import HardmaxError
from hardmax.geometry.cones import decide_open_cone
from tests.reference.bounds import joint_cells, winning_sets
from tests.sweeps import examples


def is_open(rows):
    return not rows or decide_open_cone(np.array(rows, dtype=object)).is_open


def n_sets(forms, k, *, affine):
    return len(winning_sets([tuple(map(int, form)) for form in forms], k, affine, is_open))


def moment_curve(n, dim):
    return [tuple(t**power for power in range(1, dim + 1)) for t in range(n)]


@pytest.mark.parametrize(("n", "k", "dim"), [(7, 2, 4), (5, 1, 2), (5, 3, 4), (4, 2, 3), (6, 5, 2)])
def test_all_sets_win_on_the_moment_curve(n, k, dim):
    assert n_sets(moment_curve(n, dim), k, affine=False) == comb(n, k)
    assert bounds.top_k_cells(n, k, dim) == comb(n, k)


def test_all_84_triples_of_nine_win_in_six_dimensions():
    assert n_sets(moment_curve(9, 6), 3, affine=False) == bounds.top_k_cells(9, 3, 6) == 84


@pytest.mark.parametrize(("n", "k"), [(5, 1), (6, 2), (5, 3), (4, 2), (6, 3)])
def test_a_bias_saves_one_dimension(n, k):
    dim = 2 * min(k, n - k) - 1
    sign = 1 if 2 * k <= n else -1  # The k largest win where the n - k smallest lose.
    forms = [(*curve[:-1], -sign * curve[-1]) for curve in moment_curve(n, dim + 1)]
    assert n_sets(forms, k, affine=True) == comb(n, k)
    assert bounds.top_k_cells(n, k, dim, bias="logit") == comb(n, k)


def test_below_four_dimensions_the_moment_curve_has_not_all_pairs():
    assert n_sets(moment_curve(7, 3), 2, affine=False) == 15 <= bounds.top_k_cells(7, 2, 3)


@pytest.mark.parametrize("k", range(1, 7))
def test_points_in_convex_position_have_one_set_per_point_in_the_plane(k):
    assert n_sets(moment_curve(7, 2), k, affine=False) == 7 <= bounds.planar_k_sets(7, k)


def test_on_a_line_the_largest_or_the_smallest_keys_win():
    assert [n_sets([(3,), (1,), (4,), (-5,)], k, affine=False) for k in (1, 2, 3, 4)] == [
        2,
        2,
        2,
        1,
    ]
    assert [bounds.top_k_cells(4, k, 1) for k in (1, 2, 3, 4)] == [2, 2, 2, 1]


def test_the_planar_bound_is_attained_for_four_and_six_points():
    triangle = [(0, 0), (10, 0), (4, 9), (5, 3)]
    assert n_sets(triangle, 2, affine=False) == bounds.planar_k_sets(4, 2) == 6
    # A triangle inside a larger one, turned a little: every line through a corner pair halves.
    nested = [(0, 100), (-87, -50), (87, -50), (3, 20), (-19, -7), (16, -13)]
    assert n_sets(nested, 3, affine=False) == bounds.planar_k_sets(6, 3) == 12


@pytest.mark.parametrize(
    ("k", "points"),
    [
        (2, [(-2, -4), (35, 7), (7, -1), (-29, 45), (-12, 16)]),
        (2, [(-5, 9), (-7, -10), (-8, -16), (-10, -13), (-27, -39), (7, -1)]),
        (3, [(14, 0), (8, 2), (-27, -39), (-16, 23), (-3, 7), (-3, 5), (-4, -5)]),
    ],
)
def test_the_planar_bound_is_attained_for_five_six_and_seven_points(k, points):
    assert n_sets(points, k, affine=False) == bounds.planar_k_sets(len(points), k)


@examples(50)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 3))
def test_no_points_have_more_winning_sets(seed, n, dim):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, n + 1))
    forms = np.unique(rng.integers(-4, 5, (n, dim + 1)), axis=0)
    n = len(forms)
    k = min(k, n)
    linear = np.unique(forms[:, :-1], axis=0)
    j = min(k, len(linear))
    assert n_sets(forms, k, affine=True) <= bounds.top_k_cells(n, k, dim, bias="logit")
    assert n_sets(linear, j, affine=False) <= bounds.top_k_cells(len(linear), j, dim)


@examples(30)
@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(1, 3), st.integers(1, 2))
def test_no_low_rank_head_has_more_winning_sets(seed, n, dim, head_dim):
    rng = np.random.default_rng(seed)
    keys = np.unique(rng.integers(-5, 6, (n, head_dim)), axis=0)
    weight, shift = rng.integers(-3, 4, (dim, head_dim)), rng.integers(-3, 4, head_dim)
    n = len(keys)
    k = int(rng.integers(1, n + 1))
    forms = np.column_stack([keys @ weight.T, keys @ shift])
    logits = np.column_stack([keys @ weight.T, rng.integers(-9, 10, n)])
    for bias, rows in (("query", forms), ("logit", logits)):
        most = bounds.top_k_cells(n, k, dim, bias=bias, head_dim=head_dim)
        assert n_sets(rows, k, affine=True) <= most
    most = bounds.top_k_cells(n, k, dim, head_dim=head_dim)
    assert n_sets(forms[:, :-1], k, affine=False) <= most


@pytest.mark.parametrize(
    ("k", "lines"),
    [
        (2, [(4, 1), (-10, -12), (9, 6), (8, 1)]),
        (2, [(-12, 8), (10, -4), (7, -2), (-6, 5), (2, 7)]),
        (3, [(-10, 10), (9, -1), (5, -1), (-2, 3), (0, -9), (2, -3)]),
    ],
)
def test_the_bound_on_a_line_is_attained(k, lines):
    most = bounds.top_k_cells(len(lines), k, 1, bias="logit")
    assert n_sets(lines, k, affine=True) == most < comb(len(lines), k)


def test_a_query_bias_counts_as_a_coordinate_if_the_head_is_large_enough():
    # The query (x, 1) meets keys on a parabola: d = 1, d_k = 2.
    parabola = [(2 * p, -p * p) for p in range(5)]
    assert n_sets(parabola, 1, affine=True) == 5
    assert bounds.top_k_cells(5, 1, 1, bias="query", head_dim=2) == 5
    assert bounds.top_k_cells(5, 1, 1, bias="query", head_dim=1) == 2


@pytest.mark.parametrize(("n", "k"), [(5, 2), (6, 2), (6, 3), (7, 3)])
def test_random_lines_stay_below_the_bound_on_a_line(n, k):
    rng = np.random.default_rng(n)
    best = max(n_sets(rng.integers(-50, 51, (n, 2)), k, affine=True) for _ in range(40))
    assert n - k + 1 <= best <= bounds.top_k_cells(n, k, 1, bias="logit")


@pytest.mark.parametrize(("n", "dim"), [(4, 1), (4, 2), (5, 2), (4, 3), (1, 2), (2, 1)])
def test_rankings_are_the_cells_of_all_comparisons(n, dim):
    forms = np.random.default_rng(n).integers(-99, 100, (n, dim + 1))
    groups = [
        [tuple(map(int, forms[i])), tuple(map(int, forms[j]))] for i, j in combinations(range(n), 2)
    ]
    linear = [[form[:-1] for form in group] for group in groups]
    if groups:
        assert len(joint_cells(groups, True, is_open)) == bounds.rankings_with_bias(n, dim)
        assert len(joint_cells(linear, False, is_open)) == bounds.rankings_bias_free(n, dim)
    else:
        assert bounds.rankings_with_bias(n, dim) == bounds.rankings_bias_free(n, dim) == 1


@given(st.integers(1, 8), st.integers(1, 9))
def test_rankings_satisfy_covers_recursion_and_end_at_the_factorial(n, dim):
    assert bounds.rankings_with_bias(n, max(dim, n)) == factorial(n)
    assert bounds.rankings_bias_free(n, max(dim, n)) == factorial(n)
    if dim > 1 and n > 1:
        step = bounds.rankings_bias_free(n, dim) + n * bounds.rankings_bias_free(n, dim - 1)
        assert bounds.rankings_bias_free(n + 1, dim) == step
    assert bounds.rankings_bias_free(n, dim) <= bounds.rankings_with_bias(n, dim)


@given(st.integers(1, 12), st.data())
def test_the_bound_is_symmetric_monotone_and_never_above_the_binomial(n, data):
    k = data.draw(st.integers(1, n))
    for bias in ("none", "query", "logit"):
        counts = [bounds.top_k_cells(n, k, dim, bias=bias) for dim in range(1, 15)]
        assert counts == sorted(counts)
        assert counts[-1] == comb(n, k)
        if k < n:
            others = [bounds.top_k_cells(n, n - k, dim, bias=bias) for dim in range(1, 15)]
            assert counts == others


def test_many_winners_in_few_dimensions_are_bounded_by_rankings():
    assert bounds.top_k_cells(40, 20, 3) == bounds.rankings_bias_free(40, 3) < comb(40, 20)
    assert bounds.top_k_cells(40, 5, 3) == bounds.rankings_bias_free(40, 3) < comb(40, 5)
    assert bounds.top_k_cells(40, 20, 2, bias="logit") == bounds.rankings_with_bias(40, 2)


@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 4))
def test_one_winner_is_the_ordinary_head(n, n_heads, dim):
    for bias, count in (("none", bounds.cells_bias_free), ("logit", bounds.cells_with_bias)):
        got = bounds.top_k_layer(n, n_heads, 1, dim, bias=bias)
        winners = bounds.top_k_cells(n, 1, dim, bias=bias)
        assert got == count(winners, n_heads, dim) == count(n, n_heads, dim)


@pytest.mark.parametrize("seed", range(6))
def test_no_top_k_layer_has_more_cells(seed):
    rng = np.random.default_rng(seed)
    groups = [
        [tuple(map(int, p[list(s)].sum(axis=0))) for s in combinations(range(4), 2)]
        for p in rng.integers(-30, 31, (3, 4, 2))
    ]
    assert len(joint_cells(groups, False, is_open)) <= bounds.top_k_layer(4, 3, 2, 2)


def test_rankings_by_definition_on_a_line():
    # On a line the N = 3 points are met in two orders only.
    points, seen = [3, -1, 7], set()
    for order in permutations(range(3)):
        for q in (-1, 1):
            values = [q * points[i] for i in order]
            if values == sorted(values, reverse=True):
                seen.add(order)
    assert len(seen) == bounds.rankings_bias_free(3, 1) == 2


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: bounds.top_k_cells(0, 1, 2), "`n_keys`"),
        (lambda: bounds.top_k_cells(5, 0, 2), "`k`"),
        (lambda: bounds.top_k_cells(5, 6, 2), "`k`"),
        (lambda: bounds.top_k_cells(5, 2, 0), "`dim`"),
        (lambda: bounds.top_k_cells(5, 2, 2, bias="both"), "`bias`"),
        (lambda: bounds.top_k_cells(5, 2, 2, head_dim=0), "`head_dim`"),
        (lambda: bounds.top_k_layer(5, 0, 2, 2), "`n_heads`"),
        (lambda: bounds.planar_k_sets(5, 6), "`k`"),
        (lambda: bounds.planar_k_sets(0, 0), "`n_points`"),
        (lambda: bounds.rankings_with_bias(3, 0), "`dim`"),
        (lambda: bounds.rankings_bias_free(2.0, 1), "`n_keys`"),
    ],
)
def test_bad_sizes_are_refused_by_name(call, name):
    with pytest.raises(HardmaxError, match=name):
        call()
