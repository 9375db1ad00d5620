"""Normal fans: their rays, their cones, and the faces they count."""

from itertools import combinations, product
from math import comb, factorial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import ConvexHull

from hardmax.errors import DtypeError, EmptyInputError
from hardmax.geometry.minkowski import minkowski_vertices
from hardmax.geometry.normal_fans import normal_fan, refine_fans
from hardmax.geometry.polytopes import Polytope
from tests.reference.minkowski import selected_by
from tests.strategies import SMALL
from tests.sweeps import examples


@st.composite
def point_sets(draw, most=6, max_dim=4, max_sets=2):
    dim = draw(st.integers(1, max_dim))
    point = st.lists(SMALL, min_size=dim, max_size=dim)
    sets = draw(st.lists(st.lists(point, min_size=1, max_size=most), min_size=1, max_size=max_sets))
    return [np.array(points) for points in sets]


def gaussian(dim, n_sets, n_points, seed=0):
    rng = np.random.default_rng(seed)
    return [np.round(rng.normal(size=(n_points, dim)) * 1e3) for _ in range(n_sets)]


def face_of(points, normal):
    """The vertices on the face where an integer normal is largest, in Python integers."""
    scores = [sum(int(x) * int(u) for x, u in zip(p, normal, strict=True)) for p in points]
    return {k for k, s in enumerate(scores) if s == max(scores)}


@examples(40)
@given(point_sets())
def test_the_rays_of_a_cone_are_largest_at_its_vertex(sets):
    fan = normal_fan(sets)
    faces = [face_of(fan.vertices.points, ray) for ray in fan.rays]
    for k, cone in enumerate(fan.maximal_cones):
        assert set(cone.tolist()) == {r for r, face in enumerate(faces) if k in face}


@examples(40)
@given(point_sets())
def test_rays_are_facet_normals_in_the_span(sets):
    fan = normal_fan(sets)
    assert not (fan.rays @ fan.lineality.T).any()
    for ray in fan.rays:
        face = sorted(face_of(fan.vertices.points, ray))
        points = fan.vertices.points[face]
        rank = np.linalg.matrix_rank(points - points[0]) if len(face) > 1 else 0
        assert rank == fan.polytope_dim - 1
    spread = fan.vertices.points - fan.vertices.points[0]
    assert not (spread @ fan.lineality.T.astype(float)).any()
    assert np.linalg.matrix_rank(spread) == fan.polytope_dim


@examples(40)
@given(point_sets())
def test_eulers_relation_holds(sets):
    fan = normal_fan(sets)
    alternating = sum((-1) ** k * f for k, f in enumerate(fan.f_vector))
    assert alternating == 1 - (-1) ** fan.polytope_dim
    assert len(fan.f_vector) == fan.polytope_dim


@examples(30)
@given(point_sets())
def test_faces_agree_with_the_polytope_of_the_vertices(sets):
    fan = normal_fan(sets)
    assert fan.f_vector == Polytope.from_points(fan.vertices.points).f_vector


@examples(30)
@given(point_sets())
def test_walls_of_the_fan_are_edges_of_the_sum(sets):
    fan = normal_fan(sets)
    if fan.polytope_dim < 2:
        return
    edges = {
        frozenset(a.tolist()) & frozenset(b.tolist())
        for a, b in ((fan.maximal_cones[i], fan.maximal_cones[j]) for i, j in fan.vertices.edges)
    }
    assert edges == {frozenset(cone) for cone in fan.cones(fan.polytope_dim - 1)}
    assert fan.f_vector[1] == fan.vertices.edges.shape[0]


@pytest.mark.parametrize(("dim", "n_sets", "n_points"), [(2, 3, 6), (3, 2, 7), (4, 2, 6)])
def test_facets_match_qhull(dim, n_sets, n_points):
    fan = normal_fan(gaussian(dim, n_sets, n_points))
    hull = ConvexHull(fan.vertices.points)
    normals = {tuple(np.round(equation[:-1], 9)) for equation in hull.equations}
    assert fan.f_vector[0] == len(hull.vertices)
    assert len(fan.rays) == len(normals)


@pytest.mark.parametrize("dim", [1, 2, 3, 4])
def test_the_cube_has_the_faces_of_a_cube(dim):
    cube = np.array(list(product([0.0, 1.0], repeat=dim)))
    expected = tuple(comb(dim, k) * 2 ** (dim - k) for k in range(dim))
    assert normal_fan([cube]).f_vector == expected
    assert normal_fan([cube[[0, 2**k]] for k in range(dim)]).f_vector == expected


def stirling(n, k):
    return sum((-1) ** (k - j) * comb(k, j) * j**n for j in range(k + 1)) // factorial(k)


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_the_permutohedron_counts_ordered_partitions(n):
    """Faces of dimension n - k are the ordered partitions into k blocks; the sum is flat."""
    unit = np.eye(n)
    fan = normal_fan([unit[[i, j]] for i, j in combinations(range(n), 2)])
    assert fan.f_vector == tuple(factorial(k) * stirling(n, k) for k in range(n, 1, -1))
    assert fan.lineality.tolist() == [[1] * n]


@examples(30)
@given(point_sets(max_sets=3, max_dim=3))
def test_refining_fans_is_adding_polytopes(sets):
    refined = refine_fans([normal_fan([points]) for points in sets])
    together = normal_fan(sets)
    assert refined.f_vector == together.f_vector
    np.testing.assert_array_equal(refined.rays, together.rays)
    np.testing.assert_array_equal(refined.vertices.choices, minkowski_vertices(sets).choices)


def test_a_refined_cone_lies_in_one_cone_of_each_fan():
    sets = gaussian(3, 2, 6)
    fan = refine_fans([normal_fan([points]) for points in sets])
    for choice, cone in zip(fan.vertices.choices.tolist(), fan.maximal_cones, strict=True):
        inside = fan.rays[cone].sum(axis=0)
        assert selected_by(sets, inside.tolist()) == [(i, True) for i in choice]


def test_a_point_has_the_whole_space_as_its_cone():
    fan = normal_fan([[[1.0, 2.0, 3.0]]])
    assert (fan.f_vector, fan.rays.shape, fan.lineality.tolist()) == (
        (),
        (0, 3),
        [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    )
    assert fan.cones(0) == [()]


def test_cones_are_closed_under_faces():
    fan = normal_fan(gaussian(4, 1, 7))
    for k in range(1, 5):
        below = {frozenset(cone) for cone in fan.cones(k - 1)}
        for cone in fan.cones(k):
            assert sum(face < frozenset(cone) for face in below) >= k
    assert fan.cones(7) == []


@pytest.mark.parametrize(
    ("fans", "error"), [([], EmptyInputError), ([3], DtypeError), (3, DtypeError)]
)
def test_bad_fans_are_refused_by_name(fans, error):
    with pytest.raises(error, match="`fans"):
        refine_fans(fans)
