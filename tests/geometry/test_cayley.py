"""The Cayley embedding, and what it says about Minkowski sums."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hardmax as hm
from hardmax.errors import DtypeError, EmptyInputError, ShapeMismatchError
from tests.strategies import matrices


def test_each_set_stands_at_its_corner():
    first, second = np.array([[0.1, 2.0]]), np.array([[3.0, 4.0], [5.0, 6.0]])
    embedded = hm.geometry.cayley_embedding([first, second])
    assert embedded.tolist() == [[0.0, 0.1, 2.0], [1.0, 3.0, 4.0], [1.0, 5.0, 6.0]]
    assert hm.geometry.cayley_embedding([first]).tolist() == first.tolist()


@given(st.lists(matrices(st.integers(1, 4), 2), min_size=2, max_size=3))
def test_faces_with_a_vertex_of_each_set_are_the_vertices_of_the_sum(point_sets):
    """The Cayley trick, for degenerate sets too: repeated, collinear, parallel."""
    polytope = hm.geometry.cayley_polytope(point_sets)
    n_sets = len(point_sets)
    vertices = polytope.vertices
    corner = [int(np.argmax(np.r_[1 - v[: n_sets - 1].sum(), v[: n_sets - 1]])) for v in vertices]
    facets = polytope.facets.vertices
    count = 0
    for chosen in combinations(range(len(vertices)), n_sets):
        if sorted(corner[k] for k in chosen) == list(range(n_sets)):
            # A face is the meet of the facets through it; without any it is the whole polytope.
            through = facets[facets[:, list(chosen)].all(axis=1)]
            members = through.all(axis=0) if len(through) else np.ones(len(vertices), np.bool_)
            count += int(members.sum()) == n_sets
    assert count == hm.minkowski_vertices(point_sets).count


@given(matrices(st.integers(1, 4), 2), matrices(st.integers(1, 4), 2))
def test_the_middle_section_is_half_the_sum(first, second):
    polytope = hm.geometry.cayley_polytope([first, second])
    total = hm.minkowski_vertices([first, second])
    middle = np.column_stack([np.full(total.count, 0.5), total.points / 2])
    assert polytope.contains(middle).all()
    beyond = np.column_stack([np.full(total.count, 0.5), total.points / 2 + total.directions])
    assert not polytope.contains(beyond).any() or not total.directions.any()


@pytest.mark.parametrize(
    ("point_sets", "error"),
    [
        ([], EmptyInputError),
        (3, DtypeError),
        ([[[1.0]], [[1.0, 2.0]]], ShapeMismatchError),
        ([np.zeros((0, 2))], EmptyInputError),
    ],
)
def test_what_is_no_list_of_point_sets_is_refused(point_sets, error):
    with pytest.raises(error, match="`point_sets"):
        hm.geometry.cayley_embedding(point_sets)


def test_an_unbounded_polyhedron_is_not_simplicial():
    assert not hm.Polytope([[-1.0, 0.0], [0.0, -1.0]], [0.0, 0.0]).is_simplicial
    assert hm.Polytope.from_points([[1.0, 2.0]]).is_simplicial
