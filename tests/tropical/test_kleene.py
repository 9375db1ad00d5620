import re
from fractions import Fraction
from math import inf, nextafter

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.sparse.csgraph import csgraph_from_dense, johnson

from hardmax.errors import ArgumentError, PositiveCycleError
from hardmax.tropical.matrices import walks
from hardmax.tropical.matrices.semiring import maxplus, minplus
from tests.reference.semiring import best_weight, simple_cycles, walk_weight
from tests.strategies import SMALL, WILD, matrices

SEMIRINGS = pytest.mark.parametrize("semiring", [maxplus, minplus], ids=lambda s: s.name)
TENTHS = st.integers(-12, 4).map(lambda n: n / 10)
"""Weights whose float sums are off by a rounding: 0.1 + 0.2 is not 0.3."""


def graphs(largest=4, finite=SMALL):
    """Max-plus adjacency matrices, about half of the edges missing."""
    element = st.one_of(finite, st.just(-np.inf))
    sizes = st.integers(1, largest)
    return sizes.flatmap(lambda n: matrices(n, n, element))


def ring(*weights):
    """The directed cycle 0 -> 1 -> ... -> 0 with these weights, and no other edge."""
    n = len(weights)
    matrix = np.full((n, n), -np.inf)
    for i, weight in enumerate(weights):
        matrix[i, (i + 1) % n] = weight
    return matrix


def star_unless_it_overflows(semiring, matrix):
    """The star, or None if the weight of a path leaves float64."""
    try:
        return semiring.kleene_star(matrix)
    except ArgumentError as error:
        if "range of float64" in str(error):
            return None
        raise


def reported(error):
    """The cycle and the weight that a message names."""
    nodes, weight = re.search(r"the cycle ([\d >-]+) has weight (\S+)\.$", str(error)).groups()
    return [int(node) for node in nodes.split(" -> ")], float(weight)


# --- against the definition ---------------------------------------------------------------------


@example(np.array([[0.0]]))
@example(np.full((3, 3), -np.inf))
@given(st.one_of(graphs(), graphs(finite=TENTHS), graphs(3, WILD)))
def test_the_star_exists_exactly_when_no_cycle_is_positive(matrix):
    """Existence is decided about the floats as they are, by exact enumeration of the cycles."""
    positive = {nodes: weight for nodes, weight in simple_cycles(matrix) if weight > 0}
    for semiring, signed in ((maxplus, matrix), (minplus, -matrix)):
        if not positive:
            star = star_unless_it_overflows(semiring, signed)
            assert star is None or (np.diag(star) == 0).all()
            continue
        with pytest.raises(PositiveCycleError, match="`matrix` must not have a cycle") as caught:
            semiring.kleene_star(signed)
        nodes, weight = reported(caught.value)
        assert nodes[0] == nodes[-1] == min(nodes)
        exact = positive[tuple(nodes[:-1])]
        assert abs(weight) == (float(exact) if exact < Fraction(1.7e308) else abs(weight))
        assert weight > 0 if semiring is maxplus else weight < 0


@given(graphs(5))
def test_entries_are_the_best_paths(matrix):
    """Small integers: float sums are exact, so the star must be too."""
    np.fill_diagonal(matrix, -np.inf)
    matrix -= 4.0  # Now no cycle is positive.
    star = maxplus.kleene_star(matrix)
    for i, j in np.ndindex(matrix.shape):
        best = best_weight(matrix, i, j, max)
        assert star[i, j] == (-np.inf if best is None else best)
    np.testing.assert_array_equal(minplus.kleene_star(-matrix), -star)


@given(graphs(4, st.floats(-1.0, 0.0)))
def test_rounded_entries_are_within_the_promised_distance(matrix):
    star = maxplus.kleene_star(matrix)
    for i, j in np.ndindex(matrix.shape):
        best = best_weight(matrix, i, j, max)
        assert np.isfinite(star[i, j]) == (best is not None)
        if best is not None:
            assert abs(Fraction(star[i, j]) - best) <= Fraction(2 * 2 * len(matrix), 2**53)


# --- theorems -------------------------------------------------------------------------------------


