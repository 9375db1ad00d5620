"""Maxima of many forms as signed sums of maxima of few."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import Delaunay

from hardmax.constructions.compilers.functions.meshes import Mesh, maxout_from_mesh
from hardmax.constructions.compilers.functions.small_arity import reduce_arity, signed_faces
from hardmax.constructions.compilers.functions.tropical_forms import (
    LatticeForm,
    maxout_from_lattice,
)
from hardmax.constructions.compilers.maxout_assembly import MaxoutForm
from hardmax.constructions.compilers.maxout_compiler import compile_maxout
from hardmax.errors import ArgumentError, DtypeError
from hardmax.exact.forms import AffineForms
from hardmax.geometry.domains import Box
from hardmax.models.networks import MaxoutNetwork
from hardmax.tropical.polynomials import TropicalPolynomial
from tests.reference.networks import dot
from tests.reference.piecewise_linear import mesh_value, within
from tests.strategies import SMALL, matrices
from tests.sweeps import examples


@examples(40)
@given(
    matrices(st.integers(1, 9), st.integers(2, 3)), st.lists(st.tuples(SMALL, SMALL), min_size=3)
)
def test_the_signed_sum_is_the_maximum(rows, points):
    slopes, offsets = rows[:, :-1], rows[:, -1]
    dim = slopes.shape[1]
    faces = signed_faces(TropicalPolynomial(slopes, offsets))
    assert max(len(face) for _, face in faces) <= dim + 1
    for point in points:
        x = [Fraction(c) / 3 for c in point[:dim]]
        values = [dot(a, x) + Fraction(c) for a, c in zip(slopes, offsets, strict=True)]
        signed = sum(sign * max(values[i] for i in face) for sign, face in faces)
        assert signed == max(values)


def test_a_mesh_needs_three_tokens_only():
    rng = np.random.default_rng(0)
    points = np.concatenate([[[0, 0], [0, 1], [1, 0], [1, 1.0]], rng.random((20, 2))])
    mesh = Mesh(points, Delaunay(points).simplices, rng.normal(size=(24, 2)))
    box = Box([0, 0], [1, 1])
    form = maxout_from_mesh(mesh, box)
    small = reduce_arity(form)
    assert max(form.network.ranks[0]) > 20
    assert max(small.network.ranks[0]) == 3
    parts = mesh.vertices.tolist(), mesh.simplices.tolist(), mesh.values.tolist()
    for x in [*rng.random((15, 2)).tolist(), *points[:6].tolist()]:
        assert within(small.network, small.rounding, x, mesh_value(*parts, x))
    compiled = compile_maxout(small.network, box)
    assert compiled.size.tokens == 3
    x = rng.random((30, 2))
    np.testing.assert_allclose(compiled.transformer(x), form.network(x), atol=1e-9)


def test_an_affine_function_keeps_one_form():
    network = MaxoutNetwork([[[[1.0, 2.0]]], [[3.0, 0.0]]], [[[1.0]], None])
    form = MaxoutForm(network, np.zeros(2), Box([0, 0], [1, 1]), "convex")
    small = reduce_arity(form)
    assert small.network([[1.0, 1.0]]).tolist() == [[12.0, 0.0]]


def test_what_cannot_be_reduced_is_refused_by_name():
    with pytest.raises(DtypeError, match="`form`"):
        reduce_arity(3)
    lattice = LatticeForm(AffineForms([[1.0], [0.0]], [0.0, 0.0]), [[0], [1]])
    with pytest.raises(ArgumentError, match="one hidden layer"):
        reduce_arity(maxout_from_lattice(lattice, Box([0], [1])))
    space = MaxoutNetwork([[np.ones((2, 3))], [[1.0]]])
    with pytest.raises(ArgumentError, match="one or two variables"):
        reduce_arity(MaxoutForm(space, np.zeros(1), Box([0] * 3, [1] * 3), "convex"))
