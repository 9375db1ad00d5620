from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax.errors import ArgumentError, DtypeError, NonFiniteError, ShapeMismatchError
from hardmax.geometry.domain_protocol import compose_charts
from hardmax.geometry.domains import Box, Line, Ray, Segment, Slice, WholeSpace
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


def test_a_slice_is_its_chart():
    piece = Slice([1.0, 2.0, 3.0], [[1.0, 0.0, 0.5], [0.0, 2.0, 0.0]], Box([0, -1], [2, 0.5]))
    assert (piece.dim, piece.ambient_dim) == (2, 3)
    t = np.array([[0.0, 0.0], [2.0, 0.5]])
    assert piece.points(t).tolist() == [[1.0, 2.0, 3.0], [3.0, 3.0, 4.0]]
    weight, bias = piece.chart
    assert np.array_equal(t @ weight + bias, piece.points(t))
    assert Polytope.from_rows(piece.exact_rows.tolist(), 2).contains(t).tolist() == [True, True]


def test_a_slice_without_a_box_is_unbounded_and_a_polytope_keeps_its_exact_rows():
    assert Slice([0.0, 0.0], [[1.0, 3.0]]).exact_rows.shape == (0, 2)
    third = Polytope.from_rows([(3, 1), (-1, 0)], 1)
    assert Slice([0.0, 0.0], [[1.0, 3.0]], third).exact_rows.tolist() == [[3, 1], [-1, 0]]


def test_the_chart_of_a_segment_is_exact_where_the_difference_of_its_ends_is_not():
    segment = Segment([0.1, 1e300], [0.3, -1e-300])
    exact = compose_charts(segment.exact_chart)
    scale = Fraction(2) ** exact.exponent
    rows = [[x * scale for x in row] for row in exact.integers.tolist()]
    pairs = zip(segment.start.tolist(), segment.end.tolist(), strict=True)
    assert rows == [[Fraction(q) - Fraction(p), Fraction(p)] for p, q in pairs]
    assert segment.points([[0.0], [1.0]]).tolist() == [[0.1, 1e300], [0.3, -1e-300]]
    assert segment.exact_rows.tolist() == [[1, 1], [-1, 0]]


def test_lines_and_rays_start_at_their_origin():
    for domain in (Line([1.0, 2.0], [0.0, 3.0]), Ray([1.0, 2.0], [0.0, 3.0])):
        assert domain.points([[0.0], [2.0]]).tolist() == [[1.0, 2.0], [1.0, 8.0]]
        assert (domain.dim, domain.ambient_dim) == (1, 2)
    assert Line([0.0], [1.0]).exact_rows.shape == (0, 2)
    assert Ray([0.0], [1.0]).exact_rows.tolist() == [[-1, 0]]


def test_the_exact_rows_of_a_box_are_its_inequalities():
    rows = BOX.exact_rows.tolist()
    for (a, b), row in zip(zip(*BOX.inequalities, strict=True), rows, strict=True):
        factor = Fraction(row[-1]) / Fraction(b) if b else None
        if factor is not None:
            assert factor > 0
            assert [Fraction(x) * factor for x in a.tolist()] == row[:-1]
    assert (BOX.chart, BOX.ambient_dim) == (None, 2)
    assert WholeSpace(2).exact_rows.shape == (0, 3)
    assert (WholeSpace(2).chart, WholeSpace(2).ambient_dim) == (None, 2)


def test_bad_slices_and_lines_are_refused():
    with pytest.raises(
        ArgumentError, match="`directions` must be linearly independent; got 2 vectors"
    ):
        Slice([0.0, 0.0], [[1.0, 2.0], [2.0, 4.0]])
    with pytest.raises(
        ArgumentError, match="`directions` must be linearly independent; got 1 vector of rank 0"
    ):
        Slice([0.0, 0.0], [[0.0, 0.0]])
    with pytest.raises(
        ArgumentError, match="`box` must have dimension 1, the number of directions"
    ):
        Slice([0.0, 0.0], [[1.0, 2.0]], BOX)
    with pytest.raises(DtypeError, match=r"`box` must be full-dimensional.*; got Segment"):
        Slice([0.0, 0.0], [[1.0, 2.0]], Segment([0.0], [1.0]))
    with pytest.raises(ShapeMismatchError, match="`directions` must have shape"):
        Slice([0.0, 0.0], [[1.0, 2.0, 3.0]])
    with pytest.raises(ArgumentError, match="`end` must differ from `start`"):
        Segment([0.0, 1.0], [0.0, 1.0])
    with pytest.raises(ArgumentError, match="`direction` must not be zero"):
        Line([0.0, 1.0], [0.0, 0.0])
    with pytest.raises(NonFiniteError, match="`origin` must not hold NaN"):
        Ray([np.nan, 1.0], [0.0, 1.0])
    with pytest.raises(ShapeMismatchError, match="`coordinates` must have shape"):
        Ray([0.0, 1.0], [0.0, 1.0]).points([[1.0, 2.0]])
