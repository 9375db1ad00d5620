"""Hulls in the plane: against the definition in fractions, at every magnitude, and large ones."""

import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax.exact.forms import AffineForms
from hardmax.geometry._hulls.planar_hulls import hull_corners
from hardmax.geometry.extreme_points import (
    active_forms,
    certify_extreme_points,
    extreme_points,
)
from tests.strategies import WILD, matrices
from tests.sweeps import examples, seeds

ODD = [5e-324, -5e-324, 0.0, -0.0, 1.0, np.nextafter(1, 2), 2.2e-308, 1e308, -1.7e308, 1.7e308]
N_KINDS = 9


def cloud(kind, rng, n):
    """Points that make life hard: repeated, on a line, on a grid, a bit apart, tiny or huge."""
    small = rng.integers(-2, 3, size=(n, 2)).astype(float)
    if kind == 0:
        return rng.normal(size=(n, 2))
    if kind == 1:
        return small[rng.integers(0, n, n)]
    if kind == 2:
        return np.outer(rng.integers(-5, 6, n), small[0]) + small[-1]
    if kind == 3:
        return small * 10.0 ** rng.integers(-320, 308, size=(n, 2))
    if kind == 4:
        return rng.choice(ODD, size=(n, 2))
    if kind == 5:
        return 1.0 + small * 2.0**-52
    if kind == 6:
        turns = rng.integers(0, 8, n) * np.pi / 4
        return np.column_stack([np.cos(turns), np.sin(turns)])
    if kind == 7:
        start, way = rng.normal(size=(2, 2))
        return start + np.outer(rng.normal(size=n), way)
    return small * 2.0 ** rng.choice([-1074, -1022, 0, 500, 1020], size=2)


def lies_outside(differences):
    """Whether some direction has a positive product with all of them: all lie in a half-plane."""
    return not differences or any(
        all(p * y - q * x > 0 or (p * y == q * x and p * x + q * y > 0) for x, y in differences)
        for p, q in differences
    )


def reference(points, extra=()):
    """Mask the first of equal points that are vertices of their hull, and of some rays."""
    rows = [tuple(map(Fraction, point)) for point in points.tolist()]
    first = {row: i for i, row in reversed(list(enumerate(rows)))}
    mask = [False] * len(rows)
    for row, i in first.items():
        others = [(x - row[0], y - row[1]) for x, y in first if (x, y) != row]
        mask[i] = lies_outside(others + list(extra))
    return mask


@pytest.mark.parametrize("seed", seeds(300))
def test_hulls_are_those_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    points = cloud(seed % N_KINDS, rng, int(rng.integers(1, 14)))
    assert extreme_points(points).tolist() == reference(points)
    forms = AffineForms(points[:, :1], points[:, 1])
    assert active_forms(forms).tolist() == reference(points, [(0, -1)])
    on_a_line = points[:, :1]
    flat = np.column_stack([on_a_line, np.zeros(len(points))])
    assert extreme_points(on_a_line).tolist() == reference(flat)


@examples(50)
@given(matrices(st.integers(1, 9), 2, WILD))
def test_wild_hulls_are_those_of_the_definition(points):
    assert extreme_points(points).tolist() == reference(points)


@pytest.mark.parametrize("kind", range(N_KINDS))
def test_hulls_are_certified(kind):
    points = cloud(kind, np.random.default_rng(kind), 30)
    proofs = certify_extreme_points(points)
    assert proofs.is_extreme.tolist() == extreme_points(points).tolist()
    assert proofs.verify(points)


def test_corners_go_round_from_the_leftmost_point():
    rng = np.random.default_rng(1)
    points = rng.integers(-20, 21, size=(200, 2)).astype(float)
    corners = hull_corners(points)
    hull = points[corners]
    ahead, back = np.roll(hull, -1, axis=0) - hull, np.roll(hull, 1, axis=0) - hull
    assert (ahead[:, 0] * back[:, 1] > ahead[:, 1] * back[:, 0]).all()
    assert corners[0] == np.lexsort((points[:, 1], points[:, 0]))[0]
    upper = hull_corners(points, is_upper=True)
    assert (np.diff(points[upper, 0]) > 0).all()


@pytest.mark.parametrize("kind", ["parabola", "circle", "grid", "line"])
def test_large_sets_take_no_quadratic_time(kind):
    n = 200_000
    rng = np.random.default_rng(2)
    along = np.arange(n) - n // 2.0
    turns = rng.uniform(0.0, 7.0, n)
    points, n_corners = {
        "parabola": (np.column_stack([along, along**2]), n),
        "circle": (np.column_stack([np.cos(turns), np.sin(turns)]), None),
        "grid": (rng.integers(0, 30, (n, 2)).astype(float), 4),
        "line": (np.column_stack([along, 3.0 * along]), 2),
    }[kind]
    order = rng.permutation(n)
    began = time.process_time()
    mask = extreme_points(points[order])
    # The search by directions takes minutes on the first two.
    assert time.process_time() - began < 5.0
    assert n_corners is None or mask.sum() == n_corners
