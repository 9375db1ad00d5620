"""Sparsemax: against the quadratic program in fractions, and as a piecewise linear map."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hardmax.errors import ArgumentError, HardmaxError, NonFiniteError, ShapeMismatchError
from hardmax.models.heads import AttentionHead
from hardmax.models.variants.sparsemax import SparsemaxHead
from tests.models.test_heads import COINCIDE_ONLY_ROUNDED, MODERATE, heads_and_points, small_head
from tests.reference import attention
from tests.strategies import SMALL
from tests.sweeps import examples

temperatures = st.sampled_from([5e-324, 1e-300, 1e-30, 1e-3, 0.5, 1.0, 2.0, 3.0, 8.0, 1e6, 1e300])


def projected(head, x, tau):
    """The weights by brute force over supports, 0 for masked keys."""
    scores = attention.scores(head, x)
    live = [j for j, score in enumerate(scores) if score is not None]
    p = attention.sparsemax([scores[j] / Fraction(tau) for j in live])
    weights = [Fraction(0)] * len(scores)
    for j, weight in zip(live, p, strict=True):
        weights[j] = weight
    return weights


@examples(75)
@example(COINCIDE_ONLY_ROUNDED, 2.0**-107)
@given(heads_and_points(), temperatures)
def test_weights_and_support_match_the_quadratic_program(case, tau):
    head, points = case
    sparse = SparsemaxHead(head)
    weights, support = sparse.attention_weights(points, tau), sparse.support(points, tau)
    for x, row, marks in zip(points, weights, support, strict=True):
        expected = projected(head, x, tau)
        assert marks.tolist() == [p > 0 for p in expected]
        np.testing.assert_allclose(row, [float(p) for p in expected], atol=1e-10)


@given(heads_and_points(elements=SMALL), st.integers(1, 6).map(float))
def test_it_is_one_hot_exactly_from_margin_tau_on(case, tau):
    head, points = case
    support = SparsemaxHead(head).support(points, tau)
    for x, marks in zip(points, support, strict=True):
        scores = sorted(score for score in attention.scores(head, x) if score is not None)
        margin = scores[-1] - scores[-2] if len(scores) > 1 else tau
        assert (marks.sum() == 1) == (margin >= Fraction(tau))


def test_the_threshold_is_decided_beyond_rounding():
    """The margin is 1 + 2^-60 or 1 - 2^-60: both round to 1."""
    for sign, one_hot in ((1.0, True), (-1.0, False)):
        keys = [[1.0, sign * 2.0**-60], [0.0, 0.0]]
        sparse = SparsemaxHead(AttentionHead(np.eye(2), keys, np.eye(2), np.eye(2)))
        assert (sparse.support(np.ones(2), 1.0).sum() == 1) == one_hot
    assert SparsemaxHead(AttentionHead(np.eye(1), [[1.0], [0.0]], np.eye(2), np.eye(2))).support(
        np.ones(1), 1.0
    ).tolist() == [True, False]


@given(heads_and_points(elements=MODERATE), st.sampled_from([0.1, 1.0, 10.0]))
def test_the_output_is_the_affine_map_of_its_support(case, tau):
    head, points = case
    sparse = SparsemaxHead(head)
    for x, marks in zip(points, sparse.support(points, tau), strict=True):
        matrix, offset = sparse.affine_map(marks, tau)
        size = 1 + np.abs(x) @ np.abs(matrix) + np.abs(offset)
        assert (np.abs(x @ matrix + offset - sparse(x, tau)) <= 1e-10 * size).all()
        np.testing.assert_allclose(sparse.jacobian(x, tau), matrix.T)


def test_the_map_is_continuous_and_piecewise_linear_along_a_line():
    """Second differences vanish except at the kinks, where the support changes."""
    sparse = SparsemaxHead(small_head(n_keys=6, seed=5))
    t = np.linspace(-3, 3, 2001)
    line = np.outer(t, [1.0, 0.4]) + np.array([0.1, -0.2])
    values, support = sparse(line, 0.8), sparse.support(line, 0.8)
    bend = np.abs(np.diff(values, 2, axis=0)).max(axis=1)
    same = (support[:-2] == support[2:]).all(axis=1)
    assert 2 <= np.count_nonzero(~same) <= 60
    assert bend[same].max() < 1e-12
    assert np.abs(np.diff(values, axis=0)).max() < 0.05


def test_the_jacobian_matches_finite_differences_inside_a_piece():
    sparse, tau, step = SparsemaxHead(small_head(n_keys=6, seed=5)), 0.8, 1e-6
    checked = 0
    for x in np.random.default_rng(0).normal(size=(20, 2)):
        around = [x + s * step * e for e in np.eye(2) for s in (1, -1)]
        if len(np.unique(sparse.support(np.array(around), tau), axis=0)) > 1:
            continue
        checked += 1
        difference = np.stack(
            [
                (sparse(x + step * e, tau) - sparse(x - step * e, tau)) / (2 * step)
                for e in np.eye(2)
            ],
            axis=-1,
        )
        np.testing.assert_allclose(sparse.jacobian(x, tau), difference, atol=1e-7)
    assert checked > 10


@given(heads_and_points(elements=SMALL))
def test_the_limit_of_small_temperatures_is_the_hard_head(case):
    head, points = case
    sparse = SparsemaxHead(head)
    np.testing.assert_array_equal(sparse(points, 0.0), head(points))
    np.testing.assert_array_equal(sparse.support(points, 0.0), head.tied(points))
    np.testing.assert_allclose(sparse(points, 2.0**-30), head(points), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(sparse(points, 5e-324), head(points), rtol=1e-13, atol=1e-13)


def test_no_points_give_no_answers_of_the_right_shape():
    sparse, none = SparsemaxHead(small_head()), np.empty((0, 2))
    assert sparse(none, 1.0).shape == (0, 2)
    assert sparse.support(none, 1.0).shape == (0, 4)
    assert sparse.jacobian(none, 1.0).shape == (0, 2, 2)


def test_bad_arguments_are_refused_by_name():
    sparse, x = SparsemaxHead(small_head(logit_bias=[0.0, 0.0, 0.0, -np.inf])), np.zeros(2)
    for tau in (-1.0, np.nan, "t"):
        with pytest.raises(HardmaxError, match="`tau`"):
            sparse(x, tau)
    with pytest.raises(ArgumentError, match="`tau` must be above 0"):
        sparse.jacobian(x, 0.0)
    with pytest.raises(NonFiniteError, match="`tau` is too small"):
        sparse.jacobian(x, 5e-324)
    with pytest.raises(ShapeMismatchError, match="`x`"):
        sparse(np.zeros(3), 1.0)
    with pytest.raises(ShapeMismatchError, match="`support`"):
        sparse.affine_map(np.array([True, False]), 1.0)
    for marks in ([False] * 4, [True, False, False, True]):
        with pytest.raises(ArgumentError, match="`support`"):
            sparse.affine_map(np.array(marks), 1.0)
