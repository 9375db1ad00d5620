"""Two facets in one hyperplane compared in floats: what is proven, and what stays open."""

import numpy as np
import pytest

from hardmax._kernels.facet_comparisons import APART, OPEN, OVERLAP, compare


def compared(rows, corners, more, *, radius=0.0, blur=0.0, directions=None):
    """Compare the last facets of two cells of equally many rows, given with their corners."""
    points = np.array([*corners, *more], dtype=float)
    dim, n = points.shape[1], len(rows) // 2
    forms = np.array([[*row, radius, radius] for row in rows], dtype=float)
    towards = np.zeros((0, dim)) if directions is None else np.array(directions, dtype=float)
    is_far = np.zeros(len(points), dtype=np.bool_)
    is_far[: len(towards)] = towards.any(axis=1)
    reach = np.inf if len(towards) else 99.0
    return compare(
        0, 1, n - 1, 2 * n - 1, np.repeat([0, 1], n), np.array([0, n, 2 * n]), forms, 2 * n, points,
        towards, is_far, np.full((2, 2), blur), np.array([0, len(corners), len(points)]),
        np.arange(len(points)), np.array([[[-reach] * dim, [reach] * dim]] * 2),
        np.empty((2 * n, dim + 1)), np.empty((3, dim)), np.empty(2 * n, dtype=np.int64),
        np.empty(len(points), dtype=np.bool_),
    )  # fmt: skip


def square(low, high):
    """Return the rows of a cell over a square in the plane z = 0 of space, and its corners."""
    (a, b), (c, d) = low, high
    rows = [[1, 0, 0, -a], [-1, 0, 0, c], [0, 1, 0, -b], [0, -1, 0, d], [0, 0, 1, 0]]
    return rows, [[x, y, 0] for x in (a, c) for y in (b, d)]


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        ((1, 1), (3, 3), OVERLAP),  # a corner of each lies in the other
        ((-1, 0.5), (3, 1.5), OVERLAP),  # they cross without a common corner
        ((0.5, 0.5), (1, 1), OVERLAP),  # one lies in the other
        ((3, 0), (4, 2), APART),
        ((2, 0), (4, 2), OPEN),  # they touch in an edge
        ((2, 2), (4, 4), OPEN),  # in a corner
    ],
)
def test_squares(low, high, verdict):
    one, corners = square((0, 0), (2, 2))
    other, more = square(low, high)
    assert compared([*one, *other], corners, more) == verdict
    assert compared([*other, *one], more, corners) == verdict
    # Good corners part the facets, whatever the rows are; where both are bad, nothing is said.
    rows = [*one, *other]
    assert compared(rows, corners, more, radius=8.0) == (APART if verdict == APART else OPEN)
    assert compared(rows, corners, more, blur=8.0) == (OVERLAP if verdict == OVERLAP else OPEN)
    assert compared(rows, corners, more, radius=8.0, blur=8.0) == OPEN


@pytest.mark.parametrize(("start", "verdict"), [(1, OVERLAP), (2, OPEN), (3, OPEN)])
def test_strips_with_corners_at_infinity(start, verdict):
    # 0 < x < 2 and start < x < start + 1, both with y > 0: they go on in one direction, so that no
    # row is negative there.
    one = [[1, 0, 0, 0], [-1, 0, 0, 2], [0, 1, 0, 0], [0, 0, 1, 0]]
    other = [[1, 0, 0, -start], [-1, 0, 0, start + 1], [0, 1, 0, 0], [0, 0, 1, 0]]
    corners = [[0, 0, 0], [2, 0, 0], [0, 0, 0], [2, 0, 0]]
    more = [[start, 0, 0], [start + 1, 0, 0], [start, 0, 0], [start + 1, 0, 0]]
    towards = [[0, 0, 0], [0, 0, 0], [0, 1, 0], [0, 1, 0]] * 2
    assert compared([*one, *other], corners, more, directions=towards) == verdict


def test_wedges_that_go_apart_are_told_apart():
    # x > |y| and -x > |y| + 1.
    one = [[1, 1, 0, 0], [1, -1, 0, 0], [0, 0, 1, 0]]
    other = [[-1, 1, 0, -1], [-1, -1, 0, -1], [0, 0, 1, 0]]
    towards = [[0, 0, 0], [1, 1, 0], [1, -1, 0], [0, 0, 0], [-1, 1, 0], [-1, -1, 0]]
    corners, more = [[0, 0, 0]] * 3, [[-1, 0, 0]] * 3
    # At the far corners of the other wedge each row of one is zero somewhere, so turn it a little.
    assert compared([*one, *other], corners, more, directions=towards) == OPEN
    other[0][1] = other[1][1] = 0
    towards[4], towards[5] = [-2, 1, 0], [-2, -1, 0]
    assert compared([*one, *other], corners, more, directions=towards) == APART
    assert compared([*one, *other], corners, more, directions=towards, blur=9.0) == OPEN


def test_facets_apart_by_no_row_of_theirs_are_parted_by_a_direction():
    # Two tetrahedra in the space w = 0 whose nearest edges cross: no facet of one has the other
    # wholly beyond it.
    one = np.array([[1.0, 1, 0], [-1, -1, 0], [5, -5, -9], [-5, 5, -9]])
    other = np.array([[1.0, -1, 1], [-1, 1, 1], [5, 5, 9], [-5, -5, 9]])
    rows = []
    for corners in (one, other):
        for k in range(4):
            a, b, c = np.delete(corners, k, axis=0)
            normal = np.cross(b - a, c - a)
            normal *= np.sign(normal @ (corners[k] - a))
            rows.append([*normal, 0.0, -normal @ a])
        rows.append([0.0, 0, 0, 1, 0])
    for own, theirs in ((rows[:4], other), (rows[5:9], one)):
        values = theirs @ np.array(own)[:, :3].T + np.array(own)[:, 4]
        assert not (values < 0).all(axis=0).any()
    flat = [[*point, 0.0] for point in (*one, *other)]
    assert compared(rows, flat[:4], flat[4:]) == APART
    assert compared(rows, flat[:4], flat[4:], blur=1.0) == OPEN
