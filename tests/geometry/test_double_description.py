from itertools import combinations, product
from math import comb, factorial

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hardmax.errors import DtypeError, ShapeMismatchError
from hardmax.geometry.double_description import cone_generators, sparse_cone_generators
from tests.dense_arrays import dense
from tests.reference.diagrams import extreme_ray_values, null_space, primitive, products, rank
from tests.sweeps import examples

ENTRIES = st.sampled_from([0, 0, 1, 1, -1, -1, 2, -3, 10**25, -(10**25) + 1])


@st.composite
def cones(draw):
    dim = draw(st.integers(1, 4))
    n_rows = draw(st.integers(0, 7))
    small = st.integers(-2, 2)
    elements = draw(st.sampled_from([small, ENTRIES]))
    return draw(dense((n_rows, dim), elements, object))


def cone_of(polytope_rows):
    return np.array(polytope_rows, dtype=object)


def cube(dim):
    """Homogenised [-1, 1]^dim: variables (x, t)."""
    rows = []
    for k in range(dim):
        for sign in (1, -1):
            rows.append([sign * (c == k) for c in range(dim)] + [1])
    return cone_of(rows)


def cross_polytope(dim):
    return cone_of([[*signs, 1] for signs in product((1, -1), repeat=dim)])


def cyclic_polar(n_points, dim):
    """The cone whose rows are (t, t^2, ..., t^dim, 1): its rays are the facets of the moment
    curve's polytope."""
    return cone_of([[t**k for k in range(1, dim + 1)] + [1] for t in range(n_points)])


@examples(120)
@given(cones())
@example(np.zeros((0, 3), dtype=object))
@example(np.zeros((3, 2), dtype=object))
@example(cone_of([[1, 0], [-1, 0], [0, 1], [0, -1]]))
@example(cone_of([[1, 1, 0], [-1, -1, 0], [0, 1, 1], [0, 2, 2], [0, 0, 0]]))
@example(cone_of([[1, 0, 1], [-1, 0, 1], [0, 1, 1], [0, -1, 1]]))
def test_rays_match_the_definition(rows):
    dim = rows.shape[1]
    got = cone_generators(rows)
    wanted = extreme_ray_values(rows.tolist(), dim)
    values = [primitive(products(rows.tolist(), ray)) for ray in got.rays.tolist()]
    assert set(values) == wanted
    assert len(values) == len(wanted)
    assert got.incidence.tolist() == [
        [v == 0 for v in products(rows.tolist(), ray)] for ray in got.rays.tolist()
    ]
    assert got.lineality.shape == (len(null_space(rows.tolist(), dim)), dim)
    for line in got.lineality.tolist():
        assert not any(products(rows.tolist(), line))
        assert line == list(primitive(line))
    assert rank(got.lineality.tolist(), dim) == got.lineality.shape[0]
    assert all(ray == list(primitive(ray)) for ray in got.rays.tolist())


@examples(60)
@given(cones(), st.randoms(use_true_random=False))
def test_the_order_of_insertion_does_not_matter(rows, random):
    n_rows, dim = rows.shape
    order = list(range(n_rows))
    random.shuffle(order)
    plain = [tuple(row) for row in rows.tolist()]
    values = [
        {primitive(products(plain, ray)) for ray in result.rays}
        for result in (
            sparse_cone_generators(plain, dim),
            sparse_cone_generators(plain, dim, order),
            sparse_cone_generators(plain, dim, order, mostly_redundant=True),
        )
    ]
    assert values[0] == values[1] == values[2]


@examples(100)
@given(cones())
@example(cone_of([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]]))
def test_skipping_rows_that_do_not_touch_the_cone_loses_no_incidence(rows):
    plain = [tuple(row) for row in rows.tolist()]
    everything = sparse_cone_generators(plain, rows.shape[1])
    needed = sparse_cone_generators(plain, rows.shape[1], mostly_redundant=True)
    assert dict(zip(everything.rays, everything.tight, strict=True)) == dict(
        zip(needed.rays, needed.tight, strict=True)
    )


@pytest.mark.parametrize("dim", [1, 2, 3, 4, 6])
def test_a_cube_has_its_corners(dim):
    got = cone_generators(cube(dim))
    assert sorted(got.rays.tolist()) == sorted([*c, 1] for c in product((-1, 1), repeat=dim))
    assert (got.incidence.sum(axis=1) == dim).all()


@pytest.mark.parametrize("dim", [2, 3, 4, 5])
def test_a_cross_polytope_is_not_simple_and_has_its_corners(dim):
    got = cone_generators(cross_polytope(dim))
    wanted = [[s * (c == k) for c in range(dim)] + [1] for k in range(dim) for s in (1, -1)]
    assert sorted(got.rays.tolist()) == sorted(wanted)
    assert (got.incidence.sum(axis=1) == 2 ** (dim - 1)).all()


@pytest.mark.parametrize(("n_points", "dim"), [(5, 2), (8, 3), (8, 4), (10, 5), (9, 6)])
def test_a_cyclic_polytope_has_the_facets_of_the_upper_bound_theorem(n_points, dim):
    half = dim // 2
    if dim % 2:
        facets = 2 * comb(n_points - half - 1, half)
    else:
        facets = comb(n_points - half, half) + comb(n_points - half - 1, half - 1)
    got = cone_generators(cyclic_polar(n_points, dim))
    assert got.rays.shape[0] == facets
    assert (got.incidence.sum(axis=1) == dim).all()


def test_the_permutahedron_of_order_four_has_its_vertices():
    """A simple polytope in a hyperplane: the equality is hidden as a pair of inequalities."""
    rows = []
    for size in (1, 2, 3, 4):
        for subset in combinations(range(4), size):
            rows.append([(c in subset) * 1 for c in range(4)] + [-size * (size + 1) // 2])
    rows.append([-1] * 4 + [10])
    got = cone_generators(cone_of(rows))
    assert got.rays.shape[0] == factorial(4)
    assert {tuple(sorted(ray)) for ray in got.rays[:, :4].tolist()} == {(1, 2, 3, 4)}


def test_the_whole_space_has_no_rays():
    got = cone_generators(np.zeros((0, 3), dtype=object))
    assert got.lineality.tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert got.rays.shape == (0, 3)
    assert got.incidence.shape == (0, 0)


def test_the_zero_cone_has_no_generators():
    got = cone_generators(cone_of([[1, 0], [0, 1], [-1, -1]]))
    assert got.lineality.shape == (0, 2)
    assert got.rays.shape == (0, 2)


def test_a_half_line_has_one_ray():
    got = cone_generators(cone_of([[3], [5], [0]]))
    assert got.rays.tolist() == [[1]]
    assert got.incidence.tolist() == [[False, False, True]]


def test_nearly_parallel_rows_beyond_float_precision_are_told_apart():
    big = 2**200
    got = cone_generators(cone_of([[big, -big + 1, 0], [-big, big + 1, 0], [0, 0, 1]]))
    assert {tuple(ray) for ray in got.rays.tolist()} == {
        (0, 0, 1),
        (big + 1, big, 0),
        (big - 1, big, 0),
    }


def test_rows_that_are_not_integers_are_refused():
    with pytest.raises(DtypeError, match="`rows` must hold Python integers"):
        cone_generators(np.array([[0.5]]))
    with pytest.raises(DtypeError, match="`rows`"):
        cone_generators(np.array([[1, 0.5]], dtype=object))
    with pytest.raises(ShapeMismatchError, match="`rows` must have shape"):
        cone_generators(np.array([1, 2]))
