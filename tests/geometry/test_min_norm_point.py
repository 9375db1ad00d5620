"""The compiled nearest-point search: against least squares, at its thresholds, from warm starts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

from hardmax.geometry._hulls.nearest_points import CONTAINED, SEPARATED, UNDECIDED, nearest_point
from tests.strategies import matrices


def unit_rows(rows):
    rows = rows[np.any(rows != 0, axis=1)]
    return np.ascontiguousarray(rows / np.linalg.norm(rows, axis=1)[:, None])


def nearest_by_least_squares(rows):
    """Project (1, 0, ..., 0) onto the cone of the lifted rows (1, row)."""
    lifted = np.hstack([np.ones((len(rows), 1)), rows])
    target = np.eye(rows.shape[1] + 1)[0]
    coefficients, _ = nnls(lifted.T, target)
    return coefficients / coefficients.sum() @ rows


@given(matrices(st.integers(1, 12), st.integers(1, 5)))
def test_every_status_says_what_it_means(rows):
    rows = unit_rows(rows)
    if not len(rows):
        return
    status, support, weights, point = nearest_point(rows)
    assert status in (SEPARATED, CONTAINED)
    if status == SEPARATED:
        assert (rows @ point > 0).all()
    else:
        assert len(support) <= rows.shape[1] + 1
        assert len(set(support.tolist())) == len(support)
        assert (weights > 0).all()
        assert weights.sum() == pytest.approx(1.0)
        np.testing.assert_allclose(weights @ rows[support], 0.0, atol=1e-12)


@given(matrices(st.integers(1, 12), st.integers(1, 5)))
def test_the_status_matches_least_squares(rows):
    rows = unit_rows(rows)
    if not len(rows):
        return
    nearest = nearest_by_least_squares(rows)
    contained = np.linalg.norm(nearest) < 1e-9
    assert nearest_point(rows)[0] == (CONTAINED if contained else SEPARATED)


@pytest.mark.parametrize("n_rows", [40, 63, 64, 65, 500])
@pytest.mark.parametrize("dim", [1, 2, 7, 8, 9, 24])
def test_at_full_quality_the_point_is_the_nearest(n_rows, dim):
    rng = np.random.default_rng([n_rows, dim])
    rows = unit_rows(rng.normal(size=(n_rows, dim)) + 6.0 * np.eye(dim)[0])
    status, support, weights, point = nearest_point(rows, quality=1.0 - 1e-12)
    nearest = nearest_by_least_squares(rows)
    assert status == SEPARATED
    np.testing.assert_allclose(
        point / np.linalg.norm(point), nearest / np.linalg.norm(nearest), atol=1e-9
    )
    np.testing.assert_allclose(weights @ rows[support], nearest, atol=1e-9)


@pytest.mark.parametrize("n_rows", [63, 64, 65, 130])
def test_the_last_row_of_the_last_block_counts(n_rows):
    rows = np.tile([[1.0, 0.0]], (n_rows, 1))
    rows[-1] = [-1.0, 0.0]
    status, support, weights, _ = nearest_point(rows)
    assert status == CONTAINED
    assert n_rows - 1 in support
    np.testing.assert_allclose(weights, [0.5, 0.5])


@pytest.mark.parametrize("thickness", [1e-4, 1e-8, 1e-11])
def test_thin_cones_are_separated(thickness):
    """Normal equations would lose everything below 1e-8."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        rows = rng.normal(size=(40, 6))
        rows[:, -1] = thickness * rng.uniform(0.5, 1.0, size=40)
        rotation = np.linalg.qr(rng.normal(size=(6, 6)))[0]
        status, _, _, point = nearest_point(unit_rows(rows @ rotation))
        assert status == SEPARATED
        assert (rows @ rotation @ point > 0).all()


def test_a_start_from_the_answer_needs_one_step():
    rng = np.random.default_rng(6)
    rows = unit_rows(rng.normal(size=(60, 16)) + 3.0 * np.eye(16)[0])
    status, support, _, point = nearest_point(rows, quality=0.9)
    again = nearest_point(rows, quality=0.9, start=support, most_rounds=1)
    assert status == again[0] == SEPARATED
    np.testing.assert_allclose(again[3], point, atol=1e-12)


@given(matrices(st.integers(1, 10), st.integers(1, 4)), st.lists(st.integers(0, 9), max_size=5))
def test_any_start_gives_the_same_status(rows, start):
    rows = unit_rows(rows)
    start = [i for i in start if i < len(rows)][: rows.shape[1] + 1]
    if len(rows):
        assert nearest_point(rows, start=start)[0] == nearest_point(rows)[0]


def test_a_direction_that_separates_is_taken_as_it_is():
    rows = unit_rows(np.array([[1.0, 2.0], [2.0, 1.0]]))
    status, support, _, point = nearest_point(rows, point=[3.0, 4.0])
    assert (status, len(support), point.tolist()) == (SEPARATED, 0, [3.0, 4.0])


def test_the_iteration_limit_is_reported():
    rng = np.random.default_rng(7)
    rows = unit_rows(rng.normal(size=(100, 8)))
    assert nearest_point(rows)[0] == CONTAINED
    assert nearest_point(rows, most_rounds=3)[0] == UNDECIDED
