"""Quadrics: sides, inertia and the eleven kinds of plane conics, exactly."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax.errors import ArgumentError, NonFiniteError, ShapeMismatchError
from hardmax.models.variants.quadrics import Quadric, inertia, solve_rational

entries = st.integers(-3, 3)


@given(st.integers(1, 4), st.data())
def test_inertia_counts_the_signs_of_the_eigenvalues(n, data):
    rows = data.draw(st.lists(st.lists(entries, min_size=n, max_size=n), min_size=n, max_size=n))
    matrix = np.array(rows) + np.array(rows).T
    got = inertia(matrix.astype(object))
    # Integer matrices this small have no eigenvalue between 0 and 1e-9.
    eigenvalues = np.linalg.eigvalsh(matrix.astype(float))
    assert got.positive == np.count_nonzero(eigenvalues > 1e-9)
    assert got.negative == np.count_nonzero(eigenvalues < -1e-9)
    assert sum(got) == n


@pytest.mark.parametrize(
    ("coefficients", "conic"),
    [
        ((1, 0, 1, 0, 0, -1), "circle"),
        ((-1, 0, -1, 0, 0, 1), "circle"),
        ((1, 0, 2, 0, 0, -1), "ellipse"),
        ((1, 1, 1, 0, 0, -1), "ellipse"),
        ((1, 0, 1, 0, 0, 1), "empty"),
        ((1, 0, 1, -2, 0, 1), "point"),
        ((1, 0, -1, 0, 0, 1), "hyperbola"),
        ((0, 1, 0, 0, 0, -1), "hyperbola"),
        ((1, 0, -1, 0, 0, 0), "crossing lines"),
        ((1, 0, 0, 0, 1, 0), "parabola"),
        ((1, 2, 1, 1, 0, 0), "parabola"),
        ((1, 0, 0, 0, 0, -1), "parallel lines"),
        ((1, 0, 0, 0, 0, 1), "empty"),
        ((1, 2, 1, 0, 0, 0), "double line"),
        ((0, 0, 0, 1, 2, 3), "line"),
        ((0, 0, 0, 0, 0, 0), "plane"),
        ((0, 0, 0, 0, 0, 5), "empty"),
    ],
)
@pytest.mark.parametrize("scale", [1, -3])
def test_every_kind_of_conic_is_recognised(coefficients, conic, scale):
    """a x^2 + b x y + c y^2 + d x + e y + f."""
    a, b, c, d, e, f = (Fraction(scale * value) for value in coefficients)
    quadric = Quadric(np.array([[a, b / 2], [b / 2, c]]), np.array([d, e]), f)
    assert quadric.conic == conic


@given(st.lists(entries, min_size=6, max_size=6))
def test_the_kind_agrees_with_the_signs_on_a_grid(coefficients):
    """An empty conic or a point has no two points of opposite sign, a curve that crosses has."""
    a, b, c, d, e, f = (Fraction(value) for value in coefficients)
    quadric = Quadric(np.array([[a, b / 2], [b / 2, c]]), np.array([d, e]), f)
    side = np.concatenate([np.linspace(-4, 4, 17), [-1e6, 1e6]])
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    signs = set(quadric.sign(grid).tolist())
    if quadric.conic in ("empty", "point", "double line", "plane"):
        assert not {-1, 1} <= signs
    if quadric.conic in ("hyperbola", "crossing lines", "parabola", "line"):
        assert {-1, 1} <= signs
    if quadric.conic == "empty":
        assert 0 not in signs


def test_an_affine_change_of_coordinates_keeps_the_kind():
    rng = np.random.default_rng(0)
    for _ in range(50):
        matrix = rng.integers(-3, 4, (2, 2))
        matrix = matrix + matrix.T
        linear, constant = rng.integers(-3, 4, 2), int(rng.integers(-3, 4))
        quadric = Quadric(matrix.astype(object), linear.astype(object), constant)
        shear, move = np.array([[1, 2], [1, 3]], dtype=object), np.array([5, -7], dtype=object)
        moved = Quadric(
            shear.T @ matrix @ shear,
            shear.T @ (2 * matrix @ move + linear),
            move @ matrix @ move + linear @ move + constant,
        )
        assert moved.conic.replace("circle", "ellipse") == quadric.conic.replace(
            "circle", "ellipse"
        )


def test_signs_are_exact_next_to_the_curve():
    unit = Quadric(np.eye(2), np.zeros(2), -1)
    assert unit.sign(np.array([1.0, 2.0**-300])) == 1
    assert unit.sign(np.array([1.0, 0.0])) == 0
    assert unit.sign(np.array([1.0 - 2.0**-53, 0.0])) == -1


def test_the_centre_solves_the_gradient_and_exists_only_for_regular_matrices():
    quadric = Quadric(np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([1.0, -1.0]), 0.5)
    gradient = 2 * quadric.matrix @ quadric.centre + quadric.linear
    assert gradient.tolist() == [0, 0]
    value = quadric.centre @ quadric.matrix @ quadric.centre + quadric.linear @ quadric.centre
    assert quadric.level == -(value + quadric.constant)
    parabola = Quadric(np.diag([1.0, 0.0]), np.array([0.0, 1.0]), 0)
    assert parabola.centre is None
    assert parabola.level is None


def test_solving_needs_row_exchanges_and_refuses_singular_systems():
    matrix = np.array([[0, 2], [3, 1]], dtype=object)
    assert solve_rational(matrix, np.array([4, 5], dtype=object)).tolist() == [1, 2]
    assert solve_rational(np.ones((2, 2), dtype=object), np.ones(2, dtype=object)) is None


def test_bad_arguments_are_refused_by_name():
    with pytest.raises(ArgumentError, match="`matrix` must be symmetric"):
        Quadric(np.array([[1.0, 2.0], [0.0, 1.0]]), np.zeros(2), 0)
    with pytest.raises(ShapeMismatchError, match="`linear`"):
        Quadric(np.eye(2), np.zeros(3), 0)
    with pytest.raises(ShapeMismatchError, match="dim >= 1"):
        Quadric(np.empty((0, 0)), np.empty(0), 0)
    with pytest.raises(NonFiniteError, match="`matrix`"):
        Quadric(np.array([[np.nan]]), np.zeros(1), 0)
    with pytest.raises(NonFiniteError, match="`constant`"):
        Quadric(np.eye(1), np.zeros(1), np.inf)
    with pytest.raises(NonFiniteError, match="`linear`"):
        Quadric(np.eye(1), ["a"], 0)
    with pytest.raises(ArgumentError, match="dim = 3"):
        Quadric(np.eye(3), np.zeros(3), 0).conic
    with pytest.raises(ShapeMismatchError, match="`x`"):
        Quadric(np.eye(2), np.zeros(2), 0).sign(np.zeros(3))
