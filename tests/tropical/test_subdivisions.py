"""The dual subdivision against its definition, and the theorems of tropical curves."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hardmax.errors import ArgumentError
from hardmax.geometry.double_description import cone_generators
from hardmax.tropical.polynomials import TropicalPolynomial
from tests.reference import polynomials as reference
from tests.strategies import SMALL, WILD
from tests.sweeps import examples

TINY = st.integers(-2, 2).map(float)  # Squares of coplanar lifts are common.


@st.composite
def polynomials(draw, dim, elements=TINY, max_terms=9):
    m = draw(st.integers(1, max_terms))
    slopes = draw(arrays(np.float64, (m, dim), elements=elements))
    return TropicalPolynomial(slopes, draw(arrays(np.float64, (m,), elements=elements)))


def terms(P):
    return reference.terms_of(P.slopes, P.offsets)


def as_sets(arrays_of_terms):
    return [frozenset(cell.tolist()) for cell in arrays_of_terms]


def spans_the_plane(P):
    return reference.hull_area([a for a, _ in terms(P)]) > 0


# --- one variable ---------------------------------------------------------------------------


@given(polynomials(1))
@example(TropicalPolynomial([[0], [1], [2], [3], [1]], [0, 0, 0, -5, 0]))
def test_segments_match_the_definition(P):
    division = P.dual_subdivision()
    expected = reference.largest_winning_sets(terms(P))
    assert set(as_sets(division.cells)) == set(expected)
    assert len(division.cells) == len(expected)
    for cell, point in zip(as_sets(division.cells), division.exact_dual_points, strict=True):
        assert expected[cell] == tuple(point)


@given(polynomials(1, SMALL))
def test_segments_cover_the_newton_interval(P):
    division = P.dual_subdivision()
    low, high = P.slopes.min(), P.slopes.max()
    assert sum(division.exact_volumes) == Fraction(high) - Fraction(low)
    ends = [P.slopes[corner].ravel().tolist() for corner in division.corners]
    assert ends[0][0] == low
    assert ends[-1][-1] == high
    assert all(a[-1] == b[0] for a, b in pairwise(ends))


# --- two variables --------------------------------------------------------------------------


@examples(100)
@given(polynomials(2))
@example(TropicalPolynomial([[0, 0], [2, 0], [0, 2], [2, 2], [1, 1], [1, 0]], [0] * 6))
@example(TropicalPolynomial([[0, 0], [1, 0], [2, 0], [0, 1], [2, 0]], [0, 0, 0, 0, 0]))
def test_polygons_match_the_definition(P):
    division = P.dual_subdivision()
    if spans_the_plane(P):
        expected = reference.largest_winning_sets(terms(P))
        assert sorted(map(sorted, as_sets(division.cells))) == sorted(map(sorted, expected))
        for cell, point in zip(as_sets(division.cells), division.exact_dual_points, strict=True):
            assert expected[cell] == tuple(point)
    for cell, point in zip(as_sets(division.cells), division.exact_dual_points, strict=True):
        winning = {i for i, w in enumerate(reference.attaining(terms(P), point)) if w}
        assert winning == cell


@given(st.integers(1, 2).flatmap(polynomials))
def test_regions_are_dual_to_the_vertices(P):
    division = P.dual_subdivision()
    assert division.vertices.tolist() == np.flatnonzero(P.active_terms()).tolist()
    for cell, corners in zip(division.cells, division.corners, strict=True):
        assert set(corners.tolist()) <= set(cell.tolist())


@given(polynomials(2, SMALL, max_terms=12))
def test_polygons_tile_the_newton_polygon(P):
    division = P.dual_subdivision()
    exponents = [a for a, _ in terms(P)]
    assert sum(division.exact_volumes) == reference.hull_area(exponents)
    for corners, area in zip(division.corners, division.exact_volumes, strict=True):
        polygon = [exponents[i] for i in corners.tolist()]
        assert area == reference.hull_area(polygon)
        if area:
            turns = [
                reference.cross(polygon[k - 2], polygon[k - 1], polygon[k])
                for k in range(len(polygon))
            ]
            assert min(turns) > 0  # Strictly convex and counter-clockwise.


@given(polynomials(2, SMALL, max_terms=12))
def test_vertices_edges_and_cells_obey_euler(P):
    division = P.dual_subdivision()
    if spans_the_plane(P):
        assert len(division.vertices) - len(division.edges) + division.n_cells == 1
    else:
        assert len(division.vertices) - len(division.edges) == 1


@given(polynomials(2))
def test_walls_are_dual_to_the_edges(P):
    """Between two vertices of the curve, or beyond one, exactly the edge's terms win."""
    division = P.dual_subdivision()
    if not spans_the_plane(P):
        return
    exponents = [a for a, _ in terms(P)]
    for (i, k), on_edge, (left, right) in zip(
        division.edges.tolist(), division.edge_terms, division.edge_cells.tolist(), strict=True
    ):
        here = division.exact_dual_points[left]
        if right >= 0:
            x = (here + division.exact_dual_points[right]) / 2
        else:
            step = [b - a for a, b in zip(exponents[i], exponents[k], strict=True)]
            x = here + np.array([step[1], -step[0]], dtype=object)  # Outwards: to the right.
        winning = [t for t, wins in enumerate(reference.attaining(terms(P), x)) if wins]
        assert winning == on_edge.tolist()
        assert {i, k} <= set(winning)


