import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy.spatial import ConvexHull

from hardmax.errors import ArgumentError, EmptyInputError, NonFiniteError, ShapeMismatchError
from hardmax.geometry.domains import Box, WholeSpace
from hardmax.geometry.polytopes import Polytope
from tests.dense_arrays import dense_matrices
from tests.reference.diagrams import polygon_area, rank, vertices_by_definition
from tests.strategies import SMALL, WILD
from tests.sweeps import examples


def cube(dim, half=1.0):
    return Polytope(np.concatenate([np.eye(dim), -np.eye(dim)]), np.full(2 * dim, half))


def cross_polytope(dim):
    return Polytope(list(product((1, -1), repeat=dim)), np.ones(2**dim))


@st.composite
def inequalities(draw, elements=SMALL):
    dim = draw(st.integers(1, 3))
    A = draw(dense_matrices(st.integers(1, 7), dim, elements))
    b = draw(dense_matrices(1, A.shape[0], elements))[0]
    return A, b


def exact_set(polytope):
    return {tuple(point) for point in polytope.exact_vertices.tolist()}


def dot(a, x):
    return sum((Fraction(p) * Fraction(q) for p, q in zip(a, x, strict=True)), Fraction(0))


@examples(100)
@given(inequalities())
@example((np.array([[1.0], [-1.0]]), np.array([0.0, -1.0])))
@example((np.zeros((2, 2)), np.array([0.0, 1.0])))
@example((np.zeros((1, 2)), np.array([-1.0])))
def test_vertices_match_the_definition(system):
    A, b = system
    polytope = Polytope(A, b)
    if polytope.lineality.shape[0]:
        assert vertices_by_definition(A, b) == set()
    else:
        assert exact_set(polytope) == vertices_by_definition(A, b)
    assert len(exact_set(polytope)) == polytope.vertices.shape[0]
    for vertex, rounded in zip(polytope.exact_vertices, polytope.vertices, strict=True):
        assert [float(x) for x in vertex] == rounded.tolist()
        assert all(dot(a, vertex) <= bound for a, bound in zip(A, b.tolist(), strict=True))
    for ray in polytope.exact_rays:
        assert all(dot(a, ray.tolist()) <= 0 for a in A)
    for line in polytope.exact_lineality:
        assert all(dot(a, line.tolist()) == 0 for a in A)


@examples(40)
@given(inequalities(WILD))
@example((np.array([[1e-300, 1.0], [-1.0, 1e300], [3.0, -5e-324]]), np.array([1.0, 2.0, 1e-300])))
def test_vertices_match_the_definition_at_any_scale(system):
    A, b = system
    polytope = Polytope(A, b)
    if not polytope.lineality.shape[0]:
        assert exact_set(polytope) == vertices_by_definition(A, b)


@examples(75)
@given(inequalities(), st.data())
def test_containment_matches_the_definition(system, data):
    A, b = system
    points = data.draw(dense_matrices(4, A.shape[1], data.draw(st.sampled_from([SMALL, WILD]))))
    wanted = [
        all(dot(a, x) <= Fraction(bound) for a, bound in zip(A, b, strict=True)) for x in points
    ]
    assert Polytope(A, b).contains(points).tolist() == wanted


def test_containment_is_exact_where_floats_cannot_tell():
    third = Polytope([[3.0]], [1.0])
    below, above = 1 / 3, np.nextafter(1 / 3, 1)
    assert third.contains([[below], [above]]).tolist() == [True, False]
    assert Polytope([[1e308, 1e308]], [0.0]).contains([[1e308, -1e308]]).tolist() == [True]
    assert Polytope([[5e-324]], [0.0]).contains([[5e-324], [-5e-324]]).tolist() == [False, True]


