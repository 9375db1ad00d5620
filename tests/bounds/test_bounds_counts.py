"""The counts of one attention layer against the library's exact Minkowski and refinement codes."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax import bounds
from hardmax.exact.forms import AffineForms
from hardmax.geometry.minkowski import minkowski_vertices
from hardmax.geometry.refinement import common_refinement
from tests.reference.bounds import attaining_points, slabs, weibel_sum
from tests.sweeps import examples

LAYERS = st.tuples(
    st.integers(0, 10**6), st.lists(st.integers(1, 6), min_size=1, max_size=5), st.integers(1, 4)
)


def n_vertices(point_sets):
    return minkowski_vertices([np.array(points, dtype=float) for points in point_sets]).count


def n_cells(groups):
    forms = [np.array(group, dtype=float) for group in groups]
    return common_refinement([AffineForms(f[:, :-1], f[:, -1]) for f in forms]).count


@pytest.mark.parametrize(
    ("sizes", "dim"),
    [
        ((6, 6, 6), 3),
        ((64,) * 4, 3),
        ((9,) * 3, 4),
        ((5,) * 4, 4),
        ((4, 3, 6, 2, 5), 3),
        ((10,) * 7, 2),
        ((3,) * 5, 5),
        ((2,) * 7, 5),
        ((4, 1, 3, 5, 1), 4),
        ((7, 9), 1),
    ],
)
def test_polygons_attain_the_bias_free_maximum(sizes, dim):
    expected = bounds.cells_bias_free(sizes, None, dim)
    assert n_vertices(attaining_points(sizes, dim)) == expected


@pytest.mark.parametrize(
    ("sizes", "dim"),
    [
        ((6, 6, 6), 3),
        ((20,) * 5, 2),
        ((5, 3, 4, 2), 3),
        ((3,) * 4, 4),
        ((9,) * 6, 1),
        ((4,) * 5, 3),
    ],
)
def test_slabs_attain_the_maximum_with_bias(sizes, dim):
    groups = slabs(sizes, dim, np.random.default_rng(5))
    assert n_cells(groups) == bounds.cells_with_bias(sizes, None, dim)


@examples(75)
@given(LAYERS)
def test_no_random_layer_exceeds_its_maximum(layer):
    seed, sizes, dim = layer
    rng = np.random.default_rng(seed)
    kind = rng.choice(["gaussian", "sphere", "lattice"])
    groups = []
    for n in sizes:
        rows = rng.standard_normal((n, dim + 1))
        if kind == "sphere":
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        elif kind == "lattice":
            rows = rng.integers(-2, 3, (n, dim + 1)).astype(float)
        groups.append(rows)
    assert n_cells(groups) <= bounds.cells_with_bias(sizes, None, dim)
    free = bounds.cells_bias_free(sizes, None, dim)
    assert n_vertices([rows[:, :-1] for rows in groups]) <= free


def test_gaussian_keys_stay_far_below_the_maximum():
    rng = np.random.default_rng(0)
    counts = [n_vertices(rng.standard_normal((3, 6, 3))) for _ in range(40)]
    assert 30 < np.mean(counts) < 60
    assert max(counts) < bounds.cells_bias_free(6, 3, 3) == 92


@pytest.mark.parametrize(("dim", "n_heads"), [(2, 5), (3, 4), (3, 6), (4, 5), (5, 5)])
def test_weibels_identity_holds_for_random_polytopes(dim, n_heads):
    rng = np.random.default_rng(dim + n_heads)
    points = [rng.standard_normal((int(rng.integers(2, 6)), dim)) for _ in range(n_heads)]
    partial = {
        s: n_vertices([points[i] for i in s])
        for j in range(1, dim)
        for s in combinations(range(n_heads), j)
    }
    assert n_vertices(points) == weibel_sum(partial, n_heads, dim)


@pytest.mark.parametrize("bias", ["none", "query", "logit"])
@pytest.mark.parametrize("head_dim", [1, 2, 3])
def test_no_random_low_rank_layer_exceeds_its_maximum(bias, head_dim):
    rng = np.random.default_rng(head_dim)
    for _ in range(30):
        dim, n_heads = int(rng.integers(1, 5)), int(rng.integers(1, 5))
        sizes, groups = rng.integers(1, 8, n_heads), []
        for n in sizes:
            keys = rng.integers(-50, 51, (n, head_dim)).astype(float)
            weight = rng.integers(-9, 10, (head_dim, dim)).astype(float)
            offsets = np.zeros(n)
            if bias != "none":
                offsets = keys @ rng.integers(-9, 10, head_dim).astype(float)
            if bias == "logit":
                offsets = offsets + rng.integers(-500, 501, n)
            groups.append(np.column_stack([keys @ weight, offsets]))
        most = bounds.attention_cells(sizes, None, dim, bias=bias, head_dim=head_dim)
        assert n_cells(groups) <= most


@pytest.mark.parametrize(("n", "k", "dim"), [(7, 2, 4), (9, 3, 6), (8, 2, 3), (7, 3, 2)])
def test_top_k_sets_are_the_vertices_of_the_hull_of_sums(n, k, dim):
    points = np.arange(n, dtype=float)[:, None] ** np.arange(1, dim + 1)
    sums = np.array([points[list(s)].sum(axis=0) for s in combinations(range(n), k)])
    count = n_vertices([sums])
    assert count <= bounds.top_k_cells(n, k, dim)
    if dim >= 2 * k:
        assert count == bounds.top_k_cells(n, k, dim)


def test_independent_heads_multiply():
    rng = np.random.default_rng(2)
    keys = rng.standard_normal((3, 5, 2))
    spread = np.zeros((3, 5, 6))
    for h in range(3):
        spread[h, :, 2 * h : 2 * h + 2] = keys[h]
    product = np.prod([n_vertices([keys[h]]) for h in range(3)])
    assert n_vertices(spread) == product <= bounds.cells_bias_free(5, 3, 6) == 125
