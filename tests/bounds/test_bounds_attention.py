"""Routing cells of one attention layer: the formulas against exact counts."""

from itertools import combinations
from math import prod

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hardmax import bounds
from hardmax.errors import HardmaxError
from hardmax.geometry.cones import decide_open_cone
from tests.reference.bounds import (
    attaining_points,
    joint_cells,
    slabs,
    weibel_maximum,
    weibel_sum,
)
from tests.sweeps import examples

BIASES = ("none", "query", "logit")
SIZES = st.lists(st.integers(1, 7), min_size=1, max_size=7)


def is_open(rows):
    return not rows or decide_open_cone(np.array(rows, dtype=object)).is_open


def n_cells(groups, *, affine):
    """Count routing cells; a repeated form never wins alone, so repeats are dropped first."""
    return len(joint_cells([list(dict.fromkeys(group)) for group in groups], affine, is_open))


def head(keys, weight, bias):
    """The forms of a head with keys (N, d_k), W_Q (d, d_k), b_Q (d_k,): slope and offset."""
    slopes, offsets = keys @ weight.T, keys @ bias
    return [(*map(int, a), int(c)) for a, c in zip(slopes, offsets, strict=True)]


@pytest.mark.parametrize("dim", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "sizes", [(5,), (2, 2), (3, 1, 4), (2, 3, 4), (2, 2, 2, 2), (3, 2, 3, 2), (1, 1)]
)
def test_the_bias_free_maximum_is_attained_by_polygons(sizes, dim):
    points = attaining_points(sizes, dim)
    assert n_cells(points, affine=False) == bounds.cells_bias_free(sizes, None, dim)


def test_four_octagons_in_space_exceed_the_claimed_order():
    assert n_cells(attaining_points((8,) * 4, 3), affine=False) == 326
    assert bounds.cells_bias_free(8, 4, 3) == 326 > bounds.paper.theorem_v2(8, 4, 3) == 32


def test_three_hexagons_in_space_have_92_vertices_not_216():
    assert n_cells(attaining_points((6, 6, 6), 3), affine=False) == 92
    assert bounds.cells_bias_free(6, 3, 3) == 92


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("sizes", [(5,), (2, 2), (3, 1, 4), (2, 3, 2), (2, 2, 2, 2), (1, 1)])
def test_the_maximum_with_bias_is_attained_by_slabs(sizes, dim):
    groups = slabs(sizes, dim, np.random.default_rng(3))
    assert n_cells(groups, affine=True) == bounds.cells_with_bias(sizes, None, dim)


@st.composite
def layers(draw):
    """Small integer forms of up to four heads: ties, repeats and flat sets are common."""
    dim = draw(st.integers(1, 3))
    form = st.tuples(*[st.integers(-3, 3)] * (dim + 1))
    return dim, draw(st.lists(st.lists(form, min_size=1, max_size=4), min_size=1, max_size=4))


@examples(40)
@given(layers())
@example((1, [[(1, 0), (1, 0)], [(0, 0), (0, 1)]]))
def test_no_layer_has_more_cells(layer):
    dim, groups = layer
    sizes = [len(set(group)) for group in groups]
    assert n_cells(groups, affine=True) <= bounds.cells_with_bias(sizes, None, dim)
    linear = [[form[:-1] for form in group] for group in groups]
    sizes = [len(set(group)) for group in linear]
    assert n_cells(linear, affine=False) <= bounds.cells_bias_free(sizes, None, dim)


@given(SIZES, st.integers(2, 6))
def test_the_bias_free_maximum_is_weibels_alternating_sum(sizes, dim):
    sizes = [n + 1 for n in sizes]
    if len(sizes) >= dim:
        assert bounds.cells_bias_free(sizes, None, dim) == weibel_maximum(sizes, dim)
    else:
        assert bounds.cells_bias_free(sizes, None, dim) == prod(sizes)


@pytest.mark.parametrize(("seed", "dim", "n_heads"), [(0, 2, 4), (1, 3, 3), (2, 3, 4), (3, 4, 4)])
def test_weibels_identity_holds_for_random_polytopes(seed, dim, n_heads):
    rng = np.random.default_rng(seed)
    groups = [
        [tuple(map(int, p)) for p in rng.integers(-999, 999, (int(rng.integers(2, 5)), dim))]
        for _ in range(n_heads)
    ]
    partial = {
        s: n_cells([groups[i] for i in s], affine=False)
        for j in range(1, dim)
        for s in combinations(range(n_heads), j)
    }
    assert n_cells(groups, affine=False) == weibel_sum(partial, n_heads, dim)