def test_containment_is_exact_within_half_a_unit_in_the_last_place():
    """Each bound is the rounded value of the form at the point: floats see a tie or a lie."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        a, x = rng.standard_normal(4), rng.standard_normal(4)
        value = dot(a, x)
        for bound in (float(value), float(value) + 1e-17):
            assert Polytope([a], [bound]).contains([x]).tolist() == [value <= Fraction(bound)]


@examples(75)
@given(dense_matrices(st.integers(1, 8), st.integers(1, 3)))
def test_a_hull_holds_its_points_and_has_only_extreme_vertices(points):
    hull = Polytope.from_points(points)
    assert hull.contains(points).all()
    given_points = {tuple(map(Fraction, row)) for row in points.tolist()}
    assert exact_set(hull) <= given_points
    differences = (points - points[0]).astype(int).tolist()
    assert hull.affine_dim == rank(differences, points.shape[1])
    # The hull's own inequalities give the same vertices back, by the other conversion.
    again = Polytope.from_rows([tuple(row) for row in hull.rows.tolist()], points.shape[1])
    assert exact_set(again) == exact_set(hull)
    assert again.affine_dim == hull.affine_dim
    assert {frozenset(t) for t in again.generators.tight} == {
        frozenset(t) for t in hull.generators.tight
    }
    assert again.facets.rows.tolist() == hull.facets.rows.tolist()


@pytest.mark.parametrize(("n_points", "dim"), [(12, 2), (30, 3), (14, 4)])
def test_a_generic_hull_agrees_with_qhull(n_points, dim):
    points = np.random.default_rng(5).standard_normal((n_points, dim))
    ours, theirs = Polytope.from_points(points), ConvexHull(points)
    assert sorted(ours.vertices.tolist()) == sorted(points[theirs.vertices].tolist())
    assert ours.volume_float == pytest.approx(theirs.volume)
    assert ours.f_vector[-1] == theirs.nsimplex


@examples(60)
@given(dense_matrices(st.integers(3, 8), 2))
def test_a_polygon_runs_counter_clockwise_around_its_area(points):
    hull = Polytope.from_points(points)
    assume(hull.affine_dim == 2)
    loop = hull.exact_vertices[hull.polygon_order].tolist()
    assert polygon_area(loop) == hull.volume > 0
    for k in range(len(loop)):
        corner = [loop[k - 2], loop[k - 1], loop[k]]
        assert polygon_area(corner) > 0
    assert hull.polygon.tolist() == [[float(x) for x in p] for p in loop]


@examples(60)
@given(inequalities())
def test_euler_counts_the_faces_of_every_polyhedron(system):
    polytope = Polytope(*system)
    assume(not polytope.is_empty and polytope.affine_dim >= 1)
    faces = (*polytope.f_vector, 1)
    euler = sum((-1) ** k * f for k, f in enumerate(faces))
    if polytope.is_bounded:
        assert euler == 1
    elif not polytope.lineality.shape[0]:
        assert euler == 0
    if not polytope.lineality.shape[0]:
        assert faces[0] == polytope.vertices.shape[0]
    assert polytope.facets.rows.shape[0] == faces[polytope.affine_dim - 1]


@pytest.mark.parametrize("dim", [1, 2, 3, 4, 5])
def test_cubes_and_cross_polytopes_have_their_face_numbers(dim):
    wanted = tuple(math.comb(dim, k) * 2 ** (dim - k) for k in range(dim))
    assert cube(dim).f_vector == wanted
    assert cube(dim).volume == 2**dim
    assert cross_polytope(dim).f_vector == wanted[::-1]
    assert cross_polytope(dim).volume == Fraction(2**dim, math.factorial(dim))


def test_the_24_cell_has_its_face_numbers_and_volume():
    points = [
        [s * (c == i) + t * (c == j) for c in range(4)]
        for i in range(4)
        for j in range(i)
        for s in (1, -1)
        for t in (1, -1)
    ]
    cell = Polytope.from_points(points)
    assert cell.f_vector == (24, 96, 96, 24)
    assert cell.volume == 8


def test_a_cyclic_polytope_is_neighbourly():
    cyclic = Polytope.from_points([[t**k for k in range(1, 5)] for t in range(8)])
    assert cyclic.f_vector == (8, 28, 40, 20)


def test_faces_of_unbounded_polyhedra():
    quadrant = Polytope([[-1, 0], [0, -1]], [0, 0])
    assert quadrant.f_vector == (1, 2)
    assert sorted(quadrant.rays.tolist()) == [[0.0, 1.0], [1.0, 0.0]]
    assert quadrant.volume == math.inf
    strip = Polytope([[1, 0], [-1, 0]], [1, 1])
    assert strip.f_vector == (0, 2)
    assert strip.facets.rows.tolist() == [0, 1]
    ray = Polytope([[-1]], [0])
    assert ray.f_vector == (1,)
    space = Polytope(np.zeros((0, 3)), np.zeros(0))
    assert (space.affine_dim, space.f_vector, space.is_bounded) == (3, (0, 0, 0), False)


def test_redundant_and_repeated_inequalities_are_no_facets():
    square = Polytope(
        [[1, 0], [0, 1], [-1, 0], [0, -1], [1, 1], [2, 0], [0, 0], [1, 1]],
        [1, 1, 1, 1, 2, 2, 5, 7],
    )
    assert square.facets.rows.tolist() == [0, 1, 2, 3]
    assert square.facets.vertices.sum(axis=1).tolist() == [2, 2, 2, 2]


def test_an_inequality_that_is_tight_only_at_infinity_is_no_facet():
    ray = Polytope([[-1, 0], [0, 1], [0, -1], [0, 1]], [0, 0, 0, 5])
    assert ray.facets.rows.tolist() == [0]
    assert (ray.affine_dim, ray.f_vector) == (1, (1,))


def test_flat_and_empty_polyhedra():
    point = Polytope.from_points([[2, 3], [2, 3]])
    assert (point.affine_dim, point.vertices.tolist(), point.f_vector) == (0, [[2.0, 3.0]], ())
    assert (point.volume, point.polygon.tolist()) == (0, [[2.0, 3.0]])
    segment = Polytope.from_points([[0, 0, 0], [1, 2, 3], [2, 4, 6]])
    assert (segment.affine_dim, segment.f_vector, segment.volume) == (1, (2,), 0)
    assert segment.interior_point.tolist() == [1, 2, 3]
    hidden = Polytope([[1, 1], [-1, -1], [1, 0], [-1, 0]], [1, -1, 1, 0])
    assert (hidden.affine_dim, hidden.is_bounded) == (1, True)
    assert sorted(hidden.polygon.tolist()) == [[0.0, 1.0], [1.0, 0.0]]
    empty = Polytope([[1, 0], [-1, 0]], [0, -1])
    assert (empty.affine_dim, empty.is_empty, empty.is_bounded) == (-1, True, True)
    assert (empty.f_vector, empty.volume, empty.vertices.shape) == ((), 0, (0, 2))
    assert empty.polygon.shape == (0, 2)
    assert empty.facets.rows.shape == (0,)


@examples(60)
@given(inequalities())
def test_the_interior_point_is_strict_in_every_inequality_that_can_be(system):
    A, b = system
    polytope = Polytope(A, b)
    assume(not polytope.is_empty)
    point = polytope.interior_point
    generators = [v.tolist() for v in polytope.exact_vertices]
    for a, bound in zip(A, b.tolist(), strict=True):
        somewhere_strict = any(dot(a, v) < bound for v in generators) or any(
            dot(a, ray.tolist()) < 0 for ray in polytope.exact_rays
        )
        assert (dot(a, point) < bound) == somewhere_strict


@examples(30)
@given(inequalities(), st.data())
def test_an_intersection_holds_the_points_in_both(system, data):
    polytope = Polytope(*system)
    dim = polytope.ambient_dim
    box = Box([-2.0] * dim, [1.5] * dim)
    points = data.draw(dense_matrices(6, dim, SMALL.map(lambda x: x / 2)))
    wanted = (polytope.contains(points) & box.contains(points)).tolist()
    clipped = polytope.intersection(box)
    assert clipped.contains(points).tolist() == wanted
    assert clipped.is_bounded
    other = polytope.intersection(Polytope(*box.inequalities))
    assert exact_set(other) == exact_set(clipped)


def test_vertices_are_correctly_rounded_beyond_float_precision():
    thin = Polytope([[1.0, 2.0**-60], [-1.0, 2.0**-60], [0.0, -1.0]], [1.0, 1.0, 0.0])
    assert exact_set(thin) == {(1, 0), (-1, 0), (0, 2**60)}
    assert Polytope([[5e-324], [-1.0]], [1e300, 0.0]).vertices.max() == math.inf


def test_the_arrays_of_a_polytope_are_its_own():
    A = np.eye(2)
    polytope = Polytope(A, [1, 1])
    A[0, 0] = 7.0
    assert polytope.rows.tolist() == [[1, 0, 1], [0, 1, 1]]
    assert repr(polytope) == "Polytope(2 inequalities in R^2)"


def test_a_volume_beyond_the_floats_is_rounded_to_infinity():
    huge = Polytope(np.vstack([np.eye(2), -np.eye(2)]), [1e200] * 4)
    assert huge.volume == (2 * Fraction(1e200)) ** 2
    assert huge.volume_float == np.inf
    assert cube(2).volume_float == float(cube(2).volume)


def test_bad_polytopes_are_refused_by_name():
    with pytest.raises(ShapeMismatchError, match="`b` must have shape"):
        Polytope([[1.0, 0.0]], [1.0, 2.0])
    with pytest.raises(NonFiniteError, match="`A` must not hold NaN"):
        Polytope([[np.nan]], [1.0])
    with pytest.raises(NonFiniteError, match="`b` must not hold inf"):
        Polytope([[1.0]], [np.inf])
    with pytest.raises(EmptyInputError, match="`points`"):
        Polytope.from_points(np.zeros((0, 2)))
    with pytest.raises(EmptyInputError, match="`points`"):
        Polytope.from_scaled_points([])
    with pytest.raises(EmptyInputError, match="`A`"):
        Polytope(np.zeros((2, 0)), [1, 1])
    with pytest.raises(ShapeMismatchError, match="`points`"):
        cube(2).contains([[0.0]])
    with pytest.raises(ArgumentError, match="unbounded one in R\\^2"):
        Polytope([[1.0, 0.0]], [1.0]).polygon
    with pytest.raises(ArgumentError, match="in R\\^3"):
        cube(3).polygon
    with pytest.raises(ShapeMismatchError, match="`domain` must lie in"):
        cube(2).intersection(WholeSpace(3))
    with pytest.raises(ArgumentError, match="no interior point"):
        Polytope([[1.0], [-1.0]], [0.0, -1.0]).interior_point
