from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import bellman_ford, csgraph_from_dense, floyd_warshall, johnson

from hardmax.errors import (
    ArgumentError,
    DtypeError,
    NonFiniteError,
    PositiveCycleError,
    ShapeMismatchError,
)
from hardmax.tropical.matrices.graphs import (
    all_longest_paths,
    all_shortest_paths,
    longest_paths,
    shortest_paths,
)
from hardmax.tropical.matrices.semiring import maxplus, minplus
from tests.reference.semiring import best_weight, simple_cycles, walk_weight
from tests.strategies import SMALL, matrices

TENTHS = st.integers(-12, 3).map(lambda n: n / 10)


def graphs(finite, largest=5):
    element = st.one_of(finite, st.just(-np.inf))
    return st.integers(1, largest).flatmap(lambda n: matrices(n, n, element))


def random_graph(seed, n=80, density=0.08, integers=True):
    """Min-plus weights with many negative edges, no negative cycle and unreachable nodes."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 30, (n, n)) if integers else rng.exponential(10.0, (n, n))
    potential = rng.integers(-40, 40, n)
    weights = np.where(
        rng.random((n, n)) < density, lengths + potential[:, None] - potential, np.inf
    )
    weights[:, : n // 8] = np.inf
    np.fill_diagonal(weights, np.inf)
    assert (weights < 0).any()
    return weights


def assert_is_best_path(weights, tree, target, best):
    path = tree.path_to(target)
    exact = best_weight(weights, tree.source, target, best)
    if exact is None:
        assert path == []
        assert tree.parents[target] == -1
        assert np.isinf(tree.weights[target])
        return
    assert path[0] == tree.source
    assert path[-1] == target
    assert len(set(path)) == len(path)
    assert walk_weight(weights, path) == exact
    assert tree.weights[target] == float(exact)


@given(st.one_of(graphs(SMALL), graphs(TENTHS), graphs(st.floats(-1.0, 0.2))))
def test_paths_are_best_and_their_weights_correctly_rounded(weights):
    """Against the enumeration of all simple paths in fractions, also where floats mislead."""
    if any(weight > 0 for _, weight in simple_cycles(weights)):
        weights = np.where(weights > 0, -weights, weights)
    longest, shortest = longest_paths(weights, 0), shortest_paths(-weights, 0)
    for target in range(len(weights)):
        assert_is_best_path(weights, longest, target, max)
        assert_is_best_path(-weights, shortest, target, min)


@given(graphs(TENTHS, largest=4))
def test_only_a_positive_cycle_that_the_source_reaches_is_refused(weights):
    reached = [best_weight(weights, 0, node, max) is not None for node in range(len(weights))]
    diverges = any(weight > 0 and reached[nodes[0]] for nodes, weight in simple_cycles(weights))
    if diverges:
        with pytest.raises(PositiveCycleError, match="`weights` must not have a cycle of positive"):
            longest_paths(weights, 0)
    else:
        assert np.isfinite(longest_paths(weights, 0).weights).tolist() == reached


@pytest.mark.parametrize("seed", range(4))
def test_one_source_agrees_with_bellman_ford(seed):
    weights = random_graph(seed)
    expected, predecessors = bellman_ford(
        csgraph_from_dense(weights, null_value=np.inf), indices=3, return_predecessors=True
    )
    tree = shortest_paths(weights, 3)
    np.testing.assert_array_equal(tree.weights, expected)
    assert np.isinf(expected).any()
    assert np.isfinite(expected).sum() > 40
    np.testing.assert_array_equal(tree.parents < 0, predecessors < 0)
    for target in range(len(weights)):
        path = tree.path_to(target)
        assert sum(weights[i, j] for i, j in pairwise(path)) == expected[target] or not path


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("integers", [True, False])
def test_all_pairs_agree_with_floyd_warshall_and_johnson(seed, integers):
    weights = random_graph(seed, integers=integers)
    table = all_shortest_paths(weights)
    sparse = csgraph_from_dense(weights, null_value=np.inf)
    tolerance = 0.0 if integers else 1e-11
    for peer in (floyd_warshall, johnson):
        np.testing.assert_allclose(table.weights, peer(sparse), rtol=0, atol=tolerance)
    mirrored = all_longest_paths(-weights)
    np.testing.assert_array_equal(mirrored.weights, -table.weights)
    for source, target in [(0, 70), (5, 5), (12, 3), (40, 41)]:
        path = table.path(source, target)
        assert (path == []) == np.isinf(table.weights[source, target])
        total = sum(Fraction(weights[i, j]) for i, j in pairwise(path))
        if path:
            assert float(total) == pytest.approx(table.weights[source, target], abs=tolerance)
        assert mirrored.path(source, target) == path


def test_one_source_is_a_row_of_the_star_and_a_fixed_point():
    weights = random_graph(9)
    star = minplus.kleene_star(weights)
    for source in (0, 17, 79):
        tree = shortest_paths(weights, source)
        np.testing.assert_array_equal(tree.weights, star[source])
        step = minplus.add(tree.weights, minplus.matmul(tree.weights, weights))
        np.testing.assert_array_equal(step, tree.weights)


def test_weights_are_rounded_once_however_long_the_path():
    """Steps of a quarter unit in the last place: a float sum from the left would stay at 1."""
    n = 40
    weights = maxplus.zeros((n, n))
    weights[range(n - 1), range(1, n)] = 2.0**-54
    weights[0, 1] = 1.0
    tree = longest_paths(weights, 0)
    assert tree.weights[-1] == float(1 + (n - 2) * Fraction(1, 2**54)) > 1.0
    assert tree.path_to(n - 1) == list(range(n))


@pytest.mark.parametrize(("better", "other"), [(1, 2), (2, 1)])
def test_the_better_of_two_paths_is_found_below_the_rounding(better, other):
    """1 + 2**-60 by one path, 1 by the other; rounded they tie."""
    weights = maxplus.zeros((4, 4))
    weights[0, 1] = weights[0, 2] = 1.0
    weights[other, 3], weights[better, 3] = 0.0, 2.0**-60
    assert longest_paths(weights, 0).path_to(3) == [0, better, 3]


@pytest.mark.parametrize("function", [longest_paths, shortest_paths])
def test_a_single_node_reaches_itself(function):
    tree = function([[0.0]], 0)
    assert (tree.weights.tolist(), tree.parents.tolist(), tree.path_to(0)) == ([0.0], [-1], [0])


def test_results_cannot_be_changed_by_accident():
    tree = longest_paths([[-1.0]], 0)
    for array in (tree.weights, tree.parents, all_longest_paths([[-1.0]]).weights):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 7


@pytest.mark.parametrize(
    ("attempt", "error", "name"),
    [
        (lambda: longest_paths([[1.0, 2.0]], 0), ShapeMismatchError, "`weights`"),
        (lambda: longest_paths([[np.inf]], 0), NonFiniteError, "`weights`"),
        (lambda: shortest_paths([[-np.inf]], 0), NonFiniteError, "`weights`"),
        (lambda: shortest_paths([[np.nan]], 0), NonFiniteError, "`weights`"),
        (lambda: shortest_paths([["a"]], 0), DtypeError, "`weights`"),
        (lambda: all_shortest_paths(np.zeros(3)), ShapeMismatchError, "`weights`"),
        (lambda: all_longest_paths([[1.0]]), PositiveCycleError, "`weights`"),
        (lambda: longest_paths([[0.0]], 1), ArgumentError, "`source`"),
        (lambda: longest_paths([[0.0]], -1), ArgumentError, "`source`"),
        (lambda: longest_paths(np.zeros((0, 0)), 0), ArgumentError, "`source`"),
        (lambda: longest_paths([[0.0]], 0.0), DtypeError, "`source`"),
        (lambda: longest_paths([[0.0]], 0).path_to(1), ArgumentError, "`target`"),
        (lambda: all_longest_paths([[0.0]]).path(0, 1), ArgumentError, "`target`"),
        (lambda: all_longest_paths([[0.0]]).path(2, 0), ArgumentError, "`source`"),
        (
            lambda: longest_paths(np.where(np.eye(3, k=1) > 0, 1.7e308, -np.inf), 0),
            ArgumentError,
            "range of float64",
        ),
    ],
)
def test_bad_input_is_refused_by_name(attempt, error, name):
    with pytest.raises(error, match=name):
        attempt()
