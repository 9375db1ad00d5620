"""The table of rows a search works on: vertices exact, edges never too few, rows well rounded."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hardmax.geometry._hulls.hull_searches import NO, YES, hull_edges, hull_vertices
from hardmax.geometry._joint_argmax.vertex_graphs import vertex_graphs
from tests.reference.minkowski import choices_by_definition, neighbours_by_definition
from tests.strategies import SMALL, WILD, matrices
from tests.sweeps import examples

NEARLY_TIED = st.builds(
    lambda whole, tiny, bits: whole + tiny * 2.0**-bits,
    st.integers(-2, 2),
    st.integers(-1, 1),
    st.integers(44, 51),
)

JUST_OUTSIDE = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [2.0, 2.0 + 2.0**-51], [1.0, 1.0]])
JUST_INSIDE = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [2.0, 2.0 - 2.0**-51], [1.0, 1.0]])
ON_THE_EDGE = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0], [2.0, 2.0], [1.0, 1.0], [2.0, 2.0]])
BENT_SQUARE = np.array(
    [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 2.0**-52],
     [0.5, 0.5, 4.0], [0.5, 0.5, -4.0], [3.0, -3.0, 0.0]]
)  # fmt: skip
POINTS = matrices(st.integers(4, 8), st.integers(2, 3), NEARLY_TIED | SMALL)


def one_set(points):
    return vertex_graphs([points], np.zeros((0, points.shape[1])))


@examples(100)
@example(JUST_OUTSIDE)
@example(JUST_INSIDE)
@example(ON_THE_EDGE)
@example(BENT_SQUARE)
@given(POINTS)
def test_vertices_match_the_definition(points):
    expected = [i for (i,) in choices_by_definition([points])]
    assert one_set(points).vertices.tolist() == expected


@examples(75)
@example(JUST_OUTSIDE)
@example(BENT_SQUARE)
@given(POINTS)
def test_no_edge_is_missing(points):
    graphs = one_set(points)
    paired = graphs.owner >= 0
    listed = set(zip(graphs.owner[paired].tolist(), graphs.fan.rival[paired].tolist(), strict=True))
    choices = [(int(i),) for i in graphs.vertices]
    edges = neighbours_by_definition([points], choices)
    assert {(i, j) for i, j in edges} | {(j, i) for i, j in edges} <= listed
    assert listed == {(j, i) for i, j in listed}


@pytest.mark.parametrize("n_points", [20, 60])
def test_in_space_the_graph_is_that_of_a_triangulated_sphere(n_points):
    """On a sphere all points are vertices; in general position there are 3 n - 6 edges."""
    points = np.random.default_rng(0).normal(size=(n_points, 3))
    points /= np.linalg.norm(points, axis=1)[:, None]
    graphs = one_set(points)
    assert graphs.vertices.size == n_points
    assert graphs.owner.size == 2 * (3 * n_points - 6)
    assert graphs.n_rational == 0


def test_the_faces_of_a_cube_have_no_diagonals():
    cube = np.array(np.meshgrid(*[[0.0, 1.0, 2.0]] * 3)).reshape(3, -1).T
    graphs = one_set(cube)
    assert (graphs.vertices.size, graphs.owner.size) == (8, 24)


@examples(60)
@given(matrices(st.integers(1, 6), st.integers(1, 4), SMALL | NEARLY_TIED | WILD))
def test_rows_are_differences_rounded_relative_to_each_entry(points):
    graphs = one_set(points)
    exact = graphs.exact_rows(np.arange(graphs.owner.size))
    assert graphs.fan.rows.shape[1] == graphs.coordinates.rank
    for rounded, row in zip(graphs.fan.rows, exact, strict=True):
        scale = Fraction(max(abs(x) for x in row)) / Fraction(float(np.abs(rounded).max()))
        for x, y in zip(rounded, row, strict=True):
            # The largest entry is off by one rounding itself, hence twice the bound.
            error = abs(Fraction(float(x)) - y / scale)
            assert error <= 8 * abs(y / scale) * Fraction(1, 2**53) + Fraction(1, 2**880)


@examples(40)
@given(matrices(st.integers(1, 6), st.integers(1, 4), SMALL | WILD), st.integers(0, 2**32 - 1))
def test_directions_mean_the_same_in_both_coordinates(points, seed):
    """Scores of differences do not depend on the coordinates, up to one positive factor."""
    graphs = one_set(points)
    coordinates = graphs.coordinates
    rng = np.random.default_rng(seed)
    direction = np.empty(coordinates.rank, dtype=object)
    direction[:] = [int(x) for x in rng.integers(-9, 10, coordinates.rank)]
    original = coordinates.original_integers(direction)
    inner = graphs.exact_rows(np.arange(graphs.owner.size)) @ direction
    for number, score in enumerate(inner):
        own, rival = graphs.owner[number], graphs.fan.rival[number]
        step = [
            Fraction(float(a)) - Fraction(float(b))
            for a, b in zip(
                points[graphs.vertices[own]], points[graphs.vertices[rival]], strict=True
            )
        ]
        outer = sum(x * int(u) for x, u in zip(step, original, strict=True))
        assert (outer > 0, outer < 0) == (score > 0, score < 0)


def test_tuples_are_named_and_found_again():
    rng = np.random.default_rng(5)
    sets = [rng.normal(size=(n, 2)) for n in (9, 3, 1)]
    graphs = vertex_graphs(sets, np.zeros((0, 2)))
    leaves = np.array([[0, 1, 4], [0, 3, 5]])
    choices = graphs.choices(leaves)
    np.testing.assert_array_equal(graphs.leaves(choices), leaves)
    assert choices[:, 2].tolist() == [0, 0]
    names = graphs.vertices_by_head()
    assert [len(own) for own in names[1:]] == [3, 1]


def test_the_vertex_search_alone_decides_generic_points():
    points = np.random.default_rng(6).normal(size=(50, 3))
    verdict, _ = hull_vertices(points)
    expected = [i for (i,) in choices_by_definition([points])]
    assert np.flatnonzero(verdict == YES).tolist() == expected
    assert set(verdict.tolist()) == {YES, NO}


def test_the_edge_search_gives_up_on_dense_graphs_and_fills_up_claims():
    rng = np.random.default_rng(7)
    points = rng.normal(size=(12, 6))
    rows = points[:, None] - points[None]
    assert hull_edges(rows, n_samples=20, enough=5) is None
    cube = np.array(np.meshgrid(*[[0.0, 1.0]] * 3)).reshape(3, -1).T
    rows = cube[:, None] - cube[None]
    adjacent, claims = hull_edges(rows, n_samples=1, enough=99, most_claims=3)
    assert claims.shape == (3, 6)
    # Four diagonals through the centre are proved to be none; of those of the faces, which no
    # simplex of full dimension refutes, all but the three that fit count as edges.
    assert (adjacent == YES).sum() == 2 * (28 - 4 - 3)
