"""Convex functions on a mesh, as flat as the kinks of a function allow."""

import numpy as np
import pytest
from scipy.spatial import Delaunay

from hardmax.constructions.compilers.functions import meshes as mesh_liftings
from hardmax.constructions.compilers.functions.meshes import (
    Mesh,
    lifted_by_linear_program,
    lifted_by_squared_norm,
)
from hardmax.geometry.linear_programs import maximise


def random_mesh(seed, n=34, dim=2):
    rng = np.random.default_rng(seed)
    points = rng.uniform(-1, 1, (n, dim))
    return Mesh(points, Delaunay(points).simplices, rng.normal(size=len(points)))


def heights(pieces, lifting):
    values = [
        value / weight
        for corners, form in zip(pieces.corners, lifting[:, 0], strict=True)
        for value, weight in zip(corners @ form, corners[:, -1], strict=True)
    ]
    return max(map(abs, values))


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("seed", range(2))
def test_the_program_fills_every_kink_and_no_height_is_larger_than_needed(seed, dim):
    mesh = random_mesh(seed, 34 if dim == 2 else 14, dim)
    pieces, kinks = mesh.pieces, mesh.pieces.kinks()
    lifting = lifted_by_linear_program(mesh._complex, kinks)
    own = pieces.kinks(lifting)[:, 0]
    pairs = list(zip(own.tolist(), kinks[:, 0].tolist(), strict=True))
    assert all(mine > 0 and mine + given > 0 for mine, given in pairs)
    # The interpolant of |x|^2, multiplied until it fills every kink, is higher.
    round_ = lifted_by_squared_norm(mesh._complex)
    bowl = pieces.kinks(round_)[:, 0].tolist()
    multiple = max(-g / b for g, b in zip(kinks[:, 0].tolist(), bowl, strict=True))
    assert 3 * heights(pieces, lifting) < multiple * heights(pieces, round_)


def test_the_simplex_method_stands_in_where_the_interior_point_method_fails(monkeypatch):
    mesh = random_mesh(0)
    kinks = mesh.pieces.kinks()
    wanted = heights(mesh.pieces, lifted_by_linear_program(mesh._complex, kinks))

    def failing(objective, A, b, *, interior=False):
        return None if interior else maximise(objective, A, b)

    def outside(objective, A, b, *, interior=False):
        return np.zeros(A.shape[1]) if interior else maximise(objective, A, b)

    for broken in (failing, outside):
        monkeypatch.setattr(mesh_liftings, "maximise", broken)
        found = heights(mesh.pieces, lifted_by_linear_program(mesh._complex, kinks))
        assert abs(float(found.p) / float(found.q) / float(wanted) - 1) < 1e-4
    monkeypatch.setattr(mesh_liftings, "_MOST_FACETS_SIMPLEX", 1)
    assert lifted_by_linear_program(mesh._complex, kinks) is None
    monkeypatch.setattr(mesh_liftings, "_MOST_FACETS", 1)
    assert lifted_by_linear_program(mesh._complex, kinks) is None


def test_both_methods_find_the_same_optimum():
    rng = np.random.default_rng(0)
    A, b, c = rng.normal(size=(40, 3)), rng.uniform(1, 2, 40), rng.normal(size=3)
    assert abs(c @ maximise(c, A, b) - c @ maximise(c, A, b, interior=True)) < 1e-5
    empty = np.array([[1.0], [-1.0]]), np.array([-1.0, -1.0])
    assert maximise(np.ones(1), *empty, interior=True) is None
