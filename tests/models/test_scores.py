"""Scores: floats with radii that hold the truth, integers that are the truth."""

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardmax.models.heads import AttentionHead
from hardmax.models.scores import round_quotients
from tests.models.test_heads import heads_and_points
from tests.reference import attention


def live_scores(head, x):
    return [score for score in attention.scores(head, x) if score is not None]


@given(heads_and_points())
def test_enclosures_hold_the_exact_scores(case):
    head, points = case
    values, radii = head.score_map.enclose(points)
    for x, row, radius in zip(points, values, radii, strict=True):
        for score, value, r in zip(live_scores(head, x), row, radius, strict=True):
            assert r == np.inf or abs(score - Fraction(value)) <= Fraction(r)


@given(heads_and_points())
def test_exact_scores_are_the_fractions(case):
    head, points = case
    scores = head.score_map.exact(points)
    scale = Fraction(2) ** scores.exponent
    for x, row in zip(points, scores.integers, strict=True):
        assert [integer * scale for integer in row] == live_scores(head, x)


def test_rounded_scores_in_the_wrong_order_do_not_decide():
    """The sums of 0.1, 0.2, 0.3 in any order are equal; in floats they are not."""
    keys = np.array(list(permutations([0.1, 0.2, 0.3, 0.7])))
    head = AttentionHead(np.eye(4), keys, np.eye(24), np.eye(24))
    assert head.tied(np.ones(4)).all()
    # Lifting one key by 2^-90, far below the rounding, makes it the only winner.
    for lifted in range(24):
        bias = np.zeros(24)
        bias[lifted] = 2.0**-90
        head = AttentionHead(np.eye(4), keys, np.eye(24), np.eye(24), logit_bias=bias)
        assert np.flatnonzero(head.tied(np.ones(4))).tolist() == [lifted]


@given(heads_and_points(), st.sampled_from([1e-300, 1e-10, 1.0, 1e5]))
def test_logarithmic_weights_are_as_accurate_as_they_say(case, tau):
    head, points = case
    logs, _, errors = head.score_map.log_weights(points, tau)
    assert (errors <= head.score_map.weight_error).all()
    for x, row, error in zip(points, logs, errors, strict=True):
        scores = live_scores(head, x)
        for score, log in zip(scores, row, strict=True):
            true = (score - max(scores)) / Fraction(tau)
            if true > -700:
                assert abs(true - Fraction(log)) <= Fraction(error)
            else:
                assert log < -699


@given(heads_and_points(), st.sampled_from([1e-3, 1.0, 1e9]))
def test_scaled_scores_and_gaps_are_within_the_error_asked_for(case, unit):
    head, points = case
    scores, gaps = head.score_map.scaled(points, unit, 1e-12)
    for x, row, below in zip(points, scores, gaps, strict=True):
        true = live_scores(head, x)
        for score, value, gap in zip(true, row, below, strict=True):
            for exact, got in ((score, value), (score - max(true), gap)):
                exact /= Fraction(unit)
                slack = Fraction(3e-12) / Fraction(unit) + abs(exact) * Fraction(2.0**-51)
                if abs(exact) < 1e308:
                    assert abs(exact - Fraction(got)) <= slack + Fraction(5e-324)
                else:
                    assert abs(got) > 1e307


@given(heads_and_points())
def test_the_largest_score_is_rounded_within_its_radius(case):
    head, points = case
    largest = head.score_map.largest(points)
    radii = head.score_map.enclose(points).radii
    for x, got, radius in zip(points, largest, radii, strict=True):
        true = max(live_scores(head, x))
        if abs(true) > 1e308:
            assert abs(got) > 1e307
        elif np.isinf(radius).any():
            assert got == float(true)
        else:
            assert abs(true - Fraction(got)) <= Fraction(radius.max())


@pytest.mark.parametrize("exponent", [-2000, -1074, -3, 0, 5, 900])
def test_quotients_are_rounded_once(exponent):
    integers = np.array([0, 1, -3, 2**70 + 1, -(3**90)], dtype=object)
    for divisor in (1.0, 3.0, 0.1, 1e-300):
        got = round_quotients(integers, exponent, divisor)
        for integer, value in zip(integers, got, strict=True):
            exact = integer * Fraction(2) ** exponent / Fraction(divisor)
            try:
                assert value == float(exact)
            except OverflowError:
                assert value == np.sign(integer) * np.inf
