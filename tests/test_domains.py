import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax.errors import ArgumentError, DtypeError, NonFiniteError, ShapeMismatchError
from hardmax.geometry.domains import Box, WholeSpace
from hardmax.geometry.polytopes import Polytope
from tests.dense_arrays import dense_matrices
from tests.strategies import SMALL

BOX = Box([-1.0, 0.0], [1.0, 0.5])


@given(dense_matrices(st.integers(0, 6), 2, SMALL.map(lambda x: x / 4)))
def test_a_box_and_its_inequalities_contain_the_same_points(points):
    wanted = [-1 <= x <= 1 and 0 <= y <= 0.5 for x, y in points.tolist()]
    assert BOX.contains(points).tolist() == wanted
    assert Polytope(*BOX.inequalities).contains(points).tolist() == wanted


def test_the_inequalities_of_a_box_have_its_corners():
    corners = Polytope(*BOX.inequalities).vertices.tolist()
    assert sorted(corners) == [[-1.0, 0.0], [-1.0, 0.5], [1.0, 0.0], [1.0, 0.5]]
    assert BOX.dim == 2


def test_the_whole_space_contains_everything_of_its_dimension():
    space = WholeSpace(3)
    A, b = space.inequalities
    assert A.shape == (0, 3)
    assert b.shape == (0,)
    assert space.contains([[1e308, 0, -1e308]]).tolist() == [True]
    assert Polytope(A, b).lineality.shape == (3, 3)


def test_a_box_keeps_its_own_bounds():
    low = np.zeros(2)
    box = Box(low, [1, 1])
    low[0] = 9.0
    assert box.low.tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match="read-only"):
        box.high[0] = 3.0


def test_bad_boxes_are_refused_by_name():
    with pytest.raises(ArgumentError, match=r"`low` must be below `high`.*low\[1\] = 2.0"):
        Box([0, 2], [1, 2])
    with pytest.raises(NonFiniteError, match="`high` must not hold inf"):
        Box([0], [np.inf])
    with pytest.raises(NonFiniteError, match="`low` must not hold NaN"):
        Box([np.nan], [1])
    with pytest.raises(ShapeMismatchError, match="`high` must have shape"):
        Box([0, 0], [1])
    with pytest.raises(ShapeMismatchError, match="`low` must have shape"):
        Box(0, 1)
    with pytest.raises(ArgumentError, match="`low` must have dim >= 1"):
        Box([], [])
    with pytest.raises(DtypeError, match="`low`"):
        Box(["a"], [1])
    with pytest.raises(ShapeMismatchError, match="`points` must have shape"):
        BOX.contains([[1.0]])


def test_bad_dimensions_of_space_are_refused_by_name():
    with pytest.raises(ArgumentError, match="`dim` must be at least 1"):
        WholeSpace(0)
    with pytest.raises(DtypeError, match="`dim` must be an integer"):
        WholeSpace(2.0)
    with pytest.raises(ShapeMismatchError, match="`points`"):
        WholeSpace(2).contains([[1.0]])