@given(graphs(6))
def test_the_star_is_the_least_solution_of_its_equation(matrix):
    """A* = I + A A*, A* A* = A*, and the series up to A^(n-1) is all of it."""
    matrix = matrix - 4.0
    star = maxplus.kleene_star(matrix)
    identity = maxplus.identity(len(matrix))
    np.testing.assert_array_equal(star, maxplus.add(identity, maxplus.matmul(matrix, star)))
    np.testing.assert_array_equal(star, maxplus.matmul(star, star))
    series = identity
    for exponent in range(1, len(matrix)):
        series = maxplus.add(series, maxplus.power(matrix, exponent))
    np.testing.assert_array_equal(star, series)


@SEMIRINGS
@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 9, 17, 33, 120])
def test_paths_of_every_length_are_found(semiring, n):
    """One long path: the star needs all n - 1 edges of it."""
    order = np.random.default_rng(n).permutation(n)
    matrix = semiring.zeros((n, n))
    matrix[order[:-1], order[1:]] = 1.0
    expected = semiring.zeros((n, n))
    for i in range(n):
        for j in range(i, n):
            expected[order[i], order[j]] = j - i
    np.testing.assert_array_equal(semiring.kleene_star(matrix), expected)


@pytest.mark.parametrize("seed", range(3))
def test_min_plus_agrees_with_johnson(seed):
    rng = np.random.default_rng(seed)
    n = 60
    potential = rng.integers(-20, 20, n)
    matrix = rng.integers(0, 30, (n, n)) + potential[:, None] - potential[None, :]
    matrix = np.where(rng.random((n, n)) < 0.93, np.inf, matrix)
    np.fill_diagonal(matrix, np.inf)
    assert (matrix < 0).any()
    expected = johnson(csgraph_from_dense(matrix, null_value=np.inf))
    assert np.isinf(expected).any()
    np.testing.assert_array_equal(minplus.kleene_star(matrix), expected)


# --- cycles a rounding away from zero -------------------------------------------------------------


def test_decimal_cycles_are_judged_by_their_stored_weights():
    """0.1 + 0.2 - 0.3 is 2**-55 as stored; summed in floats from the left it is twice that."""
    assert Fraction(0.1) + Fraction(0.2) - Fraction(0.3) == Fraction(1, 2**55)
    assert 0.1 + 0.2 - 0.3 == 2.0**-54
    assert -0.3 + 0.1 + 0.2 == 2.0**-55 == -0.3 + 0.2 + 0.1
    for turn in range(3):
        for order in ([0.1, 0.2, -0.3], [0.2, 0.1, -0.3]):
            matrix = ring(*np.roll(order, turn))
            with pytest.raises(PositiveCycleError) as caught:
                maxplus.kleene_star(matrix)
            assert reported(caught.value) == ([0, 1, 2, 0], 2.0**-55)
            assert (np.diag(maxplus.kleene_star(_negated(matrix))) == 0).all()


def _negated(matrix):
    return np.where(np.isfinite(matrix), -matrix, matrix)


@pytest.mark.parametrize(
    "weights",
    [
        (0.1, 0.2, -0.1, -0.2),
        (0.1, 0.7, 0.2, -0.2, -0.1, -0.7),
        (1e16, 1.0, -1e16, -1.0),
        (1e300, 1e-300, -1e300, -1e-300),
        (5e-324, 1.0, -5e-324, -1.0),
    ],
    ids=str,
)
def test_cycles_of_weight_exactly_zero_pass_in_every_rotation(weights):
    for turn in range(len(weights)):
        matrix = ring(*np.roll(weights, turn))
        star = maxplus.kleene_star(matrix)
        assert (np.diag(star) == 0).all()
        assert np.isfinite(star).all()
        assert (np.diag(minplus.kleene_star(np.where(matrix == -inf, inf, matrix))) == 0).all()


def test_some_of_those_cycles_sum_to_more_than_zero_in_floats():
    """Otherwise the test above would not test anything."""
    assert 0.1 + 0.7 + 0.2 - 0.2 - 0.1 - 0.7 > 0
    assert 0.1 + 0.2 - 0.1 - 0.2 > 0
    assert 1e16 + 1.0 - 1e16 - 1.0 != 0


