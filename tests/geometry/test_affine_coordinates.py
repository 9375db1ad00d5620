"""Well-conditioned coordinates: exact, invertible, and round."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax.exact.dyadic import scaled_integers
from hardmax.geometry._hulls import affine_coordinates as module
from hardmax.geometry._hulls.affine_coordinates import affine_coordinates
from tests.strategies import SMALL, WILD, matrices
from tests.sweeps import examples

NO_RAYS = {dim: np.empty((0, dim), dtype=object) for dim in range(9)}


def check(points, rays):
    """Everything the fields promise, in exact fractions."""
    found = affine_coordinates(points, rays)
    mapped = points @ found.transform
    assert (mapped - mapped[0] == found.points - found.points[0]).all()
    assert (rays @ found.transform == found.rays).all()
    bound = Fraction(1, 2**53) + Fraction(1, 2**900)
    for exact, rounded in zip(found.points, found.floats, strict=True):
        for x, f, e in zip(exact, rounded, found.exponents, strict=True):
            assert abs(f) <= 1
            assert abs(Fraction(float(f)) - Fraction(x, 2 ** int(e))) <= bound
    for exact, rounded in zip(found.rays, found.float_rays, strict=True):
        scaled = [Fraction(x, 2 ** int(e)) for x, e in zip(exact, found.exponents, strict=True)]
        largest = max(abs(x) for x in scaled)
        own = next(k for k in range(-9999, 9999) if Fraction(2) ** k > largest)
        for x, f in zip(scaled, rounded, strict=True):
            assert abs(Fraction(float(f)) - x / Fraction(2) ** own) <= bound
    return found


def exact_rank(rows):
    """Rank by elimination in fractions."""
    rows = [[Fraction(x) for x in row] for row in rows]
    rank = 0
    for column in range(len(rows[0]) if rows else 0):
        pivot = next((r for r in rows[rank:] if r[column]), None)
        if pivot is None:
            continue
        rows.remove(pivot)
        rows.insert(rank, pivot)
        rank += 1
        rows[rank:] = [
            [a - b * r[column] / pivot[column] for a, b in zip(r, pivot, strict=True)]
            for r in rows[rank:]
        ]
    return rank


@examples(40)
@given(matrices(st.integers(1, 7), st.integers(1, 4), st.one_of(SMALL, WILD)), st.booleans())
def test_the_coordinates_are_exact_and_of_full_rank(points, upward):
    points = scaled_integers(points).integers
    rays = np.zeros((int(upward), points.shape[1]), dtype=object)
    rays[:, -1:] = 1
    found = check(points, rays)
    rank = exact_rank([*(points - points[0]).tolist(), *rays.tolist()])
    assert found.rank == rank
    assert exact_rank([*(found.points - found.points[0]).tolist(), *found.rays.tolist()]) == rank


def test_a_rank_that_floats_cannot_see_is_found():
    big = 2**80
    points = np.array([[0, 0], [big, big], [2 * big, 2 * big + 1]], dtype=object)
    assert check(points, NO_RAYS[2]).rank == 2


def test_a_pancake_in_general_position_becomes_round():
    rng = np.random.default_rng(0)
    rotation = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    points = (rng.normal(size=(60, 5)) * np.logspace(0, -14, 5)) @ rotation
    found = check(scaled_integers(points).integers, NO_RAYS[5])
    axes = np.linalg.svd(found.floats - found.floats.mean(axis=0))[1]
    assert axes[0] < 1e4 * axes[-1]
    white = (found.floats - found.floats.mean(axis=0)) @ found.whitening
    np.testing.assert_allclose(white.T @ white / 60, np.eye(5), atol=1e-6)


@pytest.mark.parametrize("rotations", [0, 1, 2])
def test_too_few_rotations_leave_the_coordinates_exact(monkeypatch, rotations):
    monkeypatch.setattr(module, "_MAX_ROTATIONS", rotations)
    rng = np.random.default_rng(1)
    rotation = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    points = (rng.normal(size=(20, 4)) * np.logspace(0, -12, 4)) @ rotation
    check(scaled_integers(points).integers, NO_RAYS[4])


def test_directions_come_back_exactly():
    rng = np.random.default_rng(2)
    points = rng.normal(size=(30, 4)) * [1.0, 1e-3, 1e-6, 1e-9]
    integers = scaled_integers(points @ np.linalg.qr(rng.normal(size=(4, 4)))[0]).integers
    found = affine_coordinates(integers, NO_RAYS[4])
    directions = rng.integers(-100, 100, size=(6, 4)).astype(float)
    back = found.original_directions(directions)
    exponents = [Fraction(1, 2 ** int(e)) for e in found.exponents]
    wanted = [
        [
            sum(x * e * int(u) for x, e, u in zip(point, exponents, direction, strict=True))
            for point in found.points - found.points[0]
        ]
        for direction in directions.tolist()
    ]
    got = (back @ (integers - integers[0]).T).tolist()
    for wanted_row, got_row in zip(wanted, got, strict=True):
        scale = next(g / w for w, g in zip(wanted_row, got_row, strict=True) if w)
        assert scale > 0
        assert [w * scale for w in wanted_row] == got_row