@given(st.integers(1, 9), st.integers(1, 6))
def test_the_special_cases_are_the_known_ones(n, d):
    assert bounds.cells_with_bias(n, d, d) == n**d
    assert bounds.cells_with_bias(2, n, d) == bounds.zaslavsky(n, d)
    assert bounds.cells_bias_free(2, n, d) == bounds.central_arrangement(n, d)
    if d > 1:
        assert bounds.cells_bias_free(n, d - 1, d) == n ** (d - 1)
    if n > 1:
        assert bounds.cells_bias_free(n, d, d) == n**d - (n - 1) ** d + 1
        assert bounds.cells_bias_free(n, d + 1, 2) == n * (d + 1)
        cubic = d * (d - 1) // 2 * n**2 - d * (d - 2) * n + (d - 1) * (d - 2)
        assert bounds.cells_bias_free(n, d, 3) == cubic
        assert bounds.cells_bias_free(n, d, 1) == 2


@given(SIZES, st.integers(1, 6))
def test_counts_grow_with_heads_keys_dimension_and_bias(sizes, dim):
    with_bias, free = (
        bounds.cells_with_bias(sizes, None, dim),
        bounds.cells_bias_free(sizes, None, dim),
    )
    assert 1 <= free <= with_bias <= prod(sizes)
    assert free <= bounds.cells_bias_free([*sizes, 3], None, dim)
    assert free <= bounds.cells_bias_free([sizes[0] + 1, *sizes[1:]], None, dim)
    assert with_bias <= bounds.cells_bias_free(sizes, None, dim + 1)
    assert free == bounds.cells_bias_free([1, *sizes], None, dim)
    assert with_bias == bounds.cells_with_bias([1, *sizes], None, dim)


@examples(40)
@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 2), st.integers(1, 3))
def test_no_low_rank_layer_has_more_cells(seed, dim, head_dim, n_heads):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5, n_heads)
    heads, shifted, logits = [], [], []
    for n in sizes:
        keys = rng.integers(-4, 5, (int(n), head_dim))
        weight = rng.integers(-4, 5, (dim, head_dim))
        heads.append(head(keys, weight, np.zeros(head_dim, int)))
        shifted.append(head(keys, weight, rng.integers(-4, 5, head_dim)))
        logits.append([(*f[:-1], f[-1] + int(rng.integers(-4, 5))) for f in shifted[-1]])
    for bias, groups in zip(BIASES, (heads, shifted, logits), strict=True):
        most = bounds.attention_cells(sizes, None, dim, bias=bias, head_dim=head_dim)
        assert n_cells(groups, affine=True) <= most


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("head_dim", [1, 2])
@pytest.mark.parametrize("bias", BIASES)
def test_low_rank_heads_attain_their_maximum(bias, head_dim, dim):
    rng = np.random.default_rng(dim)
    sizes, groups = (3, 4, 2), []
    for m, (n, points) in enumerate(zip(sizes, attaining_points(sizes, dim), strict=True), 1):
        w = rng.integers(-99, 100, dim)
        p = np.arange(n)
        if bias == "none" and head_dim == 2:
            # The polygon lies in the plane of (u_m, 0) and (0, 1).
            plane = np.zeros((dim, 2), int)
            plane[:-1, 0] = [m**power for power in range(dim - 1)]
            plane[-1, 1] = 1
            keys = np.array([(q[0] if dim > 1 else 0, q[-1]) for q in points])
            assert [tuple(map(int, q)) for q in keys @ plane.T] == points
            groups.append(head(keys, plane, np.zeros(2, int)))
        elif bias == "none":
            groups.append(head(p[:, None], w[:, None], np.zeros(1, int)))
        elif bias == "query" and head_dim == 2:
            keys = np.stack([2 * p, -p * p], axis=1)
            weight = np.stack([w, np.zeros(dim, int)], axis=1)
            groups.append(head(keys, weight, np.array([rng.integers(-99, 100), 150])))
        elif bias == "query":
            groups.append(head(p[:, None], w[:, None], rng.integers(-99, 100, 1)))
        else:
            forms = head(p[:, None], w[:, None], rng.integers(-99, 100, 1))
            groups.append([(*f[:-1], f[-1] - 150 * j * j) for j, f in enumerate(forms)])
    most = bounds.attention_cells(sizes, None, dim, bias=bias, head_dim=head_dim)
    assert n_cells(groups, affine=True) == most


