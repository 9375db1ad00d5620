"""Facets of convex hulls: against the search for vertices, and theorems about polytopes."""

from math import comb

import numpy as np
import pytest

from hardmax.geometry import convex_hulls, extreme_points
from hardmax.geometry.convex_hulls import convex_hull, extreme_corners, hull_edges
from hardmax.geometry.extreme_points import verify_extreme_points


def small_integers(rng, n, dim):
    return rng.integers(-2, 3, (n, dim)).astype(float)


def bits(rng, n, dim):
    return rng.integers(0, 2, (n, dim)).astype(float)


def gaussian(rng, n, dim):
    return rng.standard_normal((n, dim))


def all_magnitudes(rng, n, dim):
    sizes = rng.choice([0.0, 5e-324, 1e-300, 1e-20, 1.0, 3.0, 1e20, 1e300], (n, dim))
    return sizes * rng.choice([-1, 1], (n, dim))


def last_bits(rng, n, dim):
    return rng.integers(0, 3, (n, dim)) + rng.choice([0.0, 0.0, 2.0**-51], (n, dim))


def in_a_plane_up_to_a_bit(rng, n, dim):
    points = rng.integers(-3, 4, (n, dim)).astype(float)
    points[:, -1] = points[:, :-1].sum(axis=1) + rng.choice([0.0, 0.0, 0.0, 5e-324, 1e-15], n)
    return points


def unit_vectors(rng, n, dim):
    points = rng.standard_normal((n, dim))
    points /= np.linalg.norm(points, axis=1)[:, None]
    return np.r_[points, -points[: n // 3], points[: n // 4]]


FAMILIES = [
    small_integers,
    bits,
    gaussian,
    all_magnitudes,
    last_bits,
    in_a_plane_up_to_a_bit,
    unit_vectors,
]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
@pytest.mark.parametrize("dim", [3, 4, 5])
def test_extreme_points_are_those_of_the_search_with_proofs(family, dim):
    rng = np.random.default_rng(dim)
    for _ in range(8):
        points = family(rng, int(rng.integers(1, 30)), dim)
        proofs = extreme_points.certify_extreme_points(points)
        assert verify_extreme_points(points, proofs)
        assert extreme_points.extreme_points(points).tolist() == proofs.is_extreme.tolist()


@pytest.mark.parametrize("radius", [None, 1.0])
def test_many_points_in_five_dimensions_are_decided_either_way(radius):
    """All facets of a cloud, a direction for each point of a sphere."""
    points = np.random.default_rng(2).standard_normal((200, 5))
    if radius:
        points *= radius / np.linalg.norm(points, axis=1)[:, None]
    assert extreme_points._has_few_facets(points) == (radius is None)
    found = extreme_points.extreme_points(points)
    assert np.flatnonzero(found).tolist() == extreme_corners(convex_hull(points)).tolist()


def test_a_hull_of_too_many_facets_is_given_up(monkeypatch):
    monkeypatch.setattr(convex_hulls, "_INITIAL_FACETS", 0)
    monkeypatch.setattr(convex_hulls, "_MOST_FACETS", 10)
    monkeypatch.setattr(convex_hulls, "_MOST_PER_POINT", 0)
    points = np.random.default_rng(0).standard_normal((50, 4))
    assert convex_hull(points) is None
    found = extreme_points.extreme_points(points)
    monkeypatch.undo()
    assert np.flatnonzero(found).tolist() == extreme_corners(convex_hull(points)).tolist()


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_eulers_formula_holds_in_space(family):
    rng = np.random.default_rng(1)
    n_hulls = 0
    for _ in range(20):
        points = family(rng, 40, 3)
        hull = convex_hull(points)
        if hull is None:
            continue
        corners = extreme_corners(hull)
        hull = convex_hull(points[corners])
        assert len(corners) - len(hull_edges(hull)) + hull.n_faces == 2
        n_hulls += 1
    assert n_hulls > 10


@pytest.mark.parametrize("dim", [3, 4, 5])
def test_cubes_have_the_faces_of_cubes(dim):
    grid = np.array(list(np.ndindex(*(3,) * dim)), dtype=float)
    hull = convex_hull(np.random.default_rng(0).permutation(grid))
    assert hull.n_faces == 2 * dim
    corners = extreme_corners(hull)
    assert len(corners) == 2**dim
    cube = convex_hull(np.array(list(np.ndindex(*(2,) * dim)), dtype=float))
    assert cube.n_faces == 2 * dim
    assert len(hull_edges(cube)) == dim * 2 ** (dim - 1)


@pytest.mark.parametrize(("dim", "n"), [(4, 60), (5, 30)])
def test_cyclic_polytopes_have_as_many_facets_as_there_can_be(dim, n, monkeypatch):
    """Room for facets is asked for again and again: in four dimensions n (n - 3) / 2 of them."""
    monkeypatch.setattr(convex_hulls, "_INITIAL_FACETS", 0)
    t = np.arange(n, dtype=float)
    hull = convex_hull(np.stack([t**k for k in range(1, dim + 1)], axis=1))
    half = dim // 2
    most = comb(n - half, half) + comb(n - half - 1, half - 1) if dim == 4 else 2 * comb(n - 3, 2)
    assert hull.n_faces == len(hull.corners) == most
    # Every two of its points are joined by an edge.
    assert len(hull_edges(hull)) == comb(n, 2)


@pytest.mark.parametrize("dim", [3, 4, 5])
def test_points_in_a_plane_have_no_facets(dim):
    rng = np.random.default_rng(0)
    points = rng.integers(-5, 6, (40, dim)).astype(float)
    points[:, -1] = points[:, 0]
    assert convex_hull(points) is None
    points[7, -1] += 2.0**-40
    assert convex_hull(points) is not None
    assert convex_hull(points[:dim]) is None
    assert convex_hull(np.ones((20, dim))) is None
