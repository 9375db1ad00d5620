"""Whether a function is compiled as a difference of maxima or as a sum of hats."""

import numpy as np
import pytest
from scipy.spatial import Delaunay

from hardmax.constructions.compilers import cpwl_compiler
from hardmax.constructions.compilers.cpwl_compiler import compile_cpwl
from hardmax.constructions.compilers.functions.cancellation import has_cancellation
from hardmax.constructions.compilers.functions.knots import Knots, maxout_from_knots
from hardmax.constructions.compilers.functions.meshes import Mesh, maxout_from_mesh
from hardmax.errors import ArgumentError, SizeLimitError
from hardmax.geometry.domains import Box
from tests.constructions.test_cpwl_meshes import PINWHEEL, PINWHEEL_POINTS
from tests.constructions.test_hats import CUBE, clustered, random_knots


def test_the_default_is_hats_where_maxima_would_cancel():
    steep, flat = random_knots(0, 60), Knots(np.linspace(-1, 1, 60), np.linspace(-1, 1, 60) ** 3)
    assert has_cancellation(maxout_from_knots(steep, CUBE[1]), steep)
    assert not has_cancellation(maxout_from_knots(flat, CUBE[1]), flat)
    for epsilon in (None, 1e-4):
        assert compile_cpwl(steep, CUBE[1], epsilon).form.method == "hats"
        assert compile_cpwl(flat, CUBE[1], epsilon).form.method == "difference"
    assert compile_cpwl(steep, CUBE[1], method="difference").form.method == "difference"
    mesh = clustered(1, 20)
    assert has_cancellation(maxout_from_mesh(mesh, CUBE[2]), mesh)
    assert compile_cpwl(mesh, CUBE[2]).form.method == "hats"


def test_each_output_is_judged_by_its_own_size():
    steep = random_knots(0, 60)
    both = Knots(steep.positions, np.c_[1e6 * steep.positions, steep.values[:, 0]])
    compiled = compile_cpwl(both, CUBE[1])
    assert compiled.form.method == "hats"
    assert compiled.float32.errors[1] < 1e-4 * np.abs(steep.values).max()


@pytest.mark.parametrize("width", [1e-2, 1e-3])
def test_products_that_cancel_inside_of_oblique_cells_count(width):
    rng = np.random.default_rng(0)
    u, v = rng.uniform(-1, 1, (2, 14))
    points = np.c_[u + width * v, u - width * v]
    mesh = Mesh(points, Delaunay(points).simplices, rng.normal(size=14))
    box = Box(points.min(axis=0), points.max(axis=0))
    difference = compile_cpwl(mesh, box, method="difference")
    compiled = compile_cpwl(mesh, box)
    assert compiled.form.method == "hats"
    assert compiled.float32_error < difference.float32_error


def test_meshes_with_too_many_pieces_are_hats(monkeypatch):
    box = Box([0, 0], [4, 4])
    values = np.random.default_rng(0).normal(size=6)
    mesh = Mesh(PINWHEEL_POINTS, PINWHEEL, values)
    compiled = compile_cpwl(mesh, box, max_pieces=8)
    assert compiled.form.method == "hats"
    np.testing.assert_allclose(compiled(mesh.vertices)[:, 0], values, atol=1e-12)
    for keywords in ({"method": "difference"}, {"small_arity": True}):
        with pytest.raises(SizeLimitError, match=r"up to \d+ pieces"):
            compile_cpwl(mesh, box, max_pieces=8, **keywords)
    monkeypatch.setattr(cpwl_compiler, "_MOST_NUMBERS", 100)
    with pytest.raises(SizeLimitError, match=r"up to \d+ pieces"):
        compile_cpwl(mesh, box, max_pieces=8)


def test_large_ones_and_those_out_of_reach_stay_differences(monkeypatch):
    knots = random_knots(0, 60)
    monkeypatch.setattr(cpwl_compiler, "_MOST_NUMBERS", 1000)
    assert compile_cpwl(knots, CUBE[1]).form.method == "difference"
    monkeypatch.undo()
    # Vertices beyond float32, which a difference does not mind.
    huge = Knots(knots.positions * 1e60, knots.values)
    assert compile_cpwl(huge, Box([-1e60], [1e60])).form.method == "difference"
    with pytest.raises(ArgumentError, match="float32"):
        compile_cpwl(huge, Box([-1e60], [1e60]), method="hats")