def test_a_head_of_size_one_sees_two_keys_unless_each_has_a_logit_bias():
    counts = [bounds.attention_cells(9, 1, 5, bias=bias, head_dim=1) for bias in BIASES]
    assert counts == [2, 2, 9]
    assert bounds.attention_cells(1, 4, 5, bias="query", head_dim=1) == 1


@examples(30)
@given(layers(), st.integers(0, 10**6))
def test_an_affine_slice_has_at_most_the_cells_of_its_rank(layer, seed):
    dim, groups = layer
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, dim + 1))
    origin, basis = rng.integers(-3, 4, dim), rng.integers(-3, 4, (rank, dim))
    sliced = [
        [
            (
                *(sum(a * int(b) for a, b in zip(form[:-1], row, strict=True)) for row in basis),
                form[-1] + sum(a * int(o) for a, o in zip(form[:-1], origin, strict=True)),
            )
            for form in group
        ]
        for group in groups
    ]
    sizes = [len(group) for group in groups]
    most = bounds.attention_cells(sizes, None, dim, bias="logit", rank=rank)
    assert n_cells(sliced, affine=True) <= most
    assert most <= bounds.cells_with_bias(sizes, None, dim)
    if rank < dim:
        assert most == bounds.attention_cells(sizes, None, dim, bias="none", rank=rank)


@examples(30)
@given(st.integers(0, 10**6), st.integers(1, 2), st.integers(1, 3), st.integers(1, 2))
def test_no_log_lifted_map_has_more_cells(seed, dim, n_keys, value_dim):
    rng = np.random.default_rng(seed)
    slopes, offsets = rng.integers(-4, 5, (n_keys, dim)), rng.integers(-4, 5, n_keys)
    groups = [
        [(*map(int, a), int(c)) for a, c in zip(slopes, offsets + v, strict=True)]
        for v in [np.zeros(n_keys, int), *rng.integers(-4, 5, (value_dim, n_keys))]
    ]
    assert n_cells(groups, affine=True) <= bounds.lifted_cells(n_keys, value_dim, dim)


def test_two_keys_on_a_line_attain_the_lifted_maximum():
    groups = [[(-1, 0), (1, shift)] for shift in (0, 1, 3, 7)]
    assert n_cells(groups, affine=True) == bounds.lifted_cells(2, 3, 1) == 5


def test_real_sizes_are_exact_and_quick():
    assert bounds.cells_bias_free(512, 8, 512) == 512**8
    assert bounds.cells_with_bias(100_000, 128, 512) == 100_000**128
    assert bounds.cells_with_bias(100_000, 700, 512) < 100_000**700


@pytest.mark.parametrize("function", [bounds.cells_with_bias, bounds.cells_bias_free])
@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((0, 3, 3), "`n_keys`"),
        ((4, 0, 3), "`n_heads`"),
        ((4, 3, 0), "`dim`"),
        ((4, -1, 3), "`n_heads`"),
        ((4.0, 3, 3), "`n_keys`"),
        ((4, None, 3), "`n_heads`"),
        ((4, 3, 2.5), "`dim`"),
        (([], None, 3), "`n_keys`"),
        (([3, 0], None, 3), r"`n_keys\[1\]`"),
        (([3, 3], 3, 3), "`n_keys`"),
        (("33", None, 3), r"`n_keys\[0\]`"),
        ((True, 3, 3), "`n_keys`"),
    ],
)
def test_bad_sizes_are_refused_by_name(function, arguments, name):
    with pytest.raises(HardmaxError, match=name):
        function(*arguments)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"bias": "key"}, "`bias`"),
        ({"bias": "none", "head_dim": 0}, "`head_dim`"),
        ({"bias": "none", "rank": 4}, "`rank`"),
        ({"bias": "none", "rank": -1}, "`rank`"),
    ],
)
def test_bad_options_are_refused_by_name(options, name):
    with pytest.raises(HardmaxError, match=name):
        bounds.attention_cells(4, 2, 3, **options)
    with pytest.raises(HardmaxError, match="`n_keys`"):
        bounds.visible_keys(0, "none", 1)
    with pytest.raises(HardmaxError, match="`bias`"):
        bounds.visible_keys(4, "key", 1)
    with pytest.raises(HardmaxError, match="`value_dim`"):
        bounds.lifted_cells(2, 0, 1)