@given(polynomials(1, SMALL), st.sampled_from([(1, 0), (0, 1), (1, 1), (-2, 3)]))
def test_exponents_on_a_line_give_the_subdivision_of_that_line(P, direction):
    flat = TropicalPolynomial(P.slopes * np.array([direction]) + [1, 2], P.offsets)
    division, expected = flat.dual_subdivision(), P.dual_subdivision()
    assert set(as_sets(division.cells)) == set(as_sets(expected.cells))
    assert set(division.exact_volumes) == {Fraction(0)}
    assert division.vertices.tolist() == expected.vertices.tolist()


@examples(30)
@given(polynomials(2, WILD, max_terms=6))
def test_nothing_is_lost_at_extreme_scales(P):
    division = P.dual_subdivision()
    assert division.vertices.tolist() == np.flatnonzero(P.active_terms()).tolist()
    assert sum(division.exact_volumes) == reference.hull_area([a for a, _ in terms(P)])


def test_two_constructions_agree_on_random_terms():
    """The cells are the vertices of the epigraph, which double description finds."""
    rng = np.random.default_rng(3)
    slopes = rng.integers(-6, 7, size=(60, 2)).astype(float)
    P = TropicalPolynomial(slopes, -(slopes**2).sum(axis=1) + rng.integers(0, 4, size=60))
    rows = np.array([[-a, -b, 1, -c] for a, b, c in P.coefficients.integers], dtype=object)
    generators = cone_generators(np.concatenate([rows, [[0, 0, 0, 1]]]))
    finite = np.array([ray[3] > 0 for ray in generators.rays])
    expected = {frozenset(np.flatnonzero(tight[:-1])) for tight in generators.incidence[finite]}
    division = P.dual_subdivision()
    assert set(as_sets(division.cells)) == expected
    assert len(expected) == division.n_cells > 30


def test_a_lattice_paraboloid_is_dual_to_unit_squares():
    grid = np.stack(np.meshgrid(np.arange(15.0), np.arange(15.0)), axis=-1).reshape(-1, 2)
    division = TropicalPolynomial(grid, -(grid**2).sum(axis=1)).dual_subdivision()
    assert division.n_cells == 14 * 14
    assert set(division.exact_volumes) == {Fraction(1)}
    assert all(len(cell) == 4 for cell in division.cells)
    assert sorted(division.dual_points.tolist()) == sorted(
        [2.0 * i + 1, 2.0 * k + 1] for i in range(14) for k in range(14)
    )


def test_marked_terms_are_listed_but_are_no_corners():
    P = TropicalPolynomial([[0, 0], [2, 0], [0, 2], [1, 0], [0, 0], [0, 0]], [0, 0, 0, 0, 0, -1])
    division = P.dual_subdivision()
    assert [cell.tolist() for cell in division.cells] == [[0, 1, 2, 3, 4]]
    assert sorted(division.corners[0].tolist()) == [0, 1, 2]
    marked = dict(zip(map(tuple, division.edges.tolist()), division.edge_terms, strict=True))
    assert marked[0, 1].tolist() == [0, 1, 3, 4]


def test_a_single_exponent_is_one_point():
    division = TropicalPolynomial([[2, 1], [2, 1]], [0, 1]).dual_subdivision()
    assert [cell.tolist() for cell in division.cells] == [[1]]
    assert division.edges.shape == (0, 2)
    assert division.exact_volumes == (0,)


def test_three_variables_are_refused():
    with pytest.raises(ArgumentError, match=r"one or two variables.*got 3"):
        TropicalPolynomial(np.eye(3), np.zeros(3)).dual_subdivision()