@pytest.mark.parametrize("turn", range(4))
def test_cycles_that_floats_cannot_tell_from_zero_are_refused_when_positive(turn):
    tiny = 1e-300
    with pytest.raises(PositiveCycleError) as caught:
        maxplus.kleene_star(ring(*np.roll([1e300, tiny, -1e300, -tiny / 2], turn)))
    assert reported(caught.value)[1] == tiny / 2
    negative = ring(*np.roll([1e300, tiny, -1e300, -2 * tiny], turn))
    assert (np.diag(maxplus.kleene_star(negative)) == 0).all()


def test_loops_are_cycles():
    with pytest.raises(PositiveCycleError, match=r"the cycle 1 -> 1 has weight 5e-324"):
        maxplus.kleene_star([[0.0, 1.0], [-np.inf, 5e-324]])
    assert maxplus.kleene_star([[0.0, 1.0], [-np.inf, -5e-324]]).tolist() == [[0, 1], [-inf, 0]]


def test_a_cycle_heavier_than_any_float_is_still_named():
    with pytest.raises(PositiveCycleError, match=r"0 -> 1 -> 0 has weight 3\.00e\+308"):
        maxplus.kleene_star(ring(1.5e308, 1.5e308))
    with pytest.raises(PositiveCycleError, match=r"0 -> 1 -> 0 has weight -3\.00e\+308"):
        minplus.kleene_star(-ring(1.5e308, 1.5e308))


def test_a_path_heavier_than_any_float_is_refused():
    path = maxplus.zeros((3, 3))
    path[0, 1] = path[1, 2] = 1.5e308
    with pytest.raises(ArgumentError, match=r"product of `matrix` exceeds the range"):
        maxplus.kleene_star(path)
    with pytest.raises(ArgumentError, match=r"product of `matrix` exceeds the range"):
        maxplus.kleene_star(_negated(path))


def test_zero_cycles_do_not_wind_up_in_a_dense_graph():
    """Every cycle weighs exactly zero; rounding alone must not make walks longer and longer."""
    rng = np.random.default_rng(5)
    n = 40
    potential = rng.integers(-(2**40), 2**40, n) * 2.0**-20
    matrix = potential[None, :] - potential[:, None]
    np.testing.assert_array_equal(maxplus.kleene_star(matrix), matrix)


def test_the_star_of_nothing_is_nothing():
    assert maxplus.kleene_star(np.zeros((0, 0))).shape == (0, 0)
    assert maxplus.kleene_star([[-np.inf]]).tolist() == [[0.0]]


# --- the exact search does not trust its guess ----------------------------------------------------


@pytest.mark.parametrize("guess", ["nothing", "one cycle", "a bad tree"])
@given(matrix=st.one_of(graphs(4), graphs(4, TENTHS)))
def test_the_answer_is_right_whatever_the_guess_was(guess, matrix):
    n = len(matrix)

    def proposal(weights, starts):
        parents = np.full(n, -1, dtype=np.int64)
        if guess == "one cycle" and np.isfinite(np.diag(matrix)).all():
            parents[:] = np.arange(n)
        elif guess == "a bad tree":
            for j in range(1, n):
                parents[j] = 0 if np.isfinite(matrix[0, j]) else -1
        return parents

    starts = np.ones(n, dtype=bool)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walks, "_guess_parents", proposal)
        weights = walks.ExactWeights(matrix)
        found = walks.heaviest_walks(weights, starts)
    positive = [nodes for nodes, weight in simple_cycles(matrix) if weight > 0]
    assert (found.cycle is not None) == bool(positive)
    if found.cycle is not None:
        assert walk_weight(matrix, (*found.cycle, found.cycle[0])) > 0
        return
    for j, label in enumerate(found.labels):
        best = max(
            weight for i in range(n) if (weight := best_weight(matrix, i, j, max)) is not None
        )
        assert label * weights.unit == best


def test_the_float_filter_settles_integer_ties_without_big_integers():
    matrix = np.zeros((50, 50))
    weights = walks.ExactWeights(matrix)
    assert walks._list_suspects(weights, [0] * 50) == []
    matrix[3, 4] = nextafter(0.0, 1.0)
    assert walks._list_suspects(walks.ExactWeights(matrix), [0] * 50) == [(3, 4)]
